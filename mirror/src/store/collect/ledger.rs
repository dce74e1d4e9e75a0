//! The list of what is condemned, and the rules by which something leaves it. Pure: no files,
//! no clock, no lock.
//!
//! Collections are counted in rounds. A round condemns what nothing reaches; a later one may
//! remove it. A round counts only once every process that answers for content could know of
//! it, which is what *announced* means: until then its grace has not begun. Times are
//! milliseconds the store has been served ([`super::served`]), never those of a clock or file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::store::{Claim, Garbage, Wait};
use serde::{Deserialize, Serialize};

/// How far ahead of one process's reading of the clock that of another may be, in milliseconds:
/// more than it is written late.
const AHEAD: u64 = 3 * super::served::MARGIN;

/// What is condemned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    round: u64,
    /// The round each was condemned in.
    entries: BTreeMap<Digest, BTreeMap<Claim, u64>>,
    /// Since when each round counts.
    announced: BTreeMap<u64, u64>,
}

/// One line of the list as a file: what it began with, and everything that happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) enum Line {
    /// The first one: the newest round.
    Round(u64),
    /// Condemned by this round.
    Condemned(Garbage, u64),
    /// This round counts from this moment.
    Announced(u64, u64),
    /// Somebody wants it.
    Rescued(Digest),
    /// It was removed.
    Removed(Garbage),
}

impl Ledger {
    /// Number of the newest round, 0 before the first.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether anything about this digest is condemned.
    pub(crate) fn has(&self, digest: &Digest) -> bool {
        self.entries.contains_key(digest)
    }

    /// Whether just this is condemned.
    pub(crate) fn holds(&self, garbage: &Garbage) -> bool {
        self.entries
            .get(&garbage.digest)
            .is_some_and(|claims| claims.contains_key(&garbage.claim))
    }

    /// The list after a round that found `garbage`: what was on it and is garbage still keeps
    /// its round, the rest of the list is forgotten. `above` is the newest round anybody
    /// remembers, for a list that was lost.
    ///
    /// What an unannounced round condemned is condemned again by this one.
    pub(crate) fn condemn(&self, garbage: BTreeSet<Garbage>, above: u64, now: u64) -> Ledger {
        let round = self.round.max(above) + 1;
        let mut next = Ledger {
            round,
            ..Ledger::default()
        };
        for Garbage { digest, claim } in garbage {
            let before = self.entries.get(&digest).and_then(|c| c.get(&claim));
            let before = before.filter(|round| self.since(**round, now).is_some());
            let condemned = before.copied().unwrap_or(round);
            if let Some(since) = self.since(condemned, now) {
                next.announced.insert(condemned, since);
            }
            let claims = next.entries.entry(digest).or_default();
            claims.insert(claim, condemned);
        }
        next
    }

    /// Does what a line says.
    pub(crate) fn apply(&mut self, line: &Line) {
        match line {
            Line::Round(round) => self.round = *round,
            Line::Condemned(garbage, round) => {
                let claims = self.entries.entry(garbage.digest).or_default();
                claims.insert(garbage.claim.clone(), *round);
            }
            Line::Announced(round, since) => {
                self.announced.insert(*round, *since);
            }
            Line::Rescued(digest) => {
                self.entries.remove(digest);
            }
            Line::Removed(garbage) => {
                if let Some(claims) = self.entries.get_mut(&garbage.digest) {
                    claims.remove(&garbage.claim);
                    if claims.is_empty() {
                        self.entries.remove(&garbage.digest);
                    }
                }
            }
        }
    }

    /// The lines that make this list.
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line> {
        let head = std::iter::once(Line::Round(self.round));
        let entries = self.entries.iter().flat_map(|(digest, claims)| {
            claims.iter().map(|(claim, round)| {
                let claim = claim.clone();
                let digest = *digest;
                Line::Condemned(Garbage { digest, claim }, *round)
            })
        });
        let announced = self.announced.iter();
        head.chain(entries)
            .chain(announced.map(|(round, since)| Line::Announced(*round, *since)))
    }

    /// Since when a round counts. One announced in the future counts as unannounced: the clock
    /// was lost, and nothing would go before it comes there again.
    fn since(&self, round: u64, now: u64) -> Option<u64> {
        let since = self.announced.get(&round).copied();
        since.filter(|since| *since <= now.saturating_add(AHEAD))
    }

    /// Whether this may be removed by the collection that runs as of `now`: not by the one that
    /// condemned it, which is why this is asked before [`Ledger::condemn`], and not before
    /// `grace` is over. `leased` is the round at which the oldest living lease was taken: what
    /// was published under it was not on the list then, so any later round leaves it alone.
    pub(crate) fn judge(
        &self,
        garbage: &Garbage,
        now: u64,
        grace: u64,
        leased: Option<u64>,
    ) -> Result<(), Wait> {
        let claims = self.entries.get(&garbage.digest);
        let round = claims.and_then(|claims| claims.get(&garbage.claim));
        let round = round.ok_or(Wait::Uncondemned)?;
        let since = self.since(*round, now).ok_or(grace_of(grace))?;
        let due = since.saturating_add(grace);
        if now < due {
            return Err(grace_of(due - now));
        }
        match leased {
            Some(leased) if leased < *round => Err(Wait::Lease),
            _ => Ok(()),
        }
    }
}

