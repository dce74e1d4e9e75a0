# shellcheck shell=bash
echo "== clients that do nothing, or little"
for kind in plain tls; do
    beside "unread_$kind" $kind '--idle-timeout 6s' unread http/1.1 200 6 "$large_digest"
done
for kind in plain tls; do beside "full_$kind" $kind '--max-connections 50' full 50 "$large_digest"; done
beside unread_h2 tls '--idle-timeout 6s' unread h2 100 6 "$large_digest"
found unread_plain '200 clients that never read: others are served, they are ended'
found unread_tls 'the same with TLS'
found unread_h2 '100 clients of HTTP/2 that never read, with 32 requests each'
found full_plain 'as many connections as there may be: in use, others are refused; quiet, they make way'
found full_tls 'the same with TLS'

for kind in plain tls; do
    beside "stalled_$kind" $kind '--idle-timeout 4s' stalled http/1.1 4
    beside "slow_$kind" $kind '--idle-timeout 6s --header-timeout 3s --handshake-timeout 3s' slow 3 6
done
beside stalled_h2 tls '--idle-timeout 4s' stalled h2 4
found stalled_plain 'uploads that stop in the middle are ended and go on later'
found stalled_tls 'the same with TLS'
found stalled_h2 'the same with HTTP/2'
found slow_plain 'what is asked byte by byte is ended, what is pushed byte by byte arrives'
found slow_tls 'the same with TLS'
