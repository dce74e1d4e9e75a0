//! Is everything in a bucket as it should be? Reads the log from its beginning, lists what lies
//! there, and hashes all content once. Changes nothing and runs beside mirrors; what seems wrong is
//! looked at once more, by the names of then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kubepkg_core::progress::Progress;
use kubepkg_core::store::{Cause, Names, Repository, StoreError};
use kubepkg_core::time::Time;
use kubepkg_core::{Digest, Hasher};

use super::log::Appended;
use super::state::State;
use super::{AT_ONCE, BucketStore, TRIES, keys};
use crate::store::check::{BRING_AGAIN, CheckSettings, Checked, Fault, Finding, Pace, Sufferer};

/// Tags named of one repository at most; more do not help anybody.
const MAX_TAGS: usize = 100;

/// What to do about names that cannot be trusted.
const OLD_NAMES: &str = "remove the objects below names/ with the bucket's own tool and start the \
                         mirrors again: they read the records";

/// What to do about records.
const RECORDS: &str = "bring this object back from a version or copy of the bucket: every mirror \
                       reads it";

/// What to do about content that the server did not give in full.
const NOT_READ: &str = "look at the bucket's server, and the line to it, and run `kubepkg mirror \
                        check` again; nothing is given up that was not read in full";

impl BucketStore {
    /// Looks at everything in the bucket.
    pub async fn check(
        &self,
        settings: &CheckSettings,
        progress: &dyn Progress,
    ) -> Result<Checked, StoreError> {
        let state = self.log.read_on(Duration::ZERO).await?;
        let mut findings = Vec::new();
        findings.extend(self.replay(&state).await?);
        let listed = self.contents_listed(&state).await?;
        let promised = promised(&state.names);
        let mut checked = Checked {
            sequence: state.sequence(),
            repositories: state.names.repositories.len() as u64,
            ..Checked::default()
        };
        for repository in state.names.repositories.values() {
            checked.manifests += repository.manifests.len() as u64;
        }
        for (digest, size) in &listed {
            if !promised.contains_key(digest) {
                checked.unreferenced.add(*size);
            }
        }
        for (digest, size) in &promised {
            let found = listed.get(digest).copied();
            if found != Some(*size) {
                findings.extend(self.wrong_size(digest, *size, found).await?);
            }
        }
        findings.extend(
            self.hash_all(&state, &listed, settings, progress, &mut checked)
                .await?,
        );
        findings.sort_by(|a, b| (&a.path, a.fault).cmp(&(&b.path, b.fault)));
        findings.dedup_by(|later, kept| later.path == kept.path);
        self.who_suffers(&state, &mut findings).await?;
        checked.findings = findings;
        Ok(checked)
    }

    /// Gives up the content that was found not to be as it must: from then on it is not here, for every
    /// mirror, until it is brought again. Each is looked at once more right before, and one that
    /// cannot be read in full then is left as it is: that says nothing of the content.
    pub async fn give_up_found(&self, checked: &mut Checked) -> Result<(), StoreError> {
        for finding in &mut checked.findings {
            // mirrors that saw it take it for being there, also where it is gone
            let Some(digest) = finding.digest else {
                continue;
            };
            let mut state = self.log.read_on(Duration::ZERO).await?;
            for _ in 0..TRIES {
                let removed = state.removed(&digest);
                match self.hashed(&digest, removed, &Pace::new(None)).await? {
                    Seen::Sound | Seen::Unreadable(_) => break,
                    Seen::Gone | Seen::Other(_) => {}
                }
                let mut entry = self.log.empty(&state, Cause::Collect, Time::now())?;
                entry.removed = vec![digest];
                match self.log.append(&state, entry).await? {
                    Appended::Done(_) => {
                        let text = "given up: every mirror says that it is not here";
                        finding.repaired = Some(text.to_owned());
                        break;
                    }
                    Appended::Conflict(newer) => state = newer,
                }
            }
        }
        Ok(())
    }

