//! `repo show` and `repo verify`: what an index offers, who signed it, until when.

use kubepkg_bundler::repositories::places;
use kubepkg_core::index::signature::{MAX_SIGNATURE_FILE, Signatures};
use kubepkg_core::index::{Index, LeftOut, MAX_INDEX, Withdrawn};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::time::Time;
use kubepkg_remote::Client;
use serde_json::{Value, json};

use super::search::{label, withdrawn};
use crate::cli::{Format, Jobs, Reach, Reporting, Sources, Trust, repository_url};
use crate::config::Config;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::{Printer, table};
use crate::repositories::{Opened, Repositories, why};
use crate::state::State;
use crate::units::{count, local_time};

/// Flags of `repo show`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo show https://packages.example.com/index.yaml \
                  --public-key release.pub",
    after_long_help = "Shows the packages of an index, who signed it and until when it can be \
                       accepted, which versions are withdrawn, which are left out and why. With \
                       a key, a trust file, or for a repository of `repo add`, it is judged \
                       first, and what was accepted is remembered (~/.local/state/kubepkg); \
                       else what it says is shown as it is, vouched for by nobody.\n\nExample:\n  \
                       kubepkg repo show index.yaml\n  kubepkg repo show \
                       https://packages.example.com/index.yaml --root-key root.pub -o json"
)]
pub struct Show {
    #[command(flatten)]
    of: Of,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Flags of `repo verify`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo verify index.yaml --public-key release.pub",
    after_long_help = "Checks that an index would be accepted now: its root of trust where there \
                       is one, signatures, expiry, every digest, and that it is not older than \
                       what was accepted before. Exit code 0 when it would, 3 when it would not. \
                       What is written: the memory of what was accepted \
                       (~/.local/state/kubepkg).\n\nExample:\n  kubepkg repo verify index.yaml \
                       --public-key release.pub"
)]
pub struct Verify {
    #[command(flatten)]
    of: Of,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// One repository, and who is trusted for it.
#[derive(Debug, clap::Args)]
struct Of {
    /// Its index: URL, file, or name of a repository of `repo add`
    #[arg(value_name = "URL|FILE|NAME")]
    repository: String,
    /// Whom to trust.
    #[command(flatten)]
    trust: Trust,
    /// Let these flags take the place of who was trusted for the repository before
    #[arg(help_heading = "Trust", long)]
    change_trust: bool,
    /// How to reach others.
    #[command(flatten)]
    reach: Reach,
    /// How hard to work.
    #[command(flatten)]
    jobs: Jobs,
}

impl Of {
    fn sources(&self) -> Sources {
        Sources {
            repo: vec![self.repository.clone()],
            trust: self.trust.clone(),
            change_trust: self.change_trust,
        }
    }

    fn open(&self, client: &Client, printer: &Printer) -> anyhow::Result<Opened> {
        let repositories = Repositories::open_to_show(client, &self.sources(), printer)?;
        match repositories.opened() {
            [opened] => Ok(opened.clone()),
            _ => Err(CommandError::not_found("there is no such repository")
                .at(&self.repository)
                .into()),
        }
    }

    /// Whether anything says whom to trust.
    fn can_be_judged(&self, client: &Client, printer: &Printer) -> anyhow::Result<bool> {
        if !self.trust.names_nobody() {
            return Ok(true);
        }
        let config = Config::of_user_if_any()?;
        let known = config.as_ref().map_or(&[][..], Config::repositories);
        if known.iter().any(|known| known.name == self.repository) {
            return Ok(true);
        }
        // a file is trusted as what it says it is
        let url = repository_url(&self.repository)?;
        let again = "nothing was changed; run the same command again";
        let places = interrupt::run(printer, again, async {
            Ok(places(client, std::slice::from_ref(&url)).await?)
        })?;
        let remembered = State::of_user(printer).read()?;
        Ok(places.iter().any(|place| {
            let called = |url: &CanonicalUrl| *url == place.url || *url == place.from;
            remembered.entry(&place.url).is_some() || known.iter().any(|known| called(&known.url))
        }))
    }
}

/// What is shown of an index.
struct Shown {
    url: CanonicalUrl,
    index: std::sync::Arc<Index>,
    /// What was found out, where it was judged.
    judged: Option<Opened>,
    /// The key ids its signature file names, where it was not judged; `None` for a signature
    /// that names none.
    claimed: Vec<Option<String>>,
}

/// Shows an index.
pub fn run_show(arguments: Show, printer: &Printer) -> anyhow::Result<()> {
    let of = &arguments.of;
    let client = of.reach.client(None, &of.jobs)?;
    let shown = if of.can_be_judged(&client, printer)? {
        let opened = of.open(&client, printer)?;
        Shown {
            url: opened.url.clone(),
            index: opened.index.clone(),
            judged: Some(opened),
            claimed: Vec::new(),
        }
    } else {
        let url = repository_url(&of.repository)?;
        let again = "nothing was changed; run the same command again";
        let shown = interrupt::run(printer, again, read(&client, &url))?;
        printer.warn("no key was given, so nobody vouches for what is shown here");
        shown
    };
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&shown.json()),
        Format::Table => printer.answer(&shown.text()),
    }
}

