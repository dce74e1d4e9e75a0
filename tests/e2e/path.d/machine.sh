# shellcheck shell=bash
# A machine with systemd as its first process, to install a mirror on as its operator does: the
# files of this one below an overlay, own processes, cgroups, /run, /tmp and /dev, and the network
# of the script. Nothing of it is left when the script ends.

machine=$WORK/machine/root

# What a machine does when it starts that would change the kernel all of us share, or waits for
# devices nobody has here.
not_started=(systemd-sysctl systemd-modules-load systemd-udevd systemd-udev-trigger systemd-timesyncd
    systemd-binfmt systemd-hwdb-update systemd-random-seed systemd-remount-fs apparmor ifupdown-pre networking
    systemd-networkd systemd-networkd-wait-online)

machine_start() {
    local name device
    mkdir -p "$WORK/machine"
    mount -t tmpfs none "$WORK/machine"
    mkdir "$WORK/machine/changed" "$WORK/machine/work" "$machine"
    # an overlay cannot lie on an overlay's files, and this machine's may be one: hence the tmpfs
    mount -t overlay -o "lowerdir=/,upperdir=$WORK/machine/changed,workdir=$WORK/machine/work" overlay "$machine"
    mount -t tmpfs -o mode=755 none "$machine/dev"
    for device in null zero full random urandom tty; do
        touch "$machine/dev/$device"
        mount --bind "/dev/$device" "$machine/dev/$device"
    done
    mkdir "$machine/dev/pts" "$machine/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$machine/dev/pts"
    ln -s pts/ptmx "$machine/dev/ptmx"
    ln -s /proc/self/fd "$machine/dev/fd"
    touch "$machine/dev/console"
    mount -t tmpfs none "$machine/run"
    mount -t tmpfs none "$machine/tmp"
    for name in "${not_started[@]}"; do ln -sfn /dev/null "$machine/etc/systemd/system/$name.service"; done
    # its own log, in memory
    rm -rf "$machine/var/log/journal"
    daemon machine bash -c '. "$1" && machine_boot "$2"' - "${BASH_SOURCE[0]}" "$machine"
    echo "$pid_machine" >"$WORK/machine/pid"
    await machine machine_is_up
}

# machine_boot ROOT: becomes the machine, in a cgroup of its own.
machine_boot() {
    local group=/sys/fs/cgroup
    [ ! -d /sys/fs/cgroup/unified ] || group=/sys/fs/cgroup/unified
    group=$group/kubepkg-e2e-machine-$$
    mkdir "$group"
    echo $$ >"$group/cgroup.procs"
    exec env -i container=other PATH="$PATH" unshare --mount --pid --fork --kill-child --cgroup --ipc --uts bash -c '
        mount -t proc proc "$1/proc"
        mount -t sysfs -o ro sysfs "$1/sys"
        mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
        exec chroot "$1" /lib/systemd/systemd --system --unit=basic.target --show-status=0' - "$1"
}

# The machine's first process, as seen from here.
machine_init() {
    local outside init
    outside=$(cat "$WORK/machine/pid")
    read -r init <"/proc/$outside/task/$outside/children"
    echo "$init"
}

# Ends the machine: its cgroups can be removed when nothing is in them.
machine_stop() {
    local outside
    [ -e "$WORK/machine/pid" ] || return 0
    outside=$(cat "$WORK/machine/pid")
    # who waits for it outside ends after it
    kill -KILL "$(machine_init)" || return 0
    while [ -e "/proc/$outside" ] && [ "$(ps -o stat= -p "$outside")" != Z ]; do :; done
}

# on COMMAND…: as root on the machine, in the folder /root.
on() {
    nsenter --target "$(machine_init)" --mount --pid --cgroup --ipc --uts --root --wdns=/root \
        env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"
}

machine_is_up() { on systemctl is-active basic.target; }

# What the mirror's unit said since the machine was started.
unit_log() { on journalctl --no-pager -o cat -u kubepkg-mirror; }
unit_said() { unit_log | grep -F -- "$1"; }
