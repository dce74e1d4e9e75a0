//! The command line: verbs, flags and what they mean. No file is touched here.
//!
//! Source: design page "command". A verb not built yet is absent, never a stub.

mod environment;
mod flags;
mod key_files;
mod layers;
mod requests;
mod settings_file;
mod sources;
mod trust;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use environment::Environment;
pub use flags::{ColorChoice, Format, Jobs, LogFormat, Reach, Reporting, Talk};
pub use key_files::{bad_key, read_key_file, read_public_key};
pub use requests::package_request;
use settings_file::SettingsFile;
pub use sources::{Chosen, Sources, has_unused_parts, repository_url};
pub use trust::{AsOf, BundleKeys, Trust, read_trust_file};

use crate::commands;
use crate::error::CommandError;
use crate::printer::Printer;
use crate::report::Report;

/// Package management for Kubernetes that works behind an air gap.
///
/// A signed index names packages. `bundle create` carries chosen packages with everything
/// they need in one file, `bundle import` checks that file with keys held on the far side and
/// fills a mirror, `mirror serve` gives nodes and Helm what they ask for.
#[derive(Debug, Parser)]
#[command(
    name = "kubepkg",
    version,
    disable_help_subcommand = true,
    propagate_version = false,
    after_help = "Every flag can be set as KUBEPKG_<FLAG>, e.g. KUBEPKG_STORE=/srv/mirror \
                  (lists by comma), except flags that weaken a check or overwrite. A flag on the \
                  command line comes before its variable; one that names keys comes before all \
                  variables that do. `trust root` heeds none: what a root says is seen in its \
                  command.\n\n\
                  Example:\n  kubepkg bundle create web -o site.tar --repo \
                  https://packages.example.com/index.yaml --public-key release.pub"
)]
pub struct Cli {
    /// How much is said, and how.
    #[command(flatten)]
    pub talk: Talk,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs, grouped by what they work on.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// One file that carries packages over an air gap
    #[command(subcommand)]
    Bundle(BundleVerb),
    /// The registry of a disconnected site
    #[command(subcommand)]
    Mirror(MirrorVerb),
    /// Settings that make nodes pull from a mirror
    #[command(subcommand)]
    NodeConfig(NodeConfigVerb),
    /// Repositories of packages: keys and signed indexes
    #[command(subcommand)]
    Repo(RepoVerb),
    /// Who is trusted: roots of trust, signatures, what was accepted
    #[command(subcommand)]
    Trust(TrustVerb),
    /// Find the container images that charts and manifests run
    Images(commands::images::Arguments),
    /// Publish a folder as a package tree in a registry
    Push(commands::push::Arguments),
    /// Find packages by name and description
    Search(commands::search::Arguments),
    /// Show what installing packages would change
    Plan(commands::plan::Arguments),
    /// Show the version and the formats this kubepkg reads and writes
    Version(commands::version::Arguments),
}

/// Verbs on bundles.
#[derive(Debug, Subcommand)]
pub enum BundleVerb {
    /// Put packages and everything they need into one file
    Create(Box<commands::bundle_create::Arguments>),
    /// Show what a bundle says it holds, without judging it
    Inspect(commands::bundle_inspect::Arguments),
    /// Check a bundle to its last byte, changing nothing
    Verify(commands::bundle_verify::Arguments),
    /// Check a bundle and fill a mirror's store from it
    Import(Box<commands::bundle_import::Arguments>),
    /// Sign a bundle, for what no package vouches for and for sites that ask for it
    Sign(commands::bundle_sign::Arguments),
}

