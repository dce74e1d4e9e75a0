//! The whole verification of a bundle, in the order that lets nothing unchecked be used.

use std::thread::available_parallelism;

use kubepkg_core::bundle::head::HeadBlob;
use kubepkg_core::bundle::verify::{Closure, Placement, charts, closure, hash_all, placements};
use kubepkg_core::bundle::{Bundle, FormatError};
use kubepkg_core::manifest::MAX_MANIFEST;
use kubepkg_core::progress::Progress;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Entry, Given, Known};

use crate::judge::{Judgement, Remembered, judge};
use crate::{ImportError, Judged, claims};

/// What the caller trusts and lets pass.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    /// The keys.
    pub given: Given,
    /// Images that no signed package pins by digest are taken on the bundle's word.
    pub allow_unpinned_images: bool,
    /// A package may move its tags back to an older version.
    pub allow_tag_back: bool,
}

/// A bundle of which everything but the payload's bytes is known to hold.
#[derive(Debug)]
pub struct Checked {
    /// Its repositories, in the order of the head.
    pub judged: Vec<Judged>,
    /// What the store knows over all repositories when this is in.
    pub known: Known,
    /// Its manifests.
    pub closure: Closure,
    /// Where its content belongs in a mirror.
    pub placements: Vec<Placement>,
    /// What should be said: expiry soon, unsigned indexes, packages without images, holes.
    pub warnings: Vec<String>,
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
    let Judgement { judged, known, .. } = judgement;
    claims::check(head, &judged, trusted.allow_unpinned_images)?;
    let read = |blob: &HeadBlob| -> Result<Vec<u8>, FormatError> {
        bundle.read_blob(&blob.digest, MAX_MANIFEST)
    };
    let closure = closure(head, read)?;
    charts(head, &closure, |digest, limit| {
        bundle.read_blob(digest, limit)
    })?;
    let placements = placements(head, &closure)?;
    let warnings = warnings(bundle, &judged);
    Ok(Checked {
        judged,
        known,
        closure,
        placements,
        warnings,
    })
}

/// The trust entries for the repositories of `bundle`.
pub(crate) fn entries(bundle: &Bundle, trusted: &Trusted) -> Result<Vec<Entry>, ImportError> {
    let urls: Vec<_> = bundle
        .head()
        .repositories
        .iter()
        .map(|r| r.url.clone())
        .collect();
    Ok(trusted.given.entries(&urls)?)
}

/// Verifies what can be known of `bundle` without reading its layers: trust, packages, pins,
/// manifests. What a store accepted before is not known here.
///
/// # Errors
/// The first check that does not hold; see [`ImportError`].
pub fn verify_head(bundle: &Bundle, trusted: &Trusted, now: Time) -> Result<Checked, ImportError> {
    let entries = entries(bundle, trusted)?;
    let judgement = judge(bundle, &entries, &Remembered::default(), now)?;
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

fn warnings(bundle: &Bundle, judged: &[Judged]) -> Vec<String> {
    let head = bundle.head();
    let mut said = Vec::new();
    for judged in judged {
        said.extend(judged.verdict.warnings.iter().map(ToString::to_string));
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
    for image in head.images.iter().filter(|image| !image.pinned) {
        said.push(format!(
            "image {} is taken on the bundle's word; no signed package pins it",
            image.reference
        ));
    }
    for image in head.images.iter().filter(|image| image.untagged) {
        let winner = claims::takes_tag(head, image);
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
