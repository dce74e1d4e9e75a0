# shellcheck shell=bash
echo "== certificates that end and change"
large=$WORK/large
openssl enc -aes-128-ctr -K 00 -iv 00 </dev/zero 2>/dev/null | head -c 200000000 >"$large" || true
large_digest=$(digest_of "$large")
serve_tls store --anonymous-push

give_large() {
    [ "$(secure_status -X POST --data-binary "@$large" -H 'Content-Type: application/octet-stream' \
        "https://$mirror/v2/large/file/blobs/uploads/?digest=$large_digest")" = 201 ]
}
must 'a large blob is pushed' give_large

# use NAME: puts another pair in the place of the one in use, as one step.
use() {
    cat "$pki/$1.crt" "$pki/$1.key" >"$pki/next.pem"
    mv "$pki/next.pem" "$pki/used.pem"
}
shows() { [ "$(presented)" = "$(fingerprint "$pki/$1.crt")" ]; }

in_the_middle() {
    local how transfers=() place
    for how in http1.1 http2-prior-knowledge; do
        secure "--$how" --limit-rate 40M -o "got.$how" "https://$mirror/v2/large/file/blobs/$large_digest" &
        transfers+=($!)
        await mirror test -s "got.$how"
    done
    place=$(secure -X POST -D - -o /dev/null "https://$mirror/v2/renewed/file/blobs/uploads/" | tr -d '\r' | sed -n 's/^location: //Ip')
    secure -X PUT --limit-rate 40M -T "$large" -o /dev/null "https://$mirror$place?digest=$large_digest" &
    transfers+=($!)
    await mirror test -s "store/uploads/${place##*/}"
    use second
    await mirror shows second
    for how in "${transfers[@]}"; do kill -0 "$how"; done # they still run
    for how in "${transfers[@]}"; do wait "$how"; done
    for how in got.*; do is "$large_digest" "$how"; done
    [ "$(secure_status -I "https://$mirror/v2/renewed/file/blobs/$large_digest")" = 200 ]
    rm got.*
}
check 'a new certificate in the middle of pulls and a push disturbs none' in_the_middle

broken_pair() {
    cp "$pki/server.crt" "$pki/used.pem" # without its key
    await mirror grep 'the one before goes on' "$WORK/log/mirror"
    shows second
    use server
    await mirror shows server
}
check 'a pair that cannot be used leaves the one before' broken_pair

ended() {
    use expired
    await mirror grep 'the new certificate does not hold now' "$WORK/log/mirror"
    shows server
    secure -o /dev/null "https://$mirror/v2/"
    fails kubepkg mirror serve --store store --tls-cert "$pki/used.pem" --check 2>said
    grep 'does not hold now' said
}
check 'an expired one is said by --check and the log, and leaves one that holds' ended

# begin NAME ARGUMENTS…: serves with the pair in use, and waits until it shows NAME.
begin() {
    local name=$1
    shift
    daemon mirror "$KUBEPKG" mirror serve --store store --listen "$mirror" \
        --tls-cert "$pki/used.pem" --reload-every 1s "$@"
    await mirror shows "$name"
}

stop mirror

cp "$pki/ca.crt" "$pki/handed.crt"
use server
begin server --tls-ca "$pki/handed.crt"
hands_out() { secure "https://$mirror/node-config/ca.crt" | cmp - "$pki/handed.crt"; }
rotated() {
    hands_out
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=next CA' -days 3650 \
        -keyout "$pki/next-ca.key" -out "$pki/next-ca.crt" 2>/dev/null
    cat "$pki/next-ca.crt" "$pki/ca.crt" >"$pki/both.crt"
    mv "$pki/both.crt" "$pki/handed.crt"
    await mirror hands_out
}
check 'a changed CA is handed out without a restart' rotated
stop mirror

use expired
begin expired
refused() {
    grep 'does not hold now' "$WORK/log/mirror"
    fails secure "https://$mirror/v2/"
    fails crane manifest "$mirror/tls/skopeo:v1"
    fails skopeo inspect --cert-dir "$WORK/cert.d" "docker://$mirror/tls/skopeo:v1"
}
check 'an expired one is refused by clients' refused
stop mirror
use server
