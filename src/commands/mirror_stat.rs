//! `mirror stat`: what one reference is made of, or what a store holds as a whole.

use std::path::PathBuf;

use kubepkg_core::descriptor::Descriptor;
use kubepkg_mirror::manage::{ReferenceStat, StoreStat, stat, stat_store};
use kubepkg_mirror::store::OpenMode;
use kubepkg_mirror::wanted::Reference;
use serde_json::{Value, json};

use super::mirror_reference;
use super::some_store::SomeStore;
use crate::cli::{Format, Reporting};
use crate::interrupt;
use crate::printer::Printer;
use crate::units::{local_time, size};

/// Flags of `mirror stat`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror stat --store /srv/mirror docker.io/library/busybox:1.36",
    after_long_help = "Shows what a tag or digest is made of: platforms, layers, what is about it, \
                       the package and the import that brought it, and what it weighs: \"own\" is \
                       what would be freed without it, \"shared\" what other tags or repositories \
                       need too. Without a reference it shows the whole store. Nothing is \
                       changed.\n\nExample:\n  kubepkg mirror stat --store /srv/mirror"
)]
pub struct Arguments {
    /// A tag or digest: `<host>/<path>:<tag>` or `<host>/<path>@<digest>`; the whole store when
    /// not given
    #[arg(value_name = "REFERENCE", value_parser = mirror_reference::parse)]
    pub reference: Option<Reference>,
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Shows it.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let json = arguments.reporting.output == Format::Json;
    let again = "run the same command again";
    let open = || SomeStore::open(&arguments.store, OpenMode::ReadOnly);
    match &arguments.reference {
        Some(reference) => {
            let told = interrupt::run(printer, again, async {
                let (name, target) = (&reference.repository, &reference.target);
                Ok(match open().await? {
                    SomeStore::Folder(store) => stat(&store, name, target).await?,
                    SomeStore::Bucket(store) => stat(&store, name, target).await?,
                })
            })?;
            match json {
                true => printer.answer_json(&reference_json(reference, &told)),
                false => printer.answer(&reference_text(&told)),
            }
        }
        None => {
            let told = interrupt::run(printer, again, async {
                Ok(match open().await? {
                    SomeStore::Folder(store) => stat_store(&store).await?,
                    SomeStore::Bucket(store) => stat_store(&store).await?,
                })
            })?;
            match json {
                true => printer.answer_json(&store_json(&told)),
                false => printer.answer(&store_text(&told)),
            }
        }
    }
}

fn platform(descriptor: &Descriptor) -> Option<String> {
    let platform = descriptor.platform.as_ref()?;
    let mut text = format!("{}/{}", platform.os, platform.architecture);
    if let Some(variant) = &platform.variant {
        text.push('/');
        text.push_str(variant);
    }
    Some(text)
}

fn reference_text(told: &ReferenceStat) -> String {
    let mut lines = vec![
        format!("digest    {}", told.digest),
        format!("type      {}", told.entry.media_type),
    ];
    if !told.tags.is_empty() {
        let tags: Vec<&str> = told.tags.iter().map(|tag| tag.as_str()).collect();
        lines.push(format!("tags      {}", tags.join(", ")));
    }
    lines.push(format!("own       {}", size(told.own)));
    lines.push(format!("shared    {}", size(told.shared)));
    if let Some(origin) = &told.origin {
        lines.push(format!("package   {origin}"));
    }
    if let Some(brought) = &told.brought {
        let by = match &brought.bundle {
            Some(bundle) => format!("import of {bundle}"),
            None => "push".to_owned(),
        };
        let at = local_time(brought.at);
        lines.push(format!(
            "brought   commit {} ({by}) at {at}",
            brought.commit
        ));
    }
    if told.quarantined {
        lines.push("damaged   it was set aside; bring it again".to_owned());
    }
    let here = |here: bool| if here { "" } else { "  (not here)" };
    for (child, is_here) in &told.children {
        let platform = platform(child).unwrap_or_else(|| "no platform".to_owned());
        lines.push(format!(
            "platform  {platform}  {}{}",
            child.digest,
            here(*is_here)
        ));
    }
    for (at, (blob, is_here)) in told.blobs.iter().enumerate() {
        let kind = if at == 0 { "config  " } else { "layer   " };
        let size = size(blob.size);
        lines.push(format!("{kind}  {}  {size}{}", blob.digest, here(*is_here)));
    }
    for (digest, entry) in &told.referrers {
        let kind = entry.artifact_type.as_deref().unwrap_or(&entry.media_type);
        lines.push(format!("referrer  {digest}  {kind}"));
    }
    lines.join("\n")
}

fn reference_json(reference: &Reference, told: &ReferenceStat) -> Value {
    let part = |(descriptor, here): &(Descriptor, bool)| {
        json!({
            "digest": descriptor.digest,
            "size": descriptor.size,
            "mediaType": descriptor.media_type,
            "platform": platform(descriptor),
            "here": here,
        })
    };
    let referrers: Vec<Value> = told
        .referrers
        .iter()
        .map(|(digest, entry)| {
            json!({"digest": digest, "size": entry.size, "artifactType": entry.artifact_type})
        })
        .collect();
    json!({
        "reference": reference,
        "digest": told.digest,
        "mediaType": told.entry.media_type,
        "size": told.entry.size,
        "tags": told.tags,
        "origin": told.origin,
        "platforms": told.children.iter().map(part).collect::<Vec<_>>(),
        "layers": told.blobs.iter().map(part).collect::<Vec<_>>(),
        "referrers": referrers,
        "brought": told.brought.as_ref().map(|brought| json!({
            "commit": brought.commit,
            "at": brought.at,
            "bundle": brought.bundle,
        })),
        "own": told.own,
        "shared": told.shared,
        "quarantined": told.quarantined,
    })
}

fn store_text(told: &StoreStat) -> String {
    let mut lines = vec![
        format!("commit        {}", told.sequence),
        format!("repositories  {}", told.repositories),
        format!("tags          {}", told.tags),
        format!("manifests     {}", told.manifests),
        format!("blobs         {}", told.blobs),
        format!(
            "size          {} ({} without sharing)",
            size(told.bytes),
            size(told.bytes_unshared)
        ),
    ];
    if let Some(room) = told.room {
        lines.push(format!("free          {}", size(room)));
    }
    for site in &told.sites {
        lines.push(format!("index         {site}"));
    }
    if told.quarantined > 0 {
        lines.push(format!("damaged       {} set aside", told.quarantined));
    }
    if let Some(time) = told.scrubbed {
        lines.push(format!("scrubbed      {}", local_time(time)));
    }
    lines.join("\n")
}

fn store_json(told: &StoreStat) -> Value {
    json!({
        "sequence": told.sequence,
        "repositories": told.repositories,
        "tags": told.tags,
        "manifests": told.manifests,
        "blobs": told.blobs,
        "bytes": told.bytes,
        "bytesUnshared": told.bytes_unshared,
        "sites": told.sites,
        "room": told.room,
        "quarantined": told.quarantined,
        "scrubbed": told.scrubbed,
    })
}
