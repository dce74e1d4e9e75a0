//! `trust root new` and `trust root next`: versions of a root of trust, not yet signed.

mod roles;

use std::path::{Path, PathBuf};
use std::time::Duration;

use kubepkg_core::time::Time;
use kubepkg_core::trust::{CURRENT, Root, RootChange, RootDraft, RootError};

use crate::cli::Force;
use crate::error::CommandError;
use crate::output::{self, exists};
use crate::printer::Printer;
use crate::root_files;
use crate::units::{local_time, parse_duration};

use roles::Roles;

/// How long a root is good when nothing is said: a year, as the existing program has it.
const DEFAULT_EXPIRES: &str = "365d";

/// Flags of `trust root new`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg trust root new --root-key ann.pub --root-key bob.pub \
                  --root-threshold 2 --index-key release.pub",
    after_long_help = "The root says which keys sign the index, which keys sign the next root, \
                       and how many of them must. Clients pin the root keys once and follow \
                       every change that enough of them signed. Only public keys are needed \
                       here; each signer then runs `kubepkg trust sign` where the private key \
                       is. What is written: root.yaml and root/1.yaml, the same bytes, unsigned. \
                       A second run needs --force.\n\nExample:\n  kubepkg trust root new --root-key \
                       ann.pub --root-key bob.pub --root-key eve.pub --root-threshold 2 \\\n      \
                       --index-key release.pub --delegate virt=cdi,kubevirt-* --delegate-key \
                       virt=team.pub\n  kubepkg trust sign root.yaml --key ann.key"
)]
pub struct New {
    /// Who decides what.
    #[command(flatten)]
    pub roles: Roles,
    /// How long the root is good; then a next version is needed
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = DEFAULT_EXPIRES)]
    pub expires: Duration,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = CURRENT)]
    pub output: PathBuf,
    /// Overwriting.
    #[command(flatten)]
    pub force: Force,
}

/// Flags of `trust root next`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg trust root next root.yaml --index-key new-release.pub",
    after_long_help = "The next version of a root: one more than CURRENT, with what is not given \
                       kept as it is, and a new expiry. It is accepted when enough root keys of \
                       the version before and of the new one have signed it, so sign it with \
                       both. What is written: root.yaml and root/N.yaml, the same bytes, \
                       unsigned; CURRENT stays as root/N.yaml under its own number. Publish only \
                       when it is signed.\n\nExample:\n  kubepkg trust root next root.yaml \
                       --root-key new-ann.pub --root-key bob.pub --root-threshold 2\n  kubepkg \
                       trust sign root.yaml --key ann.key --key new-ann.key --key bob.key"
)]
pub struct Next {
    /// The current version
    #[arg(value_name = "CURRENT")]
    pub current: PathBuf,
    /// Who decides what.
    #[command(flatten)]
    pub roles: Roles,
    /// Take a delegation back (repeatable)
    #[arg(long, value_name = "NAME")]
    pub undelegate: Vec<String>,
    /// Want no approvals any more
    #[arg(long, conflicts_with_all = ["approvals_key", "approvals_threshold"])]
    pub no_approvals: bool,
    /// How long the root is good from now on
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = DEFAULT_EXPIRES)]
    pub expires: Duration,
    /// The file to write [default: root.yaml beside CURRENT]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwriting.
    #[command(flatten)]
    pub force: Force,
}

/// Makes version 1.
pub fn run_new(arguments: New, printer: &Printer) -> anyhow::Result<()> {
    let roles = arguments.roles.read()?;
    let draft = RootDraft {
        expires: until(arguments.expires),
        root: roles.wanted("root", "--root-key", "--root-threshold", &roles.root)?,
        index: roles.wanted("index", "--index-key", "--index-threshold", &roles.index)?,
        approvals: roles.approvals()?,
        delegations: roles.delegations(None)?,
    };
    let root = Root::first(&draft).map_err(impossible)?;
    refuse_existing(&arguments.output, root.version, &arguments.force)?;
    let twin = root_files::write(&arguments.output, &root)?;
    tell(&arguments.output, twin.as_deref(), &root, None, printer);
    Ok(())
}

