//! `mirror serve --check`: what a start would do, without doing it. All of it is looked at, also
//! where something would keep it from starting, so that one call says everything.

mod places;
mod tls;

use std::fmt::Display;
use std::io::ErrorKind;

use kubepkg_mirror::access::{AccessFiles, Gate, TokenKey};
use kubepkg_mirror::serve::is_mirror;

use super::{Arguments, cannot_listen, placed, warn_of_unknown_address};
use crate::printer::Printer;
use crate::report::Report;
use crate::units::{count, size, span};

/// Says what a start would do; its error is the first thing that would keep it from that.
pub fn run(arguments: &Arguments, printer: &Printer) -> anyhow::Result<()> {
    let mut said = Said::default();
    places::look(arguments, printer, &mut said);
    listening(arguments, &mut said);
    if let Some(url) = &arguments.external_url {
        said.row("known as", url);
    }
    tls::look(arguments, &mut said);
    logins(arguments, printer, &mut said);
    keeping(arguments, &mut said);
    said.row("log", "standard error; no file is written");
    let rows = said.rows.join("\n");
    let mut refused = said.refused.into_iter();
    let Some(first) = refused.next() else {
        return printer.answer(&rows);
    };
    // what fails answers nothing
    printer.say(&rows);
    for other in refused {
        let report = Report::of(&other);
        let place = report
            .place
            .map_or(String::new(), |place| format!("{place}: "));
        printer.warn(&format!("{place}{}", report.message));
    }
    Err(first)
}

/// What is said, and what a start would come to grief at.
#[derive(Default)]
struct Said {
    rows: Vec<String>,
    refused: Vec<anyhow::Error>,
}

impl Said {
    fn row(&mut self, what: &str, value: impl Display) {
        self.rows.push(format!("{what:<12}{value}"));
    }

    fn refuse(&mut self, what: &str, error: impl Into<anyhow::Error>) {
        let error: anyhow::Error = error.into();
        self.row(what, format_args!("refused: {error}"));
        self.refused.push(error);
    }

    /// What was found, or `None` where it is refused.
    fn found<T, E: Into<anyhow::Error>>(&mut self, what: &str, found: Result<T, E>) -> Option<T> {
        found.map_err(|error| self.refuse(what, error)).ok()
    }
}

/// Takes each port for a moment: whether one can be had is not to be found out otherwise. All at
/// once, as a start does. One that a mirror has is free when that is restarted, and its settings are
/// looked at before.
fn listening(arguments: &Arguments, said: &mut Said) {
    let scheme = match arguments.tls.is_wanted() {
        true => "https",
        false => "http",
    };
    let mut taken = Vec::new();
    for address in &arguments.listen {
        let reach = match (address.ip().is_loopback(), scheme) {
            (true, _) => " (this machine only)",
            (false, "http") => " (other machines too, without TLS)",
            (false, _) => "",
        };
        match std::net::TcpListener::bind(address) {
            Ok(listener) => taken.push(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse && is_mirror(*address) => {
                let now = "a mirror has it now, and has to end first";
                said.row("listen", format_args!("{scheme}://{address}{reach}, {now}"));
                continue;
            }
            Err(error) => {
                said.refuse("listen", cannot_listen(*address, error));
                continue;
            }
        }
        said.row("listen", format_args!("{scheme}://{address}{reach}"));
    }
}

fn logins(arguments: &Arguments, printer: &Printer, said: &mut Said) {
    let mut files = arguments.logins.files(arguments);
    let key = token_key(&mut files);
    let opened = arguments.logins.open(arguments, files);
    let Some(gate) = said.found("logins", opened) else {
        return;
    };
    let users = gate.users();
    said.row(
        "users",
        match (users.len(), gate.has_logins()) {
            (_, false) => "none: nobody can log in".to_owned(),
            (n, true) => count(n, "user", "users"),
        },
    );
    said.row("token key", key);
    said.row(
        "reading",
        match gate.is_open_for_reading() {
            true => "everybody, everything",
            false => "as the rules say",
        },
    );
    said.row("pushing", pushing(arguments, &gate));
    warn_of_unknown_address(arguments, &gate, printer);
    // a mirror that runs only warns of it: users come and go
    for doubt in gate.doubts() {
        said.row("rules", placed(&doubt));
        said.refused.push(doubt.into());
    }
}

/// What becomes of the key of tokens; a file that would be made is not.
fn token_key(files: &mut AccessFiles) -> String {
    let path = match &files.token_key {
        TokenKey::Memory => return "of this process alone".to_owned(),
        TokenKey::Given(path) => return format!("{} (is there)", path.display()),
        TokenKey::Made(path) => path.clone(),
    };
    let (key, what) = match path.exists() {
        true => (TokenKey::Given(path.clone()), "is there"),
        false => (TokenKey::Memory, "would be made"),
    };
    files.token_key = key;
    format!("{} ({what})", path.display())
}

fn pushing(arguments: &Arguments, gate: &Gate) -> &'static str {
    match (arguments.anonymous_push, gate.lets_write()) {
        _ if arguments.read_only => "nobody: the store is only read",
        (_, false) => "nobody",
        (true, true) => "everybody, without a login, where no rule says otherwise",
        (false, true) => "users, where no rule says otherwise",
    }
}

fn keeping(arguments: &Arguments, said: &mut Said) {
    if !arguments.read_only {
        let keeping = &arguments.keeping;
        said.row(
            "collection",
            match keeping.gc_every.is_zero() {
                true => "never".to_owned(),
                false => format!(
                    "every {}, after a grace of {}",
                    span(keeping.gc_every),
                    span(keeping.gc_grace)
                ),
            },
        );
        said.row(
            "scrub",
            match keeping.folder_scrub_rate() {
                0 => "not at all".to_owned(),
                _ if arguments.local.is_some() => {
                    "not at all: `mirror check` reads a bucket".to_owned()
                }
                rate => format!("{} in a second", size(rate)),
            },
        );
        said.row(
            "free disk",
            format_args!("{} % stay free", arguments.min_free),
        );
    }
    let bounds = &arguments.bounds;
    said.row(
        "bounds",
        format_args!(
            "{}, {} idle, {} for a head, {} for TLS, {} to stop",
            count(bounds.limits().connections, "connection", "connections"),
            span(bounds.idle_timeout),
            span(bounds.header_timeout),
            span(bounds.handshake_timeout),
            span(bounds.stop_within)
        ),
    );
}
