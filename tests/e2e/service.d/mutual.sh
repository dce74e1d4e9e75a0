# shellcheck shell=bash
echo "== client certificates"
serve_mutual() {
    daemon mirror "$KUBEPKG" mirror serve --store store --listen "$mirror" --anonymous-push \
        --tls-cert "$pki/used.pem" --client-ca "$pki/ca.crt"
    await mirror secure --cert "$pki/node.crt" --key "$pki/node.key" "https://$mirror/healthz"
}
serve_mutual
trust "$pki/ca.crt" "$pki/node.crt" "$pki/node.key"
for client in skopeo regctl oras ctr; do
    check "$client shows one" there_and_back "$client" plain "mutual/$client"
done
without() {
    fails secure "https://$mirror/v2/"
    # a certificate of another CA
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -days 2 -keyout x.key -out x.crt 2>/dev/null
    fails secure --cert x.crt --key x.key "https://$mirror/v2/"
    # one for servers
    fails secure --cert "$pki/expired.crt" --key "$pki/expired.key" "https://$mirror/v2/"
}
check 'without one, or with another, nothing is answered' without
stop mirror
trust "$pki/ca.crt"
