//! What can go wrong on the way to another machine, and what a user can do about it.

use std::fmt;
use std::io;

use kubepkg_core::Digest;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::location::{LocationError, redacted};
use kubepkg_core::manifest::ManifestError;
use kubepkg_core::reference::ParseReferenceError;

use crate::http::root_cause;
use crate::limit::Limit;

/// A failure and the place it concerns: a redacted URL, a reference, or a file.
#[derive(Debug)]
pub struct RemoteError {
    place: String,
    fault: Box<Fault>,
}

impl RemoteError {
    pub(crate) fn new(place: impl Into<String>, fault: Fault) -> RemoteError {
        RemoteError {
            place: place.into(),
            fault: Box::new(fault),
        }
    }

    /// What went wrong.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// Whether what was asked for does not exist there.
    pub fn is_not_found(&self) -> bool {
        self.kind() == Kind::NotFound
    }

    /// Whether this says more of us than of what was asked for: credentials that are refused or
    /// cannot be used, a limit, a failure on this machine. What does not exist is refused to
    /// those who show nothing, too, by many registries.
    pub fn is_of_us(&self) -> bool {
        match &*self.fault {
            Fault::Denied { given, .. } => !matches!(given, Given::None),
            Fault::RateLimited { .. } | Fault::Sink(_) | Fault::NoCertificates => true,
            _ => false,
        }
    }

    /// Whether `host` itself wants to know who asks.
    pub(crate) fn is_login_wanted_by(&self, host: &str) -> bool {
        matches!(&*self.fault, Fault::Denied { status: 401, host: by, .. } if by == host)
    }

    /// The same, where the refused request carried these credentials.
    pub(crate) fn with(mut self, credentials: Given) -> RemoteError {
        if let Fault::Denied { given, .. } = &mut *self.fault {
            *given = credentials;
        }
        self
    }

    /// Whether the files read so far and this one are of two states of a mirror: reading them
    /// anew from the first one helps.
    pub fn has_changed_meanwhile(&self) -> bool {
        matches!(*self.fault, Fault::Changed)
    }
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.fault)
    }
}

