# shellcheck shell=bash
# The connected side: a registry and a file server that stand for the internet. Images lie in the
# registry under the names the charts use, below their host: quay.io/prometheus/prometheus is
# 127.0.0.1:5000/quay.io/prometheus/prometheus.

upstream=127.0.0.1:5000
web=127.0.0.1:8080
charts=$repo/tests/charts

# All images, `name:tag`; filled by upstream_images.
images=()

upstream_start() {
    registry upstream "${upstream#*:}" "$WORK/upstream"
    mkdir -p "$WORK/www/charts"
    files web "${web#*:}" "$WORK/www"
}

# raw HOST REFERENCE: the manifest of a reference as a registry on loopback gives it.
raw() { skopeo inspect --raw --tls-verify=false "docker://$1/$2"; }

# without_tag name:tag
without_tag() { printf '%s' "${1%:*}"; }

# pinned name:tag -> name:tag@sha256:…
pinned() { printf '%s@sha256:%s' "$1" "$(raw "$upstream" "$1" | sha256sum | cut -d' ' -f1)"; }

# publish LAYOUT:NAME REFERENCE [skopeo flags]
publish() {
    local from=$1 to=$2
    shift 2
    skopeo copy -q --all --dest-tls-verify=false "$@" "oci:$from" "docker://$upstream/$to"
    images+=("$to")
}

# One image of each kind that the node side has to handle:
#   busybox            an index of two platforms (the second is the same program under another name)
#   pushgateway        Docker schema 2
#   cert-manager       has an SBOM attached
#   prometheus, …      layers of a whole Debian, shared
upstream_images() {
    local layout=$WORK/layout layers=$WORK/layers manifest other list ref
    mkdir -p "$layers"
    busybox_layer "$layers/busybox"

    manifest=$(image "$layout" "$arch" "$layers/busybox")
    note_layer "$other_arch" "$layers/other"
    other=$(image "$layout" "$other_arch" "$layers/busybox" "$layers/other")
    list=$(index "$layout" "$arch=$manifest" "$other_arch=$other")
    name_in_layout "$layout" "$oci_index" "$list" busybox
    publish "$layout:busybox" quay.io/prometheus/busybox:latest --preserve-digests
    publish "$layout:busybox" docker.io/library/busybox:1.36 --preserve-digests

    for ref in quay.io/prometheus/prometheus:v3.14.0 quay.io/prometheus/alertmanager:v0.34.0; do
        own_image "$layout" "$ref" "$debian_layer" --preserve-digests
    done
    for ref in quay.io/prometheus/node-exporter:v1.12.1 \
        quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1 \
        registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.20.0 \
        quay.io/jetstack/cert-manager-controller:v1.21.2 \
        quay.io/jetstack/cert-manager-webhook:v1.21.2 \
        quay.io/jetstack/cert-manager-cainjector:v1.21.2; do
        own_image "$layout" "$ref" "$layers/busybox" --preserve-digests
    done
    own_image "$layout" quay.io/prometheus/pushgateway:v1.11.3 "$layers/busybox" --format v2s2

    ref=quay.io/jetstack/cert-manager-controller
    raw "$upstream" "$ref:v1.21.2" >"$WORK/subject"
    sbom_subject=$(digest_of "$WORK/subject")
    sbom=$(push_sbom "$upstream/$ref" "$sbom_subject" "$(stat -c %s "$WORK/subject")" "$oci_manifest")
}

# own_image LAYOUT REFERENCE BASE-LAYER skopeo-flags…: an image of a base and a note of its name.
own_image() {
    local layout=$1 ref=$2 base=$3 note manifest
    shift 3
    note=$WORK/layers/note
    note_layer "$ref" "$note"
    manifest=$(image "$layout" "$arch" "$base" "$note")
    name_in_layout "$layout" "$oci_manifest" "$manifest" "${ref//[:\/]/-}"
    publish "$layout:${ref//[:\/]/-}" "$ref" "$@"
}

# Two chart repositories in a registry and a classic one.
upstream_charts() {
    local name version archive
    push_chart "$upstream/ghcr.io/prometheus-community/charts" "$charts/prometheus-29.27.0.tgz" prometheus 29.27.0
    push_chart "$upstream/quay.io/jetstack/charts" "$charts/cert-manager-v1.21.2.tgz" cert-manager v1.21.2
    {
        echo 'apiVersion: v1'
        echo 'entries:'
        for archive in "$charts"/{alertmanager-1,kube-state-metrics-8,prometheus-node-exporter-4,prometheus-pushgateway-3}.*.tgz; do
            name=$(basename "$archive" .tgz)
            version=${name##*-}
            name=${name%-*}
            cp "$archive" "$WORK/www/charts/"
            printf '  %s:\n  - apiVersion: v2\n    name: %s\n    version: %s\n    digest: %s\n    urls: [%s]\n' \
                "$name" "$name" "$version" "$(sha256sum <"$archive" | cut -d' ' -f1)" "$(basename "$archive")"
        done
    } >"$WORK/www/charts/index.yaml"
}

# package NAME VERSION CHART-REPOSITORY CHART:VERSION 'REQUIRED …' IMAGE…
package() {
    local name=$1 version=$2 repository=$3 chart=${4%%:*} chart_version=${4#*:} requires=$5 digest='' r i
    shift 5
    # Charts in a registry are pinned by the author, classic ones by `repo index`.
    case $repository in oci:*) digest=", digest: \"$(digest_of "$charts/$chart-$chart_version.tgz")\"" ;; esac
    mkdir -p "$WORK/packages"
    {
        printf 'apiVersion: kubepkg.dev/v1\nkind: PackageSource\nmetadata:\n  name: %s\n' "$name"
        printf 'spec:\n  version: "%s"\n  build: 1\n  variants:\n  - name: default\n' "$version"
        [ -z "$requires" ] || printf '    requires:\n'
        for r in $requires; do printf '    - package: %s\n' "$r"; done
        printf '    components:\n    - name: %s\n      chart: {repository: "%s", name: %s, version: "%s"%s}\n' \
            "$chart" "$repository" "$chart" "$chart_version" "$digest"
        printf '  images:\n'
        for i in "$@"; do printf '  - "%s"\n' "$(pinned "$i")"; done
    } >"$WORK/packages/$name.yaml"
}

upstream_packages() {
    local classic=http://$web/charts
    package prometheus 29.27.0 oci://ghcr.io/prometheus-community/charts prometheus:29.27.0 \
        'alertmanager kube-state-metrics prometheus-node-exporter prometheus-pushgateway' \
        quay.io/prometheus/prometheus:v3.14.0 quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1
    package alertmanager 1.42.0 "$classic" alertmanager:1.42.0 '' quay.io/prometheus/alertmanager:v0.34.0
    package kube-state-metrics 8.4.0 "$classic" kube-state-metrics:8.4.0 '' registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.20.0
    package prometheus-node-exporter 4.56.1 "$classic" prometheus-node-exporter:4.56.1 '' \
        quay.io/prometheus/node-exporter:v1.12.1 quay.io/prometheus/busybox:latest
    package prometheus-pushgateway 3.8.0 "$classic" prometheus-pushgateway:3.8.0 '' quay.io/prometheus/pushgateway:v1.11.3
    package cert-manager 1.21.2 oci://quay.io/jetstack/charts cert-manager:v1.21.2 '' \
        quay.io/jetstack/cert-manager-{controller,webhook,cainjector}:v1.21.2 docker.io/library/busybox:1.36
}
