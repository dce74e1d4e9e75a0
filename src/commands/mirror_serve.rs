//! `mirror serve`: a store as registry and chart repository.

use std::net::SocketAddr;
use std::path::PathBuf;

use kubepkg_core::store::StoreError;
use kubepkg_mirror::http::{PushSettings, Server};
use kubepkg_mirror::serve::{Limits, raise_open_files, serve_with};
use kubepkg_mirror::store::{FileStore, OpenMode};
use tokio::net::TcpListener;

use super::mirror_keeping::Keeping;
use super::store_folder;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::settings_pages;
use crate::units::count;

/// Flags of `mirror serve`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror serve --store /srv/mirror --listen 127.0.0.1:5000",
    after_long_help = "Serves what was imported: images, charts and index files under their \
                       upstream names. Everyone who reaches the\naddress may read; nobody can \
                       write, unless --anonymous-push lets everyone write. Imports into the same \
                       store\nare seen at once, without a restart. It speaks plain HTTP: other machines are served \
                       only with --insecure-http, or\nthrough a proxy on this machine that speaks \
                       TLS.\n\nWhere it may write the store, it also looks after it: it \
                       collects what nothing needs any more, reads all content again\nand again \
                       to find damage, drops uploads nobody continued for a day, and counts what \
                       was asked for in vain.\n\nExample:\n  kubepkg mirror serve --store /srv/mirror --listen \
                       0.0.0.0:5000 --insecure-http"
)]
pub struct Arguments {
    /// The mirror's store on this host, as `bundle import` made it
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
    /// Address and port to listen on; port 0 takes a free one and says which
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5000")]
    pub listen: SocketAddr,
    /// Name (with port) that clients know this mirror by, besides the one they ask it under
    /// (repeatable)
    #[arg(long, value_name = "HOST")]
    pub own_name: Vec<String>,
    /// Serve plain HTTP to other machines too: who stands between can change what tags mean
    #[arg(long)]
    pub insecure_http: bool,
    /// Let everyone who reaches the address push, delete and move tags, without a login
    #[arg(long)]
    pub anonymous_push: bool,
    /// Begin with a new store where there is none, in an empty or missing folder; do not leave this
    /// in a unit file: the folder of an unmounted disk is empty too
    #[arg(long)]
    pub new_store: bool,
    /// Mount a blob only from the repository the client names, not from any that has it
    #[arg(long, requires = "anonymous_push")]
    pub no_anonymous_mount: bool,
    /// Accept a pushed index of which some manifests are not here
    #[arg(long, requires = "anonymous_push")]
    pub sparse_indexes: bool,
    /// Share of the disk that stays free: below it pushes are refused, and the oldest partial
    /// uploads go
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = clap::value_parser!(u32).range(0..=99))]
    pub min_free: u32,
    /// How the store is looked after.
    #[command(flatten)]
    pub keeping: Keeping,
}

/// Serves until it is stopped, which is no failure.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    if !arguments.listen.ip().is_loopback() && !arguments.insecure_http {
        return Err(CommandError::usage("plain HTTP would be served to other machines")
            .at(arguments.listen)
            .hint(
                "add --insecure-http if the network is trusted, or listen on 127.0.0.1 behind a \
                 proxy that speaks TLS",
            )
            .into());
    }
    interrupt::serve(printer, async |interrupt| {
        let listener = TcpListener::bind(arguments.listen)
            .await
            .map_err(|error| cannot_listen(arguments.listen, error))?;
        let address = listener.local_addr()?;
        if arguments.new_store {
            store_folder::check(&arguments.store)?;
            FileStore::open(&arguments.store, OpenMode::OpenOrCreate)?;
        } else {
            store_folder::must_exist(&arguments.store)?;
        }
        let store = open(&arguments, printer)?;
        let names = store.names().await?;
        let held = match names.repositories.len() {
            0 => "empty so far".to_owned(),
            n => count(n, "repository", "repositories"),
        };
        printer.say(&format!(
            "serving {} ({held}) at http://{address}",
            arguments.store.display()
        ));
        if address.ip().is_loopback() {
            printer.say("only this machine can reach it; see --listen");
        }
        let mut server = Server::new(store.clone())
            .own_names(&arguments.own_name)
            .settings(settings_pages::maker("http"));
        if arguments.anonymous_push {
            printer.say("everyone who reaches it may push");
            let settings = PushSettings {
                mount_from_anywhere: !arguments.no_anonymous_mount,
                sparse_indexes: arguments.sparse_indexes,
            };
            server = server.accept_pushes(store.clone(), settings);
        }
        let limits = Limits::default().within(raise_open_files());
        if store.can_write() {
            let keeping = &arguments.keeping;
            keeping
                .serve(store, listener, server, limits, interrupt)
                .await?;
        } else {
            serve_with(listener, server, limits, interrupt.requested()).await?;
        }
        printer.say("stopped");
        Ok(())
    })
}

/// Opens the store for writing where this process may: then it is also looked after. Where it
/// may not, it is served all the same.
fn open(arguments: &Arguments, printer: &Printer) -> anyhow::Result<FileStore> {
    let folder = &arguments.store;
    match FileStore::open(folder, OpenMode::Writable) {
        Ok(store) => Ok(store.min_free(arguments.min_free * 10)),
        Err(error @ StoreError::Unusable { .. }) if !arguments.anonymous_push => {
            match FileStore::open(folder, OpenMode::ReadOnly) {
                Ok(store) => {
                    printer.say(&format!("only reading the store: {error}"));
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
        std::io::ErrorKind::AddrInUse => "another program listens there; choose another --listen",
        std::io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege",
        _ => "the address must be one of this machine's, or 0.0.0.0 for all of them",
    };
    CommandError::failed("cannot listen")
        .at(address)
        .hint(hint)
        .because(error)
}
