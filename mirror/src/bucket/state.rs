//! What all commits up to one say together. Pure: [`State::apply`] is the only place that says
//! what an entry of the log does, so replicas that have read the same entries agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::store::{Cause, Change, Claim, Garbage, Names, Record, Wait};
use kubepkg_core::time::Time;
use serde::{Deserialize, Serialize};

use super::keys;

/// One entry of the log: a commit record, and what replicas have to agree on besides. What a
/// reader may not know of it: [`super::written`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// A random word of who wrote it: so that a writer whose answer was lost knows its own.
    pub(super) by: String,
    /// The commit record.
    pub(super) record: Record,
    /// What is condemned from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) condemned: Vec<Garbage>,
    /// What is condemned no more: reached again, or taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) forgotten: Vec<Garbage>,
    /// What somebody wants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rescued: Vec<Digest>,
    /// Content that is here no more. Its object is removed after this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) removed: Vec<Digest>,
    /// Who collects from now on; with a time that is over: nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) collector: Option<Collector>,
    /// The commit after which its text was written apart.
    #[serde(skip)]
    pub(super) after: Option<u64>,
}

/// Who collects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Collector {
    /// Its random word.
    pub(super) by: String,
    /// Until when nobody else begins.
    pub(super) until: Time,
    /// It gave up: this collection does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) gave_up: bool,
}

/// How many seconds the clocks of replicas may lie apart. A time that is further ahead is one of a
/// clock that is wrong, and nobody waits for it.
pub(super) const APART: i64 = 15 * 60;

/// Since when something is condemned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Since {
    /// The commit that said so.
    pub(super) number: u64,
    /// Its time.
    pub(super) at: Time,
}

/// What all commits up to one say together. The maps are shared between states.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// The names, with the number of the commit.
    pub(super) names: Arc<Names>,
    /// What a later collection may take.
    pub(super) condemned: Arc<BTreeMap<Garbage, Since>>,
    /// The commit that removed content last.
    pub(super) removed: Arc<BTreeMap<Digest, u64>>,
    /// Who collects.
    pub(super) collector: Option<Collector>,
    /// When a collection ended last.
    pub(super) collected: Option<Time>,
    /// All imports, the oldest first.
    pub(super) imports: Arc<Vec<u64>>,
    /// All prunes, the oldest first.
    pub(super) prunes: Arc<Vec<u64>>,
    /// The texts of large commits, by key.
    pub(super) apart: Arc<BTreeSet<String>>,
}

impl Entry {
    /// An entry that says nothing but its record.
    pub(super) fn of(by: String, record: Record) -> Entry {
        Entry {
            by,
            record,
            condemned: Vec::new(),
            forgotten: Vec::new(),
            rescued: Vec::new(),
            removed: Vec::new(),
            collector: None,
            after: None,
        }
    }

    /// How many things it says.
    pub(super) fn weight(&self) -> usize {
        let lists = self.condemned.len() + self.forgotten.len();
        self.record.changes.len() + lists + self.rescued.len() + self.removed.len()
    }
}

impl State {
    /// The newest imports, the oldest first.
    pub(super) fn newest_imports(&self, most: usize) -> Vec<u64> {
        let before = self.imports.len().saturating_sub(most);
        self.imports[before..].to_vec()
    }

    /// Number of the newest commit.
    pub(super) fn sequence(&self) -> u64 {
        self.names.sequence
    }

    /// The number in the key of content: 0, or the commit that removed it last.
    pub(super) fn removed(&self, digest: &Digest) -> u64 {
        self.removed.get(digest).copied().unwrap_or_default()
    }

    /// Whether anything about this digest is condemned.
    pub(super) fn is_condemned(&self, digest: &Digest) -> bool {
        self.claims(digest).next().is_some()
    }

    /// What about this digest is condemned.
    fn claims(&self, digest: &Digest) -> impl Iterator<Item = &Garbage> {
        let digest = *digest;
        // the least claim
        let claim = Claim::Bytes;
        self.condemned
            .range(Garbage { digest, claim }..)
            .map(|(garbage, _)| garbage)
            .take_while(move |garbage| garbage.digest == digest)
    }

    /// The state after `entry`, which is the one after this.
    pub(super) fn apply(&self, entry: &Entry) -> State {
        let mut next = self.clone();
        let number = entry.record.number;
        Arc::make_mut(&mut next.names).apply_record(&entry.record);
        let mut wanted: BTreeSet<Digest> = entry.rescued.iter().copied().collect();
        for recorded in &entry.record.changes {
            named(&recorded.change, |digest| {
                wanted.insert(digest);
            });
        }
        let mut gone: Vec<Garbage> = entry.forgotten.clone();
        for digest in &wanted {
            gone.extend(self.claims(digest).cloned());
        }
        for digest in &entry.removed {
            let claim = Claim::Bytes;
            gone.push(Garbage {
                digest: *digest,
                claim,
            });
            Arc::make_mut(&mut next.removed).insert(*digest, number);
        }
        gone.retain(|garbage| self.condemned.contains_key(garbage));
        if !gone.is_empty() || !entry.condemned.is_empty() {
            let condemned = Arc::make_mut(&mut next.condemned);
            for garbage in &gone {
                condemned.remove(garbage);
            }
            let at = entry.record.at;
            for garbage in &entry.condemned {
                let since = Since { number, at };
                condemned.entry(garbage.clone()).or_insert(since);
            }
        }
        if matches!(entry.record.cause, Cause::Import(_)) {
            Arc::make_mut(&mut next.imports).push(number);
        }
        if entry.record.cause == Cause::Prune {
            Arc::make_mut(&mut next.prunes).push(number);
        }
        if let Some(after) = entry.after {
            let key = keys::apart(after, &entry.by);
            Arc::make_mut(&mut next.apart).insert(key);
        }
        if let Some(collector) = &entry.collector {
            next.collector = Some(collector.clone());
            if collector.until <= entry.record.at && !collector.gave_up {
                next.collected = Some(entry.record.at);
            }
        }
        next
    }

