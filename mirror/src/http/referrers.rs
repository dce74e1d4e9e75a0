//! What is about a manifest: signatures, attestations, SBOMs (OCI distribution specification,
//! "Listing Referrers").
//!
//! The answer joins the manifests with that `subject` and the entries of an index under the
//! referrers tag that are themselves here. The tag's index stays as it was stored.

use std::collections::BTreeMap;

use axum::response::Response;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, LINK};
use kubepkg_core::descriptor::media_type;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::store::{ManifestEntry, Repository};
use kubepkg_core::{Descriptor, Digest};
use serde::Serialize;

use super::content::respond_bytes;
use super::error::ApiError;
use super::lists::next_link;
use super::{Asking, Shared, manifest};

/// Bytes of descriptors in one answer: clients read at most 4 MiB of an index.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

const FILTERS_APPLIED: HeaderName = HeaderName::from_static("oci-filters-applied");

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What the referrers are about.
    pub subject: &'a Digest,
    /// Only those of this type.
    pub artifact_type: Option<&'a str>,
    /// Only those after this one.
    pub last: Option<&'a Digest>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    schema_version: u32,
    media_type: &'a str,
    manifests: &'a [Descriptor],
}

/// `GET /v2/<name>/referrers/<digest>`: always an index, an empty one where nothing is known.
pub async fn answer(
    shared: &Shared,
    asking: &Asking,
    repository: Option<&Repository>,
    question: Question<'_>,
) -> Result<Response, ApiError> {
    let mut all = BTreeMap::new();
    if let Some(repository) = repository {
        for (digest, entry) in repository.referrers(question.subject) {
            all.insert(*digest, descriptor(*digest, entry, None));
        }
        for listed in listed(shared, repository, question.subject).await? {
            let Some(entry) = repository.manifests.get(&listed.digest) else {
                continue;
            };
            // what says itself that it is about something else is not about this
            if entry.subject.is_none() {
                all.entry(listed.digest)
                    .or_insert_with(|| descriptor(listed.digest, entry, Some(listed)));
            }
        }
    }
    let matching = all.into_values().filter(|descriptor| {
        question.last.is_none_or(|last| descriptor.digest > *last)
            && question
                .artifact_type
                .is_none_or(|wanted| descriptor.artifact_type.as_deref() == Some(wanted))
    });
    let (page, more) = page(matching);

    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(media_type::OCI_INDEX),
    );
    if question.artifact_type.is_some() {
        headers.insert(FILTERS_APPLIED, HeaderValue::from_static("artifactType"));
    }
    if let (true, Some(last)) = (more, page.last())
        && let Some(link) = next_link(asking, &[("last", &last.digest.to_string())])
    {
        headers.insert(LINK, link);
    }
    let answer = Answer {
        schema_version: 2,
        media_type: media_type::OCI_INDEX,
        manifests: &page,
    };
    // text keys and values only: this always has a JSON form
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    Ok(respond_bytes(asking, headers, body))
}

/// The entries of the index under the referrers tag of `subject`.
async fn listed(
    shared: &Shared,
    repository: &Repository,
    subject: &Digest,
) -> Result<Vec<Descriptor>, ApiError> {
    let tag = referrers_tag(subject);
    let index = repository.tags.get(tag.as_str()).and_then(|tag| {
        let entry = repository.manifests.get(&tag.digest)?;
        media_type::is_index(&entry.media_type).then_some((tag.digest, entry))
    });
    let Some((digest, entry)) = index else {
        return Ok(Vec::new());
    };
    let Some(body) = manifest::body(shared, &digest, entry).await? else {
        return Ok(Vec::new());
    };
    Ok(match Manifest::parse(&body, Some(&entry.media_type)) {
        Ok(manifest) => manifest.children().to_vec(),
        Err(error) => {
            tracing::warn!(%digest, %error, "the index under a referrers tag cannot be read");
            Vec::new()
        }
    })
}

/// The tag under which older clients list referrers: the algorithm cut to 32 characters, `-`,
/// the hash cut to 64 (OCI distribution specification, "Referrers Tag Schema").
fn referrers_tag(subject: &Digest) -> String {
    let hex = subject.hex();
    format!(
        "{}-{}",
        subject.algorithm().as_str(),
        &hex[..hex.len().min(64)]
    )
}

/// What the answer shows of a manifest: what it says itself, else what the tag's index says.
fn descriptor(digest: Digest, entry: &ManifestEntry, listed: Option<Descriptor>) -> Descriptor {
    let mut shown = Descriptor::new(entry.media_type.as_str(), digest, entry.size);
    shown.artifact_type = entry.artifact_type.clone().map(String::from);
    shown.annotations.clone_from(&entry.annotations);
    if let Some(listed) = listed {
        if shown.artifact_type.is_none() {
            shown.artifact_type = listed.artifact_type;
        }
        if shown.annotations.is_empty() {
            shown.annotations = listed.annotations;
        }
    }
    shown
}

/// As many as one answer may carry, at least one, and whether there are more.
fn page(descriptors: impl Iterator<Item = Descriptor>) -> (Vec<Descriptor>, bool) {
    let mut page = Vec::new();
    let mut bytes = 0;
    for descriptor in descriptors {
        bytes += serde_json::to_vec(&descriptor).map_or(0, |json| json.len() + 1);
        if bytes > MAX_ANSWER && !page.is_empty() {
            return (page, true);
        }
        page.push(descriptor);
    }
    (page, false)
}

#[cfg(test)]
mod tests {
    use kubepkg_core::Algorithm;

    use super::*;

    #[test]
    fn tags_of_both_algorithms_are_legal() {
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let tag = referrers_tag(&Digest::of(algorithm, b"x"));
            assert_eq!(tag.len(), 6 + 1 + 64);
            assert!(tag.parse::<kubepkg_core::name::Tag>().is_ok());
        }
    }

    #[test]
    fn long_answers_come_in_pages() {
        let many = |n: u32| {
            (0..n).map(|i| {
                let mut d = Descriptor::new("x", Digest::sha256(i.to_le_bytes()), 1);
                d.annotations.insert("a".to_owned(), "x".repeat(1 << 20));
                d
            })
        };
        assert!(matches!(page(many(2)), (page, false) if page.len() == 2));
        assert!(matches!(page(many(9)), (page, true) if page.len() == 2));
    }
}
