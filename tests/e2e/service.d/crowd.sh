# shellcheck shell=bash
# Very many connections on which nothing happens. `crowd_found` waits for what they find.
manifest=/v2/tls/skopeo/manifests/v1
# As many as the system lets one process have: a connection and its file take two of what it may open.
ulimit -n "$(ulimit -Hn)"
idle=10000
most=$((($(ulimit -n) - 256) / 2 - 64))
[ "$idle" -le "$most" ] || idle=$most
room="--max-connections $((idle + 64))"
beside crowd plain "$room --idle-timeout 15s" idle "$idle" 15 "$manifest"
# handshakes take processors some time, of both sides
beside crowd_tls tls "$room --idle-timeout 50s" idle "$idle" 50 "$manifest"

crowd_found() {
    echo "== very many connections on which nothing happens"
    found crowd "$idle: a manifest is there quickly, all end"
    found crowd_tls 'the same with TLS'
}
