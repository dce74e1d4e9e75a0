//! `commits/`: one file for each commit, numbered without gaps. A record that is there is a
//! commit; everything else follows from it.
//!
//! Records of pushes that nothing needs any more are removed ([`trim`]). What is left then is
//! the records of imports, and without gaps the newest ones, [`KEPT`] at least.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::Path;

use kubepkg_core::store::{Cause, Record, StoreError};

use super::disk::failed;
use super::generation::{self, Generation};
use super::layout::Layout;
use super::sealed::{self, damaged};
use super::{disk, work};

/// Newest records that are never removed: a server that looks less often than every so many
/// commits reads all names again instead of following the records.
pub(super) const KEPT: u64 = 1000;

/// The record of this number, `None` when there is none.
pub(super) fn read(layout: &Layout, number: u64) -> Result<Option<Record>, StoreError> {
    let path = layout.record(number);
    let record: Option<Record> = sealed::read(&path)?;
    match record {
        Some(record) if record.number != number => Err(damaged(
            &path,
            format!("it is the record of commit {}", record.number),
        )),
        record => Ok(record),
    }
}

/// How much of a record is read at once to find where its changes begin.
const PIECE: u64 = 16 * 1024;

/// What comes before the changes of a record. Within a text it would have backslashes.
const CHANGES: &[u8] = br#","changes":["#;

/// The record of this number without its changes, which of an import may take many megabytes:
/// for who wants to know why commits were made. They come last, and are not read; so the seal
/// below them is not looked at, and nothing that has to be right may rest on this.
pub(super) fn without_changes(layout: &Layout, number: u64) -> Result<Option<Record>, StoreError> {
    let path = layout.record(number);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed("open", &path)(e)),
    };
    let mut head = Vec::new();
    loop {
        let before = head.len();
        let mut piece = (&mut file).take(PIECE);
        piece
            .read_to_end(&mut head)
            .map_err(failed("read", &path))?;
        if head.len() == before {
            // they stand elsewhere, or it is cut
            return read(layout, number);
        }
        let from = before.saturating_sub(CHANGES.len());
        let mut places = head[from..].windows(CHANGES.len());
        if let Some(at) = places.position(|place| place == CHANGES) {
            head.truncate(from + at + CHANGES.len());
            break;
        }
    }
    head.extend_from_slice(b"]}");
    match serde_json::from_slice::<Record>(&head) {
        Ok(record) if record.number == number => Ok(Some(record)),
        _ => read(layout, number),
    }
}

/// The record of this number, which must be there.
pub(super) fn require(layout: &Layout, number: u64) -> Result<Record, StoreError> {
    read(layout, number)?.ok_or_else(|| {
        let why = "it is missing, and later commits are there";
        damaged(&layout.record(number), why)
    })
}

/// The numbers of the records that names, sites and trust may not be brought up to yet.
pub(super) fn pending(
    layout: &Layout,
    generation: &Generation,
) -> Result<RangeInclusive<u64>, StoreError> {
    let Some(applied) = generation.read()? else {
        return without_gap(layout, &numbers(layout)?);
    };
    let mut newest = applied;
    while disk::length(&layout.record(newest + 1))?.is_some() {
        newest += 1;
    }
    // a counter that was not lost has its record, one of the newest, beside it
    let lost = applied > 0 && disk::length(&layout.record(applied))?.is_none();
    if lost || !generation.was_compared() {
        let numbers = numbers(layout)?;
        let last = numbers.last().copied().unwrap_or(0);
        // what others committed since begins where this ends
        if last > newest && !numbers.contains(&(newest + 1)) {
            tracing::warn!(
                counted = applied,
                last,
                "the number of the newest commit is older than records that were removed"
            );
            return without_gap(layout, &numbers);
        }
        newest = newest.max(last);
        generation.compared();
    }
    Ok(applied + 1..=newest)
}

/// What may have to be done again where the counter does not help: all records up to the
/// newest, from where they have no gap.
fn without_gap(
    layout: &Layout,
    numbers: &BTreeSet<u64>,
) -> Result<RangeInclusive<u64>, StoreError> {
    let newest = numbers.last().copied().unwrap_or(0);
    let first = unbroken(numbers);
    // what is removed is older than that
    if first > 1 && newest - first + 1 < KEPT && numbers.first() != Some(&first) {
        require(layout, first - 1)?;
    }
    Ok(first..=newest)
}

/// The first of the numbers from which on there is no gap.
pub(super) fn unbroken(numbers: &BTreeSet<u64>) -> u64 {
    let mut first = numbers.last().copied().unwrap_or(1);
    for number in numbers.iter().rev().skip(1) {
        if number + 1 != first {
            break;
        }
        first = *number;
    }
    first
}

