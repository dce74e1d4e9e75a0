//! `mirror prune`: take away what only old imports brought.

use std::path::PathBuf;

use kubepkg_mirror::manage::{Fate, Pruning, Stays, Weight, prune, prune_in_bucket, prune_plan};
use kubepkg_mirror::store::OpenMode;
use serde_json::{Value, json};

use super::some_store::SomeStore;
use super::store_folder;
use crate::cli::{Format, Reporting};
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::units::{count, local_time, size};

/// Flags of `mirror prune`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror prune --store /srv/mirror --keep-imports 3 --dry-run",
    after_long_help = "Imports only add. This takes away what the last N of them do not name: \
                       packages that none of their receipts lists, with their tags, images, \
                       charts and signatures. A package that an older import brought and one of \
                       the last N carried again stays. An import that changed nothing left no \
                       receipt and does not count. Tags that were pushed, or set with `kubepkg \
                       mirror tag`, always stay, with all they lead to: such a tag is how \
                       something is pinned for good. Images that were pushed by digest and have \
                       no tag go. Signatures and other attachments stay or go with what they are \
                       about.\n\nIndexes, roots and trust are not touched; carried.json, the list \
                       of what is here, is brought in line in the same commit. Clients are told at \
                       once that the rest is not here. The bytes stay until they are collected \
                       (kubepkg mirror gc), in no less than its grace; until then importing an \
                       old bundle again finds them. Works on a full disk, and beside a running \
                       server. With --dry-run it shows for everything why it stays, or what it \
                       weighs: \"own\" is what is freed with it alone, \"shared\" what others need \
                       too. A second run finds nothing to do.\n\nExample:\n  kubepkg mirror prune \
                       --store /srv/mirror --keep-imports 3 --yes"
)]
pub struct Arguments {
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Keep what the last N imports named
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_imports: u32,
    /// Only show what would stay and go
    #[arg(long)]
    pub dry_run: bool,
    /// Do it: without this and without --dry-run nothing is done
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Prunes.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    if !arguments.dry_run && !arguments.yes {
        return Err(CommandError::usage("prune takes names away for good")
            .hint("look at what would go with --dry-run, then say --yes")
            .into());
    }
    let imports = usize::try_from(arguments.keep_imports)?;
    let again = "run the same command again: it finishes, or finds nothing";
    let (commit, pruning) = interrupt::run(printer, again, async {
        let mode = match arguments.dry_run {
            true => OpenMode::ReadOnly,
            false => OpenMode::OpenOrCreate,
        };
        Ok(match SomeStore::open(&arguments.store, mode).await? {
            SomeStore::Folder(store) if arguments.dry_run => {
                (None, prune_plan(&store, imports).await?)
            }
            SomeStore::Folder(store) => prune(&store, imports).await?,
            SomeStore::Bucket(store) if arguments.dry_run => {
                (None, prune_plan(&store, imports).await?)
            }
            SomeStore::Bucket(store) => {
                let pruned = prune_in_bucket(&store, imports).await;
                store.settle().await;
                pruned?
            }
        })
    })?;
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&as_json(&pruning, commit))?,
        Format::Table => printer.answer(&told(&pruning, arguments.dry_run))?,
    }
    match commit {
        _ if arguments.dry_run => printer.say("nothing was changed (--dry-run)"),
        None => printer.say("nothing to do"),
        Some(number) => {
            printer.say(&format!("pruned as commit {number}"));
            printer.say(&store_folder::typeable(
                "the bytes are freed when they are collected: kubepkg mirror gc",
                &arguments.store,
            ));
        }
    }
    Ok(())
}

/// Why something stays, in words.
fn why(stays: &Stays) -> String {
    match stays {
        Stays::Pushed => "was pushed or set here".to_owned(),
        Stays::Named { import } => format!("import {import} names it"),
        Stays::Package { release, import } => format!("{release}, named by import {import}"),
        Stays::Brought { import } => format!("import {import} brought it"),
        Stays::About(subject) => format!("is about {subject}, which stays"),
        Stays::Unreadable(manifest) => {
            format!("{manifest} in its repository cannot be read: kubepkg mirror check")
        }
    }
}

