# shellcheck shell=bash
# Docker's formats, and what the clients do besides push and pull.
echo "== Docker's formats, copies, lists, deletes"

docker_manifest=application/vnd.docker.distribution.manifest.v2+json
docker_list=application/vnd.docker.distribution.manifest.list.v2+json

# docker_format NAME TYPE: pushed by skopeo as Docker would, pulled by three clients.
docker_format() {
    local digest
    skopeo copy -q --all --format v2s2 --dest-tls-verify=false --digestfile digest "oci:$source/$1:v1" "docker://$mirror/docker/$1:v1"
    digest=$(cat digest)
    mirror_holds "docker/$1" v1 "$digest"
    curl -fsS "http://$mirror/v2/docker/$1/manifests/v1" | jq -e --arg t "$2" '.mediaType == $t'
    skopeo copy -q --all --preserve-digests --src-tls-verify=false "docker://$mirror/docker/$1:v1" "dir:pulled/docker-$1"
    is "$digest" "pulled/docker-$1/manifest.json"
    crane manifest --insecure "$mirror/docker/$1:v1" >manifest
    is "$digest" manifest
    regctl image copy "$mirror/docker/$1:v1" "ocidir://pulled/docker-regctl-$1:v1"
    layout_holds "pulled/docker-regctl-$1" "$digest"
    node_ctr images pull --plain-http --snapshotter "$node_snapshotter" "$mirror/docker/$1:v1"
    node_ctr content get "$digest" >manifest
    is "$digest" manifest
}
check "an image in Docker's format" docker_format plain "$docker_manifest"
check "one of many layers in Docker's format" docker_format many "$docker_manifest"
check "a list in Docker's format" docker_format index "$docker_list"

# kubelet_pulls NAME: through settings for the upstream name, as a node has them.
kubelet_pulls() {
    local digest
    digest=$(source_of "$1")
    skopeo copy -q --all --preserve-digests --src-tls-verify=false --dest-tls-verify=false \
        "docker://$mirror/skopeo/$1:v1" "docker://$mirror/quay.io/clients/$1:v1"
    kubepkg node-config containerd --store store --mirror "http://$mirror" -o certs.d/
    cri pull "quay.io/clients/$1:v1"
    cri_digests "quay.io/clients/$1:v1" | grep "@$digest\$"
    cri pull "quay.io/clients/$1@$digest"
}
for name in plain index empty many; do check "crictl: $name, pushed under its upstream name" kubelet_pulls "$name"; done

skopeo_looks_and_deletes() {
    local digest at=docker://$mirror/skopeo/plain
    digest=$(source_of plain)
    [ "$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "$at:v1")" = "$digest" ]
    skopeo copy -q --preserve-digests --src-tls-verify=false --dest-tls-verify=false "$at:v1" "$at:v2"
    [ "$(skopeo list-tags --tls-verify=false "$at" | jq -c .Tags)" = '["v1","v2"]' ]
    skopeo copy -q --preserve-digests --src-tls-verify=false --dest-tls-verify=false "$at:v1" "docker://$mirror/skopeo/gone:v1"
    skopeo delete --tls-verify=false "docker://$mirror/skopeo/gone:v1"
    absent skopeo/gone v1
    absent skopeo/gone "$digest"
    mirror_holds skopeo/plain v2 "$digest"
}
check 'skopeo inspects, lists, copies within the mirror and deletes' skopeo_looks_and_deletes

crane_works() {
    local base digest from=$mirror/crane/index
    base=$(source_of index)
    [ "$(crane digest --insecure "$from:v1")" = "$base" ]
    crane copy --insecure "$from:v1" "$mirror/crane/copied/deep/er:v1"
    mirror_holds crane/copied/deep/er v1 "$base"
    crane validate --insecure --remote "$mirror/crane/empty:v1"
    # a layer more: the layers before it stay what they were
    crane append --insecure -b "$mirror/crane/plain:v1" -f "$WORK/layers/other" -t "$mirror/crane/appended:v1"
    digest=$(crane digest --insecure "$mirror/crane/appended:v1")
    mirror_holds crane/appended v1 "$digest"
    crane manifest --insecure "$mirror/crane/appended:v1" | jq -r '.layers[].digest' >got
    { jq -r '.layers[].digest' "$(in_layout "$source/plain" "$(source_of plain)")" && echo "$(digest_of "$WORK/layers/other")"; } | diff - got
    crane tag --insecure "$from:v1" v2
    [ "$(crane ls --insecure "$from" | tr '\n' ' ')" = 'v1 v2 ' ]
    crane catalog --insecure "$mirror" >got
    grep -x crane/copied/deep/er got
    crane delete --insecure "$mirror/crane/appended@$digest"
    absent crane/appended v1
    absent crane/appended "$digest"
}
check 'crane copies, appends, validates, lists and deletes' crane_works

regctl_works() {
    local digest at=$mirror/regctl/index list
    digest=$(source_of index)
    [ "$(regctl manifest head "$at:v1")" = "$digest" ]
    regctl image copy "$at:v1" "$at:v2"
    [ "$(regctl tag ls "$at" | tr '\n' ' ')" = 'v1 v2 ' ]
    regctl tag rm "$at:v2"
    absent regctl/index v2
    mirror_holds regctl/index v1 "$digest"
    # a blob alone, whole and in pieces
    [ "$(regctl blob put "$mirror/regctl/blobs" <"$shared")" = "$(digest_of "$shared")" ]
    regctl blob get "$mirror/regctl/blobs" "$(digest_of "$shared")" | cmp - "$shared"
    list=$mirror/regctl/made:v1
    regctl index create "$list" --ref "$mirror/regctl/plain:v1" --ref "$mirror/regctl/empty:v1"
    digest=$(regctl manifest head "$list")
    mirror_holds regctl/made v1 "$digest"
    regctl manifest get --format raw-body "$list" | jq -r '.manifests[].digest' | sort >got
    printf '%s\n' "$(source_of plain)" "$(source_of empty)" | sort | diff - got
}
check 'regctl tags, deletes a tag, moves blobs and makes an index' regctl_works

chunked_push() {
    head -c 5000000 /dev/urandom >chunked
    regctl registry set "$mirror" --blob-max 1 --blob-chunk 1000000 --skip-check
    [ "$(regctl blob put "$mirror/regctl/chunked" <chunked)" = "$(digest_of chunked)" ]
    regctl registry set "$mirror" --blob-max -1 --skip-check
    regctl blob get "$mirror/regctl/chunked" "$(digest_of chunked)" | cmp - chunked
}
check 'regctl pushes a blob in chunks' chunked_push
