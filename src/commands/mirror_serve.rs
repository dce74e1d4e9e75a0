//! `mirror serve`: a store as registry and chart repository.

mod checking;
mod in_bucket;
mod settings;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use kubepkg_core::error::Classify;
use kubepkg_core::store::StoreError;
use kubepkg_core::time::Time;
use kubepkg_mirror::access::Gate;
use kubepkg_mirror::bucket::Replica;
use kubepkg_mirror::http::{PushSettings, Server};
use kubepkg_mirror::serve::raise_open_files;
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::tls::{Made, SOON};
use tokio::net::TcpListener;

use self::in_bucket::Opened;
use self::settings::{BoundFlags, LoginFlags, Spoken, TlsFlags};
use super::mirror_keeping::{Keeping, Serving};
use super::store_folder;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::settings_pages;
use crate::units::{count, local_time};

/// Flags of `mirror serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror serve --store /srv/mirror --listen 127.0.0.1:5000",
    after_long_help = "Serves what was imported: images, charts and index files under their \
                       upstream names. Everyone who reaches the\naddress may read, unless rules \
                       say otherwise. Users may push (`mirror user add` makes one), and everyone \
                       with\n--anonymous-push. Imports into the same store are seen at once, \
                       without a restart.\n\nIt speaks TLS with --tls-cert, or with a certificate \
                       it makes for itself (--self-signed). Without, other machines are\nserved \
                       only with --insecure-http, or through a proxy on this machine that speaks \
                       TLS.\n\nEvery flag can stand in a file (--config): --min-free 5 is \
                       minFree: 5 there. A flag comes first, then its variable, then\nthe file. \
                       --check reads everything, says what would be done, and changes \
                       nothing.\n\nWhere it may write the store, it also looks after it: it \
                       collects what nothing needs any more, reads all content again\nand again \
                       to find damage, drops uploads nobody continued for a day, and counts what \
                       was asked for in vain.\n\nExample:\n  kubepkg mirror serve --store \
                       /srv/mirror --listen 0.0.0.0:5000 --self-signed mirror.example.com"
)]
pub struct Arguments {
    /// Settings in a file; see samples/mirror.yaml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read all settings and files, say what would be done, and serve nothing
    #[arg(long)]
    pub check: bool,
    /// The mirror's store, as `bundle import` made it: a folder on this host, or s3://BUCKET/PREFIX,
    /// which several mirrors may serve (see docs/serving.md)
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// With a store in a bucket: the folder on this host for uploads under way, users and the
    /// certificate
    #[arg(long, value_name = "DIR")]
    pub local: Option<PathBuf>,
    /// Address and port to listen on; port 0 takes a free one and says which (repeatable)
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5000")]
    pub listen: Vec<SocketAddr>,
    /// Name (with port) that clients know this mirror by, besides the one they ask it under
    /// (repeatable)
    #[arg(long, value_name = "HOST")]
    pub own_name: Vec<String>,
    /// Address clients use where it is not the one they ask for, as behind a proxy that speaks TLS
    #[arg(long, value_name = "URL", value_parser = external_url)]
    pub external_url: Option<String>,
    /// Serve plain HTTP to other machines too: who stands between can change what tags mean
    #[arg(long)]
    pub insecure_http: bool,
    /// Let everyone who reaches the address push, delete and move tags, without a login
    #[arg(long)]
    pub anonymous_push: bool,
    /// Serve a store that is not to be changed: nobody pushes, nothing is collected, and /readyz
    /// does not ask whether it could be written
    #[arg(long)]
    pub read_only: bool,
    /// Begin with a new store where there is none, in an empty or missing folder; do not leave this
    /// in a unit file: the folder of an unmounted disk is empty too
    #[arg(long)]
    pub new_store: bool,
    /// Mount a blob only from the repository the client names, not from any that has it
    #[arg(long)]
    pub no_anonymous_mount: bool,
    /// Accept a pushed index of which some manifests are not here
    #[arg(long)]
    pub sparse_indexes: bool,
    /// Share of the disk that stays free: below it pushes are refused, and the oldest partial
    /// uploads go
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub min_free: u32,
    /// TLS.
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Who may do what.
    #[command(flatten)]
    pub logins: LoginFlags,
    /// What connections may take up.
    #[command(flatten)]
    pub bounds: BoundFlags,
    /// How the store is looked after.
    #[command(flatten)]
    pub keeping: Keeping,
}

