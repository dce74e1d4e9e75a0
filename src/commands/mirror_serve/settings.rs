//! Flags of `mirror serve` in groups, and what they mean.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::time::Time;
use kubepkg_mirror::access::{AccessFiles, Gate, PER_MINUTE};
use kubepkg_mirror::serve::Limits;
use kubepkg_mirror::store::FileStore;
use kubepkg_mirror::tls::{Made, Own, Tls, TlsFiles};

use super::Arguments;
use crate::error::CommandError;
use crate::units::parse_duration;

const TLS: &str = "TLS";
const LOGINS: &str = "Logins";
const BOUNDS: &str = "Bounds";

/// Flags on TLS.
#[derive(Clone, Debug, clap::Args)]
pub struct TlsFlags {
    /// Certificate of the mirror in PEM, with those between it and its CA behind it
    #[arg(help_heading = TLS, long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key in PEM, without passphrase; by default in the same file
    #[arg(help_heading = TLS, long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Certificate of the CA that vouches for it: handed out with the settings for nodes
    #[arg(help_heading = TLS, long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Make a certificate for this name or address, and the CA for it, and keep them in the store
    /// (repeatable)
    #[arg(help_heading = TLS, long, value_name = "HOST", conflicts_with = "tls_cert")]
    pub self_signed: Vec<String>,
    /// Serve only clients that show a certificate of a CA in this file
    #[arg(help_heading = TLS, long, value_name = "FILE")]
    pub client_ca: Option<PathBuf>,
}

/// Flags on logins.
#[derive(Clone, Debug, clap::Args)]
pub struct LoginFlags {
    /// Users and bcrypt hashes of their passwords, as `htpasswd -B` writes them; by default the
    /// file `users` in the store, which `mirror user add` makes
    #[arg(help_heading = LOGINS, long, value_name = "FILE")]
    pub htpasswd: Option<PathBuf>,
    /// Rules: who may pull, push and delete where (YAML, see docs/serving.md)
    #[arg(help_heading = LOGINS, long, value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// Wrong logins an address may have in a minute before it has to wait; 0 for any number
    #[arg(help_heading = LOGINS, long, value_name = "N", default_value_t = PER_MINUTE)]
    pub login_failures: u32,
    /// How often files with certificates, users and rules are looked at for changes
    #[arg(help_heading = LOGINS, long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub reload_every: Duration,
}

/// Flags on what connections may take up.
#[derive(Clone, Debug, clap::Args)]
pub struct BoundFlags {
    /// How long a connection may pass without moving a byte
    #[arg(help_heading = BOUNDS, long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub idle_timeout: Duration,
    /// How long a client may take to send the head of a request
    #[arg(help_heading = BOUNDS, long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub header_timeout: Duration,
    /// How long a client may take to agree on TLS
    #[arg(help_heading = BOUNDS, long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub handshake_timeout: Duration,
    /// Connections at once; more are answered 503, or with TLS closed
    #[arg(help_heading = BOUNDS, long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,
    /// When it is stopped: how long running pulls and pushes may take to end
    #[arg(help_heading = BOUNDS, long, value_name = "TIME", default_value = "18s", value_parser = parse_duration)]
    pub stop_within: Duration,
}

impl BoundFlags {
    pub fn limits(&self) -> Limits {
        Limits {
            idle: self.idle_timeout,
            head: self.header_timeout,
            handshake: self.handshake_timeout,
            connections: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
            drain: self.stop_within,
            ..Limits::default()
        }
    }
}

/// TLS as it is spoken, and how people recognise it.
pub struct Spoken {
    pub tls: Arc<Tls>,
    /// The CA's certificate in PEM, for nodes.
    pub ca: Option<String>,
    /// What was made, where a certificate of its own is used.
    pub own: Option<(Made, kubepkg_mirror::tls::Facts)>,
}

impl TlsFlags {
    /// Whether TLS is spoken at all.
    pub fn is_wanted(&self) -> bool {
        self.tls_cert.is_some() || !self.self_signed.is_empty()
    }

    /// What does not go together, or not without TLS.
    pub fn check(&self) -> Result<(), CommandError> {
        if self.tls_cert.is_some() && !self.self_signed.is_empty() {
            return Err(CommandError::usage(
                "a certificate is given, and one is to be made as well",
            )
            .at("--tls-cert, --self-signed")
            .hint("leave one of them out"));
        }
        let without = [
            (
                "--tls-key",
                self.tls_key.is_some() && self.tls_cert.is_none(),
            ),
            ("--tls-ca", self.tls_ca.is_some() && self.tls_cert.is_none()),
            ("--client-ca", self.client_ca.is_some() && !self.is_wanted()),
        ];
        match without.iter().find(|(_, is)| *is) {
            None => Ok(()),
            Some((flag, _)) => Err(CommandError::usage("this is for TLS, which is not spoken")
                .at(flag)
                .hint("add --tls-cert FILE, or --self-signed HOST")),
        }
    }

    /// Reads the files, or makes a certificate; with `look` nothing is made.
    pub fn open(&self, arguments: &Arguments, look: bool) -> anyhow::Result<Option<Spoken>> {
        self.check()?;
        if let Some(certificate) = &self.tls_cert {
            let tls = Tls::open(TlsFiles {
                certificate: certificate.clone(),
                key: self.tls_key.clone().unwrap_or_else(|| certificate.clone()),
                client_ca: self.client_ca.clone(),
            })?;
            let ca = match &self.tls_ca {
                Some(path) => Some(super::super::node_config::read_ca(path)?),
                None => None,
            };
            return Ok(Some(Spoken {
                tls: Arc::new(tls),
                ca,
                own: None,
            }));
        }
        if self.self_signed.is_empty() {
            return Ok(None);
        }
        let own = Own::new(FileStore::tls_folder(arguments.folder()), &self.self_signed)?;
        if look && !own.file().try_exists().unwrap_or(false) {
            return Ok(None);
        }
        let made = match look {
            true => Made::Kept,
            false => own.renew(Time::now())?,
        };
        let (ca, facts) = (own.ca_pem()?, own.ca()?);
        Ok(Some(Spoken {
            tls: Arc::new(Tls::own(own, self.client_ca.clone())?),
            ca: Some(ca),
            own: Some((made, facts)),
        }))
    }
}

impl LoginFlags {
    /// Reads users and rules.
    pub fn open(&self, arguments: &Arguments) -> anyhow::Result<Gate> {
        let files = AccessFiles {
            passwords: self.htpasswd.clone(),
            users: match self.htpasswd {
                Some(_) => None,
                None => Some(FileStore::users_file(arguments.folder())),
            },
            rules: self.access.clone(),
        };
        Ok(Gate::open(
            files,
            arguments.anonymous_push,
            self.login_failures,
        )?)
    }
}
