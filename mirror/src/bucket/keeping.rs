//! What is done again and again while a bucket is served: collecting, by one replica at a time,
//! and dropping uploads nobody goes on with.

use std::future::Future;
use std::time::Duration;

use kubepkg_core::time::Time;

use super::{BucketStore, Spool};
use crate::keeper::{Settings, report};
use crate::store::Collecting;
use crate::told::told;

/// How often it is looked whether a collection is due: replicas share the time of the last one.
const LOOK: Duration = Duration::from_secs(60);

/// How long is waited after a collection that failed: each reads all of the bucket's list.
const AFTER_FAILURE: Duration = Duration::from_secs(10 * 60);

/// How often abandoned uploads are looked for.
const UPLOADS_EVERY: Duration = Duration::from_secs(10 * 60);

/// An upload to which nothing was added for so long is dropped: no client comes back to it.
const UPLOAD_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// Keeps a store, and the uploads of this replica, until `shutdown` is done.
pub async fn keep(
    store: BucketStore,
    spool: Option<Spool>,
    settings: Settings,
    shutdown: impl Future<Output = ()> + Send,
) {
    tokio::select! {
        () = shutdown => {}
        () = collect(&store, settings) => {}
        () = expire(spool) => {}
    }
}

async fn collect(store: &BucketStore, settings: Settings) {
    if settings.every.is_zero() {
        return std::future::pending().await;
    }
    let look = LOOK.min(settings.every);
    let mut wait = look;
    loop {
        tokio::time::sleep(wait).await;
        wait = look;
        // the time of the last one may be that of another replica
        if let Err(error) = store.names().await {
            tracing::warn!(error = %told(&error), task = "collection", "it is tried again later");
            continue;
        }
        let now = Time::now();
        let since = store.last_collected().map(|last| now.since(last));
        let every = i64::try_from(settings.every.as_secs()).unwrap_or(i64::MAX);
        // a clock that was set back is no reason to wait for years
        if since.is_some_and(|since| (0..every).contains(&since)) {
            continue;
        }
        let collecting = Collecting {
            grace: settings.grace,
            keep_imports: settings.keep_imports,
            ..Collecting::new(now)
        };
        match store.collect(collecting).await {
            Ok(Some(collected)) => report(&collected),
            Ok(None) => {}
            Err(error) => {
                // the next one begins from the start
                wait = AFTER_FAILURE.min(settings.every);
                tracing::warn!(error = %told(&error), task = "collection", "it is tried again later");
            }
        }
    }
}

async fn expire(spool: Option<Spool>) {
    let Some(spool) = spool else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(UPLOADS_EVERY).await;
        match spool.expire(UPLOAD_IDLE).await {
            Ok((0, _)) => {}
            Ok((uploads, bytes)) => {
                tracing::info!(uploads, bytes, "abandoned uploads were dropped")
            }
            Err(error) => {
                tracing::warn!(error = %told(&error), task = "uploads", "it is tried again later");
            }
        }
    }
}
