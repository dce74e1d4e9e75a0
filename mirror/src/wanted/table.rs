//! The table of misses: pure, bounded, and the form it has in a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use kubepkg_core::name::{NameError, RepositoryName, Tag};
use kubepkg_core::time::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Miss;
use crate::route::Target;

/// Most references that are kept: ten times what a large site runs. Usual names take 3 MiB of
/// memory, the longest there can be 16 MiB.
pub const MAX_REFERENCES: usize = 10_000;

/// Most clients that are kept of one reference: enough to find who asks.
pub const MAX_CLIENTS: usize = 16;

/// A manifest as it is asked for: repository, and tag or digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The repository, by its name in the mirror.
    pub repository: RepositoryName,
    /// The tag or digest.
    pub target: Target,
}

/// As `bundle create` takes it: the host with its port in the upstream's spelling.
impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.repository.as_str();
        let (host, path) = name.split_once('/').unwrap_or((name, ""));
        // no host has a '_', but the mirror's name of one with a port
        match host.rsplit_once('_') {
            Some((host, port)) if !path.is_empty() && is_port(port) => {
                write!(f, "{host}:{port}/{path}")?;
            }
            _ => f.write_str(name)?,
        }
        match &self.target {
            Target::Tag(tag) => write!(f, ":{tag}"),
            Target::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok() && text.bytes().all(|b| b.is_ascii_digit())
}

impl FromStr for Reference {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Reference, NameError> {
        let no_tag = || NameError::Tag(kubepkg_core::error::shown(text));
        let (name, target) = match text.split_once('@') {
            Some((name, digest)) => {
                let digest = digest.parse().map_err(|_| no_tag())?;
                (name, Target::Digest(digest))
            }
            None => {
                let (name, tag) = text.rsplit_once(':').ok_or_else(no_tag)?;
                (name, Target::Tag(tag.parse::<Tag>()?))
            }
        };
        let repository = match name.split_once('/') {
            Some((host, path)) => format!("{}/{path}", host.replace(':', "_")),
            None => name.to_owned(),
        };
        Ok(Reference {
            repository: repository.parse()?,
            target,
        })
    }
}

kubepkg_core::serde_by_text!(Reference);

/// How often one reference was missed, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Misses {
    /// The reference.
    pub reference: Reference,
    /// How often.
    pub count: u64,
    /// The first time.
    pub first: Time,
    /// The last time.
    pub last: Time,
    /// Who asked: the first [`MAX_CLIENTS`].
    pub clients: BTreeSet<IpAddr>,
    /// Whether others asked too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more_clients: bool,
}

impl Misses {
    fn add(&mut self, other: Misses) {
        self.count = self.count.saturating_add(other.count);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.more_clients |= other.more_clients;
        for client in other.clients {
            if self.clients.len() < MAX_CLIENTS {
                self.clients.insert(client);
            } else if !self.clients.contains(&client) {
                self.more_clients = true;
            }
        }
    }
}

/// How often something happened that is only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// The last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Time>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.count = self.count.saturating_add(other.count);
        self.last = self.last.max(other.last);
    }
}

/// What is counted without references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    /// Tags of signatures, attestations and SBOMs, and of referrers by the tag schema.
    pub signatures: Tally,
    /// The referrers API.
    pub referrers: Tally,
    /// Blobs.
    pub blobs: Tally,
    /// Names, tags and digests that cannot exist.
    pub illegal: Tally,
}

/// Misses by reference, the least recent ones forgotten first.
#[derive(Clone, Debug, Default)]
pub struct WantedTable {
    entries: BTreeMap<String, (u64, Misses)>,
    /// The entries in the order in which they were asked for last.
    order: BTreeMap<u64, String>,
    next: u64,
    counted: Counted,
}

/// The file `wanted`.
#[derive(Serialize, Deserialize)]
struct Wire {
    references: Vec<Misses>,
    counted: Counted,
}

