# shellcheck shell=bash
echo "== users over plain HTTP, and a store that is not to be changed"
htpasswd -cbB plain-users alice alices-secret 2>/dev/null

# serve_plain STORE [flags]
serve_plain() {
    local store=$1
    shift
    daemon mirror "$KUBEPKG" mirror serve --store "$store" --listen "$mirror" "$@"
    await mirror answers "http://$mirror/healthz"
}
# nothing_known: no client has a login, and all know that this host speaks plain HTTP.
nothing_known() {
    rm -rf "$DOCKER_CONFIG" "$REGISTRY_AUTH_FILE" "$HOME/.config/helm" "$REGCTL_CONFIG"
    regctl registry set "$mirror" --tls disabled --skip-check
    mkdir -p "$WORK/certs.d/$mirror"
    printf 'server = "http://%s"\n[host."http://%s"]\n' "$mirror" "$mirror" >"$WORK/certs.d/$mirror/hosts.toml"
}
# read_CLIENT REF and enter_CLIENT USER PASSWORD
read_skopeo() { skopeo inspect --raw --tls-verify=false "docker://$1" >/dev/null; }
read_crane() { crane manifest "$1" >/dev/null; }
read_regctl() { regctl manifest get "$1" >/dev/null; }
read_oras() { oras manifest fetch --plain-http "$1" >/dev/null; }
read_helm() { helm pull --plain-http "oci://$mirror/plain/$chart_name" --destination pulled; }
read_ctr() { node_ctr images pull --hosts-dir "$WORK/certs.d" --all-platforms --snapshotter "$node_snapshotter" "$1" >/dev/null; }
read_crictl() {
    cri rmi "$1" >/dev/null 2>&1 || true
    cri pull "$1"
}
enter_skopeo() { skopeo login --tls-verify=false -u "$1" -p "$2" "$mirror"; }
enter_regctl() { regctl registry login "$mirror" -u "$1" -p "$2"; }
enter_oras() { oras login --plain-http -u "$1" -p "$2" "$mirror"; }
enter_helm() { helm registry login --plain-http -u "$1" -p "$2" "$mirror"; }
# the command alone; a daemon does the same for it
enter_docker() { docker -H unix:///nowhere login -u "$1" -p "$2" "$mirror"; }
logins_of=(skopeo regctl oras helm)
! command -v docker >/dev/null || logins_of+=(docker)

serve_plain store --anonymous-push
fill_plain() {
    local archive
    nothing_known
    crane push "$source/plain" "$mirror/plain/image:v1"
    archive=$(ls "$repo"/tests/charts/*.tgz | head -1)
    chart_name=$(helm show chart "$archive" | sed -n 's/^name: //p')
    helm push --plain-http "$archive" "oci://$mirror/plain"
}
check 'an image and a chart are pushed' fill_plain
chart_name=$(helm show chart "$(ls "$repo"/tests/charts/*.tgz | head -1)" | sed -n 's/^name: //p')
stop mirror

reads_without() {
    nothing_known
    "read_$1" "$mirror/plain/image:v1"
}
enters() {
    nothing_known
    "enter_$1" alice alices-secret
    fails "enter_$1" alice wrong-secret
    fails "enter_$1" nobody alices-secret
}
for way in '--insecure-http' ''; do
    # shellcheck disable=SC2086
    serve_plain store --htpasswd plain-users $way
    for client in skopeo crane regctl oras helm ctr crictl; do
        check "$client pulls without a login (${way:-nothing said of the way})" reads_without "$client"
    done
    for client in "${logins_of[@]}"; do
        check "$client logs in, and not with a wrong password (${way:-nothing said of the way})" enters "$client"
    done
    stop mirror
done

# as one that is mounted for reading only, which root may not write either
mkdir -p mounted
mount --bind store mounted
mount -o remount,bind,ro mounted
not_ready() {
    serve_plain mounted
    trap 'stop mirror' EXIT
    [ "$(curl -sS -o said -w '%{http_code}' "http://$mirror/readyz")" = 503 ]
    grep 'opened for writing' said
    read_crane "$mirror/plain/image:v1"
    fails kubepkg mirror serve --store mounted --listen 127.0.0.1:0 --check 2>said
    grep 'mounted for reading only' said
}
check 'a store that cannot be written is served and not ready' not_ready
only_read() {
    serve_plain mounted --read-only
    trap 'stop mirror' EXIT
    answers "http://$mirror/readyz"
    read_crane "$mirror/plain/image:v1"
    fails crane push "$source/plain" "$mirror/plain/other:v1"
    kubepkg mirror serve --store mounted --read-only --listen 127.0.0.1:0 --check | grep 'only read'
}
check 'with --read-only it is ready' only_read
umount mounted
no_logins
