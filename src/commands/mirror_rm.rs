//! `mirror rm`: take a tag or a manifest out of a store.

use std::path::PathBuf;

use kubepkg_mirror::manage::{Closure, Removal, removal, remove};
use kubepkg_mirror::store::{KEEP_IMPORTS, OpenMode};
use kubepkg_mirror::wanted::Reference;

use super::some_store::SomeStore;
use super::{mirror_reference, store_folder};
use crate::interrupt;
use crate::printer::Printer;
use crate::units::{count, size};

/// Flags of `mirror rm`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror rm --store /srv/mirror --dry-run docker.io/library/busybox:1.36",
    after_long_help = "Takes a tag out of its repository, with the manifests that only it leads \
                       to, their layers and signatures; or a manifest by its digest. Refused is a \
                       digest that an index lists or a tag points at, unless --force is given; \
                       then the tags go too. Clients are told at once that it is not here; the \
                       bytes stay until they are collected (mirror gc), and a push of the same \
                       content in between needs no transfer. A running server and pushes are not \
                       disturbed. A second run finds nothing.\n\nExample:\n  kubepkg mirror rm \
                       --store /srv/mirror docker.io/library/busybox:1.36"
)]
pub struct Arguments {
    /// `<host>/<path>:<tag>` or `<host>/<path>@<digest>`
    #[arg(value_name = "REFERENCE", value_parser = mirror_reference::parse)]
    pub reference: Reference,
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Only show what would go
    #[arg(long)]
    pub dry_run: bool,
    /// Also remove what an index or a tag needs
    #[arg(long)]
    pub force: bool,
}

/// Removes it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let Reference { repository, target } = &arguments.reference;
    let again = "run the same command again: it finishes, or finds nothing";
    if arguments.dry_run {
        let (plan, kept) = interrupt::run(printer, again, async {
            let store = SomeStore::open(&arguments.store, OpenMode::ReadOnly).await?;
            let names = store.names().await?;
            let mut closure = match &store {
                SomeStore::Folder(store) => Closure::new(store),
                SomeStore::Bucket(store) => Closure::new(store),
            };
            let force = arguments.force;
            let plan = removal(&mut closure, &names, repository, target, force)?;
            let kept = kept_for_imports(&store, &plan).await?;
            Ok((plan, kept))
        })?;
        printer.answer(&told(&arguments.reference, &plan))?;
        say_kept(kept, printer);
        warn_unjudged(&arguments, &plan, printer);
        printer.say("nothing was changed (--dry-run)");
        return Ok(());
    }
    let (number, removed, kept) = interrupt::run(printer, again, async {
        let store = SomeStore::open(&arguments.store, OpenMode::OpenOrCreate).await?;
        let force = arguments.force;
        let (number, removed) = match &store {
            SomeStore::Folder(store) => remove(store, repository, target, force).await?,
            SomeStore::Bucket(store) => remove(store, repository, target, force).await?,
        };
        let kept = kept_for_imports(&store, &removed).await?;
        Ok((number, removed, kept))
    })?;
    printer.answer(&told(&arguments.reference, &removed))?;
    warn_unjudged(&arguments, &removed, printer);
    printer.say(&format!("removed as commit {number}"));
    if !removed.garbage.is_empty() {
        printer.say(&store_folder::typeable(
            "the bytes are freed when they are collected: kubepkg mirror gc",
            &arguments.store,
        ));
    }
    say_kept(kept, printer);
    Ok(())
}

/// Bytes of what became garbage that stay so that an import can be gone back to.
async fn kept_for_imports(store: &SomeStore, removal: &Removal) -> anyhow::Result<u64> {
    let kept = match store {
        SomeStore::Folder(store) => store.kept_for_imports(KEEP_IMPORTS).await?,
        SomeStore::Bucket(store) => store.kept_for_imports(KEEP_IMPORTS).await?,
    };
    let garbage = removal.garbage.iter();
    let stays = garbage.filter(|(digest, _)| kept.contains(*digest));
    Ok(stays.map(|(_, bytes)| bytes).sum())
}

fn say_kept(bytes: u64, printer: &Printer) {
    if bytes > 0 {
        printer.say(&format!(
            "{} of them only after newer imports: one of the last {KEEP_IMPORTS} brought it and can \
             be gone back to",
            size(bytes)
        ));
    }
}

/// Says why less goes than might.
fn warn_unjudged(arguments: &Arguments, removal: &Removal, printer: &Printer) {
    if let Some(manifest) = removal.unjudged {
        printer.warn(&format!(
            "manifest {manifest} in {} cannot be read, and whatever it may need stays; see kubepkg \
             mirror check --store {}",
            arguments.reference.repository,
            arguments.store.display()
        ));
    }
}

fn told(reference: &Reference, removal: &Removal) -> String {
    let repository = &reference.repository;
    let mut lines: Vec<String> = removal
        .tags
        .iter()
        .map(|tag| format!("tag       {repository}:{tag}"))
        .collect();
    let freed = |digest| match removal.garbage.contains_key(digest) {
        true => "",
        false => "  (needed elsewhere)",
    };
    for (digest, bytes) in &removal.manifests {
        lines.push(format!(
            "manifest  {digest}  {}{}",
            size(*bytes),
            freed(digest)
        ));
    }
    for (digest, bytes) in &removal.blobs {
        lines.push(format!(
            "blob      {digest}  {}{}",
            size(*bytes),
            freed(digest)
        ));
    }
    lines.push(match removal.garbage.len() {
        0 => "everything it is made of is needed elsewhere; no bytes become garbage".to_owned(),
        n => format!(
            "{} in {} become garbage",
            size(removal.garbage_bytes()),
            count(n, "file", "files")
        ),
    });
    lines.join("\n")
}