    /// Whether this may be taken at the time `now`: not before `grace` is over, and not while a
    /// lease is older than its condemnation (`leased`: the newest commit the oldest one knew).
    pub(super) fn judge(
        &self,
        garbage: &Garbage,
        now: Time,
        grace: Duration,
        leased: Option<u64>,
    ) -> Result<(), Wait> {
        let since = self.condemned.get(garbage).ok_or(Wait::Uncondemned)?;
        // a clock that was set back counts as no time at all
        let passed = u64::try_from(now.since(since.at)).unwrap_or_default();
        let left = grace.saturating_sub(Duration::from_secs(passed));
        if !left.is_zero() {
            return Err(Wait::Grace(left));
        }
        match leased {
            Some(leased) if leased < since.number => Err(Wait::Lease),
            _ => Ok(()),
        }
    }
}

/// The content a change gives a name to.
pub(super) fn named(change: &Change, mut found: impl FnMut(Digest)) {
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
        } => found(*digest),
        Change::Tag {
            new: Some(entry), ..
        } => found(entry.digest),
        Change::Site {
            new: Some(entry), ..
        } => entry.files.values().for_each(|file| found(file.digest)),
        Change::Manifest { .. }
        | Change::Blob { .. }
        | Change::Tag { .. }
        | Change::Site { .. }
        | Change::Upstream { .. }
        | Change::Trust { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::store::Recorded;

    fn bytes(text: &str) -> Garbage {
        Garbage {
            digest: Digest::sha256(text),
            claim: Claim::Bytes,
        }
    }

    fn blob(text: &str) -> Garbage {
        Garbage {
            digest: Digest::sha256(text),
            claim: Claim::Blob("a".parse().unwrap()),
        }
    }

    fn entry(number: u64, at: i64) -> Entry {
        let record = Record {
            number,
            at: Time::from_unix(at),
            cause: Cause::Collect,
            changes: Vec::new(),
        };
        Entry::of(number.to_string(), record)
    }

    #[test]
    fn what_is_wanted_is_condemned_no_more() {
        let condemned = Entry {
            condemned: vec![bytes("x"), blob("x"), bytes("y")],
            ..entry(1, 100)
        };
        let state = State::default().apply(&condemned);
        assert!(state.is_condemned(&Digest::sha256("x")));
        let rescued = Entry {
            rescued: vec![Digest::sha256("x")],
            ..entry(2, 100)
        };
        let mut named = entry(2, 100);
        named.record.changes.push(Recorded {
            change: Change::Blob {
                repository: "b".parse().unwrap(),
                digest: Digest::sha256("x"),
                new: Some(1),
            },
            old: serde_json::Value::Null,
        });
        for wanted in [rescued, named] {
            let state = state.apply(&wanted);
            assert!(!state.is_condemned(&Digest::sha256("x")));
            assert!(state.is_condemned(&Digest::sha256("y")));
            assert_eq!(state.sequence(), 2);
        }
    }

    #[test]
    fn what_was_removed_comes_back_under_another_key() {
        let x = Digest::sha256("x");
        let removed = Entry {
            removed: vec![x],
            ..entry(1, 100)
        };
        let state = State::default().apply(&removed);
        assert_eq!((state.removed(&x), State::default().removed(&x)), (1, 0));
        let state = state.apply(&Entry {
            removed: vec![x],
            ..entry(2, 100)
        });
        assert_eq!(state.removed(&x), 2);
    }

    #[test]
    fn graces_and_leases() {
        let state = State::default().apply(&Entry {
            condemned: vec![bytes("x")],
            ..entry(5, 100)
        });
        // what is found again keeps since when
        let state = state.apply(&Entry {
            condemned: vec![bytes("x")],
            ..entry(6, 150)
        });
        let judge = |text, now, leased| {
            let grace = Duration::from_secs(60);
            state.judge(&bytes(text), Time::from_unix(now), grace, leased)
        };
        assert_eq!(judge("y", 200, None), Err(Wait::Uncondemned));
        let grace = |left| Err(Wait::Grace(Duration::from_secs(left)));
        assert_eq!(judge("x", 150, None), grace(10));
        assert_eq!(judge("x", 0, None), grace(60));
        assert_eq!(judge("x", 160, None), Ok(()));
        assert_eq!(judge("x", 160, Some(4)), Err(Wait::Lease));
        assert_eq!(judge("x", 160, Some(5)), Ok(()));
    }
}
