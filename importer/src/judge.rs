//! Each index of a bundle, judged by the entry that trusts it and by what was accepted before.

use std::borrow::Cow;

use bytes::Bytes;
use kubepkg_core::bundle::Bundle;
use kubepkg_core::digest::Digest;
use kubepkg_core::index::{Index, MAX_INDEX, signature::MAX_SIGNATURE_FILE};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{
    Anchor, CURRENT, Clock, Entry, MAX_ROOT, Memory, Offer, Remembered, RootMemory, Roots,
    Standing, TrustError, Verdict, judge as judge_offer,
};

use crate::ImportError;

/// The repository files accepted before, as the store keeps them.
#[derive(Clone, Debug)]
pub struct AcceptedIndex {
    /// The index, when it is still there.
    pub index: Option<Bytes>,
    /// Its signature, where there is one.
    pub signature: Option<Vec<u8>>,
    /// The roots.
    pub roots: Roots,
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
    /// What the store remembered before, under the id it has now.
    before: Option<Memory>,
    /// The id that was remembered under, where it was another.
    moved: Option<String>,
    /// Whether the store knows repositories, and this one is not among them.
    new_here: bool,
    /// The roots in the bundle.
    roots: Option<Roots>,
    /// The verdict over the index accepted before, where the bundle's own is older.
    newer: Option<Verdict>,
    /// Expiry was judged as of another time, so nothing of this is accepted.
    audit: bool,
}

/// All repositories of a bundle after they were judged.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// In the order of the head.
    pub judged: Vec<Judged>,
    /// What is remembered over all repositories from now on.
    pub remembered: Remembered,
    clock: Clock,
}

impl Judged {
    /// The verdict its packages are judged by: over the bundle's index, or over the newer one
    /// accepted before.
    pub fn judged_by(&self) -> &Verdict {
        self.newer.as_ref().unwrap_or(&self.verdict)
    }

    /// The index its packages are judged by.
    pub fn index(&self) -> &Index {
        &self.judged_by().index
    }

    /// Until when clusters can accept that index, as far as it is said.
    pub fn acceptable_until(&self) -> Option<Time> {
        self.judged_by().acceptable_until
    }

    /// Whether the bundle's index becomes, or is, the accepted one.
    pub fn replaces(&self) -> bool {
        self.verdict.standing != Standing::Older
    }

    /// What is remembered from now on: also with an older index, who is trusted and a newer
    /// root. Nothing of what was judged as of another time.
    pub fn memory(&self) -> Option<&Memory> {
        (!self.audit).then_some(&self.judged_by().memory)
    }

    /// The id it was remembered under so far, where that is another.
    pub fn moved(&self) -> Option<&str> {
        self.moved.as_deref()
    }

    /// Whether the store knows repositories, and sees this one for the first time.
    pub fn new_here(&self) -> bool {
        self.new_here
    }

    /// Whether the bundle brings a newer root than the accepted one.
    pub fn newer_root(&self) -> bool {
        let root = self.verdict.root.as_ref().map(|root| root.version);
        root > self.root_before().map(|root| root.version)
    }

    /// Whether the bundle's repository files become the published ones. With an index that is
    /// the accepted one already, only a signature by more keys or a newer root is news: what
    /// else lies beside it is no better than what is there.
    pub fn publishes(&self) -> bool {
        if self.audit {
            return false;
        }
        match self.verdict.standing {
            Standing::Newer => true,
            Standing::Same => {
                let before = self.before.as_ref().and_then(|b| b.accepted.as_ref());
                // the file must have all the signatures that were there
                let signed = &self.verdict.signed_by;
                let more = before.is_some_and(|before| {
                    signed.len() > before.signed_by.len()
                        && before.signed_by.iter().all(|key| signed.contains(key))
                });
                more || self.newer_root()
            }
            Standing::Older => false,
        }
    }

    /// The root accepted before.
    pub fn root_before(&self) -> Option<&RootMemory> {
        self.before.as_ref()?.accepted.as_ref()?.root.as_ref()
    }

    /// Digest of the index accepted before, where the packages are judged by that and not by
    /// the bundle's index.
    pub fn needs_accepted(&self) -> Option<Digest> {
        let before = self.before.as_ref()?.accepted.as_ref()?;
        (!self.replaces()).then_some(before.index)
    }
}

