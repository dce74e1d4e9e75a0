//! One upload of a blob (distribution specification, "Pushing blobs"): in one piece, or in
//! several where the registry, or what stands before it, wants no large ones.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};
use kubepkg_core::Descriptor;
use url::Url;

use super::endpoint::Endpoint;
use super::push::{refused, stored};
use super::{Registry, header_text};
use crate::body::{Body, Content, Part};
use crate::error::{Fault, RemoteError, shown_url};
use crate::http::{Answer, Ask, Way};
use crate::options::Progress;
use crate::redirect;
use crate::retry::Tries;

/// Sizes of pieces, tried one after the other: what GHCR takes, and what an nginx takes that
/// nobody has told otherwise.
const PIECES: [u64; 2] = [4 << 20, 1 << 20];

/// Says how large a piece has to be at least, except for the last one.
const MIN_LENGTH: &str = "oci-chunk-min-length";

/// How an upload is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Not at all.
    Whole,
    /// Into pieces of this size.
    Pieces(u64),
}

impl Plan {
    /// The plan after `error`, when that was about the size of `size` bytes or a piece of them.
    pub(super) fn smaller(self, error: &RemoteError, size: u64) -> Option<Plan> {
        let too_large = matches!(
            error.fault(),
            Fault::Status {
                status: 413 | 416,
                ..
            }
        );
        let now = match self {
            Plan::Whole => size,
            Plan::Pieces(length) => length,
        };
        let smaller = PIECES.into_iter().find(|piece| *piece < now);
        smaller.filter(|_| too_large).map(Plan::Pieces)
    }
}

/// Why an upload came to nothing.
pub(super) struct Failed {
    pub(super) error: RemoteError,
    /// The registry has lost the upload or a part of it, as one of several behind one name may: a
    /// new upload can go well.
    pub(super) lost: bool,
}

impl From<RemoteError> for Failed {
    fn from(error: RemoteError) -> Failed {
        Failed { error, lost: false }
    }
}

impl Failed {
    /// After an answer to bytes that were sent to an upload: "not found" is about the upload
    /// then, as the registry began it itself.
    fn under_way(error: RemoteError) -> Failed {
        let status = match error.fault() {
            Fault::Status { status, .. } => Some(*status),
            _ => None,
        };
        Failed {
            error,
            lost: matches!(status, Some(404 | 410)),
        }
    }
}

/// A blob on its way into a repository.
pub(super) struct Upload<'a> {
    pub(super) registry: &'a Registry,
    pub(super) at: &'a Endpoint,
    /// As messages name it.
    pub(super) place: &'a str,
    pub(super) blob: &'a Descriptor,
    pub(super) content: &'a Content,
    pub(super) progress: &'a Arc<dyn Progress>,
}

