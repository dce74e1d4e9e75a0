//! `trust sign`: signatures over roots, indexes and versions of packages.

mod annotation;
mod packages;

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kubepkg_core::api::{INDEX_KIND, PACKAGE_SOURCE_KIND};
use kubepkg_core::index::build::MAX_SOURCE_FILE;
use kubepkg_core::index::signature::MAX_SIGNATURE_FILE;
use kubepkg_core::index::{Index, MAX_INDEX};
use kubepkg_core::time::Time;
use kubepkg_core::trust::sign_index;
use kubepkg_core::yaml::{Limits, go, strict};
use serde::Deserialize;

use self::packages::Statement;
use crate::error::CommandError;
use crate::output::{Pending, exists};
use crate::printer::Printer;
use crate::root_files;
use crate::signing::Signers;
use crate::units::count;

/// Flags of `trust sign`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg trust sign root.yaml --key ann.key",
    after_long_help = "FILE is a root of trust, an index, or a file of PackageSources; what does \
                       not read is not signed. Nobody's signature is taken away: each key adds \
                       its own, or replaces the one it made before, so several people sign one \
                       after the other, each where the key is. What is written: a root and its \
                       twin root/N.yaml anew (their members sorted, without comments); for an \
                       index FILE.sig beside it; in a file of PackageSources only the annotation \
                       kubepkg.dev/signatures of each document, or with --approve \
                       kubepkg.dev/approvals; `repo index` carries both on. A second run with the same key \
                       changes nothing.\n\nExample:\n  kubepkg trust sign root.yaml --key ann.key\n  \
                       kubepkg trust sign index.yaml --key-env RELEASE_KEY\n  kubepkg trust sign \
                       packages/cdi.yaml --key team.key"
)]
pub struct Arguments {
    /// What to sign
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Private key to sign with (repeatable); its passphrase is asked for, or read from the
    /// file KUBEPKG_KEY_PASSPHRASE_FILE names
    #[arg(long, value_name = "FILE")]
    pub key: Vec<PathBuf>,
    /// Variable that holds a private key (its PEM text) to sign with (repeatable)
    #[arg(long, value_name = "VARIABLE")]
    pub key_env: Vec<String>,
    /// Approve the versions of a file of PackageSources, in place of answering for them
    #[arg(long)]
    pub approve: bool,
}

/// What a file is.
enum What {
    Root,
    Index,
    Packages(String),
}

