# shellcheck shell=bash
echo "== slow clients"
serve_tls store --anonymous-push --handshake-timeout 2s --header-timeout 2s --idle-timeout 4s --max-connections 600

# open_to N BYTES: N connections that say so much and then nothing; their number goes to fd 9 and on.
open_connections() { ss -Htn state established "sport = :${mirror#*:}" | wc -l; }
none_left() { [ "$(open_connections)" -le 1 ]; }

handshakes() {
    local n fd fds=()
    for n in $(seq 300); do
        exec {fd}<>"/dev/tcp/${mirror%:*}/${mirror#*:}"
        printf '\x16\x03\x01' >&"$fd"
        fds+=("$fd")
    done
    # meanwhile others are served
    secure --max-time 5 "https://$mirror/healthz" >/dev/null
    await mirror none_left
    for fd in "${fds[@]}"; do exec {fd}>&-; done
}
check '300 handshakes that never end: others are served, they are closed' handshakes

heads() {
    local n
    for n in $(seq 20); do
        (
            printf 'GET /v2/ HTTP/1.1\r\nHost: x\r\n'
            for _ in $(seq 100); do
                sleep 0.3
                printf 'X-A: b\r\n'
            done
        ) 2>/dev/null | openssl s_client -quiet -connect "$mirror" >/dev/null 2>&1 &
    done
    secure --max-time 5 "https://$mirror/healthz" >/dev/null
    await mirror none_left
    kill $(jobs -p) 2>/dev/null || true
}
check 'heads that come line by line for ever are ended' heads

unread() {
    local n
    for n in $(seq 10); do
        (
            printf 'GET /v2/large/file/blobs/%s HTTP/1.1\r\nHost: x\r\n\r\n' "$large_digest"
            sleep 30
        ) | openssl s_client -quiet -connect "$mirror" 2>/dev/null | (
            head -c 1 >/dev/null
            sleep 30
        ) &
    done
    secure --max-time 60 -o got "https://$mirror/v2/large/file/blobs/$large_digest"
    is "$large_digest" got
    await mirror none_left
    kill $(jobs -p) 2>/dev/null || true
}
check 'clients that never read hold up nobody and are closed' unread
stop mirror
