# shellcheck shell=bash
# People and programs that use the mirror from other machines.

secure() { curl -fsS --max-time 20 --cacert "${ca:-$WORK/ca.crt}" "$@"; }
secure_status() { curl -sS --max-time 20 -o "${body:-/dev/null}" --cacert "${ca:-$WORK/ca.crt}" -w '%{http_code}' "$@"; }

# fingerprint FILE: as openssl and the mirror write it.
fingerprint() { openssl x509 -in "$1" -noout -fingerprint -sha256 | cut -d= -f2; }
presented() { openssl s_client -connect "$at" -servername mirror.example.com </dev/null 2>/dev/null | openssl x509 -noout -fingerprint -sha256 | cut -d= -f2; }

# trust CA: skopeo, podman and buildah look there.
trust() { install -D -m 644 "$1" "/etc/containers/certs.d/$at/ca.crt"; }

push_to() { skopeo copy -q --all --preserve-digests "oci:$WORK/layout:index" "docker://$at/$1"; }

# serves WHAT…: everything the bundle brought, byte by byte; or only what is in the file named.
serves() {
    local digest path answer
    while read -r digest path; do
        answer=$(body=got secure_status -H "$accept" "https://$at/$path")
        [ "$answer" = 200 ] || {
            echo "$answer for $path"
            return 1
        }
        is "$digest" got
    done <"$WORK/wanted"
}