/// Signs.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    if arguments.key.is_empty() && arguments.key_env.is_empty() {
        return Err(
            CommandError::usage("give --key or --key-env: nothing is there to sign with")
                .hint(format!(
                    "kubepkg trust sign {} --key FILE.key",
                    arguments.file.display()
                ))
                .into(),
        );
    }
    let file = &arguments.file;
    let bytes = read(file)?;
    let what = what(file, &bytes)?;
    if arguments.approve && !matches!(what, What::Packages(_)) {
        return Err(
            CommandError::usage("--approve is for versions in a file of PackageSources")
                .at(file.display())
                .into(),
        );
    }
    let statement = match arguments.approve {
        true => Statement::Approval(Time::now()),
        false => Statement::Version,
    };
    // asked for only now: nobody types a passphrase for a file that cannot be signed
    let signers = Signers::read(&arguments.key, &arguments.key_env, printer)?;
    match what {
        What::Root => sign_root(file, &bytes, &signers, printer),
        What::Index => sign_the_index(file, &bytes, &signers, printer),
        What::Packages(text) => packages::sign(file, &text, statement, &signers, printer),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, CommandError> {
    let failed = |error| CommandError::io("cannot read the file", error).at(file.display());
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(MAX_INDEX + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    Ok(bytes)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Probe {
    kind: String,
}

fn what(file: &Path, bytes: &[u8]) -> Result<What, CommandError> {
    // the others are small
    if bytes.len() > MAX_SOURCE_FILE {
        return Ok(What::Index);
    }
    let limits = Limits {
        bytes: MAX_SOURCE_FILE,
        ..Limits::default()
    };
    if let Ok(document) = go::Document::read(bytes, &limits) {
        if document.root().member("signed").is_some() {
            return Ok(What::Root);
        }
        let probe = document.decode::<Probe>(document.root());
        if probe.is_ok_and(|probe| probe.value.kind == INDEX_KIND) {
            return Ok(What::Index);
        }
    }
    let text = str::from_utf8(bytes).unwrap_or_default();
    let documents = strict::documents(text, &limits).map_err(|error| {
        CommandError::refused(format!("this file does not read: {error}"))
            .at(file.display())
            .because(error)
    })?;
    let ours = |document: &strict::Document<'_>| document.kind() == Some(PACKAGE_SOURCE_KIND);
    if documents.iter().any(ours) {
        return Ok(What::Packages(text.to_owned()));
    }
    Err(
        CommandError::usage("this is neither a root, an index nor PackageSources")
            .at(file.display()),
    )
}

fn sign_root(
    file: &Path,
    bytes: &[u8],
    signers: &Signers,
    printer: &Printer,
) -> anyhow::Result<()> {
    let mut root = root_files::parse(bytes, file)?;
    let before = match root.version {
        1 => None,
        version => root_files::version_beside(file, version - 1)?,
    };
    let before = before.map(|file| file.root);
    for (id, key) in signers.keys() {
        let role = root.root.ids().contains(id)
            || before
                .as_ref()
                .is_some_and(|before| before.root.ids().contains(id));
        if !role {
            printer.warn(&format!(
                "key {id} is no root key of version {}{}: its signature counts for nothing",
                root.version,
                if root.version > 1 && before.is_none() {
                    " (the version before is not here)"
                } else {
                    ""
                }
            ));
        }
        root.sign(key)
            .map_err(|error| CommandError::failed("cannot sign").because(error))?;
    }
    let twin = root_files::write(file, &root)?;
    printer.say(&format!(
        "root version {} now has {}",
        root.version,
        count(root.signature_count(), "signature", "signatures")
    ));
    printer.say(&format!(
        "wrote {}",
        root_files::told(file, twin.as_deref())
    ));
    let missing = root_files::missing(&root, before.as_ref());
    for line in &missing {
        printer.say(&format!("needs {line}"));
    }
    if missing.is_empty() {
        printer.say("it is signed by enough keys; it can be published");
    }
    Ok(())
}

fn sign_the_index(
    file: &Path,
    bytes: &[u8],
    signers: &Signers,
    printer: &Printer,
) -> anyhow::Result<()> {
    let index = Index::read(bytes).map_err(|error| {
        CommandError::refused("what does not read is not signed")
            .at(file.display())
            .because(error)
    })?;
    if let Some(expires) = index.expires.filter(|expires| *expires <= Time::now()) {
        printer.warn(&format!(
            "this index expired {}",
            crate::units::local_time(expires)
        ));
    }
    root_files::check_signers(file, index.expires, signers, printer)?;
    let mut name = OsString::from(file);
    name.push(".sig");
    let signature = PathBuf::from(name);
    let mut signed = match exists(&signature)? {
        true => Some(read_signature(&signature)?),
        false => None,
    };
    for (_, key) in signers.keys() {
        let text = sign_index(signed.as_deref(), bytes, key).map_err(|error| {
            CommandError::refused("the signature file that is there does not read")
                .at(signature.display())
                .because(error)
                .hint("remove it, then sign again")
        })?;
        signed = Some(text.into_bytes());
    }
    Pending::write(&signature, &signed.unwrap_or_default(), 0o644)?.replace()?;
    printer.say(&format!(
        "signed {} in {} with key {}",
        file.display(),
        signature.display(),
        signers.ids()
    ));
    Ok(())
}

fn read_signature(file: &Path) -> Result<Vec<u8>, CommandError> {
    let failed = |error| CommandError::io("cannot read the signature", error).at(file.display());
    let mut bytes = Vec::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(MAX_SIGNATURE_FILE + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    Ok(bytes)
}
