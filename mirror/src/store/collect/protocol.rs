//! The steps of a collection that touch what others touch too, apart from where they happen:
//! the file store runs them on its lock and files, the model test on a scheduler that tries
//! their interleavings.
//!
//! What holds, and why nothing that is wanted is ever removed:
//!
//! 1. Everything that puts on the list, takes off it, makes content readable, names it or
//!    removes it does so under one lock, and looks at the list as it is then.
//! 2. Who says "it is here" has either made it so under the lock (published, named) and taken
//!    it off the list there, or has looked at the list as of a moment after which the counter
//!    would have told of a change, and taken off it what was on it.
//! 3. A round counts from the moment it is announced, which is after the counter told
//!    everybody to look. So what was not seen on the list has a whole grace before it.
//! 4. A name is taken only if no commit after the state it was judged by changed its
//!    repository, bytes only if no commit after that state names them.
//! 5. What only garbage reaches goes only while that garbage may go too: the marking relied on
//!    it ([`sweep`]). So a manifest that is rescued keeps all it is made of, and one
//!    that goes does so before what it names, together with all others of its repository.
//! 6. Under a lease, what was published is not on the list, so only a later round can condemn
//!    it; the sweep leaves later rounds alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Claim, Garbage, Swept, Wait};

use super::ledger::{Ledger, Line};

/// How much is removed under one hold of the lock: a few milliseconds. Manifests of one
/// repository go all at once, which is one commit.
pub(super) const SWEPT_AT_ONCE: usize = 64;

/// What commits after some state touched.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) repositories: BTreeSet<RepositoryName>,
    pub(crate) contents: BTreeSet<Digest>,
}

/// Where the steps happen.
pub(crate) trait Ground {
    /// The lock, held.
    type Held<'a>
    where
        Self: 'a;
    /// Why a step failed.
    type Error;

