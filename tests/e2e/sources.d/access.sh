# shellcheck shell=bash
# Passwords and certificates. The registry was filled by skopeo, which logged in.
echo "== who we are"

# Folders with certificates in the form skopeo and containerd know.
certificate_folders() {
    mkdir -p certs/registry certs/secured
    cp pki/own.pem certs/registry/ca.crt
    cp pki/own.pem certs/secured/ca.crt
    cp pki/client.pem certs/secured/client.cert
    cp pki/client.key certs/secured/client.key
}
skopeo_fills_it() {
    local tag
    certificate_folders
    skopeo login -u "$user" --password-stdin --authfile containers.json --cert-dir certs/registry registry.example.com <<<"$password"
    for tag in index single large; do
        skopeo copy -q --all --preserve-digests --authfile containers.json --dest-cert-dir certs/registry \
            "oci:layout:$tag" "docker://registry.example.com/app/$tag:v1"
    done
    skopeo login -u "$user" --password-stdin --authfile containers.json --cert-dir certs/secured secured.example.com <<<"$password"
}
must 'skopeo logs in and fills the registry' skopeo_fills_it

docker_login() {
    SSL_CERT_FILE=$WORK/pki/own.pem crane auth login registry.example.com -u "$user" --password-stdin <<<"$password"
    jq -e '.auths["registry.example.com"].auth' "$DOCKER_CONFIG/config.json" >/dev/null
}
must "crane logs in, into Docker's config.json" docker_login

ca=(--ca-file pki/own.pem)
with_docker_config() { brings registry "${ca[@]}"; }
with_auth_file() { DOCKER_CONFIG=/nowhere REGISTRY_AUTH_FILE=$WORK/containers.json brings registry "${ca[@]}"; }
with_config_home() {
    mkdir -p "$XDG_CONFIG_HOME/containers"
    cp containers.json "$XDG_CONFIG_HOME/containers/auth.json"
    DOCKER_CONFIG=/nowhere brings registry "${ca[@]}"
    rm "$XDG_CONFIG_HOME/containers/auth.json"
}
with_flag() { DOCKER_CONFIG=/nowhere brings registry "${ca[@]}" --registry-config containers.json; }
check "credentials of Docker's config.json, and an authority by --ca-file" with_docker_config
check 'credentials of an auth.json by REGISTRY_AUTH_FILE' with_auth_file
check 'credentials of an auth.json where containers keeps it' with_config_home
check 'credentials of a file by --registry-config' with_flag

without_password() {
    DOCKER_CONFIG=/nowhere refused 5 registry "${ca[@]}"
    tells 'registry.example.com/app/' 'registry.example.com gives no access without credentials' 401 \
        'docker login registry.example.com' 'skopeo login registry.example.com' --registry-config
}
with_wrong_password() {
    jq --arg a "$(printf %s "$user:not-$password" | base64)" '.auths["registry.example.com"].auth = $a' containers.json >wrong.json
    refused 5 registry "${ca[@]}" --registry-config wrong.json
    tells 'registry.example.com gives no access with the credentials configured for it' 401 'check the user and password'
    fails grep -F "$(printf %s "$user:not-$password" | base64)" said
}
broken_file() {
    printf '{"auths":{"registry.example.com":{"auth":"%s"}}}' "$password" >broken.json
    refused 1 registry "${ca[@]}" --registry-config broken.json
    tells broken.json
}
check 'no password: which host, and how to log in' without_password
check 'a wrong password: which host, and what to check' with_wrong_password
check 'a file of credentials that is none is named, not quoted' broken_file

echo "== who they are, and certificates of our own"
without_authority() {
    refused 5 registry
    tells registry.example.com 'no secure connection can be made' --ca-file
}
with_wrong_authority() {
    refused 5 registry --ca-file pki/other.pem
    tells registry.example.com 'no secure connection can be made' --ca-file
}
check 'an unknown authority: which host, and --ca-file' without_authority
check 'another authority: which host, and --ca-file' with_wrong_authority

auth=(--registry-config containers.json)
with_certificate() { brings secured "${ca[@]}" "${auth[@]}" --cert pki/client.pem --cert-key pki/client.key; }
without_certificate() {
    refused 5 secured "${ca[@]}" "${auth[@]}"
    tells secured.example.com certificate --cert
}
check 'a certificate that is demanded, by --cert and --cert-key' with_certificate
check 'without it: which host wants one, and how to show it' without_certificate

# hosts NAME LINE…: settings in containerd's form.
hosts() {
    local name=$1
    shift
    mkdir -p "hosts.d/$name.example.com"
    printf '%s\n' "server = \"https://$name.example.com\"" "$@" >"hosts.d/$name.example.com/hosts.toml"
}
with_hosts_dir() {
    hosts registry "ca = \"$WORK/pki/own.pem\""
    hosts secured "ca = \"$WORK/pki/own.pem\"" "client = [[\"$WORK/pki/client.pem\", \"$WORK/pki/client.key\"]]"
    brings registry --hosts-dir hosts.d "${auth[@]}"
    brings secured --hosts-dir hosts.d "${auth[@]}"
}
with_docker_folder() {
    # the older form: certificates beside each other, no settings
    mkdir -p folder.d/secured.example.com
    cp certs/secured/* folder.d/secured.example.com/
    brings secured --hosts-dir folder.d "${auth[@]}"
}
hosts_dir_without_certificate() {
    hosts secured "ca = \"$WORK/pki/own.pem\""
    refused 5 secured --hosts-dir hosts.d "${auth[@]}"
    tells secured.example.com certificate client
}
# A certificate of one host is shown to no other.
another_has_the_certificate() {
    hosts registry "ca = \"$WORK/pki/own.pem\"" "client = [[\"$WORK/pki/client.pem\", \"$WORK/pki/client.key\"]]"
    refused 5 secured --hosts-dir hosts.d "${auth[@]}"
}
mirror_of_hosts() {
    # the registry itself is not there; a server before it has everything
    mkdir -p hosts.d/far.example.com
    printf '%s\n' 'server = "https://far.example.com"' '[host."https://secured.example.com"]' '  capabilities = ["pull", "resolve"]' \
        "  ca = \"$WORK/pki/own.pem\"" "  client = [[\"$WORK/pki/client.pem\", \"$WORK/pki/client.key\"]]" >hosts.d/far.example.com/hosts.toml
    brings far --hosts-dir hosts.d "${auth[@]}"
}
check 'authority and certificate of --hosts-dir' with_hosts_dir
check 'certificates beside each other in --hosts-dir' with_docker_folder
check 'a folder without the certificate: which host wants one' hosts_dir_without_certificate
check 'the certificate for one host is not shown to another' another_has_the_certificate
check 'a server named before the registry, with its own certificate' mirror_of_hosts
