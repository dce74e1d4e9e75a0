# shellcheck shell=bash
# Package trees: pushed to registries of others and to the mirror, and read by clients that know
# nothing of kubepkg.
echo "== package trees"

others=127.0.0.1:5003
trees=(crane regctl oras skopeo)

make_tree() {
    mkdir -p tree/bin tree/templates
    printf 'apiVersion: v2\nname: web\nversion: 1.0.0\n' >tree/Chart.yaml
    printf '#!/bin/sh\necho hello\n' >tree/bin/run.sh
    chmod 755 tree/bin/run.sh
    printf 'ü\n' >"tree/templates/größe.txt"
    # more than one piece of anything
    head -c 3000000 /dev/urandom >tree/noise
}
# pushed HOST: the pinned reference; pushing it twice changes nothing.
pushed() {
    local first second
    first=$(kubepkg push tree "$1/team/web:1")
    second=$(kubepkg push tree "oci://$1/team/web:1" --revision other)
    [ "$first" = "$second" ]
    printf '%s\n' "$first" >"pinned-$1"
    grep -x "$1/team/web:1@sha256:[0-9a-f]*" "pinned-$1"
}
other_files_are_refused() {
    cp -a tree changed
    chmod 755 changed/Chart.yaml
    fails kubepkg push changed "$1/team/web:1"
    kubepkg push changed "$1/team/web:2"
    [ "$(kubepkg push tree "$1/team/web:1")" = "$(cat "pinned-$1")" ]
}
# unpack: the layer of a tree on stdin, by GNU tar, must be the tree.
unpack() {
    rm -rf unpacked && mkdir unpacked
    tar -C unpacked -xzf -
    diff -r tree unpacked
    [ "$(stat -c %a unpacked/bin/run.sh unpacked/Chart.yaml | xargs)" = '755 644' ]
}
layer_of() { jq -r '.layers[0].digest'; }
by_crane() { crane blob --insecure "${1%:*@*}@$(crane manifest --insecure "$1" | layer_of)" | unpack; }
by_regctl() {
    regctl registry set "${1%%/*}" --tls disabled --skip-check
    regctl blob get "${1%@*}" "$(regctl manifest get --format raw-body "$1" | layer_of)" | unpack
}
by_oras() { oras blob fetch --plain-http --no-tty -o - "${1%:*@*}@$(oras manifest fetch --plain-http "$1" | layer_of)" | unpack; }
by_skopeo() {
    rm -rf dir-of-tree
    # either a tag or a digest
    skopeo copy -q --src-tls-verify=false "docker://${1%:*@*}@${1#*@}" dir:dir-of-tree
    unpack <"dir-of-tree/$(layer_of <dir-of-tree/manifest.json | cut -d: -f2)"
}

must 'a tree is made' make_tree
registry others "${others#*:}" "$WORK/others"
for at in "$others" "$mirror"; do
    check "kubepkg pushes it to $at, once" pushed "$at"
    check "other files do not take its tag at $at" other_files_are_refused "$at"
    for client in "${trees[@]}"; do
        check "$client reads it from $at" "by_$client" "$(cat "pinned-$at")"
    done
    rm -rf changed
done
same_everywhere() { [ "$(cut -d@ -f2 "pinned-$others")" = "$(cut -d@ -f2 "pinned-$mirror")" ]; }
check 'it is the same artifact everywhere' same_everywhere
stop others
