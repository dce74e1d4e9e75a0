# shellcheck shell=bash
# What the end-to-end scripts share: counting checks, servers, waiting.
#
# A script sources this file, calls `sandbox "$@"` first and `finish` last. Between the two it
# runs as root in its own network, mount and process namespaces: the network has nothing but
# loopback, ports are free to choose, and every process and mount ends with the script, however
# it ends.
set -euo pipefail

e2e=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$e2e/../.." && pwd)
cache=${KPTEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kubepkg-tests}
KUBEPKG=${KUBEPKG:-kubepkg}
export PATH=$cache/bin:$PATH:/usr/sbin:/sbin

passed=0
failed=0
finished=
# Re-runs the script inside namespaces of its own. The working folder is made outside, so that it
# can be removed when everything inside is gone; KPTEST_KEEP=1 leaves it for a look.
sandbox() {
    if [ -n "${WORK:-}" ]; then
        ip link set lo up
        mount -t tmpfs none /run # sockets and state of other programs stay out of reach
        mkdir -p "$WORK/log"
        cd "$WORK"
        # what the user of this machine trusts and has accepted is none of a test's business
        export XDG_STATE_HOME=$WORK/state XDG_CONFIG_HOME=$WORK/config XDG_CACHE_HOME=$WORK/cache
        trap 'clean_up' EXIT
        trap 'exit 130' INT TERM HUP
        return
    fi
    local sudo=() work rc=0
    [ "$(id -u)" = 0 ] || sudo=(sudo)
    # Short: the path of a socket has at most 107 bytes.
    work=$(mktemp -d "${KPTEST_TMP:-/tmp}/kubepkg-e2e.XXXXXX")
    "${sudo[@]}" env PATH="$PATH" WORK="$work" KUBEPKG="$KUBEPKG" KPTEST_CACHE="$cache" CI="${CI:-}" \
        unshare --net --mount --pid --fork --kill-child --mount-proc bash "$0" "$@" || rc=$?
    if [ -n "${KPTEST_KEEP:-}" ]; then
        echo "kept: $work"
    else
        "${sudo[@]}" rm -rf "$work"
    fi
    exit "$rc"
}

# check WHAT COMMAND…: runs the command under `set -e` in a subshell and counts. On failure the
# end of its output is shown. In a pipe use `grep`, not `grep -q`: the latter leaves early, which
# breaks the pipe and fails the check.
check() {
    local what=$1 log=$WORK/log/check began=$EPOCHREALTIME
    shift
    (
        set -e
        "$@"
    ) >"$log" 2>&1 </dev/null &
    if wait $!; then
        passed=$((passed + 1))
        printf 'ok    %s (%s s)\n' "$what" "$(seconds_since "$began")"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s\n' "$what"
        tail -n 40 "$log" | sed 's/^/      | /'
        return 0
    fi
}

# must WHAT COMMAND…: a check without which the rest of the script says nothing.
must() {
    local before=$failed
    check "$@"
    [ "$failed" = "$before" ] || {
        echo "the rest needs this; stopping"
        finish
    }
}

# lacking WHAT: a part that this machine cannot have. A failure for the build server, a notice for
# people.
lacking() {
    echo "missing: $*"
    [ -z "${CI:-}" ] || failed=$((failed + 1))
}

# Prints the closing line and ends the script: 0 when all checks held.
finish() {
    finished=1
    printf '%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" = 0 ]
    exit
}

seconds_since() {
    local now=$EPOCHREALTIME
    local us=$(((${now%.*} - ${1%.*}) * 1000000 + 10#${now#*.} - 10#${1#*.}))
    printf '%d.%d' $((us / 1000000)) $((us % 1000000 / 100000))
}

# Named real parts: says which one is missing, by name.
need() {
    local tool missing=()
    for tool in "$@"; do command -v "$tool" >/dev/null || missing+=("$tool"); done
    [ ${#missing[@]} = 0 ] || {
        echo "missing: ${missing[*]} (tests/run installs them)" >&2
        exit 1
    }
}

# daemon NAME COMMAND…: starts a server; its output goes to $WORK/log/NAME, its id to pid_NAME.
daemon() {
    local name=$1
    shift
    "$@" >"$WORK/log/$name" 2>&1 </dev/null &
    printf -v "pid_$name" %d $!
}

# stop NAME: ends a server started by `daemon` and waits for it.
stop() {
    local pid=pid_$1
    kill "${!pid}" 2>/dev/null || true
    wait "${!pid}" 2>/dev/null || true
}

# Waits until a command holds, at most 20 seconds; then shows the log of the server it is about.
await() {
    local name=$1 deadline=$((SECONDS + 20))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $deadline ]; then
            echo "$name did not start:" >&2
            tail -n 20 "$WORK/log/$name" >&2
            return 1
        fi
        sleep 0.05
    done
}

answers() { curl -fsS --max-time 2 -o /dev/null "$1"; }

# registry NAME PORT DIR: Debian's docker-registry, storage in DIR.
registry() {
    mkdir -p "$3"
    cat >"$WORK/$1.yml" <<EOF
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $3}, delete: {enabled: true}}
http: {addr: "127.0.0.1:$2"}
EOF
    daemon "$1" docker-registry serve "$WORK/$1.yml"
    await "$1" answers "http://127.0.0.1:$2/v2/"
}

# files NAME PORT DIR: static files over HTTP.
files() {
    daemon "$1" busybox httpd -f -p "127.0.0.1:$2" -h "$3"
    await "$1" eval "curl -s --max-time 2 -o /dev/null http://127.0.0.1:$2/"
}

# kubepkg, and the mirror it serves.
mirror=127.0.0.1:5001
kubepkg() { "$KUBEPKG" --no-progress "$@"; }

# serve_store STORE [flags]: starts a server on it; `stop mirror` ends it.
serve_store() {
    local store=$1
    shift
    daemon mirror "$KUBEPKG" mirror serve --store "$store" --listen "$mirror" "$@"
    await mirror answers "http://$mirror/healthz"
}

# digest_of FILE: by `algorithm`, which a caller sets to sha512 where it wants that.
algorithm=sha256
digest_of() { printf '%s:%s' "$algorithm" "$("${algorithm}sum" <"$1" | cut -d' ' -f1)"; }

# is DIGEST FILE: the file has that digest. By openssl, which is several times faster than sha256sum.
is() {
    local found
    found=$(openssl dgst -r "-${1%%:*}" "$2")
    [ "${found%% *}" = "${1#*:}" ] || {
        echo "$2 is ${found%% *}, not $1"
        return 1
    }
}

# fails COMMAND…: `! COMMAND` for functions under `set -e`, which does not look at what `!` gives.
fails() {
    ! "$@" || {
        echo "this should have failed: $*"
        return 1
    }
}

# Ends the containers and removes what they leave in the cgroup tree, the one thing outside the
# namespaces. A script that ended before `finish` did fail, and says so in the closing line.
clean_up() {
    local rc=$?
    if declare -F node_stop >/dev/null; then node_stop || true; fi
    if declare -F machine_stop >/dev/null; then machine_stop || true; fi
    find /sys/fs/cgroup -depth -type d -path '*/kubepkg-e2e*' -exec rmdir {} + 2>/dev/null || true
    [ -n "$finished" ] || printf 'stopped early\n%d passed, %d failed\n' "$passed" $((failed + 1))
    return "$rc"
}
