//! The judgement over one index.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::chain::{self, Roots, Walked};
use super::memory::Accepted;
use super::quick::Quick;
use super::signers;
use super::{Anchor, Entry, KeySet, Memory, Root, RootMemory, TrustError, Warning};
use crate::Digest;
use crate::index::Index;
use crate::index::signature::Signatures;
use crate::keys::KeyId;
use crate::time::Time;

const DAY: i64 = 24 * 60 * 60;

/// How far, in seconds, an index's `generated` may be ahead of the clock: clocks differ and
/// time zones are set wrongly, but a time far ahead would make every later index look old.
pub const MAX_AHEAD: i64 = DAY;

/// An index or a root that expires within so many seconds is warned of: a bundle takes days to
/// cross.
pub const NEAR_EXPIRY: i64 = 7 * DAY;

/// An index without an expiry that is older than so many seconds is warned of: somebody may
/// be holding newer ones back.
pub const OLD_WITHOUT_EXPIRY: i64 = 90 * DAY;

/// An index, its signature file and the roots beside it, as they were found.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The bytes of `index.yaml`.
    pub index: &'a Bytes,
    /// The bytes of `index.yaml.sig`, if there is one.
    pub signature: Option<&'a [u8]>,
    /// The root files; looked at where the entry trusts a root.
    pub roots: Option<&'a Roots>,
    /// The table kept of this index ([`Index::table`]), empty when there is none yet; `None`
    /// when the caller keeps no tables.
    pub table: Option<&'a [u8]>,
}

/// How an accepted index stands to the one accepted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It replaces it, or is the first.
    Newer,
    /// It is the very same file.
    Same,
    /// It is genuine, but older, or judged by an older root. It must not replace the accepted
    /// one, and packages are judged by the accepted one: judge that again (its expiry counts
    /// today) and use its [`Verdict::index`]. The expiry of the older one does not count, as
    /// nothing rests on it.
    Older,
}

/// An index that is genuine.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The index, read. Versions that lack signatures or approvals are among those left out,
    /// and what was ever seen withdrawn is marked so.
    pub index: Index,
    /// The trusted keys that signed it; empty for an unsigned index.
    pub signed_by: Vec<KeyId>,
    /// The root it was judged by.
    pub root: Option<Root>,
    /// How it stands to the one accepted before.
    pub standing: Standing,
    /// What to remember from now on. With an index that is [`Standing::Older`] the accepted one
    /// stays; a newer root, and who is trusted now, are taken in.
    pub memory: Memory,
    /// What to tell the user.
    pub warnings: Vec<Warning>,
    /// Until when it can be accepted, as far as that is said: it, its root, and the age the
    /// site allows.
    pub acceptable_until: Option<Time>,
    /// A new table to keep beside the index, where the caller keeps tables.
    pub table: Option<Vec<u8>>,
}

impl Verdict {
    /// Refuses what is older than what was accepted: for who has nothing newer at hand to use
    /// in its place.
    pub fn refuse_older(&self, entry: &Entry) -> Result<(), TrustError> {
        let (Standing::Older, Some(accepted)) = (self.standing, &self.memory.accepted) else {
            return Ok(());
        };
        if let (Some(root), Some(known)) = (&self.root, &accepted.root)
            && root.version < known.version
        {
            return Err(TrustError::RootOlder {
                url: entry.url.clone(),
                version: root.version,
                expires: root.expires,
                accepted: known.version,
                accepted_expires: known.expires,
            });
        }
        Err(TrustError::Older {
            url: entry.url.clone(),
            generated: self.index.generated,
            accepted: accepted.generated,
            first_seen: accepted.first_seen,
        })
    }
}

/// What time it is, as far as that can be known, and how old an index may be.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The clock of this machine.
    pub now: Time,
    /// The newest `generated` accepted under any entry: it was that late once, so expiry is
    /// judged by this when the clock was set back.
    pub seen: Option<Time>,
    /// Expiry is judged as of this time. For audits: what is judged so is not remembered.
    pub as_of: Option<Time>,
    /// Largest age of an index in seconds.
    pub max_age: Option<i64>,
}

impl Clock {
    /// The clock says `now`, and nothing else is known or asked.
    pub fn at(now: Time) -> Clock {
        Clock {
            now,
            seen: None,
            as_of: None,
            max_age: None,
        }
    }
}

