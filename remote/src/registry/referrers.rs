//! What is attached to a manifest: signatures, attestations, lists of contents.
//!
//! Three ways are in use and all are looked at: the referrers API and, for registries
//! without it, an index under the tag `sha256-<hex>` (distribution specification, "Listing
//! Referrers" and "Referrers Tag Schema"), and cosign's tags `sha256-<hex>.sig`, `.att` and
//! `.sbom`. An image without its signatures is refused by the clusters that ask for them,
//! so a look-up that fails is an error; only a clear "not there" means none.

use std::collections::BTreeSet;

use http::header;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest};
use kubepkg_core::name::Tag;
use kubepkg_core::{Descriptor, Digest, Reference};
use url::Url;

use super::endpoint::{Endpoint, Purpose};
use super::{Registry, Servers};
use crate::address::host_of;
use crate::error::{Fault, RemoteError};
use crate::http::Whole;
use kubepkg_core::error::{Classify, Kind};

/// Most referrers of one subject that are listed; more is an error, since a list cut short
/// looks like a complete one.
pub const MAX_REFERRERS: usize = 1_000;

/// Most pages of one list: with [`MAX_REFERRERS`] entries there is no need for more.
const MAX_PAGES: usize = 100;

/// The hex digits a tag of the schema carries; longer digests are cut there.
const SCHEMA_HEX: usize = 64;

/// cosign's tags are the schema's tag with one of these behind it.
const COSIGN: [&str; 3] = ["sig", "att", "sbom"];

/// A manifest that is about another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referrer {
    /// Its manifest.
    pub manifest: Descriptor,
    /// The tag by which clients look for it, where it has one of its own (cosign).
    pub tag: Option<Tag>,
}

impl Registry {
    /// What is attached to `subject` in the repository of `reference`: first what has
    /// `subject` as its subject, in the registry's order, then cosign's tags. No manifest
    /// twice.
    ///
    /// # Errors
    /// When any of the look-ups fails other than by "not there".
    pub async fn referrers(
        &self,
        reference: &Reference,
        subject: &Digest,
    ) -> Result<Vec<Referrer>, RemoteError> {
        let schema = schema_tag(subject);
        let tagged = |ending: &'static str| self.tagged(reference, subject, &schema, ending);
        let (api, index, sig, att, sbom) = tokio::try_join!(
            self.by_api(reference, subject),
            self.by_schema(reference, subject, &schema),
            tagged(COSIGN[0]),
            tagged(COSIGN[1]),
            tagged(COSIGN[2]),
        )?;
        let tagged: Vec<Referrer> = [sig, att, sbom].into_iter().flatten().collect();
        // A manifest that is found by its tag as well is listed with the tag.
        let mut seen: BTreeSet<Digest> = tagged.iter().map(|r| r.manifest.digest).collect();
        let mut found: Vec<Referrer> = api
            .into_iter()
            .chain(index)
            .filter(|manifest| seen.insert(manifest.digest))
            .map(|manifest| Referrer {
                manifest,
                tag: None,
            })
            .collect();
        found.extend(tagged);
        Ok(found)
    }

    /// By the referrers API; nothing where the registry has none.
    async fn by_api(
        &self,
        reference: &Reference,
        subject: &Digest,
    ) -> Result<Vec<Descriptor>, RemoteError> {
        let mut servers = self.attached_at(reference).await?;
        loop {
            match self.by_api_at(servers.at(), reference, subject).await {
                Err(error) => servers.next(error)?,
                found => return found,
            }
        }
    }

    /// Where to ask for what is attached: a mirror that knows of nothing, or of an older list,
    /// may just not have the rest, so the registry itself is asked, and mirrors only where it
    /// cannot be reached.
    async fn attached_at(&self, reference: &Reference) -> Result<Servers, RemoteError> {
        let servers = self.servers(reference, Purpose::Resolve)?;
        match servers.registry_behind() {
            Some(registry) if !self.reaches(registry).await => Ok(servers.answer_counts()),
            _ => Ok(servers.registry_first()),
        }
    }

    async fn by_api_at(
        &self,
        at: &Endpoint,
        reference: &Reference,
        subject: &Digest,
    ) -> Result<Vec<Descriptor>, RemoteError> {
        let what = format!("referrers of {}", reference.at(*subject));
        let place = at.place(&what);
        let wrong = |fault| RemoteError::new(&*place, fault);
        let mut ask = self.ask(at, &place, &format!("referrers/{subject}"))?;
        let accept = http::HeaderValue::from_static(media_type::OCI_INDEX);
        ask.headers.insert(header::ACCEPT, accept);
        let mut found = Vec::new();
        for page in 0..MAX_PAGES {
            let whole = match self.get_asked(at, &place, &ask, MAX_MANIFEST).await {
                Ok(whole) => whole,
                Err(error) if page == 0 && is_unsupported(&error) => return Ok(found),
                Err(error) => return Err(error),
            };
            found.extend(listed(&whole).map_err(wrong)?);
            if found.len() > MAX_REFERRERS {
                let why = format!("more than {MAX_REFERRERS} referrers");
                return Err(wrong(Fault::Shape(why)));
            }
            match next_page(&whole) {
                // Credentials go along, so the next page must be at the same place.
                Some(next) if host_of(&next) == host_of(&ask.url) && at.is_at(&next) => {
                    ask.url = next;
                }
                Some(next) => {
                    let to = crate::error::shown_url(&next);
                    let why = format!("the list goes on at another host: {to}");
                    return Err(wrong(Fault::Shape(why)));
                }
                None => return Ok(found),
            }
        }
        let why = format!("the list of referrers has more than {MAX_PAGES} pages");
        Err(wrong(Fault::Shape(why)))
    }

