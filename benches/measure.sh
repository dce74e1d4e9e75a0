# shellcheck shell=bash
# Measuring commands: wall, processor, memory, bytes written.

# measure NAME SHELL-COMMANDS: runs them and appends `name wall cpu rss-MiB written` to results.
# Written is what the kernel counts as dirtied, children included, deleted files too.
measure() {
    local name=$1 began ended
    sync
    began=$EPOCHREALTIME
    # Each part under its own shell, whose times and io files hold all children it waited for.
    bash -c "
        trap 'cat /proc/\$\$/io >\$WORK/io; times >\$WORK/times' EXIT
        set -euo pipefail
        peak() { /usr/bin/time -a -o '$WORK/rss' -f %M \"\$@\"; }
        $2" >"$WORK/log/$name" 2>&1 || {
        echo "$name failed:" >&2
        tail -n 20 "$WORK/log/$name" >&2
        exit 1
    }
    ended=$EPOCHREALTIME
    awk -v name="$name" -v wall="$(awk -v a="$began" -v b="$ended" 'BEGIN { print b - a }')" \
        -v rss="$(sort -n "$WORK/rss" 2>/dev/null | tail -n 1)" '
        FILENAME ~ /times$/ && FNR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/); cpu = u[1] * 60 + u[2] + s[1] * 60 + s[2] }
        /^write_bytes/ { written = $2 }
        END { printf "%s %.3f %.3f %.1f %d\n", name, wall, cpu, rss / 1024, written }' "$WORK/times" "$WORK/io" >>"$WORK/results"
    rm -f "$WORK/rss"
}
