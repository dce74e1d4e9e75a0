//! Looking after a store while `mirror serve` serves it.

use std::sync::Arc;
use std::time::Duration;

use kubepkg_mirror::access::Gate;
use kubepkg_mirror::bucket::{BucketStore, Spool, keep};
use kubepkg_mirror::http::Server;
use kubepkg_mirror::keeper::{Keeper, Settings};
use kubepkg_mirror::serve::{Limits, ServeError, serve_on};
use kubepkg_mirror::store::FileStore;
use kubepkg_mirror::tls::Tls;
use kubepkg_mirror::wanted::Wanted;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::interrupt::Interrupt;
use crate::units::{parse_duration_or_zero, parse_size};

/// Flags that say how a store is looked after while it is served.
#[derive(Clone, Debug, clap::Args)]
pub struct Keeping {
    /// How often to collect what nothing needs any more; 0 for never
    #[arg(long, value_name = "TIME", default_value = "6h", value_parser = parse_duration_or_zero)]
    pub gc_every: Duration,
    /// How long what a collection found stays, in time the store is served, before a later one
    /// removes it; longer than the longest push takes
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration_or_zero)]
    pub gc_grace: Duration,
    /// Read at most so much in a second to find damaged content; 0 for not at all; not of a bucket
    /// [default: 20MiB]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub scrub_rate: Option<u64>,
}

/// How much of a store in a folder is read in a second unless said otherwise.
const SCRUB_RATE: u64 = 20 * 1024 * 1024;

impl Keeping {
    fn settings(&self) -> Settings {
        Settings {
            every: self.gc_every,
            grace: self.gc_grace,
            ..Settings::default()
        }
    }

    fn keeper(&self, store: FileStore) -> Keeper {
        Keeper::new(store, self.settings())
            .uploads()
            .scrub(self.folder_scrub_rate())
    }

    /// How much of a store in a folder is read in a second.
    pub fn folder_scrub_rate(&self) -> u64 {
        self.scrub_rate.unwrap_or(SCRUB_RATE)
    }

    /// Serves a store this process may write, and looks after it until the last answer is
    /// given.
    pub async fn serve(
        &self,
        store: FileStore,
        serving: Serving,
        server: Server,
        interrupt: Interrupt,
    ) -> Result<(), ServeError> {
        let wanted = Arc::new(Wanted::default());
        let server = server.count_misses(Arc::clone(&wanted));
        let (keeping, store) = (self.keeper(store.clone()), store);
        let keep = async move |over: watch::Receiver<()>| {
            let keeper = keeping.run(dropped(over.clone()));
            let misses = wanted.keep(&store, dropped(over));
            tokio::join!(keeper, misses);
        };
        self.beside(keep, serving, server, interrupt).await
    }

    /// What looks after a store in a bucket while this mirror serves it.
    pub fn bucket(
        &self,
        store: BucketStore,
        spool: Spool,
    ) -> impl AsyncFnOnce(watch::Receiver<()>) + use<> {
        let settings = self.settings();
        async move |over| keep(store, Some(spool), settings, dropped(over)).await
    }

    /// Serves, and does `keep` beside it until the last answer is given.
    pub async fn beside(
        &self,
        keep: impl AsyncFnOnce(watch::Receiver<()>),
        serving: Serving,
        server: Server,
        interrupt: Interrupt,
    ) -> Result<(), ServeError> {
        let (alive, over) = watch::channel(());
        let served = async move {
            let served = serving.run(server, interrupt).await;
            drop(alive);
            served
        };
        let (served, ()) = tokio::join!(served, keep(over));
        served
    }
}

/// What a server is put on.
pub struct Serving {
    pub listeners: Vec<TcpListener>,
    pub tls: Option<Arc<Tls>>,
    pub gate: Arc<Gate>,
    /// How often the files of both are looked at.
    pub reload_every: Duration,
    pub limits: Limits,
}

impl Serving {
    /// Serves until it is interrupted, and reads files of settings again that change meanwhile.
    pub async fn run(self, server: Server, interrupt: Interrupt) -> Result<(), ServeError> {
        let every = self.reload_every;
        let tls = self.tls.clone();
        let certificates = async {
            match tls {
                Some(tls) => tls.keep(every).await,
                None => std::future::pending().await,
            }
        };
        let gate = self.gate.keep(every);
        let requested = interrupt.requested();
        let served = serve_on(self.listeners, self.tls, server, self.limits, requested);
        tokio::select! {
            served = served => served,
            ((), ()) = async { tokio::join!(certificates, gate) } => Ok(()),
        }
    }
}

/// Done when nobody can send any more.
async fn dropped(mut receiver: watch::Receiver<()>) {
    while receiver.changed().await.is_ok() {}
}