impl WantedTable {
    /// Whether nothing was missed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.counted == Counted::default()
    }

    /// What was counted without references.
    pub fn counted(&self) -> Counted {
        self.counted
    }

    /// The references, those asked for last at the end.
    pub fn references(&self) -> impl Iterator<Item = &Misses> {
        self.order
            .values()
            .filter_map(|key| self.entries.get(key))
            .map(|(_, misses)| misses)
    }

    /// Counts a miss.
    pub(super) fn miss(&mut self, what: Miss, peer: Option<IpAddr>, at: Time) {
        let one = Tally {
            count: 1,
            last: Some(at),
        };
        let (repository, target) = match what {
            Miss::Manifest(repository, target) => (repository, target),
            Miss::Blob => return self.counted.blobs.add(one),
            Miss::Referrers => return self.counted.referrers.add(one),
            Miss::Illegal => return self.counted.illegal.add(one),
        };
        if is_signature(&target) {
            return self.counted.signatures.add(one);
        }
        self.add(Misses {
            reference: Reference { repository, target },
            count: 1,
            first: at,
            last: at,
            clients: peer.iter().map(IpAddr::to_canonical).collect(),
            more_clients: false,
        });
    }

    /// Adds what another table counted after this one.
    pub(crate) fn merge(&mut self, newer: WantedTable) {
        let WantedTable {
            mut entries,
            order,
            counted,
            ..
        } = newer;
        for key in order.into_values() {
            if let Some((_, misses)) = entries.remove(&key) {
                self.add(misses);
            }
        }
        self.counted.signatures.add(counted.signatures);
        self.counted.referrers.add(counted.referrers);
        self.counted.blobs.add(counted.blobs);
        self.counted.illegal.add(counted.illegal);
    }

    /// Forgets references; answers whether there were any.
    pub(crate) fn forget(&mut self, is_here: impl Fn(&Reference) -> bool) -> bool {
        let before = self.entries.len();
        let WantedTable { entries, order, .. } = self;
        entries.retain(|_, (at, misses)| {
            let here = is_here(&misses.reference);
            if here {
                order.remove(at);
            }
            !here
        });
        self.entries.len() != before
    }

    fn add(&mut self, misses: Misses) {
        let key = misses.reference.to_string();
        let at = self.next;
        self.next += 1;
        match self.entries.get_mut(&key) {
            Some((before, entry)) => {
                self.order.remove(before);
                *before = at;
                entry.add(misses);
            }
            None => {
                let mut clients = misses.clients.clone();
                let mut entry = misses;
                while clients.len() > MAX_CLIENTS {
                    clients.pop_last();
                    entry.more_clients = true;
                }
                entry.clients = clients;
                self.entries.insert(key.clone(), (at, entry));
            }
        }
        self.order.insert(at, key);
        if self.entries.len() > MAX_REFERENCES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}

impl Serialize for WantedTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let references = self.references().cloned().collect();
        let counted = self.counted;
        Wire {
            references,
            counted,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for WantedTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let mut table = WantedTable {
            counted: wire.counted,
            ..WantedTable::default()
        };
        for misses in wire.references {
            table.add(misses);
        }
        Ok(table)
    }
}

/// Whether a target is a tag of the forms signatures and referrers have.
pub(super) fn is_signature(target: &Target) -> bool {
    matches!(target, Target::Tag(tag) if is_signature_tag(tag.as_str()))
}

