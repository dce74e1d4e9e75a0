# shellcheck shell=bash
echo "== a certificate the mirror makes"
serve_tls store --anonymous-push
check 'an image is there under its upstream name' push_crane plain docker.io/library/own
stop mirror

# serve_own CA HOST: with the CA in that file, once it is made.
serve_own() {
    daemon mirror "$KUBEPKG" mirror serve --store store --listen "$mirror" --self-signed 127.0.0.1 --self-signed "$2"
    await mirror test -s "$1"
    local ca=$1
    await mirror secure "https://$mirror/healthz"
}
serve_own store/tls/ca.crt mirror.example.com
own_certificate() {
    local ca=store/tls/ca.crt
    secure "https://$mirror/node-config/ca.crt" | cmp - "$ca"
    grep -F "$(fingerprint "$ca" | cut -d= -f2)" "$WORK/log/mirror"
    openssl verify -CAfile "$ca" -purpose sslserver -verify_ip 127.0.0.1 store/tls/server-*.pem
    # a machine whose clock was never set
    openssl verify -CAfile "$ca" -attime 86400 store/tls/server-*.pem
    openssl verify -CAfile "$ca" -attime "$(date -d '+8 years' +%s)" store/tls/server-*.pem
    [ "$(stat -c %a store/tls/ca.key)" = 600 ]
}
check 'openssl and curl trust it, also in 1970 and in eight years' own_certificate
node_settings() {
    local ca=store/tls/ca.crt
    mkdir made
    secure "https://$mirror/node-config/containerd" | tar -C made -xf -
    cmp made/kubepkg-mirror-ca.crt "$ca"
    kubepkg node-config containerd --store store --mirror "https://$mirror" -o written
    diff -r made written
    secure "https://$mirror/node-config/talos" | grep 'ca: '
}
check 'settings for nodes carry the CA, asked for or written' node_settings

# As they lie on a node: in the folder the settings name.
mkdir -p /etc/containerd
mount -t tmpfs none /etc/containerd
cp -r made /etc/containerd/certs.d
by_settings() {
    # what is pulled by its upstream name comes from the mirror, over TLS
    node_ctr images pull --hosts-dir /etc/containerd/certs.d --all-platforms --snapshotter "$node_snapshotter" docker.io/library/own:v1
    node_ctr content get "$(source_of plain)" >/dev/null
}
check 'containerd pulls by them' by_settings
stop mirror

cp store/tls/ca.crt before.crt
serve_own before.crt new.example.com
kept_ca() {
    cmp before.crt store/tls/ca.crt
    local file
    for file in store/tls/server-*.pem; do
        openssl x509 -in "$file" -noout -ext subjectAltName
    done | grep new.example.com
}
check 'other names, the same CA' kept_ca
stop mirror
trust "$pki/ca.crt"
