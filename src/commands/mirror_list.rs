//! `mirror list`: the repositories in a store.

use std::path::PathBuf;

use kubepkg_mirror::manage::{Usage, usages};
use kubepkg_mirror::store::OpenMode;
use serde_json::{Value, json};

use super::mirror_reference::{Pattern, nothing_matches};
use super::some_store::SomeStore;
use crate::cli::{Format, Reporting};
use crate::interrupt;
use crate::printer::{Printer, table};
use crate::units::size;

/// Flags of `mirror list`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror list --store /srv/mirror 'docker.io/*'",
    after_long_help = "Lists repositories with their tags and what they weigh: \"own\" is what no \
                       other repository needs, \"shared\" what others need too. Given a repository \
                       it lists its tags. Everything is read from the names; no content is opened \
                       and nothing is changed.\n\nExample:\n  kubepkg mirror list --store \
                       /srv/mirror docker.io/library/busybox"
)]
pub struct Arguments {
    /// Only these repositories: a name, or a pattern with `*`
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Tags shown in the table of repositories.
const SHOWN: usize = 4;

/// Lists them.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let names = interrupt::run(printer, "run the same command again", async {
        let store = SomeStore::open(&arguments.store, OpenMode::ReadOnly).await?;
        Ok(store.names().await?)
    })?;
    let pattern = arguments.pattern.as_deref().map(Pattern::new);
    let found = usages(&names, |name| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    });
    match (&arguments.pattern, arguments.reporting.output) {
        (Some(pattern), _) if found.is_empty() => Err(nothing_matches(pattern).into()),
        (_, Format::Json) => {
            let repositories: Vec<Value> = found.iter().map(as_json).collect();
            printer.answer_json(&json!({ "repositories": repositories }))
        }
        (Some(name), Format::Table) if found.len() == 1 && !name.contains('*') => {
            tags(&found[0], printer)
        }
        (_, Format::Table) if found.is_empty() => {
            printer.say("nothing is in this store so far");
            Ok(())
        }
        (_, Format::Table) => {
            let rows: Vec<Vec<String>> = found.iter().map(row).collect();
            printer.answer(&table(&["REPOSITORY", "OWN", "SHARED", "TAGS"], &rows))
        }
    }
}

fn row(usage: &Usage<'_>) -> Vec<String> {
    let tags = &usage.repository.tags;
    let mut shown: Vec<&str> = tags.keys().take(SHOWN).map(|tag| tag.as_str()).collect();
    if tags.len() > SHOWN {
        shown.push("…");
    }
    vec![
        usage.name.to_string(),
        size(usage.own),
        size(usage.shared),
        shown.join(", "),
    ]
}

fn tags(usage: &Usage<'_>, printer: &Printer) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> = usage
        .repository
        .tags
        .iter()
        .map(|(tag, entry)| {
            let origin = match &entry.origin {
                Some(origin) => origin.to_string(),
                None => "pushed".to_owned(),
            };
            vec![tag.to_string(), entry.digest.to_string(), origin]
        })
        .collect();
    if rows.is_empty() {
        printer.say(&format!("{} has no tags, only digests", usage.name));
        return Ok(());
    }
    printer.answer(&table(&["TAG", "DIGEST", "ORIGIN"], &rows))
}

fn as_json(usage: &Usage<'_>) -> Value {
    let repository = usage.repository;
    let tags: Vec<Value> = repository
        .tags
        .iter()
        .map(|(tag, entry)| json!({"tag": tag, "digest": entry.digest, "origin": entry.origin}))
        .collect();
    json!({
        "name": usage.name,
        "upstream": repository.upstream,
        "tags": tags,
        "manifests": repository.manifests.len(),
        "blobs": repository.blobs.len(),
        "own": usage.own,
        "shared": usage.shared,
    })
}
