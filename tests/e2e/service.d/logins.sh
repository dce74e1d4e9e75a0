# shellcheck shell=bash
echo "== users, tokens and rules"
htpasswd -cbB users alice alices-secret 2>/dev/null
htpasswd -bB users bob bobs-secret 2>/dev/null
cat >access.yaml <<'EOF'
apiVersion: kubepkg.dev/v1
kind: MirrorAccess
rules:
- {path: team/**, pull: [alice], push: [alice]}
- {path: docker.io/**, push: []}
EOF
serve_tls store --htpasswd users --access access.yaml --login-failures 30

# login CLIENT USER PASSWORD and logout CLIENT
login_skopeo() { skopeo login --cert-dir "$WORK/cert.d" -u "$1" -p "$2" "$mirror"; }
login_crane() { crane auth login "$mirror" -u "$1" -p "$2"; }
login_regctl() { regctl registry login "$mirror" -u "$1" -p "$2"; }
login_oras() { oras login "${oras_tls[@]}" -u "$1" -p "$2" "$mirror"; }
login_helm() { helm registry login "${helm_tls[@]}" -u "$1" -p "$2" "$mirror"; }
login_ctr() { login=$1:$2; }
no_logins() {
    login=
    rm -rf "$DOCKER_CONFIG" "$REGISTRY_AUTH_FILE" "$HOME/.config/helm"
    trust "$pki/ca.crt"
}

user_of() {
    no_logins
    "login_$1" alice alices-secret
    there_and_back "$1" plain "users/$1"
}
reader() {
    no_logins
    rm -rf "pulled/nobody"
    "pull_$1" plain "users/$1" pulled/nobody
    layout_holds pulled/nobody "$(source_of plain)"
}
stranger() {
    no_logins
    fails "push_$1" plain "nobody/$1"
    [ "$1" = crane ] || [ "$1" = ctr ] || fails "login_$1" alice wrong-secret
}
for client in skopeo crane regctl oras ctr; do
    check "$client: a user pushes" user_of "$client"
    check "$client: nobody pulls" reader "$client"
    check "$client: nobody pushes, and a wrong password is none" stranger "$client"
done

by_kubelet() {
    no_logins
    cri pull "$mirror/users/crane:v1"
    cri pull --creds alice:alices-secret "$mirror/users/skopeo:v1"
}
check 'crictl pulls, with a login and without' by_kubelet

helm_user() {
    local archive
    archive=$(ls "$repo"/tests/charts/*.tgz | head -1)
    no_logins
    fails helm push "${helm_tls[@]}" "$archive" "oci://$mirror/userscharts"
    login_helm alice alices-secret
    helm push "${helm_tls[@]}" "$archive" "oci://$mirror/userscharts"
    fails login_helm alice wrong-secret
}
check 'helm: a user pushes, nobody does not' helm_user

rules() {
    no_logins
    login_crane bob bobs-secret
    fails push_crane plain team/app 2>said
    grep -iE 'denied|forbidden' said
    fails push_crane plain docker.io/library/x
    login_crane alice alices-secret
    push_crane plain team/app
    crane manifest "$mirror/team/app:v1" >/dev/null
    login_crane bob bobs-secret
    fails crane manifest "$mirror/team/app:v1"
    no_logins
    fails crane manifest "$mirror/team/app:v1"
    fails grep team < <(secure -u bob:bobs-secret "https://$mirror/v2/_catalog")
    secure -u alice:alices-secret "https://$mirror/v2/_catalog" | grep team/app
}
check 'rules hold for each user' rules

node_login() {
    no_logins
    fails cri pull "$mirror/team/app:v1"
    printf '  [host."https://%s".header]\n    Authorization = "Basic %s"\n' "$mirror" \
        "$(printf alice:alices-secret | base64)" >>"$WORK/certs.d/$mirror/hosts.toml"
    cri pull "$mirror/team/app:v1"
    cri rmi "$mirror/team/app:v1"
    no_logins
}
check 'a node whose settings hold a login pulls what needs one' node_login

token_flow() {
    local token challenge
    secure_status -D head "https://$mirror/v2/" | grep 401
    challenge=$(tr -d '\r' <head | grep -i '^www-authenticate: Bearer')
    [[ $challenge == *"realm=\"https://$mirror/token\""* ]]
    token=$(secure -u alice:alices-secret "https://$mirror/token?service=$mirror&scope=repository:team/app:pull" | jq -r .token)
    [ "$(secure_status -H "Authorization: Bearer $token" -H "$accept" "https://$mirror/v2/team/app/manifests/v1")" = 200 ]
    [ "$(secure_status -H "Authorization: Bearer ${token}x" "https://$mirror/v2/")" = 401 ]
    # nobody keeps a token whose password is another
    htpasswd -bB users alice another-secret 2>/dev/null
    refused_by_now() { [ "$(secure_status -H "Authorization: Bearer $token" "https://$mirror/v2/")" = 401 ]; }
    await mirror refused_by_now
    secure -u alice:another-secret "https://$mirror/v2/" >/dev/null
}
check 'a token is asked for, given, and ends with its password' token_flow

many_wrong() {
    local n last
    for n in $(seq 60); do last=$(secure_status -u "bob:guess-$n" "https://$mirror/v2/"); done
    [ "$last" = 429 ]
    secure_status -D head -u bob:guess "https://$mirror/v2/" | grep 429
    grep -i '^retry-after: ' head
    # who is known goes on, and so does who needs no login
    secure -u alice:another-secret "https://$mirror/v2/" >/dev/null
    [ "$(secure_status -H "$accept" "https://$mirror/v2/users/crane/manifests/v1")" = 200 ]
}
check 'many wrong passwords are sent away, others are not' many_wrong
stop mirror

known_user() {
    no_logins
    printf 'long-enough' | kubepkg mirror user add carol --store store --password-file -
    kubepkg mirror user list --store store | grep -x carol
    serve_tls store
    trap 'stop mirror' EXIT
    login_crane carol long-enough
    push_crane plain users/carol
    kubepkg mirror user rm carol --store store
    gone() { [ "$(secure_status -u carol:long-enough "https://$mirror/v2/")" = 401 ]; }
    await mirror gone
}
check 'mirror user makes users a client can be' known_user
rm -f store/users
no_logins
