//! What must hold for whatever bytes a reader is given: it ends, does not panic, keeps to its
//! limits, and what it has read and written again reads the same.
//!
//! One function for each reader of what comes from outside. They are called by the fuzz
//! targets in `fuzz/fuzz_targets/` with whatever the fuzzer makes up, and by the test of this
//! crate with the seeds in `fuzz/corpus/`, damaged in simple ways.

mod content;
mod images;
mod index;
mod keys;
mod plan;
mod registry;
mod sources;
mod trust;
mod version;
mod yaml;

/// A check and the name of its target and its folder of seeds.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("constraint", version::constraint),
    ("head", content::head),
    ("images", images::images),
    ("index", index::index),
    ("installed", plan::installed),
    ("key_encrypted", keys::encrypted),
    ("key_private", keys::private),
    ("key_public", keys::public),
    ("list", images::list),
    ("lock", plan::lock),
    ("manifest", content::manifest),
    ("memory", trust::memory),
    ("record", registry::record),
    ("reference", content::reference),
    ("request", plan::request),
    ("root", trust::root),
    ("route", registry::route),
    ("signatures", index::signatures),
    ("sources", sources::sources),
    ("trust_file", trust::trust_file),
    ("version", version::version),
    ("yaml", yaml::yaml),
];

/// Runs the check called `target`.
///
/// # Panics
/// When there is none of that name, or when something that must hold does not.
pub fn check(target: &str, data: &[u8]) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, check) = found.unwrap_or_else(|| panic!("no target {target}"));
    check(data);
}
