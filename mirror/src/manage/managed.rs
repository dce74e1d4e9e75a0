//! What is asked of a store that an operator works on, wherever it lies.

use std::collections::HashSet;
use std::future::Future;

use kubepkg_core::Digest;
use kubepkg_core::store::{Cause, Record, Store, StoreError};
use kubepkg_core::time::Time;

use crate::bucket::BucketStore;
use crate::source::Source;
use crate::store::FileStore;

/// Records, read one by one.
pub type Records<'s> = Box<dyn Iterator<Item = Result<Record, StoreError>> + 's>;

/// A store an operator works on.
pub trait Managed: Store + Source {
    /// The records of imports, the newest first. Reads them: call it where that may take long.
    fn imports_back(&self) -> Result<Records<'_>, StoreError>;

    /// Content that is kept so that one of the last `imports` imports can be gone back to.
    fn kept_for_imports(
        &self,
        imports: usize,
    ) -> impl Future<Output = Result<HashSet<Digest>, StoreError>> + Send;

    /// When all content was last looked at for damage; `None` where nobody does that.
    fn scrubbed_at(&self) -> Option<Time>;
}

impl Managed for FileStore {
    fn imports_back(&self) -> Result<Records<'_>, StoreError> {
        let records = self.records_back()?;
        Ok(Box::new(records.filter(|record| match record {
            Ok(record) => matches!(record.cause, Cause::Import(_)),
            Err(_) => true,
        })))
    }

    async fn kept_for_imports(&self, imports: usize) -> Result<HashSet<Digest>, StoreError> {
        FileStore::kept_for_imports(self, imports).await
    }

    fn scrubbed_at(&self) -> Option<Time> {
        self.scrubbed().finished
    }
}

impl Managed for BucketStore {
    fn imports_back(&self) -> Result<Records<'_>, StoreError> {
        Ok(Box::new(self.imports()))
    }

    async fn kept_for_imports(&self, imports: usize) -> Result<HashSet<Digest>, StoreError> {
        BucketStore::kept_for_imports(self, imports).await
    }

    fn scrubbed_at(&self) -> Option<Time> {
        None
    }
}
