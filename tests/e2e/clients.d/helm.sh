# shellcheck shell=bash
# Helm: charts as OCI artifacts, and the same ones as a classic repository.
echo "== helm"

registry_of_charts=charts.example.com/stable
charts=$repo/tests/charts
export GNUPGHOME=$WORK/gnupg

signed_chart() {
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-gen-key 'Charts <charts@example.com>' rsa3072 sign never
    gpg --batch --export >pubring.gpg
    gpg --batch --export-secret-keys >secring.gpg
    helm create signed
    helm package --sign --key charts@example.com --keyring secring.gpg signed
    test -s signed-0.1.0.tgz.prov
}
must 'a chart is made and signed' signed_chart

push_charts() {
    local archive
    for archive in "$charts"/*.tgz signed-0.1.0.tgz; do
        helm push --plain-http "$archive" "oci://$mirror/$registry_of_charts"
    done
}
must 'helm pushes charts' push_charts

# each_chart FUNCTION: calls it with archive, name and version of every chart.
each_chart() {
    local archive name
    for archive in "$charts"/*.tgz signed-0.1.0.tgz; do
        name=$(basename "$archive" .tgz)
        # names have hyphens, versions begin with a digit or v and a digit
        "$1" "$archive" "$(sed 's/-v\{0,1\}[0-9].*//' <<<"$name")" "$(sed 's/^.*-\(v\{0,1\}[0-9]\)/\1/' <<<"$name")"
    done
}
oci_chart() {
    rm -rf oci && mkdir oci
    helm pull --plain-http "oci://$mirror/$registry_of_charts/$2" --version "$3" -d oci
    cmp "$1" "oci/${1##*/}"
    helm show chart --plain-http "oci://$mirror/$registry_of_charts/$2" --version "$3" | grep -x "name: $2"
}
check 'helm pulls each from the registry, byte for byte, and shows it' each_chart oci_chart

classic_repository() {
    helm repo add site "http://$mirror/charts/$registry_of_charts"
    helm repo update
    helm search repo site/ --versions -o json | jq -r '.[].name' | sort >found
    each_chart classic_chart
    [ "$(wc -l <found)" = "$(ls "$charts"/*.tgz signed-0.1.0.tgz | wc -l)" ]
}
classic_chart() {
    rm -rf classic && mkdir classic
    grep -x "site/$2" found
    helm pull "site/$2" --version "$3" -d classic
    cmp "$1" "classic/${1##*/}"
}
check 'helm adds the classic repository, finds and pulls each, byte for byte' classic_repository

provenance() {
    rm -rf oci classic && mkdir oci classic
    helm pull --plain-http --verify --keyring pubring.gpg "oci://$mirror/$registry_of_charts/signed" --version 0.1.0 -d oci
    helm pull --verify --keyring pubring.gpg site/signed --version 0.1.0 -d classic
    cmp signed-0.1.0.tgz.prov oci/signed-0.1.0.tgz.prov
    cmp signed-0.1.0.tgz.prov classic/signed-0.1.0.tgz.prov
    # a key ring without the key refuses
    gpg --batch --quiet --passphrase '' --quick-gen-key 'Other <other@example.com>' rsa3072 sign never
    gpg --batch --export other@example.com >other.gpg
    fails helm pull --verify --keyring other.gpg site/signed --version 0.1.0 -d classic
}
check 'helm verifies the provenance of a signed chart, both ways' provenance

# The same chart in a classic repository of somebody else, carried over to another site.
carried=127.0.0.1:5002
carry_provenance() {
    mkdir -p signed-packages
    cat >signed-packages/signed.yaml <<EOF
apiVersion: kubepkg.dev/v1
kind: PackageSource
metadata: {name: signed}
spec:
  version: "0.1.0"
  variants:
  - name: default
    components:
    - name: signed
      chart: {repository: "http://$mirror/charts/$registry_of_charts", name: signed, version: "0.1.0"}
EOF
    kubepkg repo keygen charts
    kubepkg repo index signed-packages --sign-key charts.key -o signed-packages/index.yaml
    kubepkg bundle create signed --no-images signed --repo signed-packages/index.yaml --public-key charts.pub -o signed.tar
    kubepkg bundle import signed.tar --store carried --public-key charts.pub
}
provenance_after_import() {
    rm -rf oci classic && mkdir oci classic
    local place=${mirror/:/_}/charts/$registry_of_charts
    helm repo add carried "http://$carried/charts/$place"
    helm pull --verify --keyring pubring.gpg carried/signed --version 0.1.0 -d classic
    helm pull --plain-http --verify --keyring pubring.gpg "oci://$carried/$place/signed" --version 0.1.0 -d oci
    cmp signed-0.1.0.tgz.prov classic/signed-0.1.0.tgz.prov
    cmp signed-0.1.0.tgz.prov oci/signed-0.1.0.tgz.prov
    fails helm pull --verify --keyring other.gpg carried/signed --version 0.1.0 -d classic
}
check 'a signed chart of a classic repository is carried' carry_provenance
daemon carried "$KUBEPKG" mirror serve --store carried --listen "$carried"
check 'the carried mirror is served' await carried answers "http://$carried/healthz"
check 'helm verifies its provenance there, both ways' provenance_after_import
stop carried
