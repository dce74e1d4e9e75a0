# shellcheck shell=bash
# Signed images (tests/signed) out of a registry that knows what hangs on an image by tags only, and
# out of one with the referrers API, through a bundle into a mirror: everything is there as it was.
echo "== signed images"
. "$e2e/content.sh"
. "$e2e/signed.sh"
near=127.0.0.1:5002
far_mirror=127.0.0.1:5003

# Tag by tag, with the indexes of the tag schema, into Debian's registry; with referrers and cosign's
# tags into a mirror.
fill_both() {
    local layout name tag
    for layout in signed/fx/*; do
        name=${layout#signed/}
        for tag in $(tags_of "$layout" .); do
            oras cp --no-tty --from-oci-layout --to-plain-http "$layout:$tag" "127.0.0.1:5000/$name:$tag"
        done
        for tag in $(tags_of "$layout" "$images"); do
            oras cp --no-tty -r --from-oci-layout --to-plain-http "$layout:$tag" "$near/$name:$tag"
        done
        for tag in $(tags_of "$layout" "$signatures"); do
            oras cp --no-tty --from-oci-layout --to-plain-http "$layout:$tag" "$near/$name:$tag"
        done
    done
}
# All images of both, pinned, in one package.
package_of_both() {
    local host layout tag
    mkdir -p signed-packages
    {
        printf 'apiVersion: kubepkg.dev/v1\nkind: PackageSource\nmetadata: {name: signed}\n'
        printf 'spec:\n  version: 1.0.0\n  build: 1\n  variants:\n  - name: default\n  images:\n'
        for host in 127.0.0.1:5000 "$near"; do
            for layout in signed/fx/*; do
                for tag in $(tags_of "$layout" "$images"); do
                    echo "  - $host/${layout#signed/}:$tag@$(named "$layout" "$tag")"
                done
            done
        done
    } >signed-packages/signed.yaml
    kubepkg repo keygen signer
    kubepkg repo index signed-packages --sign-key signer.key -o signed.yaml
}
through_a_bundle() {
    kubepkg bundle create signed --repo ./signed.yaml --public-key signer.pub -o signed.tar
    kubepkg bundle import signed.tar --store imported --public-key signer.pub
}
# Every manifest and blob that any tag or referrer of a layout leads to, byte for byte.
same_content() {
    local digest
    for digest in $(reached "$1" $(jq -r '.manifests[].digest' "$1/index.json") | sort -u); do
        # the index of a tag schema is how a registry lists them, and no content of its own
        ! is_schema "$1" "$digest" || continue
        curl -fsS -H "$accept" "http://$mirror/v2/$2/manifests/$digest" | cmp - "$(in_layout "$1" "$digest")"
        for blob in $(jq -r '(.layers[]?, .config // empty).digest' "$(in_layout "$1" "$digest")"); do
            curl -fsS "http://$mirror/v2/$2/blobs/$blob" | cmp - "$(in_layout "$1" "$blob")"
        done
    done
}
is_schema() {
    jq -e --arg d "$2" --arg s "$schema" '.manifests | map(select(.digest == $d)) | length > 0 and
        all(.annotations["org.opencontainers.image.ref.name"] | test($s))' "$1/index.json" >/dev/null
}
as_it_was() {
    all_of "$1" "$2" "$images|$signatures"
    same_content "$1" "$2"
}

must 'fixtures are there' signed_layouts
mirror=$near
daemon near "$KUBEPKG" mirror serve --store near --listen "$near" --anonymous-push --new-store
await near answers "http://$near/healthz"
must 'both registries are filled' fill_both
must 'a package of all of it' package_of_both
must 'through a bundle into a store' through_a_bundle
stop near
mirror=$far_mirror
serve_store imported
for layout in signed/fx/*; do
    check "${layout#signed/} from a registry with tags only" as_it_was "$layout" "127.0.0.1_5000/${layout#signed/}"
    check "${layout#signed/} from a registry with the referrers API" as_it_was "$layout" "${near/:/_}/${layout#signed/}"
done
check 'signatures verify as before: tags only' verify_as_expected 127.0.0.1_5000
check 'signatures verify as before: referrers API' verify_as_expected "${near/:/_}"
stop mirror