/// Verbs on mirrors.
#[derive(Debug, Subcommand)]
pub enum MirrorVerb {
    /// Serve a store as an OCI registry and chart repository
    Serve(Box<commands::mirror_serve::Arguments>),
    /// List the repositories in a store and what they weigh
    List(commands::mirror_list::Arguments),
    /// Show what an image in a store is made of, or the whole store
    Stat(commands::mirror_stat::Arguments),
    /// Bring an image into another repository of the same store
    Copy(commands::mirror_copy::Arguments),
    /// Give an image in a store another tag
    Tag(commands::mirror_tag::Arguments),
    /// Take a tag or an image out of a store
    Rm(commands::mirror_rm::Arguments),
    /// Take away what only old imports brought
    Prune(commands::mirror_prune::Arguments),
    /// Check a store to its last byte, and mend what can be mended
    Check(commands::mirror_check::Arguments),
    /// Free what nothing in a store needs any more
    Gc(commands::mirror_gc::Arguments),
    /// List what clients asked for and did not get
    Wanted(commands::mirror_wanted::Arguments),
    /// Copy a store while it is served
    Backup(commands::mirror_backup::Arguments),
    /// Who may log in to a mirror
    #[command(subcommand)]
    User(MirrorUserVerb),
}

/// Verbs on the users of a mirror.
#[derive(Debug, Subcommand)]
pub enum MirrorUserVerb {
    /// Add a user, or give one another password
    Add(commands::mirror_user::Add),
    /// Take a user away
    Rm(commands::mirror_user::Remove),
    /// List the users of a mirror
    List(commands::mirror_user::List),
    /// Say what a user may do with a repository, and by which rule
    May(commands::mirror_user::May),
}

/// Kinds of node settings.
#[derive(Debug, Subcommand)]
pub enum NodeConfigVerb {
    /// Write containerd's certs.d folder: one hosts.toml for each registry
    Containerd(commands::node_config::Containerd),
    /// Write a Talos machine configuration patch with registry mirrors
    Talos(commands::node_config::Talos),
}

/// Verbs on repositories.
#[derive(Debug, Subcommand)]
pub enum RepoVerb {
    /// Make a key pair for signing indexes
    Keygen(commands::repo_keygen::Arguments),
    /// Make a signed index of the package files in a folder
    Index(commands::repo_index::Arguments),
    /// Say of a published version that it is not to be used any more
    Withdraw(commands::repo_withdraw::Arguments),
    /// Show what an index offers, who signed it, until when
    Show(commands::repo_show::Show),
    /// Check that an index would be accepted
    Verify(commands::repo_show::Verify),
    /// Make a repository known to this command
    Add(commands::repo_config::Add),
    /// Show the repositories this command knows
    List(commands::repo_config::List),
    /// Forget a repository
    Remove(commands::repo_config::Remove),
}

/// Verbs on trust.
#[derive(Debug, Subcommand)]
pub enum TrustVerb {
    /// Make versions of a root of trust
    #[command(subcommand)]
    Root(TrustRootVerb),
    /// Sign a root, an index, or versions of packages
    Sign(commands::trust_sign::Arguments),
    /// Show who may sign what, and what was accepted
    Show(commands::trust_show::Arguments),
    /// Drop what was accepted under a trust entry
    Reset(commands::trust_reset::Arguments),
}

/// Verbs on roots of trust.
#[derive(Debug, Subcommand)]
pub enum TrustRootVerb {
    /// Make the first version of a root of trust
    New(commands::trust_root::New),
    /// Make the next version of a root of trust
    Next(commands::trust_root::Next),
}

