# shellcheck shell=bash
# Signed images and what hangs on them (tests/signed): carried as referrers by regctl and by oras,
# and tag by tag as a registry without that API has them. Every digest is there afterwards, each way
# of finding it answers, and the signatures still verify.
echo "== signed images"

. "$e2e/signed.sh"

# A client that finds the API carries no tag-schema index, and the mirror makes none of its own.
only_referrers() {
    local tag
    all_of "signed/$2" "$1/$2" "$images|$signatures"
    for tag in $(tags_of "signed/$2" "$schema"); do absent "$1/$2" "$tag"; done
}
by_regctl() {
    local tag
    for tag in $(tags_of "signed/$1" "$images"); do
        regctl image copy --referrers --digest-tags "ocidir://signed/$1:$tag" "$mirror/regctl/$1:$tag"
    done
    only_referrers regctl "$1"
}
by_oras() {
    local tag
    for tag in $(tags_of "signed/$1" "$images"); do
        oras cp --no-tty -r --from-oci-layout --to-plain-http "signed/$1:$tag" "$mirror/oras/$1:$tag"
    done
    for tag in $(tags_of "signed/$1" "$signatures"); do copy_tag "oras" "$1" "$tag"; done
    only_referrers oras "$1"
}
copy_tag() { oras cp --no-tty --from-oci-layout --to-plain-http "signed/$2:$3" "$mirror/$1/$2:$3"; }
# Tag by tag: the indexes of the tag schema are there as they were, and the API knows what they name.
by_tags() {
    local tag
    for tag in $(tags_of "signed/$1" .); do copy_tag tags "$1" "$tag"; done
    all_of "signed/$1" "tags/$1" .
}

must 'fixtures are there' signed_layouts
for layout in "$WORK"/signed/fx/*; do
    check "regctl: fx/${layout##*/} with its referrers and digest tags" by_regctl "fx/${layout##*/}"
    check "oras: fx/${layout##*/} with its referrers" by_oras "fx/${layout##*/}"
    check "tag by tag: fx/${layout##*/}" by_tags "fx/${layout##*/}"
done
check 'signatures verify as before in what regctl carried' verify_as_expected regctl
check 'signatures verify as before in what oras carried' verify_as_expected oras
check 'signatures verify as before in what went tag by tag' verify_as_expected tags
