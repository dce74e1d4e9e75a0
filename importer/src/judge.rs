//! Each index of a bundle, judged by the entry that trusts it and by what was accepted before.

use std::collections::BTreeMap;

use kubepkg_core::bundle::Bundle;
use kubepkg_core::digest::Digest;
use kubepkg_core::index::{Index, MAX_INDEX, signature::MAX_SIGNATURE_FILE};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{self, Clock, Entry, Known, Memory, Offer, Standing, Verdict};

use crate::ImportError;

/// What a store remembers, as far as a bundle needs it.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// By entry id.
    pub memories: BTreeMap<String, Memory>,
    /// Over all repositories of the store.
    pub known: Known,
}

/// The index file accepted before, as the store keeps it.
#[derive(Clone, Debug)]
pub struct AcceptedIndex {
    /// Its bytes, when they are still there.
    pub index: Option<Vec<u8>>,
    /// Its signature, where there is one.
    pub signature: Option<Vec<u8>>,
}

/// A repository of a bundle after its index was judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Who trusts it.
    pub entry: Entry,
    /// What came out.
    pub verdict: Verdict,
    /// Digest of the index in the bundle.
    pub offered: Digest,
    /// What the store remembered before.
    before: Option<Memory>,
    /// The index accepted before, where the bundle's own is older.
    newer: Option<Index>,
}

/// All repositories of a bundle after they were judged.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// In the order of the head.
    pub judged: Vec<Judged>,
    /// What is known over all repositories from now on.
    pub known: Known,
    clock: Option<Clock>,
}

impl Judged {
    /// The index its packages are judged by: the bundle's, or the newer one accepted before.
    pub fn index(&self) -> &Index {
        self.newer.as_ref().unwrap_or(&self.verdict.index)
    }

    /// Whether the bundle's index becomes, or is, the accepted one.
    pub fn replaces(&self) -> bool {
        self.verdict.standing != Standing::Older
    }

    /// Whether the bundle's repository files become the published ones. With an index that is
    /// the accepted one already, only a signature that was verified first now is news: what
    /// else lies beside it is no better than what is there.
    pub fn publishes(&self) -> bool {
        let unsigned = |memory: &Memory| memory.signed_by.is_empty();
        match self.verdict.standing {
            Standing::Newer => true,
            Standing::Same => {
                self.before.as_ref().is_some_and(unsigned) && !self.verdict.signed_by.is_empty()
            }
            Standing::Older => false,
        }
    }

    /// What was accepted before, where the packages are judged by that and not by the bundle's
    /// index.
    pub fn needs_accepted(&self) -> Option<&Memory> {
        self.before.as_ref().filter(|_| !self.replaces())
    }
}

/// Judges every repository of the bundle.
pub fn judge(
    bundle: &Bundle,
    entries: &[Entry],
    remembered: &Remembered,
    now: Time,
) -> Result<Judgement, ImportError> {
    let memories = remembered.memories.values();
    let seen = memories.filter_map(|memory| memory.generated).max();
    let clock = Clock {
        now,
        seen: seen.max(remembered.known.newest()),
    };
    let mut known = remembered.known.clone();
    for memory in remembered.memories.values() {
        known.note_memory(memory);
    }
    let mut judged = Vec::with_capacity(entries.len());
    for entry in entries {
        let memory = remembered.memories.get(&entry.id);
        let one = judge_one(bundle, entry, memory, &known, clock)?;
        known.note(entry, &one.verdict);
        judged.push(one);
    }
    Ok(Judgement {
        judged,
        known,
        clock: Some(clock),
    })
}

fn judge_one(
    bundle: &Bundle,
    entry: &Entry,
    memory: Option<&Memory>,
    known: &Known,
    clock: Clock,
) -> Result<Judged, ImportError> {
    let file = entry.url.file_name();
    let index = bundle.read_repository_file(&entry.url, file, MAX_INDEX)?;
    let signature_file = format!("{file}.sig");
    let signature = match bundle.layout().repository_file(&entry.url, &signature_file) {
        Some(_) => {
            Some(bundle.read_repository_file(&entry.url, &signature_file, MAX_SIGNATURE_FILE)?)
        }
        None => None,
    };
    let offer = Offer {
        index: &index,
        signature: signature.as_deref(),
    };
    let judged = trust::judge_at(entry, offer, memory, clock).and_then(|verdict| {
        if memory.is_none() {
            known.admit(entry, &verdict)?;
        }
        Ok(verdict)
    });
    let verdict = judged.map_err(|source| refused(entry, source))?;
    Ok(Judged {
        entry: entry.clone(),
        verdict,
        offered: Digest::sha256(&index),
        before: memory.cloned(),
        newer: None,
    })
}

fn refused(entry: &Entry, source: trust::TrustError) -> ImportError {
    ImportError::Trust {
        url: entry.url.clone(),
        source: Box::new(source),
    }
}

impl Judgement {
    /// Gives the repository at `at` the index accepted before, whose packages count since the
    /// bundle's own index is older. It is judged again: keys may have been taken back since,
    /// and its expiry counts today.
    pub fn settle(&mut self, at: usize, accepted: &AcceptedIndex) -> Result<(), ImportError> {
        let (Some(judged), Some(clock)) = (self.judged.get_mut(at), self.clock) else {
            return Ok(());
        };
        let entry = &judged.entry;
        let damaged = |why: &str| ImportError::Memory {
            url: entry.url.clone(),
            why: why.to_owned(),
        };
        let Some(index) = &accepted.index else {
            return Err(damaged("the index it is about is not in the store"));
        };
        let offer = Offer {
            index,
            signature: accepted.signature.as_deref(),
        };
        let verdict = trust::judge_at(entry, offer, judged.before.as_ref(), clock)
            .map_err(|source| refused(entry, source))?;
        if verdict.standing != Standing::Same {
            return Err(damaged("the stored index is not the one that was accepted"));
        }
        judged.newer = Some(verdict.index);
        Ok(())
    }
}
