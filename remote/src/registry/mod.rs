//! OCI registries: manifests, blobs and referrers are read, blobs and manifests written.
//!
//! Content is returned as the bytes that came. The `urls` of a descriptor (foreign layers)
//! are followed only by [`Registry::download_from_url`], when somebody asks for that.
//!
//! Where settings name mirrors for a host, these are asked first, in their order. What one
//! does not have, or cannot give, is asked of the next; the registry itself comes last, and
//! its answer is the one that counts.

mod blob;
mod challenge;
mod endpoint;
mod expected;
mod push;
mod referrers;
mod servers;
mod token;
mod upload;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use kubepkg_core::descriptor::{Descriptor, media_type};
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest};
use kubepkg_core::{Digest, Reference};
use tokio::sync::OnceCell;

pub use blob::BlobSink;
pub use referrers::{MAX_REFERRERS, Referrer};

use crate::client::Inner;
use crate::credentials::{Credentials, Known};
use crate::error::{Fault, Given, RemoteError};
use crate::http::{Answer, Ask, Way, Whole, fault_of_status};
use crate::login::{basic, bearer};
use crate::retry::Tries;
use challenge::Challenge;
use endpoint::{Endpoint, Purpose};
use expected::Expected;
use servers::{Servers, Shunned};
use token::{TokenSlot, Tokens};

/// The host that serves the content named `docker.io`.
pub(crate) const DOCKER_HUB_API: &str = "registry-1.docker.io";

/// Manifest types that are asked for, in this order of preference.
const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// Names the digest of what an answer carries.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// Credentials and the tokens got with them.
pub(crate) struct Access {
    pub(crate) credentials: Credentials,
    tokens: Tokens,
    expected: Expected,
    shunned: Arc<Shunned>,
    /// Registries behind mirrors, and whether they have answered.
    reached: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
}

impl Access {
    pub(crate) fn new(credentials: Credentials) -> Access {
        Access {
            credentials,
            tokens: Tokens::default(),
            expected: Expected::default(),
            shunned: Arc::default(),
            reached: Mutex::default(),
        }
    }

    /// Whether `host` has answered; who asks first finds out, and others wait for that.
    fn reached(&self, host: &str) -> Arc<OnceCell<()>> {
        let mut all = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(host.to_owned()).or_default())
    }
}

/// Reads from registries and writes to them. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

/// A manifest or index exactly as the registry serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawManifest {
    /// Media type by `Content-Type`, or its own where the registry gives no useful one.
    pub media_type: String,
    /// The bytes its digest is about.
    pub bytes: Bytes,
    /// Its digest, checked against the bytes.
    pub digest: Digest,
}

impl RawManifest {
    /// Media type, digest and size.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor::new(
            self.media_type.clone(),
            self.digest,
            self.bytes.len() as u64,
        )
    }
}

impl Registry {
    pub(crate) fn new(inner: Arc<Inner>) -> Registry {
        Registry { inner }
    }

    /// The manifest or index behind `reference`: by digest where it has one, else by tag.
    ///
    /// # Errors
    /// Not found; more than [`MAX_MANIFEST`] bytes; content that does not match the digest
    /// asked for or announced; or what went wrong on the way.
    pub async fn manifest(&self, reference: &Reference) -> Result<RawManifest, RemoteError> {
        let servers = self.servers(reference, Purpose::of(reference))?;
        self.manifest_from(servers, reference).await
    }

    async fn manifest_from(
        &self,
        mut servers: Servers,
        reference: &Reference,
    ) -> Result<RawManifest, RemoteError> {
        loop {
            match self.manifest_at(servers.at(), reference).await {
                Err(error) => servers.next(error)?,
                found => return found,
            }
        }
    }

    async fn manifest_at(
        &self,
        at: &Endpoint,
        reference: &Reference,
    ) -> Result<RawManifest, RemoteError> {
        let place = at.place(&reference.to_string());
        let path = format!("manifests/{}", reference.target());
        let ask = self.ask(at, &place, &path)?;
        let whole = self.get_asked(at, &place, &ask, MAX_MANIFEST).await?;
        let digest = checked_digest(&whole, reference.digest())
            .map_err(|fault| RemoteError::new(&*place, fault))?;
        let media_type = manifest_type(&whole.headers, &whole.bytes)
            .map_err(|fault| RemoteError::new(&*place, fault))?;
        Ok(RawManifest {
            media_type,
            bytes: whole.bytes,
            digest,
        })
    }

    /// What `reference` points at, with a HEAD request where the registry answers it fully
    /// (Docker Hub does not count those as pulls), else by reading the manifest. A digest
    /// answered to a HEAD is the registry's word; read the manifest by it to be sure.
    pub async fn resolve(&self, reference: &Reference) -> Result<Descriptor, RemoteError> {
        let servers = self.servers(reference, Purpose::of(reference))?;
        self.resolve_from(servers, reference).await
    }

