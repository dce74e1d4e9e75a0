# shellcheck shell=bash
# What is no image: oras.
echo "== artifacts"

artifact_there_and_back() {
    local at=$mirror/oras/artifact:v1 digest
    mkdir -p files back
    head -c 300000 /dev/urandom >files/data.bin
    echo 'some: text' >files/values.yaml
    (cd files && oras push --no-tty --plain-http --artifact-type application/vnd.example.thing "$at" data.bin:application/octet-stream values.yaml:application/yaml)
    digest=$(oras resolve --plain-http "$at")
    mirror_holds oras/artifact v1 "$digest"
    oras pull --no-tty --plain-http -o back "$at"
    diff -r files back
}
check 'oras: files pushed and pulled' artifact_there_and_back

# Attachments upon attachments, all copied with what they hang on.
attachments() {
    local at=$mirror/oras/plain subject first second
    subject=$(source_of plain)
    echo '{"spdxVersion":"SPDX-2.3"}' >sbom.json
    echo 'a note on the note' >note.txt
    oras attach --no-tty --plain-http --artifact-type application/spdx+json "$at@$subject" sbom.json:application/spdx+json
    first=$(referrers oras/plain "$subject")
    oras attach --no-tty --plain-http --artifact-type text/plain --annotation why=test "$at@$first" note.txt:text/plain
    second=$(referrers oras/plain "$first")
    mirror_holds oras/plain "$first" "$first"
    mirror_holds oras/plain "$second" "$second"
    oras discover --plain-http --format json "$at@$subject" >found
    jq -e --arg d "$first" '[.. | .digest?] | index($d)' found
    curl -fsS -D head "http://$mirror/v2/oras/plain/referrers/$first?artifactType=text/plain" |
        jq -e '.manifests | length == 1 and .[0].artifactType == "text/plain" and .[0].annotations.why == "test"'
    grep -i '^oci-filters-applied: artifactType' head
    oras cp --no-tty -r --from-plain-http --to-plain-http "$at@$subject" "$mirror/oras/taken:v1"
    mirror_holds oras/taken v1 "$subject"
    [ "$(referrers oras/taken "$subject")" = "$first" ]
    [ "$(referrers oras/taken "$first")" = "$second" ]
    mirror_holds oras/taken "$second" "$second"
    oras manifest delete --force --plain-http "$mirror/oras/taken@$second"
    absent oras/taken "$second"
    [ -z "$(referrers oras/taken "$first")" ]
    mirror_holds oras/plain "$second" "$second"
}
check 'oras: attached, discovered, copied with all that hangs on it, deleted' attachments

lone_blob() {
    local digest
    digest=$(digest_of files/data.bin)
    oras blob push --no-tty --plain-http "$mirror/oras/blobs@$digest" files/data.bin
    oras blob fetch --no-tty --plain-http --output fetched "$mirror/oras/blobs@$digest"
    cmp fetched files/data.bin
    oras blob delete --force --plain-http "$mirror/oras/blobs@$digest"
    [ "$(status "http://$mirror/v2/oras/blobs/blobs/$digest")" = 404 ]
}
check 'oras: a blob pushed, fetched, deleted' lone_blob
