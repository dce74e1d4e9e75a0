//! `mirror serve --check`: what would be done, without doing it.

use kubepkg_core::time::Time;
use kubepkg_mirror::bucket::{Bucket, BucketMode, BucketStore};
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::tls::Facts;

use super::{Arguments, Spoken, in_bucket, placed, store_folder, warn_of_unknown_address};
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::units::{count, local_time, size, span};

/// Reads everything and says what it means.
pub fn run(arguments: &Arguments, printer: &Printer) -> anyhow::Result<()> {
    let spoken = arguments.tls.open(arguments, true)?;
    let gate = arguments.logins.open(arguments)?;
    warn_of_unknown_address(arguments, &gate, printer);
    // a mirror that runs only warns of it: users come and go
    let mut doubts = gate.doubts().into_iter();
    if let Some(doubt) = doubts.next() {
        for other in doubts {
            printer.warn(&placed(&other));
        }
        return Err(doubt.into());
    }
    let bucket = in_bucket::place(arguments)?;
    if !arguments.new_store && bucket.is_none() {
        store_folder::must_exist(&arguments.store)?;
    }
    let mut said = Said(Vec::new());
    said.row("store", store(arguments, bucket, printer)?);
    if let Some(local) = &arguments.local {
        said.row("local", local.display().to_string());
    }
    let scheme = match arguments.tls.is_wanted() {
        true => "https",
        false => "http",
    };
    for address in &arguments.listen {
        let reach = match (address.ip().is_loopback(), scheme) {
            (true, _) => " (this machine only)",
            (false, "http") => " (other machines too, without TLS)",
            (false, _) => "",
        };
        said.row("listen", format!("{scheme}://{address}{reach}"));
    }
    if let Some(url) = &arguments.external_url {
        said.row("known as", url.clone());
    }
    let unfit = tls(arguments, spoken.as_ref(), &mut said);
    let users = gate.users();
    said.row(
        "users",
        match (users.len(), gate.has_logins()) {
            (_, false) => "none: nobody can log in".to_owned(),
            (n, true) => count(n, "user", "users"),
        },
    );
    said.row(
        "reading",
        match gate.is_open_for_reading() {
            true => "everybody, everything".to_owned(),
            false => "as the rules say".to_owned(),
        },
    );
    said.row(
        "pushing",
        match (arguments.anonymous_push, gate.lets_write()) {
            (true, _) => "everybody, without a login, where no rule says otherwise".to_owned(),
            (false, true) => "users, where no rule says otherwise".to_owned(),
            (false, false) => "nobody".to_owned(),
        },
    );
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
    said.row("free disk", format!("{} % stay free", arguments.min_free));
    let bounds = &arguments.bounds;
    said.row(
        "bounds",
        format!(
            "{}, {} idle, {} for a head, {} for TLS, {} to stop",
            count(bounds.limits().connections, "connection", "connections"),
            span(bounds.idle_timeout),
            span(bounds.header_timeout),
            span(bounds.handshake_timeout),
            span(bounds.stop_within)
        ),
    );
    printer.answer(&said.0.join("\n"))?;
    match unfit {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

struct Said(Vec<String>);

impl Said {
    fn row(&mut self, what: &str, value: String) {
        self.0.push(format!("{what:<12}{value}"));
    }
}

fn store(
    arguments: &Arguments,
    bucket: Option<Bucket>,
    printer: &Printer,
) -> anyhow::Result<String> {
    let folder = arguments.store.display();
    if let Some(bucket) = bucket {
        let held = interrupt::run(printer, "run the same command again", async {
            if arguments.new_store && !BucketStore::is_in(&bucket).await? {
                return Ok(None);
            }
            let store = BucketStore::open(bucket, BucketMode::Open).await?;
            Ok(Some(store.names().await?.repositories.len()))
        })?;
        return Ok(match held {
            None => format!("{folder} (a new one)"),
            Some(n) => format!("{folder} ({})", count(n, "repository", "repositories")),
        });
    }
    if arguments.new_store && !FileStore::is_at(&arguments.store)? {
        return Ok(format!("{folder} (a new one)"));
    }
    let held = interrupt::run(printer, "run the same command again", async {
        let store = FileStore::open(&arguments.store, OpenMode::ReadOnly)?;
        Ok(store.names().await?.repositories.len())
    })?;
    Ok(format!(
        "{folder} ({})",
        count(held, "repository", "repositories")
    ))
}

/// Says what TLS would be spoken with; the error of a certificate no client would take.
fn tls(arguments: &Arguments, spoken: Option<&Spoken>, said: &mut Said) -> Option<CommandError> {
    let Some(spoken) = spoken else {
        let text = match arguments.tls.is_wanted() {
            true => "a CA and a certificate would be made",
            false => "not spoken",
        };
        said.row("TLS", text.to_owned());
        return None;
    };
    let facts = spoken.tls.facts();
    said.row("TLS", format!("for {}", facts.names.join(", ")));
    said.row(
        "",
        format!(
            "from {} to {}",
            local_time(facts.from),
            local_time(facts.until)
        ),
    );
    said.row("", format!("SHA-256 {}", facts.fingerprint));
    if let Some((_, ca)) = &spoken.own {
        said.row("", format!("CA SHA-256 {}", ca.fingerprint));
    }
    if let Some(path) = &arguments.tls.client_ca {
        let path = path.display();
        said.row("", format!("only clients with a certificate of {path}"));
    }
    unfit(arguments, &facts)
}

fn unfit(arguments: &Arguments, facts: &Facts) -> Option<CommandError> {
    let place = arguments.tls.tls_cert.as_ref()?;
    if facts.left(Time::now()).is_some() {
        return None;
    }
    Some(
        CommandError::failed(format!(
            "the certificate does not hold now: it holds from {} to {}",
            local_time(facts.from),
            local_time(facts.until)
        ))
        .at(place.display())
        .hint("put a new certificate in its place, or set the clock"),
    )
}
