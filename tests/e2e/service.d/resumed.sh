# shellcheck shell=bash
# An upload cut by its client, then by a stop of the mirror; it goes on where it was. 300 MB, with
# --long 5 GB.
echo "== an upload cut in the middle"
cut_size=300000000
[ "${1-}" != --long ] || cut_size=5000000000

# Not zeros, which would look right in the wrong place.
make_cut() {
    openssl enc -aes-128-ctr -K 01 -iv 00 </dev/zero 2>/dev/null | head -c "$cut_size" >cut || true
    digest_of cut >cut.digest
}
must "$((cut_size / 1000000)) MB are made" make_cut

# in_memory KEY: VmRSS or VmHWM of the mirror, KiB.
in_memory() { sed -n "s/^$1:[[:space:]]*\([0-9]*\) kB/\1/p" "/proc/$pid_mirror/status"; }

# Memory the mirror takes beyond what it has before, KiB.
cut_memory=$((32 * 1024))
bounded() {
    local grown=$(($(in_memory VmHWM) - $1))
    echo "the mirror grew by $grown KiB" | tee -a figures
    [ "$grown" -le "$cut_memory" ]
}

# patch FILE [curl flags]: goes on with the upload at $place.
patch() {
    local file=$1
    shift
    secure -X PATCH -H 'Content-Type: application/octet-stream' -H 'Expect:' -o /dev/null -T "$file" "$@" "$place"
}

# arrives BYTES: waits until the mirror has written that much of the upload; 5 GB take their time.
arrives() {
    local deadline=$((SECONDS + 300))
    until [ "$(stat -c %s "$received")" -ge "$1" ]; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.02
    done
}

# state: how many bytes the mirror says it has.
state() { secure -D - -o /dev/null "$place" | tr -d '\r' | sed -n 's/^range: 0-\([0-9]*\)$/\1/Ip' | awk '{ print $1 + 1 }'; }

# rate BYTES SINCE: in MB for each second.
rate() { awk -v bytes="$1" -v from="$2" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.0f MB/s", bytes / 1e6 / (to - from) }'; }

cut_twice() {
    local digest place received client have memory began
    rm -f figures
    digest=$(cat cut.digest)
    serve_tls store --anonymous-push --stop-within 1s
    memory=$(in_memory VmRSS)
    place=$(secure -X POST -D - -o /dev/null "https://$mirror/v2/cut/upload/blobs/uploads/" | tr -d '\r' | sed -n 's/^location: //Ip')
    received=store/uploads/${place##*/}
    place=https://$mirror$place

    patch cut &
    client=$!
    arrives $((cut_size / 5))
    pkill -9 -P "$client"
    fails wait "$client"
    have=$(state)
    echo "cut by the client at $have"
    [ "$have" -ge $((cut_size / 5)) ] && [ "$have" -lt "$cut_size" ]

    # too slow to end while the mirror waits for it
    tail -c "+$((have + 1))" cut | patch - --limit-rate $((cut_size / 8)) &
    client=$!
    arrives $((cut_size / 2))
    bounded "$memory"
    stop mirror
    fails wait "$client"
    serve_tls store --anonymous-push
    trap 'stop mirror' EXIT
    memory=$(in_memory VmRSS)
    have=$(state)
    echo "cut by the mirror at $have"
    [ "$have" -ge $((cut_size / 2)) ] && [ "$have" -lt "$cut_size" ]

    began=$EPOCHREALTIME
    tail -c "+$((have + 1))" cut | patch - -H "Content-Range: $have-$((cut_size - 1))"
    echo "the rest: $(rate $((cut_size - have)) "$began")" | tee -a figures
    have=$(state)
    echo "the mirror has $have"
    [ "$have" = "$cut_size" ]
    began=$EPOCHREALTIME
    have=$(secure_status -X PUT "$place?digest=$digest")
    echo "the PUT is answered $have"
    [ "$have" = 201 ]
    echo "read again after the restart, and published: $(rate "$cut_size" "$began")" | tee -a figures
    bounded "$memory"
    began=$EPOCHREALTIME
    [ "$digest" = "sha256:$(secure "https://$mirror/v2/cut/upload/blobs/$digest" | openssl dgst -sha256 -r | cut -d' ' -f1)" ]
    echo "pulled and checked: $(rate "$cut_size" "$began")" | tee -a figures
}
check 'it goes on after a cut and a restart, in little memory' cut_twice
[ ! -e figures ] || sed 's/^/      /' figures
rm -f cut
