//! The store's own files: names, sites, trust, records and the counter. Unlike who opens a
//! store, this goes on after a file that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use kubepkg_core::store::{Names, Record, StoreError, Unit};

use super::super::generation::Generation;
use super::super::layout::Layout;
use super::super::part::{self, Part};
use super::super::{records, sealed, work};
use super::walk::{foreign, owner, strange};
use super::{Fault, Finding, below};
use crate::wanted::WantedTable;

const REBUILD: &str =
    "run `kubepkg mirror check --repair`: it is made anew from the commit records";

/// What the own files say.
pub(super) struct Own {
    pub(super) names: Names,
    pub(super) sequence: u64,
    pub(super) findings: Vec<Finding>,
}

/// Reads all of them. The counter comes first, then the files, then the records: so a commit
/// that is made meanwhile is seen in the records at least, and no file is younger than them.
pub(super) fn read(layout: &Layout, generation: &Generation) -> Result<Own, StoreError> {
    let mut findings = Vec::new();
    let counted = generation.read()?;
    if counted.is_none() {
        findings.push(Finding::of(
            Fault::Damaged,
            below(layout, &layout.generation()),
            "it says no number",
            "run `kubepkg mirror check --repair`, or any command that writes to the store",
        ));
    }
    let mut part = Part::default();
    let mut broken = Vec::new();
    files(layout, &mut part, &mut broken, &mut findings)?;
    let read = read_records(layout, counted, &mut findings)?;

    for (path, why) in broken {
        let unit = read
            .newest
            .keys()
            .find(|unit| part::path(layout, unit) == path);
        let mut finding = Finding::of(Fault::Damaged, below(layout, &path), why, REBUILD);
        finding.unit = unit.cloned();
        if unit.is_none() {
            "restore it from a backup of the store".clone_into(&mut finding.advice);
        }
        findings.push(finding);
    }
    let newest = read.sequence;
    for (unit, applied) in part.applied() {
        let recorded = read.newest.get(unit).copied().unwrap_or_default();
        let counted = counted.unwrap_or_default();
        let detail = if *applied < recorded && recorded <= counted {
            format!("it is as of commit {applied}, and commit {recorded} changed it")
        } else if *applied > newest {
            format!("it is as of commit {applied}, and the newest record is {newest}")
        } else {
            continue;
        };
        let path = below(layout, &part::path(layout, unit));
        let advice = "the store was restored from parts of different age, or copied while it \
                      changed (`kubepkg mirror backup` does not do that); run `kubepkg mirror \
                      check --repair`";
        let mut finding = Finding::of(Fault::Stale, path, detail, advice);
        finding.unit = Some(unit.clone());
        findings.push(finding);
    }
    for record in &read.pending {
        part.redo(record);
    }
    // a log that ends within a line which no record makes up for
    if let Err(StoreError::Damaged { path, why }) = part.check_ends(layout) {
        let log = |unit: &&Unit| matches!(unit, Unit::Repository(n) if layout.log(n) == path);
        let unit = part.applied().keys().find(log).cloned();
        let told = |finding: &Finding| finding.unit.is_some() && finding.unit == unit;
        if !findings.iter().any(told) {
            let mut finding = Finding::of(Fault::Damaged, below(layout, &path), why, REBUILD);
            finding.unit = unit;
            findings.push(finding);
        }
    }
    let mut names = part.names;
    names.sequence = newest;
    for record in &read.pending {
        // also units that had no file so far
        names.apply_record(record);
    }
    findings.extend(wanted(layout));
    Ok(Own {
        names,
        sequence: newest,
        findings,
    })
}

