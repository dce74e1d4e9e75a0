//! Images, and collections of what is left of them.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::store::{Change, StoreError};
use kubepkg_core::time::Time;
use kubepkg_mirror::store::{Collected, Collecting, FileStore};

use crate::check::files;
use crate::steps::blob_of;
use crate::support::{blob, manifest, now};

/// How long something stays condemned, in time the store is served.
pub const GRACE: Duration = Duration::from_secs(3600);

/// The seed of an image's layer, by that of its configuration.
const LAYER: u64 = 500;

/// The contents of an image: its manifest, its configuration and its layer.
pub fn image_of(seed: u64) -> [Bytes; 3] {
    let below = [blob_of(seed), blob_of(seed + LAYER)];
    let describe = |bytes: &Bytes, kind: &str| {
        serde_json::json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"),
            "digest": Digest::sha256(bytes).to_string(),
            "size": bytes.len(),
        })
    };
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": describe(&below[0], "config.v1+json"),
        "layers": [describe(&below[1], "layer.v1.tar")],
    });
    let [config, layer] = below;
    [Bytes::from(manifest.to_string()), config, layer]
}

/// The names of an image in a repository.
pub fn names_of_image(repository: &str, seed: u64) -> [Change; 3] {
    let [top, config, layer] = image_of(seed);
    [
        manifest(repository, Digest::sha256(&top), top.len()),
        blob(repository, Digest::sha256(&config), config.len()),
        blob(repository, Digest::sha256(&layer), layer.len()),
    ]
}

/// What a manifest names; nothing for one that is noise.
pub fn named_by(manifest: &[u8]) -> Vec<Digest> {
    let Ok(manifest) = serde_json::from_slice::<serde_json::Value>(manifest) else {
        return Vec::new();
    };
    let layers = manifest["layers"].as_array().into_iter().flatten();
    let descriptors = std::iter::once(&manifest["config"]).chain(layers);
    let digest = |descriptor: &serde_json::Value| descriptor["digest"].as_str()?.parse().ok();
    descriptors.filter_map(digest).collect()
}

/// One collection.
pub fn collect(
    store: &FileStore,
    untagged: bool,
    grace: Duration,
) -> Result<Collected, StoreError> {
    let collecting = Collecting {
        untagged,
        grace,
        ..Collecting::new(Time::from_unix(1_796_000_000))
    };
    now(store.collect(collecting))
}

/// Says that the store has been served for so long, as who serves it does.
pub fn serve(root: &Path, seconds: u64) {
    let mut options = std::fs::File::options();
    let file = options.write(true).create(true).truncate(false);
    let file = file.open(root.join("served")).unwrap();
    let text = format!("{:020}\n", seconds * 1000);
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

/// The beginning of a line at the end of the list of what is condemned.
pub fn tear(root: &Path) {
    let mut options = std::fs::File::options();
    let mut list = options.append(true).open(root.join("condemned")).unwrap();
    list.write_all(b"0123").unwrap();
}

/// Digests of all content there is.
pub fn all_content(root: &Path) -> BTreeSet<Digest> {
    let mut found = BTreeSet::new();
    for algorithm in files(&root.join("blobs")) {
        let folder = root.join("blobs").join(&algorithm);
        for prefix in files(&folder) {
            let names = files(&folder.join(prefix)).into_iter();
            found.extend(names.map(|hex| format!("{algorithm}:{hex}").parse::<Digest>().unwrap()));
        }
    }
    found
}
