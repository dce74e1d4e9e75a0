//! What reading an index found, for a repeat: the same text need not be read again.
//!
//! A table says which versions an index has and where in its text their specs stand. It is
//! made here and kept beside the index, but **it proves nothing by itself**: a changed table
//! could hide a version or show another one. So [`Index::with_table`] wants its digest, which
//! the caller keeps in its trust memory beside the digest of the index the table belongs to.
//!
//! The form is private to this program: another version of it ends in [`TableError::Version`],
//! and the index is read anew. Numbers are written 7 bits a byte, lowest first.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::spec::{LazySpec, Part};
use super::{
    Approval, Index, IndexPackage, IndexVersion, LeftOut, LeftOutWhy, VersionSignature, Withdrawn,
};
use crate::error::{Classify, Kind};
use crate::time::Time;
use crate::{Algorithm, Digest};

/// First bytes of a table: what it is and the version of its form.
const MAGIC: &[u8] = b"kubepkg index table 1\n";

/// A table is not used; the index must be read anew.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Not the table whose digest was kept.
    #[error("the table of the index is not the one that was kept")]
    Digest,
    /// Of another version of this program.
    #[error("the table of the index is of another form")]
    Version,
    /// The text has another length than the one it was made for.
    #[error("the table belongs to another index")]
    Text,
    /// Cut off, too long, or a place outside the text.
    #[error("the table of the index is damaged")]
    Damaged,
}

impl Classify for TableError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }
}

impl Index {
    /// The table of this index; to be asked for before anything is taken out of it. `None`
    /// where its text is not of the form that tools write: such a one is read anew each time.
    pub fn table(&self) -> Option<Vec<u8>> {
        let mut out = Vec::from(MAGIC);
        let mut text: Option<&Arc<Bytes>> = None;
        let mut body = Vec::new();
        put_option(&mut body, self.generated.as_ref(), put_time);
        put_option(&mut body, self.expires.as_ref(), put_time);
        let repository = self.repository.as_ref();
        put_text(&mut body, repository.map_or("", |url| url.as_str()));
        put_len(&mut body, self.packages.len());
        for (name, package) in &self.packages {
            put_text(&mut body, name);
            put_text(&mut body, &package.description);
            put_text(&mut body, &package.home);
            put_len(&mut body, package.versions.len());
            let mut last: Option<&IndexVersion> = None;
            for version in &package.versions {
                let part = version.spec.source()?;
                if !Arc::ptr_eq(text.get_or_insert(&part.text), &part.text) {
                    return None;
                }
                put_version(&mut body, version, part);
                let same = last.is_some_and(|last| last.shares_provides(version));
                put_option(
                    &mut body,
                    (!same).then_some(&version.provides),
                    |out, provides| {
                        put_len(out, provides.len());
                        provides.iter().for_each(|text| put_text(out, text));
                    },
                );
                last = Some(version);
            }
        }
        put_len(&mut body, self.left_out.len());
        for left in &self.left_out {
            let LeftOutWhy::Newer { unknown } = &left.why else {
                // Who signed is judged on every reading.
                return None;
            };
            put_text(&mut body, &left.package);
            put_text(&mut body, &left.version);
            put(&mut body, u64::from(left.build));
            put_len(&mut body, unknown.len());
            unknown.iter().for_each(|name| put_text(&mut body, name));
        }
        put_len(&mut out, text.map_or(0, |text| text.len()));
        out.append(&mut body);
        Some(out)
    }

    /// The index of `text` as `table` has it, without reading `text`. `kept` is the digest of
    /// the table, from where nobody else can change it.
    ///
    /// That `text` is the text the table was made for is for the caller to know, by its
    /// digest.
    pub fn with_table(text: Bytes, table: &[u8], kept: &Digest) -> Result<Index, TableError> {
        if !kept.matches(table) {
            return Err(TableError::Digest);
        }
        decode(text, table)
    }
}