/// Judges `offer` for the repository of `entry`. `memory` is what an earlier verdict said to
/// remember.
///
/// # Errors
/// See [`TrustError`]. The order of checks lets nothing unsigned reach the reader of indexes:
/// roots and their chain, signatures over the raw bytes, then what the index says.
pub fn judge(
    entry: &Entry,
    offer: Offer<'_>,
    memory: Option<&Memory>,
    clock: Clock,
) -> Result<Verdict, TrustError> {
    let accepted = memory.and_then(|memory| memory.accepted.as_ref());
    // who keeps tables reads large indexes again and again
    let quick = offer.table.and_then(|_| Quick::of(offer.index));
    let digest = match accepted {
        Some(accepted) if quick.is_some() && accepted.quick == quick => accepted.index,
        _ => Digest::sha256(offer.index),
    };
    let mut judge = Judge {
        entry,
        offer,
        digest,
        quick,
        memory,
        accepted,
        clock,
        warnings: Vec::new(),
    };
    judge.own_memory()?;
    let walked = judge.root()?;
    let signed_by = judge.signature(walked.as_ref())?;
    // from here on the bytes are those somebody trusted has signed
    judge.verdict(walked, signed_by)
}

struct Judge<'a> {
    entry: &'a Entry,
    offer: Offer<'a>,
    digest: Digest,
    quick: Option<Quick>,
    memory: Option<&'a Memory>,
    accepted: Option<&'a Accepted>,
    clock: Clock,
    warnings: Vec<Warning>,
}

