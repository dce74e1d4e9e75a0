//! Flags of `mirror serve` in groups, and what they mean.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::time::Time;
use kubepkg_mirror::access::{AccessError, AccessFiles, Gate, PER_MINUTE, TokenKey};
use kubepkg_mirror::http::Network;
use kubepkg_mirror::serve::Limits;
use kubepkg_mirror::store::FileStore;
use kubepkg_mirror::tls::{Made, Own, Tls, TlsError, TlsFiles};

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
    #[arg(help_heading = TLS, long, value_name = "HOST")]
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
    /// Wrong logins for one name from one address in a minute before they have to wait, ten times
    /// as many for all names; 0 for any number
    #[arg(help_heading = LOGINS, long, value_name = "N", default_value_t = PER_MINUTE)]
    pub login_failures: u32,
    /// Secret that tokens are signed with, at least 32 characters: the same for all mirrors behind
    /// one address; by default the file `token-key` in the store, which is made
    #[arg(help_heading = LOGINS, long, value_name = "FILE")]
    pub token_key_file: Option<PathBuf>,
    /// Proxy (its address, or a network of proxies alone) whose X-Forwarded-For and X-Forwarded-Proto count
    /// (repeatable)
    #[arg(help_heading = LOGINS, long, value_name = "ADDRESS[/BITS]")]
    pub trusted_proxy: Vec<Network>,
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
    /// What was made, where a certificate of its own is used.
    pub own: Option<(Made, kubepkg_mirror::tls::Facts)>,
}

impl TlsFlags {
    /// Whether TLS is spoken at all.
    pub fn is_wanted(&self) -> bool {
        self.tls_cert.is_some() || !self.self_signed.is_empty()
    }

    /// What does not go together, or not without TLS. All of it comes from one layer: the call,
    /// variables or a file.
    pub fn check(&self, insecure_http: bool) -> Result<(), CommandError> {
        let kinds = [
            ("--tls-cert", self.tls_cert.is_some()),
            ("--self-signed", !self.self_signed.is_empty()),
            ("--insecure-http", insecure_http),
        ];
        let mut asked = kinds.iter().filter(|(_, is)| *is).map(|(flag, _)| *flag);
        if let (Some(one), Some(other)) = (asked.next(), asked.next()) {
            let message = "these say two things of TLS";
            return Err(CommandError::usage(message)
                .at(format!("{one}, {other}"))
                .hint(
                    "leave one of them out; in a file of settings they are called tlsCert, \
                     selfSigned and insecureHttp",
                ));
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
                .hint(
                    "add --tls-cert FILE, or --self-signed HOST; a flag on TLS stands for all of \
                     what variables and the file say of it",
                )),
        }
    }

    /// The certificate the mirror makes for itself, where it is to.
    pub fn own(&self, arguments: &Arguments) -> Result<Option<Own>, TlsError> {
        if self.self_signed.is_empty() {
            return Ok(None);
        }
        let folder = FileStore::tls_folder(arguments.folder());
        Own::new(folder, &self.self_signed).map(Some)
    }

    /// Reads the files of a certificate that is given.
    pub fn given(&self) -> anyhow::Result<Option<Spoken>> {
        let Some(certificate) = &self.tls_cert else {
            return Ok(None);
        };
        let tls = Tls::open(TlsFiles {
            certificate: certificate.clone(),
            key: self.tls_key.clone().unwrap_or_else(|| certificate.clone()),
            client_ca: self.client_ca.clone(),
            ca: self.tls_ca.clone(),
        })?;
        Ok(Some(Spoken {
            tls: Arc::new(tls),
            own: None,
        }))
    }

    /// What is spoken with the certificate the mirror made for itself.
    pub fn with_own(&self, own: Own, made: Made) -> anyhow::Result<Spoken> {
        let facts = own.ca()?;
        Ok(Spoken {
            tls: Arc::new(Tls::own(own, self.client_ca.clone())?),
            own: Some((made, facts)),
        })
    }

    /// Reads the files, or makes a certificate.
    pub fn open(&self, arguments: &Arguments) -> anyhow::Result<Option<Spoken>> {
        if let Some(spoken) = self.given()? {
            return Ok(Some(spoken));
        }
        let Some(own) = self.own(arguments)? else {
            return Ok(None);
        };
        if arguments.read_only && own.would_make(Time::now())? != Made::Kept {
            return Err(only_read().into());
        }
        let made = own.renew(Time::now())?;
        self.with_own(own, made).map(Some)
    }
}

/// A certificate would be made in a store that is not to be changed.
pub fn only_read() -> CommandError {
    CommandError::usage("no certificate can be made in a store that is only read")
        .at("--self-signed, --read-only")
        .hint("give a certificate with --tls-cert")
}

impl LoginFlags {
    /// The files they name.
    pub fn files(&self, arguments: &Arguments) -> AccessFiles {
        let folder = arguments.folder();
        let users = FileStore::users_file(folder);
        AccessFiles {
            passwords: self.htpasswd.clone(),
            users: self.htpasswd.is_none().then_some(users),
            rules: self.access.clone(),
            token_key: match &self.token_key_file {
                Some(file) => TokenKey::Given(file.clone()),
                None => {
                    let file = FileStore::token_key_file(folder);
                    match (arguments.read_only, file.exists()) {
                        (false, _) => TokenKey::Made(file),
                        (true, true) => TokenKey::Given(file),
                        (true, false) => TokenKey::Memory,
                    }
                }
            },
        }
    }

    /// Reads users and rules; `files` are those of [`LoginFlags::files`].
    pub fn open(&self, arguments: &Arguments, files: AccessFiles) -> Result<Gate, AccessError> {
        Gate::open(files, arguments.anonymous_push, self.login_failures)
    }
}
