# shellcheck shell=bash
echo '== a certificate of the site, and the next one'
# sign NAME: a certificate and its key, by the CA of the site.
sign() {
    openssl req -new -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj '/CN=mirror.example.com' 2>/dev/null
    openssl x509 -req -in "$1.csr" -CA site-ca.crt -CAkey site-ca.key -CAcreateserial -days 30 -out "$1.crt" \
        -extfile <(echo 'subjectAltName=DNS:mirror.example.com,IP:10.0.0.5') 2>/dev/null
}
certificates() {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout site-ca.key -out site-ca.crt -days 90 -subj '/CN=site' 2>/dev/null
    sign first
    sign second
}
must 'the site has a CA' certificates

# carry NAME: the pair as it comes to the machine.
carry() {
    cp "$1.crt" "$machine/root/mirror.crt"
    cp "$1.key" "$machine/root/mirror.key"
}
settings() {
    sed -i -e '/^selfSigned:/,/^$/d' -e 's/^# \(tlsCert\|tlsKey\):/\1:/' "$machine/etc/kubepkg/mirror.yaml"
    grep -E '^tls' "$machine/etc/kubepkg/mirror.yaml"
    carry first
    # a key that only root may read is said before anything is stopped
    on install -D -m 600 -t /etc/kubepkg/tls mirror.crt mirror.key
    fails on runuser -u kubepkg -- kubepkg mirror serve --config /etc/kubepkg/mirror.yaml --check 2>said
    cat said
    grep -F /etc/kubepkg/tls/mirror said
    place_pair
    as_said 'runuser -u kubepkg -- kubepkg mirror serve --config /etc/kubepkg/mirror.yaml --check'
    as_said 'systemctl restart kubepkg-mirror'
    first_shown() { [ "$(presented)" = "$(fingerprint first.crt)" ]; }
    await machine first_shown
}
place_pair() {
    as_said 'install -D -m 644 mirror.crt /etc/kubepkg/tls/mirror.crt'
    as_said 'install -D -m 640 -g kubepkg mirror.key /etc/kubepkg/tls/mirror.key'
}
must 'the mirror speaks with a certificate of the site' settings
ca=$WORK/site-ca.crt
trust site-ca.crt

large=$WORK/large
openssl enc -aes-128-ctr -K 00 -iv 00 </dev/zero 2>/dev/null | head -c 100000000 >"$large" || true
large_digest=$(digest_of "$large")
give_large() {
    [ "$(secure_status -u 'alice:password of alice' -X POST --data-binary "@$large" -H 'Content-Type: application/octet-stream' \
        "https://$at/v2/lab/large/blobs/uploads/?digest=$large_digest")" = 201 ]
}
must 'something large is there to pull' give_large
renewed() {
    ca=$WORK/site-ca.crt secure --max-time 60 --limit-rate 8M -o got "https://$at/v2/lab/large/blobs/$large_digest" &
    local pull=$!
    await machine test -s got
    carry second
    place_pair
    second_shown() { [ "$(presented)" = "$(fingerprint second.crt)" ]; }
    await machine second_shown
    kill -0 "$pull" # it still runs
    wait "$pull"
    is "$large_digest" got
}
check 'it is renewed in the middle of a pull, without a restart' renewed
check 'everything is served with the new one' serves

newer() {
    local before
    before=$(on systemctl show -P MainPID kubepkg-mirror)
    as_said 'install -m 755 kubepkg /usr/local/bin/'
    as_said 'systemctl restart kubepkg-mirror'
    await machine answers_again
    [ "$(on systemctl show -P MainPID kubepkg-mirror)" != "$before" ]
    [ "$(on systemctl show -P Result kubepkg-mirror)" = success ]
}
answers_again() { secure "https://$at/readyz"; }
check 'a newer program takes the place of the running one' newer
