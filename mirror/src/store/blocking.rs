//! File work away from the threads that answer requests.

use std::io;
use std::path::Path;

use kubepkg_core::store::StoreError;

use super::disk::failed;

/// Runs `work` on the blocking pool of the runtime this is polled in; without a runtime, here.
pub(super) async fn blocking<T: Send + 'static>(
    root: &Path,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return work();
    };
    match runtime.spawn_blocking(work).await {
        Ok(result) => result,
        Err(e) => match e.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(failed("use", root)(io::Error::other(
                "the process is shutting down",
            ))),
        },
    }
}