impl Upload<'_> {
    fn wrong(&self, fault: Fault) -> RemoteError {
        RemoteError::new(self.place, fault)
    }

    /// Sends `ask` once: what fails on the way begins anew as a whole.
    async fn ask(&self, ask: &Ask) -> Result<Answer, RemoteError> {
        let mut once = Tries::once();
        self.registry
            .send(self.at, self.place, ask, &mut once)
            .await
    }

    /// Whether the repository has it.
    pub(super) async fn is_there(&self) -> Result<bool, RemoteError> {
        let path = format!("blobs/{}", self.blob.digest);
        let mut ask = self.registry.ask(self.at, self.place, &path)?;
        ask.method = Method::HEAD;
        ask.headers.remove(header::ACCEPT);
        let answer = self.ask(&ask).await?;
        answer.went_well();
        // who does not answer the question is sent it
        Ok(answer.response.status() == StatusCode::OK)
    }

    /// Uploads it from its first byte.
    pub(super) async fn send(&self, plan: Plan) -> Result<(), Failed> {
        let (mut location, least) = self.begin().await?;
        let size = self.blob.size;
        let Plan::Pieces(length) = plan else {
            return self.put(location, 0).await;
        };
        let length = length.max(least);
        let mut at = 0;
        while at < size {
            let end = size.min(at.saturating_add(length));
            location = self.patch(location, at, end).await?;
            at = end;
        }
        self.put(location, size).await
    }

    /// Begins an upload. Gives where it goes to, and the least size of its pieces.
    async fn begin(&self) -> Result<(Url, u64), RemoteError> {
        let mut ask = self.registry.ask(self.at, self.place, "blobs/uploads/")?;
        ask.method = Method::POST;
        ask.headers.remove(header::ACCEPT);
        ask.headers
            .insert(header::CONTENT_LENGTH, HeaderValue::from(0));
        let answer = self.ask(&ask).await?;
        if answer.response.status() != StatusCode::ACCEPTED {
            return Err(refused(answer, self.place).await);
        }
        let least = header_text(answer.response.headers(), MIN_LENGTH);
        let least = least.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let location = self.location(&answer)?;
        let none = || Fault::Shape("it does not say where to upload to".to_owned());
        let location = location.ok_or_else(|| self.wrong(none()))?;
        answer.went_well();
        Ok((location, least))
    }

    /// Sends the bytes from `from` up to `to`. Gives where the next ones go to.
    async fn patch(&self, location: Url, from: u64, to: u64) -> Result<Url, Failed> {
        let mut ask = self.part(Method::PATCH, location.clone(), from, to);
        let range = HeaderValue::try_from(format!("{from}-{}", to - 1));
        let range = range.map_err(|e| self.wrong(Fault::Url(e.to_string())))?;
        ask.headers.insert(header::CONTENT_RANGE, range);
        let answer = self.ask(&ask).await?;
        let status = answer.response.status();
        if !matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Err(Failed::under_way(refused(answer, self.place).await));
        }
        let has = header_text(answer.response.headers(), header::RANGE.as_str());
        let has = has.and_then(|range| range.rsplit('-').next()?.trim().parse::<u64>().ok());
        if let Some(has) = has.filter(|has| *has != to - 1) {
            let why = format!(
                "{to} bytes were sent, and it says that it has {}",
                has.saturating_add(1)
            );
            let error = self.wrong(Fault::Shape(why));
            return Err(Failed { error, lost: true });
        }
        answer.went_well();
        Ok(self.location(&answer)?.unwrap_or(location))
    }

    /// Sends the bytes from `from` on, and ends the upload.
    async fn put(&self, mut location: Url, from: u64) -> Result<(), Failed> {
        let digest = self.blob.digest.to_string();
        location.query_pairs_mut().append_pair("digest", &digest);
        let ask = self.part(Method::PUT, location, from, self.blob.size);
        let answer = self.ask(&ask).await?;
        let stored = stored(answer, self.place, &self.blob.digest).await;
        stored.map_err(Failed::under_way)
    }

    fn part(&self, method: Method, url: Url, from: u64, to: u64) -> Ask {
        let mut ask = Ask::get(url);
        ask.method = method;
        ask.line = match self.at.is_at(&ask.url) {
            true => self.at.line.clone().map_or(Way::Own, Way::Host),
            // another host, which has no claim on what is known of this one
            false => Way::Foreign,
        };
        let kind = HeaderValue::from_static("application/octet-stream");
        ask.headers.insert(header::CONTENT_TYPE, kind);
        ask.body = Some(Body::Part(Part {
            content: self.content.clone(),
            from,
            length: to - from,
            progress: Arc::clone(self.progress),
        }));
        ask
    }

    /// Where an answer says that the upload goes on, which may be relative to where it came
    /// from, or at another host.
    fn location(&self, answer: &Answer) -> Result<Option<Url>, RemoteError> {
        let Some(text) = header_text(answer.response.headers(), header::LOCATION.as_str()) else {
            return Ok(None);
        };
        let from = answer.response.url();
        let url = from.join(text).map_err(|e| {
            let text = crate::error::shown(text);
            self.wrong(Fault::Shape(format!(
                "its address \"{text}\" is no URL: {e}"
            )))
        })?;
        let plain = self.registry.inner.http.plain();
        match redirect::refusal(std::slice::from_ref(from), &url, plain) {
            Some(why) => {
                let to = shown_url(&url);
                Err(self.wrong(Fault::Redirect { to, why }))
            }
            None => Ok(Some(url)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_become_smaller_as_long_as_that_helps() {
        const MIB: u64 = 1 << 20;
        let error = |status| {
            let message = String::new();
            RemoteError::new("x", Fault::Status { status, message })
        };
        for (plan, status, size, want) in [
            (Plan::Whole, 413, 10 * MIB, Some(4 * MIB)),
            (Plan::Whole, 416, 10 * MIB, Some(4 * MIB)),
            (Plan::Whole, 413, 4 * MIB, Some(MIB)),
            (Plan::Whole, 413, MIB, None),
            (Plan::Whole, 400, 10 * MIB, None),
            (Plan::Pieces(4 * MIB), 413, 10 * MIB, Some(MIB)),
            (Plan::Pieces(MIB), 413, 10 * MIB, None),
        ] {
            let next = plan.smaller(&error(status), size);
            assert_eq!(next, want.map(Plan::Pieces), "{plan:?} {status} {size}");
        }
    }
}