    /// Reads all records, and compares what they say with what this replica knows.
    async fn replay(&self, state: &Arc<State>) -> Result<Option<Finding>, StoreError> {
        let numbers = futures_util::stream::iter(1..=state.sequence());
        let read = numbers.map(|number| async move { (number, self.log.entry(number).await) });
        let mut read = std::pin::pin!(read.buffered(AT_ONCE));
        let mut replayed = State::default();
        while let Some((number, entry)) = read.next().await {
            let (fault, why) = match entry {
                Ok(Some(entry)) => {
                    replayed = replayed.apply(&entry);
                    continue;
                }
                Ok(None) => (Fault::Missing, "later records are there".to_owned()),
                Err(StoreError::Damaged { why, .. }) => (Fault::Damaged, why),
                Err(error) => return Err(error),
            };
            let path = keys::commit(number).into();
            return Ok(Some(Finding::of(fault, path, why, RECORDS)));
        }
        if replayed == **state {
            return Ok(None);
        }
        let why = "what they say is not what the records say";
        Ok(Some(Finding::of(
            Fault::Damaged,
            keys::NAMES.into(),
            why,
            OLD_NAMES,
        )))
    }

    /// Content that counts in this state, with its size.
    async fn contents_listed(&self, state: &State) -> Result<HashMap<Digest, u64>, StoreError> {
        let mut found = HashMap::new();
        let mut listed = self.bucket.list_all(keys::BLOBS);
        while let Some(some) = listed.recv().await {
            for (key, size) in some? {
                if let Some((digest, removed)) = keys::blob_of(&key)
                    && removed == state.removed(&digest)
                {
                    found.insert(digest, size);
                }
            }
        }
        Ok(found)
    }

    /// What is promised and not there as it must be, in the newest state too.
    async fn wrong_size(
        &self,
        digest: &Digest,
        size: u64,
        found: Option<u64>,
    ) -> Result<Option<Finding>, StoreError> {
        let now = self.log.read_on(Duration::from_secs(1)).await?;
        let key = keys::blob(digest, now.removed(digest));
        if self.bucket.size(&key).await? == Some(size) || !is_named(&now.names, digest) {
            return Ok(None);
        }
        let (fault, why) = match found {
            None => (Fault::Missing, "a name promises it".to_owned()),
            Some(found) => (
                Fault::Cut,
                format!("it has {found} bytes, and names promise {size}"),
            ),
        };
        let mut finding = Finding::of(fault, key.into(), why, BRING_AGAIN);
        finding.digest = Some(*digest);
        Ok(Some(finding))
    }

    async fn hash_all(
        &self,
        state: &Arc<State>,
        listed: &HashMap<Digest, u64>,
        settings: &CheckSettings,
        progress: &dyn Progress,
        checked: &mut Checked,
    ) -> Result<Vec<Finding>, StoreError> {
        progress.begin("checking", listed.values().sum());
        let pace = Arc::new(Pace::new(settings.rate));
        let hashing = listed.iter().map(|(digest, size)| {
            let (store, digest, size) = (self.clone(), *digest, *size);
            let (removed, pace) = (state.removed(&digest), Arc::clone(&pace));
            let task = self.bucket.spawn(async move {
                let mut seen = store.hashed(&digest, removed, &pace).await?;
                if seen != Seen::Sound {
                    // a connection that was cut says nothing of the object
                    seen = store.hashed(&digest, removed, &pace).await?;
                }
                Ok::<_, StoreError>((digest, removed, size, seen))
            });
            async move {
                task.await.unwrap_or_else(|error| {
                    Err(StoreError::Io {
                        action: "read",
                        path: self.bucket.place().into(),
                        source: std::io::Error::other(error),
                    })
                })
            }
        });
        let hashing = futures_util::stream::iter(hashing);
        let mut hashing = std::pin::pin!(hashing.buffer_unordered(settings.jobs.clamp(1, 64)));
        let mut findings = Vec::new();
        while let Some(done) = hashing.next().await {
            let (digest, removed, size, seen) = done?;
            progress.advance(size);
            if seen != Seen::Gone {
                checked.content.add(size);
            }
            let (fault, why, advice) = match seen {
                Seen::Sound | Seen::Gone => continue,
                Seen::Other(why) => (Fault::Damaged, why, BRING_AGAIN),
                Seen::Unreadable(why) => (Fault::Unreadable, why, NOT_READ),
            };
            let path = keys::blob(&digest, removed).into();
            let mut finding = Finding::of(fault, path, why, advice);
            finding.digest = Some(digest);
            findings.push(finding);
        }
        progress.end();
        Ok(findings)
    }

