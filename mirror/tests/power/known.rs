//! What is known of a store two processes work on and are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Cause, Change, Names, Record, Store};
use kubepkg_mirror::source::Standing;
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::check::{
    check_content, check_named, check_only_named, check_rubbish, check_sets, files, said,
};
use crate::collecting::{GRACE, all_content, collect, serve};
use crate::oracle::names_in;
use crate::steps::Step;
use crate::support::now;
use crate::worker::Answer;

/// Collections until something nobody names may be gone: one condemns, the next one removes.
const COLLECTIONS: usize = 2;

/// What is known of one store.
#[derive(Default)]
pub struct Known {
    /// Up to here records were compared.
    names: Names,
    /// Commits that were acknowledged, by number.
    done: BTreeMap<u64, Vec<Change>>,
    /// Commits that were under way when their process was killed.
    in_doubt: Vec<Vec<Change>>,
    /// Content that was acknowledged, and how many collections may have seen it since.
    published: BTreeMap<Digest, usize>,
    /// The same of names.
    named: BTreeMap<(RepositoryName, Digest), usize>,
    /// Collections that were begun since the last check.
    collections: usize,
    /// Names that steps since then take away.
    taken: BTreeSet<(RepositoryName, Digest)>,
    /// Whether a collection was to take manifests nobody tagged.
    untagged: bool,
}

impl Known {
    /// A process is told to do this.
    pub fn told(&mut self, step: &Step) {
        self.taken.extend(names_in(&step.changes(), false));
        if let Step::Collect { untagged } = step {
            self.collections += 1;
            self.untagged |= untagged;
        }
    }

    /// It says this.
    pub fn answered(&mut self, step: &Step, answer: &Answer) -> Result<(), String> {
        let changes = step.changes();
        match answer {
            Answer::Done(number) => {
                let confirmed = step.confirmed().into_iter();
                self.published.extend(confirmed.map(|digest| (digest, 0)));
                let given = names_in(&changes, true).into_iter();
                self.named.extend(given.map(|name| (name, 0)));
                let unique = changes.is_empty() || self.done.insert(*number, changes).is_none();
                unique
                    .then_some(())
                    .ok_or(format!("commit {number} was made twice"))
            }
            Answer::Died => {
                self.in_doubt
                    .extend((!changes.is_empty()).then_some(changes));
                Ok(())
            }
            // a tag for a manifest that the other one took away
            Answer::Failed(why) if matches!(step, Step::Tag { .. }) && why.contains("Missing") => {
                Ok(())
            }
            Answer::Failed(why) => Err(format!("{step}: {why}")),
        }
    }

    /// Compares the store with what is known; nobody works on it now.
    pub fn check(&mut self, root: &Path, living: usize) -> Result<(), String> {
        let store = FileStore::open(root, OpenMode::OpenOrCreate).map_err(said("opening"))?;
        let newest = now(store.sequence()).map_err(said("sequence"))?;
        if let Some((lost, _)) = self.done.range(newest + 1..).next() {
            return Err(format!(
                "commit {lost} was acknowledged, {newest} is the newest"
            ));
        }
        for number in self.names.sequence + 1..=newest {
            let record = now(store.record(number)).map_err(said("record"))?;
            self.follow(record.ok_or_else(|| format!("record {number} is missing"))?)?;
        }
        // whoever was killed does not come back
        self.in_doubt.clear();
        let names = now(store.names()).map_err(said("names"))?;
        if *names != self.names {
            return Err(format!(
                "the names are not those of the records up to {newest}"
            ));
        }
        self.forget();
        self.check_kept(&store)?;
        check_named(&store, &names, &BTreeSet::new())?;
        check_sets(&store)?;
        check_content(root, &BTreeSet::new())?;
        if let Some(aside) = files(&root.join("quarantine")).first() {
            return Err(format!("{aside} was set aside, and nothing is damaged"));
        }
        check_rubbish(root, living + 1)
    }

