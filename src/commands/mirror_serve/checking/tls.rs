//! What TLS would be spoken with.

use std::path::Path;

use kubepkg_core::time::Time;
use kubepkg_mirror::tls::{Facts, Made, Own, Tls};

use super::Said;
use crate::commands::mirror_serve::Arguments;
use crate::commands::mirror_serve::settings::{Spoken, only_read};
use crate::error::CommandError;
use crate::units::local_time;

pub(super) fn look(arguments: &Arguments, said: &mut Said) {
    let flags = &arguments.tls;
    if let Some(certificate) = &flags.tls_cert {
        if let Some(Some(spoken)) = said.found("TLS", flags.given()) {
            said.row("TLS", format_args!("{} is used", certificate.display()));
            tell(arguments, &spoken, said);
            if let Some(error) = unfit(certificate, &spoken.tls.facts()) {
                said.refuse("", error);
            }
        }
        return;
    }
    match said.found("TLS", flags.own(arguments)) {
        Some(Some(own)) => look_at_own(arguments, own, said),
        Some(None) => said.row("TLS", "not spoken"),
        None => {}
    }
}

fn look_at_own(arguments: &Arguments, own: Own, said: &mut Said) {
    let Some(made) = said.found("TLS", own.would_make(Time::now())) else {
        return;
    };
    let what = match made {
        Made::Kept => {
            said.row("TLS", "the certificate made before is used");
            let spoken = arguments.tls.with_own(own, made);
            if let Some(spoken) = said.found("", spoken) {
                tell(arguments, &spoken, said);
            }
            return;
        }
        Made::Everything => "a CA and a certificate would be made",
        Made::Certificate => "a new certificate of the same CA would be made",
    };
    let names: Vec<&str> = own.names().collect();
    said.row("TLS", format_args!("{what} for {}", names.join(", ")));
    if arguments.read_only {
        said.refuse("", only_read());
    }
    if let Some(path) = &arguments.tls.client_ca {
        said.found("", Tls::check_client_ca(path));
    }
}

fn tell(arguments: &Arguments, spoken: &Spoken, said: &mut Said) {
    let facts = spoken.tls.facts();
    said.row("", format_args!("for {}", facts.names.join(", ")));
    let (from, until) = (local_time(facts.from), local_time(facts.until));
    said.row("", format_args!("from {from} to {until}"));
    said.row("", format_args!("SHA-256 {}", facts.fingerprint));
    if let Some((_, ca)) = &spoken.own {
        said.row("", format_args!("CA SHA-256 {}", ca.fingerprint));
    }
    if let Some(path) = &arguments.tls.client_ca {
        let path = path.display();
        said.row(
            "",
            format_args!("only clients with a certificate of {path}"),
        );
    }
}

/// A start would serve with it, because a clock may be wrong; no client would take it.
fn unfit(certificate: &Path, facts: &Facts) -> Option<CommandError> {
    if facts.left(Time::now()).is_some() {
        return None;
    }
    Some(
        CommandError::failed(format!(
            "the certificate does not hold now: it holds from {} to {}",
            local_time(facts.from),
            local_time(facts.until)
        ))
        .at(certificate.display())
        .hint("put a new certificate in its place, or set the clock"),
    )
}
