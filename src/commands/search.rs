//! `search`: packages by name and description.

use std::collections::BTreeSet;

use kubepkg_core::index::{IndexVersion, Withdrawn};
use kubepkg_core::select::{Catalog, Selection};
use serde_json::{Value, json};

use crate::cli::{Format, Jobs, Reach, Reporting, Sources};
use crate::printer::{Printer, table};
use crate::repositories::{Opened, Repositories};

/// Flags of `search`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg search cert --repo https://packages.example.com/index.yaml \
                  --public-key release.pub",
    after_long_help = "Shows packages whose name or description holds TERM, each in the version \
                       that would be taken; all packages without a TERM. Of several repositories \
                       the one with the highest priority that carries a package counts. What is \
                       trusted: indexes signed by the given keys, or of repositories made known \
                       with `repo add`. What is written: the memory of what was accepted \
                       (~/.local/state/kubepkg), so that an older index is refused next \
                       time.\n\nExample:\n  kubepkg search cert --repo \
                       https://packages.example.com/index.yaml --public-key release.pub"
)]
pub struct Arguments {
    /// Part of a name or description, in any case
    #[arg(value_name = "TERM")]
    pub term: Option<String>,
    /// Where packages come from.
    #[command(flatten)]
    pub sources: Sources,
    /// How to reach others.
    #[command(flatten)]
    pub reach: Reach,
    /// How hard to work.
    #[command(flatten)]
    pub jobs: Jobs,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// A package that fits.
struct Found<'a> {
    name: &'a str,
    version: Option<&'a IndexVersion>,
    withdrawn: Option<&'a Withdrawn>,
    versions: usize,
    description: &'a str,
    home: &'a str,
    repository: &'a Opened,
}

/// Searches.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let client = arguments.reach.client(None, &arguments.jobs)?;
    let repositories = Repositories::open(&client, &arguments.sources, printer)?;
    let catalog = repositories.catalog();
    let term = arguments.term.unwrap_or_default().to_lowercase();
    let found = find(&repositories, &catalog, &term);
    if found.is_empty() {
        printer.say("no package fits");
    }
    match arguments.reporting.output {
        Format::Json => {
            let list: Vec<Value> = found.iter().map(Found::json).collect();
            printer.answer_json(&json!({ "packages": list }))
        }
        Format::Table if found.is_empty() => Ok(()),
        Format::Table => {
            let rows: Vec<Vec<String>> = found.iter().map(Found::row).collect();
            printer.answer(&table(
                &["NAME", "VERSION", "DESCRIPTION", "REPOSITORY"],
                &rows,
            ))
        }
    }
}

fn find<'a>(repositories: &'a Repositories, catalog: &'a Catalog, term: &str) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for repository in repositories.opened() {
        for (name, package) in &repository.index.packages {
            let supplies = catalog
                .supplier(name)
                .is_some_and(|source| source.name == repository.url.as_str());
            let fits = name.to_lowercase().contains(term)
                || package.description.to_lowercase().contains(term);
            if !supplies || !fits || !seen.insert(name) {
                continue;
            }
            // where nothing is offered any more, the newest one is shown, with its mark
            let taken: Option<Selection<'a>> = catalog.select(name, None).ok();
            let version = taken.map(|taken| taken.listed).or(package.versions.first());
            found.push(Found {
                name,
                version,
                withdrawn: version.and_then(withdrawn),
                versions: package.versions.len(),
                description: &package.description,
                home: &package.home,
                repository,
            });
        }
    }
    found.sort_by_key(|one| one.name);
    found
}

/// The statement that withdraws a version, while it holds.
pub fn withdrawn(version: &IndexVersion) -> Option<&Withdrawn> {
    version.withdrawn.as_ref().filter(|said| said.holds())
}

/// A version with its build.
pub fn label(version: &IndexVersion) -> String {
    match version.build {
        0 => version.version.clone(),
        build => format!("{} build {build}", version.version),
    }
}

impl Found<'_> {
    fn row(&self) -> Vec<String> {
        let mut version = self.version.map(label).unwrap_or_else(|| "-".to_owned());
        if self.withdrawn.is_some() {
            version.push_str(" (withdrawn)");
        }
        let description = match self.description {
            "" => "-",
            text => text,
        };
        vec![
            self.name.to_owned(),
            version,
            description.to_owned(),
            self.repository.called(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "version": self.version.map(|version| &version.version),
            "build": self.version.map(|version| version.build),
            "digest": self.version.map(|version| version.digest),
            "withdrawn": self.withdrawn,
            "versions": self.versions,
            "description": self.description,
            "home": self.home,
            "repository": self.repository.url,
        })
    }
}
