# shellcheck shell=bash
# A layer of 5 GB: no limit is in its way, and the server needs no more memory for it than for others.
# At most 11 GB of disk at once: the mirror's copy and the client's.
echo "== a layer of 5 GB"

big_clients=(crane)
[ "${1-}" != --long ] || big_clients=(skopeo crane regctl oras ctr)

must 'a layer of 5 GB is made' make_source big big_image

# Peak memory of the server, KiB.
peak() { sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid_mirror/status"; }

big_both_ways() {
    local digest memory
    digest=$(source_of big)
    serve_store bigs --anonymous-push --new-store
    trap 'stop mirror; rm -rf bigs pulled/*-big' EXIT
    "push_$1" big
    [ "$(curl -fsSI "http://$mirror/v2/$1/big/blobs/$big_layer" | tr -d '\r' | sed -n 's/^content-length: //ip')" = "$big_size" ]
    "pull_$1" big
    layout_holds "pulled/$1-big" "$digest"
    memory=$(peak)
    echo "the server took $memory KiB at most" | tee -a peaks
    [ "$memory" -le $((64 * 1024)) ]
}
for client in "${big_clients[@]}"; do check "$client: 5 GB there and back" big_both_ways "$client"; done
sed 's/^/      /' peaks
