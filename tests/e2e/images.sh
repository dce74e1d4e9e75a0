# shellcheck shell=bash
# Images with real root file systems, built as OCI layouts without a daemon, and artifacts pushed
# into a registry byte for byte.

case $(dpkg --print-architecture) in
armhf) arch=arm ;;
i386) arch=386 ;;
ppc64el) arch=ppc64le ;;
*) arch=$(dpkg --print-architecture) ;;
esac
# The second platform of the multi-platform index.
other_arch=arm64
[ "$arch" != arm64 ] || other_arch=amd64

oci_manifest=application/vnd.oci.image.manifest.v1+json
oci_index=application/vnd.oci.image.index.v1+json
# A client that names no types gets no index from some registries.
accept="Accept: $oci_index, $oci_manifest, application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"

# pack DIR OUT: a reproducible gzipped layer.
pack() {
    tar -C "$1" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . | gzip -n1 >"$2"
}

# A minimal Debian as a layer, see tests/tools.
debian_layer=$cache/debian.tar.gz

# busybox_layer OUT: busybox, its links and what a root file system needs.
busybox_layer() {
    local tree=$WORK/busybox-root
    mkdir -p "$tree"/{bin,etc,tmp,proc,sys,dev}
    cp /bin/busybox "$tree/bin/busybox"
    (cd "$tree/bin" && for a in sh cat echo ls uname sleep httpd wget; do ln -sf busybox "$a"; done)
    echo 'root:x:0:0:root:/:/bin/sh' >"$tree/etc/passwd"
    chmod 1777 "$tree/tmp"
    pack "$tree" "$1"
}

# note_layer TEXT OUT: one small file, so that images differ.
note_layer() {
    local tree
    tree=$(mktemp -d "$WORK/note.XXXXXX")
    mkdir "$tree/etc"
    printf '%s\n' "$1" >"$tree/etc/note"
    pack "$tree" "$2"
    rm -rf "$tree"
}

# layout_blob LAYOUT FILE: copies a file in and prints its digest.
layout_blob() {
    local digest
    digest=$(digest_of "$2")
    mkdir -p "$1/blobs/$algorithm"
    cp "$2" "$1/blobs/${digest/://}"
    printf '%s' "$digest"
}

# descriptor TYPE FILE: a JSON descriptor of a file.
descriptor() {
    jq -nc --arg t "$1" --arg d "$(digest_of "$2")" --argjson s "$(stat -c %s "$2")" \
        '{mediaType: $t, digest: $d, size: $s}'
}

# image LAYOUT ARCH LAYER…: adds an image for linux/ARCH; prints the path of its manifest.
image() {
    local layout=$1 arch=$2 layer layers='[]' diffs='[]' config manifest
    shift 2
    config=$(mktemp "$WORK/config.XXXXXX")
    manifest=$(mktemp "$WORK/manifest.XXXXXX")
    for layer in "$@"; do
        layout_blob "$layout" "$layer" >/dev/null
        layers=$(jq -c --argjson l "$(descriptor application/vnd.oci.image.layer.v1.tar+gzip "$layer")" '. + [$l]' <<<"$layers")
        diffs=$(jq -c --arg d "sha256:$(gzip -dc "$layer" | sha256sum | cut -d' ' -f1)" '. + [$d]' <<<"$diffs")
    done
    jq -nc --arg a "$arch" --argjson d "$diffs" \
        '{architecture: $a, os: "linux", config: {Env: ["PATH=/usr/bin:/bin"], Cmd: ["/bin/sh"]}, rootfs: {type: "layers", diff_ids: $d}}' >"$config"
    layout_blob "$layout" "$config" >/dev/null
    jq -nc --arg t "$oci_manifest" --argjson c "$(descriptor application/vnd.oci.image.config.v1+json "$config")" --argjson l "$layers" \
        '{schemaVersion: 2, mediaType: $t, config: $c, layers: $l}' >"$manifest"
    layout_blob "$layout" "$manifest" >/dev/null
    printf '%s' "$manifest"
}

