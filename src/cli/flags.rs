//! Groups of flags that mean the same in every verb that has them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kubepkg_core::location::CanonicalUrl;

use kubepkg_remote::{Client, JOBS, Options, PER_HOST, PerHost};

use crate::error::CommandError;

// Headings stand at each flag: one given for a whole group goes on to whatever flag follows it.
const TALK: &str = "Talk";
const REACH: &str = "Reaching other machines";

/// How much is said, and how.
#[derive(Clone, Debug, Default, Args)]
pub struct Talk {
    /// Say only what must be known: warnings and errors
    #[arg(help_heading = TALK, short, long, global = true)]
    pub quiet: bool,
    /// Say more; repeat for more still
    #[arg(help_heading = TALK, short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Form of log lines on stderr
    #[arg(help_heading = TALK, long, global = true, value_name = "FORM", default_value = "text")]
    pub log_format: LogFormat,
    /// Show no progress
    #[arg(help_heading = TALK, long, global = true)]
    pub no_progress: bool,
    /// Use colours
    #[arg(help_heading = TALK, long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Form of the answer.
#[derive(Clone, Debug, Args)]
pub struct Reporting {
    /// Form of the answer on stdout; with json, errors are JSON on stderr too (kind, message,
    /// where, causes, hint, retry)
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Format,
}

/// Forms an answer can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs; only ever added to.
    Json,
}

/// How registries and servers are reached.
#[derive(Clone, Debug, Args)]
pub struct Reach {
    /// Speak HTTP without TLS to this host[:port]; loopback addresses need no flag (repeatable)
    #[arg(help_heading = REACH, long, value_name = "HOST")]
    pub plain_http: Vec<String>,
    /// Also trust the certificates in this PEM file
    #[arg(help_heading = REACH, long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Show this certificate (PEM) to servers that ask for one
    #[arg(help_heading = REACH, long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// The key of --cert, where it is not in the same file
    #[arg(help_heading = REACH, long, value_name = "FILE", requires = "cert")]
    pub cert_key: Option<PathBuf>,
    /// Credentials of registries, in the form of Docker's config.json or containers' auth.json
    /// [default: $REGISTRY_AUTH_FILE, else what the tools of both have written]
    #[arg(help_heading = REACH, long, value_name = "FILE")]
    pub registry_config: Option<PathBuf>,
    /// Settings for each host in containerd's form: DIR/HOST/hosts.toml, as in
    /// /etc/containerd/certs.d (mirrors, certificates, headers)
    #[arg(help_heading = REACH, long, value_name = "DIR")]
    pub hosts_dir: Option<PathBuf>,
}

impl Reach {
    /// A client that reaches others this way, through `mirror` where one is given.
    pub fn client(&self, mirror: Option<&str>, jobs: &Jobs) -> anyhow::Result<Client> {
        let mirror = mirror
            .map(|text| text.parse::<CanonicalUrl>())
            .transpose()
            .map_err(|error| CommandError::usage(error.to_string()).at("--mirror"))?;
        let certificate = self.cert.clone().map(|cert| (cert, self.cert_key.clone()));
        let options = Options {
            plain_http: self.plain_http.clone(),
            mirror,
            registry_configs: match &self.registry_config {
                Some(file) => vec![file.clone()],
                None => crate::places::registry_configs(),
            },
            helm_configs: crate::places::helm_config().into_iter().collect(),
            ca_file: self.ca_file.clone(),
            client_certificate: certificate,
            hosts_dir: self.hosts_dir.clone(),
            jobs: usize::from(jobs.jobs),
            per_host: match jobs.per_host.map(usize::from) {
                Some(count) => PerHost {
                    first: count,
                    most: count,
                },
                None => PER_HOST,
            },
            ..Options::default()
        };
        Ok(Client::new(options)?)
    }
}

/// How hard to work.
#[derive(Clone, Copy, Debug, Args)]
pub struct Jobs {
    /// How many transfers run at the same time
    #[arg(help_heading = REACH, long, value_name = "N", default_value_t = JOBS, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: u16,
    /// How many requests to one host at the same time; when not given 6, and up to 48 while it
    /// keeps up
    #[arg(help_heading = REACH, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub per_host: Option<u16>,
}
