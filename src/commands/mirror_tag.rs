//! `mirror tag`: give something in a store another tag.

use std::path::PathBuf;

use kubepkg_core::name::Tag;
use kubepkg_mirror::manage::tag;
use kubepkg_mirror::store::OpenMode;
use kubepkg_mirror::wanted::Reference;

use super::mirror_reference;
use super::some_store::SomeStore;
use crate::cli::Force;
use crate::interrupt;
use crate::printer::Printer;

/// Flags of `mirror tag`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror tag --store /srv/mirror docker.io/library/busybox:1.36 stable",
    after_long_help = "Lets NEWTAG point at what REFERENCE is, in the same repository. The new tag \
                       belongs to nobody: unlike a tag that a signed package brought, a push may \
                       move it. A tag that points at something else is moved with --force only. A \
                       running server shows it at once; a second run finds nothing to \
                       do.\n\nExample:\n  kubepkg mirror tag --store /srv/mirror \
                       docker.io/library/busybox:1.36 stable"
)]
pub struct Arguments {
    /// `<host>/<path>:<tag>` or `<host>/<path>@<digest>`
    #[arg(value_name = "REFERENCE", value_parser = mirror_reference::parse)]
    pub reference: Reference,
    /// The new tag
    #[arg(value_name = "NEWTAG")]
    pub new: Tag,
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Move a tag that is there.
    #[command(flatten)]
    pub force: Force,
}

/// Tags it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let Reference { repository, target } = &arguments.reference;
    let moved = interrupt::run(printer, "run the same command again", async {
        let (new, force) = (&arguments.new, arguments.force.force);
        Ok(
            match SomeStore::open(&arguments.store, OpenMode::OpenOrCreate).await? {
                SomeStore::Folder(store) => tag(&store, repository, target, new, force).await?,
                SomeStore::Bucket(store) => tag(&store, repository, target, new, force).await?,
            },
        )
    })?;
    let name = format!("{repository}:{}", arguments.new);
    printer.say(&match moved.commit {
        Some(number) => format!("{name} is {} (commit {number})", moved.digest),
        None => format!("{name} is {} already", moved.digest),
    });
    Ok(())
}
