//! What a certificate says of itself, as far as people who run a mirror have to know it.

use std::net::IpAddr;

use kubepkg_core::time::Time;
use sha2::{Digest as _, Sha256};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Who it is for, as its subject says.
    pub subject: String,
    /// It does not hold before.
    pub from: Time,
    /// It does not hold after.
    pub until: Time,
    /// The names and addresses clients may ask for, sorted.
    pub names: Vec<String>,
    /// SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` prints it.
    pub fingerprint: String,
}

impl Facts {
    /// Reads a certificate; in words why it cannot be read.
    pub fn of(der: &[u8]) -> Result<Facts, String> {
        let certificate = Certificate::from_der(der)
            .map_err(|error| format!("it holds no certificate that can be read: {error}"))?;
        let inner = certificate.tbs_certificate();
        let seconds = |time: x509_cert::time::Time| {
            let seconds = time.to_unix_duration().as_secs();
            Time::from_unix(i64::try_from(seconds).unwrap_or(i64::MAX))
        };
        let validity = inner.validity();
        let names = inner
            .get_extension::<SubjectAltName>()
            .map_err(|error| format!("the names of the certificate cannot be read: {error}"))?;
        let mut names: Vec<String> = names
            .map(|(_, SubjectAltName(names))| names.iter().filter_map(shown).collect())
            .unwrap_or_default();
        names.sort();
        Ok(Facts {
            subject: inner.subject().to_string(),
            from: seconds(validity.not_before),
            until: seconds(validity.not_after),
            names,
            fingerprint: fingerprint(der),
        })
    }

    /// Seconds for which it still holds at `now`; none when it does not hold any more, or not yet.
    pub fn left(&self, now: Time) -> Option<u64> {
        let begun = now.since(self.from) >= 0;
        let left = u64::try_from(self.until.since(now)).ok()?;
        (begun && left > 0).then_some(left)
    }
}

/// SHA-256 in pairs of digits.
pub fn fingerprint(der: &[u8]) -> String {
    let pairs = Sha256::digest(der);
    let pairs: Vec<String> = pairs.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

fn shown(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}
