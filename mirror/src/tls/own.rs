//! A certificate a mirror makes for itself, and the CA that vouches for it.
//!
//! The CA stays: nodes trust it once. What it signs is made anew when the names change and in
//! good time before it ends. Both hold since 1970: a fresh machine whose clock is not set yet
//! believes that it is then, and has to pull all the same.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use kubepkg_core::time::Time;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, date_time_ymd,
};
use sha2::{Digest as _, Sha256};

use super::error::TlsError;
use super::facts::Facts;
use super::files::{TlsFiles, certificates, load};
use crate::changes::read_bounded;
use crate::owner;

/// Years a CA holds: longer than any site stays as it is.
const CA_YEARS: i32 = 30;

/// Years a certificate holds.
const YEARS: i32 = 10;

/// It is made anew when less than this share of its years is left, three of ten years.
const RENEWED_BELOW: u64 = 3 * 365 * 24 * 60 * 60;

/// Most names in one certificate.
const MAX_NAMES: usize = 100;

/// The CA's certificate and key.
const CA: &str = "ca.key";

/// The CA's certificate alone, for nodes.
const CA_CERTIFICATE: &str = "ca.crt";

/// The mirror's certificate, the CA's behind it, and the mirror's key: one file, so that they
/// always belong together. Behind this the file's name says what names it is for: servers of one
/// store that go by other names do not take it from each other.
const SERVER: &str = "server-";

/// Names by which a mirror is known to its own machine.
const LOCAL: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

/// What had to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Nothing.
    Kept,
    /// A certificate of the CA that was there.
    Certificate,
    /// Everything.
    Everything,
}

/// A CA and a certificate in a folder.
#[derive(Clone, Debug)]
pub struct Own {
    folder: PathBuf,
    names: BTreeSet<String>,
}

impl Own {
    /// For these names and addresses, in `folder`, of which only the last part is made.
    pub fn new(
        folder: PathBuf,
        hosts: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Own, TlsError> {
        let mut names: BTreeSet<String> = LOCAL.map(str::to_owned).into();
        for host in hosts {
            names.insert(host_name(host.as_ref())?);
        }
        if names.len() > MAX_NAMES {
            return Err(TlsError::Make {
                what: "a certificate",
                why: format!("it would have more than {MAX_NAMES} names"),
            });
        }
        Ok(Own { folder, names })
    }

    /// The names and addresses, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Certificate and key of the mirror.
    pub fn file(&self) -> PathBuf {
        self.folder.join(self.file_name())
    }

    fn file_name(&self) -> String {
        let mut all = Sha256::new();
        for name in &self.names {
            all.update(name.as_bytes());
            all.update(b"\n");
        }
        format!("{SERVER}{}.pem", hex::encode(&all.finalize()[..6]))
    }

    /// The CA's certificate of a folder, where there is one.
    pub fn ca_file(folder: &Path) -> PathBuf {
        folder.join(CA_CERTIFICATE)
    }

    /// The file of its CA's certificate.
    pub(super) fn ca_path(&self) -> PathBuf {
        Own::ca_file(&self.folder)
    }

    /// The CA's certificate in PEM.
    pub fn ca_pem(&self) -> Result<String, TlsError> {
        let path = Own::ca_file(&self.folder);
        fs::read_to_string(&path).map_err(TlsError::read("the CA of the mirror", &path))
    }

    /// What the CA's certificate says.
    pub fn ca(&self) -> Result<Facts, TlsError> {
        self.facts(&Own::ca_file(&self.folder), "the CA of the mirror")
    }

    fn facts(&self, path: &Path, what: &'static str) -> Result<Facts, TlsError> {
        let first = certificates(path, what)?;
        Facts::of(first.first().map_or(&[][..], |first| first.as_ref()))
            .map_err(|why| TlsError::content(path, why, BROKEN))
    }

    /// Makes what is missing, and anew what does not fit or nears its end. May be done by
    /// several processes at once.
    pub fn renew(&self, now: Time) -> Result<Made, TlsError> {
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Ok(()) => owner::open_folder(&self.folder)
                .and_then(|folder| self.give(&folder))
                .map_err(TlsError::write(FOLDER, &self.folder))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(TlsError::write(FOLDER, &self.folder)(error)),
        }
        let new_ca = self.ensure_ca(now)?;
        if !new_ca && self.fits(now) {
            return Ok(Made::Kept);
        }
        self.issue(now)?;
        Ok(match new_ca {
            true => Made::Everything,
            false => Made::Certificate,
        })
    }

