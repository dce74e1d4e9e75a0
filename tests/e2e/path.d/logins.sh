# shellcheck shell=bash
echo '== the page, users, pushes'
page_is() { [ "$(secure_status "https://$at/")" = "$1" ]; }
check 'where rules keep something from readers and there are no users, nobody sees the page' page_is 403

users_are_made() {
    local name
    printf 'password of alice' >"$machine/root/alice.txt"
    as_said 'kubepkg mirror user add alice --store /srv/mirror --password-file alice.txt'
    # the others whom the rules of the sample name
    for name in bob robot; do
        printf 'password of %s' "$name" >"$machine/root/$name.txt"
        on kubepkg mirror user add "$name" --store /srv/mirror --password-file "$name.txt"
    done
    as_said 'kubepkg mirror user list --store /srv/mirror' | grep -x alice
    [ "$(on stat -c %U:%a /srv/mirror/users)" = kubepkg:600 ]
    known() { secure -u 'alice:password of alice' -o page.html "https://$at/"; }
    await machine known
}
must 'users are made beside the running mirror' users_are_made
check 'now the page asks for a login' page_is 401
page_shows() {
    grep -F 'registry.example.com' page.html
    grep -F 'second' page.html
    grep -F "docker pull $at/registry.example.com/tiny/index" page.html
}
check 'the page shows what came with the bundle' page_shows

pushes() {
    fails push_to registry.example.com/team/app:v1
    skopeo login -u alice -p 'password of alice' "$at"
    push_to lab/tool:v1
    fails push_to registry.example.com/team/app:v1 2>said
    grep -iE 'denied|forbidden' said
    fails push_to docker.io/library/tool:v1
    skopeo login -u robot -p 'password of robot' "$at"
    push_to registry.example.com/team/app:v1
    skopeo login -u alice -p 'password of alice' "$at"
    rm -rf back
    skopeo copy -q --all "docker://$at/registry.example.com/team/app:v1" dir:back
    diff <(skopeo inspect --raw "oci:$WORK/layout:index") back/manifest.json
}
check 'skopeo logs in, pushes where the rules let it, and pulls that again' pushes
wrong() {
    fails skopeo login -u alice -p wrong "$at"
    [ "$(secure_status -u alice:wrong "https://$at/v2/")" = 401 ]
}
check 'a wrong password is refused' wrong
