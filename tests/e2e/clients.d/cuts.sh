# shellcheck shell=bash
# A transfer that ends in its middle: the client is killed, or the server. Nothing half is ever
# there, and the same command once more brings all.
echo "== transfers cut in the middle"

# Large enough to be caught in the middle; not zeros, which would look right in the wrong place.
cut_image() {
    local layer=$WORK/layers/cut tree
    tree=$(mktemp -d "$WORK/cut.XXXXXX")
    openssl enc -aes-128-ctr -K 00 -iv 00 </dev/zero 2>/dev/null | head -c 200000000 >"$tree/data" || true
    tar -C "$tree" -cf "$layer" data
    rm -r "$tree"
    raw_layers "$1" "$(digest_of "$layer") $(stat -c %s "$layer")"
    mv "$layer" "$(in_layout "$1" "$(digest_of "$layer")")"
}
must 'a large image is made' make_source cut cut_image
cut_layer=$(below "$(in_layout "$source/cut" "$(source_of cut)")" | while read -r d; do
    [ "$(stat -c %s "$(in_layout "$source/cut" "$d")")" -lt 1000000 ] || echo "$d"
done)

# fresh_server: a server of this check's own, which ends with it.
fresh_server() {
    rm -rf cuts "$@"
    serve_store cuts --anonymous-push --new-store
    trap 'stop mirror' EXIT
}
# killed_server: as by a power cut of the process, and started again.
killed_server() {
    kill -9 "$pid_mirror"
    wait "$pid_mirror" || true
    serve_store cuts --anonymous-push
}

# begun FOLDER: waits until something of more than 4 MiB lies in it.
begun() {
    local deadline=$((SECONDS + 20))
    until [ -n "$(find "$1" -type f -size +4096k 2>/dev/null)" ]; do
        [ $SECONDS -lt $deadline ] || {
            echo "nothing arrives in $1"
            return 1
        }
        sleep 0.01
    done
}

# cut_in FOLDER COMMAND…: starts it and waits until the transfer has begun; `client` is its process.
cut_in() {
    local folder=$1
    shift
    "$@" &
    client=$!
    begun "$folder"
    kill -0 "$client"
}

# after_cut WHAT COMMAND…: a client goes on by itself when the server is back, or the same command
# once more brings all.
after_cut() {
    local what=$1
    shift
    if wait "$client"; then
        echo "$what: went on by itself" >>"$WORK/after-cut"
    else
        echo "$what: gave up, and did it when told again" >>"$WORK/after-cut"
        "$@"
    fi
}

nothing_of_it() {
    absent "$1/cut" v1
    [ "$(status -I "http://$mirror/v2/$1/cut/blobs/$cut_layer")" = 404 ]
}

push_killed() {
    fresh_server
    cut_in cuts/uploads "push_$1" cut
    pkill -9 -P "$client"
    fails wait "$client"
    nothing_of_it "$1"
    "push_$1" cut
    mirror_holds "$1/cut" v1 "$(source_of cut)"
}
server_killed_in_push() {
    fresh_server
    cut_in cuts/uploads "push_$1" cut
    killed_server
    nothing_of_it "$1"
    after_cut "push by $1" "push_$1" cut
    mirror_holds "$1/cut" v1 "$(source_of cut)"
}
server_killed_in_pull() {
    fresh_server "pulled/$1-cut"
    "push_$1" cut
    cut_in "$2" "pull_$1" cut
    killed_server
    after_cut "pull by $1" "pull_$1" cut
    layout_holds "pulled/$1-cut" "$(source_of cut)"
    rm -rf "pulled/$1-cut"
}
for client_name in skopeo crane regctl oras; do
    check "$client_name killed in a push: nothing half is there, the next push brings it" push_killed "$client_name"
    check "server killed in a push by $client_name" server_killed_in_push "$client_name"
    check "server killed in a pull by $client_name" server_killed_in_pull "$client_name" "pulled/$client_name-cut"
done
check 'server killed in a pull by ctr' server_killed_in_pull ctr "$node/root/io.containerd.content.v1.content/ingest"

# The protocol's own way to go on: ask how much is there, send what follows.
upload_resumes() {
    local blob place have
    blob=$(in_layout "$source/cut" "$cut_layer")
    fresh_server
    place=$(curl -fsS -X POST -D - -o /dev/null "http://$mirror/v2/raw/blobs/uploads/" | tr -d '\r' | sed -n 's/^[Ll]ocation: //p')
    case $place in /*) place=http://$mirror$place ;; esac
    cut_in cuts/uploads curl -sS -X PATCH -H 'Content-Type: application/octet-stream' -T "$blob" "$place"
    killed_server
    wait "$client" || true
    have=$(curl -fsS -D - -o /dev/null "$place" | tr -d '\r' | sed -n 's/^[Rr]ange: 0-//p')
    echo "have up to $have"
    tail -c "+$((have + 2))" "$blob" | curl -fsS -X PATCH -H 'Content-Type: application/octet-stream' -T - "$place"
    case $place in *\?*) place="$place&digest=$cut_layer" ;; *) place="$place?digest=$cut_layer" ;; esac
    curl -fsS -X PUT -o /dev/null "$place"
    curl -fsS -o got "http://$mirror/v2/raw/blobs/$cut_layer"
    is "$cut_layer" got
}
download_resumes() {
    local url=http://$mirror/v2/skopeo/cut/blobs/$cut_layer
    fresh_server
    push_skopeo cut
    rm -rf part && mkdir part
    cut_in part curl -fsS -o part/got "$url"
    killed_server
    fails wait "$client"
    echo "$(stat -c %s part/got) bytes are there"
    curl -fsS -C - -o part/got "$url"
    is "$cut_layer" part/got
}
check 'server killed in an upload: the session goes on where it was' upload_resumes
check 'server killed in a download: a range brings the rest' download_resumes
sed 's/^/      /' "$WORK/after-cut"
rm -rf cuts part got "$source/cut"