    /// Who made a record, and whether it says what was to be done.
    fn follow(&mut self, record: Record) -> Result<(), String> {
        let number = record.number;
        let changes = record.changes.into_iter().map(|recorded| recorded.change);
        let changes: Vec<Change> = changes.collect();
        if record.cause == Cause::Collect {
            self.check_taken(&changes)
                .map_err(|why| format!("the collection's commit {number} {why}"))?;
        } else if let Some(acknowledged) = self.done.remove(&number) {
            if acknowledged != changes {
                return Err(format!("commit {number} is not what was acknowledged"));
            }
        } else if let Some(at) = self.in_doubt.iter().position(|doubt| *doubt == changes) {
            self.in_doubt.remove(at);
        } else {
            return Err(format!("nobody made commit {number}: {changes:?}"));
        }
        self.names.sequence = number;
        for change in &changes {
            self.names.apply(change, number);
        }
        Ok(())
    }

    /// A collection takes names of manifests no tag stands for, and of blobs. (That no manifest
    /// is left that needs them is checked of all names.)
    fn check_taken(&self, changes: &[Change]) -> Result<(), String> {
        for change in changes {
            match change {
                Change::Blob { new: None, .. } => {}
                Change::Manifest {
                    repository,
                    digest,
                    new: None,
                } if self.untagged => {
                    let repository = self.names.repositories.get(repository);
                    let mut tags = repository.into_iter().flat_map(|found| &found.tags);
                    if let Some((tag, _)) = tags.find(|(_, entry)| entry.digest == *digest) {
                        return Err(format!("takes what the tag {tag} stands for"));
                    }
                }
                other => return Err(format!("has {other:?}")),
            }
        }
        Ok(())
    }

    /// What was acknowledged and nobody names may go with collections, names with steps.
    fn forget(&mut self) {
        let seen = std::mem::take(&mut self.collections);
        let live = |seen_before: &mut usize| {
            *seen_before += seen;
            *seen_before < COLLECTIONS
        };
        let taken = std::mem::take(&mut self.taken);
        self.published.retain(|_, seen_before| live(seen_before));
        self.named
            .retain(|name, seen_before| live(seen_before) && !taken.contains(name));
    }

    fn check_kept(&self, store: &FileStore) -> Result<(), String> {
        for digest in self.published.keys() {
            let size = store.blob_size(digest).map_err(said("content"))?;
            size.ok_or_else(|| format!("{digest} was acknowledged and is missing"))?;
        }
        for (name, digest) in self.named.keys() {
            let repository = self.names.repositories.get(name);
            if !repository.is_some_and(|repository| repository.content().contains(digest)) {
                return Err(format!("{name} was told to have {digest} and has not"));
            }
        }
        Ok(())
    }
}

/// Everybody has gone: what nothing needs goes with them.
pub fn check_no_rubbish_stays(root: &Path) -> Result<(), String> {
    let store = FileStore::open(root, OpenMode::OpenOrCreate).map_err(said("opening"))?;
    now(store.expire_uploads(std::time::Duration::ZERO)).map_err(said("expiring"))?;
    for time in 1..=3 {
        serve(root, time * 1_000_000_000);
        collect(&store, true, GRACE).map_err(said("collecting"))?;
    }
    let names = now(store.names()).map_err(said("names"))?;
    check_named(&store, &names, &BTreeSet::new())?;
    check_only_named(root, &names)?;
    for (folder, sets) in sets(root) {
        let current = names.sites.get(&folder).map(|entry| entry.set.to_string());
        if sets.iter().any(|set| Some(set) != current.as_ref()) {
            return Err(format!("{folder} has the sets {sets:?}, not {current:?}"));
        }
    }
    for folder in ["uploads", "quarantine", "leases"] {
        if let [first, ..] = files(&root.join(folder)).as_slice() {
            return Err(format!("{first} stays in {folder}"));
        }
    }
    let mut content = all_content(root).into_iter();
    match content.find(|digest| store.standing(digest) != Standing::Sound) {
        Some(digest) => Err(format!("{digest} is named and not sound")),
        None => check_rubbish(root, 1),
    }
}

/// The sets of repository files there are, by site.
fn sets(root: &Path) -> BTreeMap<String, Vec<String>> {
    let sites = files(&root.join("sites")).into_iter();
    let sets = sites.map(|site| {
        let mut sets = files(&root.join("sites").join(&site));
        sets.retain(|set| set.bytes().all(|digit| digit.is_ascii_digit()));
        (site, sets)
    });
    sets.collect()
}