impl Judge<'_> {
    fn url(&self) -> crate::location::CanonicalUrl {
        self.entry.url.clone()
    }

    fn own_memory(&self) -> Result<(), TrustError> {
        match self.memory {
            Some(memory) if memory.entry != self.entry.id || memory.url != self.entry.url => {
                Err(TrustError::OtherMemory {
                    url: self.url(),
                    id: self.entry.id.clone(),
                    recorded_url: memory.url.clone(),
                    recorded_id: memory.entry.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    fn root(&self) -> Result<Option<Walked>, TrustError> {
        let Anchor::Root(pinned) = &self.entry.anchor else {
            return Ok(None);
        };
        let none = Roots::default();
        let roots = self.offer.roots.unwrap_or(&none);
        chain::walk(self.entry, pinned, roots, self.memory).map(Some)
    }

    /// The keys that signed the index, which are enough. With a root only its role counts.
    fn signature(&mut self, walked: Option<&Walked>) -> Result<Vec<KeyId>, TrustError> {
        let (keys, exact) = match (&self.entry.anchor, walked) {
            (Anchor::Keys(keys), _) => (keys, false),
            (_, Some(walked)) => (&walked.root.index, true),
            (_, None) => {
                // consent covers what nobody signed; a signature that nobody checks covers
                // anything
                if self.offer.signature.is_some() {
                    return Err(TrustError::KeyWanted { url: self.url() });
                }
                if let Some(accepted) = self.accepted
                    && !accepted.signed_by.is_empty()
                {
                    return Err(TrustError::SignedBefore {
                        url: self.url(),
                        keys: accepted.signed_by.iter().copied().collect(),
                    });
                }
                self.warnings.push(Warning::Unsigned { url: self.url() });
                return Ok(Vec::new());
            }
        };
        let Some(file) = self.offer.signature else {
            return Err(TrustError::Unsigned { url: self.url() });
        };
        if let Some(known) = self.verified_before(file, keys) {
            return Ok(known);
        }
        let signatures = Signatures::parse(file).map_err(|source| TrustError::Signature {
            url: self.url(),
            source: Box::new(source),
        })?;
        let signed_by = match exact {
            true => keys.signed_by(self.offer.index, signatures.entries()),
            // key ids are hints only where people write the file by hand
            false => signatures.signed_by(self.offer.index, keys.keys()),
        };
        if keys.met_by(signed_by.len()) {
            return Ok(signed_by);
        }
        let claimed = signatures.entries().iter();
        let claimed = claimed
            .filter_map(|entry| entry.key_id.parse().ok())
            .collect();
        Err(match signed_by.len() {
            0 => TrustError::Untrusted {
                url: self.url(),
                trusted: keys.ids(),
                claimed,
            },
            have => TrustError::TooFew {
                url: self.url(),
                have,
                need: keys.threshold(),
                trusted: keys.ids(),
                claimed,
            },
        })
    }

    /// The signers, when these very bytes were verified with this very signature file before.
    ///
    /// That keys signed these bytes is a fact that does not change, and it is on record: the
    /// record lies where the trusted keys lie, so who can change it could change those. What
    /// may have changed is whom this side trusts, so the signers are counted anew by `keys`.
    fn verified_before(&self, file: &[u8], keys: &KeySet) -> Option<Vec<KeyId>> {
        let accepted = self.accepted?;
        let same = accepted.index == self.digest
            && accepted.signature.as_ref()?.matches(file)
            && keys.met_by_keys(&accepted.signed_by);
        let signed = |id: &KeyId| accepted.signed_by.contains(id);
        same.then(|| keys.ids().into_iter().filter(signed).collect())
    }

    /// The index, and a new table of it where one is wanted.
    fn read(&self, signed: bool) -> Result<(Index, Option<Vec<u8>>), TrustError> {
        if let (Some(kept), Some(table)) = (self.kept_table(), self.offer.table)
            && let Ok(index) = Index::with_table(self.offer.index.clone(), table, &kept)
        {
            return Ok((index, None));
        }
        // a table that is missing or not the kept one only costs time
        let index = Index::read_shared(self.offer.index.clone());
        let index = index.map_err(|source| TrustError::Index {
            url: self.url(),
            signed,
            source: Box::new(source),
        })?;
        let table = self.offer.table.and_then(|_| index.table());
        Ok((index, table))
    }

    /// Digest of the table on record for these very bytes.
    fn kept_table(&self) -> Option<Digest> {
        let accepted = self.accepted?;
        (accepted.index == self.digest).then_some(accepted.table)?
    }

    /// The second hash on record for these very bytes.
    fn kept_quick(&self) -> Option<Quick> {
        let accepted = self.accepted?;
        (accepted.index == self.digest).then(|| accepted.quick.clone())?
    }

    fn verdict(
        mut self,
        walked: Option<Walked>,
        signed_by: Vec<KeyId>,
    ) -> Result<Verdict, TrustError> {
        let (mut index, table) = self.read(!signed_by.is_empty())?;
        self.named(&index)?;
        let standing = self.standing(&index, walked.as_ref())?;
        self.not_ahead(&index, standing)?;
        let today = self.today();
        let root = walked.as_ref().map(|walked| &walked.root);
        if standing != Standing::Older {
            self.root_age(root, today)?;
            self.age(&index, root.is_some(), today)?;
        }
        let mut withdrawn = self
            .accepted
            .map(|a| a.withdrawn.clone())
            .unwrap_or_default();
        if standing != Standing::Older {
            withdrawn.learn(&index);
        }
        withdrawn.mark(&mut index);
        signers::leave_out(&mut index, root, self.entry.approvals.as_ref());
        let acceptable_until = self.until(&index, root);
        let now = Accepted {
            index: self.digest,
            quick: self.quick.clone().or_else(|| self.kept_quick()),
            generated: index.generated,
            first_seen: match (standing, self.accepted) {
                (Standing::Same, Some(accepted)) => accepted.first_seen,
                _ => self.clock.now,
            },
            signed_by: self.signers(standing, &signed_by),
            signature: match signed_by.is_empty() {
                true => None,
                false => self.offer.signature.map(Digest::sha256),
            },
            table: table.as_ref().map(Digest::sha256).or(self.kept_table()),
            names_url: index.repository.is_some(),
            root: self.chain(walked.as_ref()),
            withdrawn,
        };
        let memory = self.remember(standing, now);
        Ok(Verdict {
            index,
            signed_by,
            root: walked.map(|walked| walked.root),
            standing,
            memory,
            warnings: self.warnings,
            acceptable_until,
            table,
        })
    }

    /// What was accepted unsigned may have got its signature, or one key more.
    fn signers(&self, standing: Standing, signed_by: &[KeyId]) -> BTreeSet<KeyId> {
        let mut signers: BTreeSet<KeyId> = signed_by.iter().copied().collect();
        if let (Standing::Same, Some(accepted)) = (standing, self.accepted) {
            signers.extend(accepted.signed_by.iter().copied());
        }
        signers
    }

    /// The chain of roots to remember. That of the time before stays while plain keys are
    /// pinned: who goes back to a root must not meet another chain then.
    fn chain(&self, walked: Option<&Walked>) -> Option<RootMemory> {
        let before = || self.accepted.and_then(|accepted| accepted.root.clone());
        walked.map(|walked| walked.memory.clone()).or_else(before)
    }

    /// An older index replaces nothing, but the root it came with counts: else whoever holds
    /// a key that was taken back could keep the old root alive by dating an index ahead.
    fn remember(&self, standing: Standing, now: Accepted) -> Memory {
        let accepted = match (standing, self.accepted) {
            (Standing::Older, Some(accepted)) => Accepted {
                root: now.root,
                ..accepted.clone()
            },
            _ => now,
        };
        Memory {
            entry: self.entry.id.clone(),
            url: self.url(),
            trust: Some(self.entry.clone()),
            accepted: Some(accepted),
        }
    }

    fn named(&self, index: &Index) -> Result<(), TrustError> {
        match &index.repository {
            Some(named) if *named != self.entry.url => Err(TrustError::OtherRepository {
                url: self.url(),
                named: named.clone(),
            }),
            None if self.entry.must_name_url => Err(TrustError::NoUrl { url: self.url() }),
            _ => Ok(()),
        }
    }

    fn standing(&self, index: &Index, walked: Option<&Walked>) -> Result<Standing, TrustError> {
        let Some(accepted) = self.accepted else {
            return Ok(Standing::Newer);
        };
        if walked.is_some_and(|walked| walked.older) {
            return Ok(Standing::Older);
        }
        if accepted.index == self.digest {
            return Ok(Standing::Same);
        }
        let Some(generated) = index.generated else {
            return Err(TrustError::NoGenerated {
                url: self.url(),
                accepted: accepted.generated,
            });
        };
        match accepted.generated {
            // what a key signed that was taken back counts for nothing, its date least of all
            _ if self.disowned(accepted, walked) => {}
            Some(before) if generated < before => return Ok(Standing::Older),
            Some(before) if generated == before => {
                return Err(TrustError::Fork {
                    url: self.url(),
                    generated,
                    accepted: Box::new(accepted.index),
                    offered: Box::new(self.digest),
                });
            }
            _ => {}
        }
        if index.repository.is_none() && accepted.names_url {
            return Err(TrustError::UrlDropped { url: self.url() });
        }
        Ok(Standing::Newer)
    }

    /// Whether a newer root has come in by which the accepted index is not signed any more.
    fn disowned(&self, accepted: &Accepted, walked: Option<&Walked>) -> bool {
        let (Some(walked), Some(before)) = (walked, &accepted.root) else {
            return false;
        };
        walked.root.version > before.version && !walked.root.index.met_by_keys(&accepted.signed_by)
    }

    fn not_ahead(&self, index: &Index, standing: Standing) -> Result<(), TrustError> {
        match (standing, index.generated) {
            (Standing::Newer, Some(generated)) if generated.since(self.clock.now) > MAX_AHEAD => {
                Err(TrustError::Future {
                    url: self.url(),
                    generated,
                    clock: self.clock.now,
                })
            }
            _ => Ok(()),
        }
    }

    /// The time expiry is judged by. A clock that was set back must not make an expired index
    /// valid again.
    fn today(&mut self) -> Time {
        if let Some(as_of) = self.clock.as_of {
            return as_of;
        }
        let now = self.clock.now;
        let accepted = self.accepted.and_then(|accepted| accepted.generated);
        let today = now.max(accepted.max(self.clock.seen).unwrap_or(now));
        if now.plus(MAX_AHEAD) < today {
            self.warnings.push(Warning::ClockBehind {
                clock: now,
                accepted: today,
            });
        }
        today
    }

    /// Only the current root's expiry counts: earlier ones were good when the next was made.
    fn root_age(&mut self, root: Option<&Root>, today: Time) -> Result<(), TrustError> {
        let Some(root) = root else { return Ok(()) };
        if today > root.expires {
            return Err(TrustError::RootExpired {
                url: self.url(),
                version: root.version,
                expires: root.expires,
                today,
            });
        }
        if root.expires.since(today) < NEAR_EXPIRY {
            self.warnings.push(Warning::RootExpiresSoon {
                url: self.url(),
                expires: root.expires,
                today,
            });
        }
        Ok(())
    }

    fn age(&mut self, index: &Index, with_root: bool, today: Time) -> Result<(), TrustError> {
        let url = || self.entry.url.clone();
        match (index.expires, index.generated) {
            (None, _) if with_root => return Err(TrustError::NoExpiry { url: url() }),
            // the last second counts, as in the existing program
            (Some(expires), generated) if today > expires => {
                return Err(TrustError::Expired {
                    url: url(),
                    expires,
                    generated,
                    today,
                });
            }
            (Some(expires), _) if expires.since(today) < NEAR_EXPIRY => {
                self.warnings.push(Warning::ExpiresSoon {
                    url: url(),
                    expires,
                    today,
                });
            }
            (None, Some(generated)) if today.since(generated) > OLD_WITHOUT_EXPIRY => {
                self.warnings.push(Warning::Old {
                    url: url(),
                    generated,
                    today,
                });
            }
            _ => {}
        }
        if let Some(max_age) = self.clock.max_age
            && index
                .generated
                .is_none_or(|generated| today.since(generated) > max_age)
        {
            return Err(TrustError::TooOld {
                url: url(),
                generated: index.generated,
                max_age,
                today,
            });
        }
        if index.generated.is_none() {
            self.warnings.push(Warning::NoGenerated { url: url() });
        }
        Ok(())
    }

    fn until(&self, index: &Index, root: Option<&Root>) -> Option<Time> {
        let aged = index.generated.zip(self.clock.max_age);
        let ends = [
            index.expires,
            root.map(|root| root.expires),
            aged.map(|(generated, max_age)| generated.plus(max_age)),
        ];
        ends.into_iter().flatten().min()
    }
}
