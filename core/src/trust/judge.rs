//! The judgement over one index.

use super::{Anchor, Entry, Memory, TrustError, Warning};
use crate::Digest;
use crate::index::Index;
use crate::index::signature::Signatures;
use crate::keys::KeyId;
use crate::time::Time;

const DAY: i64 = 24 * 60 * 60;

/// How far, in seconds, an index's `generated` may be ahead of the clock: clocks differ and
/// time zones are set wrongly, but a time far ahead would make every later index look old.
pub const MAX_AHEAD: i64 = DAY;

/// An index that expires within so many seconds is warned of: a bundle takes days to cross.
pub const NEAR_EXPIRY: i64 = 7 * DAY;

/// An index without an expiry that is older than so many seconds is warned of: somebody may
/// be holding newer ones back.
pub const OLD_WITHOUT_EXPIRY: i64 = 90 * DAY;

/// An index and its signature file, as they were found.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The bytes of `index.yaml`.
    pub index: &'a [u8],
    /// The bytes of `index.yaml.sig`, if there is one.
    pub signature: Option<&'a [u8]>,
}

/// How an accepted index stands to the one accepted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It replaces it, or is the first.
    Newer,
    /// It is the very same file.
    Same,
    /// It is genuine, but older. It must not replace the accepted one, and packages are
    /// judged by the accepted one: judge that again (its expiry counts today) and use its
    /// [`Verdict::index`]. The expiry of the older one does not count, as nothing rests on it.
    Older,
}

/// An index that is genuine.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The index, read.
    pub index: Index,
    /// The trusted keys that signed it; empty for an unsigned index.
    pub signed_by: Vec<KeyId>,
    /// How it stands to the one accepted before.
    pub standing: Standing,
    /// What to remember from now on. Unchanged when the index is [`Standing::Older`].
    pub memory: Memory,
    /// What to tell the user.
    pub warnings: Vec<Warning>,
}

/// What time it is, as far as that can be known.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// The clock of this machine.
    pub now: Time,
    /// The newest `generated` accepted under any entry: it was that late once, so expiry is
    /// judged by this when the clock was set back.
    pub seen: Option<Time>,
}

/// Judges `offer` for the repository of `entry`. `memory` is what an earlier verdict said to
/// remember; `now` is the clock of this machine.
pub fn judge(
    entry: &Entry,
    offer: Offer<'_>,
    memory: Option<&Memory>,
    now: Time,
) -> Result<Verdict, TrustError> {
    judge_at(entry, offer, memory, Clock { now, seen: None })
}

/// [`judge`] where other repositories have shown what time it is at least.
pub fn judge_at(
    entry: &Entry,
    offer: Offer<'_>,
    memory: Option<&Memory>,
    clock: Clock,
) -> Result<Verdict, TrustError> {
    let now = clock.now;
    if let Some(memory) = memory {
        check_memory(entry, memory)?;
    }
    let mut warnings = Vec::new();
    let signed_by = check_signature(entry, offer, &mut warnings)?;
    if let Some(memory) = memory
        && signed_by.is_empty()
        && !memory.signed_by.is_empty()
    {
        return Err(TrustError::SignedBefore {
            url: entry.url.clone(),
            keys: memory.signed_by.iter().copied().collect(),
        });
    }
    // from here on the bytes are those somebody trusted has signed
    let url = &entry.url;
    let index = Index::read(offer.index).map_err(|source| TrustError::Index {
        url: url.clone(),
        signed: !signed_by.is_empty(),
        source: Box::new(source),
    })?;
    check_url(entry, &index)?;

    let standing = standing(entry, &index, offer, memory)?;
    if standing == Standing::Newer
        && index.repository.is_none()
        && memory.is_some_and(|memory| memory.names_url)
    {
        return Err(TrustError::UrlDropped { url: url.clone() });
    }
    if let (Standing::Newer, Some(generated)) = (standing, index.generated)
        && generated.since(now) > MAX_AHEAD
    {
        return Err(TrustError::Future {
            url: url.clone(),
            generated,
            clock: now,
        });
    }
    // A clock that was set back must not make an expired index valid again.
    let accepted = memory.and_then(|memory| memory.generated);
    let today = now.max(accepted.max(clock.seen).unwrap_or(now));
    if now.plus(MAX_AHEAD) < today {
        warnings.push(Warning::ClockBehind {
            clock: now,
            accepted: today,
        });
    }
    if standing != Standing::Older {
        check_age(entry, &index, today, &mut warnings)?;
    }
    let memory = match (standing, memory) {
        (Standing::Older, Some(memory)) => memory.clone(),
        (Standing::Same, Some(memory)) => {
            // what was accepted unsigned may have got its signature, or one key more
            let mut memory = memory.clone();
            memory.signed_by.extend(signed_by.iter().copied());
            memory
        }
        _ => Memory {
            entry: entry.id.clone(),
            url: url.clone(),
            index: Digest::sha256(offer.index),
            generated: index.generated,
            first_seen: now,
            signed_by: signed_by.iter().copied().collect(),
            names_url: index.repository.is_some(),
        },
    };
    Ok(Verdict {
        index,
        signed_by,
        standing,
        memory,
        warnings,
    })
}

