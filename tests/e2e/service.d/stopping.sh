# shellcheck shell=bash
echo "== a stop under load"
rm -rf load acknowledged
mkdir load acknowledged

# pusher N: pushes blobs one after the other, and notes each that was acknowledged.
pusher() {
    local n=0 file digest
    while [ ! -e stopped ]; do
        n=$((n + 1))
        file=load/$1-$n
        printf 'blob %s of %s\n' "$n" "$1" | cat - <(head -c 300000 /dev/urandom) >"$file"
        digest=$(digest_of "$file")
        if [ "$(secure_status -X POST --data-binary "@$file" -H 'Content-Type: application/octet-stream' \
            "https://$mirror/v2/load/$1/blobs/uploads/?digest=$digest" 2>/dev/null)" = 201 ]; then
            echo "$digest" >>"acknowledged/$1"
        fi
    done
}
under_load() {
    local n pull pushers=()
    rm -f stopped
    serve_tls store --anonymous-push
    for n in 1 2 3 4; do
        pusher "$n" &
        pushers+=($!)
    done
    secure --limit-rate 60M -o got "https://$mirror/v2/large/file/blobs/$large_digest" &
    pull=$!
    for n in 1 2 3 4; do await mirror test -s "acknowledged/$n"; done
    await mirror test -s got
    kill -TERM "$pid_mirror"
    wait "$pull"
    is "$large_digest" got
    wait "$pid_mirror"
    touch stopped
    wait "${pushers[@]}"
    serve_tls store --anonymous-push
    trap 'stop mirror' EXIT
    for n in 1 2 3 4; do
        while read -r digest; do
            secure -o got "https://$mirror/v2/load/$n/blobs/$digest"
            is "$digest" got
        done <"acknowledged/$n"
    done
    kubepkg mirror check --store store
}
check 'the running pull ends well, and every acknowledged push is there' under_load
