# shellcheck shell=bash
# A small push with curl, step by step, and what a mirror must serve after the steps it
# acknowledged. For scripts that do it hundreds of times.

at=127.0.0.1:5077
manifest_type=application/vnd.oci.image.manifest.v1+json
steps=(put_config put_layer put_first put_second delete_second)

# make_push: the files that are pushed, in folder `push`.
make_push() {
    mkdir -p push
    printf '{"architecture":"none","os":"none"}' >push/config
    head -c 70000 /dev/urandom >push/layer
    head -c 30000 push/layer >push/layer.1
    tail -c +30001 push/layer >push/layer.2
    config=$(digest_of push/config)
    layer=$(digest_of push/layer)
    jq -cn --arg type "$manifest_type" --arg config "$config" --arg layer "$layer" '
        def of($digest; $size): {mediaType: "application/vnd.test", digest: $digest, size: $size};
        {schemaVersion: 2, mediaType: $type, config: of($config; 35), layers: [of($layer; 70000)]}
    ' | tr -d '\n' >push/manifest
}

# ask METHOD PATH FILE [TYPE]: leaves the answer in $status, `head` and `body`; 000 for none.
ask() {
    status=$(curl -s --max-time 20 -X "$1" -H "Content-Type: ${4:-application/octet-stream}" -H 'Expect:' \
        --data-binary "@$3" -D head -o body -w '%{http_code}' "http://$at$2") || status=000
}
location() { sed -n 's/^location: *\([^\r]*\).*/\1/Ip' head; }

put_config() { ask POST "/v2/team/app/blobs/uploads/?digest=$config" push/config; }
put_layer() {
    ask POST /v2/team/app/blobs/uploads/ /dev/null
    [ "$status" = 202 ] || return 0
    ask PATCH "$(location)" push/layer.1
    [ "$status" = 202 ] || return 0
    ask PUT "$(location)?digest=$layer" push/layer.2
}
put_first() { ask PUT /v2/team/app/manifests/first push/manifest "$manifest_type"; }
put_second() { ask PUT /v2/team/app/manifests/second push/manifest "$manifest_type"; }
delete_second() { ask DELETE /v2/team/app/manifests/second /dev/null; }

acknowledged() { [[ $status == 20[12] ]]; }
# A refusal is one of the server's, as a registry says it: a full disk is 507, a failed one 500.
refused() { [[ $status == 50[07] ]] && [ -n "$(jq -r '.errors[0].message // empty' body)" ]; }

# push_all [again]: the steps, those acknowledged in `acked`, where it stopped in $stopped. With
# `again` a step that was refused is done once more, at once.
push_all() {
    local step
    stopped=
    : >acked
    for step in "${steps[@]}"; do
        $step
        if ! acknowledged && [ "${1:-}" = again ] && refused; then
            echo "refused: $step: $status $(cat body)" >>refusals
            $step
        fi
        if ! acknowledged; then
            stopped=$step
            echo "stopped: $step: $status $(cat body 2>/dev/null)"
            return 0
        fi
        echo "$step" >>acked
    done
}

# is PATH FILE: what is served there is this file.
is() {
    curl -sf --max-time 20 -H "Accept: $manifest_type" "http://$at/v2/team/app/$1" -o got && cmp got "$2"
}
gone() { [ "$(curl -s --max-time 20 -o /dev/null -w '%{http_code}' "http://$at/v2/team/app/$1")" = 404 ]; }

# serves_acked STORE: all that was acknowledged is served, what was not is served whole or not.
serves_acked() {
    local path file
    while read -r path file; do
        is "$path" "$file" || gone "$path" || return 1
    done <<EOF
blobs/$config push/config
blobs/$layer push/layer
manifests/first push/manifest
manifests/second push/manifest
EOF
    ! grep -q put_config acked || is "blobs/$config" push/config || return 1
    ! grep -q put_layer acked || is "blobs/$layer" push/layer || return 1
    ! grep -q put_first acked || is manifests/first push/manifest || return 1
    if grep -q delete_second acked; then
        gone manifests/second || return 1
    elif grep -q put_second acked && [ "$stopped" != delete_second ]; then
        is manifests/second push/manifest || return 1
    fi
    find "$1/blobs" -type f ! -name '.tmp-*' | sed 's|.*/\(.*\)|\1  &|' >blobs
    [ ! -s blobs ] || sha256sum --check --quiet blobs
}

# mark_store FOLDER: makes it a store with nothing in it.
mark_store() { mkdir -p "$1" && echo '{"format":"kubepkg store","version":1}' >"$1/kubepkg-store.json"; }

serve_pushes() { # STORE [WRAPPER…]
    local store=$1
    shift
    daemon pushed "$@" "$KUBEPKG" mirror serve --store "$store" --listen "$at" --anonymous-push
}
