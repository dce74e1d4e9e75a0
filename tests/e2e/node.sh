# shellcheck shell=bash
# A node: containerd with its own root, state, socket and configuration, as a kubelet would use it.

node=$WORK/node
node_socket=$node/containerd.sock

# node_start CERTS.D: starts containerd with config_path set to that folder.
node_start() {
    local snapshotter=native
    mkdir -p "$node"/{root,state,opt,cni}
    if overlay_works; then snapshotter=overlayfs; fi
    cat >"$node/config.toml" <<EOF
version = 2
root = "$node/root"
state = "$node/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "$node_socket"
[plugins."io.containerd.internal.v1.opt"]
  path = "$node/opt"
[plugins."io.containerd.grpc.v1.cri"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$node/cni"
    conf_dir = "$node/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "$snapshotter"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$1"
EOF
    node_snapshotter=$snapshotter
    daemon containerd containerd --config "$node/config.toml"
    await containerd cri info
}

node_stop() { [ -z "${pid_containerd:-}" ] || stop containerd; }

# Overlay over overlay, as in many build containers, is refused by the kernel.
overlay_works() {
    local d
    d=$(mktemp -d "$WORK/overlay.XXXXXX")
    mkdir "$d"/{lower,upper,work,merged}
    mount -t overlay overlay -o "lowerdir=$d/lower,upperdir=$d/upper,workdir=$d/work" "$d/merged" 2>/dev/null && umount "$d/merged"
}

cri() { crictl --runtime-endpoint "unix://$node_socket" --image-endpoint "unix://$node_socket" --timeout 60s "$@"; }
node_ctr() { ctr --address "$node_socket" --namespace kubepkg-e2e "$@"; }

# The digests containerd recorded for a reference pulled over CRI.
cri_digests() { cri inspecti -o json "$1" | jq -r '.status.repoDigests[]'; }

# node_run IMAGE COMMAND…: runs a container with runc and prints its output.
node_run() {
    local image=$1
    shift
    node_ctr run --rm --runtime io.containerd.runc.v2 --snapshotter "$node_snapshotter" "$image" "run-$RANDOM" "$@"
}