/// Verifies an index.
pub fn run_verify(arguments: Verify, printer: &Printer) -> anyhow::Result<()> {
    let of = &arguments.of;
    let client = of.reach.client(None, &of.jobs)?;
    let opened = of.open(&client, printer)?;
    match arguments.reporting.output {
        Format::Json => {
            let shown = Shown {
                url: opened.url.clone(),
                index: opened.index.clone(),
                judged: Some(opened),
                claimed: Vec::new(),
            };
            let mut value = shown.head_json();
            value["packages"] = shown.index.packages.len().into();
            value["versions"] = shown.versions().into();
            value["leftOut"] = shown.index.left_out.len().into();
            printer.answer_json(&value)
        }
        Format::Table => {
            let signed = match opened.signed_by.len() {
                0 => "it is not signed, as you allowed".to_owned(),
                n => format!("signed by {}", count(n, "trusted key", "trusted keys")),
            };
            printer.answer(&format!(
                "{} is accepted: {signed}{}",
                opened.url,
                until(opened.acceptable_until)
            ))
        }
    }
}

fn until(time: Option<Time>) -> String {
    match time {
        Some(time) => format!("; acceptable until {}", local_time(time)),
        None => "; it does not expire".to_owned(),
    }
}

/// Reads an index that nobody judges.
async fn read(client: &Client, url: &CanonicalUrl) -> anyhow::Result<Shown> {
    let bytes = client.fetch(url, MAX_INDEX).await?.bytes;
    let index = Index::read(&bytes).map_err(|error| CommandError::of(&error).under(url))?;
    let signature: Result<CanonicalUrl, _> =
        url.sibling(&format!("{}.sig", url.file_name())).parse();
    let fetched = match signature {
        Ok(signature) => client.fetch(&signature, MAX_SIGNATURE_FILE).await.ok(),
        Err(_) => None,
    };
    let signatures = fetched.and_then(|fetched| Signatures::parse(&fetched.bytes).ok());
    let claimed = signatures.map(|signatures| {
        let id = |entry: &kubepkg_core::index::signature::Entry| match entry.key_id.as_str() {
            "" => None,
            id => Some(id.to_owned()),
        };
        signatures.entries().iter().map(id).collect()
    });
    Ok(Shown {
        url: url.clone(),
        index: std::sync::Arc::new(index),
        judged: None,
        claimed: claimed.unwrap_or_default(),
    })
}

impl Shown {
    fn versions(&self) -> usize {
        self.index.packages.values().map(|p| p.versions.len()).sum()
    }

    fn text(&self) -> String {
        let mut parts = vec![self.head()];
        let rows: Vec<Vec<String>> = self
            .index
            .packages
            .iter()
            .map(|(name, package)| {
                let offered: Vec<String> = package
                    .versions
                    .iter()
                    .map(|version| match withdrawn(version) {
                        Some(_) => format!("{} (withdrawn)", label(version)),
                        None => label(version),
                    })
                    .collect();
                vec![
                    name.clone(),
                    offered.join(", "),
                    match package.description.as_str() {
                        "" => "-".to_owned(),
                        text => text.to_owned(),
                    },
                ]
            })
            .collect();
        parts.push(table(&["PACKAGE", "VERSIONS", "DESCRIPTION"], &rows));
        parts.extend(self.withdrawals());
        parts.extend(self.left_out());
        parts.join("\n\n")
    }

