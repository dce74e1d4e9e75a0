# shellcheck shell=bash
# A classic Helm repository behind a password, its answers compressed on the way.
echo "== a Helm repository behind a password"

# Charts, their index by helm, and packages that take one each.
chart_repository() {
    local chart
    mkdir -p charts/stable
    cp "$repo"/tests/charts/{alertmanager-1,prometheus-pushgateway-3}.*.tgz charts/stable/
    helm repo index charts/stable
}
helm_adds_it() {
    helm repo add stable https://charts.example.com/stable --username "$user" --password "$password" --ca-file pki/own.pem
    mkdir by-helm
    helm pull stable/alertmanager --version 1.42.0 -d by-helm
    cmp by-helm/alertmanager-1.42.0.tgz charts/stable/alertmanager-1.42.0.tgz
    # where Helm keeps it; the test's folder is the user's here
    grep -F "$password" "$XDG_CONFIG_HOME/helm/repositories.yaml" >/dev/null
}
compressed() {
    curl -fsS --cacert pki/own.pem -u "$user:$password" -H 'Accept-Encoding: gzip' -D headers -o zipped https://charts.example.com/stable/index.yaml
    grep -i '^content-encoding: gzip' headers
    gzip -dc zipped | cmp - charts/stable/index.yaml
}
classic_packages() {
    mkdir -p classic
    printf '%s\n' 'apiVersion: kubepkg.dev/v1' 'kind: PackageSource' 'metadata: {name: classic}' 'spec:' '  version: 1.0.0' '  build: 1' \
        '  variants:' '  - name: default' '    components:' \
        '    - {name: a, chart: {repository: "https://charts.example.com/stable", name: alertmanager, version: 1.42.0}}' \
        '    - {name: b, chart: {repository: "https://charts.example.com/stable", name: prometheus-pushgateway, version: 3.8.0}}' \
        >classic/classic.yaml
}
index_of_it() {
    classic_packages
    kubepkg repo keygen classic-key
    kubepkg -vvv repo index classic --sign-key classic-key.key -o classic.yaml "${ca[@]}" >said 2>&1 || {
        cat said
        return 1
    }
    keeps_secrets
    grep -F "$(sha256sum <charts/stable/alertmanager-1.42.0.tgz | cut -d' ' -f1)" classic.yaml
}
# classic FLAGS…: a bundle with both charts.
classic() {
    rm -f classic.tar
    kubepkg -vvv bundle create classic --repo ./classic.yaml --public-key classic-key.pub --no-images classic -o classic.tar "$@" >said 2>&1 || {
        local rc=$?
        sed -n '/^error: /,$p' said
        keeps_secrets
        return "$rc"
    }
    keeps_secrets
    for chart in charts/stable/*.tgz; do bsdtar -xOf classic.tar "blobs/sha256/$(sha256sum <"$chart" | cut -d' ' -f1)" | cmp - "$chart"; done
}
elsewhere() {
    cp "$XDG_CONFIG_HOME/helm/repositories.yaml" mine.yaml
    mv "$XDG_CONFIG_HOME/helm" "$XDG_CONFIG_HOME/not-helm"
    HELM_REPOSITORY_CONFIG=$WORK/mine.yaml classic "${ca[@]}"
}
# exits CODE COMMAND…
exits() {
    local want=$1 rc=0
    shift
    "$@" || rc=$?
    [ "$rc" = "$want" ]
}
no_helm_login() {
    exits 5 classic "${ca[@]}"
    tells 'https://charts.example.com/stable/' 'charts.example.com gives no access without credentials' 'helm repo add'
}
wrong_helm_login() {
    sed 's/password: .*/password: wrong-one/' mine.yaml >wrong.yaml
    HELM_REPOSITORY_CONFIG=$WORK/wrong.yaml exits 5 classic "${ca[@]}"
    tells 'charts.example.com gives no access with the credentials configured for it'
    fails grep -F wrong-one said
}
by_login_file() {
    jq --arg a "$(printf %s "$user:$password" | base64 -w0)" '.auths["charts.example.com"].auth = $a' containers.json >with-charts.json
    classic "${ca[@]}" --registry-config with-charts.json
}

must 'a repository of charts' chart_repository
must 'helm adds it with user and password' helm_adds_it
check 'its index is sent compressed' compressed
check "repo index reads it as Helm's user" index_of_it
check "bundle create fetches from it as Helm's user" classic "${ca[@]}"
check 'and with HELM_REPOSITORY_CONFIG' elsewhere
check 'without a login: which host, and what to do' no_helm_login
check 'with a wrong password: which host, and no word of it' wrong_helm_login
check 'with a user and password of auth.json' by_login_file