fn grace_of(milliseconds: u64) -> Wait {
    Wait::Grace(Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(content: &str) -> Garbage {
        Garbage {
            digest: Digest::sha256(content),
            claim: Claim::Bytes,
        }
    }

    /// The list as its lines say.
    fn reread(ledger: &Ledger) -> Ledger {
        let mut again = Ledger::default();
        for line in ledger.lines() {
            again.apply(&line);
        }
        again
    }

    fn condemned(ledger: &Ledger, garbage: &[&Garbage], since: u64) -> Ledger {
        let garbage = garbage.iter().map(|g| (*g).clone()).collect();
        let mut next = ledger.condemn(garbage, 0, since);
        next.apply(&Line::Announced(next.round(), since));
        assert_eq!(reread(&next), next);
        next
    }

    #[test]
    fn the_grace_begins_when_a_round_is_announced() {
        let a = bytes("a");
        let unannounced = Ledger::default().condemn([a.clone()].into(), 0, 0);
        assert_eq!(unannounced.judge(&a, u64::MAX, 10, None), Err(grace_of(10)));
        let ledger = condemned(&unannounced, &[&a], 100);
        assert_eq!(ledger.judge(&a, 100, 10, None), Err(grace_of(10)));
        assert_eq!(ledger.judge(&a, 109, 10, None), Err(grace_of(1)));
        assert_eq!(ledger.judge(&a, 110, 10, None), Ok(()));
    }

    #[test]
    fn a_later_round_keeps_since_when_something_is_condemned() {
        let (a, b) = (bytes("a"), bytes("b"));
        let first = condemned(&Ledger::default(), &[&a], 0);
        let second = condemned(&first, &[&a, &b], 50);
        assert_eq!(second.judge(&a, 50, 50, None), Ok(()));
        assert_eq!(second.judge(&b, 50, 50, None), Err(grace_of(50)));
        let third = condemned(&second, &[&b], 100);
        assert_eq!(third.judge(&a, 999, 0, None), Err(Wait::Uncondemned));
    }

    #[test]
    fn what_is_rescued_has_its_whole_grace_before_it_again() {
        let a = bytes("a");
        let mut ledger = condemned(&Ledger::default(), &[&a], 0);
        ledger.apply(&Line::Rescued(a.digest));
        assert!(ledger.is_empty());
        assert_eq!(ledger.judge(&a, 999, 0, None), Err(Wait::Uncondemned));
        let again = condemned(&ledger, &[&a], 200);
        assert_eq!(again.judge(&a, 201, 10, None), Err(grace_of(9)));
    }

    #[test]
    fn a_clock_that_was_lost_begins_the_grace_anew_and_no_more() {
        let a = bytes("a");
        let month = 30 * 24 * 3_600_000;
        let ledger = condemned(&Ledger::default(), &[&a], month);
        // served anew, from nothing on
        assert_eq!(ledger.judge(&a, 5, 10, None), Err(grace_of(10)));
        let again = condemned(&ledger, &[&a], 5);
        assert!(again.round() > ledger.round());
        assert_eq!(again.judge(&a, 14, 10, None), Err(grace_of(1)));
        assert_eq!(again.judge(&a, 15, 10, None), Ok(()));
        // one that is only written late keeps what it began
        let late = condemned(&ledger, &[&a], month - AHEAD);
        assert_eq!(late.judge(&a, month, 0, None), Ok(()));
    }

    #[test]
    fn a_lease_holds_back_later_rounds_only() {
        let (a, b) = (bytes("a"), bytes("b"));
        let first = condemned(&Ledger::default(), &[&a], 0);
        let leased = Some(first.round());
        let second = condemned(&first, &[&a, &b], 0);
        assert_eq!(second.judge(&a, 10, 10, leased), Ok(()));
        assert_eq!(second.judge(&b, 10, 10, leased), Err(Wait::Lease));
        assert_eq!(second.judge(&b, 10, 10, None), Ok(()));
        // a list that was lost begins above every lease
        let lost = Ledger::default().condemn([a.clone()].into(), first.round(), 0);
        assert!(lost.round() > first.round());
    }

    #[test]
    fn what_is_removed_leaves_the_other_claims() {
        let digest = Digest::sha256("x");
        let claims = [
            Claim::Bytes,
            Claim::Blob("a".parse().unwrap()),
            Claim::Manifest("b".parse().unwrap()),
        ];
        let all: Vec<Garbage> = claims.map(|claim| Garbage { digest, claim }).into();
        let mut ledger = condemned(&Ledger::default(), &all.iter().collect::<Vec<_>>(), 0);
        for garbage in &all {
            assert!(ledger.has(&digest));
            ledger.apply(&Line::Removed(garbage.clone()));
        }
        assert!(ledger.is_empty());
    }
}