    /// What [`Own::renew`] would have to make. Changes nothing.
    ///
    /// # Errors
    /// Where it would fail, as far as one can tell.
    pub fn would_make(&self, now: Time) -> Result<Made, TlsError> {
        let path = self.folder.join(CA);
        let made = match path.try_exists().map_err(TlsError::read(FOLDER, &path))? {
            false => Made::Everything,
            true => {
                certificates(&path, "the CA of the mirror")?;
                match self.fits(now) {
                    true => return Ok(Made::Kept),
                    false => Made::Certificate,
                }
            }
        };
        if made == Made::Certificate {
            self.issuer(now)?;
        }
        Ok(made)
    }

    /// Whether the certificate there is may go on.
    fn fits(&self, now: Time) -> bool {
        let file = self.file();
        let pair = TlsFiles {
            certificate: file.clone(),
            key: file.clone(),
            client_ca: None,
            ca: None,
        };
        let (Ok(loaded), Ok(chain)) = (load(&pair), certificates(&file, "a certificate")) else {
            return false;
        };
        let ca = certificates(&Own::ca_file(&self.folder), "the CA of the mirror");
        let same_ca = ca.is_ok_and(|ca| chain.get(1) == ca.first());
        let same_names = loaded.facts.names.iter().eq(self.names.iter());
        let left = loaded.facts.left(now).unwrap_or(0);
        same_ca && same_names && left > RENEWED_BELOW
    }

    /// Makes a CA where there is none; answers whether it did.
    fn ensure_ca(&self, now: Time) -> Result<bool, TlsError> {
        let path = self.folder.join(CA);
        let mut made = false;
        if !path.try_exists().map_err(TlsError::read(FOLDER, &path))? {
            let key = new_key()?;
            let certificate = ca_params(&key, now)?.self_signed(&key).map_err(refused)?;
            let text = zeroize::Zeroizing::new(certificate.pem() + &key.serialize_pem());
            // another process may have been faster: then its CA counts
            made = self.put(CA, text.as_bytes(), 0o600, false)?;
        }
        let chain = certificates(&path, "the CA of the mirror")?;
        let beside = Own::ca_file(&self.folder);
        let is_there = certificates(&beside, "the CA of the mirror").is_ok_and(|c| c == chain);
        if !is_there {
            let text = self.part(&path, "CERTIFICATE")?;
            self.put(CA_CERTIFICATE, text.as_bytes(), 0o644, true)?;
        }
        Ok(made)
    }

