//! The CA that vouches for a mirror, as it is handed out to nodes and people.

use std::path::Path;

use super::error::TlsError;
use super::facts::Facts;
use super::files::certificates;
use crate::changes::read_bounded;

/// Longest file of CA certificates that is handed out, in bytes.
const MAX_CA: u64 = 64 * 1024;

/// What the file should hold.
const WHAT: &str = "the CA";

/// A CA that is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ca {
    /// Its certificate in PEM.
    pub pem: String,
    /// What the certificate says.
    pub facts: Facts,
}

impl Ca {
    /// Reads it.
    pub fn read(path: &Path) -> Result<Ca, TlsError> {
        let pem = ca_pem(path)?;
        let all = certificates(path, WHAT)?;
        let facts = Facts::of(all.first().map_or(&[][..], |first| first.as_ref()))
            .map_err(|why| wrong(path, why))?;
        Ok(Ca { pem, facts })
    }
}

/// The text of a file of certificates that is given to others.
pub fn ca_pem(path: &Path) -> Result<String, TlsError> {
    let bytes = read_bounded(path, MAX_CA).map_err(TlsError::read(WHAT, path))?;
    let Ok(text) = String::from_utf8(bytes) else {
        return Err(wrong(path, "this file is no PEM file"));
    };
    match () {
        () if text.contains("PRIVATE KEY") => Err(wrong(
            path,
            "this file holds a private key, which others must not get",
        )),
        () if !text.contains("-----BEGIN CERTIFICATE-----") => {
            Err(wrong(path, "this file holds no certificate"))
        }
        () => Ok(text),
    }
}

fn wrong(path: &Path, why: impl Into<String>) -> TlsError {
    let hint = "give the certificate of the CA alone, in PEM";
    TlsError::content(path, why, hint)
}
