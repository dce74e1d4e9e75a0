//! Who is trusted for which repository.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::keyset::KeySet;
use super::prefix::Prefix;
use crate::keys::{KeyId, PublicKey};
use crate::location::CanonicalUrl;

/// What the trust in a repository rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Keys that signed version 1 of its root; the root says who signs the index.
    Root(KeySet),
    /// Keys that sign the index.
    Keys(KeySet),
    /// Nothing: an index without a signature is taken.
    Unsigned,
}

impl Anchor {
    /// Any one of `keys` signs the index; without keys, nobody does.
    pub fn any_of(keys: Vec<PublicKey>) -> Anchor {
        match KeySet::new(keys, 1) {
            Ok(keys) => Anchor::Keys(keys),
            Err(_) => Anchor::Unsigned,
        }
    }

    /// The pinned keys.
    pub fn keys(&self) -> &[PublicKey] {
        match self {
            Anchor::Root(keys) | Anchor::Keys(keys) => keys.keys(),
            Anchor::Unsigned => &[],
        }
    }
}

/// A repository, and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the memory of this repository is filed under.
    pub id: String,
    /// URL of the index.
    pub url: CanonicalUrl,
    /// Who is trusted.
    pub anchor: Anchor,
    /// Whether the index must name its URL itself, see [`mark_shared_keys`]. Not stored: it
    /// depends on the other entries.
    pub must_name_url: bool,
    /// Where its packages may take charts, trees and images from; anywhere when empty.
    pub locations: Vec<Prefix>,
    /// Platforms that are wanted, like `linux/amd64`. Images are carried whole, as upstream has
    /// them, so one that lacks a wanted platform lacks it everywhere: it is said, not refused.
    pub platforms: Vec<String>,
    /// Who must have approved each version.
    pub approvals: Option<KeySet>,
    /// Who must have signed each bundle that holds packages of this repository.
    pub bundle_signers: Option<KeySet>,
}

impl Entry {
    /// The entry of the repository at `url`, with nothing asked of it but who signs.
    pub fn new(url: CanonicalUrl, anchor: Anchor) -> Entry {
        Entry {
            id: entry_id(&url),
            url,
            anchor,
            must_name_url: false,
            locations: Vec::new(),
            platforms: Vec::new(),
            approvals: None,
            bundle_signers: None,
        }
    }

    /// Whether `other` asks the same of the same repository.
    pub fn same_trust(&self, other: &Entry) -> bool {
        self.differs(other).is_empty()
    }

    /// What `other` asks otherwise.
    pub fn differs(&self, other: &Entry) -> Vec<Difference> {
        let mut differs = Vec::new();
        let mut note = |what, same: bool, shown: fn(&Entry) -> String| {
            if !same {
                differs.push(Difference {
                    what,
                    before: shown(self),
                    now: shown(other),
                });
            }
        };
        note("URL", self.url == other.url, |e| e.url.to_string());
        note("keys", self.anchor == other.anchor, |e| {
            e.anchor.to_string()
        });
        note("locations", self.locations == other.locations, |e| {
            list(e.locations.iter().map(ToString::to_string))
        });
        note("platforms", self.platforms == other.platforms, |e| {
            list(e.platforms.iter().cloned())
        });
        note("approvals", self.approvals == other.approvals, |e| {
            set(e.approvals.as_ref())
        });
        note(
            "bundle signers",
            self.bundle_signers == other.bundle_signers,
            |e| set(e.bundle_signers.as_ref()),
        );
        differs
    }
}

/// One thing that two entries ask otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What it is.
    pub what: &'static str,
    /// What is stored.
    pub before: String,
    /// What is given now.
    pub now: String,
}

fn list(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<String> = texts.collect();
    match texts.is_empty() {
        true => "none".to_owned(),
        false => texts.join(", "),
    }
}

fn set(keys: Option<&KeySet>) -> String {
    keys.map_or_else(|| "none".to_owned(), ToString::to_string)
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Anchor::Root(keys) => write!(f, "a root by {keys}"),
            Anchor::Keys(keys) => keys.fmt(f),
            Anchor::Unsigned => f.write_str("no key"),
        }
    }
}

/// The id of an entry made on the command line. It depends on the URL alone: who changes
/// keys keeps the memory, and so the protection against old indexes.
pub fn entry_id(url: &CanonicalUrl) -> String {
    url.folder()
}

/// Marks entries that share a key: their indexes must name their own URL. Otherwise who
/// carries the files could pass off one repository's index, rightly signed, as the other's.
pub fn mark_shared_keys(entries: &mut [Entry]) {
    let mut users: BTreeMap<KeyId, usize> = BTreeMap::new();
    for entry in entries.iter() {
        for key in entry.anchor.keys() {
            *users.entry(key.id()).or_default() += 1;
        }
    }
    for entry in entries {
        let shared = |key: &PublicKey| users.get(&key.id()).is_some_and(|n| *n > 1);
        entry.must_name_url |= entry.anchor.keys().iter().any(shared);
    }
}

/// How an entry is stored. Strict: an entry that cannot be understood is an error.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Form {
    id: String,
    url: CanonicalUrl,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<KeySet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keys: Option<KeySet>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    locations: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    platforms: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approvals: Option<KeySet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bundle_signers: Option<KeySet>,
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (root, keys) = match &self.anchor {
            Anchor::Root(keys) => (Some(keys.clone()), None),
            Anchor::Keys(keys) => (None, Some(keys.clone())),
            Anchor::Unsigned => (None, None),
        };
        Form {
            id: self.id.clone(),
            url: self.url.clone(),
            root,
            keys,
            locations: self.locations.iter().map(ToString::to_string).collect(),
            platforms: self.platforms.clone(),
            approvals: self.approvals.clone(),
            bundle_signers: self.bundle_signers.clone(),
        }
        .serialize(to)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Entry, D::Error> {
        let form = Form::deserialize(from)?;
        let anchor = match (form.root, form.keys) {
            (Some(keys), None) => Anchor::Root(keys),
            (None, Some(keys)) => Anchor::Keys(keys),
            (None, None) => Anchor::Unsigned,
            (Some(_), Some(_)) => return Err(de::Error::custom("both root and keys are given")),
        };
        let locations = form.locations.iter().map(|text| text.parse());
        Ok(Entry {
            id: form.id,
            url: form.url,
            anchor,
            must_name_url: false,
            locations: locations
                .collect::<Result<_, _>>()
                .map_err(de::Error::custom)?,
            platforms: form.platforms,
            approvals: form.approvals,
            bundle_signers: form.bundle_signers,
        })
    }
}