/// `sha256-<64 hex>`, with or without an ending such as `.sig`: the tag schema of referrers,
/// and cosign's tags.
pub(crate) fn is_signature_tag(tag: &str) -> bool {
    let stem = match tag.split_once('.') {
        Some((stem, "sig" | "att" | "sbom")) => stem,
        Some(_) => return false,
        None => tag,
    };
    let hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match stem.split_once('-') {
        Some(("sha256", rest)) => rest.len() == 64 && hex(rest),
        Some(("sha512", rest)) => rest.len() >= 64 && hex(rest),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(table: &mut WantedTable, reference: &str, client: u8, at: i64) {
        let reference: Reference = reference.parse().unwrap();
        let miss = Miss::Manifest(reference.repository, reference.target);
        let peer = IpAddr::from([10, 0, 0, client]);
        table.miss(miss, Some(peer), Time::from_unix(at));
    }

    fn shown(table: &WantedTable) -> Vec<String> {
        let line = |m: &Misses| format!("{} {}", m.reference, m.count);
        table.references().map(line).collect()
    }

    #[test]
    fn a_miss_is_counted_with_clients_and_times() {
        let mut table = WantedTable::default();
        for client in 0..20 {
            asked(
                &mut table,
                "docker.io/library/x:1",
                client,
                100 + i64::from(client),
            );
        }
        asked(&mut table, "docker.io/library/x:1", 3, 200);
        let misses = table.references().next().unwrap();
        assert_eq!(
            (misses.count, misses.first.unix(), misses.last.unix()),
            (21, 100, 200)
        );
        assert_eq!(misses.clients.len(), MAX_CLIENTS);
        assert!(misses.more_clients);
    }

    #[test]
    fn the_least_recently_asked_goes_first() {
        let mut table = WantedTable::default();
        for n in 0..MAX_REFERENCES {
            asked(&mut table, &format!("a.example/x:{n}"), 1, 1);
        }
        asked(&mut table, "a.example/x:0", 1, 2);
        asked(&mut table, "a.example/x:new", 1, 3);
        assert_eq!(table.entries.len(), MAX_REFERENCES);
        assert_eq!(table.order.len(), MAX_REFERENCES);
        let there = |tag: &str| table.entries.contains_key(&format!("a.example/x:{tag}"));
        assert!(there("0") && there("new") && !there("1"));
    }

    #[test]
    fn probes_and_illegal_names_take_no_place() {
        let mut table = WantedTable::default();
        let hex = "a".repeat(64);
        for ending in ["", ".sig", ".att", ".sbom"] {
            asked(
                &mut table,
                &format!("a.example/x:sha256-{hex}{ending}"),
                1,
                1,
            );
        }
        for miss in [Miss::Blob, Miss::Referrers, Miss::Illegal] {
            table.miss(miss, None, Time::from_unix(1));
        }
        let counted = table.counted();
        assert_eq!(counted.signatures.count, 4);
        assert_eq!(
            (
                counted.blobs.count,
                counted.referrers.count,
                counted.illegal.count
            ),
            (1, 1, 1)
        );
        assert_eq!(table.references().count(), 0);
        // what only looks like one is a tag
        asked(&mut table, "a.example/x:sha256-abc", 1, 1);
        assert_eq!(table.references().count(), 1);
    }

    #[test]
    fn tables_add_up_and_keep_their_order_in_a_file() {
        let mut old = WantedTable::default();
        asked(&mut old, "a.example/x:1", 1, 1);
        asked(&mut old, "a.example/x:2", 1, 2);
        let mut new = WantedTable::default();
        asked(&mut new, "a.example/x:1", 2, 3);
        old.merge(new);
        assert_eq!(shown(&old), ["a.example/x:2 1", "a.example/x:1 2"]);
        let text = serde_json::to_string(&old).unwrap();
        let read: WantedTable = serde_json::from_str(&text).unwrap();
        assert_eq!(shown(&read), shown(&old));
        let mut read = read;
        assert!(read.forget(|r| r.to_string().ends_with(":2")));
        assert_eq!(shown(&read), ["a.example/x:1 2"]);
        assert_eq!(read.order.len(), 1);
    }

    #[test]
    fn a_port_is_spelled_as_upstream() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for text in [
            "a.example:5000/x/y:1",
            &format!("localhost:5000/x@{digest}"),
            "x:1",
        ] {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
        }
        let reference: Reference = "a.example:5000/x:1".parse().unwrap();
        assert_eq!(reference.repository.as_str(), "a.example_5000/x");
        // two elements with the same look
        let plain: Reference = "a_5000:1".parse().unwrap();
        assert_eq!(plain.repository.as_str(), "a_5000");
        for bad in [
            "",
            "x",
            "x:",
            "X:1",
            "x@sha256:1",
            "../x:1",
            "x/y:\u{1b}[2J",
        ] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }
}
