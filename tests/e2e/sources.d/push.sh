# shellcheck shell=bash
# The way back: a package tree pushed to the same registries.
echo "== pushing"

make_tree() {
    mkdir -p tree-to-push/bin
    printf 'apiVersion: v2\nname: web\nversion: 1.0.0\n' >tree-to-push/Chart.yaml
    printf '#!/bin/sh\n' >tree-to-push/bin/run.sh
    chmod 755 tree-to-push/bin/run.sh
    head -c 3M /dev/urandom >tree-to-push/noise
}
must 'a tree is made' make_tree

# push NAME FLAGS…: the tree as a repository of its own, as talkative as it gets.
push() {
    local name=$1 rc=0
    shift
    kubepkg -vvv push tree-to-push "$name.example.com/trees/$name:1" "$@" >pinned 2>said || rc=$?
    keeps_secrets
    return "$rc"
}
# pushes NAME FLAGS…: it is there afterwards, found by a program that is not ours in the registry
# behind the server, and pushing it again sends nothing.
pushes() {
    local name=$1 digest
    push "$@"
    digest=$(cut -d@ -f2 pinned)
    grep -x "$name.example.com/trees/$name:1@sha256:[0-9a-f]*" pinned
    skopeo inspect --raw --tls-verify=false "docker://127.0.0.1:5000/trees/$name:1" >manifest
    is "$digest" manifest
    skopeo copy -q --src-tls-verify=false "docker://127.0.0.1:5000/trees/$name@$digest" "oci:back:$name"
    forget front
    push "$@"
    grep -F 'already there' said
    [ "$(cut -d@ -f2 pinned)" = "$digest" ]
    [ -z "$(answered front "$name" '(POST|PUT|PATCH)')" ]
}
push_refused() {
    local want=$1 rc=0
    shift
    push "$@" || rc=$?
    [ "$rc" = "$want" ] || {
        echo "exit $rc where $want was expected"
        cat said
        return 1
    }
    [ ! -s pinned ]
}

with_login() { pushes registry "${ca[@]}"; }
with_client_certificate() { pushes secured "${ca[@]}" "${auth[@]}" --cert pki/client.pem --cert-key pki/client.key; }
without_login() {
    DOCKER_CONFIG=/nowhere push_refused 5 registry "${ca[@]}"
    tells 'registry.example.com gives no access without credentials' 401 'docker login registry.example.com'
}
without_trust() {
    push_refused 5 registry
    tells registry.example.com 'no secure connection can be made' --ca-file
}
login_to_small() { jq '.auths["small.example.com"] = .auths["registry.example.com"]' containers.json >small.json; }
must 'a login for one more name' login_to_small
small=(--registry-config small.json)

# An nginx that nobody told otherwise takes bodies of a mebibyte.
in_pieces() { pushes small "${ca[@]}" "${small[@]}"; }
pieces_were_sent() {
    forget front
    kubepkg push tree-to-push small.example.com/other/tree:1 "${ca[@]}" "${small[@]}"
    answered front small ' (PUT|PATCH) ' | tee sent
    grep '^413 PUT' sent
    [ "$(grep -c '^202 PATCH' sent)" = 4 ]
}
against_limits() {
    local n
    for n in 1 2 3 4 5 6; do kubepkg push tree-to-push "limited.example.com/trees/limited:$n" "${ca[@]}"; done
    answered front limited | grep '^429'
    skopeo inspect --raw --tls-verify=false docker://127.0.0.1:5000/trees/limited:6 >manifest
    is "$(cut -d@ -f2 pinned)" manifest
}
check 'with a login, once' with_login
check 'with a certificate that is demanded' with_client_certificate
check 'without a password: which host, and how to log in' without_login
check 'an unknown authority: which host, and --ca-file' without_trust
check 'past a proxy that takes no large bodies' in_pieces
check 'in pieces of a mebibyte' pieces_were_sent
check 'past a limit on requests' against_limits
