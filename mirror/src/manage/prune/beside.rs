//! The commit of a prune beside others: what was pushed into repositories of which nothing goes
//! changes nothing about it. An import always does, also one that only brought names into
//! such repositories: its packages may need what was judged to go.

use std::collections::BTreeSet;
use std::future::Future;

use kubepkg_core::store::{Batch, Cause, Change, Committed, Record, Store, StoreError, Unit};

use crate::bucket::BucketStore;
use crate::manage::managed::Managed;
use crate::store::FileStore;

/// How often a prune is committed again that those who were faster do not concern.
const BESIDE: usize = 100;

/// A store that is pruned.
pub(super) trait Beside: Managed {
    /// Commits a prune that was judged by the names of commit `expected`.
    fn commit_prune(
        &self,
        expected: u64,
        batch: Batch,
    ) -> impl Future<Output = Result<Committed, StoreError>> + Send;
}

/// Whether a prune has to be judged again after this, whatever it takes.
fn counts(record: &Record) -> bool {
    let mut changes = record.changes.iter();
    matches!(record.cause, Cause::Import(_))
        || changes.any(|recorded| !matches!(recorded.change.unit(), Unit::Repository(_)))
}

impl Beside for BucketStore {
    async fn commit_prune(&self, expected: u64, batch: Batch) -> Result<Committed, StoreError> {
        self.commit_after(expected, batch, Some(&counts)).await
    }
}

impl Beside for FileStore {
    async fn commit_prune(&self, mut expected: u64, batch: Batch) -> Result<Committed, StoreError> {
        let touched: BTreeSet<Unit> = batch.changes.iter().map(Change::unit).collect();
        for _ in 0..BESIDE {
            let newest = match self.commit(expected, batch.clone()).await? {
                Committed::Conflict { newest } if newest > expected => newest,
                done => return Ok(done),
            };
            for number in expected + 1..=newest {
                // one that is there no more may have changed anything
                let touches = self.record(number).await?.is_none_or(|record| {
                    let mut changes = record.changes.iter();
                    counts(&record)
                        || changes.any(|recorded| touched.contains(&recorded.change.unit()))
                });
                if touches {
                    return Ok(Committed::Conflict { newest });
                }
            }
            expected = newest;
        }
        Ok(Committed::Conflict { newest: expected })
    }
}

#[cfg(test)]
mod tests {
    use kubepkg_core::store::Receipt;
    use kubepkg_core::time::Time;

    use super::*;
    use crate::bucket::{Bucket, BucketMode};
    use crate::store::OpenMode;

    fn batch(cause: Cause, repository: &str, n: u64) -> Batch {
        Batch {
            at: Time::from_unix(1_796_000_000),
            cause,
            changes: vec![Change::Upstream {
                repository: repository.parse().unwrap(),
                new: Some(format!("oci://{repository}/{n}")),
            }],
        }
    }

    async fn an_import_counts(store: &impl Beside) {
        let prune = || batch(Cause::Prune, "pruned", 1);
        let import = || Cause::Import(Box::<Receipt>::default());
        store.commit(0, batch(import(), "a", 1)).await.unwrap();
        let conflict = store.commit_prune(0, prune()).await.unwrap();
        assert_eq!(conflict, Committed::Conflict { newest: 1 });
        store.commit(1, batch(Cause::Push, "b", 1)).await.unwrap();
        let done = store.commit_prune(1, prune()).await.unwrap();
        assert_eq!(done, Committed::Done(3));
        let push = batch(Cause::Push, "pruned", 2);
        store.commit(3, push).await.unwrap();
        let conflict = store.commit_prune(3, prune()).await.unwrap();
        assert_eq!(conflict, Committed::Conflict { newest: 4 });
    }

    #[tokio::test]
    async fn an_import_since_it_was_judged_is_a_conflict_in_a_folder() {
        let root = tempfile::tempdir().unwrap();
        an_import_counts(&FileStore::open(root.path(), OpenMode::OpenOrCreate).unwrap()).await;
    }

    #[tokio::test]
    async fn an_import_since_it_was_judged_is_a_conflict_in_a_bucket() {
        let bucket = Bucket::in_memory().unwrap();
        let store = BucketStore::open(bucket, BucketMode::OpenOrCreate).await;
        an_import_counts(&store.unwrap()).await;
    }
}
