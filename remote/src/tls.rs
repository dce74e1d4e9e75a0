//! Which certificate authorities are trusted and which certificate is shown, and the HTTP
//! clients built on them.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use http::HeaderMap;
use reqwest::{Certificate, Identity, redirect};

use crate::error::{Fault, RemoteError};
use crate::http::root_cause;

/// Sent with every request.
const USER_AGENT: &str = concat!("kubepkg/", env!("CARGO_PKG_VERSION"));

/// Longest wait for a connection. A host that drops packets is noticed while somebody is
/// still looking.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest silence within an answer. There is no limit for a whole download: slow lines are
/// no error, dead ones are.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Largest file of certificates: the whole Mozilla list is below 300 KiB.
const MAX_CERTIFICATES: u64 = 4 << 20;

/// Certificates: whose are trusted besides the system's, and our own.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    authorities: Vec<Certificate>,
    identity: Option<Identity>,
}

impl Certificates {
    /// Also trusts what is in the PEM file `path`.
    pub(crate) fn trust(&mut self, path: &Path) -> Result<(), RemoteError> {
        let wrong = |fault| RemoteError::new(path.display().to_string(), fault);
        let certificates = authorities(path).map_err(wrong)?;
        // Whether each certificate is one shows when a client is built.
        let trial = reqwest::Client::builder().tls_certs_only(certificates.clone());
        let trial = trial.build().map_err(|e| Fault::CaFile(root_cause(&e)));
        trial.map_err(wrong)?;
        self.authorities.extend(certificates);
        Ok(())
    }

    /// Shows the certificate in the PEM file `certificate`, whose key is in `key`; in the same
    /// file where that is `None`.
    pub(crate) fn show(
        &mut self,
        certificate: &Path,
        key: Option<&Path>,
    ) -> Result<(), RemoteError> {
        let mut pem = Vec::new();
        for path in [Some(certificate), key].into_iter().flatten() {
            let read = bounded(path);
            pem.extend(read.map_err(|f| RemoteError::new(path.display().to_string(), f))?);
            pem.push(b'\n');
        }
        let wrong = |text: String| {
            let fault = Fault::ClientCertificate(text);
            RemoteError::new(certificate.display().to_string(), fault)
        };
        let identity = Identity::from_pem(&pem).map_err(|e| wrong(root_cause(&e)))?;
        let trial = reqwest::Client::builder()
            .tls_certs_only([])
            .identity(identity.clone());
        trial.build().map_err(|e| wrong(root_cause(&e)))?;
        self.identity = Some(identity);
        Ok(())
    }

    /// The same without a certificate of our own.
    pub(crate) fn unknown(&self) -> Certificates {
        Certificates {
            authorities: self.authorities.clone(),
            identity: None,
        }
    }
}

/// The way to a host: certificates, and headers that go with every request.
pub(crate) struct Line {
    certificates: Certificates,
    pub(crate) headers: HeaderMap,
    /// One for each [`Use`].
    built: [OnceLock<Built>; 4],
}

/// What a client is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// It talks to this machine itself, and never uses a proxy.
    pub(crate) direct: bool,
    /// It sends something large. The library counts a silence from the moment a request is
    /// begun, so whoever uploads listens for signs of life himself.
    pub(crate) upload: bool,
}

/// An HTTP client.
pub(crate) struct Built {
    pub(crate) client: reqwest::Client,
    /// Whether it can recognise any server.
    pub(crate) any_authority: bool,
}

impl Line {
    pub(crate) fn new(certificates: Certificates, headers: HeaderMap) -> Line {
        Line {
            certificates,
            headers,
            built: Default::default(),
        }
    }

    /// A client. Reading the system's authorities takes milliseconds, so clients are built when
    /// they are needed.
    pub(crate) fn client(&self, what_for: Use) -> Result<&Built, Fault> {
        let cell = &self.built[usize::from(what_for.direct) * 2 + usize::from(what_for.upload)];
        if let Some(built) = cell.get() {
            return Ok(built);
        }
        let built = self
            .build(what_for)
            .map_err(|e| Fault::CaFile(root_cause(&e)))?;
        Ok(cell.get_or_init(|| built))
    }

    fn build(&self, what_for: Use) -> Result<Built, reqwest::Error> {
        let builder = || {
            let builder = reqwest::Client::builder()
                .user_agent(USER_AGENT)
                .connect_timeout(CONNECT_TIMEOUT)
                // Signed addresses of blob stores must not travel on to the next host.
                .referer(false)
                .redirect(redirect::Policy::none());
            let builder = match &self.certificates.identity {
                Some(identity) => builder.identity(identity.clone()),
                None => builder,
            };
            let builder = match what_for.upload {
                true => builder,
                false => builder.read_timeout(IDLE_TIMEOUT),
            };
            match what_for.direct {
                true => builder.no_proxy(),
                false => builder,
            }
        };
        let own = &self.certificates.authorities;
        let with_system = builder().tls_certs_merge(own.iter().cloned());
        match with_system.build() {
            Ok(client) => Ok(Built {
                client,
                any_authority: true,
            }),
            // The platform's verifier refuses to be built where the system has no
            // authorities, as in minimal containers. Our own do without the system's, and
            // plain HTTP without any.
            Err(_) => Ok(Built {
                client: builder().tls_certs_only(own.iter().cloned()).build()?,
                any_authority: !own.is_empty(),
            }),
        }
    }
}

fn bounded(path: &Path) -> Result<Vec<u8>, Fault> {
    if std::fs::metadata(path).map_err(Fault::File)?.len() > MAX_CERTIFICATES {
        return Err(Fault::TooLarge {
            limit: MAX_CERTIFICATES,
        });
    }
    std::fs::read(path).map_err(Fault::File)
}

fn authorities(path: &Path) -> Result<Vec<Certificate>, Fault> {
    let pem = bounded(path)?;
    let certificates =
        Certificate::from_pem_bundle(&pem).map_err(|e| Fault::CaFile(e.to_string()))?;
    // A file without a single certificate is accepted by the parser and would leave the
    // user wondering why no server is trusted.
    if certificates.is_empty() {
        return Err(Fault::CaFile("it holds no certificate".to_owned()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::error::{Classify, Kind};

    fn trusted(path: &Path) -> RemoteError {
        Certificates::default().trust(path).unwrap_err()
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "not a certificate").unwrap();
        let error = trusted(&path);
        assert!(error.to_string().contains("ca.pem"), "{error}");
        assert_eq!(error.kind(), Kind::Usage);
        let mut certificates = Certificates::default();
        let error = certificates.show(&path, None).unwrap_err();
        assert!(
            matches!(error.fault(), Fault::ClientCertificate(_)),
            "{error}"
        );
        assert_eq!(error.kind(), Kind::Usage);
    }

    #[test]
    fn a_certificate_that_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let pem = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        std::fs::write(&path, pem).unwrap();
        let error = trusted(&path);
        assert!(matches!(error.fault(), Fault::CaFile(_)), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = trusted(Path::new("no/such.pem"));
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(error.place().as_deref(), Some("no/such.pem"));
    }
}
