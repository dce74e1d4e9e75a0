//! `repo keygen`: a key pair in two files.

use std::ffi::OsString;
use std::path::PathBuf;

use kubepkg_core::keys::PrivateKey;
use zeroize::Zeroizing;

use crate::error::CommandError;
use crate::output::{Pending, exists};
use crate::passphrase;
use crate::printer::Printer;

/// Flags of `repo keygen`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo keygen release",
    after_long_help = "Writes PREFIX.key, readable by its owner only, and PREFIX.pub. With \
                       --encrypt the private key is under a passphrase, asked for on the \
                       terminal or read from the file that KUBEPKG_KEY_PASSPHRASE_FILE names; \
                       openssl reads such a file too. Files that exist are never overwritten, \
                       so a second run with the same PREFIX fails and changes nothing.\n\n\
                       Example:\n  kubepkg repo keygen release --encrypt"
)]
pub struct Arguments {
    /// Path and name of both files, without their endings
    #[arg(value_name = "PREFIX")]
    pub prefix: PathBuf,
    /// Put the private key under a passphrase
    #[arg(long)]
    pub encrypt: bool,
}

/// Makes the pair: both files or none.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    if arguments.prefix.file_name().is_none() {
        return Err(CommandError::usage("a prefix ends with a name")
            .at(arguments.prefix.display())
            .hint("kubepkg repo keygen release")
            .into());
    }
    let private_file = with_ending(&arguments.prefix, ".key");
    let public_file = with_ending(&arguments.prefix, ".pub");
    for file in [&private_file, &public_file] {
        if exists(file)? {
            return Err(never_overwritten(file));
        }
    }
    let random = |error| CommandError::failed("cannot make a key").because(error);
    let private = PrivateKey::generate().map_err(random)?;
    let public = private.public().map_err(random)?;
    let pem = if arguments.encrypt {
        let name = private_file.display().to_string();
        let passphrase = passphrase::of_new_key(&name, printer)?;
        private.to_encrypted_pem(&passphrase).map_err(random)?
    } else {
        Zeroizing::new(private.to_pem().map_err(random)?)
    };
    let pending_private = Pending::write(&private_file, pem.as_bytes(), 0o600)?;
    let pending_public = Pending::write(&public_file, public.to_pem().as_bytes(), 0o644)?;
    pending_private.create()?;
    if let Err(error) = pending_public.create() {
        // both or none: a private key alone would block the next run
        let taken_away = std::fs::remove_file(&private_file);
        return match taken_away {
            Ok(()) => Err(error.into()),
            Err(_) => Err(error
                .hint(format!(
                    "remove {} before you try again",
                    private_file.display()
                ))
                .into()),
        };
    }
    printer.say(&format!(
        "wrote {} (private: {}) and {} (hand it to those who verify)\nkey id {}",
        private_file.display(),
        if arguments.encrypt {
            "whoever reads it and knows the passphrase can sign for you"
        } else {
            "whoever reads it can sign for you"
        },
        public_file.display(),
        public.id(),
    ));
    Ok(())
}

fn with_ending(prefix: &std::path::Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(prefix);
    name.push(ending);
    name.into()
}

fn never_overwritten(file: &std::path::Path) -> anyhow::Error {
    CommandError::failed("the file exists already, and keys are never overwritten")
        .at(file.display())
        .hint("choose another name, or move the old key to a safe place first")
        .into()
}