/// Judges every repository of the bundle.
pub fn judge(
    bundle: &Bundle,
    entries: &[Entry],
    mut remembered: Remembered,
    clock: Clock,
) -> Result<Judgement, ImportError> {
    let mut judged = Vec::with_capacity(entries.len());
    for entry in entries {
        let one = judge_one(bundle, entry, &remembered, clock)?;
        remembered.accept(entry, &one.verdict);
        judged.push(one);
    }
    Ok(Judgement {
        judged,
        remembered,
        clock,
    })
}

fn judge_one(
    bundle: &Bundle,
    entry: &Entry,
    remembered: &Remembered,
    clock: Clock,
) -> Result<Judged, ImportError> {
    let file = entry.url.file_name();
    let index = Bytes::from(bundle.read_repository_file(&entry.url, file, MAX_INDEX)?);
    let signature_file = format!("{file}.sig");
    let signature = match bundle.layout().repository_file(&entry.url, &signature_file) {
        Some(_) => {
            Some(bundle.read_repository_file(&entry.url, &signature_file, MAX_SIGNATURE_FILE)?)
        }
        None => None,
    };
    let roots = match entry.anchor {
        Anchor::Root(_) => Some(roots(bundle, entry)?),
        _ => None,
    };
    let offer = Offer {
        index: &index,
        signature: signature.as_deref(),
        roots: roots.as_ref(),
        table: None,
    };
    let verdict = remembered.judge(entry, offer, clock);
    let mut known = remembered.known.entries();
    Ok(Judged {
        entry: entry.clone(),
        verdict: verdict.map_err(|source| refused(entry, source))?,
        offered: Digest::sha256(&index),
        before: remembered.record(entry).map(Cow::into_owned),
        moved: remembered.other_id(entry).map(str::to_owned),
        new_here: known.next().is_some() && remembered.known.id_of(&entry.url).is_none(),
        roots,
        newer: None,
        audit: clock.as_of.is_some(),
    })
}

/// The number in the path of a numbered root.
pub fn root_number(path: &str) -> Option<u32> {
    let number = path.strip_prefix("root/")?.strip_suffix(".yaml")?;
    let read: u32 = number.parse().ok()?;
    (read.to_string() == number).then_some(read)
}

/// Whether a repository file is a root.
pub fn is_root(path: &str) -> bool {
    path == CURRENT || root_number(path).is_some()
}

fn roots(bundle: &Bundle, entry: &Entry) -> Result<Roots, ImportError> {
    let mut roots = Roots::default();
    let repositories = bundle.head().repositories.iter();
    let files = repositories
        .filter(|repository| repository.url == entry.url)
        .flat_map(|repository| &repository.files);
    for file in files {
        let number = root_number(&file.path);
        if number.is_none() && file.path != CURRENT {
            continue;
        }
        let bytes = bundle.read_repository_file(&entry.url, &file.path, MAX_ROOT as u64)?;
        let bytes = Bytes::from(bytes);
        match number {
            Some(number) => {
                roots.numbered.insert(number, bytes);
            }
            None => roots.current = Some(bytes),
        }
    }
    Ok(roots)
}

pub fn refused(entry: &Entry, source: TrustError) -> ImportError {
    ImportError::Trust {
        url: entry.url.clone(),
        source: Box::new(source),
    }
}

impl Judgement {
    /// Gives the repository at `at` the index accepted before, whose packages count since the
    /// bundle's own index is older. It is judged again, by the bundle's root where that is
    /// newer: keys may have been taken back since, and its expiry counts today.
    pub fn settle(&mut self, at: usize, accepted: &AcceptedIndex) -> Result<(), ImportError> {
        let Some(judged) = self.judged.get_mut(at) else {
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
            roots: match &judged.roots {
                Some(roots) if judged.newer_root() => Some(roots),
                _ => Some(&accepted.roots),
            },
            table: None,
        };
        let verdict = judge_offer(entry, offer, judged.before.as_ref(), self.clock);
        let verdict = verdict.map_err(|source| ImportError::Accepted {
            url: entry.url.clone(),
            source: Box::new(source),
        })?;
        if verdict.standing != Standing::Same {
            return Err(damaged("the stored index is not the one that was accepted"));
        }
        self.remembered.accept(entry, &verdict);
        judged.newer = Some(verdict);
        Ok(())
    }
}
