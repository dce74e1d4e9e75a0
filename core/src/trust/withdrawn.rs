//! Versions seen withdrawn. A program that does not know of withdrawals drops them when it
//! merges an index, so what was withdrawn once stays so until its publisher takes it back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::index::{Index, Withdrawn};

/// Most versions that are remembered as withdrawn. More than any repository withdraws; beyond
/// it the longest withdrawn are forgotten.
pub const MAX_WITHDRAWN: usize = 10_000;

/// Characters of a reason, and of a replacement, that are remembered. With versions of at most
/// 256 bytes all of it stays below [`super::MAX_MEMORY`], of which it may take three quarters.
const MAX_REASON: usize = 200;

/// Bytes of all that is remembered as withdrawn, as it is kept.
const MAX_BYTES: usize = super::MAX_MEMORY / 4 * 3;

/// What was seen withdrawn: by package, then by version and build.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seen(BTreeMap<String, BTreeMap<String, Withdrawn>>);

impl Seen {
    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of versions.
    pub fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// The statement seen about a version.
    pub fn get(&self, package: &str, version: &str, build: u32) -> Option<&Withdrawn> {
        self.0.get(package)?.get(&key(version, build))
    }

    /// Takes in what `index` says.
    pub(super) fn learn(&mut self, index: &Index) {
        for (name, package) in &index.packages {
            for version in &package.versions {
                if let Some(said) = &version.withdrawn {
                    self.hear(name, key(&version.version, version.build), said);
                }
            }
        }
        self.bound();
    }

    fn hear(&mut self, package: &str, key: String, said: &Withdrawn) {
        let known = self.0.entry(package.to_owned()).or_default();
        if said.holds() {
            known.insert(key, short(said));
        } else if let (Some(seen), Some(lifted)) = (known.get(&key), said.lifted)
            && lifted > seen.since
        {
            known.remove(&key);
        }
        if known.is_empty() {
            self.0.remove(package);
        }
    }

    /// Marks in `index` what was seen withdrawn and is not said there any more.
    pub(super) fn mark(&self, index: &mut Index) {
        for (name, seen) in &self.0 {
            let Some(package) = index.packages.get_mut(name) else {
                continue;
            };
            for version in &mut package.versions {
                if let Some(seen) = seen.get(&key(&version.version, version.build))
                    && !version.withdrawn.as_ref().is_some_and(Withdrawn::holds)
                {
                    version.withdrawn = Some(seen.clone());
                }
            }
        }
    }

    fn bound(&mut self) {
        let bytes = serde_json::to_vec(&self.0).map_or(usize::MAX, |json| json.len());
        let count = self.len();
        let over = match count.saturating_sub(MAX_WITHDRAWN) {
            // the longest ones are an attack, and then half of the number is still many
            0 if bytes > MAX_BYTES => count / 2,
            over => over,
        };
        if over == 0 {
            return;
        }
        let all = self.0.iter().flat_map(|(package, versions)| {
            let at =
                |(key, seen): (&String, &Withdrawn)| (seen.since, package.clone(), key.clone());
            versions.iter().map(at)
        });
        let mut all: Vec<_> = all.collect();
        all.sort();
        for (_, package, key) in all.into_iter().take(over) {
            if let Some(versions) = self.0.get_mut(&package) {
                versions.remove(&key);
            }
        }
        self.0.retain(|_, versions| !versions.is_empty());
        if bytes > MAX_BYTES {
            self.bound();
        }
    }
}

/// A `+` in a version is part of it; a build stands behind a space.
fn key(version: &str, build: u32) -> String {
    format!("{version} {build}")
}

fn short(said: &Withdrawn) -> Withdrawn {
    let cut = |text: &str| text.chars().take(MAX_REASON).collect();
    Withdrawn {
        reason: cut(&said.reason),
        replacement: said.replacement.as_deref().map(cut),
        ..said.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PackageSourceSpec;
    use crate::index::{IndexPackage, IndexVersion};
    use crate::time::Time;

    fn at(second: i64) -> Time {
        Time::from_unix(second)
    }

    fn withdrawn(since: i64, lifted: Option<i64>) -> Withdrawn {
        Withdrawn {
            since: at(since),
            reason: "é".repeat(500),
            replacement: None,
            lifted: lifted.map(at),
        }
    }

    fn index(said: Option<Withdrawn>) -> Index {
        let mut version = IndexVersion::of(PackageSourceSpec {
            version: "1.0.0".to_owned(),
            ..PackageSourceSpec::default()
        });
        version.withdrawn = said;
        let package = IndexPackage {
            versions: vec![version],
            ..IndexPackage::default()
        };
        Index {
            packages: [("app".to_owned(), package)].into(),
            ..Index::default()
        }
    }

    fn marked(seen: &Seen, mut index: Index) -> bool {
        seen.mark(&mut index);
        let said = &index.packages["app"].versions[0].withdrawn;
        said.as_ref().is_some_and(Withdrawn::holds)
    }

    #[test]
    fn withdrawn_dropped_by_an_older_program_on_merge_stays_withdrawn() {
        let mut seen = Seen::default();
        seen.learn(&index(Some(withdrawn(10, None))));
        assert!(marked(&seen, index(None)));
        let reason = &seen.get("app", "1.0.0", 0).unwrap().reason;
        assert_eq!(reason.chars().count(), MAX_REASON);
        // forgetting is no statement
        seen.learn(&index(None));
        assert!(marked(&seen, index(None)));
        let json = serde_json::to_value(&seen).unwrap();
        assert_eq!(serde_json::from_value::<Seen>(json).unwrap(), seen);
    }

    #[test]
    fn only_a_later_statement_lifts_a_withdrawal() {
        let mut seen = Seen::default();
        seen.learn(&index(Some(withdrawn(10, None))));
        // an earlier withdrawal that was lifted before this one
        let earlier = index(Some(withdrawn(5, Some(9))));
        seen.learn(&earlier);
        assert!(marked(&seen, earlier));
        let lifted = index(Some(withdrawn(10, Some(11))));
        seen.learn(&lifted);
        assert!(seen.is_empty());
        assert!(!marked(&seen, lifted));
    }

    #[test]
    fn the_longest_withdrawn_are_forgotten_beyond_the_limit() {
        let mut seen = Seen::default();
        for n in 0..=MAX_WITHDRAWN {
            let since = i64::try_from(n).unwrap();
            seen.hear(
                "app",
                key("1.0.0", u32::try_from(n).unwrap()),
                &withdrawn(since, None),
            );
        }
        seen.bound();
        assert_eq!(seen.len(), MAX_WITHDRAWN);
        assert!(seen.get("app", "1.0.0", 0).is_none());
        assert!(seen.get("app", "1.0.0", 1).is_some());
    }
}
