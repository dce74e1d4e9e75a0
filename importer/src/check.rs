//! The whole verification of a bundle, in the order that lets nothing unchecked be used.

use std::thread::available_parallelism;

use kubepkg_core::bundle::head::HeadBlob;
use kubepkg_core::bundle::verify::{
    Closure, Placement, charts, closure, hash_all, outside, placements,
};
use kubepkg_core::bundle::{Bundle, FormatError};
use kubepkg_core::index::LeftOutWhy;
use kubepkg_core::keys::PublicKey;
use kubepkg_core::manifest::MAX_MANIFEST;
use kubepkg_core::progress::Progress;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Clock, Given, Remembered, Warning};

use crate::judge::{Judgement, judge, refused};
use crate::vouched::{Vouched, counted, vouched};
use crate::{ImportError, Judged, claims, wants};

/// What the caller trusts and lets pass.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// The keys.
    pub given: Given,
    /// Keys that vouch for all of a bundle when one of them signed it, and so for what belongs
    /// to no package.
    pub bundle_keys: Vec<PublicKey>,
    /// Images that no signed package pins by digest, and content that belongs to no package,
    /// are taken on the bundle's word.
    pub allow_unpinned_images: bool,
    /// A package may move its tags back to an older version.
    pub allow_tag_back: bool,
    /// Packages their publisher has withdrawn come in.
    pub allow_withdrawn: bool,
    /// What is given takes the place of the trust the store has for a repository.
    pub change_trust: bool,
    /// Expiry is judged as of this time. Content and tags come in, but nothing is remembered,
    /// and the published repository files stay as they are.
    pub as_of: Option<Time>,
    /// Largest age of an index in seconds.
    pub max_age: Option<i64>,
}

/// A bundle of which everything but the payload's bytes is known to hold.
#[derive(Debug)]
pub struct Checked {
    /// Its repositories, in the order of the head.
    pub judged: Vec<Judged>,
    /// On whose word content that belongs to no package comes in.
    pub vouched: Vouched,
    /// What the store remembers when this is in.
    pub remembered: Remembered,
    /// Its manifests.
    pub closure: Closure,
    /// Where its content belongs in a mirror.
    pub placements: Vec<Placement>,
    /// What should be said: expiry soon, unsigned indexes, packages without images, holes.
    pub warnings: Vec<String>,
    audit: bool,
}

impl Checked {
    /// Whether expiry was judged as of another time than now.
    pub fn audit(&self) -> bool {
        self.audit
    }
}

/// Checks everything that can be known without reading layers, beside the `judgement` over its
/// indexes: packages, pins, closure. Manifests are read and hashed. Errors name the file.
pub(crate) fn check(
    bundle: &Bundle,
    judgement: Judgement,
    trusted: &Trusted,
) -> Result<Checked, ImportError> {
    checked(bundle, judgement, trusted).map_err(|error| error.of(bundle))
}

fn checked(
    bundle: &Bundle,
    judgement: Judgement,
    trusted: &Trusted,
) -> Result<Checked, ImportError> {
    let head = bundle.head();
    let Judgement {
        judged, remembered, ..
    } = judgement;
    let vouched = vouched(bundle, trusted)?;
    claims::check(head, &judged, trusted.allow_unpinned_images)?;
    let mut warnings = wants::content(head, &judged, trusted.allow_withdrawn)?;
    let read = |blob: &HeadBlob| -> Result<Vec<u8>, FormatError> {
        bundle.read_blob(&blob.digest, MAX_MANIFEST)
    };
    let closure = closure(head, read)?;
    charts(head, &closure, |digest, limit| {
        bundle.read_blob(digest, limit)
    })?;
    warnings.extend(wants::platforms(head, &judged, &closure)?);
    let placements = placements(head, &closure)?;
    warnings.extend(said(bundle, &judged, trusted, &vouched));
    warnings.extend(outside(head, &closure));
    Ok(Checked {
        judged,
        vouched,
        remembered,
        closure,
        placements,
        warnings,
        audit: trusted.as_of.is_some(),
    })
}

/// Judges the indexes of `bundle` by what is given and remembered, and who signed the bundle.
pub(crate) fn judged(
    bundle: &Bundle,
    trusted: &Trusted,
    remembered: Remembered,
    now: Time,
) -> Result<Judgement, ImportError> {
    if trusted.change_trust && trusted.as_of.is_some() {
        return Err(ImportError::ChangeAsOf);
    }
    let urls = bundle.head().repositories.iter();
    let urls: Vec<_> = urls.map(|repository| repository.url.clone()).collect();
    let entries = remembered.entries(&trusted.given, &urls)?;
    for entry in &entries {
        let change = remembered.check_entry(entry, trusted.change_trust);
        change.map_err(|source| refused(entry, source))?;
    }
    wants::signers(bundle, &entries).map_err(|error| error.of(bundle))?;
    vouched(bundle, trusted).map_err(|error| error.of(bundle))?;
    let clock = Clock {
        as_of: trusted.as_of,
        max_age: trusted.max_age,
        ..remembered.clock(now)
    };
    judge(bundle, &entries, remembered, clock)
}

