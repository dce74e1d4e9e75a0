//! What is attached to a manifest: signatures, attestations, SBOMs, and what is attached to
//! those. Whatever cannot be had is noted, and the caller decides: a bundle that silently lacks
//! its signatures would be found out only where nothing can be fetched any more.

use kubepkg_core::bundle::format::{MAX_REFERRER_DEPTH, MAX_REFERRERS};
use kubepkg_core::bundle::head::{Class, HeadReferrer};
use kubepkg_core::digest::Digest;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::reference::Reference;
use kubepkg_remote::Referrer;

use super::{Collected, Scope, graph};
use crate::CreateError;

/// Looks up what hangs on `subject` in the repository of `reference`, and on that.
pub async fn collect(
    scope: &Scope<'_>,
    reference: &Reference,
    subject: &Digest,
    into: &mut Collected,
) {
    let mut open = vec![(*subject, 1)];
    while let Some((subject, depth)) = open.pop() {
        let found = match attached(scope, reference, &subject, depth).await {
            Ok(found) => found,
            Err(error) => {
                into.lack(reference, &subject, error);
                continue;
            }
        };
        for referrer in found {
            let known = into
                .referrers
                .iter()
                .any(|r| r.subject == subject && r.manifest.digest == referrer.manifest.digest);
            if known {
                continue;
            }
            // nothing of a referrer is carried before all of it was found
            let mut apart = Collected::default();
            match one(scope, reference, &subject, &referrer, &mut apart).await {
                Ok(below) => {
                    into.merge(apart);
                    open.extend(below.all().map(|manifest| (manifest.digest, depth + 1)));
                }
                Err(error) => into.lack(reference, &subject, error),
            }
        }
    }
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

/// Looks up one referrer. Gives its manifests.
async fn one(
    scope: &Scope<'_>,
    reference: &Reference,
    subject: &Digest,
    referrer: &Referrer,
    into: &mut Collected,
) -> Result<graph::Walked, CreateError> {
    let at = reference.at(referrer.manifest.digest);
    let walked = graph::walk(scope, &at, Class::Layer, None, into).await?;
    let (descriptor, manifest) = walked.root();
    about(&at, manifest, subject, referrer)?;
    into.referrers.push(HeadReferrer {
        repository: reference.repository(),
        subject: *subject,
        manifest: descriptor.clone(),
        tag: referrer.tag.clone(),
    });
    Ok(walked)
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
