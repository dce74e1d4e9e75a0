//! `mirror user`: who may log in to a mirror.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use kubepkg_mirror::access::{AccessFiles, Action, Gate, Users, Who};
use kubepkg_mirror::namespace::in_library;
use kubepkg_mirror::store::FileStore;
use serde_json::json;
use zeroize::Zeroizing;

use super::{bucket_place, store_folder};
use crate::cli::{Format, MirrorUserVerb, Reporting};
use crate::error::CommandError;
use crate::printer::{Printer, table};

/// Longest file with a password, in bytes.
const MAX_FILE: u64 = 1024;

/// Those without a login, in place of a user's name, which nobody may have.
const ANYONE: &str = "anyone";

const HINT: &str =
    "`kubepkg mirror user list` names all of them; anyone stands for who shows no login";

/// Where users are kept.
#[derive(Clone, Debug, clap::Args)]
pub struct Where {
    /// The mirror's store on this host; its users are in the file `users` there
    #[arg(long, value_name = "DIR", required_unless_present = "htpasswd")]
    pub store: Option<PathBuf>,
    /// The file of users that `mirror serve --htpasswd` names, in place of the store's
    #[arg(long, value_name = "FILE")]
    pub htpasswd: Option<PathBuf>,
}

/// Flags of `mirror user add`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror user add alice --store /srv/mirror",
    after_long_help = "Asks for a password, twice, and notes the user with its bcrypt hash in the \
                       form of htpasswd. A mirror that is served\nreads it within seconds, without \
                       a restart. With the first user a mirror knows logins: users may push, \
                       everybody may\nread; rules say more (mirror serve --access). A second run \
                       gives the user another password.\n\nExample:\n  kubepkg mirror user add \
                       robot --store /srv/mirror --password-file robot.txt"
)]
pub struct Add {
    /// The user's name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where.
    #[command(flatten)]
    pub place: Where,
    /// Read the password from this file, or from standard input with -, and do not ask
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// Flags of `mirror user rm`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror user rm alice --store /srv/mirror",
    after_long_help = "Takes the user away. Within seconds a mirror that is served takes neither \
                       the password nor a token made with it. What the\nuser pushed \
                       stays.\n\nExample:\n  kubepkg mirror user rm alice --store /srv/mirror"
)]
pub struct Remove {
    /// The user's name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// Flags of `mirror user list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubepkg mirror user list --store /srv/mirror")]
pub struct List {
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// Flags of `mirror user may`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror user may alice team/app --store /srv/mirror --access \
                  access.yaml",
    after_long_help = "Says what the user may do with a repository at a mirror that is served with \
                       these settings, and which rule says so, by\nits place in the file. The first \
                       rule whose path fits decides. With anyone in place of a name: what may be done \
                       without a\nlogin. The repository need not be there; nothing is \
                       changed.\n\nExample:\n  kubepkg mirror user may anyone \
                       docker.io/library/busybox --store /srv/mirror"
)]
pub struct May {
    /// The user's name, or anyone for those without a login
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The repository, as <host>/<path>
    #[arg(value_name = "REPOSITORY", value_parser = super::mirror_reference::parse_place)]
    pub repository: super::mirror_reference::Place,
    /// Where.
    #[command(flatten)]
    pub place: Where,
    /// The file of rules that `mirror serve --access` names
    #[arg(long, value_name = "FILE")]
    pub access: Option<PathBuf>,
    /// The mirror is served with --anonymous-push
    #[arg(long)]
    pub anonymous_push: bool,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

impl Where {
    fn users(&self) -> anyhow::Result<(Users, PathBuf)> {
        let file = match (&self.htpasswd, &self.store) {
            (Some(file), _) => file.clone(),
            (None, Some(store)) => {
                bucket_place::refuse(
                    store,
                    "mirror user",
                    "users are files of each mirror on a bucket: name the folder it is served with as \
                     --local, e.g. --store /var/lib/kubepkg-mirror",
                )?;
                store_folder::must_exist(store)?;
                FileStore::users_file(store)
            }
            (None, None) => {
                return Err(CommandError::usage("no store is named")
                    .hint("add --store /srv/mirror")
                    .into());
            }
        };
        Ok((Users::at(file.clone()), file))
    }
}

/// Does what was asked.
pub fn run(verb: MirrorUserVerb, printer: &Printer) -> anyhow::Result<()> {
    match verb {
        MirrorUserVerb::Add(arguments) => add(&arguments, printer),
        MirrorUserVerb::Rm(arguments) => remove(&arguments, printer),
        MirrorUserVerb::List(arguments) => {
            let (users, file) = arguments.place.users()?;
            let names = users.list()?;
            if names.is_empty() {
                printer.say(&format!("there are no users in {}", file.display()));
                return Ok(());
            }
            printer.answer(&names.join("\n"))
        }
        MirrorUserVerb::May(arguments) => may(&arguments, printer),
    }
}

fn add(arguments: &Add, printer: &Printer) -> anyhow::Result<()> {
    let (users, file) = arguments.place.users()?;
    let password = match &arguments.password_file {
        Some(path) => from_file(path)?,
        None => ask(&arguments.name)?,
    };
    let name = kubepkg_core::error::shown(&arguments.name);
    let file = file.display();
    match users.set(&arguments.name, &password)? {
        true => printer.say(&format!("{name} has another password now ({file})")),
        false => printer.say(&format!("{name} may log in now ({file})")),
    }
    Ok(())
}

fn remove(arguments: &Remove, printer: &Printer) -> anyhow::Result<()> {
    let (users, file) = arguments.place.users()?;
    let name = kubepkg_core::error::shown(&arguments.name);
    if !users.remove(&arguments.name)? {
        return Err(
            CommandError::not_found(format!("there is no user \"{name}\""))
                .at(file.display())
                .into(),
        );
    }
    printer.say(&format!("{name} may not log in any more"));
    Ok(())
}

fn may(arguments: &May, printer: &Printer) -> anyhow::Result<()> {
    let (_, file) = arguments.place.users()?;
    let named = arguments.place.htpasswd.is_some();
    let files = AccessFiles {
        passwords: named.then(|| file.clone()),
        users: (!named).then(|| file.clone()),
        rules: arguments.access.clone(),
        ..AccessFiles::default()
    };
    let gate = Gate::open(files, arguments.anonymous_push, 0)?;
    let name = kubepkg_core::error::shown(&arguments.name);
    let who = match arguments.name.as_str() {
        ANYONE => Who::Nobody,
        user if gate.users().iter().any(|known| known == user) => Who::User(user.into()),
        _ => {
            let absent = CommandError::not_found(format!("there is no user \"{name}\""));
            return Err(absent.at(file.display()).hint(HINT).into());
        }
    };
    // as it is stored
    let repository = &arguments.repository.repository;
    let repository = in_library(repository).unwrap_or_else(|| repository.clone());
    let decisions = Action::ALL.map(|action| {
        let decision = gate.decides(&who, action, repository.as_str());
        (action.as_str(), decision)
    });
    match arguments.reporting.output {
        Format::Json => {
            let actions = decisions.map(|(action, decision)| {
                let rule = decision.rule.as_ref();
                json!({
                    "action": action,
                    "allowed": decision.allowed,
                    "rule": rule.map(|rule| &rule.place),
                    "path": rule.map(|rule| &rule.path),
                })
            });
            printer.answer_json(&json!({
                "user": who.user(),
                "repository": repository,
                "actions": actions,
            }))
        }
        Format::Table => {
            let rows = decisions.map(|(action, decision)| {
                let may = if decision.allowed { "yes" } else { "no" };
                let by = match decision.rule {
                    Some(rule) => format!("{} ({})", rule.place, rule.path),
                    None => "no rule".to_owned(),
                };
                vec![action.to_owned(), may.to_owned(), by]
            });
            printer.say(&format!("{name} and {repository}:"));
            printer.answer(&table(&["ACTION", "MAY", "BY"], &rows))
        }
    }
}

/// One line end after the password is not part of it.
fn from_file(path: &Path) -> Result<Zeroizing<String>, CommandError> {
    let failed = |error| CommandError::io("cannot read the password", error).at(path.display());
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE as usize + 1));
    match path.as_os_str() == "-" {
        true => std::io::stdin().take(MAX_FILE).read_to_string(&mut text),
        false => {
            std::fs::File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text))
        }
    }
    .map_err(failed)?;
    let kept = text.strip_suffix('\n').unwrap_or(&text);
    let kept = kept.strip_suffix('\r').unwrap_or(kept);
    Ok(Zeroizing::new(kept.to_owned()))
}

fn ask(name: &str) -> Result<Zeroizing<String>, CommandError> {
    let name = kubepkg_core::error::shown(name);
    let prompt = |prompt: String| {
        rpassword::prompt_password(prompt)
            .map(Zeroizing::new)
            .map_err(|error| {
                CommandError::usage("a password is needed, and there is no terminal to ask on")
                    .because(error)
                    .hint(
                        "name a file that holds it: --password-file FILE, or - for standard input",
                    )
            })
    };
    let first = prompt(format!("password for {name}: "))?;
    match *first == *prompt("the same password again: ".to_owned())? {
        true => Ok(first),
        false => Err(CommandError::usage("the two passwords differ").hint("run it again")),
    }
}
