# shellcheck shell=bash
echo "== a disk that fills up, or can only be read"
mkdir disk
mount -t tmpfs -o size=48m none disk
small=$WORK/small
head -c 3000000 /dev/urandom >"$small"
small_digest=$(digest_of "$small")

# give FILE [curl flags]: pushes a blob; the status is said, the answer is in `said`.
give() {
    local file=$1
    shift
    curl -sS --cacert "$pki/ca.crt" -X POST --data-binary "@$file" -H 'Content-Type: application/octet-stream' \
        -o said -w '%{http_code}' "$@" "https://$mirror/v2/full/disk/blobs/uploads/?digest=$(digest_of "$file")"
}
# ready STATUS: what /readyz says, once it has looked again; a reason is in `said`.
ready() { [ "$(curl -sS --cacert "$pki/ca.crt" -o said -w '%{http_code}' "https://$mirror/readyz")" = "$1" ]; }
# refused STATUS REASON: pushes of every kind are answered so, with that reason.
refused() {
    local n
    head -c 3000001 /dev/urandom >other
    [ "$(give other)" = "$1" ] || { cat said && return 1; }
    jq -r '.errors[].message' said | grep "$2"
    for n in 1 2 3; do
        [ "$(curl -sS --cacert "$pki/ca.crt" -X PUT --data-binary "@large.manifest" -H "Content-Type: $oci_manifest" \
            -o said -w '%{http_code}' "https://$mirror/v2/full/disk/manifests/v$n")" = "$1" ] || { cat said && return 1; }
        jq -r '.errors[].message' said | grep "$2"
    done
}
# pulls_go_on: what was there is.
pulls_go_on() {
    secure -o got "https://$mirror/v2/full/disk/blobs/$small_digest"
    is "$small_digest" got
    secure -H "$accept" "https://$mirror/v2/full/disk/manifests/v0" | cmp - v0.manifest
    secure "https://$mirror/healthz" >/dev/null
}
# a manifest with an annotation of SIZE bytes, which does not fit where nothing does
manifest_of() {
    jq -cn --arg type "$oci_manifest" --arg digest "$small_digest" --arg note "$(head -c "$1" /dev/zero | tr '\0' x)" '
        {mediaType: "application/vnd.test", digest: $digest, size: 3000000} as $blob
        | {schemaVersion: 2, mediaType: $type, config: $blob, layers: [$blob], annotations: {note: $note}}'
}
serve_tls disk/store --new-store --anonymous-push
on_disk() {
    [ "$(give "$small")" = 201 ]
    manifest_of 1 >v0.manifest
    manifest_of 20000 >large.manifest
    [ "$(secure_status -X PUT --data-binary @v0.manifest -H "Content-Type: $oci_manifest" \
        "https://$mirror/v2/full/disk/manifests/v0")" = 201 ]
    ready 200
    pulls_go_on
}
must 'a mirror on a disk of its own' on_disk

full_disk() {
    dd if=/dev/zero of=disk/rest bs=4k 2>dd.log || true
    await mirror ready 503
    jq -r .reason said | grep 'disk is full'
    refused 507 'disk of this mirror is full'
    pulls_go_on
    rm disk/rest
    await mirror ready 200
    [ "$(give other)" = 201 ]
}
check 'full: not ready, pushes are 507, pulls go on; with room all is well again' full_disk

read_only() {
    local place
    # an upload under way when it happens
    place=$(secure -X POST -D - -o /dev/null "https://$mirror/v2/full/disk/blobs/uploads/" | tr -d '\r' | sed -n 's/^location: //Ip')
    # a second mount over the first, which stays as it is: files are open there for writing
    mount --bind disk disk
    mount -o remount,bind,ro disk
    await mirror ready 503
    jq -r .reason said | grep -i 'read-only'
    refused 503 'can only be read'
    [ "$(curl -sS --cacert "$pki/ca.crt" -X PATCH --data-binary "@$small" -o said -w '%{http_code}' "https://$mirror$place")" = 503 ]
    grep 'can only be read' said
    [ "$(curl -sS --cacert "$pki/ca.crt" -X DELETE -o said -w '%{http_code}' "https://$mirror/v2/full/disk/manifests/v0")" = 503 ]
    pulls_go_on
    umount disk
    head -c 2000000 /dev/urandom >other
    [ "$(give other)" = 201 ]
    pulls_go_on
    kubepkg mirror check --store disk/store
}
check 'read-only: not ready, pushes are 503, pulls go on; writable again, all is well' read_only
stop mirror
umount disk
