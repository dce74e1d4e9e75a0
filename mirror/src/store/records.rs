//! `commits/`: one file for each commit, numbered without gaps. A record that is there is a
//! commit; everything else follows from it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use kubepkg_core::store::{Record, StoreError};

use super::generation::{self, Generation};
use super::layout::Layout;
use super::sealed::{self, damaged};
use super::{disk, work};

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
        let numbers = numbers(layout)?;
        let first = numbers.first().copied().unwrap_or(1);
        return Ok(first..=numbers.last().copied().unwrap_or(0));
    };
    let mut newest = applied;
    while disk::length(&layout.record(newest + 1))?.is_some() {
        newest += 1;
    }
    Ok(applied + 1..=newest)
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
