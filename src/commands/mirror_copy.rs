//! `mirror copy`: bring something into another repository of the same store, or a whole store
//! into a bucket.

use std::path::{Path, PathBuf};
use std::time::Instant;

use kubepkg_core::progress::Progress as _;
use kubepkg_mirror::bucket::{self, BucketMode, BucketStore};
use kubepkg_mirror::manage::copy;
use kubepkg_mirror::route::Target;
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::wanted::Reference;

use super::mirror_reference::{self, Place};
use super::some_store::SomeStore;
use super::{bucket_place, store_folder};
use crate::cli::Force;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::progress::Meter;
use crate::units::{count, size, span};

/// Flags of `mirror copy`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror copy --store /srv/mirror docker.io/library/busybox:1.36 site.example/tools/busybox",
    after_long_help = "Brings an image with its platforms, layers and everything that is about it \
                       (signatures, SBOMs) into another repository of the same store. No bytes are \
                       copied and no digest changes. The tag is that of SOURCE where the \
                       destination names none; one that points at something else is moved with \
                       --force only. A second run finds nothing to do.\n\nWith --from and --to \
                       a whole store is copied from a folder into a bucket: content, names, \
                       repository files and what was accepted; not the records of earlier \
                       imports. Stop pushes into the folder before. An interrupted copy is \
                       simply run again.\n\nExample:\n  kubepkg \
                       mirror copy --store /srv/mirror docker.io/library/busybox:1.36 \
                       site.example/tools/busybox:stable\n  kubepkg mirror copy --from /srv/mirror \
                       --to s3://mirror/site-a"
)]
pub struct Arguments {
    /// `<host>/<path>:<tag>` or `<host>/<path>@<digest>`
    #[arg(value_name = "SOURCE", value_parser = mirror_reference::parse, required_unless_present = "from")]
    pub source: Option<Reference>,
    /// `<host>/<path>` or `<host>/<path>:<tag>`
    #[arg(value_name = "DESTINATION", value_parser = mirror_reference::parse_place, required_unless_present = "from")]
    pub destination: Option<Place>,
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET", required_unless_present = "from")]
    pub store: Option<PathBuf>,
    /// Copy the whole store in this folder
    #[arg(long, value_name = "DIR", requires = "to", conflicts_with_all = ["source", "store", "force"])]
    pub from: Option<PathBuf>,
    /// Where --from goes: s3://BUCKET or s3://BUCKET/PREFIX
    #[arg(long, value_name = "s3://BUCKET", requires = "from")]
    pub to: Option<PathBuf>,
    /// Move a tag that is there.
    #[command(flatten)]
    pub force: Force,
}

/// Copies it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    if let (Some(from), Some(to)) = (&arguments.from, &arguments.to) {
        return move_in(from, to, printer);
    }
    let (Some(source), Some(to), Some(store)) =
        (&arguments.source, &arguments.destination, &arguments.store)
    else {
        // the flags say so themselves
        return Err(CommandError::usage("a source, a destination and --store are wanted").into());
    };
    let tag = to.tag.as_ref().or(match &source.target {
        Target::Tag(tag) => Some(tag),
        Target::Digest(_) => None,
    });
    let moved = interrupt::run(printer, "run the same command again", async {
        let (from, to) = ((&source.repository, &source.target), (&to.repository, tag));
        let force = arguments.force.force;
        Ok(
            match SomeStore::open(store, OpenMode::OpenOrCreate).await? {
                SomeStore::Folder(store) => copy(&store, from, to, force).await?,
                SomeStore::Bucket(store) => copy(&store, from, to, force).await?,
            },
        )
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

/// Copies a whole store into a bucket.
fn move_in(from: &Path, to: &Path, printer: &Printer) -> anyhow::Result<()> {
    store_folder::must_be_found(from)?;
    let Some(bucket) = bucket_place::open(to)? else {
        return Err(CommandError::usage("a store is copied into a bucket")
            .at(to.display())
            .hint("write it like s3://mirror/site-a; into another folder: kubepkg mirror backup")
            .into());
    };
    let began = Instant::now();
    let moved = interrupt::run(printer, "run the same command again", async {
        // for writing where that is allowed: an interrupted commit is finished first
        let store = match FileStore::open(from, OpenMode::Writable) {
            Ok(store) => store,
            Err(_) => FileStore::open(from, OpenMode::ReadOnly)?,
        };
        let names = store.names().await?;
        let meter = Meter::new(printer);
        meter.begin("copying", bucket::weight(&names));
        let to = BucketStore::open(bucket, BucketMode::OpenOrCreate).await?;
        let moved = bucket::move_in(&store, &to, &|bytes| meter.advance(bytes)).await;
        meter.end();
        to.settle().await;
        Ok(moved?)
    })?;
    let (from, to) = (from.display(), to.display());
    let contents = count(usize::try_from(moved.contents)?, "piece", "pieces");
    printer.say(&match moved.commit {
        Some(number) => format!(
            "{to} holds all of {from} as commit {number}: {} in {contents} of content copied in \
             {}, {} were there",
            size(moved.bytes),
            span(began.elapsed()),
            moved.there,
        ),
        None => format!("{to} holds all of {from} already; no name was changed"),
    });
    Ok(())
}
