//! Signing the versions in a file of PackageSources: for a delegation, or as an approval.

use std::path::Path;

use kubepkg_core::api::{APPROVALS_ANNOTATION, PackageSource, SIGNATURES_ANNOTATION};
use kubepkg_core::index::build::{self, Found};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Named, sign_approval, sign_version};
use serde::{Deserialize, Serialize};

use super::annotation;
use crate::error::CommandError;
use crate::output::Pending;
use crate::printer::Printer;
use crate::signing::Signers;

/// What a signature says.
#[derive(Clone, Copy, Debug)]
pub enum Statement {
    /// Who answers for the version signs it.
    Version,
    /// Somebody approves it, at this time.
    Approval(Time),
}

impl Statement {
    fn annotation(self) -> &'static str {
        match self {
            Statement::Version => SIGNATURES_ANNOTATION,
            Statement::Approval(_) => APPROVALS_ANNOTATION,
        }
    }
}

/// Signs every version of the file.
pub fn sign(
    file: &Path,
    text: &str,
    statement: Statement,
    signers: &Signers,
    printer: &Printer,
) -> anyhow::Result<()> {
    let name = file.display().to_string();
    let found = build::read_file(&name, text)?;
    for one in &found {
        signable(one)?;
    }
    let mut changed = text.to_owned();
    let mut lines = Vec::new();
    // from the last one up, so that the lines of those before stay where they are
    for one in found.iter().rev() {
        let value = signed(&one.source, statement, signers)?;
        changed = annotation::set(&changed, one.line, statement.annotation(), &value)
            .ok_or_else(|| not_in_block_style(one))?;
        lines.push(match statement {
            Statement::Version => format!("signed {}", label(&one.source)),
            Statement::Approval(_) => format!("approved {}", label(&one.source)),
        });
    }
    check(&name, &changed, &found, statement, signers)?;
    Pending::write(file, changed.as_bytes(), 0o644)?.replace()?;
    for line in lines.iter().rev() {
        printer.say(line);
    }
    printer.say(&format!(
        "{name} carries {} of key {}; nothing else in it was changed",
        match statement {
            Statement::Approval(_) => "the approval",
            Statement::Version => "the signatures",
        },
        signers.ids()
    ));
    Ok(())
}

/// What changes the digest later must be done before it is signed.
fn signable(one: &Found) -> anyhow::Result<()> {
    let draft = build::collect(vec![one.clone()])?;
    let Some(open) = draft.unpinned_charts().into_iter().next() else {
        return Ok(());
    };
    let chart = &open.chart;
    Err(CommandError::refused(format!(
        "chart {} {} has no digest yet, and `repo index` would change what is signed when it \
         pins it",
        chart.name, chart.version
    ))
    .at(format!("{}:{}: {}", one.file, one.line, label(&one.source)))
    .hint("write the digest that `kubepkg repo index` prints into the file, then sign it")
    .into())
}

fn label(source: &PackageSource) -> String {
    let spec = &source.spec;
    match spec.build {
        0 => format!("{} {}", source.name(), spec.version),
        build => format!("{} {} build {build}", source.name(), spec.version),
    }
}

/// One entry of either annotation.
#[derive(Deserialize, Serialize)]
struct Entry {
    keyid: String,
    sig: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
}

/// The annotation's text with a signature by each key, in place of one it made before.
fn signed(
    source: &PackageSource,
    statement: Statement,
    signers: &Signers,
) -> anyhow::Result<String> {
    let mut entries: Vec<Entry> = match source.annotation(statement.annotation()) {
        "" => Vec::new(),
        text => serde_json::from_str(text)?,
    };
    let digest = source.spec.digest();
    let named = Named {
        package: source.name(),
        version: &source.spec.version,
        build: u32::try_from(source.spec.build).unwrap_or_default(),
        digest: &digest,
    };
    for (_, key) in signers.keys() {
        let (made, time) = match statement {
            Statement::Version => (sign_version(named, key), None),
            Statement::Approval(time) => (sign_approval(named, time, key), Some(time)),
        };
        let made = made.map_err(|error| CommandError::failed("cannot sign").because(error))?;
        let new = Entry {
            keyid: made.keyid,
            sig: made.sig,
            time,
        };
        match entries.iter_mut().find(|old| old.keyid == new.keyid) {
            Some(old) => *old = new,
            None => entries.push(new),
        }
    }
    Ok(serde_json::to_string(&entries)?)
}

/// Reads what would be written: it must be the same but for the signatures.
fn check(
    name: &str,
    changed: &str,
    before: &[Found],
    statement: Statement,
    signers: &Signers,
) -> anyhow::Result<()> {
    let after = build::read_file(name, changed)?;
    let plain = |found: &Found| {
        let mut source = found.source.clone();
        source.metadata.annotations.remove(statement.annotation());
        source
    };
    let same = after.len() == before.len()
        && before.iter().zip(&after).all(|(old, new)| {
            plain(old) == plain(new)
                && signed(&old.source, statement, signers).ok().as_deref()
                    == Some(new.source.annotation(statement.annotation()))
        });
    match (same, before.first()) {
        (true, _) | (_, None) => Ok(()),
        (false, Some(one)) => Err(not_in_block_style(one).into()),
    }
}

fn not_in_block_style(one: &Found) -> CommandError {
    CommandError::failed(
        "the signatures cannot be put into this document without writing all of it anew",
    )
    .at(format!("{}:{}", one.file, one.line))
    .hint("write its metadata one member a line:\nmetadata:\n  name: …")
}