    /// The CA, to sign with.
    fn issuer(&self, now: Time) -> Result<Issuer<'static, KeyPair>, TlsError> {
        let path = self.folder.join(CA);
        let ca_text = zeroize::Zeroizing::new(self.part(&path, "PRIVATE KEY")?);
        let ca_key = KeyPair::from_pem(&ca_text).map_err(|error| {
            let why = format!("the key of the mirror's CA cannot be read: {error}");
            TlsError::content(&path, why, BROKEN)
        })?;
        // made from the key alone, so the same as when the CA was made
        Ok(Issuer::new(ca_params(&ca_key, now)?, ca_key))
    }

    fn issue(&self, now: Time) -> Result<(), TlsError> {
        let path = self.folder.join(CA);
        let issuer = self.issuer(now)?;
        let key = new_key()?;
        let names: Vec<String> = self.names.iter().cloned().collect();
        let mut params = CertificateParams::new(names).map_err(refused)?;
        params.distinguished_name = named("kubepkg mirror");
        params.not_before = date_time_ymd(1970, 1, 1);
        params.not_after = date_time_ymd(year(now) + YEARS, 1, 1);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &issuer).map_err(refused)?;
        let ca = self.part(&path, "CERTIFICATE")?;
        let text = zeroize::Zeroizing::new(certificate.pem() + &ca + &key.serialize_pem());
        self.put(&self.file_name(), text.as_bytes(), 0o600, true)?;
        Ok(())
    }

    /// The first part of this kind of a PEM file.
    fn part(&self, path: &Path, label: &str) -> Result<String, TlsError> {
        let bytes = read_bounded(path, 64 * 1024).map_err(TlsError::read("a PEM file", path))?;
        let text = String::from_utf8_lossy(&bytes);
        let (begin, end) = (
            format!("-----BEGIN {label}-----"),
            format!("-----END {label}-----"),
        );
        let part = text
            .find(&begin)
            .and_then(|from| Some((from, text[from..].find(&end)? + from + end.len())));
        match part {
            Some((from, to)) => Ok(format!("{}\n", &text[from..to])),
            None => Err(TlsError::content(
                path,
                format!("it holds no part {label}"),
                BROKEN,
            )),
        }
    }

    /// Writes a file as one step. With `replace` not set, one that is there stays: then `false`.
    fn put(&self, name: &str, bytes: &[u8], mode: u32, replace: bool) -> Result<bool, TlsError> {
        let path = self.folder.join(name);
        let failed = || TlsError::write("the mirror's certificate", &path);
        let mut file = tempfile::Builder::new()
            .prefix(".tmp-")
            .permissions(fs::Permissions::from_mode(mode))
            .tempfile_in(&self.folder)
            .map_err(failed())?;
        file.write_all(bytes).map_err(failed())?;
        // the mask of this process took bits from it
        file.as_file()
            .set_permissions(fs::Permissions::from_mode(mode))
            .map_err(failed())?;
        file.as_file().sync_all().map_err(failed())?;
        self.give(file.as_file()).map_err(failed())?;
        let there = match replace {
            true => file.persist(&path).map(|_| true).map_err(|e| e.error),
            false => match file.persist_noclobber(&path) {
                Ok(_) => Ok(true),
                Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(e) => Err(e.error),
            },
        }
        .map_err(failed())?;
        let folder = fs::File::open(&self.folder).map_err(failed())?;
        folder.sync_all().map_err(failed())?;
        Ok(there)
    }

    /// Gives what was made to the owner of the folder around all of it: a mirror may be set up
    /// by root and run as somebody else.
    fn give(&self, made: &fs::File) -> io::Result<()> {
        let Some(above) = self.folder.parent() else {
            return Ok(());
        };
        let above = fs::metadata(above)?;
        owner::give(made, above.uid(), above.gid()).map(drop)
    }
}

const FOLDER: &str = "the folder of the mirror's certificate";

const BROKEN: &str = "move the folder it lies in away to have all of it made anew; nodes then need \
                      the new CA";

fn new_key() -> Result<KeyPair, TlsError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(refused)
}

fn refused(error: rcgen::Error) -> TlsError {
    TlsError::Make {
        what: "a certificate",
        why: error.to_string(),
    }
}