# index LAYOUT ARCH=MANIFEST…: adds an image index; prints its path.
index() {
    local layout=$1 pair list='[]' out
    shift
    for pair in "$@"; do
        list=$(jq -c --arg a "${pair%%=*}" --argjson m "$(descriptor "$oci_manifest" "${pair#*=}")" \
            '. + [$m + {platform: {architecture: $a, os: "linux"}}]' <<<"$list")
    done
    out=$(mktemp "$WORK/index.XXXXXX")
    jq -nc --arg t "$oci_index" --argjson l "$list" '{schemaVersion: 2, mediaType: $t, manifests: $l}' >"$out"
    layout_blob "$layout" "$out" >/dev/null
    printf '%s' "$out"
}

# name_in_layout LAYOUT TYPE MANIFEST NAME: makes LAYOUT:NAME something skopeo finds.
name_in_layout() {
    local old='{"schemaVersion":2,"manifests":[]}'
    [ ! -f "$1/index.json" ] || old=$(cat "$1/index.json")
    echo '{"imageLayoutVersion":"1.0.0"}' >"$1/oci-layout"
    jq -c --argjson m "$(descriptor "$2" "$3")" --arg n "$4" \
        '.manifests += [$m + {annotations: {"org.opencontainers.image.ref.name": $n}}]' <<<"$old" >"$1/index.json.new"
    mv "$1/index.json.new" "$1/index.json"
}

# push_blob REGISTRY/REPOSITORY FILE
push_blob() {
    local host=${1%%/*} name=${1#*/} place
    place=$(curl -fsS -X POST -D - -o /dev/null "http://$host/v2/$name/blobs/uploads/" | tr -d '\r' | sed -n 's/^[Ll]ocation: //p')
    case $place in
    *\?*) place="$place&digest=$(digest_of "$2")" ;;
    *) place="$place?digest=$(digest_of "$2")" ;;
    esac
    curl -fsS -X PUT -H 'Content-Type: application/octet-stream' --data-binary "@$2" -o /dev/null "$place"
}

# push_manifest REGISTRY/REPOSITORY TAG TYPE FILE
push_manifest() {
    curl -fsS -X PUT -H "Content-Type: $3" --data-binary "@$4" -o /dev/null "http://${1%%/*}/v2/${1#*/}/manifests/$2"
}

# push_chart REGISTRY/REPOSITORY ARCHIVE NAME VERSION: a chart archive as an OCI chart, as `helm push` does it.
push_chart() {
    local repo=$1/$3 version=$4 archive=$2 config manifest
    config=$(mktemp "$WORK/chart-config.XXXXXX")
    manifest=$(mktemp "$WORK/chart-manifest.XXXXXX")
    jq -nc --arg n "$3" --arg v "$version" '{name: $n, version: $v, apiVersion: "v2"}' >"$config"
    jq -nc --arg t "$oci_manifest" \
        --argjson c "$(descriptor application/vnd.cncf.helm.config.v1+json "$config")" \
        --argjson l "$(descriptor application/vnd.cncf.helm.chart.content.v1.tar+gzip "$archive")" \
        '{schemaVersion: 2, mediaType: $t, config: $c, layers: [$l]}' >"$manifest"
    push_blob "$repo" "$config"
    push_blob "$repo" "$archive"
    push_manifest "$repo" "${version//+/_}" "$oci_manifest" "$manifest"
}

# push_sbom REGISTRY/REPOSITORY SUBJECT-DIGEST SIZE TYPE: attaches an SBOM under the tag schema,
# which is what a registry without the referrers API gets. Prints the digest of its manifest.
push_sbom() {
    local repo=$1 sbom=$WORK/sbom.json empty=$WORK/empty.json manifest=$WORK/sbom-manifest.json fallback=$WORK/referrers.json
    printf '{}' >"$empty"
    jq -nc '{spdxVersion: "SPDX-2.3", SPDXID: "SPDXRef-DOCUMENT", name: "image", packages: []}' >"$sbom"
    jq -nc --arg t "$oci_manifest" --arg d "$2" --argjson s "$3" --arg st "$4" \
        --argjson c "$(descriptor application/vnd.oci.empty.v1+json "$empty")" \
        --argjson l "$(descriptor application/spdx+json "$sbom")" \
        '{schemaVersion: 2, mediaType: $t, artifactType: "application/spdx+json", config: $c, layers: [$l], subject: {mediaType: $st, digest: $d, size: $s}}' >"$manifest"
    jq -nc --arg t "$oci_index" --argjson m "$(descriptor "$oci_manifest" "$manifest")" \
        '{schemaVersion: 2, mediaType: $t, manifests: [$m + {artifactType: "application/spdx+json"}]}' >"$fallback"
    push_blob "$repo" "$empty"
    push_blob "$repo" "$sbom"
    push_manifest "$repo" "$(digest_of "$manifest")" "$oci_manifest" "$manifest"
    push_manifest "$repo" "${2/:/-}" "$oci_index" "$fallback"
    digest_of "$manifest"
}