/// Verifies what can be known of `bundle` without reading its layers: trust, packages, pins,
/// manifests. What a store accepted before is not known here.
///
/// # Errors
/// The first check that does not hold; see [`ImportError`].
pub fn verify_head(bundle: &Bundle, trusted: &Trusted, now: Time) -> Result<Checked, ImportError> {
    let judgement = judged(bundle, trusted, Remembered::default(), now)?;
    check(bundle, judgement, trusted)
}

/// Verifies all of `bundle`, every byte of it, and changes nothing. What a store accepted
/// before is not known here; import looks at that too.
///
/// # Errors
/// The first check that does not hold; see [`ImportError`].
pub fn verify(
    bundle: &Bundle,
    trusted: &Trusted,
    now: Time,
    jobs: Option<usize>,
    progress: &dyn Progress,
) -> Result<Checked, ImportError> {
    let checked = verify_head(bundle, trusted, now)?;
    let threads = jobs.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
    let total = bundle
        .layout()
        .payload()
        .iter()
        .map(|member| member.size)
        .sum();
    progress.begin("verifying", total);
    let result = hash_all(bundle, threads, &|bytes| progress.advance(bytes));
    progress.end();
    result?;
    Ok(checked)
}

fn said(bundle: &Bundle, judged: &[Judged], trusted: &Trusted, vouched: &Vouched) -> Vec<String> {
    let head = bundle.head();
    let mut said = Vec::new();
    if let Some(as_of) = trusted.as_of {
        said.push(format!(
            "expiry was judged as of {as_of}; nothing of this is remembered, and repository \
             files stay as they are"
        ));
    }
    for judged in judged {
        let warnings = &judged.verdict.warnings;
        let changed = warnings
            .iter()
            .filter(|warning| matches!(warning, Warning::TrustChanged { .. }));
        said.extend(changed.map(ToString::to_string));
        let warnings = judged.judged_by().warnings.iter();
        let other = warnings.filter(|warning| !matches!(warning, Warning::TrustChanged { .. }));
        said.extend(other.map(ToString::to_string));
        if judged.new_here() {
            said.push(format!(
                "this store sees {} for the first time: if the repository was at another URL \
                 before, nothing that was accepted there protects this one",
                judged.entry.url
            ));
        }
        said.extend(left_out(judged));
        if !judged.replaces() {
            said.push(format!(
                "the bundle's index of {} is older than the one accepted before, which stays; \
                 packages were judged by that one",
                judged.entry.url
            ));
        }
    }
    for package in head.packages.iter().filter(|package| package.no_images) {
        said.push(format!(
            "package {} carries no images; whoever made the bundle said it has none",
            package.name
        ));
    }
    match vouched {
        Vouched::OwnWord => said.push(format!(
            "{} belong to no package and are taken on the bundle's word",
            counted(head)
        )),
        Vouched::By(key) if head.has_unpackaged() => said.push(format!(
            "{} belong to no package; key {key}, which signed the bundle, vouches for them",
            counted(head)
        )),
        Vouched::By(_) | Vouched::Needless => {}
    }
    if head.repositories.is_empty() && trusted.given.names_somebody() {
        said.push(
            "the bundle has no repository, so the keys given for repositories checked nothing"
                .to_owned(),
        );
    }
    let unpinned = head.images.iter();
    for image in unpinned.filter(|image| !image.pinned && !image.is_unpackaged()) {
        said.push(format!(
            "image {} is taken on the bundle's word; no signed package pins it",
            image.reference
        ));
    }
    for (image, winner) in claims::untagged(head) {
        said.push(format!(
            "image {} comes without its tag, which {} gets; whoever made the bundle chose that",
            image.reference,
            winner.map_or_else(|| "another".to_owned(), |other| other.reference.to_string())
        ));
    }
    for hole in &head.holes {
        said.push(format!(
            "{} of {} is missing: {}",
            hole.kind, hole.of, hole.why
        ));
    }
    said
}

/// How many versions of the index nobody can choose, and why.
fn left_out(judged: &Judged) -> Option<String> {
    let left_out = &judged.index().left_out;
    let count = |of: fn(&LeftOutWhy) -> bool| left_out.iter().filter(|left| of(&left.why)).count();
    let reasons = [
        (
            count(|why| matches!(why, LeftOutWhy::Newer { .. })),
            "made for another kubepkg",
        ),
        (
            count(|why| matches!(why, LeftOutWhy::Delegation { .. })),
            "not signed by those their packages are handed to",
        ),
        (
            count(|why| matches!(why, LeftOutWhy::Approvals { .. })),
            "not approved",
        ),
    ];
    let reasons = reasons.iter().filter(|(n, _)| *n > 0);
    let reasons: Vec<String> = reasons.map(|(n, why)| format!("{n} {why}")).collect();
    (!reasons.is_empty()).then(|| {
        format!(
            "versions of {} that are left out: {}",
            judged.entry.url,
            reasons.join(", ")
        )
    })
}