    /// By the index under the schema's tag.
    async fn by_schema(
        &self,
        reference: &Reference,
        subject: &Digest,
        schema: &str,
    ) -> Result<Vec<Descriptor>, RemoteError> {
        let Some(reference) = with_tag(reference, schema) else {
            return Ok(Vec::new());
        };
        let servers = self.attached_at(&reference).await?;
        let index = match self.manifest_from(servers, &reference).await {
            Ok(index) => index,
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let wrong = |fault| RemoteError::new(reference.to_string(), fault);
        if !media_type::is_index(&index.media_type) {
            // Somebody uses such a tag for something else; that says nothing about us.
            tracing::debug!(%reference, %subject, "the referrers tag is no index");
            return Ok(Vec::new());
        }
        let index = Manifest::parse(&index.bytes, Some(&index.media_type))
            .map_err(|e| wrong(Fault::Manifest(e)))?;
        if index.children().len() > MAX_REFERRERS {
            let why = format!("more than {MAX_REFERRERS} referrers");
            return Err(wrong(Fault::Shape(why)));
        }
        Ok(index.children().to_vec())
    }

    /// By one of cosign's tags.
    async fn tagged(
        &self,
        reference: &Reference,
        subject: &Digest,
        schema: &str,
        ending: &str,
    ) -> Result<Option<Referrer>, RemoteError> {
        let Some(reference) = with_tag(reference, &format!("{schema}.{ending}")) else {
            return Ok(None);
        };
        let servers = self.attached_at(&reference).await?;
        match self.resolve_from(servers, &reference).await {
            Ok(manifest) if manifest.digest == *subject => Ok(None),
            Ok(manifest) => Ok(Some(Referrer {
                manifest,
                tag: reference.tag().cloned(),
            })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// `<algorithm>-<hex>`, the hex cut as the specification says.
fn schema_tag(subject: &Digest) -> String {
    let mut hex = subject.hex();
    hex.truncate(SCHEMA_HEX);
    format!("{}-{hex}", subject.algorithm().as_str())
}

fn with_tag(reference: &Reference, tag: &str) -> Option<Reference> {
    tag.parse().ok().map(|tag| reference.tagged(tag))
}

/// Whether the answer means that there is no referrers API.
fn is_unsupported(error: &RemoteError) -> bool {
    error.kind() == Kind::NotFound
        || matches!(
            error.fault(),
            Fault::Status {
                status: 405 | 501,
                ..
            }
        )
}

fn listed(whole: &Whole) -> Result<Vec<Descriptor>, Fault> {
    let index =
        Manifest::parse(&whole.bytes, Some(media_type::OCI_INDEX)).map_err(Fault::Manifest)?;
    Ok(index.children().to_vec())
}

/// The target of `Link: <…>; rel="next"`.
fn next_page(whole: &Whole) -> Option<Url> {
    let links = whole.headers.get_all(header::LINK).iter();
    links
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|link| {
            let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            let next = parameters
                .split(';')
                .any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"));
            next.then(|| whole.url.join(target).ok()).flatten()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http::HeaderMap;
    use kubepkg_core::Algorithm;

    #[test]
    fn tags_of_the_schema() {
        let short = Digest::sha256(b"x");
        assert_eq!(schema_tag(&short), format!("sha256-{}", short.hex()));
        let long = Digest::of(Algorithm::Sha512, b"x");
        assert_eq!(schema_tag(&long).len(), "sha512-".len() + 64);
    }

    #[test]
    fn links_to_the_next_page() {
        let next = |link: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LINK, link.parse().unwrap());
            let whole = Whole {
                url: "https://h/v2/a/referrers/d".parse().unwrap(),
                headers,
                bytes: Bytes::new(),
            };
            next_page(&whole).map(String::from)
        };
        assert_eq!(
            next("</v2/a/referrers/d?n=2>; rel=\"next\"").unwrap(),
            "https://h/v2/a/referrers/d?n=2"
        );
        assert_eq!(
            next("<x>; rel=\"prev\", <?p=3>; rel=next").unwrap(),
            "https://h/v2/a/referrers/d?p=3"
        );
        assert_eq!(next("<x>; rel=\"last\""), None);
        assert_eq!(next("garbage"), None);
    }
}
