//! Imports, from commit records: the newest with what people want to know of them, the others
//! as a number.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::store::{Cause, Receipt, ReceiptIndex, Record};
use kubepkg_core::time::Time;

/// Imports that are kept with their receipts: about as many as a page shows.
const NEWEST: usize = 20;

/// Packages, and warnings, that are kept of a receipt. A bundle may hold thousands; the record in
/// the store has them all.
const OF_A_RECEIPT: usize = 100;

/// Longest warning that is kept, in characters: it may quote what others wrote.
const WARNING: usize = 500;

/// Indexes that are remembered at most. A site has a handful.
const INDEXES: usize = 1000;

/// States of one index that are remembered: that which is served, and those an older bundle
/// names.
const STATES: usize = 4;

/// An import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Number of its commit.
    pub commit: u64,
    /// When.
    pub at: Time,
    /// What the site keeps of it; lists are cut to a bounded length.
    pub receipt: Receipt,
    /// How many packages it brought.
    pub packages: usize,
    /// How many warnings there were.
    pub warnings: usize,
}

/// All imports, up to a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imports {
    upto: u64,
    count: u64,
    newest: VecDeque<Arc<Import>>,
    indexes: BTreeMap<String, VecDeque<Arc<ReceiptIndex>>>,
}

impl Imports {
    /// The commit up to which records were looked at.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// Notes that all records up to this one were looked at.
    pub(crate) fn seen(&mut self, number: u64) {
        self.upto = number;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The newest, first the last one.
    pub fn newest(&self) -> impl Iterator<Item = &Import> {
        self.newest.iter().map(|import| &**import)
    }

    /// What was last said of an index in the state it is served in.
    pub fn index(&self, url: &str, digest: &Digest) -> Option<&ReceiptIndex> {
        let mut states = self.indexes.get(url)?.iter();
        states.find(|state| state.digest == *digest).map(|s| &**s)
    }

    /// Notes imports that were not looked at: only that they were.
    pub(crate) fn skip(&mut self, imports: u64) {
        self.count += imports;
    }

    /// Takes in a record; those before it were.
    pub(crate) fn take(&mut self, record: Record) {
        let Cause::Import(receipt) = record.cause else {
            return;
        };
        self.count += 1;
        for index in &receipt.repositories {
            if self.indexes.len() >= INDEXES && !self.indexes.contains_key(&index.url) {
                continue;
            }
            let states = self.indexes.entry(index.url.clone()).or_default();
            states.retain(|state| state.digest != index.digest);
            states.push_front(Arc::new(index.clone()));
            states.truncate(STATES);
        }
        let mut receipt = *receipt;
        let (packages, warnings) = (receipt.packages.len(), receipt.warnings.len());
        receipt.packages.truncate(OF_A_RECEIPT);
        receipt.packages.shrink_to_fit();
        receipt.warnings.truncate(OF_A_RECEIPT);
        for warning in &mut receipt.warnings {
            if let Some((end, _)) = warning.char_indices().nth(WARNING) {
                warning.truncate(end);
                warning.push('…');
            }
        }
        receipt.repositories.truncate(OF_A_RECEIPT);
        self.newest.push_front(Arc::new(Import {
            commit: record.number,
            at: record.at,
            receipt,
            packages,
            warnings,
        }));
        self.newest.truncate(NEWEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, cause: Cause) -> Record {
        Record {
            number,
            at: Time::from_unix(1_796_000_000 + number as i64),
            cause,
            changes: Vec::new(),
        }
    }

    fn import(number: u64, index: &[u8], until: i64) -> Record {
        let index = ReceiptIndex {
            entry: "e".to_owned(),
            url: "https://example.org/index.yaml".to_owned(),
            digest: Digest::sha256(index),
            generated: None,
            signed_by: vec!["key".to_owned()],
            root: None,
            acceptable_until: Some(Time::from_unix(until)),
            left_out: 0,
        };
        let receipt = Receipt {
            bundle: format!("bundle {number}"),
            repositories: vec![index],
            warnings: vec!["ä".repeat(2 * WARNING); OF_A_RECEIPT + 5],
            ..Receipt::default()
        };
        record(number, Cause::Import(Box::new(receipt)))
    }

    #[test]
    fn the_newest_imports_come_first_and_lists_are_bounded() {
        let mut imports = Imports::default();
        for number in 1..=100 {
            imports.take(record(1000 + number, Cause::Push));
            imports.take(import(number, b"x", 5));
        }
        assert_eq!(imports.count(), 100);
        let newest: Vec<u64> = imports.newest().map(|import| import.commit).collect();
        assert_eq!(newest.len(), NEWEST);
        assert_eq!(newest[..2], [100, 99]);
        let last = imports.newest().next().unwrap();
        assert_eq!(last.warnings, OF_A_RECEIPT + 5);
        assert_eq!(last.receipt.warnings.len(), OF_A_RECEIPT);
        assert_eq!(last.receipt.warnings[0].chars().count(), WARNING + 1);
    }

    #[test]
    fn an_index_is_known_by_the_state_it_is_served_in() {
        let mut imports = Imports::default();
        imports.take(import(1, b"old", 1));
        imports.take(import(2, b"new", 2));
        // an older bundle comes again, judged by a newer root
        imports.take(import(3, b"old", 3));
        let url = "https://example.org/index.yaml";
        let until = |index: &[u8]| {
            let found = imports.index(url, &Digest::sha256(index));
            found
                .and_then(|index| index.acceptable_until)
                .map(Time::unix)
        };
        assert_eq!((until(b"new"), until(b"old")), (Some(2), Some(3)));
        assert_eq!(until(b"other"), None);
        assert_eq!(
            imports.index("https://x.example/", &Digest::sha256(b"new")),
            None
        );
    }
}
