# shellcheck shell=bash
# Signed images and what hangs on them (tests/signed) as layouts of their own, whether a mirror has
# all of it, and whether the signatures verify there.

fixtures=$WORK/fixtures

# Repositories of the fixtures as layouts of their own, with plain tags, as clients read them.
signed_layouts() {
    local repository
    mkdir "$fixtures"
    tar -C "$fixtures" -xzf "$repo/tests/signed/fixtures.tar.gz"
    for repository in $(jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"] | sub(":.*"; "")' "$fixtures/index.json" | sort -u); do
        mkdir -p "signed/$repository"
        cp -r "$fixtures/blobs" "$fixtures/oci-layout" "signed/$repository/"
        jq --arg r "$repository:" '.manifests |= [.[] | select(.annotations["org.opencontainers.image.ref.name"] | startswith($r))
            | .annotations["org.opencontainers.image.ref.name"] |= ltrimstr($r)]' "$fixtures/index.json" >"signed/$repository/index.json"
    done
}

# tags_of LAYOUT PATTERN: its tags that match.
tags_of() { jq -r '.manifests[].annotations["org.opencontainers.image.ref.name"]' "$1/index.json" | grep -E "$2" || true; }

# subjects LAYOUT: lines `subject referrer` of all manifests that the layout's tags lead to.
subjects() {
    local digest
    for digest in $(reached "$1" $(jq -r '.manifests[].digest' "$1/index.json") | sort -u); do
        jq -r --arg d "$digest" '.subject.digest // empty | "\(.) \($d)"' "$(in_layout "$1" "$digest")"
    done
}
reached() {
    local layout=$1 digest
    shift
    for digest; do
        echo "$digest"
        reached "$layout" $(jq -r '.manifests[]?.digest' "$(in_layout "$layout" "$digest")")
    done
}

# all_of LAYOUT REPOSITORY PATTERN: the mirror has every tag that matches, and the API lists every
# referrer and no other.
all_of() {
    local tag subject
    for tag in $(tags_of "$1" "$3"); do mirror_holds "$2" "$tag" "$(named "$1" "$tag")"; done
    subjects "$1" >edges
    for subject in $(cut -d' ' -f1 edges | sort -u); do
        sed -n "s/^$subject //p" edges | sort | diff - <(referrers "$2" "$subject")
    done
}

images='^(v1|arm64|amd64)$'
signatures='\.(sig|att)$'
schema='^sha256-[0-9a-f]{64}$'

# verifies REPOSITORY DIGEST: what hangs on it in the mirror holds a signature by cosign.pub of this
# very digest. Blobs and manifests come from the mirror alone.
verifies() {
    local at=http://$mirror/v2/$1 good=1 layer referrer
    if curl -fsS -H "$accept" -o sig.json "$at/manifests/${2/:/-}.sig"; then
        while read -r layer; do
            curl -fsS -o payload "$at/blobs/$(jq -r .digest <<<"$layer")"
            jq -r '.annotations["dev.cosignproject.cosign/signature"]' <<<"$layer" | base64 -d >signature
            if [ "$(jq -r '.critical.image["docker-manifest-digest"]' payload)" = "$2" ] && signature_holds payload; then good=0; fi
        done < <(jq -c '.layers[]' sig.json)
    fi
    for referrer in $(referrers "$1" "$2"); do
        curl -fsS -H "$accept" -o referrer.json "$at/manifests/$referrer"
        jq -e '.artifactType // "" | startswith("application/vnd.dev.sigstore.bundle")' referrer.json >/dev/null || continue
        curl -fsS -o bundle.json "$at/blobs/$(jq -r '.layers[0].digest' referrer.json)"
        jq -r .dsseEnvelope.payload bundle.json | base64 -d >statement
        jq -r '.dsseEnvelope.signatures[0].sig' bundle.json | base64 -d >signature
        envelope "$(jq -r .dsseEnvelope.payloadType bundle.json)" statement >payload
        if jq -e --arg d "${2#sha256:}" '.subject | any(.digest.sha256 == $d)' statement && signature_holds payload; then good=0; fi
    done
    return "$good"
}
signature_holds() { openssl dgst -sha256 -verify "$fixtures/cosign.pub" -signature signature "$1"; }
# What is signed of an attestation: its type and text with their lengths.
envelope() { printf 'DSSEv1 %d %s %d ' "${#1}" "$1" "$(stat -c %s "$2")" && cat "$2"; }

# verify_as_expected CLIENT
verify_as_expected() {
    local image what want found repository digest
    while read -r image what want; do
        repository=${image%@*} digest=${image#*@}
        found=no
        if verifies "$1/$repository" "$digest"; then found=ok; fi
        echo "$image ($what) should be $want, is $found"
        case $want in ok) [ "$found" = ok ] ;; *) [ "$found" = no ] ;; esac
    done <"$fixtures/expect"
}
