# shellcheck shell=bash
echo "== TLS with a CA of one's own"
trust "$pki/ca.crt"
serve_tls store --new-store --anonymous-push
for client in skopeo crane regctl oras ctr; do
    check "$client pushes and pulls" there_and_back "$client" index "tls/$client"
done

helm_charts() {
    local archive
    archive=$(ls "$repo"/tests/charts/*.tgz | head -1)
    helm push "${helm_tls[@]}" "$archive" "oci://$mirror/charts"
    helm repo add --force-update "${helm_tls[@]}" site "https://$mirror/charts/charts" ||
        secure "https://$mirror/charts/charts/index.yaml" >/dev/null
}
check 'helm pushes a chart' helm_charts

check 'crictl pulls through the settings of the node' cri pull "$mirror/tls/skopeo:v1"

untrusted() {
    fails env SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev/null crane manifest "$mirror/tls/skopeo:v1"
    fails curl -sS --cacert /dev/null "https://$mirror/v2/"
    fails env -u SSL_CERT_FILE skopeo inspect "docker://$mirror/tls/skopeo:v1"
}
check 'who does not trust the CA gets nothing' untrusted

plain_on_tls() {
    [ "$(curl -sS -o said -w '%{http_code}' "http://$mirror/v2/")" = 400 ]
    grep -o 'use https://' said
}
check 'who speaks plain HTTP is told so' plain_on_tls

versions() {
    openssl s_client -connect "$mirror" -tls1_2 </dev/null 2>&1 | grep 'Protocol.*TLSv1.2'
    openssl s_client -connect "$mirror" -tls1_3 </dev/null 2>&1 | grep 'TLSv1.3'
    openssl s_client -connect "$mirror" -tls1_1 </dev/null >old 2>&1 || true
    fails grep 'Cipher is TLS\|Cipher is ECDHE' old
    openssl s_client -connect "$mirror" -alpn h2 </dev/null 2>&1 | grep 'ALPN protocol: h2'
    openssl s_client -connect "$mirror" -alpn h2,http/1.1 </dev/null 2>&1 | grep 'ALPN protocol: http/1.1'
}
check 'TLS 1.2 and 1.3, nothing older; HTTP/2 for who wants it alone' versions
stop mirror
