//! `plan`: what installing packages would change, from files alone.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kubepkg_core::error::Classify as _;
use kubepkg_core::lock::Lock;
use kubepkg_core::name::PackageName;
use kubepkg_core::plan::installed::{self, InstalledFile};
use kubepkg_core::plan::{Action, At, Change, Plan, PlanDocument};
use kubepkg_core::resolve::{Install, Pack, Request, install, pack};
use kubepkg_core::select::Catalog;

use crate::cli::{Force, Format, Jobs, Reach, Reporting, Sources, package_request};
use crate::config::Config;
use crate::error::CommandError;
use crate::output::{Pending, exists};
use crate::printer::{Printer, table};
use crate::repositories::Repositories;
use crate::units::count;

/// Larger than any list of installed packages, in bytes.
const MAX_INSTALLED: u64 = 16 * 1024 * 1024;

/// Flags of `plan`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg plan web --repo https://packages.example.com/index.yaml \
                  --public-key release.pub --installed installed.yaml",
    after_long_help = "Shows what would be installed, upgraded, downgraded, kept and removed, \
                       why, and what a person should know before agreeing. Nothing is changed \
                       anywhere. What is installed is read from a file (kind: Installed; \
                       PackageSource documents may stand beside it and win over repositories); \
                       without one the cluster is taken to be empty. What is trusted: indexes \
                       signed by the given keys, or of repositories made known with `repo add`. \
                       What is written: with --lock a file with the exact versions and digests, \
                       for `bundle create --lock`; and the memory of what was accepted \
                       (~/.local/state/kubepkg).\n\nExample:\n  kubepkg plan web --repo \
                       https://packages.example.com/index.yaml --public-key release.pub \
                       --installed installed.yaml --lock web.lock"
)]
pub struct Arguments {
    /// Packages, each with an optional variant and constraint: web, kubevirt:small@~1.21
    #[arg(
        value_name = "PACKAGE[:VARIANT][@CONSTRAINT]",
        required_unless_present = "remove"
    )]
    pub packages: Vec<String>,
    /// Package to take away (repeatable)
    #[arg(long, value_name = "PACKAGE")]
    pub remove: Vec<PackageName>,
    /// What is installed; an empty cluster when not given
    #[arg(long, value_name = "FILE")]
    pub installed: Option<PathBuf>,
    /// Write the exact versions and digests here
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Go on where requirements of installed packages would not hold any more
    #[arg(long)]
    pub allow_breaking: bool,
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
    /// Overwriting.
    #[command(flatten)]
    pub force: Force,
}

/// Plans.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let requests: Vec<Request> = arguments
        .packages
        .iter()
        .map(|text| package_request(text))
        .collect::<anyhow::Result<_>>()?;
    let installed = match &arguments.installed {
        Some(file) => read_installed(file)?,
        None => InstalledFile::default(),
    };
    let repositories = open(&arguments, printer)?;
    let published = || match &repositories {
        Some(repositories) => repositories.catalog(),
        None => Catalog::new(Vec::new()),
    };
    let catalog = published().with_hand_written(installed.sources);
    let wanted = Install {
        remove: &arguments.remove,
        allow_breaking: arguments.allow_breaking,
        ..Install::new(&requests, &installed.state)
    };
    let resolution = install(&catalog, &wanted)?;
    for unmet in &resolution.missing_optional {
        printer.warn(&format!(
            "{} ({}) is optional, and no repository has it",
            unmet.what, unmet.by
        ));
    }
    if let Some(file) = &arguments.lock {
        let digests = repositories.as_ref().map(Repositories::digests);
        let digests = digests.unwrap_or_default();
        let lock = Lock::of(&resolution, &catalog, &installed.state, &digests);
        check_lock(&lock, &published(), printer)?;
        write_lock(file, &lock, &arguments.force, printer)?;
    }
    let plan = Plan::of(&resolution, &installed.state);
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&PlanDocument::from(&plan)),
        Format::Table => printer.answer(&text(&plan, repositories.as_ref())),
    }
}

/// The repositories. Taking packages away needs none, so then they are left out where neither
/// a flag nor the configuration names one.
fn open(arguments: &Arguments, printer: &Printer) -> anyhow::Result<Option<Repositories>> {
    if arguments.packages.is_empty() && arguments.sources.repo.is_empty() {
        let config = Config::of_user_if_any()?;
        if config.is_none_or(|config| config.repositories().is_empty()) {
            return Ok(None);
        }
    }
    let client = arguments.reach.client(None, &arguments.jobs)?;
    Ok(Some(Repositories::open(
        &client,
        &arguments.sources,
        printer,
    )?))
}

