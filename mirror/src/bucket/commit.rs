//! One commit. Everything that takes long happens before its turn: content is looked for, and a large
//! text is written. Where another one was faster only what that changed is looked at, and the number.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kubepkg_core::Digest;
use kubepkg_core::store::{Batch, Committed, Names, Record, StoreError, Unit};

use super::log::Offer;
use super::state::{Entry, State};
use super::{AT_ONCE, BucketStore};
use crate::store::needed::{is_there, needed};
use crate::told::told;

/// How often a commit is offered again that those who are faster do not concern: each costs two
/// small requests, and who pushes without rest is faster most of the time.
const PERSISTENT: usize = 10_000;

impl BucketStore {
    /// Checks that this content is here in this state. What was `found` under the key it has in this
    /// state is there.
    async fn check_content(
        &self,
        state: &State,
        needed: &BTreeSet<(Digest, u64)>,
        found: &mut HashMap<Digest, u64>,
    ) -> Result<(), StoreError> {
        let open: Vec<(Digest, u64)> = (needed.iter())
            .filter(|(digest, _)| found.get(digest) != Some(&state.removed(digest)))
            .copied()
            .collect();
        let looking = open.into_iter().map(|(digest, size)| async move {
            is_there(digest, size, self.contents.size(state, &digest).await?)?;
            Ok::<_, StoreError>(digest)
        });
        let mut looked = futures_util::stream::iter(looking).buffer_unordered(AT_ONCE);
        while let Some(digest) = looked.next().await {
            let digest = digest?;
            found.insert(digest, state.removed(&digest));
        }
        Ok(())
    }

    /// Whether none of the commits after `from` up to the one of `state` touches what is asked for.
    async fn left_alone(
        &self,
        from: u64,
        state: &State,
        touches: &(dyn Fn(&Entry) -> bool + Sync),
    ) -> Result<bool, StoreError> {
        let between = futures_util::stream::iter(from + 1..=state.sequence());
        let read = between.map(|number| self.log.entry(number));
        let mut read = std::pin::pin!(read.buffered(AT_ONCE));
        while let Some(entry) = read.next().await {
            let Some(entry) = entry? else {
                return Ok(false);
            };
            if touches(&entry) {
                return Ok(false);
            }
        }
        Ok(from <= state.sequence())
    }

    /// Commits, if no commit since `expected` touches what the batch changes, or is one that
    /// `counts`; by default all are.
    pub(crate) async fn commit_after(
        &self,
        mut expected: u64,
        batch: Batch,
        counts: Option<&(dyn Fn(&Record) -> bool + Sync)>,
    ) -> Result<Committed, StoreError> {
        batch.check()?;
        let mut state = self.log.known();
        if state.sequence() < expected {
            state = self.log.read_on(Duration::ZERO).await?;
        }
        let touched: BTreeSet<Unit> = batch.changes.iter().map(|change| change.unit()).collect();
        let touches = |entry: &Entry| {
            let mut changes = entry.record.changes.iter();
            counts.is_none_or(|counts| counts(&entry.record))
                || changes.any(|recorded| touched.contains(&recorded.change.unit()))
        };
        let (mut waiting, mut found) = (None, HashMap::new());
        // those that were faster, and the content that was gone when this was looked for
        let (mut faster, mut gone): (Vec<Entry>, _) = (Vec::new(), Arc::clone(&state.removed));
        for _ in 0..PERSISTENT {
            let newest = state.sequence();
            let all_known = newest == expected + faster.len() as u64;
            let beside = match counts {
                _ if newest == expected => true,
                None => false,
                Some(_) if all_known => !faster.iter().any(touches),
                Some(_) => self.left_alone(expected, &state, &touches).await?,
            };
            if !beside {
                return Ok(Committed::Conflict { newest });
            }
            expected = newest;
            let (needed, prepared) = match waiting.take() {
                Some(waiting) => waiting,
                None => {
                    let mut after = Names::clone(&state.names);
                    let mut entry = self.log.empty(&state, batch.cause.clone(), batch.at)?;
                    let number = entry.record.number;
                    let changes = batch.changes.iter();
                    entry.record.changes =
                        changes.map(|change| after.apply(change, number)).collect();
                    let needed = needed(&batch.changes, &after)?;
                    // before the large part is written, and again where content was removed since
                    gone = Arc::clone(&state.removed);
                    self.check_content(&state, &needed, &mut found).await?;
                    (needed, self.log.prepare(entry).await?)
                }
            };
            let mut prepared = prepared;
            if !prepared.follow(expected) {
                let entry = prepared.entry.clone();
                prepared = self.log.prepare(entry).await?;
            }
            if !Arc::ptr_eq(&gone, &state.removed) {
                self.check_content(&state, &needed, &mut found).await?;
                gone = Arc::clone(&state.removed);
            }
            let number = expected + 1;
            match self.log.offer(&state, prepared).await? {
                Offer::Done(state) => {
                    // collection asks for it; where this fails it is made from the records
                    if state.imports.contains(&number)
                        && state.sequence() == number
                        && let Err(error) = self.log.keep(state).await
                    {
                        tracing::warn!(error = %told(&error), "the names are kept another time");
                    }
                    return Ok(Committed::Done(number));
                }
                Offer::Conflict(newer, (prepared, there)) => {
                    state = newer;
                    faster = there;
                    waiting = Some((needed, prepared));
                }
            }
        }
        Err(self.crowded())
    }
}