fn check_memory(entry: &Entry, memory: &Memory) -> Result<(), TrustError> {
    if memory.entry == entry.id && memory.url == entry.url {
        return Ok(());
    }
    Err(TrustError::OtherMemory {
        url: entry.url.clone(),
        id: entry.id.clone(),
        recorded_url: memory.url.clone(),
        recorded_id: memory.entry.clone(),
    })
}

fn check_signature(
    entry: &Entry,
    offer: Offer<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Vec<KeyId>, TrustError> {
    let url = || entry.url.clone();
    let keys = match &entry.anchor {
        Anchor::Keys(keys) => keys,
        Anchor::Root(_) => return Err(TrustError::NoRoot { url: url() }),
        Anchor::Unsigned => {
            // consent covers what nobody signed; a signature that nobody checks covers anything
            if offer.signature.is_some() {
                return Err(TrustError::KeyWanted { url: url() });
            }
            warnings.push(Warning::Unsigned { url: url() });
            return Ok(Vec::new());
        }
    };
    let Some(signature) = offer.signature else {
        return Err(TrustError::Unsigned { url: url() });
    };
    let signatures = Signatures::parse(signature).map_err(|source| TrustError::Signature {
        url: url(),
        source: Box::new(source),
    })?;
    let signed_by = signatures.signed_by(offer.index, keys.keys());
    if !keys.met_by(signed_by.len()) {
        return Err(TrustError::Untrusted {
            url: url(),
            trusted: keys.ids(),
            claimed: signatures
                .entries()
                .iter()
                .filter_map(|entry| entry.key_id.parse().ok())
                .collect(),
        });
    }
    Ok(signed_by)
}

fn check_url(entry: &Entry, index: &Index) -> Result<(), TrustError> {
    match &index.repository {
        Some(named) if *named != entry.url => Err(TrustError::OtherRepository {
            url: entry.url.clone(),
            named: named.clone(),
        }),
        None if entry.must_name_url => Err(TrustError::NoUrl {
            url: entry.url.clone(),
        }),
        _ => Ok(()),
    }
}

fn standing(
    entry: &Entry,
    index: &Index,
    offer: Offer<'_>,
    memory: Option<&Memory>,
) -> Result<Standing, TrustError> {
    let Some(memory) = memory else {
        return Ok(Standing::Newer);
    };
    if memory.index.matches(offer.index) {
        return Ok(Standing::Same);
    }
    let Some(generated) = index.generated else {
        return Err(TrustError::NoGenerated {
            url: entry.url.clone(),
            accepted: memory.generated,
        });
    };
    match memory.generated {
        Some(accepted) if generated < accepted => Ok(Standing::Older),
        Some(accepted) if generated == accepted => Err(TrustError::Fork {
            url: entry.url.clone(),
            generated,
            accepted: Box::new(memory.index),
            offered: Box::new(Digest::sha256(offer.index)),
        }),
        _ => Ok(Standing::Newer),
    }
}

fn check_age(
    entry: &Entry,
    index: &Index,
    today: Time,
    warnings: &mut Vec<Warning>,
) -> Result<(), TrustError> {
    let url = || entry.url.clone();
    match (index.expires, index.generated) {
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
            warnings.push(Warning::ExpiresSoon {
                url: url(),
                expires,
                today,
            });
        }
        (Some(_), _) => {}
        (None, Some(generated)) if today.since(generated) > OLD_WITHOUT_EXPIRY => {
            warnings.push(Warning::Old {
                url: url(),
                generated,
                today,
            });
        }
        (None, _) => {}
    }
    if index.generated.is_none() {
        warnings.push(Warning::NoGenerated { url: url() });
    }
    Ok(())
}