    /// Waits for the lock.
    fn hold(&self) -> Result<Self::Held<'_>, Self::Error>;
    /// The list as it is now.
    fn ledger(&self, held: &Self::Held<'_>) -> Result<Arc<Ledger>, Self::Error>;
    /// Adds to the list, durably, and then tells everybody to look.
    fn add(&self, held: &Self::Held<'_>, lines: &[Line]) -> Result<(), Self::Error>;
    /// Writes the list anew, durably, and then tells everybody to look.
    fn replace(&self, held: &Self::Held<'_>, ledger: &Ledger) -> Result<(), Self::Error>;
    /// The newest round as of which the oldest living lease was taken, and as of which any was.
    fn leased(&self, held: &Self::Held<'_>) -> Result<Option<(u64, u64)>, Self::Error>;
    /// For how long the store has been served: at least, and at most.
    fn served(&self) -> Result<(u64, u64), Self::Error>;
    /// What commits after `sequence` touched; `None` when that cannot be told.
    fn touched(&self, held: &Self::Held<'_>, sequence: u64)
    -> Result<Option<Touched>, Self::Error>;
    /// Takes names away, in one commit.
    fn take_names(&self, held: &Self::Held<'_>, names: &[Garbage]) -> Result<(), Self::Error>;
    /// Removes bytes. Answers the size of each that was there. What is back after a power loss
    /// is condemned anew.
    fn unlink(
        &self,
        held: &Self::Held<'_>,
        digests: &[Digest],
    ) -> Result<Vec<(Digest, u64)>, Self::Error>;
}

/// Takes digests off the list.
pub(crate) fn rescue<G: Ground>(
    ground: &G,
    held: &G::Held<'_>,
    digests: impl IntoIterator<Item = Digest>,
) -> Result<(), G::Error> {
    let ledger = ground.ledger(held)?;
    if ledger.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<Digest> = digests.into_iter().collect();
    let wanted = wanted.into_iter().filter(|digest| ledger.has(digest));
    let lines: Vec<Line> = wanted.map(Line::Rescued).collect();
    match lines.is_empty() {
        true => Ok(()),
        false => ground.add(held, &lines),
    }
}

/// One round: makes `garbage` the list, and announces it.
pub(crate) fn condemn<G: Ground>(ground: &G, garbage: BTreeSet<Garbage>) -> Result<(), G::Error> {
    let held = ground.hold()?;
    let ledger = ground.ledger(&held)?;
    let above = ground.leased(&held)?.map_or(0, |(_, newest)| newest);
    if garbage.is_empty() && ledger.is_empty() {
        return Ok(());
    }
    let (at_least, _) = ground.served()?;
    let next = ledger.condemn(garbage, above, at_least);
    ground.replace(&held, &next)?;
    let (_, at_most) = ground.served()?;
    ground.add(&held, &[Line::Announced(next.round(), at_most)])
}

/// Removes what may go. See [`kubepkg_core::store::Collect::sweep`].
///
/// `garbage` was judged as if the manifests in it were gone already: of each repository either
/// all of them go, and first, or nothing of it does.
pub(crate) fn sweep<G: Ground>(
    ground: &G,
    sequence: u64,
    garbage: BTreeSet<Garbage>,
    grace: Duration,
) -> Result<Swept, G::Error> {
    let grace = super::served::milliseconds(grace);
    let mut swept = Swept::default();
    let (contents, names): (Vec<Garbage>, Vec<Garbage>) = garbage
        .into_iter()
        .partition(|garbage| garbage.claim == Claim::Bytes);
    let (mut manifests, blobs) = (BTreeMap::<RepositoryName, Vec<Garbage>>::new(), names);
    let mut rest = Vec::new();
    for garbage in blobs {
        match &garbage.claim {
            Claim::Manifest(name) => manifests.entry(name.clone()).or_default().push(garbage),
            _ => rest.push(garbage),
        }
    }
    let mut relied_in_vain = BTreeSet::new();
    for (name, relied) in manifests {
        let held = ground.hold()?;
        let due = due(ground, &held, sequence, &relied, grace, &mut swept)?;
        if due.len() < relied.len() {
            // somebody wants one of them: what it is made of was judged without it
            let wait = due.into_iter().map(|garbage| (garbage, Wait::Changed));
            swept.waiting.extend(wait);
            relied_in_vain.insert(name);
        } else {
            ground.take_names(&held, &due)?;
            removed(ground, &held, &due)?;
            swept.names.extend(due);
        }
    }
    let (wait, blobs): (Vec<Garbage>, Vec<Garbage>) = rest.into_iter().partition(
        |garbage| matches!(&garbage.claim, Claim::Blob(name) if relied_in_vain.contains(name)),
    );
    let wait = wait.into_iter().map(|garbage| (garbage, Wait::Changed));
    swept.waiting.extend(wait);
    for batch in blobs.chunks(SWEPT_AT_ONCE) {
        let held = ground.hold()?;
        let due = due(ground, &held, sequence, batch, grace, &mut swept)?;
        if !due.is_empty() {
            ground.take_names(&held, &due)?;
            removed(ground, &held, &due)?;
            swept.names.extend(due);
        }
    }
    for batch in contents.chunks(SWEPT_AT_ONCE) {
        let held = ground.hold()?;
        let due = due(ground, &held, sequence, batch, grace, &mut swept)?;
        if !due.is_empty() {
            let digests: Vec<Digest> = due.iter().map(|garbage| garbage.digest).collect();
            swept.contents.extend(ground.unlink(&held, &digests)?);
            removed(ground, &held, &due)?;
        }
    }
    Ok(swept)
}

/// Those that may go now. The rest is noted, with the reason.
fn due<G: Ground>(
    ground: &G,
    held: &G::Held<'_>,
    sequence: u64,
    batch: &[Garbage],
    grace: u64,
    swept: &mut Swept,
) -> Result<Vec<Garbage>, G::Error> {
    let ledger = ground.ledger(held)?;
    let leased = ground.leased(held)?.map(|(oldest, _)| oldest);
    let (at_least, _) = ground.served()?;
    let touched = ground.touched(held, sequence)?;
    let mut due = Vec::new();
    for garbage in batch {
        // this sweep's own commits take names of digests whose bytes come later; they touch
        // repositories and name nothing
        let changed = touched.as_ref().is_none_or(|touched| match &garbage.claim {
            Claim::Bytes => touched.contents.contains(&garbage.digest),
            Claim::Blob(name) | Claim::Manifest(name) => touched.repositories.contains(name),
        });
        let judged = match changed {
            true => Err(Wait::Changed),
            false => ledger.judge(garbage, at_least, grace, leased),
        };
        match judged {
            Ok(()) => due.push(garbage.clone()),
            Err(wait) => swept.waiting.push((garbage.clone(), wait)),
        }
    }
    Ok(due)
}

/// Notes what was removed. Who brings it again finds nothing on the list to take off, so an
/// entry that a power loss brought back would take what they brought at once.
fn removed<G: Ground>(ground: &G, held: &G::Held<'_>, due: &[Garbage]) -> Result<(), G::Error> {
    let lines: Vec<Line> = due.iter().cloned().map(Line::Removed).collect();
    ground.add(held, &lines)
}