    async fn hashed(&self, digest: &Digest, removed: u64, pace: &Pace) -> Result<Seen, StoreError> {
        let key = keys::blob(digest, removed);
        let Some((size, mut pieces)) = self.bucket.stream(&key, None).await? else {
            return Ok(Seen::Gone);
        };
        let mut hasher = Hasher::new(digest.algorithm());
        let mut read = 0;
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => {
                    hasher.update(&piece);
                    read += piece.len() as u64;
                    tokio::time::sleep(pace.book(piece.len() as u64)).await;
                }
                Err(error) => {
                    let why = format!("after {read} of its {size} bytes: {error}");
                    return Ok(Seen::Unreadable(why));
                }
            }
        }
        if read != size {
            let why = format!("the server gave {read} of its {size} bytes");
            return Ok(Seen::Unreadable(why));
        }
        match hasher.finish() {
            found if found == *digest => Ok(Seen::Sound),
            found => {
                let why = format!("its {size} bytes have the digest {found}");
                Ok(Seen::Other(why))
            }
        }
    }

    /// Fills in [`Finding::suffers`].
    async fn who_suffers(
        &self,
        state: &Arc<State>,
        findings: &mut [Finding],
    ) -> Result<(), StoreError> {
        let bad: BTreeSet<Digest> = findings.iter().filter_map(|f| f.digest).collect();
        let mut suffers: BTreeMap<Digest, Vec<Sufferer>> = BTreeMap::new();
        for (name, repository) in &state.names.repositories {
            let has = |digest: &&Digest| {
                repository.manifests.contains_key(*digest) || repository.blobs.contains_key(*digest)
            };
            let here: Vec<Digest> = bad.iter().filter(has).copied().collect();
            if here.is_empty() {
                continue;
            }
            let children = self.children.of(&self.bucket, state, repository).await?;
            let tags = tags_to(repository, &children);
            for digest in here {
                let tags = tags.get(&digest).into_iter().flatten();
                suffers.entry(digest).or_default().push(Sufferer {
                    name: name.to_string(),
                    tags: tags.take(MAX_TAGS).cloned().collect(),
                });
            }
        }
        for site in state.names.sites.values() {
            for file in site.files.values().filter(|f| bad.contains(&f.digest)) {
                suffers.entry(file.digest).or_default().push(Sufferer {
                    name: site.url.to_string(),
                    tags: Vec::new(),
                });
            }
        }
        for finding in findings {
            let digest = finding.digest.as_ref();
            finding.suffers = digest
                .and_then(|d| suffers.get(d))
                .cloned()
                .unwrap_or_default();
        }
        Ok(())
    }
}

/// What hashing content found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Sound,
    Gone,
    /// All of it was read, and has another digest.
    Other(String),
    /// It was not read in full.
    Unreadable(String),
}

/// All content that names promise, with its size.
fn promised(names: &Names) -> BTreeMap<Digest, u64> {
    let mut promised = BTreeMap::new();
    for repository in names.repositories.values() {
        let manifests = repository.manifests.iter();
        promised.extend(manifests.map(|(digest, entry)| (*digest, entry.size)));
        promised.extend(
            repository
                .blobs
                .iter()
                .map(|(digest, size)| (*digest, *size)),
        );
    }
    for site in names.sites.values() {
        promised.extend(site.files.values().map(|file| (file.digest, file.size)));
    }
    promised
}

fn is_named(names: &Names, digest: &Digest) -> bool {
    let mut repositories = names.repositories.values();
    repositories.any(|r| r.manifests.contains_key(digest) || r.blobs.contains_key(digest))
        || (names.sites.values()).any(|s| s.files.values().any(|file| file.digest == *digest))
}

/// The tags that lead to each digest.
fn tags_to(
    repository: &Repository,
    children: &HashMap<Digest, Vec<Digest>>,
) -> HashMap<Digest, BTreeSet<String>> {
    let mut found: HashMap<Digest, BTreeSet<String>> = HashMap::new();
    for (tag, entry) in &repository.tags {
        let mut open = vec![entry.digest];
        while let Some(digest) = open.pop() {
            if found.entry(digest).or_default().insert(tag.to_string()) {
                open.extend(children.get(&digest).into_iter().flatten());
            }
        }
    }
    found
}
