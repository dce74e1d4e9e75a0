//! Images as OCI image layouts on disk, for tools that read those.

use std::path::Path;

use kubepkg_core::Descriptor;
use serde_json::json;

use crate::image::Image;

/// Writes `images` into `folder`, each under its reference name.
pub fn write(folder: &Path, images: &[(&str, &Image)]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(
        folder.join("oci-layout"),
        r#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    let mut manifests: Vec<Descriptor> = Vec::new();
    for (name, image) in images {
        let manifest_bytes = image.content.manifests.iter().map(|(d, (_, b))| (d, b));
        for (digest, bytes) in manifest_bytes.chain(&image.content.blobs) {
            let place = folder.join("blobs").join(digest.algorithm().as_str());
            std::fs::create_dir_all(&place)?;
            std::fs::write(place.join(digest.hex()), bytes)?;
        }
        let mut descriptor = image.descriptor.clone();
        let key = "org.opencontainers.image.ref.name".to_owned();
        descriptor.annotations.insert(key, (*name).to_owned());
        manifests.push(descriptor);
    }
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    std::fs::write(folder.join("index.json"), index.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageBuilder;

    #[test]
    fn every_object_lies_under_its_digest() {
        let folder = tempfile::tempdir().unwrap();
        let image = ImageBuilder::new(1).build();
        write(folder.path(), &[("web:1", &image)]).unwrap();
        for (digest, bytes) in &image.content.blobs {
            let path = folder.path().join("blobs/sha256").join(digest.hex());
            assert_eq!(std::fs::read(path).unwrap(), bytes.to_vec());
        }
        let index = std::fs::read_to_string(folder.path().join("index.json")).unwrap();
        assert!(index.contains("web:1"));
    }
}