/// Serves until it is stopped, which is no failure.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    must_be_safe(&arguments)?;
    if arguments.check {
        return checking::run(&arguments, printer);
    }
    interrupt::serve(printer, async |interrupt| {
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for wanted in &arguments.listen {
            let listener = TcpListener::bind(wanted)
                .await
                .map_err(|error| cannot_listen(*wanted, error))?;
            addresses.push(listener.local_addr()?);
            listeners.push(listener);
        }
        let store = in_bucket::or_folder(&arguments, printer).await?;
        let spoken = arguments.tls.open(&arguments)?;
        let files = arguments.logins.files(&arguments);
        let gate = Arc::new(arguments.logins.open(&arguments, files)?);
        let names = store.names().await?;
        let held = match names.repositories.len() {
            0 => "empty so far".to_owned(),
            n => count(n, "repository", "repositories"),
        };
        let scheme = if spoken.is_some() { "https" } else { "http" };
        let urls: Vec<String> = addresses
            .iter()
            .map(|a| format!("{scheme}://{a}"))
            .collect();
        printer.say(&format!(
            "serving {} ({held}) at {}",
            arguments.store.display(),
            urls.join(" and ")
        ));
        if addresses.iter().all(|address| address.ip().is_loopback()) {
            printer.say("only this machine can reach it; see --listen");
        }
        if let Some(spoken) = &spoken {
            say_tls(spoken, printer);
        }
        say_pushes(&arguments, &gate, &store, printer);
        for doubt in gate.doubts() {
            printer.warn(&placed(&doubt));
        }
        warn_of_unknown_address(&arguments, &gate, printer);
        let server = server(&arguments, &gate, spoken.as_ref(), &store);
        let serving = Serving {
            listeners,
            tls: spoken.map(|spoken| spoken.tls),
            gate,
            reload_every: arguments.logins.reload_every,
            limits: arguments.bounds.limits().within(raise_open_files()),
        };
        let keeping = &arguments.keeping;
        match store {
            Opened::Folder(store) if store.can_write() => {
                keeping.serve(store, serving, server, interrupt).await?;
            }
            Opened::Folder(_) => serving.run(server, interrupt).await?,
            Opened::Bucket(store, spool) => {
                let keep = keeping.bucket(store, spool);
                keeping.beside(keep, serving, server, interrupt).await?;
            }
        }
        printer.say("stopped");
        Ok(())
    })
}

fn server(
    arguments: &Arguments,
    gate: &Arc<Gate>,
    spoken: Option<&Spoken>,
    store: &Opened,
) -> Server {
    let server = match store {
        Opened::Folder(store) => Server::new(store.clone()),
        Opened::Bucket(store, _) => Server::new(store.clone()),
    };
    let server = server
        .own_names(&arguments.own_name)
        .reached(
            spoken.map(|spoken| Arc::clone(&spoken.tls)),
            arguments.external_url.clone(),
        )
        .plain_http(arguments.insecure_http)
        .trusted_proxies(arguments.logins.trusted_proxy.clone())
        .gate(Arc::clone(gate))
        .settings(settings_pages::page);
    let settings = PushSettings {
        mount_from_anywhere: !arguments.no_anonymous_mount,
        sparse_indexes: arguments.sparse_indexes,
    };
    match store {
        Opened::Folder(store) if !store.can_write() => match arguments.read_only {
            true => server,
            false => server.unwritable(),
        },
        Opened::Folder(store) => server.accept_pushes(store.clone(), settings),
        Opened::Bucket(store, spool) => {
            let replica = Replica::new(store.clone(), spool.clone());
            server.accept_pushes(replica, settings)
        }
    }
}

/// Plain HTTP is for this machine, or for who says so; and who may write is said in one way.
fn must_be_safe(arguments: &Arguments) -> Result<(), CommandError> {
    arguments.tls.check(arguments.insecure_http)?;
    let writes = [
        ("--anonymous-push", arguments.anonymous_push),
        ("--new-store", arguments.new_store),
    ];
    if let Some((flag, _)) = writes.iter().find(|(_, is)| *is && arguments.read_only) {
        return Err(
            CommandError::usage("a store that is only read is not written")
                .at(format!("--read-only, {flag}"))
                .hint("leave one of them out (in a file: readOnly, anonymousPush)"),
        );
    }
    let open = arguments.listen.iter().find(|a| !a.ip().is_loopback());
    match open {
        Some(address) if !arguments.insecure_http && !arguments.tls.is_wanted() => Err(
            CommandError::usage("plain HTTP would be served to other machines")
                .at(address)
                .hint(
                    "add --self-signed HOST or --tls-cert FILE for TLS, or --insecure-http if the \
                     network is trusted, or listen on 127.0.0.1 behind a proxy that speaks TLS",
                ),
        ),
        _ => Ok(()),
    }
}

