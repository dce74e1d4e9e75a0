# shellcheck shell=bash
# A mirror with TLS, and clients that trust its CA.

# serve_tls STORE [flags]: starts a mirror with the certificate in use; `stop mirror` ends it.
serve_tls() {
    local store=$1
    shift
    daemon mirror "$KUBEPKG" mirror serve --store "$store" --listen "$mirror" \
        --tls-cert "$pki/used.pem" --tls-ca "$pki/ca.crt" --reload-every 1s "$@"
    await mirror secure "https://$mirror/healthz"
}

secure() { curl -fsS --cacert "${ca:-$pki/ca.crt}" "$@"; }
secure_status() { curl -sS -o /dev/null --cacert "${ca:-$pki/ca.crt}" -w '%{http_code}' "$@"; }

# trust CA [CERTIFICATE KEY]: makes all clients trust it, and show a certificate.
trust() {
    local d=$WORK/cert.d
    rm -rf "$d" "$WORK/certs.d" "$REGCTL_CONFIG"
    mkdir -p "$d" "$WORK/certs.d/$mirror"
    cp "$1" "$d/ca.crt"
    regctl registry set "$mirror" --tls enabled --cacert "$(cat "$1")" --skip-check
    {
        printf 'server = "https://%s"\n[host."https://%s"]\n  ca = "%s"\n' "$mirror" "$mirror" "$1"
        [ -z "${2:-}" ] || printf '  client = [["%s", "%s"]]\n' "$2" "$3"
    } >"$WORK/certs.d/$mirror/hosts.toml"
    oras_tls=(--ca-file "$1")
    helm_tls=(--ca-file "$1")
    if [ -n "${2:-}" ]; then
        cp "$2" "$d/client.cert"
        cp "$3" "$d/client.key"
        regctl registry set "$mirror" --client-cert "$(cat "$2")" --client-key "$(cat "$3")" --skip-check
        oras_tls+=(--cert-file "$2" --key-file "$3")
        helm_tls+=(--cert-file "$2" --key-file "$3")
    fi
    export SSL_CERT_FILE=$1
}

# push_CLIENT NAME TO and pull_CLIENT NAME FROM: as users of that client do.
push_skopeo() { skopeo copy -q --all --preserve-digests --dest-cert-dir "$WORK/cert.d" "oci:$source/$1:v1" "docker://$mirror/$2:v1"; }
pull_skopeo() { skopeo copy -q --all --preserve-digests --src-cert-dir "$WORK/cert.d" "docker://$mirror/$2:v1" "oci:$3:v1"; }
push_crane() { crane push "$source/$1" "$mirror/$2:v1"; }
pull_crane() { crane pull --format oci "$mirror/$2:v1" "$3"; }
push_regctl() { regctl image copy "ocidir://$source/$1:v1" "$mirror/$2:v1"; }
pull_regctl() { regctl image copy "$mirror/$2:v1" "ocidir://$3:v1"; }
push_oras() { oras cp --no-tty "${oras_tls[@]/#--/--to-}" --from-oci-layout "$source/$1:v1" "$mirror/$2:v1"; }
pull_oras() { oras cp --no-tty "${oras_tls[@]/#--/--from-}" --to-oci-layout "$mirror/$2:v1" "$3:v1"; }
push_ctr() {
    tar -C "$source/$1" -cf - . | node_ctr images import --no-unpack --all-platforms --base-name "$mirror/$2" -
    node_ctr images push --hosts-dir "$WORK/certs.d" ${login:+--user "$login"} "$mirror/$2:v1"
}
pull_ctr() {
    node_ctr images rm --sync "$mirror/$2:v1" || true
    node_ctr images pull --hosts-dir "$WORK/certs.d" --all-platforms --snapshotter "$node_snapshotter" "$mirror/$2:v1"
    mkdir -p "$3"
    node_ctr images export --all-platforms - "$mirror/$2:v1" | tar -C "$3" -xf -
}

# there_and_back CLIENT NAME TO
there_and_back() {
    local to=pulled/$3
    rm -rf "$to"
    mkdir -p "$(dirname "$to")"
    "push_$1" "$2" "$3"
    "pull_$1" "$2" "$3" "$to"
    layout_holds "$to" "$(source_of "$2")"
}