/// Reads a table: whatever it holds, places lie within `text`, and no more is allocated than
/// some times the length of the table.
pub(super) fn decode(text: Bytes, table: &[u8]) -> Result<Index, TableError> {
    let rest = table.strip_prefix(MAGIC).ok_or(TableError::Version)?;
    let mut get = Get { rest };
    let len = get.len()?;
    if len != text.len() && len != 0 {
        return Err(TableError::Text);
    }
    let text = Arc::new(text);
    let mut index = Index {
        generated: get.option(Get::time)?,
        expires: get.option(Get::time)?,
        repository: match get.text()? {
            "" => None,
            url => Some(url.parse().map_err(|_| TableError::Damaged)?),
        },
        ..Index::default()
    };
    let mut packages = Vec::new();
    for _ in 0..get.len()? {
        let name = get.owned()?;
        let mut package = IndexPackage {
            description: get.owned()?,
            home: get.owned()?,
            versions: Vec::new(),
        };
        let versions = get.len()?;
        package.versions.reserve_exact(get.fitting(versions));
        for _ in 0..versions {
            let mut version = get.version(&text)?;
            version.provides = match (
                get.option(|get| get.list(Get::owned))?,
                package.versions.last(),
            ) {
                (Some(provides), _) => provides.into(),
                (None, Some(last)) => Arc::clone(&last.provides),
                (None, None) => return Err(TableError::Damaged),
            };
            package.versions.push(version);
        }
        packages.push((name, package));
    }
    index.packages = BTreeMap::from_iter(packages);
    for _ in 0..get.len()? {
        index.left_out.push(LeftOut {
            package: get.owned()?,
            version: get.owned()?,
            build: get.small()?,
            why: LeftOutWhy::Newer {
                unknown: get.list(Get::owned)?,
            },
        });
    }
    match get.rest {
        [] => Ok(index),
        _ => Err(TableError::Damaged),
    }
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
    out.push(number as u8);
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    put(out, len as u64);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_len(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn put_time(out: &mut Vec<u8>, time: &Time) {
    out.extend_from_slice(&time.unix().to_le_bytes());
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, write: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        write(out, value);
    }
}

fn put_version(out: &mut Vec<u8>, version: &IndexVersion, part: &Part) {
    put_text(out, &version.version);
    put(out, u64::from(version.build));
    out.extend_from_slice(version.digest.as_bytes());
    put(out, u64::from(part.start));
    put(out, u64::from(part.end - part.start));
    put_len(out, version.signatures.len());
    for signature in &version.signatures {
        put_text(out, &signature.keyid);
        put_text(out, &signature.sig);
    }
    put_option(out, version.withdrawn.as_ref(), |out, withdrawn| {
        put_time(out, &withdrawn.since);
        put_text(out, &withdrawn.reason);
        put_option(out, withdrawn.replacement.as_ref(), |out, text| {
            put_text(out, text)
        });
        put_option(out, withdrawn.lifted.as_ref(), put_time);
    });
    put_len(out, version.approvals.len());
    for approval in &version.approvals {
        put_text(out, &approval.keyid);
        put_text(out, &approval.sig);
        put_time(out, &approval.time);
    }
}

/// What is left of a table.
struct Get<'a> {
    rest: &'a [u8],
}

type Got<T> = Result<T, TableError>;

impl<'a> Get<'a> {
    fn bytes(&mut self, len: usize) -> Got<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(TableError::Damaged)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Got<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(TableError::Damaged)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn number(&mut self) -> Got<u64> {
        let mut number = 0_u64;
        for shift in (0..63).step_by(7) {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(TableError::Damaged)
    }

    fn small(&mut self) -> Got<u32> {
        self.number()?.try_into().map_err(|_| TableError::Damaged)
    }

    fn len(&mut self) -> Got<usize> {
        self.number()?.try_into().map_err(|_| TableError::Damaged)
    }

    /// Room to make for `count` things, each of which takes more than a byte.
    fn fitting(&self, count: usize) -> usize {
        count.min(self.rest.len() / SHORTEST_VERSION)
    }

    fn text(&mut self) -> Got<&'a str> {
        let len = self.len()?;
        str::from_utf8(self.bytes(len)?).map_err(|_| TableError::Damaged)
    }

    fn owned(&mut self) -> Got<String> {
        self.text().map(str::to_owned)
    }

    fn time(&mut self) -> Got<Time> {
        Ok(Time::from_unix(i64::from_le_bytes(self.array()?)))
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Got<T>) -> Got<Option<T>> {
        match self.array()? {
            [0] => Ok(None),
            [1] => read(self).map(Some),
            _ => Err(TableError::Damaged),
        }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Got<T>) -> Got<Vec<T>> {
        let count = self.len()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }

