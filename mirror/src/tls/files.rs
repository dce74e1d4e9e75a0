//! From PEM files to what TLS is spoken with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::ca::Ca;
use super::error::TlsError;
use super::facts::Facts;
use crate::changes::read_bounded;

/// Longest file of certificates or keys, in bytes: a chain has a few thousand.
const MAX_PEM: u64 = 1024 * 1024;

/// In which order protocols are chosen. Clients that would take both get HTTP/1.1: each of their
/// transfers has a connection, and so a core, of its own, and no window that has to be widened.
const PROTOCOLS: [&[u8]; 2] = [b"http/1.1", b"h2"];

/// The files TLS is spoken with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and a CA clients trust.
    pub certificate: PathBuf,
    /// Its private key; may be the same file.
    pub key: PathBuf,
    /// CA certificates: only clients with a certificate of one of these are served.
    pub client_ca: Option<PathBuf>,
    /// The certificate of the CA that vouches for the server's, where it is handed out.
    pub ca: Option<PathBuf>,
}

impl TlsFiles {
    /// All of them.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.certificate.clone(), self.key.clone()];
        paths.extend(self.client_ca.clone());
        paths.extend(self.ca.clone());
        paths
    }
}

/// What was read: the settings of the protocol, and what the server's certificate says.
pub(super) struct Loaded {
    pub(super) config: ServerConfig,
    pub(super) facts: Facts,
    pub(super) ca: Option<Ca>,
}

pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Reads and checks everything.
pub(super) fn load(files: &TlsFiles) -> Result<Loaded, TlsError> {
    let chain = certificates(&files.certificate, "the certificate of the mirror")?;
    let key = private_key(&files.key)?;
    let facts = Facts::of(chain.first().map_or(&[][..], |first| first.as_ref()))
        .map_err(|why| TlsError::content(&files.certificate, why, "give a certificate in PEM"))?;
    let ca = files.ca.as_deref().map(Ca::read).transpose()?;
    let unusual = |error: rustls::Error| TlsError::Make {
        what: "settings for TLS",
        why: error.to_string(),
    };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(unusual)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => builder.with_client_cert_verifier(client_verifier(path)?),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| mismatch(files, &error))?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    // clients that come back use one; each costs an encryption and a record
    config.send_tls13_tickets = 1;
    Ok(Loaded { config, facts, ca })
}

fn mismatch(files: &TlsFiles, error: &rustls::Error) -> TlsError {
    let certificate = files.certificate.display();
    let (why, hint) = match error {
        rustls::Error::InconsistentKeys(_) => (
            format!("this key does not belong to the certificate in {certificate}"),
            "give the key the certificate was requested with; the certificate of the server comes \
             first in its file, those of CAs behind it",
        ),
        error => (
            format!("this key and the certificate in {certificate} cannot be used: {error}"),
            "give an ECDSA, Ed25519 or RSA key in PEM without passphrase, and its certificate",
        ),
    };
    TlsError::content(&files.key, why, hint)
}

/// The certificates of a PEM file, at least one.
pub(super) fn certificates(
    path: &Path,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let hint = "give a file with lines like -----BEGIN CERTIFICATE-----";
    let bytes = read_bounded(path, MAX_PEM).map_err(TlsError::read(what, path))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(TlsError::content(path, "it holds no certificate", hint))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::content(
            path,
            format!("it is no PEM file: {error}"),
            hint,
        )),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let what = "the private key of the mirror";
    let bytes = read_bounded(path, MAX_PEM).map_err(TlsError::read(what, path))?;
    let bytes = zeroize::Zeroizing::new(bytes);
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let sealed = bytes
            .windows(9)
            .any(|part| part.eq_ignore_ascii_case(b"ENCRYPTED"));
        let (why, hint) = match error {
            PemError::NoItemsFound if sealed => (
                "the key is under a passphrase, and nobody is there to give it".to_owned(),
                "write it without: openssl pkey -in KEY -out NEW; keep NEW readable by the mirror \
                 alone",
            ),
            PemError::NoItemsFound => (
                "it holds no private key".to_owned(),
                "give a file with a line like -----BEGIN PRIVATE KEY-----",
            ),
            error => (
                format!("it is no PEM file: {error}"),
                "give a file with a line like -----BEGIN PRIVATE KEY-----",
            ),
        };
        TlsError::content(path, why, hint)
    })
}

/// Who checks the certificates of clients against the CA in a file.
pub(super) fn client_verifier(path: &Path) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = Arc::new(client_roots(path)?);
    WebPkiClientVerifier::builder_with_provider(roots, provider())
        .build()
        .map_err(|error| {
            let hint = "give the certificate of the CA that signs those of clients";
            TlsError::content(path, format!("no client can be checked: {error}"), hint)
        })
}

fn client_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, "the CA of clients")? {
        roots.add(certificate).map_err(|error| {
            let why = format!("a certificate in it is none of a CA: {error}");
            TlsError::content(path, why, "give the certificate of a CA in PEM")
        })?;
    }
    Ok(roots)
}
