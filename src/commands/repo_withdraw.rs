//! `repo withdraw`: say of a published version that it is not to be used any more.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use kubepkg_core::index::build::{BuildError, Draft};
use kubepkg_core::index::signature::{MAX_SIGNATURE_FILE, Signatures};
use kubepkg_core::index::{Index, MAX_INDEX, Withdrawn};
use kubepkg_core::keys::PublicKey;
use kubepkg_core::name::PackageName;
use kubepkg_core::time::Time;

use crate::error::CommandError;
use crate::output::{exists, later_than};
use crate::printer::Printer;
use crate::root_files;
use crate::signing::{SignKeys, Signers};
use crate::units::{count, local_time, parse_duration};

/// Flags of `repo withdraw`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo withdraw web@1.0.0 --reason CVE-2026-1234 \
                  --replacement 1.0.1 --index index.yaml --sign-key release.key",
    after_long_help = "A withdrawn version stays listed and can still be installed by its exact \
                       number, with a warning; nobody gets it any other way, and an import \
                       refuses it. Who has seen it withdrawn keeps to that, even when a later \
                       index forgets it, until a signed index takes it back (--lift). What is \
                       written: the index and its signature anew, with a new time; signatures \
                       by others must be made again (`kubepkg trust sign`). A second run says it \
                       again with the new reason.\n\nExample:\n  kubepkg repo withdraw web@1.0.0 \
                       --reason CVE-2026-1234 --replacement 1.0.1 \\\n      --index index.yaml \
                       --sign-key release.key\n  kubepkg repo withdraw web@1.0.0 --lift --index \
                       index.yaml --sign-key release.key"
)]
pub struct Arguments {
    /// The version
    #[arg(value_name = "PACKAGE@VERSION")]
    pub version: Exact,
    /// Only this build of it; all of them when not given
    #[arg(long, value_name = "N")]
    pub build: Option<u32>,
    /// Why, in words for those who use it
    #[arg(long, value_name = "TEXT", required_unless_present = "lift")]
    pub reason: Option<String>,
    /// The version to use instead
    #[arg(long, value_name = "VERSION", conflicts_with = "lift")]
    pub replacement: Option<String>,
    /// Take the withdrawal back
    #[arg(long, conflicts_with = "reason")]
    pub lift: bool,
    /// The published index, a file
    #[arg(long, value_name = "FILE", default_value = "index.yaml")]
    pub index: PathBuf,
    /// How long the index is valid from now on; its expiry stays when not given
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub expires: Option<Duration>,
    /// Who signs.
    #[command(flatten)]
    pub sign: SignKeys,
}

/// `PACKAGE@VERSION`.
#[derive(Clone, Debug)]
pub struct Exact {
    package: PackageName,
    version: String,
}

impl FromStr for Exact {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (package, version) = text.split_once('@').ok_or("write it as PACKAGE@VERSION")?;
        if version.is_empty() {
            return Err("write it as PACKAGE@VERSION".to_owned());
        }
        Ok(Exact {
            package: package.parse().map_err(|e| format!("{e}"))?,
            version: version.to_owned(),
        })
    }
}

/// Longest reason, in bytes: it is shown in tables and remembered by every site.
const MAX_REASON: usize = 500;

