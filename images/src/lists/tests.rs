//! Lists as the tools write them, and as people damage them.

mod answers;
mod bounds;
mod hauler;
mod plain;
mod zarf;

use super::{List, ListedChart, read};
use kubepkg_core::Reference;

pub(super) const D: &str =
    "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
pub(super) const E: &str =
    "sha256:55136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8b";

/// A list that is taken.
pub(super) fn taken(text: &str) -> List {
    let list = read(text.as_bytes(), "list").unwrap_or_else(|error| panic!("{error}"));
    for image in &list.images {
        image.reference.parse::<Reference>().unwrap();
    }
    list
}

/// The images of a list that is taken, with their lines.
pub(super) fn images(list: &List) -> Vec<(&str, usize)> {
    list.images
        .iter()
        .map(|image| (image.reference.as_str(), image.line))
        .collect()
}

/// What is wrong with a list, each place as it is told.
pub(super) fn faults(text: &str) -> Vec<String> {
    let error = read(text.as_bytes(), "list").unwrap_err();
    assert!(error.faults.iter().all(|fault| !fault.advice.is_empty()));
    error.faults.iter().map(ToString::to_string).collect()
}

/// The one thing that is wrong with a list.
pub(super) fn fault(text: &str) -> String {
    let mut faults = faults(text);
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

pub(super) fn chart(
    repository: &str,
    name: &str,
    version: Option<&str>,
    line: usize,
) -> ListedChart {
    ListedChart {
        repository: repository.to_owned(),
        name: name.to_owned(),
        version: version.map(str::to_owned),
        line,
    }
}
