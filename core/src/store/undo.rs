//! Going back: what the names were before a commit, from what its record says stood there.
//!
//! Collection keeps what was reachable after each of the last imports, and a rollback asks what
//! an import found; both walk back from the newest names, record by record.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::names::{Names, Repository};
use super::record::{Change, Record, Recorded};
use crate::name::RepositoryName;

/// Why names cannot be taken back behind a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the names cannot be taken back behind commit {number}: {why}")]
pub struct CannotUndo {
    /// Number of the commit.
    pub number: u64,
    /// Why.
    pub why: String,
}

impl Names {
    /// Makes these names, as of the commit `record` is about, those of the commit before it.
    ///
    /// A repository from which nothing is left is taken away; whether there was one without
    /// content before the commit is not in the record, and makes no difference to anybody. After
    /// an error the names are of no use.
    pub fn undo_record(&mut self, record: &Record) -> Result<(), CannotUndo> {
        let refused = |why| CannotUndo {
            number: record.number,
            why,
        };
        if self.sequence != record.number || record.number == 0 {
            return Err(refused(format!(
                "the names are those after commit {}",
                self.sequence
            )));
        }
        // one name may be changed twice; the value that counts is the first one's
        for recorded in record.changes.iter().rev() {
            self.put_back(recorded).map_err(refused)?;
        }
        self.sequence = record.number - 1;
        Ok(())
    }

    fn put_back(&mut self, recorded: &Recorded) -> Result<(), String> {
        let old = &recorded.old;
        match &recorded.change {
            Change::Manifest {
                repository, digest, ..
            } => {
                let old = value(old)?;
                self.in_repository(repository, |repository| {
                    match old {
                        Some(entry) => repository.manifests.insert(*digest, entry),
                        None => repository.manifests.remove(digest),
                    };
                });
            }
            Change::Blob {
                repository, digest, ..
            } => {
                let old = value(old)?;
                self.in_repository(repository, |repository| {
                    match old {
                        Some(size) => repository.blobs.insert(*digest, size),
                        None => repository.blobs.remove(digest),
                    };
                });
            }
            Change::Tag {
                repository, tag, ..
            } => {
                let old = value(old)?;
                self.in_repository(repository, |repository| {
                    match old {
                        Some(entry) => repository.tags.insert(tag.clone(), entry),
                        None => repository.tags.remove(tag),
                    };
                });
            }
            Change::Upstream { repository, .. } => {
                let old = value(old)?;
                self.in_repository(repository, |repository| {
                    repository.upstream = old;
                });
            }
            // an entry says itself which set it is
            Change::Site { folder, .. } => match value(old)? {
                Some(entry) => {
                    self.sites.insert(folder.clone(), entry);
                }
                None => {
                    self.sites.remove(folder);
                }
            },
            Change::Trust { entry, .. } => match value(old)? {
                Some(memory) => {
                    self.trust.insert(entry.clone(), memory);
                }
                None => {
                    self.trust.remove(entry);
                }
            },
        }
        Ok(())
    }

    fn in_repository(&mut self, name: &RepositoryName, change: impl FnOnce(&mut Repository)) {
        let repository = self.repositories.get_or_default(name);
        change(Arc::make_mut(repository));
        if **repository == Repository::default() {
            self.repositories.remove(name);
        }
    }
}

/// A value as it was recorded.
fn value<T: DeserializeOwned>(old: &serde_json::Value) -> Result<Option<T>, String> {
    Option::<T>::deserialize(old).map_err(|e| format!("what stood there is not readable: {e}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::digest::Digest;
    use crate::location::CanonicalUrl;
    use crate::store::{Cause, ManifestEntry, Origin, SiteEntry, SiteFile, TagEntry};
    use crate::time::Time;

    /// A change among few names, so that changes meet.
    fn change() -> impl Strategy<Value = Change> {
        (0..6u8, 0..3u8, 0..3u64, any::<bool>(), any::<bool>()).prop_map(
            |(what, name, n, there, rare)| {
                let repository: RepositoryName = format!("r{name}").parse().unwrap();
                let digest = Digest::sha256(n.to_string());
                match what {
                    0 => Change::Manifest {
                        repository,
                        digest,
                        new: there.then(|| ManifestEntry {
                            media_type: "application/x".into(),
                            size: n,
                            subject: rare.then(|| Box::new(digest)),
                            artifact_type: rare.then(|| "application/y".into()),
                            annotations: [("a".to_owned(), "b".to_owned())].into(),
                        }),
                    },
                    1 => Change::Blob {
                        repository,
                        digest,
                        new: there.then_some(n),
                    },
                    2 => Change::Tag {
                        repository,
                        tag: format!("t{name}").parse().unwrap(),
                        new: there.then(|| TagEntry {
                            digest,
                            origin: rare.then(|| {
                                Box::new(Origin {
                                    entry: "packages".to_owned(),
                                    package: "p".to_owned(),
                                    version: "1".to_owned(),
                                    build: 0,
                                })
                            }),
                        }),
                    },
                    3 => Change::Upstream {
                        repository,
                        new: there.then(|| format!("oci://x{n}.example/a")),
                    },
                    4 => {
                        let url: CanonicalUrl =
                            format!("https://s{name}.example/i.yaml").parse().unwrap();
                        let file = SiteFile { digest, size: n };
                        Change::Site {
                            folder: url.folder(),
                            new: there.then(|| SiteEntry {
                                url,
                                set: 0,
                                files: [("i.yaml".to_owned(), file)].into(),
                            }),
                        }
                    }
                    _ => Change::Trust {
                        entry: format!("e{name}"),
                        new: there.then(|| serde_json::json!({ "n": n })),
                    },
                }
            },
        )
    }

    fn commit(names: &mut Names, changes: &[Change]) -> Record {
        let number = names.sequence + 1;
        let changes = changes.iter().map(|c| names.apply(c, number)).collect();
        names.sequence = number;
        let record = Record {
            number,
            at: Time::from_unix(0),
            cause: Cause::Push,
            changes,
        };
        let text = serde_json::to_vec(&record).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn without_empty(names: &Names) -> Names {
        let mut names = names.clone();
        names.repositories = (names.repositories.iter())
            .filter(|(_, repository)| ***repository != Repository::default())
            .map(|(name, repository)| (name.clone(), Arc::clone(repository)))
            .collect();
        names
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn what_is_done_and_undone_is_as_before(
            batches in prop::collection::vec(prop::collection::vec(change(), 0..8), 1..8),
        ) {
            let mut names = Names::default();
            let mut states = vec![names.clone()];
            let mut records = Vec::new();
            for batch in &batches {
                records.push(commit(&mut names, batch));
                states.push(names.clone());
            }
            while let (Some(record), Some(state)) = (records.pop(), states.pop()) {
                prop_assert_eq!(without_empty(&names), without_empty(&state));
                names.undo_record(&record).unwrap();
                prop_assert!(names.undo_record(&record).is_err(), "only once");
            }
            prop_assert_eq!(without_empty(&names), Names::default());
        }
    }
}