    async fn resolve_from(
        &self,
        mut servers: Servers,
        reference: &Reference,
    ) -> Result<Descriptor, RemoteError> {
        loop {
            match self.resolve_at(servers.at(), reference).await {
                Err(error) => servers.next(error)?,
                found => return found,
            }
        }
    }

    async fn resolve_at(
        &self,
        at: &Endpoint,
        reference: &Reference,
    ) -> Result<Descriptor, RemoteError> {
        let place = at.place(&reference.to_string());
        let path = format!("manifests/{}", reference.target());
        let mut ask = self.ask(at, &place, &path)?;
        ask.method = Method::HEAD;
        let mut tries = self.tries(at);
        let answer = self.send(at, &place, &ask, &mut tries).await?;
        let described = match answer.response.status() {
            StatusCode::OK => described(answer.response.headers()),
            // Some registries do not answer HEAD at all.
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => None,
            _ => return Err(refusal(answer, &place).await),
        };
        answer.went_well();
        drop(answer);
        match described {
            Some(descriptor) if reference.digest().is_none_or(|d| *d == descriptor.digest) => {
                Ok(descriptor)
            }
            _ => Ok(self.manifest_at(at, reference).await?.descriptor()),
        }
    }

    /// How often `at` is asked: where there is somebody else to ask, once.
    fn tries(&self, at: &Endpoint) -> Tries {
        match at.last {
            true => self.inner.http.tries(),
            false => Tries::once(),
        }
    }

    fn ask(&self, at: &Endpoint, place: &str, path: &str) -> Result<Ask, RemoteError> {
        let mut ask = Ask::get(at.url(place, path)?);
        ask.headers
            .insert(header::ACCEPT, HeaderValue::from_static(ACCEPT));
        ask.line = at.line.clone().map_or(Way::Own, Way::Host);
        Ok(ask)
    }

    async fn get_asked(
        &self,
        at: &Endpoint,
        place: &str,
        ask: &Ask,
        limit: u64,
    ) -> Result<Whole, RemoteError> {
        let mut tries = self.tries(at);
        loop {
            let mut answer = self.send(at, place, ask, &mut tries).await?;
            if answer.response.status() != StatusCode::OK {
                return Err(refusal(answer, place).await);
            }
            match answer.whole(limit).await {
                Ok(whole) => return Ok(whole),
                Err(fault) => self.inner.http.again(place, &answer, fault, &mut tries)?,
            }
        }
    }

    /// Sends `ask` with what the registry wants as credentials. Any answer but a refusal of
    /// access comes back.
    async fn send(
        &self,
        at: &Endpoint,
        place: &str,
        ask: &Ask,
        tries: &mut Tries,
    ) -> Result<Answer, RemoteError> {
        let access = &self.inner.access;
        let slot = access.tokens.slot(&at.key());
        // where an upload is to go to another host, that host has no claim on them either
        let own = at.is_at(&ask.url);
        let mut used = match own {
            true => self.to_begin_with(at, place, &slot).await,
            false => None,
        };
        let mut asked_again = false;
        loop {
            let mut ask = ask.clone();
            if let Some(value) = &used {
                ask.headers.insert(header::AUTHORIZATION, value.clone());
            }
            let answer = self.inner.http.send(place, &ask, tries).await?;
            let status = answer.response.status();
            // What a redirect led to has no claim on the registry's credentials.
            let own = own && at.is_at(answer.response.url());
            if !own || !matches!(status.as_u16(), 401 | 403) {
                return Ok(answer);
            }
            let challenges = challenges(answer.response.headers());
            let message = answer.words().await;
            let known = access.credentials.of(&at.account).await;
            if status == StatusCode::UNAUTHORIZED && !asked_again {
                asked_again = true;
                // One task gets the token, the others wait here and use it.
                let mut current = slot.lock().await;
                if *current != used {
                    used = current.clone();
                    asked_again = false;
                    continue;
                }
                let fresh = self
                    .authorize(at, place, &challenges, &known, tries)
                    .await?;
                if fresh.is_some() && fresh != used {
                    access.expected.learn(at, &challenges);
                    *current = fresh.clone();
                    used = fresh;
                    continue;
                }
            }
            return Err(at.denied(place, status.as_u16(), given(&known), message));
        }
    }

    /// The `Authorization` header to begin with: the one taken last, else one for what the server
    /// asked of other repositories. Where that fails, the server itself says what it wants.
    async fn to_begin_with(
        &self,
        at: &Endpoint,
        place: &str,
        slot: &TokenSlot,
    ) -> Option<HeaderValue> {
        let access = &self.inner.access;
        let mut current = slot.lock().await;
        if current.is_none()
            && let Some(challenges) = access.expected.of(at)
        {
            let known = access.credentials.of(&at.account).await;
            let mut once = Tries::once();
            let early = self.authorize(at, place, &challenges, &known, &mut once);
            *current = early.await.unwrap_or_default();
        }
        current.clone()
    }