impl Verb {
    /// Whether the user wants JSON, errors included.
    pub fn wants_json(&self) -> bool {
        let reporting = match self {
            Verb::Version(arguments) => &arguments.reporting,
            Verb::Bundle(BundleVerb::Inspect(arguments)) => &arguments.reporting,
            Verb::Bundle(BundleVerb::Verify(arguments)) => &arguments.reporting,
            Verb::Bundle(BundleVerb::Import(arguments)) => &arguments.reporting,
            Verb::Repo(RepoVerb::List(arguments)) => &arguments.reporting,
            Verb::Repo(RepoVerb::Show(arguments)) => &arguments.reporting,
            Verb::Repo(RepoVerb::Verify(arguments)) => &arguments.reporting,
            Verb::Push(arguments) => &arguments.reporting,
            Verb::Search(arguments) => &arguments.reporting,
            Verb::Plan(arguments) => &arguments.reporting,
            Verb::Trust(TrustVerb::Show(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::List(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::Stat(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::Check(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::Wanted(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::Gc(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::Prune(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::Backup(arguments)) => &arguments.reporting,
            Verb::Mirror(MirrorVerb::User(MirrorUserVerb::May(arguments))) => &arguments.reporting,
            Verb::Images(arguments) => {
                return arguments.output == commands::images::Form::Json;
            }
            Verb::Bundle(BundleVerb::Create(_) | BundleVerb::Sign(_))
            | Verb::Mirror(_)
            | Verb::NodeConfig(_)
            | Verb::Repo(_)
            | Verb::Trust(_) => return false,
        };
        reporting.output == Format::Json
    }

    /// The store that is worked on, where it is the mirror's.
    pub fn store(&self) -> Option<&Path> {
        let verb = match self {
            Verb::Mirror(verb) => verb,
            Verb::Bundle(BundleVerb::Import(arguments)) => return Some(&arguments.store),
            Verb::Trust(TrustVerb::Show(arguments)) => return arguments.store.as_deref(),
            Verb::Trust(TrustVerb::Reset(arguments)) => return arguments.store.as_deref(),
            _ => return None,
        };
        Some(match verb {
            MirrorVerb::Serve(arguments) => &arguments.store,
            MirrorVerb::List(arguments) => &arguments.store,
            MirrorVerb::Stat(arguments) => &arguments.store,
            MirrorVerb::Copy(arguments) => arguments.store.as_deref()?,
            MirrorVerb::Tag(arguments) => &arguments.store,
            MirrorVerb::Rm(arguments) => &arguments.store,
            MirrorVerb::Prune(arguments) => &arguments.store,
            MirrorVerb::Check(arguments) => &arguments.store,
            MirrorVerb::Gc(arguments) => &arguments.store,
            MirrorVerb::Wanted(arguments) => &arguments.store,
            MirrorVerb::Backup(arguments) => &arguments.store,
            MirrorVerb::User(_) => return None,
        })
    }
}

/// A command line that was not accepted, or one that only asks for help.
#[derive(Debug)]
pub struct Refused {
    error: clap::Error,
    /// What is wrong lies in a file of settings, not in the call.
    settings: Option<Box<CommandError>>,
    json: bool,
    /// Variables that took part; a bad value may come from them.
    variables: Vec<&'static str>,
}

impl Cli {
    /// Reads a command line; the environment fills in flags that are not given.
    pub fn read(arguments: &[OsString], environment: &Environment) -> Result<Cli, Refused> {
        let mut command = environment.apply(Cli::command()).color(color_of(arguments));
        let refused = |error| Refused {
            error,
            settings: None,
            json: asks_for_json(arguments),
            variables: environment.variables_set(),
        };
        if arguments.iter().any(|text| is_secret(text)) || environment.any(is_secret) {
            // no part of it may come into a message, so nothing more is looked at
            let text = "a private key is given in place of the name of a file or variable; \
                        treat that key as known to others if somebody could see this call";
            return Err(refused(command.error(ErrorKind::InvalidValue, text)));
        }
        let file = match SettingsFile::of_call(command.clone(), arguments) {
            Ok(file) => file,
            Err(error) => {
                let mut refused = refused(command.error(ErrorKind::InvalidValue, "settings"));
                refused.settings = Some(Box::new(error));
                return Err(refused);
            }
        };
        let below = |environment: &Environment, file: Option<&SettingsFile>| {
            let whole = match file {
                Some(file) => file.apply(Cli::command()),
                None => Cli::command(),
            };
            environment.apply(whole).color(color_of(arguments))
        };
        if file.is_some() {
            command = below(environment, file.as_ref());
        }
        let mut matches = command.try_get_matches_from(arguments).map_err(refused)?;
        let by_flags = layers::overruled(|flag| layers::on_the_command_line(&matches, flag));
        let variables = environment.without(&by_flags);
        let mut by_both = layers::overruled(|flag| variables.has(flag));
        by_both.extend(&by_flags);
        if !by_both.is_empty() {
            let file = file.map(|file| file.without(&by_both));
            let command = below(&variables, file.as_ref());
            matches = command.try_get_matches_from(arguments).map_err(refused)?;
        }
        Cli::from_arg_matches(&matches).map_err(refused)
    }
}

/// Whether this is the text of a private key.
fn is_secret(text: &OsStr) -> bool {
    text.to_string_lossy().contains("PRIVATE KEY-----")
}

impl Refused {
    /// Shows help on stdout, everything else on stderr, and gives the exit code.
    pub fn print(self) -> ExitCode {
        if let Some(error) = self.settings {
            let report = Report::of(&(*error).into());
            Printer::new(&Talk::default()).report(&report, self.json);
            return ExitCode::from(report.exit);
        }
        match self.error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                // a reader that closes the pipe after the first page has seen enough
                let _ = self.error.print();
                return ExitCode::SUCCESS;
            }
            _ => {}
        }
        let hint = self.hint();
        let report = Report::usage(one_line(&self.error), hint);
        let printer = Printer::new(&Talk::default());
        if self.json {
            printer.report(&report, true);
        } else {
            // stderr is all there is to write to
            let _ = self.error.print();
            if let Some(hint) = &report.hint {
                printer.warn(hint);
            }
        }
        ExitCode::from(report.exit)
    }

    fn hint(&self) -> Option<String> {
        let bad_value = matches!(
            self.error.kind(),
            ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::ArgumentConflict
        );
        (bad_value && !self.variables.is_empty()).then(|| {
            format!(
                "these variables are set and count as flags: {}",
                self.variables.join(", ")
            )
        })
    }
}

/// The message of the parser without its label, usage and tips.
fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let message = text.split("\n\n").next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether `-o json` stands on a command line that could not be parsed.
fn asks_for_json(arguments: &[OsString]) -> bool {
    let text = |at: usize| arguments.get(at).and_then(|a| a.to_str());
    (0..arguments.len()).any(|at| match text(at) {
        Some("-o" | "--output") => text(at + 1) == Some("json"),
        Some("-ojson" | "-o=json" | "--output=json") => true,
        _ => false,
    })
}

/// `--color` of a command line that is not parsed yet.
fn color_of(arguments: &[OsString]) -> clap::ColorChoice {
    let text = |at: usize| arguments.get(at).and_then(|a| a.to_str());
    let given = (0..arguments.len()).find_map(|at| match text(at) {
        Some("--color") => text(at + 1),
        Some(argument) => argument.strip_prefix("--color="),
        None => None,
    });
    match given {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

/// Flags that only some verbs know, with one meaning everywhere.
#[derive(Debug, Args)]
pub struct Force {
    /// Replace an output that exists
    #[arg(long)]
    pub force: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn read(line: &str, variables: &[(&str, &str)]) -> Result<Cli, Refused> {
        Cli::read(&words(line), &Environment::of(variables))
    }

    #[test]
    fn the_tree_is_sound() {
        Cli::command().debug_assert();
        // and also with every variable set
        let all: Vec<(&str, &str)> = environment::VARIABLES
            .iter()
            .map(|v| (v.name, v.example))
            .collect();
        Environment::of(&all).apply(Cli::command()).debug_assert();
    }

    #[test]
    fn a_variable_stands_in_for_a_flag_and_the_flag_wins() {
        let cli = read("kubepkg repo keygen x", &[("KUBEPKG_QUIET", "true")]).unwrap();
        assert!(cli.talk.quiet);
        let line = "kubepkg bundle create web -o x.tar";
        let variables = [("KUBEPKG_REPO", "https://a.example/i,https://b.example/i")];
        let repos = |line: &str| match read(line, &variables).unwrap().verb {
            Verb::Bundle(BundleVerb::Create(arguments)) => arguments.sources.repo,
            other => panic!("{other:?}"),
        };
        assert_eq!(repos(line), ["https://a.example/i", "https://b.example/i"]);
        assert_eq!(repos(&format!("{line} --repo c.yaml")), ["c.yaml"]);
    }

    #[test]
    fn a_private_key_in_a_call_is_not_repeated() {
        let pem = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        for flag in ["--key-env", "--key", "--other"] {
            let mut call = words("kubepkg trust sign root.yaml");
            call.extend([OsString::from(flag), OsString::from(pem)]);
            let refused = Cli::read(&call, &Environment::of(&[])).unwrap_err();
            let text = refused.error.render().to_string();
            assert!(text.contains("a private key is given"), "{text}");
            assert!(!text.contains("c2VjcmV0"), "{text}");
        }
        let variables = [("KUBEPKG_SIGN_KEY", pem)];
        let refused = read("kubepkg repo keygen x", &variables).unwrap_err();
        assert!(!refused.error.render().to_string().contains("c2VjcmV0"));
    }

    #[test]
    fn a_flag_that_names_keys_comes_before_all_variables_that_do() {
        let variables = [
            ("KUBEPKG_PUBLIC_KEY", "a.pub"),
            ("KUBEPKG_TRUST", "trust.yaml"),
            ("KUBEPKG_MAX_AGE", "30d"),
        ];
        let trust = |line: &str| match read(line, &variables).unwrap().verb {
            Verb::Bundle(BundleVerb::Verify(arguments)) => arguments.trust,
            other => panic!("{other:?}"),
        };
        let by_flag = trust("kubepkg bundle verify x.tar --root-key r.pub");
        assert!(by_flag.public_key.is_empty() && by_flag.trust_file.is_none());
        assert_eq!(
            (by_flag.root_key.len(), by_flag.max_age.is_some()),
            (1, true)
        );
        assert_eq!(trust("kubepkg bundle verify x.tar").public_key.len(), 1);
        // a variable for a flag that this verb refuses is not for it
        let line = "kubepkg repo add main https://a.example/i --root-key r.pub";
        let Verb::Repo(RepoVerb::Add(add)) = read(line, &variables).unwrap().verb else {
            panic!("another verb");
        };
        assert_eq!(add.trust.max_age, None);
    }

    #[test]
    fn no_variable_weakens_a_check() {
        let cli = read(
            "kubepkg bundle verify x.tar",
            &[
                ("KUBEPKG_ALLOW_UNSIGNED", "true"),
                ("KUBEPKG_OUTPUT", "json"),
            ],
        )
        .unwrap();
        let Verb::Bundle(BundleVerb::Verify(arguments)) = cli.verb else {
            panic!("another verb");
        };
        assert!(!arguments.trust.allow_unsigned);
        assert_eq!(arguments.reporting.output, Format::Table);
    }

    #[test]
    fn a_bad_value_in_a_variable_is_traced_to_it() {
        let refused = read(
            "kubepkg bundle create web -o x.tar",
            &[("KUBEPKG_JOBS", "many")],
        )
        .unwrap_err();
        assert!(refused.hint().unwrap().contains("KUBEPKG_JOBS"));
    }

    #[test]
    fn json_is_wanted_even_when_the_rest_is_wrong() {
        for line in [
            "kubepkg -o json",
            "kubepkg x --output=json",
            "kubepkg -ojson x",
        ] {
            assert!(asks_for_json(&words(line)), "{line}");
        }
        assert!(!asks_for_json(&words("kubepkg -o x json")));
    }
}
