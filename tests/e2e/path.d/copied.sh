# shellcheck shell=bash
echo '== what is no backup: files copied while the mirror works, parts of different age'
# Puts a folder of the machine in the place of the store.
put_in_place() {
    on systemctl stop kubepkg-mirror
    on rm -rf /srv/mirror
    on cp -a "$1" /srv/mirror
    on chown -R kubepkg:kubepkg /srv/mirror
}
copied() {
    # as rsync comes along: content first, the rest when something was pushed
    on install -d -m 750 -o kubepkg -g kubepkg /mnt/copy
    on cp -a /srv/mirror/blobs /mnt/copy/
    make_one late
    send_one lab/late v1 late
    on sh -c 'cd /srv/mirror && find . -mindepth 1 -maxdepth 1 ! -name blobs ! -type s -exec cp -a {} /mnt/copy/ \;'
    put_in_place /mnt/copy
}
must 'a store is copied file by file, and put in its place' copied
told() {
    fails as_said 'kubepkg mirror check --store /srv/mirror' >said 2>&1
    cat said
    grep -F 'missing: blobs/sha256' said
    grep -F 'needed by lab/late: v1' said
    grep -F -- '--repair' said
}
check 'mirror check says what is missing and who needs it' told
not_here() {
    local name tag manifest layer
    on systemctl start kubepkg-mirror
    await machine answers_again
    read -r name tag manifest layer <acknowledged/late
    [ "$(secure_status -H "$accept" "https://$at/v2/$name/manifests/$tag")" = 404 ]
    [ "$(secure_status "https://$at/v2/$name/blobs/$layer")" = 404 ]
    unit_said 'that a name promises is not in the store'
    unit_said "$manifest"
}
check 'names without content answer 404, and the log says so' not_here
check 'everything else is served' serves
mended() {
    as_said 'kubepkg mirror check --store /srv/mirror --repair' || true
    fails on kubepkg mirror check --store /srv/mirror >said 2>&1
    cat said
    grep 'quarantined: ' said
    secure -u 'alice:password of alice' -o page.html "https://$at/"
    grep -o 'are not served until they are brought again' page.html
    send_one lab/late v1 late
    on kubepkg mirror check --store /srv/mirror
    pulled acknowledged/late
}
check 'a repair says the rest, and the same push again heals it' mended

older_trust() {
    on cp -a /srv/mirror/trust /mnt/older-trust
    on kubepkg bundle import later.tar --store /srv/mirror
    on systemctl stop kubepkg-mirror
    on rm -rf /srv/mirror/trust
    on cp -a /mnt/older-trust /srv/mirror/trust
    fails on kubepkg mirror check --store /srv/mirror >said 2>&1
    grep 'stale: trust/' said
    on systemctl start kubepkg-mirror
    await machine answers_again
    await machine unit_said 'imports into this store are refused'
    fails on kubepkg bundle import site.tar --store /srv/mirror 2>said
    cat said
    grep 'as of commit' said
    grep -F 'mirror check --store /srv/mirror --repair' said
    as_said 'kubepkg mirror check --store /srv/mirror --repair'
    on kubepkg bundle import later.tar --store /srv/mirror
    on kubepkg mirror check --store /srv/mirror
    cp wanted.later wanted
}
check 'trust that is older than the records is said by all, and no import rests on it' older_trust
check 'everything is served after all this' serves
