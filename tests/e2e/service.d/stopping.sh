# shellcheck shell=bash
echo "== a stop under load"
rm -rf load acknowledged
mkdir load acknowledged

# pusher N: pushes images one after the other: a blob, and a manifest that moves a tag to it. Notes what
# was acknowledged.
pusher() {
    local n=0 file digest to=https://$mirror/v2/load/$1
    while [ ! -e stopped ]; do
        n=$((n + 1))
        file=load/$1-$n
        printf 'blob %s of %s\n' "$n" "$1" | cat - <(head -c 300000 /dev/urandom) >"$file"
        digest=$(digest_of "$file")
        [ "$(secure_status -X POST --data-binary "@$file" -H 'Content-Type: application/octet-stream' \
            "$to/blobs/uploads/?digest=$digest" 2>/dev/null)" = 201 ] || continue
        echo "blobs/$digest" >>"acknowledged/$1"
        jq -cn --arg type "$oci_manifest" --arg digest "$digest" --argjson size "$(stat -c %s "$file")" '
            {mediaType: "application/vnd.test", digest: $digest, size: $size} as $blob
            | {schemaVersion: 2, mediaType: $type, config: $blob, layers: [$blob]}' >"$file.manifest"
        echo "$n" >"load/$1.tried"
        [ "$(secure_status -X PUT --data-binary "@$file.manifest" -H "Content-Type: $oci_manifest" \
            "$to/manifests/newest" 2>/dev/null)" = 201 ] || continue
        echo "manifests/$(digest_of "$file.manifest")" >>"acknowledged/$1"
        echo "$n" >"load/$1.moved"
    done
}

# kept N: all that was acknowledged to a pusher is there, and its tag is where it was moved last.
kept() {
    local what n last
    while read -r what; do
        secure -H "$accept" -o got "https://$mirror/v2/load/$1/$what"
        is "${what#*/}" got
    done <"acknowledged/$1"
    secure -H "$accept" -o got "https://$mirror/v2/load/$1/manifests/newest"
    # the last may have been made without being acknowledged any more
    for n in moved tried; do
        last=$(cat "load/$1.$n")
        ! cmp got "load/$1-$last.manifest" || return 0
    done
    return 1
}

under_load() {
    local n pull pulls=() pushers=()
    rm -f stopped got.*
    serve_tls store --anonymous-push
    for n in 1 2 3 4; do
        pusher "$n" &
        pushers+=($!)
    done
    for n in http1.1 http2-prior-knowledge; do
        secure "--$n" --limit-rate 60M -o "got.$n" "https://$mirror/v2/large/file/blobs/$large_digest" &
        pulls+=($!)
    done
    for n in 1 2 3 4; do await mirror test -s "load/$n.moved"; done
    for n in got.http1.1 got.http2-prior-knowledge; do await mirror test -s "$n"; done
    kill -TERM "$pid_mirror"
    for pull in "${pulls[@]}"; do wait "$pull"; done
    for n in got.*; do is "$large_digest" "$n"; done
    wait "$pid_mirror"
    touch stopped
    wait "${pushers[@]}"
    serve_tls store --anonymous-push
    trap 'stop mirror' EXIT
    for n in 1 2 3 4; do kept "$n"; done
    echo "$(cat acknowledged/* | wc -l) pushes were acknowledged"
    kubepkg mirror check --store store
}
check 'running pulls end well, and every acknowledged push is there' under_load

# What would take longer than it is given is cut, and its client knows.
too_slow() {
    local pull pulls=() n began took
    serve_tls store --stop-within 2s
    for n in http1.1 http2-prior-knowledge; do
        secure "--$n" --limit-rate 4M -o "slow.$n" "https://$mirror/v2/large/file/blobs/$large_digest" &
        pulls+=($!)
        await mirror test -s "slow.$n"
    done
    began=$EPOCHREALTIME
    kill -TERM "$pid_mirror"
    for pull in "${pulls[@]}"; do fails wait "$pull"; done
    wait "$pid_mirror"
    took=$(seconds_since "$began")
    echo "it ended after $took s"
    [ "${took%.*}" -ge 2 ]
    [ "${took%.*}" -le 6 ]
    grep 'answers still under way' log/mirror
    rm -f slow.*
}
check 'pulls that take too long are cut, not ended short' too_slow
