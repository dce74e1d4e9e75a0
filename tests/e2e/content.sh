# shellcheck shell=bash
# Images of every shape, and whether a registry or a folder has exactly them.
#
# Each lies in an OCI layout of its own, $WORK/src/NAME, tagged v1: what every client can read.

source=$WORK/src

# below MANIFEST: digests of what a manifest names besides other manifests.
below() { jq -r '(.layers[]?, .config // empty).digest' "$1" | sort -u; }

# in_layout LAYOUT DIGEST: the path of a blob in a layout.
in_layout() { printf '%s/blobs/%s' "$1" "${2/://}"; }

# named LAYOUT TAG: the digest a layout has under a tag.
named() { jq -er --arg t "$2" '.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] == $t).digest' "$1/index.json"; }

# source_of NAME: the digest of an image made here.
source_of() { named "$source/$1" v1; }

# layout_holds LAYOUT DIGEST: a folder has this manifest and all below it, byte for byte.
layout_holds() {
    local manifest child
    manifest=$(in_layout "$1" "$2")
    is "$2" "$manifest"
    for child in $(jq -r '.manifests[]?.digest' "$manifest"); do layout_holds "$1" "$child"; done
    for child in $(below "$manifest"); do is "$child" "$(in_layout "$1" "$child")"; done
}

# mirror_holds REPOSITORY REFERENCE DIGEST: so does the mirror, and its headers say the same.
mirror_holds() {
    local at=http://$mirror/v2/$1 got child type
    got=$(mktemp -d "$WORK/got.XXXXXX")
    curl -fsS -H "$accept" -D "$got/head" -o "$got/manifest" "$at/manifests/$2"
    is "$3" "$got/manifest"
    tr -d '\r' <"$got/head" >"$got/headers"
    grep -ix "docker-content-digest: $3" "$got/headers"
    type=$(jq -r '.mediaType // empty' "$got/manifest")
    [ -z "$type" ] || grep -ixF "content-type: $type" "$got/headers"
    for child in $(jq -r '.manifests[]?.digest' "$got/manifest"); do mirror_holds "$1" "$child" "$child"; done
    below "$got/manifest" >"$got/below"
    [ ! -s "$got/below" ] || awk -v at="$at/blobs/" -v to="$got/" '{ printf "url = \"%s%s\"\noutput = \"%s%s\"\n", at, $1, to, $1 }' "$got/below" | curl -fsS -K -
    while read -r child; do is "$child" "$got/$child"; done <"$got/below"
    rm -rf "$got"
}

# status URL [curl flags]: the HTTP status alone.
status() { curl -sS -o /dev/null -H "$accept" -w '%{http_code}' "$@"; }

# absent REPOSITORY REFERENCE: the mirror says 404 for this manifest.
absent() { [ "$(status "http://$mirror/v2/$1/manifests/$2")" = 404 ]; }

# referrers REPOSITORY SUBJECT: what the API answers, digests in order.
referrers() { curl -fsS "http://$mirror/v2/$1/referrers/$2" | jq -r '.manifests[].digest' | sort; }

# make_source NAME FUNCTION: an image made by a function that gets the layout and prints the path of
# its manifest or index.
make_source() {
    local layout=$source/$1 manifest
    manifest=$($2 "$layout")
    name_in_layout "$layout" "$(jq -r .mediaType "$manifest")" "$manifest" v1
}

# Their layers: one that all share, one of each image's own.
shared=$WORK/layers/shared
own() { note_layer "$1" "$WORK/layers/$1" && printf '%s' "$WORK/layers/$1"; }

plain_image() { image "$1" "$arch" "$shared" "$(own plain)"; }
# A layer that is an archive of nothing, as `COPY` of an empty folder leaves it.
empty_layer_image() {
    tar -cf - -T /dev/null | gzip -n1 >"$WORK/layers/empty"
    image "$1" "$arch" "$shared" "$WORK/layers/empty"
}
# The most layers containerd and Docker take; uncompressed, so that few programs make them.
many_layers_image() {
    local i sum layers dir=$WORK/many
    mkdir -p "$dir" "$1/blobs/sha256"
    for ((i = 0; i < 127; i++)); do
        echo "$i" >"$dir/note-$i"
        tar -C "$dir" --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$dir/$i.tar" "note-$i"
    done
    (cd "$dir" && sha256sum -- *.tar | sort -k2n) >"$WORK/many.sums"
    while read -r sum i; do mv "$dir/$i" "$1/blobs/sha256/$sum"; done <"$WORK/many.sums"
    # tar fills up to 20 blocks
    mapfile -t layers < <(sed 's/\([0-9a-f]*\) .*/sha256:\1 10240/' "$WORK/many.sums")
    raw_layers "$1" "${layers[@]}"
}
two_platforms() { index "$1" "$arch=$(image "$1" "$arch" "$shared")" "$other_arch=$(image "$1" "$other_arch" "$(own other)")"; }
sha512_index() { algorithm=sha512 two_platforms "$1"; }

sources() {
    mkdir -p "$WORK/layers" "$source"
    note_layer shared "$shared"
    make_source plain plain_image
    make_source empty empty_layer_image
    make_source many many_layers_image
    make_source index two_platforms
    algorithm=sha512 make_source sha512 sha512_index
}

# 5 GiB of zeros: an archive without members that takes no room on disk.
big_size=5368709120
big_layer=sha256:7f06c62352aebd8125b2a1841e2b9e1ffcbed602f381c3dcb3200200e383d1d5
big_image() {
    raw_layers "$1" "$big_layer $big_size"
    truncate -s "$big_size" "$(in_layout "$1" "$big_layer")"
}

# raw_layers LAYOUT 'DIGEST SIZE'…: an image of uncompressed layers, which the caller puts in their places.
raw_layers() {
    local layout=$1 config manifest layers
    shift
    config=$(mktemp "$WORK/config.XXXXXX")
    manifest=$(mktemp "$WORK/manifest.XXXXXX")
    layers=$(printf '%s\n' "$@" | jq -Rnc '[inputs / " " | {mediaType: "application/vnd.oci.image.layer.v1.tar", digest: .[0], size: (.[1] | tonumber)}]')
    jq -c --arg a "$arch" '{architecture: $a, os: "linux", config: {}, rootfs: {type: "layers", diff_ids: map(.digest)}}' <<<"$layers" >"$config"
    layout_blob "$layout" "$config" >/dev/null
    jq -c --arg t "$oci_manifest" --argjson c "$(descriptor application/vnd.oci.image.config.v1+json "$config")" \
        '{schemaVersion: 2, mediaType: $t, config: $c, layers: .}' <<<"$layers" >"$manifest"
    layout_blob "$layout" "$manifest" >/dev/null
    printf '%s' "$manifest"
}
