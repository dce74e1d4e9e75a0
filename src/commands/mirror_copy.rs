//! `mirror copy`: bring something into another repository of the same store.

use std::path::PathBuf;

use kubepkg_mirror::manage::copy;
use kubepkg_mirror::route::Target;
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::wanted::Reference;

use super::mirror_reference::{self, Place};
use super::store_folder;
use crate::cli::Force;
use crate::interrupt;
use crate::printer::Printer;
use crate::units::count;

/// Flags of `mirror copy`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror copy --store /srv/mirror docker.io/library/busybox:1.36 site.example/tools/busybox",
    after_long_help = "Brings an image with its platforms, layers and everything that is about it \
                       (signatures, SBOMs) into another repository of the same store. No bytes are \
                       copied and no digest changes. The tag is that of SOURCE where the \
                       destination names none; one that points at something else is moved with \
                       --force only. A second run finds nothing to do.\n\nExample:\n  kubepkg \
                       mirror copy --store /srv/mirror docker.io/library/busybox:1.36 \
                       site.example/tools/busybox:stable"
)]
pub struct Arguments {
    /// `<host>/<path>:<tag>` or `<host>/<path>@<digest>`
    #[arg(value_name = "SOURCE", value_parser = mirror_reference::parse)]
    pub source: Reference,
    /// `<host>/<path>` or `<host>/<path>:<tag>`
    #[arg(value_name = "DESTINATION", value_parser = mirror_reference::parse_place)]
    pub destination: Place,
    /// The mirror's store on this host
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Move a tag that is there.
    #[command(flatten)]
    pub force: Force,
}

/// Copies it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    store_folder::must_be_found(&arguments.store)?;
    let (source, to) = (&arguments.source, &arguments.destination);
    let tag = to.tag.as_ref().or(match &source.target {
        Target::Tag(tag) => Some(tag),
        Target::Digest(_) => None,
    });
    let moved = interrupt::run(printer, "run the same command again", async {
        let store = FileStore::open(&arguments.store, OpenMode::OpenOrCreate)?;
        let from = (&source.repository, &source.target);
        Ok(copy(&store, from, (&to.repository, tag), arguments.force.force).await?)
    })?;
    let name = match tag {
        Some(tag) => format!("{}:{tag}", to.repository),
        None => format!("{}@{}", to.repository, moved.digest),
    };
    printer.say(&match moved.commit {
        Some(number) => format!(
            "{name} is {} (commit {number}); {} and {} are new in {}",
            moved.digest,
            count(usize::try_from(moved.manifests)?, "manifest", "manifests"),
            count(usize::try_from(moved.blobs)?, "blob", "blobs"),
            to.repository
        ),
        None => format!("{name} is {} already", moved.digest),
    });
    Ok(())
}
