# shellcheck shell=bash
echo "== a certificate the mirror makes"
serve_own() {
    daemon mirror "$KUBEPKG" mirror serve --store store --listen "$mirror" --self-signed 127.0.0.1 \
        --self-signed mirror.example.com
    await mirror test -s store/tls/ca.crt
    ca=store/tls/ca.crt await mirror secure "https://$mirror/healthz"
}
must 'it makes one' serve_own
own_certificate() {
    local ca=store/tls/ca.crt
    secure "https://$mirror/node-config/ca.crt" | cmp - "$ca"
    grep -F "$(fingerprint "$ca" | cut -d= -f2)" "$WORK/log/mirror"
    openssl verify -CAfile "$ca" -purpose sslserver -verify_ip 127.0.0.1 store/tls/server.pem
    # a machine whose clock was never set
    openssl verify -CAfile "$ca" -attime 86400 store/tls/server.pem
    openssl verify -CAfile "$ca" -attime "$(date -d '+8 years' +%s)" store/tls/server.pem
    [ "$(stat -c %a store/tls/ca.key)" = 600 ]
}
check 'openssl and curl trust it, also in 1970 and in eight years' own_certificate
node_settings() {
    rm -rf made && mkdir made
    secure "https://$mirror/node-config/containerd?mirror=https://$mirror" >made.tar || true
    ca=store/tls/ca.crt secure "https://$mirror/node-config/containerd" | tar -C made -xf -
    cmp made/kubepkg-mirror-ca.crt store/tls/ca.crt
    kubepkg node-config containerd --store store --mirror "https://$mirror" -o written
    diff -r made written
    # as they lie on a node
    mkdir -p /etc/containerd
    mount -t tmpfs none /etc/containerd
    cp -r made /etc/containerd/certs.d
    rm -rf "$WORK/certs.d" && cp -r made "$WORK/certs.d"
}
certs_for_node() {
    # what is pulled by its upstream name comes from the mirror, over TLS
    local digest
    digest=$(source_of plain)
    KUBEPKG_STORE= true
    node_ctr images pull --hosts-dir "$WORK/certs.d" --all-platforms --snapshotter "$node_snapshotter" "docker.io/library/own:v1"
    node_ctr images ls -q | grep -x docker.io/library/own:v1
    node_ctr content get "$digest" >/dev/null
}
give_image() {
    stop mirror
    serve_tls store --anonymous-push
    push_crane plain docker.io/library/own
    stop mirror
    serve_own
}
check 'an image is there under its upstream name' give_image
pid_mirror=$(pgrep -n -f "mirror serve --store store --listen $mirror" || echo "$pid_mirror")
check 'settings for nodes carry the CA' node_settings
check 'containerd pulls by them' certs_for_node
stop mirror
kept_ca() {
    cp store/tls/ca.crt before.crt
    daemon mirror "$KUBEPKG" mirror serve --store store --listen "$mirror" --self-signed 127.0.0.1 --self-signed new.example.com
    ca=before.crt await mirror secure "https://$mirror/healthz"
    cmp before.crt store/tls/ca.crt
    openssl x509 -in store/tls/server.pem -noout -ext subjectAltName | grep new.example.com
    stop mirror
}
check 'other names, the same CA' kept_ca
trust "$pki/ca.crt"
