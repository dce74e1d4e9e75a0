//! Collection: taking away what nothing reaches, while others push and pull.
//!
//! [`mark`] says what is live, [`ledger`] what is condemned and what may go, both without
//! touching anything; [`protocol`] are the steps under the lock, [`ground`] where they happen,
//! and [`run`] one collection from beginning to end.

mod ground;
mod kept;
mod ledger;
mod list;
pub(crate) mod mark;
#[cfg(test)]
mod model;
mod protocol;
mod report;
pub(super) mod reserve;
pub(super) mod run;
mod served;
mod standing;

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use kubepkg_core::store::{Cause, Collect, Garbage, StoreError, Swept};
use kubepkg_core::time::Time;
use kubepkg_core::{Algorithm, Digest};

pub(crate) use ground::touch_record;
pub(crate) use mark::subject_of;
pub(crate) use protocol::Touched;
pub use report::{Amount, Collected, Reason, Waiting};
pub use run::{Collecting, GRACE, KEEP_IMPORTS};
pub(super) use served::Served;
pub(crate) use served::TICK;
pub(super) use standing::Standings;

use super::FileStore;
use ground::OnDisk;

impl FileStore {
    /// Collects: removes what an earlier collection condemned and nobody wanted since, and
    /// condemns what nothing reaches now. Waits while another collection runs.
    pub async fn collect(&self, collecting: Collecting) -> Result<Collected, StoreError> {
        let dry_run = collecting.dry_run;
        let collected = self.work(move |opened| run::run(opened, &collecting)).await;
        self.collections.add(dry_run, &collected);
        collected
    }

    /// Content that is kept so that one of the last `imports` imports can be gone back to.
    pub async fn kept_for_imports(&self, imports: usize) -> Result<HashSet<Digest>, StoreError> {
        let names = self.names().await?;
        self.work(move |opened| Ok(kept::states(&opened.layout, &names, imports)?.contents()))
            .await
    }

    /// When the store was collected last; `None` where nobody knows.
    pub fn last_collected(&self) -> Option<Time> {
        run::last(&self.opened.layout)
    }

    /// Says that this process serves the store from now on: the time counts for graces.
    /// `false` when another process does.
    pub async fn start_serving(&self) -> Result<bool, StoreError> {
        self.work(|opened| {
            let writable = opened.writable()?;
            writable.served.start(&writable.disk)
        })
        .await
    }

    /// Notes for how long it has been served. To be called every few seconds.
    pub(crate) async fn note_served(&self) -> Result<(), StoreError> {
        self.work(|opened| opened.writable()?.served.tick()).await
    }

    /// Gives a socket in the store's folder the owner and mode the store's files have.
    pub(crate) fn dress(&self, path: &Path) -> Result<(), StoreError> {
        self.opened.writable()?.disk.dress_path(path)
    }

    /// Serving is over.
    pub async fn stop_serving(&self) -> Result<(), StoreError> {
        self.work(|opened| opened.writable()?.served.stop()).await
    }
}

impl Collect for FileStore {
    async fn list(&self, algorithm: Algorithm, first: u8) -> Result<Vec<Digest>, StoreError> {
        self.work(move |opened| run::contents_in(&opened.layout, algorithm, first))
            .await
    }

    async fn condemn(&self, garbage: BTreeSet<Garbage>) -> Result<(), StoreError> {
        self.work(move |opened| {
            let on_disk = OnDisk {
                writable: opened.writable()?,
                at: Time::from_unix(0),
                cause: Cause::Collect,
            };
            protocol::condemn(&on_disk, garbage)
        })
        .await
    }

    async fn rescue(&self, digests: Vec<Digest>) -> Result<(), StoreError> {
        FileStore::rescue(self, digests).await
    }

    async fn sweep(
        &self,
        sequence: u64,
        garbage: BTreeSet<Garbage>,
        grace: Duration,
        at: Time,
    ) -> Result<Swept, StoreError> {
        self.work(move |opened| {
            let on_disk = OnDisk {
                writable: opened.writable()?,
                at,
                cause: Cause::Collect,
            };
            protocol::sweep(&on_disk, sequence, garbage, grace)
        })
        .await
    }
}
