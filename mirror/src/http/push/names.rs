//! Changing names: look, decide, commit, and look again when somebody else was faster.

use kubepkg_core::Digest;
use kubepkg_core::store::{Batch, Cause, Change, Committed, Names, StoreError};
use kubepkg_core::time::Time;

use super::Pushing;
use crate::http::error::ApiError;
use crate::http::fresh;
use crate::sink::SinkError;
use crate::source::{Age, Standing};

/// How often it is looked again. Changes of this process take turns, so only those of other
/// processes come in between, and they are few.
const TRIES: usize = 100;

/// Why names were not changed.
#[derive(Debug)]
pub(super) enum Unchanged {
    /// It was decided not to.
    Decided(ApiError),
    /// The store did not take the change.
    Sink(SinkError),
}

impl From<ApiError> for Unchanged {
    fn from(error: ApiError) -> Unchanged {
        Unchanged::Decided(error)
    }
}

impl Pushing<'_> {
    /// Makes the changes that `decide` finds from the newest names, all at once. What would
    /// change nothing is not committed.
    pub(super) async fn change<T>(
        &self,
        mut decide: impl FnMut(&Names) -> Result<(Vec<Change>, T), ApiError>,
    ) -> Result<T, Unchanged> {
        let _turn = self.push.turn.lock().await;
        for _ in 0..TRIES {
            let names = fresh::names(self.shared, Age::Moment).await?;
            let (mut changes, decided) = decide(&names)?;
            let named: Vec<Digest> = changes.iter().filter_map(names_content).collect();
            changes.retain(|change| names.differs(change));
            if changes.is_empty() {
                // "it is here already" is a promise like any other
                if self.wanted_again(named).await? {
                    continue;
                }
                return Ok(decided);
            }
            let batch = Batch {
                at: Time::now(),
                cause: Cause::Push,
                changes,
            };
            let committed = self.push.sink.commit(names.sequence, batch).await;
            match committed.map_err(Unchanged::Sink)? {
                Committed::Done(_) => return Ok(decided),
                Committed::Conflict { newest } => {
                    tracing::debug!(newest, "somebody else was faster");
                }
            }
        }
        Err(Unchanged::Sink(SinkError::Busy))
    }

    /// Takes what is condemned of this content off the list. `true` when there was any: it may
    /// have been taken before, so the names have to be looked at again.
    async fn wanted_again(&self, digests: Vec<Digest>) -> Result<bool, ApiError> {
        let source = &self.shared.source;
        let condemned = |digest: &Digest| source.standing(digest) == Standing::Condemned;
        if !digests.iter().any(condemned) {
            return Ok(false);
        }
        match source.rescue(digests).await {
            // it was removed just before: the names say so when they are looked at again
            Ok(()) | Err(StoreError::Missing { .. }) => Ok(true),
            Err(error) => Err(ApiError::not_taken(&error)),
        }
    }

    /// [`Pushing::change`], with the answer for a client; `what` is what it was about.
    pub(super) async fn change_for<T>(
        &self,
        what: &str,
        decide: impl FnMut(&Names) -> Result<(Vec<Change>, T), ApiError>,
    ) -> Result<T, ApiError> {
        self.change(decide).await.map_err(|error| match error {
            Unchanged::Decided(error) => error,
            Unchanged::Sink(error) => self.refused(error, what),
        })
    }
}

/// The content a change gives a name to.
fn names_content(change: &Change) -> Option<Digest> {
    match change {
        Change::Manifest {
            digest,
            new: Some(_),
            ..
        }
        | Change::Blob {
            digest,
            new: Some(_),
            ..
        } => Some(*digest),
        Change::Tag { new, .. } => new.as_ref().map(|tag| tag.digest),
        _ => None,
    }
}
