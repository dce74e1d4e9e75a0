//! `repo add`, `repo list` and `repo remove`: the repositories of the command's configuration.

use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::trust::{Anchor, Entry, KeySet};
use serde_json::json;

use crate::cli::{Force, Format, Reporting, Trust, has_unused_parts, repository_url};
use crate::config::{Config, ConfigTrust, Repository};
use crate::error::CommandError;
use crate::printer::{Printer, table};
use crate::units::count;

/// Flags of `repo add`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo add main https://packages.example.com/index.yaml \
                  --public-key release.pub",
    after_long_help = "Makes a repository known to this command under a name: verbs that take \
                       --repo use all known ones when it is not given. The keys are copied, so \
                       their files are not needed any more. Nothing is fetched. What is written: \
                       the configuration, $XDG_CONFIG_HOME/kubepkg/config.yaml (else \
                       ~/.config). A second run with the same NAME needs --force. A cluster's \
                       repositories are not touched.\n\nExample:\n  kubepkg repo add main \
                       https://packages.example.com/index.yaml --root-key ann.pub \\\n      \
                       --root-key bob.pub --root-threshold 2"
)]
pub struct Add {
    /// What it is called here: lower case letters, digits, -
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Its index, URL or file
    #[arg(value_name = "URL")]
    pub url: String,
    /// Which repository provides a package that several carry: the highest number
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub priority: i32,
    /// Whom to trust.
    #[command(flatten)]
    pub trust: Trust,
    /// Overwriting.
    #[command(flatten)]
    pub force: Force,
}

/// Flags of `repo list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubepkg repo list")]
pub struct List {
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Flags of `repo remove`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo remove main",
    after_long_help = "Takes a repository out of the configuration. What was accepted from it \
                       stays remembered, so that one added again cannot go back in time; \
                       `kubepkg trust reset` drops that.\n\nExample:\n  kubepkg repo remove main"
)]
pub struct Remove {
    /// What it is called
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// Adds a repository.
pub fn run_add(arguments: Add, printer: &Printer) -> anyhow::Result<()> {
    arguments.trust.required()?;
    if arguments.trust.max_age.is_some() {
        return Err(CommandError::usage("--max-age is for the verbs that read an index").into());
    }
    if has_unused_parts(&arguments.url) {
        printer.warn("user, password, query and fragment of the URL are not kept");
    }
    let url = repository_url(&arguments.url)?;
    let entry = entry(&arguments.trust, &url)?;
    let mut config = Config::of_user()?;
    let new = Repository {
        name: arguments.name.clone(),
        url: url.clone(),
        priority: arguments.priority,
        trust: ConfigTrust::of(&entry.anchor),
    };
    config.add(new, arguments.force.force)?;
    save(&config, printer)?;
    printer.say(&format!(
        "added {} ({url}, {}) to {}",
        arguments.name,
        told(&entry.anchor),
        config.file().display()
    ));
    Ok(())
}

fn entry(trust: &Trust, url: &CanonicalUrl) -> anyhow::Result<Entry> {
    let given = trust.given()?;
    let mut entries = given.entries(std::slice::from_ref(url))?;
    let Some(entry) = entries.pop() else {
        return Err(CommandError::usage("no key is given for this repository")
            .at(url)
            .into());
    };
    let plain = Entry {
        id: entry.id.clone(),
        must_name_url: entry.must_name_url,
        ..Entry::new(url.clone(), entry.anchor.clone())
    };
    if plain != entry {
        return Err(CommandError::usage(
            "this trust file asks for more than signatures, which the configuration does not hold",
        )
        .at(url)
        .hint("give the file itself to each call: --trust FILE")
        .into());
    }
    Ok(entry)
}

fn save(config: &Config, printer: &Printer) -> Result<(), CommandError> {
    if config.loses_comments() {
        printer.warn(&format!(
            "{} is written anew: comments in it are lost",
            config.file().display()
        ));
    }
    config.write()
}

/// Who is trusted, in a few words.
pub fn told(anchor: &Anchor) -> String {
    let keys = |keys: &KeySet, what: &str| match (keys.threshold(), keys.keys().len()) {
        (1, 1) => format!("{what} {}", short(keys, 0)),
        (threshold, n) => format!("{threshold} of {}", count(n, what, &format!("{what}s"))),
    };
    match anchor {
        Anchor::Root(set) => keys(set, "root key"),
        Anchor::Keys(set) => keys(set, "key"),
        Anchor::Unsigned => "unsigned".to_owned(),
    }
}

fn short(keys: &KeySet, at: usize) -> String {
    let id = keys.keys()[at].id().to_string();
    format!("{}…", &id[..12])
}

/// Lists the repositories.
pub fn run_list(arguments: List, printer: &Printer) -> anyhow::Result<()> {
    let config = Config::of_user()?;
    let known = config.repositories().iter().zip(config.entries()?);
    match arguments.reporting.output {
        Format::Json => {
            let one = |(known, entry): (&Repository, Entry)| {
                let ids: Vec<String> = entry
                    .anchor
                    .keys()
                    .iter()
                    .map(|key| key.id().to_string())
                    .collect();
                let threshold = match &entry.anchor {
                    Anchor::Root(set) | Anchor::Keys(set) => Some(set.threshold()),
                    Anchor::Unsigned => None,
                };
                json!({
                    "name": known.name,
                    "url": known.url,
                    "priority": known.priority,
                    "trust": {
                        "by": match entry.anchor {
                            Anchor::Root(_) => "root",
                            Anchor::Keys(_) => "keys",
                            Anchor::Unsigned => "nobody",
                        },
                        "keyids": ids,
                        "threshold": threshold,
                    },
                })
            };
            let list: Vec<_> = known.map(one).collect();
            printer.answer_json(&json!({ "repositories": list }))
        }
        Format::Table => {
            let rows: Vec<Vec<String>> = known
                .map(|(known, entry)| {
                    vec![
                        known.name.clone(),
                        known.url.to_string(),
                        known.priority.to_string(),
                        told(&entry.anchor),
                    ]
                })
                .collect();
            if rows.is_empty() {
                printer.say(&format!(
                    "no repositories in {}; add one with kubepkg repo add",
                    config.file().display()
                ));
                return Ok(());
            }
            printer.answer(&table(&["NAME", "URL", "PRIORITY", "TRUSTED"], &rows))
        }
    }
}

/// Takes a repository out.
pub fn run_remove(arguments: Remove, printer: &Printer) -> anyhow::Result<()> {
    let mut config = Config::of_user()?;
    let Some(removed) = config.remove(&arguments.name) else {
        return Err(
            CommandError::not_found("there is no repository of this name")
                .at(&arguments.name)
                .hint("`kubepkg repo list` shows them")
                .into(),
        );
    };
    save(&config, printer)?;
    printer.say(&format!("removed {} ({})", removed.name, removed.url));
    Ok(())
}
