//! What the server holds and has seen.

use std::collections::BTreeMap;

use bytes::Bytes;
use kubepkg_core::Digest;

use super::fault::Script;
use crate::image::Content;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The `Range` header.
    pub range: Option<String>,
    /// The `Authorization` header.
    pub authorization: Option<String>,
}

/// How a client proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// `Authorization: Basic` with this base64 text of `user:password`.
    Basic(String),
    /// A token from `/token`, given to everyone.
    AnonymousToken,
    /// A token from `/token`, given for this base64 text of `user:password`.
    Token(String),
}

/// One repository.
#[derive(Debug, Default)]
pub(super) struct Repository {
    pub content: Content,
    pub tags: BTreeMap<String, Digest>,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(super) repositories: BTreeMap<String, Repository>,
    pub(super) files: BTreeMap<String, Bytes>,
    pub(super) faults: Vec<Script>,
    pub(super) login: Option<Login>,
    pub(super) no_referrers_api: bool,
    pub(super) seen: Vec<Seen>,
}

impl State {
    /// How often a path that holds `part` was asked for.
    pub(super) fn count(&self, part: &str) -> usize {
        let meant = |seen: &&Seen| seen.path.contains(part);
        self.seen.iter().filter(meant).count()
    }
}
