//! Pushes without end beside collections without end: what a client was told is here stays
//! until it has used it, what it was told is taken can be read, and all else goes.
//!
//! Two servers with a store of their own serve one folder, as two processes would. One of them
//! collects every 100 ms with a grace of two seconds, so content is condemned while somebody
//! pushes it all the time. `KPTEST_LONG=<minutes>` makes more of it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests are not marked as tests"
)]

mod client;
mod worker;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::time::Time;
use kubepkg_mirror::http::{PushSettings, Server};
use kubepkg_mirror::keeper::{Keeper, Settings};
use kubepkg_mirror::serve::serve;
use kubepkg_mirror::store::{Collecting, FileStore, OpenMode};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use worker::{Pushed, Worker};

/// How long something stays condemned.
const GRACE: Duration = Duration::from_secs(2);

/// How many clients push at once.
const WORKERS: u64 = 6;

/// How long to go on.
fn long() -> Duration {
    match std::env::var("KPTEST_LONG") {
        Ok(minutes) => {
            let minutes: u64 = minutes.parse().expect("KPTEST_LONG is a number of minutes");
            Duration::from_secs(60 * minutes)
        }
        Err(_) => Duration::from_secs(15),
    }
}

/// Serves and keeps the folder until nobody holds the sender.
async fn server(
    root: &Path,
    over: watch::Receiver<()>,
    tasks: &mut JoinSet<()>,
) -> (FileStore, SocketAddr) {
    let store = FileStore::open(root, OpenMode::OpenOrCreate).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::new(store.clone()).accept_pushes(store.clone(), PushSettings::default());
    let settings = Settings {
        every: Duration::from_millis(100),
        grace: GRACE,
        ..Settings::default()
    };
    tasks.spawn(Keeper::new(store.clone(), settings).run(dropped(over.clone())));
    tasks.spawn(async move { serve(listener, server, dropped(over)).await.unwrap() });
    (store, address)
}

async fn dropped(mut receiver: watch::Receiver<()>) {
    while receiver.changed().await.is_ok() {}
}

/// All content there is.
fn content(root: &Path) -> HashSet<Digest> {
    let entries = |path: &Path| {
        let entries = std::fs::read_dir(path).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .collect::<Vec<_>>()
    };
    let mut all = HashSet::new();
    for folder in entries(&root.join("blobs/sha256")) {
        for path in entries(&folder) {
            let hex = path.file_name().unwrap().to_str().unwrap();
            all.insert(format!("sha256:{hex}").parse().unwrap());
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_that_was_confirmed_is_collected_and_all_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let (serving, over) = watch::channel(());
    let mut tasks = JoinSet::new();
    let (store, first) = server(folder.path(), over.clone(), &mut tasks).await;
    let (second_store, second) = server(folder.path(), over, &mut tasks).await;

    let until = std::time::Instant::now() + long();
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        workers.spawn(Worker::new(number, [first, second], GRACE / 2).work(until));
    }
    let mut pushed = Pushed::default();
    while let Some(worker) = workers.join_next().await {
        pushed.add(worker.unwrap());
    }
    let here = content(folder.path());
    let collected = pushed.ever.iter().filter(|digest| !here.contains(*digest));
    println!(
        "{} pushes, {} deletes, {} skipped and {} mounted blobs, {} collected meanwhile, {} void",
        pushed.pushes,
        pushed.deletes,
        pushed.skipped,
        pushed.mounted,
        collected.clone().count(),
        pushed.void,
    );
    assert!(collected.count() > 0, "nothing was collected meanwhile");
    assert!(
        pushed.live.is_subset(&here),
        "something acknowledged is gone"
    );

    drop(serving);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    drop(second_store);
    let collecting = Collecting {
        grace: Duration::ZERO,
        ..Collecting::new(Time::now())
    };
    for _ in 0..4 {
        store.collect(collecting.clone()).await.unwrap();
    }
    let left = content(folder.path());
    let gone: Vec<_> = pushed.live.difference(&left).collect();
    assert!(gone.is_empty(), "acknowledged and gone: {gone:?}");
    let garbage: Vec<_> = left.difference(&pushed.live).collect();
    assert!(garbage.is_empty(), "garbage left: {garbage:?}");
}
