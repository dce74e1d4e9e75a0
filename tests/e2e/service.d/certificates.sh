# shellcheck shell=bash
# A CA of one's own, and what it signs.

pki=$WORK/pki

# signed NAME DAYS EXTENSIONS…: NAME.crt and NAME.key, by the CA. Negative days: it has ended.
signed() {
    local name=$1 days=$2
    shift 2
    {
        cat <<EOF
[ca]
default_ca = site
[site]
database = $pki/index
new_certs_dir = $pki/made
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[extensions]
EOF
        printf '%s\n' "$@"
    } >"$pki/$name.conf"
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$name" \
        -keyout "$pki/$name.key" -out "$pki/$name.csr"
    # `openssl x509` cannot make one that has ended
    openssl ca -batch -notext -config "$pki/$name.conf" -extensions extensions \
        -cert "$pki/ca.crt" -keyfile "$pki/ca.key" -in "$pki/$name.csr" -out "$pki/$name.crt" \
        -startdate "$(date -u -d '-10 days' +%Y%m%d%H%M%SZ)" -enddate "$(date -u -d "$days days" +%Y%m%d%H%M%SZ)"
}

names='subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:mirror.example.com'

certificates() {
    mkdir -p "$pki/made"
    : >"$pki/index"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/CN=site CA' -days 3650 \
        -keyout "$pki/ca.key" -out "$pki/ca.crt" \
        -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
    signed server 365 "$names"
    signed second 365 "$names"
    signed expired -1 "$names"
    signed node 365 extendedKeyUsage=clientAuth
    openssl verify -CAfile "$pki/ca.crt" "$pki/server.crt" "$pki/node.crt"
    cat "$pki/server.crt" "$pki/server.key" >"$pki/used.pem"
}

# presented: SHA-256 of the certificate the mirror shows.
presented() {
    openssl s_client -connect "$mirror" -servername localhost </dev/null 2>/dev/null |
        openssl x509 -noout -fingerprint -sha256
}
fingerprint() { openssl x509 -noout -fingerprint -sha256 -in "$1"; }
