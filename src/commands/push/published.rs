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
    /// Digest of its archive before compression.
    pub content: Digest,
}

/// The published tree that is the same as `packed`, or the same but for the modes of executables,
/// which trees of the older program do not have; `None` where nothing is published yet.
///
/// What counts is the layer itself. Whoever may push can write any content digest beside it, and
/// the answer here is written into packages.
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
    let ours = |content| content == packed.content || Some(content) == packed.without_modes;
    let said = content_digest(manifest);
    // what calls itself something else is not fetched to find out
    if let Some(said) = said.filter(|said| !ours(*said)) {
        return Err(other(&format!("{} with the content {said}", there.digest)).into());
    }
    let content = if layer.digest == packed.layer.digest {
        if !registry.has_published(reference, layer).await? {
            return Err(lost(reference, layer).into());
        }
        packed.content
    } else if layer.size > MAX_TREE {
        let what = format!("{}, which is larger than a package tree,", there.digest);
        return Err(other(&what).into());
    } else {
        content_of(registry, reference, layer).await?
    };
    if !ours(content) || said.is_some_and(|said| said != content) {
        let what = match said {
            Some(said) => format!(
                "{}, which says that its content is {said} and has the content {content},",
                there.digest
            ),
            None => format!("{} with the content {content}", there.digest),
        };
        return Err(other(&what).into());
    }
    Ok(Some(Published {
        digest: there.digest,
        layer: layer.clone(),
        content,
    }))
}

fn lost(reference: &Reference, layer: &Descriptor) -> CommandError {
    CommandError::failed(format!(
        "this tag is published, and its layer {} is not in the registry any more",
        layer.digest
    ))
    .at(reference)
    .hint("take the tag away in the registry and push again, or push under another tag")
}

/// The content of a tree whose manifest does not say it.
async fn content_of(
    registry: &Registry,
    reference: &Reference,
    layer: &Descriptor,
) -> anyhow::Result<Digest> {
    let sink = Unpacking::default();
    let sink = registry.download_published(reference, layer, sink).await?;
    let unreadable = |error| {
        CommandError::refused("what is published under this tag cannot be unpacked")
            .at(reference)
            .because(error)
    };
    Ok(sink.finish().map_err(unreadable)?)
}

/// Unpacks what is downloaded and keeps only its digest.
#[derive(Default)]
struct Unpacking {
    unpacked: Unpacked,
    /// Why it cannot be unpacked. That is told when all has come: it may have been damaged on the
    /// way, which is seen then, and helped by fetching it once more.
    failed: Option<io::Error>,
}

impl Unpacking {
    fn finish(self) -> io::Result<Digest> {
        match self.failed {
            Some(error) => Err(error),
            None => self.unpacked.finish(),
        }
    }
}

impl BlobSink for Unpacking {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset == 0 {
            *self = Unpacking::default();
        }
        if self.failed.is_none() {
            self.failed = self.unpacked.take(bytes).err();
        }
        Ok(())
    }
}
