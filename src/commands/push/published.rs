//! What is there under a tag already, compared with what is to be pushed.

use std::io;

use kubepkg_core::manifest::Manifest;
use kubepkg_core::tree::{MAX_TREE, Packed, Unpacked, content_digest, layer};
use kubepkg_core::{Descriptor, Digest, Reference};
use kubepkg_remote::Registry;
use kubepkg_remote::registry::BlobSink;

use crate::error::CommandError;

/// A tree that is published.
pub struct Published {
    /// Digest of its manifest.
    pub digest: Digest,
    /// Its layer, however it was compressed.
    pub layer: Descriptor,
}

/// The published tree that is the same as `packed`; `None` where nothing is published yet.
///
/// # Errors
/// Something else is published there; or what goes wrong on the way.
pub async fn published(
    registry: &Registry,
    reference: &Reference,
    packed: &Packed,
) -> anyhow::Result<Option<Published>> {
    let Some(there) = registry.published(reference).await? else {
        return Ok(None);
    };
    let other = |what: &str| {
        CommandError::failed(format!(
            "this tag is published with other content: {what} is there, and the files to push \
             have the content {}",
            packed.content
        ))
        .at(reference)
        .hint(
            "what is published does not change, as clusters may run it; push under another tag, \
             for a package with a new version or build number",
        )
    };
    let manifest = Manifest::parse(&there.bytes, Some(&there.media_type));
    let Some((manifest, layer)) = manifest.as_ref().ok().and_then(|m| Some((m, layer(m)?))) else {
        let what = format!("{}, which is no package tree,", there.digest);
        return Err(other(&what).into());
    };
    let content = match content_digest(manifest) {
        Some(said) => said,
        None if layer.digest == packed.layer.digest => packed.content,
        None if layer.size > MAX_TREE => {
            let what = format!("{}, which is larger than a package tree,", there.digest);
            return Err(other(&what).into());
        }
        None => content_of(registry, reference, layer).await?,
    };
    if content != packed.content {
        return Err(other(&format!("{} with the content {content}", there.digest)).into());
    }
    Ok(Some(Published {
        digest: there.digest,
        layer: layer.clone(),
    }))
}

/// The content of a tree whose manifest does not say it.
async fn content_of(
    registry: &Registry,
    reference: &Reference,
    layer: &Descriptor,
) -> anyhow::Result<Digest> {
    let sink = Unpacking(Unpacked::default());
    let sink = registry.download_published(reference, layer, sink).await?;
    let unreadable = |error| {
        CommandError::refused("what is published under this tag cannot be unpacked")
            .at(reference)
            .because(error)
    };
    Ok(sink.0.finish().map_err(unreadable)?)
}

/// Unpacks what is downloaded and keeps only its digest.
struct Unpacking(Unpacked);

impl BlobSink for Unpacking {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset == 0 {
            self.0 = Unpacked::default();
        }
        self.0.take(bytes)
    }
}