/// Reads names, sites and trust; what cannot be read goes to `broken`.
fn files(
    layout: &Layout,
    part: &mut Part,
    broken: &mut Vec<(std::path::PathBuf, String)>,
    findings: &mut Vec<Finding>,
) -> Result<(), StoreError> {
    let owner = owner(layout)?;
    let mut take = |path: &Path, findings: &mut Vec<Finding>| {
        match part.add(layout, path, None) {
            Ok(()) => {}
            Err(StoreError::Damaged { path: log, why }) if log != path => {
                broken.push((path.to_owned(), format!("in the log beside it, {why}")));
            }
            Err(StoreError::Damaged { why, .. }) => broken.push((path.to_owned(), why)),
            Err(StoreError::Io { source, .. }) => {
                broken.push((path.to_owned(), source.to_string()))
            }
            Err(other) => broken.push((path.to_owned(), other.to_string())),
        }
        if let Ok(metadata) = fs::symlink_metadata(path) {
            findings.extend(foreign(layout, path, &metadata, owner));
        }
    };
    for folder in work::entries(&layout.names())? {
        if !folder.is_dir() {
            findings.extend(strange(layout, &folder));
            continue;
        }
        for file in work::entries(&folder)? {
            match part::is_ours(&file) {
                true => take(&file, findings),
                // read with the file it belongs to
                false if part::is_log(&file) => {}
                false => findings.extend(strange(layout, &file)),
            }
        }
    }
    for file in work::entries(&layout.trust())? {
        match part::is_ours(&file) {
            true => take(&file, findings),
            false => findings.extend(strange(layout, &file)),
        }
    }
    for folder in work::entries(&layout.sites())? {
        if !folder.is_dir() {
            findings.extend(strange(layout, &folder));
            continue;
        }
        for path in work::entries(&folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name == "current.json" {
                take(&path, findings);
            } else if name.parse::<u64>().is_err() || !path.is_dir() {
                findings.extend(strange(layout, &path));
            }
        }
    }
    Ok(())
}

/// What the records say.
struct Read {
    sequence: u64,
    /// The newest commit that changed each unit.
    newest: BTreeMap<Unit, u64>,
    /// Records that the files may not be brought up to.
    pending: Vec<Record>,
}

fn read_records(
    layout: &Layout,
    counted: Option<u64>,
    findings: &mut Vec<Finding>,
) -> Result<Read, StoreError> {
    const RESTORE: &str = "restore it from a backup of the store; names do not need it any more, \
                           receipts and rolling back do";
    let mut read = Read {
        sequence: counted.unwrap_or_default(),
        newest: BTreeMap::new(),
        pending: Vec::new(),
    };
    for path in work::entries(&layout.commits())? {
        if records::number(&path).is_none() {
            findings.extend(strange(layout, &path));
        }
    }
    let numbers = records::numbers(layout)?;
    let last = numbers.last().copied().unwrap_or_default();
    // below the newest without a gap, what nothing needs was removed
    let first = first_needed(&numbers);
    if let Some(counted) = counted.filter(|counted| counted + 1 < first) {
        let path = below(layout, &layout.generation());
        let detail = format!("it says {counted}, and records from there to {first} are removed");
        let advice = "the store was copied while it changed, or an old file was put back; run \
                      `kubepkg mirror check --repair`, or any command that writes to the store";
        findings.push(Finding::of(Fault::Stale, path, detail, advice));
    }
    let older = numbers.range(..first).copied();
    for number in older.chain(first..=last.max(read.sequence)) {
        match records::read(layout, number) {
            Ok(Some(record)) => {
                for recorded in &record.changes {
                    read.newest.insert(recorded.change.unit(), number);
                }
                read.sequence = read.sequence.max(number);
                if counted.is_none_or(|counted| number > counted) {
                    read.pending.push(record);
                }
            }
            Ok(None) => {
                let path = below(layout, &layout.record(number));
                let detail = "there are records before and after it, or the counter says so";
                findings.push(Finding::of(Fault::Missing, path, detail, RESTORE));
            }
            Err(error) => {
                let detail = match error {
                    StoreError::Damaged { why, .. } => why,
                    StoreError::Io { source, .. } => source.to_string(),
                    other => other.to_string(),
                };
                let path = below(layout, &layout.record(number));
                findings.push(Finding::of(Fault::Damaged, path, detail, RESTORE));
            }
        }
    }
    Ok(read)
}

/// The number from which on each record must be there: [`records::trim`] leaves the newest
/// [`records::KEPT`], so a gap among those is damage.
fn first_needed(numbers: &BTreeSet<u64>) -> u64 {
    let last = numbers.last().copied().unwrap_or_default();
    let kept = (last + 1).saturating_sub(records::KEPT).max(1);
    let unbroken = records::unbroken(numbers);
    if unbroken <= kept {
        return unbroken;
    }
    // what lies below the newest that are always kept goes from the oldest on
    let below = numbers.range(..=kept).copied().collect();
    match numbers.contains(&kept) {
        true => records::unbroken(&below),
        false => kept,
    }
}

/// The list of misses is a help only, but a seal that does not fit tells of the disk.
fn wanted(layout: &Layout) -> Option<Finding> {
    let path = layout.wanted();
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == 0) {
        return None;
    }
    match sealed::read::<WantedTable>(&path) {
        Ok(_) => None,
        Err(error) => {
            let advice = "remove it, or leave it: the list of what is wanted is begun anew";
            let path = below(layout, &path);
            Some(Finding::of(Fault::Damaged, path, error.to_string(), advice))
        }
    }
}
