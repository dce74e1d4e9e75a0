//! The body of a request, taken as it comes: nothing gathers all of it, however long it is.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body as _;

/// Of a body nobody wants, so much is read all the same: a client that is still sending when
/// its connection ends may never see the answer.
const DISCARDED: u64 = 8 * 1024 * 1024;

/// For how long that is done.
const DISCARDING: Duration = Duration::from_secs(5);

/// The client did not send what it announced.
#[derive(Debug, thiserror::Error)]
#[error("the body of the request ended early: {0}")]
pub(super) struct Broken(axum::Error);

/// A body longer than is taken.
#[derive(Debug)]
pub(super) enum NotAll {
    /// It broke off.
    Broken(Broken),
    /// It is longer than that.
    TooLong,
    /// It takes too long.
    Slow,
}

/// A request's body.
pub(super) struct Incoming {
    body: Body,
    /// As announced; `None` for a stream.
    length: Option<u64>,
    ended: bool,
    /// The client waits to be asked for the body.
    waits: bool,
}

impl Incoming {
    pub(super) fn new(body: Body, headers: &HeaderMap) -> Incoming {
        Incoming {
            length: body.size_hint().exact(),
            ended: body.is_end_stream(),
            waits: headers.contains_key(EXPECT),
            body,
        }
    }

    /// The length that was announced.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next bytes; `None` at the end of all that was announced.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Broken> {
        while !self.ended {
            self.waits = false;
            match poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await {
                Some(Ok(frame)) => {
                    // anything else is a trailer
                    if let Ok(bytes) = frame.into_data()
                        && !bytes.is_empty()
                    {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => {
                    self.ended = true;
                    return Err(Broken(error));
                }
                None => self.ended = true,
            }
        }
        Ok(None)
    }

    /// All of it, if it is at most `most` bytes.
    pub(super) async fn all(&mut self, most: u64) -> Result<Bytes, NotAll> {
        if self.length.is_some_and(|length| length > most) {
            return Err(NotAll::TooLong);
        }
        let mut all = Vec::new();
        let mut first = None;
        while let Some(piece) = self.next().await.map_err(NotAll::Broken)? {
            if (all.len() + piece.len()) as u64 > most {
                return Err(NotAll::TooLong);
            }
            if all.is_empty() && self.length == Some(piece.len() as u64) {
                first = Some(piece);
                continue;
            }
            all.extend_from_slice(&piece);
        }
        Ok(first.unwrap_or_else(|| all.into()))
    }

    /// Reads what is left, within limits; whether that was all.
    pub(super) async fn discard(&mut self) -> bool {
        if self.ended || self.waits {
            return self.ended;
        }
        let reading = async {
            let mut left = DISCARDED;
            while left > 0 {
                match self.next().await {
                    Ok(Some(piece)) => left = left.saturating_sub(piece.len() as u64),
                    Ok(None) => return true,
                    Err(_) => return false,
                }
            }
            false
        };
        tokio::time::timeout(DISCARDING, reading)
            .await
            .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_is_taken_than_is_wanted() {
        let mut short = Incoming::new(Body::from("abc"), &HeaderMap::new());
        assert_eq!(short.length(), Some(3));
        assert_eq!(short.all(3).await.unwrap(), "abc");
        assert!(short.discard().await);
        let mut long = Incoming::new(Body::from("abcd"), &HeaderMap::new());
        assert!(matches!(long.all(3).await, Err(NotAll::TooLong)));
        assert!(long.discard().await);
        assert_eq!(long.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_client_that_waits_to_be_asked_is_not_asked_for_nothing() {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECT, http::HeaderValue::from_static("100-continue"));
        let mut waiting = Incoming::new(Body::from("abc"), &headers);
        assert!(!waiting.discard().await);
    }
}