impl std::error::Error for RemoteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // The fault is part of this error's own text; only what lies below it is a cause.
        self.fault.source()
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The connection would not be encrypted and nobody allowed that.
    #[error("this would be plain HTTP to {host}, which anyone on the way can read and change")]
    PlainHttp {
        /// `host[:port]`.
        host: String,
    },
    /// A redirect that is not followed.
    #[error("the redirect to {to} is not followed: {why}")]
    Redirect {
        /// The target, redacted.
        to: String,
        /// The rule it breaks.
        why: &'static str,
    },
    /// There is no certificate authority to check a server's certificate with.
    #[error("this machine has no certificate authorities, so no server can be recognised")]
    NoCertificates,
    /// The file of certificate authorities cannot be used.
    #[error("this is no PEM file with certificates: {0}")]
    CaFile(String),
    /// The certificate that is to be shown cannot be used.
    #[error("this is no PEM file with a certificate and its key: {0}")]
    ClientCertificate(String),
    /// A file of a folder of host settings cannot be used.
    #[error("these settings of a host cannot be used: {0}")]
    HostSettings(String),
    /// The server's certificate or its TLS is not acceptable.
    #[error("no secure connection can be made")]
    Tls(#[source] reqwest::Error),
    /// The HTTP proxy on the way lets nothing through.
    #[error("{}", refused_by_proxy(.proxy, .host, *.login))]
    Proxy {
        /// `host[:port]` of the proxy.
        proxy: String,
        /// `host[:port]` that was to be reached.
        host: String,
        /// Whether the proxy wants to know who asks.
        login: bool,
        /// How it failed, where there is more to say.
        #[source]
        source: Option<reqwest::Error>,
    },
    /// It does not exist there.
    #[error("it does not exist there")]
    NotFound,
    /// 401 or 403.
    #[error("{}", denied(*.status, .host, .given, .message))]
    Denied {
        /// HTTP status.
        status: u16,
        /// The host that refuses.
        host: String,
        /// Which credentials were sent.
        given: Given,
        /// What the other side says.
        message: String,
    },
    /// Another HTTP status than expected.
    #[error("the answer is HTTP status {status}{}", said(.message))]
    Status {
        /// HTTP status.
        status: u16,
        /// What the other side says, bounded and escaped; may be empty.
        message: String,
    },
    /// The other side wants fewer requests, and still did after all pauses; or it wants a
    /// longer pause than we make.
    #[error("{host} limits how much may be fetched{limit}{}", said(.message))]
    RateLimited {
        /// `host[:port]`.
        host: String,
        /// What it says of its limit.
        limit: Box<Limit>,
        /// What else it says, bounded and escaped; may be empty.
        message: String,
    },
    /// No connection, or it broke.
    #[error("the connection failed")]
    Network(#[source] reqwest::Error),
    /// Nothing was heard for too long while something was sent.
    #[error("nothing was heard for {seconds} seconds")]
    Silent {
        /// How long.
        seconds: u64,
    },
    /// The body ended early, again and again.
    #[error("the connection ended after {received}{} bytes", of(.expected))]
    Cut {
        /// Bytes that came.
        received: u64,
        /// Bytes that should have come, where that is known.
        expected: Option<u64>,
        /// How it ended, where that is known.
        #[source]
        source: Option<reqwest::Error>,
    },
    /// More than the limit.
    #[error("it is larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// Another size than the descriptor says.
    #[error("it has {got} bytes, its descriptor says {expected}")]
    Length {
        /// What the descriptor says.
        expected: u64,
        /// What the other side has; a lower bound where it sends without end.
        got: u64,
    },
    /// Other content than asked for.
    #[error("the content received has digest {got}, not {expected}")]
    Digest {
        /// What was asked for.
        expected: Box<Digest>,
        /// What came.
        got: Box<Digest>,
    },
    /// An answer that makes no sense.
    #[error("the answer makes no sense: {0}")]
    Shape(String),
    /// A manifest that cannot be carried.
    #[error(transparent)]
    Manifest(ManifestError),
    /// A chart repository has no such chart or version.
    #[error("{0}")]
    NoChart(String),
    /// A mirror took in something newer between two files that belong together.
    #[error("the mirror got new files while they were read")]
    Changed,
    /// No place in the mirror.
    #[error(transparent)]
    Location(LocationError),
    /// Not a reference.
    #[error(transparent)]
    Reference(ParseReferenceError),
    /// A URL that cannot be used here.
    #[error("{0}")]
    Url(String),
    /// The file of credentials cannot be used.
    #[error("these credentials cannot be read: {0}")]
    Credentials(String),
    /// A local file cannot be read.
    #[error("the file cannot be read")]
    File(#[source] io::Error),
    /// What was received cannot be stored.
    #[error("what was received cannot be written")]
    Sink(#[source] io::Error),
}

/// What to do where a server is not content with the certificate shown to it.
const OUR_CERTIFICATE: &str = "the server wants to see a certificate: show one that it accepts with \
     --cert FILE --cert-key FILE, or name it as `client` in --hosts-dir";

/// Whether a failure of TLS is the server's complaint about our certificate, or that there is none.
fn is_about_ours(cause: &str) -> bool {
    let alert = cause.rsplit_once("fatal alert: ").map(|(_, alert)| alert);
    matches!(
        alert,
        Some("CertificateRequired" | "BadCertificate" | "CertificateUnknown" | "UnknownCA")
    )
}

/// Which credentials a refused request carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// None were known for the host.
    None,
    /// Those that are configured for it.
    Own,
    /// There are some that cannot be used; the text says why.
    Unusable(String),
}

fn of(expected: &Option<u64>) -> String {
    expected.map_or_else(String::new, |bytes| format!(" of {bytes}"))
}

fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

fn refused_by_proxy(proxy: &str, host: &str, login: bool) -> String {
    match login {
        true => format!("the proxy {proxy} wants a user and password before it leads to {host}"),
        false => format!("the proxy {proxy} gives no connection to {host}"),
    }
}

fn denied(status: u16, host: &str, given: &Given, message: &str) -> String {
    let how = match given {
        Given::None => "without credentials".to_owned(),
        Given::Own => "with the credentials configured for it".to_owned(),
        Given::Unusable(why) => format!("without credentials ({why})"),
    };
    format!(
        "{host} gives no access {how} (HTTP status {status}){}",
        said(message)
    )
}

/// Text of another machine as it may appear in a message: bounded and escaped.
pub(crate) fn shown(text: &str) -> String {
    kubepkg_core::error::shown(text.trim())
}

/// What the other side says of its refusal: the messages of a registry's error envelope, or
/// the text as it is.
pub(crate) fn in_words(text: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Envelope {
        errors: Vec<Said>,
    }
    #[derive(serde::Deserialize)]
    struct Said {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(envelope) = serde_json::from_str::<Envelope>(text) else {
        return shown(text);
    };
    let words = envelope.errors.into_iter().map(|said| match said {
        Said { code, message } if message.is_empty() => code,
        Said { message, .. } => message,
    });
    shown(&words.collect::<Vec<_>>().join("; "))
}

/// A URL as it may appear in a message.
pub(crate) fn shown_url(url: &url::Url) -> String {
    redacted(url.as_str())
}

impl Classify for RemoteError {
    fn kind(&self) -> Kind {
        match &*self.fault {
            Fault::PlainHttp { .. }
            | Fault::CaFile(_)
            | Fault::ClientCertificate(_)
            | Fault::HostSettings(_)
            | Fault::Location(_)
            | Fault::Reference(_)
            | Fault::Url(_) => Kind::Usage,
            Fault::NotFound | Fault::NoChart(_) => Kind::NotFound,
            Fault::File(e) if e.kind() == io::ErrorKind::NotFound => Kind::NotFound,
            Fault::Redirect { .. }
            | Fault::TooLarge { .. }
            | Fault::Length { .. }
            | Fault::Digest { .. }
            | Fault::Shape(_)
            | Fault::Manifest(_) => Kind::Refused,
            Fault::NoCertificates | Fault::Credentials(_) | Fault::File(_) | Fault::Sink(_) => {
                Kind::Failed
            }
            Fault::Tls(_)
            | Fault::Denied { .. }
            | Fault::Status { .. }
            | Fault::RateLimited { .. }
            | Fault::Network(_)
            | Fault::Proxy { .. }
            | Fault::Changed
            | Fault::Silent { .. }
            | Fault::Cut { .. } => Kind::Remote,
        }
    }

    fn place(&self) -> Option<String> {
        Some(self.place.clone())
    }

    fn hint(&self) -> Option<String> {
        match &*self.fault {
            Fault::PlainHttp { host } => Some(format!(
                "if that is what you want, allow it with --plain-http {host}"
            )),
            Fault::NoCertificates => Some(
                "install the package ca-certificates, or name a PEM file with --ca-file FILE"
                    .to_owned(),
            ),
            Fault::Tls(error) if is_about_ours(&root_cause(error)) => Some(OUR_CERTIFICATE.to_owned()),
            Fault::Status { message, .. } if message.contains("SSL certificate") => {
                Some(OUR_CERTIFICATE.to_owned())
            }
            Fault::Tls(_) => Some(
                "if the server's certificate comes from an authority of your own, name it with \
                 --ca-file FILE; if the server speaks plain HTTP, --plain-http HOST allows that"
                    .to_owned(),
            ),
            Fault::Denied { host, given, .. } => Some(match given {
                Given::None => format!(
                    "if {host} wants credentials, log in with `docker login {host}` or \
                     `skopeo login {host}` (a Helm repository: `helm repo add NAME URL --username \
                     USER`), or name a file with --registry-config FILE; some registries also \
                     answer so when the name is wrong"
                ),
                Given::Own => format!(
                    "check the user and password kept for {host} (a new `docker login {host}` \
                     does), and that the name is right"
                ),
                Given::Unusable(_) => format!(
                    "write an entry with `auth` for {host} into a file of its own and name it \
                     with --registry-config FILE"
                ),
            }),
            Fault::Network(_) => Some(
                "check the name and the way there; a proxy is taken from HTTPS_PROXY, and --mirror \
                 URL fetches through a registry nearby"
                    .to_owned(),
            ),
            Fault::Proxy { host, login, .. } => Some(match login {
                true => "name a user in the address of the proxy, as in \
                         HTTPS_PROXY=http://USER:PASSWORD@PROXY:PORT (HTTP_PROXY for plain HTTP)"
                    .to_owned(),
                false => format!(
                    "the proxy is the one in HTTPS_PROXY (HTTP_PROXY for plain HTTP): check its \
                     address, user and password, and whether it may lead to {host}; \
                     NO_PROXY={host} goes past it"
                ),
            }),
            Fault::RateLimited { host, .. } => Some(format!(
                "try again later; log in, for registries allow more to those they know: \
                 `docker login {host}` or `skopeo login {host}`; or ask for less at once: \
                 --per-host 1"
            )),
            Fault::Digest { .. } | Fault::Length { .. } => Some(
                "what the other side serves is damaged or was changed on the way; a proxy or \
                 cache in between is a common cause"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn retry(&self) -> bool {
        match &*self.fault {
            Fault::Changed => true,
            fault => fault.is_passing(),
        }
    }
}

impl Fault {
    /// Whether asking once more in a moment may help.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Fault::Status { status, .. } => crate::retry::is_transient(*status),
            Fault::RateLimited { .. }
            | Fault::Network(_)
            | Fault::Silent { .. }
            | Fault::Cut { .. } => true,
            // A proxy that knows us may lead there in a moment.
            Fault::Proxy { login, .. } => !login,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_host_and_the_way_out() {
        let error = RemoteError::new(
            "registry.example.com/a/b:1",
            Fault::Denied {
                status: 401,
                host: "registry.example.com".to_owned(),
                given: Given::None,
                message: "UNAUTHORIZED".to_owned(),
            },
        );
        let text = error.to_string();
        assert!(text.contains("registry.example.com/a/b:1") && text.contains("401"));
        assert!(error.hint().unwrap().contains("--registry-config"));
        assert!(!error.retry());
    }

    #[test]
    fn a_registry_speaks_for_itself() {
        let text = r#"{"errors":[{"code":"DENIED","message":"no \u001b access","detail":{}},
            {"code":"UNKNOWN"}]}"#;
        assert_eq!(in_words(text), "no \\u{1b} access; UNKNOWN");
        assert_eq!(in_words("plain"), "plain");
        assert_eq!(in_words(r#"{"token":"x"}"#), r#"{"token":"x"}"#);
    }

    #[test]
    fn a_server_that_complains_of_our_certificate_is_understood() {
        for (cause, ours) in [
            ("received fatal alert: CertificateRequired", true),
            ("received fatal alert: UnknownCA", true),
            ("received fatal alert: ProtocolVersion", false),
            ("invalid peer certificate: UnknownIssuer", false),
        ] {
            assert_eq!(is_about_ours(cause), ours, "{cause}");
        }
    }

    #[test]
    fn a_proxy_that_lets_nothing_through_is_named() {
        for (login, word, passing) in [(true, "USER:PASSWORD", false), (false, "NO_PROXY=h", true)]
        {
            let fault = Fault::Proxy {
                proxy: "proxy.example:3128".to_owned(),
                host: "h".to_owned(),
                login,
                source: None,
            };
            let error = RemoteError::new("h/a:1", fault);
            assert!(error.to_string().contains("proxy.example:3128"), "{error}");
            assert!(error.hint().unwrap().contains(word), "{:?}", error.hint());
            assert_eq!(error.retry(), passing);
        }
    }

    #[test]
    fn foreign_text_is_escaped_and_bounded() {
        assert_eq!(shown("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(shown("it's \"x\"\n"), "it's \"x\"");
        assert!(shown(&"x".repeat(10_000)).len() <= 300);
    }
}