/// Withdraws, or takes it back.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let file = &arguments.index;
    let text = read(file, MAX_INDEX)?;
    let index = Index::read(&text).map_err(|error| {
        CommandError::refused("this index does not read")
            .at(file.display())
            .because(error)
    })?;
    let signature = signature_of(file);
    let had_signature = exists(&signature)?;
    if arguments.sign.is_empty() && had_signature {
        return Err(
            CommandError::usage("no key is given to sign the changed index with")
                .at(signature.display())
                .hint("add --sign-key release.key")
                .into(),
        );
    }
    let signers = arguments.sign.read(printer)?;
    own(file, &signature, &text, &signers, printer)?;
    let mut draft = Draft::of(&index)?;
    if let Some(url) = &index.repository {
        draft.set_repository(url.clone());
    }
    let generated = later_than(index.generated, printer);
    let said = change(&arguments, &index, &mut draft, generated, printer)?;
    let expires = match arguments.expires {
        Some(span) => Some(generated.plus(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))),
        None => index.expires,
    };
    if let Some(expires) = expires.filter(|expires| *expires <= generated) {
        printer.warn(&format!(
            "this index expired {}: give it more time with --expires",
            local_time(expires)
        ));
    }
    root_files::check_signers(file, expires, &signers, printer)?;
    let text = draft.to_yaml(generated, expires)?;
    signers.write_index(file, &signature, &text)?;
    printer.say(&said);
    match signers.is_empty() {
        true => printer.warn("the index is not signed; who uses it must say --allow-unsigned"),
        false => printer.say(&format!(
            "signed {} with key {}",
            signature.display(),
            signers.ids()
        )),
    }
    Ok(())
}

fn change(
    arguments: &Arguments,
    index: &Index,
    draft: &mut Draft,
    at: Time,
    printer: &Printer,
) -> anyhow::Result<String> {
    let Exact { package, version } = &arguments.version;
    let name = package.as_str();
    let placed = |error: BuildError| CommandError::of(&error).under(arguments.index.display());
    if arguments.lift {
        let builds = draft
            .lift_withdrawal(name, version, arguments.build, at)
            .map_err(placed)?;
        return Ok(format!(
            "{name} {version} is no longer withdrawn ({})",
            count(builds, "build", "builds")
        ));
    }
    let reason = arguments.reason.as_deref().unwrap_or_default().trim();
    if reason.is_empty() || reason.len() > MAX_REASON || reason.chars().any(char::is_control) {
        let wrong = format!("a reason is one line of 1 to {MAX_REASON} bytes");
        return Err(CommandError::usage(wrong).at("--reason").into());
    }
    if let Some(instead) = &arguments.replacement {
        let versions = index
            .packages
            .get(name)
            .map(|package| package.versions.as_slice());
        let mut listed = versions.unwrap_or_default().iter();
        if !listed.any(|one| one.version == *instead) {
            printer.warn(&format!("{name} {instead} is not in this index"));
        }
    }
    let withdrawn = Withdrawn {
        since: at,
        reason: reason.to_owned(),
        replacement: arguments.replacement.clone(),
        lifted: None,
    };
    let builds = draft
        .set_withdrawn(name, version, arguments.build, &withdrawn)
        .map_err(placed)?;
    Ok(format!(
        "{name} {version} is withdrawn ({}): {reason}",
        count(builds, "build", "builds")
    ))
}

/// What is signed anew should be what was signed before.
fn own(
    file: &Path,
    signature: &Path,
    text: &[u8],
    signers: &Signers,
    printer: &Printer,
) -> anyhow::Result<()> {
    if signers.is_empty() {
        return Ok(());
    }
    let keys: Vec<PublicKey> = signers
        .keys()
        .filter_map(|(_, key)| key.public().ok())
        .collect();
    let signatures = match exists(signature)? {
        true => Signatures::parse(&read(signature, MAX_SIGNATURE_FILE)?).ok(),
        false => None,
    };
    let by_us = signatures
        .as_ref()
        .is_some_and(|signatures| !signatures.signed_by(text, &keys).is_empty());
    if !by_us {
        printer.warn(&format!(
            "{} is not signed by your key: whoever changed it decides what you sign now",
            file.display()
        ));
    }
    if signatures.is_some_and(|signatures| signatures.entries().len() > keys.len()) {
        printer.say("others have signed it too; they sign the new one with kubepkg trust sign");
    }
    Ok(())
}

fn signature_of(index: &Path) -> PathBuf {
    let mut name = OsString::from(index);
    name.push(".sig");
    PathBuf::from(name)
}

fn read(file: &Path, limit: u64) -> Result<Vec<u8>, CommandError> {
    let failed = |error| CommandError::io("cannot read the file", error).at(file.display());
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(limit + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    Ok(bytes)
}