/// A CA is named after its key, so that two of them are told apart.
fn ca_params(key: &KeyPair, now: Time) -> Result<CertificateParams, TlsError> {
    let hash = hex::encode(Sha256::digest(key.public_key_raw()));
    let mut params = CertificateParams::new(Vec::new()).map_err(refused)?;
    params.distinguished_name = named(&format!("kubepkg mirror CA {}", &hash[..16]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after = date_time_ymd(year(now) + CA_YEARS, 1, 1);
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut whole = DistinguishedName::new();
    whole.push(DnType::CommonName, name);
    whole
}

/// Certificates end on the first day of a year. A clock that says nonsense is taken for one that
/// is not set.
fn year(now: Time) -> i32 {
    let year = now.to_string().get(..4).and_then(|year| year.parse().ok());
    year.filter(|year| (2026..9000).contains(year))
        .unwrap_or(2026)
}

/// Checks and normalises a name or address.
fn host_name(text: &str) -> Result<String, TlsError> {
    let refuse = |why| TlsError::Host {
        host: kubepkg_core::error::shown(text),
        why,
    };
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        if address.is_unspecified() {
            return Err(refuse(
                "it stands for all addresses, and nobody asks for it",
            ));
        }
        return Ok(address.to_string());
    }
    if text.contains("://") || text.contains('/') {
        return Err(refuse("it is a URL, not a host"));
    }
    if text.contains(':') {
        return Err(refuse("it has a port, which certificates do not have"));
    }
    let name = text.to_ascii_lowercase();
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    match labels.len() <= 253 && labels.split('.').all(label) {
        true => Ok(name),
        false => Err(refuse("it is no host name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_nodes_ask_for() {
        for (given, want) in [
            ("Mirror.Example.com", "mirror.example.com"),
            ("10.0.0.5", "10.0.0.5"),
            ("[FD00::5]", "fd00::5"),
            ("*.lan", "*.lan"),
        ] {
            assert_eq!(host_name(given).unwrap(), want);
        }
        for (bad, why) in [
            ("https://mirror.lan", "URL"),
            ("mirror.lan:5000", "port"),
            ("0.0.0.0", "all addresses"),
            ("mirror..lan", "no host name"),
            ("-x", "no host name"),
            ("", "no host name"),
            ("a b", "no host name"),
        ] {
            let error = host_name(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn the_ca_stays_and_what_it_signs_follows_the_names() {
        let store = tempfile::tempdir().unwrap();
        let folder = store.path().join("tls");
        let now = Time::from_unix(1_790_000_000);
        let own = Own::new(folder.clone(), ["mirror.lan", "10.0.0.5"]).unwrap();
        assert_eq!(own.would_make(now).unwrap(), Made::Everything);
        assert!(!folder.exists());
        assert_eq!(own.renew(now).unwrap(), Made::Everything);
        assert_eq!(own.would_make(now).unwrap(), Made::Kept);
        let (ca, pem) = (own.ca().unwrap(), own.ca_pem().unwrap());
        assert!(!pem.contains("KEY"));
        let facts = own.facts(&own.file(), "it").unwrap();
        assert_eq!(facts.from.unix(), 0);
        assert!(facts.names.contains(&"10.0.0.5".to_owned()), "{facts:?}");
        assert!(facts.until.since(now) > 9 * 365 * 86_400);
        assert!(ca.until.since(facts.until) > 0);
        assert_eq!(own.renew(now).unwrap(), Made::Kept);

        let other = Own::new(folder.clone(), ["mirror.example.com"]).unwrap();
        assert_eq!(other.would_make(now).unwrap(), Made::Certificate);
        assert!(!other.file().exists());
        assert_eq!(other.renew(now).unwrap(), Made::Certificate);
        // two servers of one store do not take theirs from each other
        assert_eq!(own.renew(now).unwrap(), Made::Kept);
        assert_eq!(other.renew(now).unwrap(), Made::Kept);
        assert_ne!(own.file(), other.file());
        let same = Own::new(folder.clone(), ["10.0.0.5", "Mirror.lan"]).unwrap();
        assert_eq!(same.file(), own.file());
        assert_eq!(other.ca().unwrap(), ca);
        let later = Time::from_unix(now.unix() + 8 * 365 * 86_400);
        assert_eq!(other.renew(later).unwrap(), Made::Certificate);
        assert_eq!(other.renew(later).unwrap(), Made::Kept);
        let server = other.file_name();
        for (file, mode) in [(CA, 0o600), (&server, 0o600), (CA_CERTIFICATE, 0o644)] {
            let found = folder.join(file).metadata().unwrap().mode() & 0o777;
            assert_eq!(found, mode, "{file}");
        }
        // a half that was lost is made again, and keys that do not fit are noticed
        fs::remove_file(folder.join(CA_CERTIFICATE)).unwrap();
        fs::write(other.file(), "-----BEGIN CERTIFICATE-----\n").unwrap();
        assert_eq!(other.renew(later).unwrap(), Made::Certificate);
        assert_eq!(other.ca_pem().unwrap(), pem);
        fs::write(folder.join(CA), "nothing").unwrap();
        assert!(other.would_make(later).is_err());
        let error = other.renew(later).unwrap_err();
        assert!(error.to_string().contains("no certificate"), "{error}");
    }
}
