//! What is attached to a manifest: signatures, attestations, SBOMs, and what is attached to
//! those. Whatever cannot be had is noted, and the caller decides: a bundle that silently lacks
//! its signatures would be found out only where nothing can be fetched any more.

use std::collections::HashSet;

use futures_util::{StreamExt as _, stream};
use kubepkg_core::bundle::format::{MAX_REFERRER_DEPTH, MAX_REFERRERS};
use kubepkg_core::bundle::head::{Class, HeadReferrer};
use kubepkg_core::digest::Digest;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::reference::Reference;
use kubepkg_remote::Referrer;

use super::{ABREAST, Collected, Scope, graph};
use crate::CreateError;

/// Looks up what hangs on `subjects` in the repository of `reference`, and on that.
pub async fn collect(
    scope: &Scope<'_>,
    reference: &Reference,
    subjects: Vec<Digest>,
    into: &mut Collected,
) {
    let mut seen = HashSet::new();
    let mut level = subjects;
    // ends where nothing is attached, or too deep
    for depth in 1.. {
        level.retain(|subject| seen.insert(*subject));
        if level.is_empty() {
            return;
        }
        let found = stream::iter(std::mem::take(&mut level))
            .map(|subject| hanging_on(scope, reference, subject, depth));
        let mut found = std::pin::pin!(found.buffered(ABREAST));
        while let Some((part, below)) = found.next().await {
            into.merge(part);
            level.extend(below);
        }
    }
}

/// What hangs on `subject` itself, and all manifests of that.
async fn hanging_on(
    scope: &Scope<'_>,
    reference: &Reference,
    subject: Digest,
    depth: usize,
) -> (Collected, Vec<Digest>) {
    let mut all = Collected::default();
    let mut manifests = Vec::new();
    let found = match attached(scope, reference, &subject, depth).await {
        Ok(found) => found,
        Err(error) => {
            all.lack(reference, &subject, error);
            return (all, manifests);
        }
    };
    let each = stream::iter(&found).map(|referrer| one(scope, reference, &subject, referrer));
    let mut each = std::pin::pin!(each.buffered(ABREAST));
    while let Some(found) = each.next().await {
        match found {
            Ok((part, walked)) => {
                all.merge(part);
                manifests.extend(walked.all().map(|manifest| manifest.digest));
            }
            Err(error) => all.lack(reference, &subject, error),
        }
    }
    (all, manifests)
}

/// The list of what is attached to `subject`, within the limits of a bundle.
async fn attached(
    scope: &Scope<'_>,
    reference: &Reference,
    subject: &Digest,
    depth: usize,
) -> Result<Vec<Referrer>, CreateError> {
    let found = scope.registry.referrers(reference, subject).await?;
    let limit = |why: String| CreateError::Unfit {
        reference: Box::new(reference.at(*subject)),
        why,
    };
    if found.len() > MAX_REFERRERS {
        return Err(limit(format!(
            "more than {MAX_REFERRERS} manifests are attached to it"
        )));
    }
    if !found.is_empty() && depth > MAX_REFERRER_DEPTH {
        return Err(limit(format!(
            "attachments of attachments go deeper than {MAX_REFERRER_DEPTH}"
        )));
    }
    Ok(found)
}

/// Looks up one referrer. Nothing of it is carried before all of it was found.
async fn one(
    scope: &Scope<'_>,
    reference: &Reference,
    subject: &Digest,
    referrer: &Referrer,
) -> Result<(Collected, graph::Walked), CreateError> {
    let at = reference.at(referrer.manifest.digest);
    let mut part = Collected::default();
    let walked = graph::walk(scope, &at, Class::Layer, None, &mut part).await?;
    let (descriptor, manifest) = walked.root();
    about(&at, manifest, subject, referrer)?;
    part.referrers.push(HeadReferrer {
        repository: reference.repository(),
        subject: *subject,
        manifest: descriptor.clone(),
        tag: referrer.tag.clone(),
    });
    Ok((part, walked))
}

/// A referrer must itself say what it is about, or be found by a tag that says it: the far side
/// has nobody else's word.
fn about(
    at: &Reference,
    manifest: &Manifest,
    subject: &Digest,
    referrer: &Referrer,
) -> Result<(), CreateError> {
    let why = match &manifest.subject {
        Some(of) if of.digest == *subject => return Ok(()),
        None if referrer.tag.is_some() => return Ok(()),
        Some(of) => format!("it says itself that it is attached to {}", of.digest),
        None => "it does not say itself what it is attached to".to_owned(),
    };
    Err(CreateError::Unfit {
        reference: Box::new(at.clone()),
        why: format!("it is listed as attached to {subject}, but {why}"),
    })
}