fn fate(fate: &Fate) -> (&'static str, String) {
    match fate {
        Fate::Stays(stays) => ("stays", why(stays)),
        Fate::Goes(Weight { own, shared }) => (
            "goes",
            format!("own {}, shared {}", size(*own), size(*shared)),
        ),
    }
}

/// What goes; with `all` what stays, too.
fn told(pruning: &Pruning, all: bool) -> String {
    let shown = |fate: &Fate| all || matches!(fate, Fate::Goes(_));
    let mut lines = Vec::new();
    for import in pruning.imports.iter().filter(|_| all) {
        lines.push(format!(
            "import   {}  kept  {}  {}",
            import.number,
            local_time(import.at),
            import.bundle
        ));
    }
    for package in pruning.packages.iter().filter(|p| shown(&p.fate)) {
        let (becomes, why) = fate(&package.fate);
        lines.push(format!("package  {}  {becomes}  {why}", package.release));
    }
    for name in pruning.names.iter().filter(|n| shown(&n.fate)) {
        let (becomes, why) = fate(&name.fate);
        let reference = match &name.tag {
            Some(tag) => format!("{}:{tag}", name.repository),
            None => format!("{}@{}", name.repository, name.digest),
        };
        lines.push(format!("image    {reference}  {becomes}  {why}"));
    }
    let totals = &pruning.totals;
    let counted = |n: u64, one, many| count(usize::try_from(n).unwrap_or(usize::MAX), one, many);
    lines.push(format!(
        "{}, {}, {} and {} go; {} in {} become garbage",
        counted(totals.packages, "package", "packages"),
        counted(totals.tags, "tag", "tags"),
        counted(totals.manifests, "manifest", "manifests"),
        counted(totals.blobs, "blob", "blobs"),
        size(totals.bytes),
        counted(totals.contents, "file", "files"),
    ));
    lines.join("\n")
}

fn fate_json(fate: &Fate, mut value: Value) -> Value {
    let (stays, reason, weight) = match fate {
        Fate::Stays(stays) => (true, Some(reason(stays)), None),
        Fate::Goes(weight) => (false, None, Some(weight)),
    };
    value["stays"] = json!(stays);
    value["reason"] = json!(reason);
    value["own"] = json!(weight.map(|weight| weight.own));
    value["shared"] = json!(weight.map(|weight| weight.shared));
    value
}

fn reason(stays: &Stays) -> Value {
    let of = |kind, import: Option<u64>, package: Option<&str>, digest: Option<String>| json!({"kind": kind, "import": import, "package": package, "digest": digest});
    match stays {
        Stays::Pushed => of("pushed", None, None, None),
        Stays::Named { import } => of("named", Some(*import), None, None),
        Stays::Package { release, import } => of("package", Some(*import), Some(release), None),
        Stays::Brought { import } => of("brought", Some(*import), None, None),
        Stays::About(subject) => of("about", None, None, Some(subject.to_string())),
        Stays::Unreadable(digest) => of("unreadable", None, None, Some(digest.to_string())),
    }
}

fn as_json(pruning: &Pruning, commit: Option<u64>) -> Value {
    let imports = pruning
        .imports
        .iter()
        .map(|import| json!({"commit": import.number, "at": import.at, "bundle": import.bundle}));
    let packages = pruning.packages.iter().map(|package| {
        let release = &package.release;
        let named = json!({
            "repository": package.site,
            "name": release.name,
            "version": release.version,
            "build": release.build,
            "digest": release.digest,
        });
        fate_json(&package.fate, named)
    });
    let names = pruning.names.iter().map(|name| {
        let named = json!({
            "name": name.repository,
            "tag": name.tag,
            "digest": name.digest,
        });
        fate_json(&name.fate, named)
    });
    let totals = &pruning.totals;
    json!({
        "commit": commit,
        "imports": imports.collect::<Vec<_>>(),
        "packages": packages.collect::<Vec<_>>(),
        "images": names.collect::<Vec<_>>(),
        "totals": {
            "packages": totals.packages,
            "tags": totals.tags,
            "manifests": totals.manifests,
            "blobs": totals.blobs,
            "files": totals.contents,
            "bytes": totals.bytes,
        },
    })
}
