# shellcheck shell=bash
# Mirrors of their own on the store, and clients of each in a process that does little else. They need
# time more than anything, and have it beside what follows.

# beside NAME tls|plain 'FLAGS' PROGRAM WORDS…: a mirror, and that program of rude/. `found` waits for it.
port=5100
beside() {
    local name=$1 tls=$2 flags=$3 program=$4 ca=() scheme=http
    shift 4
    port=$((port + 1))
    flags+=" --listen 127.0.0.1:$port --anonymous-push"
    if [ "$tls" = tls ]; then
        flags+=" --tls-cert $pki/used.pem"
        ca=("$pki/ca.crt")
        scheme=https
    fi
    # shellcheck disable=SC2086 # flags are words
    daemon "$name" "$KUBEPKG" mirror serve --store store $flags
    await "$name" secure "$scheme://127.0.0.1:$port/healthz"
    local pid=pid_$name
    (
        rc=0
        python3 -B "$e2e/service.d/rude/$program.py" "127.0.0.1:$port" "${!pid}" "$@" "${ca[@]}" >"$name.said" 2>&1 || rc=$?
        echo $rc >"$name.rc"
    ) </dev/null &
}

# found NAME WHAT: what these clients found, which is shown.
found() {
    local name=$1
    ended() {
        local deadline=$((SECONDS + 120))
        until [ -s "$name.rc" ] || [ $SECONDS -ge $deadline ]; do sleep 0.1; done
        cat "$name.said"
        [ "$(cat "$name.rc")" = 0 ]
    }
    check "$2" ended
    sed 's/^/      /' "$name.said"
    stop "$name"
}
