//! `mirror rm`: take a tag or a manifest out of a store.

use std::path::PathBuf;

use kubepkg_mirror::manage::{Closure, Removal, removal, remove};
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::wanted::Reference;

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
    /// The mirror's store on this host
    #[arg(long, value_name = "DIR")]
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
    store_folder::must_be_found(&arguments.store)?;
    let Reference { repository, target } = &arguments.reference;
    let again = "run the same command again: it finishes, or finds nothing";
    if arguments.dry_run {
        let plan = interrupt::run(printer, again, async {
            let store = FileStore::open(&arguments.store, OpenMode::ReadOnly)?;
            let names = store.names().await?;
            let mut closure = Closure::new(&store);
            Ok(removal(
                &mut closure,
                &names,
                repository,
                target,
                arguments.force,
            )?)
        })?;
        printer.answer(&told(&arguments.reference, &plan))?;
        printer.say("nothing was changed (--dry-run)");
        return Ok(());
    }
    let (number, removed) = interrupt::run(printer, again, async {
        let store = FileStore::open(&arguments.store, OpenMode::OpenOrCreate)?;
        Ok(remove(&store, repository, target, arguments.force).await?)
    })?;
    printer.answer(&told(&arguments.reference, &removed))?;
    printer.say(&format!("removed as commit {number}"));
    if !removed.garbage.is_empty() {
        printer.say("the bytes are freed when they are collected: kubepkg mirror gc");
    }
    Ok(())
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