/// Removes records that neither going back to one of the newest `keep_imports` imports needs
/// nor who follows the newest commits; of imports, and of trust that was reset, none. Answers
/// how many it removed.
///
/// Needs no lock: these records are older than anything that is done again. It removes from the
/// oldest on, so what is older than a gap was looked at before. The counter is made durable
/// first: one that falls back behind the gap would say that nothing comes after it.
pub(super) fn trim(
    layout: &Layout,
    generation: &Generation,
    keep_imports: usize,
) -> Result<u64, StoreError> {
    let Some(applied) = generation.read()? else {
        return Ok(0);
    };
    let numbers = numbers(layout)?;
    let first = unbroken(&numbers);
    let mut end = (applied + 1).saturating_sub(KEPT);
    let (mut imports, mut causes) = (0, Vec::new());
    for number in numbers.range(first..).rev() {
        let record = match read(layout, *number) {
            Ok(Some(record)) => record,
            Ok(None) => continue,
            // it is told by who checks the store, and stays for whoever can make sense of it
            Err(StoreError::Damaged { .. }) => {
                causes.push((*number, true));
                continue;
            }
            Err(error) => return Err(error),
        };
        let import = matches!(record.cause, Cause::Import(_));
        if import && imports < keep_imports {
            imports += 1;
            end = end.min(*number);
        }
        let kept = import || matches!(record.cause, Cause::TrustReset { .. });
        causes.push((*number, kept));
    }
    let old = causes.iter().rev().take_while(|(number, _)| *number < end);
    let old: Vec<u64> = old.filter(|(_, kept)| !kept).map(|(n, _)| *n).collect();
    if old.is_empty() {
        return Ok(0);
    }
    generation.sync()?;
    if generation.read()? < Some(applied) {
        return Ok(0); // somebody put an old one back: the next commit brings it up
    }
    let mut removed = 0;
    for number in old {
        let path = layout.record(number);
        work::ignore_missing(std::fs::remove_file(&path)).map_err(failed("remove", &path))?;
        removed += 1;
    }
    Ok(removed)
}

/// Commit records from the newest to the oldest that is there. See
/// [`super::FileStore::records_back`].
#[derive(Debug)]
pub struct RecordsBack {
    layout: Layout,
    numbers: BTreeSet<u64>,
}

impl RecordsBack {
    pub(super) fn new(layout: &Layout) -> Result<RecordsBack, StoreError> {
        Ok(RecordsBack {
            layout: layout.clone(),
            numbers: numbers(layout)?,
        })
    }
}

impl Iterator for RecordsBack {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(number) = self.numbers.pop_last() {
            match read(&self.layout, number) {
                Ok(None) => {} // removed meanwhile
                Ok(Some(record)) => return Some(Ok(record)),
                Err(e) => return Some(Err(e)),
            }
        }
        None
    }
}

/// The numbers of all records.
pub(super) fn numbers(layout: &Layout) -> Result<BTreeSet<u64>, StoreError> {
    let paths = work::entries(&layout.commits())?;
    Ok(paths.iter().filter_map(|path| number(path)).collect())
}

/// The number of a record, by its file.
pub(super) fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let number = name.strip_suffix(".json")?.parse().ok()?;
    (number < generation::MOST).then_some(number)
}

#[cfg(test)]
mod tests {
    use kubepkg_core::Digest;
    use kubepkg_core::store::{Change, Receipt, Recorded};
    use kubepkg_core::time::Time;

    use super::*;

    #[test]
    fn why_a_commit_was_made_is_read_without_what_it_changed() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path().to_owned());
        std::fs::create_dir(layout.commits()).unwrap();
        let change = Recorded {
            change: Change::Blob {
                repository: "a.example/web".parse().unwrap(),
                digest: Digest::sha256(b"x"),
                new: Some(1),
            },
            old: serde_json::Value::Null,
        };
        // shorter than a piece, longer, and with the mark across the end of one
        for warning in [0, 16_000, 16_100, 16_200, 16_300, 16_384, 100_000] {
            let receipt = Receipt {
                // what looks like the mark is a text
                warnings: vec![r#","changes":["#.to_owned(), "w".repeat(warning)],
                ..Receipt::default()
            };
            let record = Record {
                number: 7,
                at: Time::from_unix(1_796_000_000),
                cause: Cause::Import(Box::new(receipt)),
                changes: vec![change.clone(), change.clone()],
            };
            let path = layout.record(7);
            let bytes = sealed::encode(&path, &record).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            let read_back = without_changes(&layout, 7).unwrap().unwrap();
            assert_eq!(read_back.changes, []);
            assert_eq!((read_back.at, read_back.cause), (record.at, record.cause));
            // a cut beginning is damage, as for everybody
            std::fs::write(&path, &bytes[..40]).unwrap();
            assert!(without_changes(&layout, 7).is_err());
        }
        assert!(without_changes(&layout, 8).unwrap().is_none());
    }
}