/// Makes the version after the current one.
pub fn run_next(arguments: Next, printer: &Printer) -> anyhow::Result<()> {
    let roles = arguments.roles.read()?;
    let current = root_files::read(&arguments.current)?;
    let before = &current.root;
    for line in root_files::missing(before, None) {
        printer.warn(&format!(
            "version {} is not accepted by anyone yet: {line}",
            before.version
        ));
    }
    let mut change = RootChange {
        expires: until(arguments.expires),
        root: roles.root.change(),
        index: roles.index.change(),
        approvals: match before.approvals {
            Some(_) => roles.approvals.change(),
            // a role that is not there yet is made by the rule of a first root
            None => roles.new_approvals()?,
        },
        undelegate: arguments.undelegate.clone(),
        delegate: roles.delegations(Some(before))?,
    };
    if arguments.no_approvals {
        change.approvals.keys = Some(Vec::new());
    }
    let root = before.next(&change).map_err(impossible)?;
    let output = arguments
        .output
        .clone()
        .unwrap_or_else(|| beside(&arguments.current));
    if !same_file(&output, &arguments.current) {
        refuse_existing(&output, root.version, &arguments.force)?;
    } else if !arguments.force.force {
        // CURRENT itself is replaced only when its numbered twin keeps it
        if let Some(next) = root_files::twin(&output, root.version)? {
            output::refuse_existing(&next)?;
        }
    }
    keep(&arguments.current, &output, &current, printer)?;
    let twin = root_files::write(&output, &root)?;
    tell(&output, twin.as_deref(), &root, Some(before), printer);
    Ok(())
}

/// Where the next version of `current` goes: `root.yaml` of the folder the chain lies in.
fn beside(current: &Path) -> PathBuf {
    let folder = current.parent().unwrap_or(Path::new(""));
    if folder.file_name().is_some_and(|name| name == "root") {
        return folder.parent().unwrap_or(Path::new("")).join(CURRENT);
    }
    folder.join(CURRENT)
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Sees to it that the version being followed stays under its number beside the next one,
/// whatever its file is called.
fn keep(
    file: &Path,
    output: &Path,
    current: &root_files::RootFile,
    printer: &Printer,
) -> Result<(), CommandError> {
    let number = current.root.version;
    let next = root_files::version_beside(output, number)?;
    match next {
        Some(kept) if kept.bytes == current.bytes => Ok(()),
        Some(_) => Err(CommandError::refused(format!(
            "root/{number}.yaml is another file than {}, which is version {number} too",
            file.display()
        ))
        .at(output.display())
        .hint("whoever reads this repository refuses it; find out which one is right")),
        None => {
            if let Some(kept) = root_files::keep(output, current)? {
                printer.say(&format!("kept version {number} as {}", kept.display()));
            }
            Ok(())
        }
    }
}

fn refuse_existing(file: &Path, version: u32, force: &Force) -> Result<(), CommandError> {
    if force.force {
        return Ok(());
    }
    output::refuse_existing(file)?;
    let name = file.file_name();
    if name.is_some_and(|name| name == CURRENT) {
        let twin = file.with_file_name("root").join(format!("{version}.yaml"));
        if exists(&twin)? {
            return Err(
                CommandError::failed("this version of a root exists already")
                    .at(twin.display())
                    .hint("choose another folder with -o, or --force to replace it"),
            );
        }
    }
    Ok(())
}

fn until(span: Duration) -> Time {
    Time::now().plus(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
}

/// A root that cannot be made as it was asked for.
fn impossible(error: RootError) -> CommandError {
    use kubepkg_core::error::Classify as _;
    let told = CommandError::usage(error.to_string());
    match error.hint() {
        Some(hint) => told.hint(hint),
        None => told,
    }
}

fn tell(file: &Path, twin: Option<&Path>, root: &Root, before: Option<&Root>, printer: &Printer) {
    printer.say(&format!(
        "wrote {}: root version {}, unsigned; sign it with kubepkg trust sign {} --key FILE",
        root_files::told(file, twin),
        root.version,
        file.display(),
    ));
    printer.say(&format!("valid until {}", local_time(root.expires)));
    for line in root_files::missing(root, before) {
        printer.say(&format!("needs {line}"));
    }
    if twin.is_none() {
        printer.say(&format!(
            "note: it is published under two names, root.yaml and root/{}.yaml",
            root.version
        ));
    }
}
