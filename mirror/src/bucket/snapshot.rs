//! `names/<n>.json`: everything the commits up to `n` say together. Records say the same, so
//! such an object may be missing, late or damaged, and costs only time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Garbage, Names, Repository, SiteEntry, StoreError};
use kubepkg_core::time::Time;
use serde::{Deserialize, Serialize};

use super::keys;
use super::log::KEPT_EVERY;
use super::objects::Bucket;
use super::state::{Collector, Since, State};
use super::written::Limits;
use crate::store::{decode_sealed, encode_sealed};
use crate::told::told;

/// Imports whose names stay: more than anybody keeps to go back to.
const IMPORTS: usize = 16;

/// How many stay: who has just listed them still finds the one it is about to read.
const STAY: usize = 3;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'s> {
    sequence: u64,
    repositories: Vec<(&'s RepositoryName, &'s Repository)>,
    sites: &'s BTreeMap<String, SiteEntry>,
    trust: &'s BTreeMap<String, serde_json::Value>,
    condemned: Vec<(&'s Garbage, &'s Since)>,
    removed: Vec<(&'s Digest, u64)>,
    collector: &'s Option<Collector>,
    collected: Option<Time>,
    imports: &'s [u64],
    prunes: &'s [u64],
    apart: &'s BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Read {
    sequence: u64,
    repositories: Vec<(RepositoryName, Repository)>,
    sites: BTreeMap<String, SiteEntry>,
    trust: BTreeMap<String, serde_json::Value>,
    condemned: Vec<(Garbage, Since)>,
    removed: Vec<(Digest, u64)>,
    collector: Option<Collector>,
    collected: Option<Time>,
    imports: Vec<u64>,
    prunes: Vec<u64>,
    apart: BTreeSet<String>,
}

fn encode(state: &State) -> Result<Vec<u8>, StoreError> {
    let names = &state.names;
    let written = Written {
        sequence: names.sequence,
        repositories: (names.repositories.iter())
            .map(|(name, repository)| (name, &**repository))
            .collect(),
        sites: &names.sites,
        trust: &names.trust,
        condemned: state.condemned.iter().collect(),
        removed: state.removed.iter().map(|(d, n)| (d, *n)).collect(),
        collector: &state.collector,
        collected: state.collected,
        imports: &state.imports,
        prunes: &state.prunes,
        apart: &state.apart,
    };
    let key = keys::names(names.sequence);
    encode_sealed(std::path::Path::new(&key), &written)
}

fn decode(bytes: &[u8]) -> Result<State, String> {
    let read: Read = decode_sealed(bytes)?;
    let repositories = read.repositories.into_iter();
    Ok(State {
        names: Arc::new(Names {
            sequence: read.sequence,
            repositories: repositories.map(|(n, r)| (n, Arc::new(r))).collect(),
            sites: read.sites,
            trust: read.trust,
        }),
        condemned: Arc::new(read.condemned.into_iter().collect()),
        removed: Arc::new(read.removed.into_iter().collect()),
        collector: read.collector,
        collected: read.collected,
        imports: Arc::new(read.imports),
        prunes: Arc::new(read.prunes),
        apart: Arc::new(read.apart),
    })
}

/// The newest state up to commit `most` that is kept; the empty one where none can be read.
pub(super) async fn newest(
    bucket: &Bucket,
    most: u64,
    limits: Limits,
) -> Result<State, StoreError> {
    let listed = bucket.list(keys::NAMES).await?;
    for (key, size) in listed.iter().rev() {
        let Some(number) = keys::number_of(key).filter(|number| *number <= most) else {
            continue;
        };
        if *size > limits.names {
            tracing::warn!(key, size, "this object is too large to be read");
            continue;
        }
        let Some(bytes) = bucket.get(key, limits.names).await? else {
            continue;
        };
        match bucket.blocking(move || decode(&bytes)).await? {
            Ok(state) if state.sequence() == number => return Ok(state),
            Ok(_) => tracing::warn!(key, "this object is not of the commit in its name"),
            Err(why) => tracing::warn!(key, why, "the names are read from older objects"),
        }
    }
    Ok(State::default())
}