fn say_tls(spoken: &Spoken, printer: &Printer) {
    if let Some((made, ca)) = &spoken.own {
        let what = match made {
            Made::Everything => "made a CA and a certificate",
            Made::Certificate => "made a new certificate of the same CA",
            Made::Kept => "using the certificate made before",
        };
        printer.say(&format!(
            "{what}; nodes trust it by /node-config/ca.crt, whose SHA-256 is {}",
            ca.fingerprint
        ));
    }
    let facts = spoken.tls.facts();
    match facts.left(Time::now()) {
        None => printer.warn(&format!(
            "the certificate does not hold now, and clients will refuse it: it holds from {} to {}",
            local_time(facts.from),
            local_time(facts.until)
        )),
        Some(left) if left < SOON => printer.warn(&format!(
            "the certificate ends on {}",
            local_time(facts.until)
        )),
        Some(_) => {}
    }
}

/// With logins and without TLS of its own it may stand behind a proxy that speaks TLS.
fn warn_of_unknown_address(arguments: &Arguments, gate: &Gate, printer: &Printer) {
    let proxied = !arguments.logins.trusted_proxy.is_empty();
    let known = arguments.tls.is_wanted() || arguments.external_url.is_some() || proxied;
    if !gate.has_logins() || known {
        return;
    }
    match arguments.insecure_http {
        true => printer.warn(
            "passwords and tokens are sent readable; if a proxy before the mirror speaks TLS, say \
             so (--external-url https://mirror.example.com), for clients are sent to http://",
        ),
        false => printer.warn(
            "clients get no tokens, because their way here is not known: they send passwords with \
             each request, and docker pulls nothing without one; say how they reach the mirror \
             (--external-url https://mirror.example.com, --trusted-proxy with the proxy's address, \
             or --insecure-http where there is no TLS)",
        ),
    }
}

/// What is odd and where, on one line.
fn placed(error: &impl Classify) -> String {
    match error.place() {
        Some(place) => format!("{place}: {error}"),
        None => error.to_string(),
    }
}

fn say_pushes(arguments: &Arguments, gate: &Gate, store: &Opened, printer: &Printer) {
    let users = gate.users().len();
    match (store.can_write(), arguments.anonymous_push, users) {
        (false, ..) => {}
        (true, true, _) => printer.say("everyone who reaches it may push"),
        (true, false, 0) => {}
        (true, false, users) => {
            printer.say(&format!("{} may log in", count(users, "user", "users")));
        }
    }
}

/// Opens the store for writing, unless it is only to be read: then it is also looked after. Where
/// this process may not write it, it is served all the same, and not ready.
fn open(arguments: &Arguments, printer: &Printer) -> anyhow::Result<FileStore> {
    let folder = &arguments.store;
    if arguments.read_only {
        return Ok(FileStore::open(folder, OpenMode::ReadOnly)?);
    }
    match FileStore::open(folder, OpenMode::Writable) {
        Ok(store) => Ok(store.min_free(arguments.min_free * 10)),
        Err(error @ StoreError::Unusable { .. }) if !arguments.anonymous_push => {
            match FileStore::open(folder, OpenMode::ReadOnly) {
                Ok(store) => {
                    printer.warn(&format!(
                        "the store cannot be written, so it is served for pulls alone and /readyz \
                         says no (--read-only if that is meant): {error}"
                    ));
                    Ok(store)
                }
                Err(_) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn cannot_listen(address: SocketAddr, error: std::io::Error) -> CommandError {
    let hint = match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "another program listens there; stop it (a mirror that runs is \
                                            one), or choose another --listen"
        }
        std::io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege",
        _ => "the address must be one of this machine's, or 0.0.0.0 for all of them",
    };
    CommandError::failed("cannot listen")
        .at(address)
        .hint(hint)
        .because(error)
}

fn external_url(text: &str) -> Result<String, String> {
    let checked = kubepkg_node_config::Mirror::new(text).map_err(|error| error.to_string())?;
    Ok(checked.base().to_owned())
}
