# shellcheck shell=bash
echo '== a backup under load, and the day it is needed'
mkdir acknowledged

# make_one KEY: an image of one layer, new each time, in the files load-KEY.*.
make_one() {
    local config=load-$1.config layer=load-$1.layer
    printf '{"architecture":"none","os":"none","n":"%s %s"}' "$1" "$EPOCHREALTIME" >"$config"
    head -c 100000 /dev/urandom >"$layer"
    jq -cnj --arg config "$(digest_of "$config")" --arg layer "$(digest_of "$layer")" --argjson size "$(stat -c %s "$config")" '
        def of($digest; $size): {mediaType: "application/vnd.test", digest: $digest, size: $size};
        {schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json", config: of($config; $size), layers: [of($layer; 100000)]}
    ' >"load-$1.manifest"
}
# send_one NAME TAG KEY: pushes it, and notes it in acknowledged/KEY.
send_one() {
    blob "$1" "load-$3.config" && blob "$1" "load-$3.layer" || return 1
    [ "$(secure_status -u 'alice:password of alice' -X PUT --data-binary "@load-$3.manifest" \
        -H 'Content-Type: application/vnd.oci.image.manifest.v1+json' "https://$at/v2/$1/manifests/$2" 2>/dev/null)" = 201 ] || return 1
    echo "$1 $2 $(digest_of "load-$3.manifest") $(digest_of "load-$3.layer")" >>"acknowledged/$3"
}
pusher() {
    local n=0
    while [ ! -e stopped ]; do
        n=$((n + 1))
        make_one "$1"
        send_one "lab/load-$1" "n$n" "$1" || true
    done
}
blob() {
    [ "$(secure_status -u 'alice:password of alice' -X POST --data-binary "@$2" -H 'Content-Type: application/octet-stream' \
        "https://$at/v2/$1/blobs/uploads/?digest=$(digest_of "$2")" 2>/dev/null)" = 201 ]
}
pushers=()
load_starts() {
    local n
    rm -f stopped
    pushers=()
    for n in 1 2; do
        pusher "$n" &
        pushers+=($!)
    done
    for n in 1 2; do await machine test -s "acknowledged/$n"; done
}
load_ends() {
    touch stopped
    wait "${pushers[@]}"
}

# pulled LIST: what was acknowledged by then is served.
pulled() {
    local name tag manifest layer
    while read -r name tag manifest layer; do
        secure -H "$accept" -o got "https://$at/v2/$name/manifests/$tag" && is "$manifest" got || return 1
        secure -o got "https://$at/v2/$name/blobs/$layer" && is "$layer" got || return 1
    done <"$1"
}

backed_up() {
    load_starts
    cat acknowledged/* >before
    as_said 'kubepkg mirror backup --store /srv/mirror /mnt/backup/mirror'
    kill -0 "${pushers[@]}" # they still push
    # and again, which copies what is new
    cat acknowledged/* >before
    as_said 'kubepkg mirror backup --store /srv/mirror /mnt/backup/mirror'
    load_ends
    as_said 'cp -a /srv/mirror/users /srv/mirror/tls /mnt/backup/'
    [ "$(on stat -c %U /mnt/backup/users)" = kubepkg ]
}
must 'a backup is made while clients push' backed_up
whole() { on kubepkg mirror check --store /mnt/backup/mirror; }
check 'it is a store without a fault' whole

restored() {
    as_said 'systemctl stop kubepkg-mirror'
    as_said 'mv /srv/mirror /srv/mirror.lost'
    as_said 'cp -a /mnt/backup/mirror /srv/mirror'
    as_said 'cp -a /mnt/backup/users /mnt/backup/tls /srv/mirror/'
    as_said 'chown -R kubepkg:kubepkg /srv/mirror'
    as_said 'kubepkg mirror check --store /srv/mirror'
    as_said 'systemctl start kubepkg-mirror'
    await machine answers_again
}
must 'it is put in the place of the store, as the documentation says' restored
check 'everything the bundle brought is served from it' serves
pushed_is_there() {
    [ -s before ]
    pulled before
    skopeo login -u alice -p 'password of alice' "$at"
    push_to lab/after:v1
}
check 'so is what was pushed before the backup, and the users still push' pushed_is_there
goes_on() { on kubepkg mirror backup --store /srv/mirror /mnt/backup/mirror; }
check 'the next backup goes into the same folder' goes_on