    fn claimed_ids(&self) -> String {
        let told = self.claimed.iter().map(Option::as_deref);
        let told: Vec<&str> = told.map(|id| id.unwrap_or("(no key id)")).collect();
        told.join(", ")
    }

    fn head(&self) -> String {
        let mut lines = vec![self.url.to_string()];
        if let Some(generated) = self.index.generated {
            lines.push(format!("made {}", local_time(generated)));
        }
        lines.push(match self.index.expires {
            Some(expires) => format!("expires {}", local_time(expires)),
            None => "does not expire".to_owned(),
        });
        match &self.judged {
            Some(judged) => {
                let ids: Vec<String> = judged.signed_by.iter().map(ToString::to_string).collect();
                lines.push(match ids.is_empty() {
                    true => "accepted unsigned".to_owned(),
                    false => format!("accepted, signed by {}", ids.join(", ")),
                });
                if let Some(version) = judged.root {
                    lines.push(format!("judged by root version {version}"));
                }
                if let Some(time) = judged.acceptable_until {
                    lines.push(format!("acceptable until {}", local_time(time)));
                }
            }
            None if self.claimed.is_empty() => lines.push("not signed".to_owned()),
            None => lines.push(format!(
                "its signature file names {} (not verified)",
                self.claimed_ids()
            )),
        }
        lines.push(format!(
            "{}, {}",
            count(self.index.packages.len(), "package", "packages"),
            count(self.versions(), "version", "versions")
        ));
        lines.join("\n")
    }

    fn withdrawals(&self) -> Option<String> {
        let mut rows = Vec::new();
        for (name, package) in &self.index.packages {
            for version in &package.versions {
                if let Some(said) = withdrawn(version) {
                    rows.push(vec![
                        format!("{name} {}", label(version)),
                        local_time(said.since),
                        said.reason.clone(),
                        said.replacement.clone().unwrap_or_else(|| "-".to_owned()),
                    ]);
                }
            }
        }
        let heading = ["WITHDRAWN", "SINCE", "REASON", "USE INSTEAD"];
        (!rows.is_empty()).then(|| table(&heading, &rows))
    }

    fn left_out(&self) -> Option<String> {
        let row = |left: &LeftOut| vec![left.to_string(), why(left)];
        let rows: Vec<Vec<String>> = self.index.left_out.iter().map(row).collect();
        (!rows.is_empty()).then(|| table(&["LEFT OUT", "WHY"], &rows))
    }

    fn head_json(&self) -> Value {
        let mut value = json!({
            "url": self.url,
            "generated": self.index.generated,
            "expires": self.index.expires,
            "repository": self.index.repository,
            "judged": self.judged.is_some(),
        });
        match &self.judged {
            Some(judged) => {
                let ids: Vec<String> = judged.signed_by.iter().map(ToString::to_string).collect();
                value["digest"] = judged.digest.to_string().into();
                value["signedBy"] = ids.into();
                value["root"] = judged.root.into();
                value["acceptableUntil"] = json!(judged.acceptable_until);
            }
            None => value["claimedKeyids"] = self.claimed.clone().into(),
        }
        value
    }

    fn json(&self) -> Value {
        let mut value = self.head_json();
        let packages = self.index.packages.iter().map(|(name, package)| {
            let versions = package.versions.iter().map(|version| {
                let withdrawn: Option<&Withdrawn> = withdrawn(version);
                json!({
                    "version": version.version,
                    "build": version.build,
                    "digest": version.digest,
                    "withdrawn": withdrawn,
                    "approvals": version.approvals.len(),
                    "signatures": version.signatures.len(),
                })
            });
            json!({
                "name": name,
                "description": package.description,
                "home": package.home,
                "versions": versions.collect::<Vec<_>>(),
            })
        });
        value["packages"] = packages.collect::<Vec<_>>().into();
        let left_out = self.index.left_out.iter().map(|left| {
            json!({
                "package": left.package,
                "version": left.version,
                "build": left.build,
                "why": why(left),
            })
        });
        value["leftOut"] = left_out.collect::<Vec<_>>().into();
        value
    }
}
