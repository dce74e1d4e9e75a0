# shellcheck shell=bash
# Measuring registries: images to push, loads, what a server used of the processor and of memory.
# A script that sources this says where a server is (`url NAME`), starts it by `daemon`, and sets
# `seconds`, the time of each load.

tick=$(getconf CLK_TCK)
layout=$WORK/layout

# Processes of a server: nginx has workers.
processes() {
    local pid=pid_$1
    echo "${!pid}"
    pgrep -P "${!pid}" || true
}

# CPU seconds of a server so far.
cpu() {
    local pid
    for pid in $(processes "$1"); do cat "/proc/$pid/stat"; done |
        awk -v tick="$tick" '{ sub(/.*\) /, ""); used += $12 + $13 } END { printf "%.2f", used / tick }'
}

# Peak memory of a server in MiB, since `peak NAME reset`.
peak() {
    local pid
    for pid in $(processes "$1"); do
        if [ -n "${2-}" ]; then echo 5 >"/proc/$pid/clear_refs"; else grep VmHWM "/proc/$pid/status"; fi
    done | awk '{ kib += $2 } END { printf "%.1f", kib / 1024 }'
}

# blob FILE: puts a file into the layout and prints its descriptor without a media type.
descriptor() {
    local hex
    hex=$(sha256sum <"$1" | cut -d' ' -f1)
    mv "$1" "$layout/blobs/sha256/$hex"
    printf '"digest":"sha256:%s","size":%d' "$hex" "$(stat -c %s "$layout/blobs/sha256/$hex")"
}

# image TAG LAYER-SIZE…: an image of random layers.
image() {
    local tag=$1 size layers='' ids='' one config
    shift
    mkdir -p "$layout/blobs/sha256"
    for size; do
        head -c "$size" /dev/urandom >"$WORK/piece"
        one=$(descriptor "$WORK/piece")
        layers+=",{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",$one}"
        ids+=",$(jq '.digest' <<<"{$one}")"
    done
    printf '{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[%s]}}' "${ids#,}" >"$WORK/piece"
    config=$(descriptor "$WORK/piece")
    printf '{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s",%s},"layers":[%s]}' \
        application/vnd.oci.image.manifest.v1+json application/vnd.oci.image.config.v1+json "$config" "${layers#,}" >"$WORK/piece"
    manifest=$(jq -r '.digest' <<<"{$(descriptor "$WORK/piece")}")
    size=$(stat -c %s "$layout/blobs/sha256/${manifest#*:}")
    [ -f "$layout/index.json" ] || echo '{"schemaVersion":2,"manifests":[]}' >"$layout/index.json"
    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    jq --arg tag "$tag" --arg digest "$manifest" --argjson size "$size" '.manifests += [{
        mediaType: "application/vnd.oci.image.manifest.v1+json", digest: $digest, size: $size,
        annotations: {"org.opencontainers.image.ref.name": $tag}}]' "$layout/index.json" >"$WORK/index"
    mv "$WORK/index" "$layout/index.json"
}

push() { # SERVER TAG REPOSITORY
    skopeo copy -q --preserve-digests --dest-tls-verify=false "oci:$layout:$2" "docker://127.0.0.1:${port[$1]}/$3:$2"
}

cat >"$WORK/wrk.lua" <<'EOF'
done = function(s, l)
    local e = s.errors
    io.write(string.format("\nRESULT %d %.6f %d %.3f %d\n", s.requests, s.duration / 1e6, s.bytes,
        l:percentile(99) / 1000, e.status + e.connect + e.read + e.timeout))
end
EOF
accept='Accept: application/vnd.oci.image.manifest.v1+json'

# Each prints: requests, seconds, bytes, p99 in ms, errors.
load_get() { wrk -t1 -c8 -d"${seconds}s" --timeout 60s -H "$accept" -s "$WORK/wrk.lua" "$1" | sed -n 's/^RESULT //p'; }
load_head() { # wrk waits for the body of a HEAD
    ab -qik -c"${2:-8}" -t"${3:-$seconds}" -n99999999 -H "$accept" "$1" 2>/dev/null | awk '
        /^Complete requests/ { n = $3 } /^Time taken/ { s = $5 } /^ *99%/ { p = $2 }
        /^Failed requests|^Non-2xx/ { e += $NF } END { print n + 0, s + 0, 0, p + 0, e + 0 }'
}
# measure CASE SERVER LOAD PATH: appends `case server requests/s CPU-s bytes requests p99 MiB errors`.
measure() {
    local before after said
    peak "$2" reset >/dev/null
    before=$(cpu "$2")
    said=$("load_$3" "$(url "$2")$4")
    after=$(cpu "$2")
    awk -v name="$1 $2" -v cpu="$(awk -v a="$before" -v b="$after" 'BEGIN { print b - a }')" -v mib="$(peak "$2")" \
        '{ printf "%s %.1f %.3f %s %d %s %s %s\n", name, $1 / $2, cpu, $3, $1, $4, mib, $5 }' <<<"$said" >>"$WORK/results"
}

distribution() { # NAME BINARY STORAGE
    cat >"$WORK/$1.yml" <<EOF
version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage: {cache: {blobdescriptor: inmemory}, $3, delete: {enabled: true}}
http: {addr: "127.0.0.1:${port[$1]}"}
EOF
    daemon "$1" env OTEL_TRACES_EXPORTER=none "$2" serve "$WORK/$1.yml"
    await "$1" answers "$(url "$1")/v2/"
}
