# shellcheck shell=bash
echo '== installing, as samples/kubepkg-mirror.service says'
# Its commands, in their order.
steps() { sed -n 's/^#   \([a-z]\)/\1/p' "$repo/samples/kubepkg-mirror.service"; }

files_arrive() {
    cp "$repo"/samples/{mirror.yaml,mirror-access.yaml,kubepkg-mirror.service} "$WORK/release.pub" "$machine/root/"
    cp "$WORK/tiny.tar" "$machine/root/site.tar"
    cp "$WORK/later.tar" "$machine/root/later.tar"
    cp "$(command -v "$KUBEPKG")" "$machine/root/kubepkg"
}
must 'the files are carried there' files_arrive

unit_holds() {
    local said
    on install -m 755 kubepkg /usr/local/bin/
    said=$(on systemd-analyze verify /root/kubepkg-mirror.service 2>&1)
    echo "$said"
    [ -z "$said" ]
}
check 'systemd-analyze finds nothing in the unit' unit_holds

installed() {
    local step
    [ "$(steps | wc -l)" -ge 8 ]
    while read -r step; do
        echo "# $step"
        on bash -ec "$step" </dev/null
    done < <(steps)
    await machine unit_said 'serving /srv/mirror'
}
must 'every command of the unit does what it says, and the mirror serves' installed

runs_apart() {
    local pid
    pid=$(on systemctl show -P MainPID kubepkg-mirror)
    [ "$(on ps -o user= -p "$pid")" = kubepkg ]
    on nsenter -t "$pid" -m -r -- setpriv --reuid kubepkg --regid kubepkg --clear-groups sh -c '! touch /var/lib/x 2>/dev/null && ! touch /etc/kubepkg/x 2>/dev/null && touch /srv/mirror/uploads/.x && rm /srv/mirror/uploads/.x'
    # nothing in the store is root's
    [ -z "$(on find /srv/mirror ! -user kubepkg)" ]
}
check 'it runs as its user and writes its store alone' runs_apart

# The first request cannot check the CA: its fingerprint is compared with what the mirror said.
ca_is_had() {
    curl -fsS --insecure -o "$WORK/ca.crt" "https://$at/node-config/ca.crt"
    unit_said "$(fingerprint "$WORK/ca.crt")"
    trust "$WORK/ca.crt"
}
must 'the CA is fetched and is the one the log names' ca_is_had
check 'everything of the bundle is served' serves
health() {
    local path
    for path in livez healthz readyz; do secure "https://$at/$path"; done
}
check 'it says that it is well' health