/// Keeps a state in the background, and removes those that nobody needs any more.
pub(super) fn keep(bucket: &Bucket, state: Arc<State>, limits: Limits) {
    let inside = bucket.clone();
    bucket.spawn(async move { told_of(write(&inside, state, limits).await) });
}

/// The same, where the replica whose turn it was has not.
pub(super) fn keep_if_late(bucket: &Bucket, state: Arc<State>, limits: Limits) {
    let inside = bucket.clone();
    bucket.spawn(async move { told_of(write_if_late(&inside, state, limits).await) });
}

/// Keeps a state where none is kept of the last [`KEPT_EVERY`] commits.
pub(super) async fn write_if_late(
    bucket: &Bucket,
    state: Arc<State>,
    limits: Limits,
) -> Result<(), StoreError> {
    let kept = bucket.list(keys::NAMES).await?;
    let newest = kept
        .iter()
        .filter_map(|(key, _)| keys::number_of(key))
        .max();
    match newest.unwrap_or_default() + KEPT_EVERY <= state.sequence() {
        true => write(bucket, state, limits).await,
        false => Ok(()),
    }
}

fn told_of(kept: Result<(), StoreError>) {
    if let Err(error) = kept {
        tracing::warn!(error = %told(&error), "the names are kept another time");
    }
}

/// Keeps a state. Not one that nobody would read: who starts then reads records.
pub(super) async fn write(
    bucket: &Bucket,
    state: Arc<State>,
    limits: Limits,
) -> Result<(), StoreError> {
    let sequence = state.sequence();
    let key = keys::names(sequence);
    // collection asks what the last imports left
    let imports = state.newest_imports(IMPORTS);
    let bytes = bucket.blocking(move || encode(&state)).await??;
    if bytes.len() as u64 > limits.names {
        let size = bytes.len();
        tracing::warn!(
            key,
            size,
            "all names are too much for one object: starting takes longer"
        );
        return Ok(());
    }
    // who was faster wrote the same
    let created = bucket.create(&key, bytes.into()).await;
    created.map_err(|(_, error)| error)?;
    let listed = bucket.list(keys::NAMES).await?;
    let known = listed.into_iter().map(|(key, _)| key);
    // an old state knows nothing of the imports after it
    let ours =
        |key: &String| keys::number_of(key).is_some_and(|n| n <= sequence && !imports.contains(&n));
    let known: Vec<String> = known.filter(ours).collect();
    for old in &known[..known.len().saturating_sub(STAY)] {
        bucket.delete(old).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kubepkg_core::store::Claim;

    use super::*;

    #[test]
    fn a_state_comes_back_as_it_was() {
        let digest = Digest::sha256("x");
        let mut names = Names {
            sequence: 7,
            ..Names::default()
        };
        let mut repository = Repository::default();
        repository.blobs.insert(digest, 12);
        let name: RepositoryName = "a/b".parse().unwrap();
        names.repositories.insert(name, Arc::new(repository));
        names
            .trust
            .insert("x".to_owned(), serde_json::json!({"a": 1}));
        let garbage = Garbage {
            digest,
            claim: Claim::Manifest("a/b".parse().unwrap()),
        };
        let at = Time::from_unix(1_796_000_000);
        let state = State {
            names: Arc::new(names),
            condemned: Arc::new([(garbage, Since { number: 3, at })].into()),
            removed: Arc::new([(digest, 5)].into()),
            collector: Some(Collector {
                by: "me".to_owned(),
                until: at,
                gave_up: false,
            }),
            collected: Some(at),
            imports: Arc::new(vec![2, 6]),
            prunes: Arc::new(vec![4]),
            apart: Arc::new([keys::apart(5, "me")].into()),
        };
        let bytes = encode(&state).unwrap();
        assert_eq!(decode(&bytes).unwrap(), state);
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
