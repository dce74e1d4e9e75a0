//! Which certificate authorities are trusted, and the HTTP clients built on them.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::{Certificate, redirect};
use url::Url;

use crate::address::PlainHosts;
use crate::error::{Fault, RemoteError, shown_url};
use crate::http::root_cause;

/// Sent with every request.
pub(crate) const USER_AGENT: &str = concat!("kubepkg/", env!("CARGO_PKG_VERSION"));

/// Longest wait for a connection. A host that drops packets is noticed while somebody is
/// still looking.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Longest silence within an answer. There is no limit for a whole download: slow lines are
/// no error, dead ones are.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Redirects that are followed: registries need one or two, Go's clients stop at ten.
const MAX_REDIRECTS: usize = 10;

/// Largest file of certificate authorities: the whole Mozilla list is below 300 KiB.
const MAX_CA_FILE: u64 = 4 << 20;

/// The certificate authorities of this run: the system's and those of one file.
pub(crate) struct Authorities {
    /// The file named by the user, as PEM.
    pub(crate) own: Option<Vec<u8>>,
    certificates: Vec<Certificate>,
    system: OnceLock<bool>,
}

/// An HTTP client.
pub(crate) struct Built {
    pub(crate) client: reqwest::Client,
    /// Whether it can recognise any server.
    pub(crate) any_authority: bool,
}

impl Authorities {
    /// Reads `ca_file`.
    pub(crate) fn load(ca_file: Option<&Path>) -> Result<Authorities, RemoteError> {
        let (own, certificates) = match ca_file {
            Some(path) => {
                let wrong = |fault| RemoteError::new(path.display().to_string(), fault);
                let (pem, certificates) = read(path).map_err(wrong)?;
                // Whether each certificate is one shows when a client is built.
                let trial = reqwest::Client::builder().tls_certs_only(certificates.clone());
                let trial = trial.build().map_err(|e| Fault::CaFile(root_cause(&e)));
                trial.map_err(wrong)?;
                (Some(pem), certificates)
            }
            None => (None, Vec::new()),
        };
        Ok(Authorities {
            own,
            certificates,
            system: OnceLock::new(),
        })
    }

    /// Whether the system has any. The platform's verifier refuses to be built where it has
    /// none, as in minimal containers; nothing else can fail in a client without settings.
    pub(crate) fn system(&self) -> bool {
        *self
            .system
            .get_or_init(|| reqwest::Client::builder().build().is_ok())
    }

    /// A client; `direct` ones never use a proxy. Reading the system's authorities takes
    /// milliseconds, so clients are built when they are needed.
    pub(crate) fn client(
        &self,
        plain: &Arc<PlainHosts>,
        direct: bool,
    ) -> Result<Built, reqwest::Error> {
        let builder = || {
            let builder = reqwest::Client::builder()
                .user_agent(USER_AGENT)
                .connect_timeout(CONNECT_TIMEOUT)
                .read_timeout(IDLE_TIMEOUT)
                // Signed addresses of blob stores must not travel on to the next host.
                .referer(false)
                .redirect(redirects(Arc::clone(plain)));
            match direct {
                true => builder.no_proxy(),
                false => builder,
            }
        };
        if self.certificates.is_empty() {
            if let Ok(client) = builder().build() {
                return Ok(Built {
                    client,
                    any_authority: true,
                });
            }
            // Without authorities plain HTTP still works.
            return Ok(Built {
                client: builder().tls_certs_only([]).build()?,
                any_authority: false,
            });
        }
        let builder = builder().tls_certs_merge(self.certificates.iter().cloned());
        Ok(Built {
            client: builder.build()?,
            any_authority: true,
        })
    }
}

fn read(path: &Path) -> Result<(Vec<u8>, Vec<Certificate>), Fault> {
    if std::fs::metadata(path).map_err(Fault::File)?.len() > MAX_CA_FILE {
        return Err(Fault::TooLarge { limit: MAX_CA_FILE });
    }
    let pem = std::fs::read(path).map_err(Fault::File)?;
    let certificates =
        Certificate::from_pem_bundle(&pem).map_err(|e| Fault::CaFile(e.to_string()))?;
    // A file without a single certificate is accepted by the parser and would leave the
    // user wondering why no server is trusted.
    if certificates.is_empty() {
        return Err(Fault::CaFile("it holds no certificate".to_owned()));
    }
    Ok((pem, certificates))
}

/// A redirect broke a rule; found again in the chain of the request's error.
#[derive(Debug, thiserror::Error)]
#[error("redirect to {to} refused: {why}")]
pub(crate) struct RedirectRefused {
    pub(crate) to: String,
    pub(crate) why: &'static str,
}

fn redirects(plain: Arc<PlainHosts>) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        match refusal(attempt.previous(), attempt.url(), &plain) {
            Some(why) => {
                let to = shown_url(attempt.url());
                attempt.error(RedirectRefused { to, why })
            }
            None => attempt.follow(),
        }
    })
}

/// Why a redirect to `next` is not followed after `previous` URLs were asked.
fn refusal(previous: &[Url], next: &Url, plain: &PlainHosts) -> Option<&'static str> {
    let from = previous.last().map(Url::scheme);
    if previous.len() > MAX_REDIRECTS {
        Some("there were too many before it")
    } else if from == Some("https") && next.scheme() == "http" {
        Some("it leads from HTTPS to plain HTTP")
    } else if !plain.allows_url(next) {
        Some("it leads to plain HTTP, which is not allowed for that host")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::error::{Classify, Kind};

    #[test]
    fn a_file_without_certificates_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "not a certificate").unwrap();
        let Err(error) = Authorities::load(Some(&path)) else {
            panic!("accepted");
        };
        assert!(error.to_string().contains("ca.pem"), "{error}");
        assert_eq!(error.kind(), Kind::Usage);
    }

    #[test]
    fn redirects_never_lead_to_less_safety() {
        let plain = PlainHosts::default();
        let url = |text: &str| text.parse::<Url>().unwrap();
        let follows = |from: &str, to: &str| refusal(&[url(from)], &url(to), &plain).is_none();
        assert!(follows("https://a.example/", "https://b.example/"));
        assert!(follows("http://127.0.0.1:1/", "http://127.0.0.1:2/"));
        assert!(follows("http://127.0.0.1:1/", "https://b.example/"));
        assert!(!follows("https://a.example/", "http://a.example/"));
        assert!(!follows("https://a.example/", "http://127.0.0.1/"));
        assert!(!follows("http://127.0.0.1:1/", "http://b.example/"));
        let many = vec![url("https://a.example/"); MAX_REDIRECTS + 1];
        assert!(refusal(&many, &url("https://a.example/"), &plain).is_some());
    }

    #[test]
    fn a_certificate_that_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let pem = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
        std::fs::write(&path, pem).unwrap();
        let Err(error) = Authorities::load(Some(&path)) else {
            panic!("accepted");
        };
        assert!(matches!(error.fault(), Fault::CaFile(_)), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let Err(error) = Authorities::load(Some(Path::new("no/such.pem"))) else {
            panic!("accepted");
        };
        assert_eq!(error.kind(), Kind::NotFound);
        assert_eq!(error.place().as_deref(), Some("no/such.pem"));
    }
}
