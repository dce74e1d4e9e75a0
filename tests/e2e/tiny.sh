# shellcheck shell=bash
# The smallest bundle that has everything: two packages, one requiring the other, three images (an
# index, a single manifest, Docker schema 2) with a layer each, a chart in a registry, a classic
# one. For scripts that make and import it hundreds of times.

create=(bundle create second --repo "http://$web/index.yaml" --public-key "$WORK/release.pub" --mirror "http://$upstream")
import=(bundle import "$WORK/tiny.tar" --public-key "$WORK/release.pub")

tiny_upstream() {
    local layout=$WORK/layout layers=$WORK/layers note=$WORK/layers/second one two
    upstream_start
    mkdir -p "$layers"
    note_layer base "$layers/base"
    note_layer other "$note"
    one=$(image "$layout" "$arch" "$layers/base")
    two=$(image "$layout" "$other_arch" "$note")
    name_in_layout "$layout" "$oci_index" "$(index "$layout" "$arch=$one" "$other_arch=$two")" index
    publish "$layout:index" registry.example.com/tiny/index:v1 --preserve-digests
    own_image "$layout" registry.example.com/tiny/single:v1 "$layers/base" --preserve-digests
    own_image "$layout" registry.example.com/tiny/docker:v1 "$layers/base" --format v2s2
    upstream_charts
    package first 1.0.0 "http://$web/charts" alertmanager:1.42.0 '' registry.example.com/tiny/index:v1
    package second 1.0.0 oci://quay.io/jetstack/charts cert-manager:v1.21.2 first \
        registry.example.com/tiny/single:v1 registry.example.com/tiny/docker:v1
    kubepkg repo keygen "$WORK/release"
    kubepkg repo index "$WORK/packages" --sign-key "$WORK/release.key" -o "$WORK/www/index.yaml"
    what_is_served
}

# What a store with all of it serves: lines `digest path`, and the same for curl.
what_is_served() {
    local i name manifest child
    for i in "${images[@]}"; do
        name=${i%:*}
        manifest=$WORK/want.$(basename "$name")
        raw "$upstream" "$i" >"$manifest"
        echo "$(digest_of "$manifest") v2/$name/manifests/${i##*:}"
        jq -r --arg n "$name" '(.layers[]?, .config // empty).digest | "\(.) v2/\($n)/blobs/\(.)"' "$manifest"
        for child in $(jq -r '.manifests[]?.digest' "$manifest"); do
            echo "$child v2/$name/manifests/$child"
            raw "$upstream" "$name@$child" | jq -r --arg n "$name" '(.layers[]?, .config // empty).digest | "\(.) v2/\($n)/blobs/\(.)"'
        done
    done >"$WORK/wanted"
    for i in index.yaml index.yaml.sig; do
        echo "$(digest_of "$WORK/www/$i") repositories/${web/:/_}/$i" >>"$WORK/wanted"
    done
    awk -v at="http://$mirror/" -v to="$WORK/got/" '{ printf "url = \"%s%s\"\noutput = \"%s%d\"\n", at, $2, to, NR }' "$WORK/wanted" >"$WORK/wanted.curl"
    awk -v to="$WORK/got/" '{ sub(/^sha256:/, "", $1); printf "%s  %s%d\n", $1, to, NR }' "$WORK/wanted" >"$WORK/wanted.sums"
}

# content STORE: compares what its server gives with upstream. Prints `none` or `all`; a part, a
# wrong byte or any other answer than 200 and 404 fails.
content() {
    local answers
    # A blob under its final name is whole, whether something names it or not.
    find "$1/blobs" -type f ! -name '.tmp-*' | sed 's|.*/\(.*\)|\1  &|' >"$WORK/blobs"
    [ ! -s "$WORK/blobs" ] || sha256sum --check --quiet "$WORK/blobs" >&2 || return 1
    rm -rf "$WORK/got" && mkdir "$WORK/got"
    answers=$(curl -sS -H "$accept" -K "$WORK/wanted.curl" -w '%{http_code}\n' | sort | uniq -c | awk '{ print $1 "x" $2 }')
    case $answers in
    "$(wc -l <"$WORK/wanted")x404") echo none ;;
    "$(wc -l <"$WORK/wanted")x200")
        sha256sum --check --quiet "$WORK/wanted.sums" >&2 || return 1
        echo all
        ;;
    *)
        echo "a part is served:" $answers >&2
        return 1
        ;;
    esac
}