    fn version(&mut self, text: &Arc<Bytes>) -> Got<IndexVersion> {
        let version = self.owned()?;
        let build = self.small()?;
        let digest = Digest::from_bytes(Algorithm::Sha256, &self.array::<32>()?);
        let start = self.small()?;
        let end = start
            .checked_add(self.small()?)
            .ok_or(TableError::Damaged)?;
        if end as usize > text.len() {
            return Err(TableError::Damaged);
        }
        Ok(IndexVersion {
            version,
            build,
            digest,
            signatures: self.list(|get| {
                Ok(VersionSignature {
                    keyid: get.owned()?,
                    sig: get.owned()?,
                })
            })?,
            withdrawn: self.option(|get| {
                Ok(Withdrawn {
                    since: get.time()?,
                    reason: get.owned()?,
                    replacement: get.option(Get::owned)?,
                    lifted: get.option(Get::time)?,
                })
            })?,
            approvals: self.list(|get| {
                Ok(Approval {
                    keyid: get.owned()?,
                    sig: get.owned()?,
                    time: get.time()?,
                })
            })?,
            provides: Arc::default(),
            spec: LazySpec::part(Part {
                text: Arc::clone(text),
                start,
                end,
            }),
        })
    }
}

/// A version takes no fewer bytes of a table: its digest and eight short ones.
const SHORTEST_VERSION: usize = 40;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &[u8] = include_bytes!("../../tests/data/index.yaml");

    fn made() -> (Index, Vec<u8>) {
        let index = Index::read(TEXT).unwrap();
        let table = index.table().unwrap();
        (index, table)
    }

    #[test]
    fn an_index_comes_back_from_its_table() {
        let (index, table) = made();
        let kept = Digest::sha256(&table);
        let again = Index::with_table(Bytes::from_static(TEXT), &table, &kept).unwrap();
        assert_eq!(again, index);
        for (name, package) in &again.packages {
            for (version, read) in package.versions.iter().zip(&index.packages[name].versions) {
                assert_eq!(version.spec(), read.spec());
                assert_eq!(version.spec().digest(), version.digest);
            }
        }
        assert_eq!(again.table().unwrap(), table);
    }

    #[test]
    fn a_table_without_its_kept_digest_is_not_used() {
        let (_, mut table) = made();
        let kept = Digest::sha256(&table);
        table[100] ^= 1;
        let read = Index::with_table(Bytes::from_static(TEXT), &table, &kept);
        assert_eq!(read.unwrap_err(), TableError::Digest);
    }

    #[test]
    fn a_table_of_another_text_or_form_is_refused() {
        let (_, table) = made();
        let short = Bytes::from_static(&TEXT[1..]);
        assert_eq!(decode(short, &table).unwrap_err(), TableError::Text);
        let text = Bytes::from_static(TEXT);
        let old = [b"kubepkg index table 0\n", &table[MAGIC.len()..]].concat();
        assert_eq!(decode(text, &old).unwrap_err(), TableError::Version);
    }

    #[test]
    fn only_what_the_index_itself_says_has_a_table() {
        let (mut index, _) = made();
        index.left_out.push(LeftOut {
            package: "a".to_owned(),
            version: "1.0.0".to_owned(),
            build: 0,
            why: LeftOutWhy::Approvals { have: 0, need: 1 },
        });
        assert_eq!(index.table(), None);
        let marked = [b"---\n", TEXT].concat();
        assert_eq!(Index::read(&marked).unwrap().table(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_an_error_or_in_places_within_the_text(
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in any::<prop::sample::Index>(),
            cuts in any::<bool>(),
        ) {
            let (_, mut table) = made();
            for (at, byte) in edits {
                let at = MAGIC.len() + at.index(table.len() - MAGIC.len());
                table[at] = byte;
            }
            if cuts {
                table.truncate(cut.index(table.len()));
            }
            if let Ok(index) = decode(Bytes::from_static(TEXT), &table) {
                let versions = index.packages.values().flat_map(|package| &package.versions);
                for version in versions {
                    // Whatever stands there, asking for it is harmless.
                    let _ = version.spec();
                    let _ = version.may_mention("a");
                }
            }
        }
    }
}
