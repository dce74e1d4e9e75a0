//! Private keys to sign with, from files and variables: the same in every verb that signs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::keys::{KeyId, PrivateKey};
use zeroize::Zeroizing;

use crate::cli::{bad_key, read_key_file};
use crate::error::CommandError;
use crate::output::Pending;
use crate::passphrase;
use crate::places;
use crate::printer::Printer;

/// Keys that sign what a verb writes.
#[derive(Clone, Debug, Default, Args)]
pub struct SignKeys {
    /// Private key to sign with (repeatable: several keys give a list of signatures); its
    /// passphrase is asked for, or read from the file KUBEPKG_KEY_PASSPHRASE_FILE names
    #[arg(long, value_name = "FILE")]
    pub sign_key: Vec<PathBuf>,
    /// Variable that holds a private key (its PEM text) to sign with (repeatable)
    #[arg(long, value_name = "VARIABLE")]
    pub sign_key_env: Vec<String>,
}

impl SignKeys {
    /// Whether nothing is to be signed.
    pub fn is_empty(&self) -> bool {
        self.sign_key.is_empty() && self.sign_key_env.is_empty()
    }

    /// Reads the keys.
    pub fn read(&self, printer: &Printer) -> Result<Signers, CommandError> {
        Signers::read(&self.sign_key, &self.sign_key_env, printer)
    }
}

/// The keys by their ids: a key given twice signs once.
#[derive(Debug, Default)]
pub struct Signers(BTreeMap<KeyId, PrivateKey>);

impl Signers {
    /// Reads the keys of these files and variables.
    pub fn read(
        files: &[PathBuf],
        variables: &[String],
        printer: &Printer,
    ) -> Result<Signers, CommandError> {
        let mut signers = Signers::default();
        for file in files {
            let text = Zeroizing::new(read_key_file(file)?);
            signers.add(file, &text, printer)?;
        }
        for name in variables {
            let place = PathBuf::from(format!("${name}"));
            // the text of a variable is a secret: no message repeats it
            let value = places::variable(name).ok_or_else(|| {
                CommandError::usage("this variable is not set, and a key was to be in it")
                    .at(place.display())
                    .hint("give the name of a variable that holds the PEM text, not the text")
            })?;
            let text = value.into_string().map_err(|_| {
                CommandError::usage("this variable holds no PEM text").at(place.display())
            })?;
            signers.add(&place, &Zeroizing::new(text), printer)?;
        }
        Ok(signers)
    }

    fn add(&mut self, place: &Path, pem: &str, printer: &Printer) -> Result<(), CommandError> {
        let wrong = |error| bad_key(place, error);
        let key = if PrivateKey::is_encrypted(pem) {
            let passphrase = passphrase::of_key(&place.display().to_string(), printer)?;
            PrivateKey::from_encrypted_pem(pem, &passphrase).map_err(wrong)?
        } else {
            PrivateKey::from_pem(pem).map_err(wrong)?
        };
        let id = key.public().map_err(wrong)?.id();
        self.0.insert(id, key);
        Ok(())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys, in the order of their ids.
    pub fn keys(&self) -> impl Iterator<Item = (&KeyId, &PrivateKey)> {
        self.0.iter()
    }

    /// The ids, for messages.
    pub fn ids(&self) -> String {
        let ids: Vec<String> = self.0.keys().map(ToString::to_string).collect();
        ids.join(", ")
    }

    /// Writes an index and its signature whole, and gives them their names one right after the
    /// other: the signature first, so that whoever reads the new index finds its signature.
    pub fn write_index(
        &self,
        index: &Path,
        signature: &Path,
        text: &[u8],
    ) -> Result<(), CommandError> {
        let pending = Pending::write(index, text, 0o644)?;
        if let Some(signatures) = self.signature_file(text) {
            Pending::write(signature, signatures.as_bytes(), 0o644)?.replace()?;
        }
        pending.replace()
    }

    /// The signature file of an index: plain for one key, a list for several, none for none.
    pub fn signature_file(&self, index: &[u8]) -> Option<String> {
        let signatures: Vec<(KeyId, [u8; 64])> = self
            .keys()
            .map(|(id, key)| (*id, key.sign(index)))
            .collect();
        match signatures.as_slice() {
            [] => None,
            [(_, signature)] => Some(Signatures::write_plain(signature)),
            several => Some(Signatures::write_list(several)),
        }
    }
}