/// Says what a bundle of `lock` will not hold, and refuses a lock that none can be made of.
fn check_lock(lock: &Lock, published: &Catalog, printer: &Printer) -> anyhow::Result<()> {
    for (package, outside) in &lock.outside {
        printer.warn(&format!(
            "the lock does not hold {package}, so a bundle of it will not carry it: {}",
            outside.why
        ));
    }
    if lock.packages.is_empty() {
        return Err(CommandError::failed(
            "there is nothing to lock: this plan takes no package from a repository",
        )
        .hint("leave out --lock")
        .into());
    }
    let requests = lock.packages.keys().map(|name| package_request(name));
    let requests = requests.collect::<anyhow::Result<Vec<Request>>>()?;
    let all = Pack {
        lock: Some(lock),
        ..Pack::new(&requests)
    };
    if let Err(error) = pack(published, &all) {
        let message = format!("this plan cannot be locked: {error}");
        return Err(CommandError::refused(message)
            .hint("plan without --lock, or without what does not hold together")
            .into());
    }
    Ok(())
}

fn read_installed(file: &Path) -> Result<InstalledFile, CommandError> {
    let failed = |error| {
        CommandError::io("cannot read the list of installed packages", error).at(file.display())
    };
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(MAX_INSTALLED + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_INSTALLED {
        let message = "this file is too large to be a list of installed packages";
        return Err(CommandError::usage(message).at(file.display()));
    }
    installed::read(&text).map_err(|error| {
        let told = CommandError::usage(error.to_string()).at(file.display());
        match error.hint() {
            Some(hint) => told.hint(hint),
            None => told,
        }
    })
}

/// The same lock again is fine, another one needs `--force`.
fn write_lock(
    file: &Path,
    lock: &Lock,
    force: &Force,
    printer: &Printer,
) -> Result<(), CommandError> {
    let text = lock.write();
    if !force.force && exists(file)? {
        if std::fs::read(file).ok().as_deref() == Some(text.as_bytes()) {
            printer.say(&format!("{} holds this lock already", file.display()));
            return Ok(());
        }
        return Err(
            CommandError::failed("the lock exists already and says something else")
                .at(file.display())
                .hint("give another file with --lock, or --force to replace it"),
        );
    }
    Pending::write(file, text.as_bytes(), 0o644)?.replace()?;
    printer.say(&format!(
        "wrote {}: {}",
        file.display(),
        count(lock.packages.len(), "package", "packages")
    ));
    Ok(())
}

fn text(plan: &Plan, repositories: Option<&Repositories>) -> String {
    let rows: Vec<Vec<String>> = plan
        .changes
        .iter()
        .map(|change| row(change, repositories))
        .collect();
    let mut parts = vec![table(
        &["ACTION", "PACKAGE", "FROM", "TO", "REPOSITORY", "WHY"],
        &rows,
    )];
    if rows.is_empty() {
        parts.clear();
    }
    let notes: Vec<String> = plan
        .changes
        .iter()
        .filter(|change| !change.notes.is_empty())
        .map(|change| {
            let lines: Vec<String> = change
                .notes
                .iter()
                .map(|note| format!("  {note}"))
                .collect();
            format!("{}:\n{}", change.package, lines.join("\n"))
        })
        .collect();
    if !notes.is_empty() {
        parts.push(notes.join("\n"));
    }
    if !plan.breaks.is_empty() {
        let lines: Vec<String> = plan
            .breaks
            .iter()
            .map(|broken| {
                let needs = &broken.requires;
                format!("  {} {} requires {needs}", broken.package, broken.version)
            })
            .collect();
        parts.push(format!(
            "these will not hold any more:\n{}",
            lines.join("\n")
        ));
    }
    parts.push(totals(plan));
    parts.join("\n\n")
}

fn totals(plan: &Plan) -> String {
    if plan.is_nothing() {
        return "nothing would change".to_owned();
    }
    let words = |action| match action {
        Action::Install => "to install",
        Action::Upgrade => "to upgrade",
        Action::Downgrade => "to downgrade",
        Action::Keep => "kept",
        Action::Remove => "to remove",
    };
    let counts: BTreeMap<Action, usize> = plan.counts();
    let parts: Vec<String> = counts
        .into_iter()
        .map(|(action, n)| format!("{n} {}", words(action)))
        .collect();
    parts.join(", ")
}

fn row(change: &Change, repositories: Option<&Repositories>) -> Vec<String> {
    let place = |at: &Option<At>| match at {
        Some(at) if at.build == 0 => at.version.clone(),
        Some(at) => format!("{} build {}", at.version, at.build),
        None => "-".to_owned(),
    };
    let why: Vec<String> = change.why.iter().map(ToString::to_string).collect();
    vec![
        change.action.to_string(),
        change.package.clone(),
        place(&change.from),
        place(&change.to),
        match change.repository.as_str() {
            "" => "-".to_owned(),
            name => repositories.map_or_else(|| name.to_owned(), |known| known.called(name)),
        },
        why.join("; "),
    ]
}