    /// The `Authorization` header that answers one of `challenges`; `None` when there is
    /// nothing to answer with.
    async fn authorize(
        &self,
        at: &Endpoint,
        place: &str,
        challenges: &[Challenge],
        known: &Known,
        tries: &mut Tries,
    ) -> Result<Option<HeaderValue>, RemoteError> {
        let offered = |scheme: &str| challenges.iter().find(|c| c.scheme == scheme);
        if let Known::Token(token) = known {
            return Ok(bearer(token));
        }
        if let Some(challenge) = offered("bearer") {
            let http = &self.inner.http;
            let token = token::get(http, at, place, challenge, known, tries).await?;
            return Ok(Some(token)
                .filter(|token| !token.is_empty())
                .as_deref()
                .and_then(bearer));
        }
        match known {
            Known::Password { user, password } if offered("basic").is_some() => {
                Ok(basic(user, password))
            }
            _ => Ok(None),
        }
    }
}

fn given(known: &Known) -> Given {
    match known {
        Known::Nothing => Given::None,
        Known::Unusable(why) => Given::Unusable(why.clone()),
        Known::Password { .. } | Known::Token(_) | Known::Identity(_) => Given::Own,
    }
}

fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    headers
        .get_all(header::WWW_AUTHENTICATE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(challenge::read)
        .collect()
}

/// The error an answer stands for, in the registry's own words.
async fn refusal(answer: Answer, place: &str) -> RemoteError {
    let status = answer.response.status().as_u16();
    let url = answer.response.url().clone();
    let message = answer.words().await;
    RemoteError::new(place, fault_of_status(status, &url, message))
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The digest of a manifest: the one asked for, else the one announced, else SHA-256.
fn checked_digest(whole: &Whole, wanted: Option<&Digest>) -> Result<Digest, Fault> {
    let announced = header_text(&whole.headers, CONTENT_DIGEST).and_then(|text| text.parse().ok());
    let Some(expected) = wanted.copied().or(announced) else {
        return Ok(Digest::sha256(&whole.bytes));
    };
    let got = Digest::of(expected.algorithm(), &whole.bytes);
    match got == expected {
        true => Ok(expected),
        false => Err(Fault::Digest {
            expected: Box::new(expected),
            got: Box::new(got),
        }),
    }
}

/// `Content-Type` without parameters, where it names a manifest.
fn declared_type(headers: &HeaderMap) -> Option<&str> {
    let text = header_text(headers, header::CONTENT_TYPE.as_str())?;
    let text = text.split(';').next().unwrap_or_default().trim();
    let manifest = media_type::is_index(text)
        || media_type::is_image_manifest(text)
        || matches!(
            text,
            media_type::DOCKER_SCHEMA1 | media_type::DOCKER_SCHEMA1_SIGNED
        );
    manifest.then_some(text)
}

fn manifest_type(headers: &HeaderMap, bytes: &[u8]) -> Result<String, Fault> {
    match declared_type(headers) {
        Some(text) => Ok(text.to_owned()),
        // Plain file servers and some proxies say application/json or worse.
        None => Manifest::parse(bytes, None)
            .map(|manifest| manifest.media_type)
            .map_err(Fault::Manifest),
    }
}

/// The descriptor an answer to HEAD gives, when it gives all of it.
fn described(headers: &HeaderMap) -> Option<Descriptor> {
    let digest = header_text(headers, CONTENT_DIGEST)?.parse().ok()?;
    let size = header_text(headers, header::CONTENT_LENGTH.as_str())?
        .parse()
        .ok()?;
    Some(Descriptor::new(declared_type(headers)?, digest, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_counts_only_when_complete() {
        let mut headers = HeaderMap::new();
        let digest = Digest::sha256(b"x").to_string();
        headers.insert(CONTENT_DIGEST, digest.parse().unwrap());
        headers.insert(header::CONTENT_LENGTH, "7".parse().unwrap());
        assert_eq!(described(&headers), None);
        headers.insert(header::CONTENT_TYPE, "text/html".parse().unwrap());
        assert_eq!(described(&headers), None);
        let typed = format!("{}; charset=utf-8", media_type::OCI_INDEX);
        headers.insert(header::CONTENT_TYPE, typed.parse().unwrap());
        assert_eq!(described(&headers).unwrap().size, 7);
    }

    #[test]
    fn credentials_are_marked_as_secret() {
        assert!(basic("user", "password").unwrap().is_sensitive());
        assert_eq!(basic("u", "p").unwrap(), "Basic dTpw");
        assert!(bearer("broken\ntoken").is_none());
    }
}
