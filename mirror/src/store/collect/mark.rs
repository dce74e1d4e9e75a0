//! What of the names is live, and what is garbage. Pure: manifests are read through a function.
//!
//! In each repository lives what a tag points at, what an index that lives names, what refers
//! to something that lives, and whatever the last imports left there. A manifest nobody tagged
//! lives too, for a digest in a Deployment is a name like any other; only who asks for it
//! (`--untagged`, prune) has those condemned. A tag that stands for what belongs to another
//! manifest (`sha256-<hex>`, with or without a suffix) does not keep it alive longer than that.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kubepkg_core::Digest;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Change, Claim, Garbage, Names, Repository};

/// Suffixes of tags under which signatures and the like are kept: cosign's.
const SUFFIXES: [&str; 3] = ["sig", "att", "sbom"];

/// What the last imports left, whatever happened since.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Manifests and blobs of each repository.
    pub(crate) repositories: BTreeMap<RepositoryName, KeptRepository>,
    /// Content of repository files.
    pub(crate) files: HashSet<Digest>,
    /// Sets of repository files.
    pub(crate) sets: BTreeSet<(String, u64)>,
    /// Records that cannot be read, for which more is kept than the imports need.
    pub(crate) damaged: BTreeSet<u64>,
}

/// What the last imports left in one repository.
#[derive(Debug, Default)]
pub(crate) struct KeptRepository {
    pub(crate) manifests: HashSet<Digest>,
    pub(crate) blobs: HashSet<Digest>,
}

/// All content that stays: what is reached, what repository files are made of, and what is named
/// and no `garbage`. Of repositories that were not marked everything stays.
pub(crate) fn wanted(
    kept: &Kept,
    marked: &BTreeMap<RepositoryName, Marked>,
    names: &Names,
    garbage: &BTreeSet<Garbage>,
) -> HashSet<Digest> {
    let mut wanted = kept.contents();
    for marked in marked.values() {
        wanted.extend(&marked.live);
    }
    for site in names.sites.values() {
        wanted.extend(site.files.values().map(|file| file.digest));
    }
    for (name, repository) in &names.repositories {
        let marked_at_all = marked.contains_key(name);
        let manifests = repository.manifests.keys().map(|digest| (digest, true));
        let blobs = repository.blobs.keys().map(|digest| (digest, false));
        for (digest, manifest) in manifests.chain(blobs) {
            let claim = match manifest {
                true => Claim::Manifest(name.clone()),
                false => Claim::Blob(name.clone()),
            };
            let digest = *digest;
            if !marked_at_all || !garbage.contains(&Garbage { digest, claim }) {
                wanted.insert(digest);
            }
        }
    }
    wanted
}

impl Kept {
    /// All content of it.
    pub(crate) fn contents(&self) -> HashSet<Digest> {
        let mut contents = self.files.clone();
        for kept in self.repositories.values() {
            contents.extend(kept.manifests.iter().chain(&kept.blobs));
        }
        contents
    }

    /// Keeps what a change of commit `number` brought.
    pub(crate) fn add_named(&mut self, change: &Change, number: u64) {
        match change {
            Change::Manifest {
                repository,
                digest,
                new: Some(_),
            } => {
                let kept = self.repositories.entry(repository.clone()).or_default();
                kept.manifests.insert(*digest);
            }
            Change::Blob {
                repository,
                digest,
                new: Some(_),
            } => {
                let kept = self.repositories.entry(repository.clone()).or_default();
                kept.blobs.insert(*digest);
            }
            Change::Site {
                folder,
                new: Some(site),
            } => {
                self.files
                    .extend(site.files.values().map(|file| file.digest));
                self.sets.insert((folder.clone(), number));
            }
            _ => {}
        }
    }

    /// Keeps everything these names reach but what was given up.
    pub(crate) fn add_without(
        &mut self,
        names: &Names,
        given_up: impl Fn(&RepositoryName, &Digest) -> bool,
    ) {
        for (name, repository) in &names.repositories {
            let kept = self.repositories.entry(name.clone()).or_default();
            let stays = |digest: &&Digest| !given_up(name, digest);
            let manifests = repository.manifests.keys().filter(stays);
            kept.manifests.extend(manifests.copied());
            let blobs = repository.blobs.keys().filter(stays);
            kept.blobs.extend(blobs.copied());
        }
        for (folder, site) in &names.sites {
            self.files
                .extend(site.files.values().map(|file| file.digest));
            self.sets.insert((folder.clone(), site.set));
        }
    }
}

/// What a manifest names; `None` when it cannot be read, and then nobody knows.
pub(crate) type Children = HashMap<Digest, Option<Vec<Digest>>>;

/// Reads what manifests name, each once.
pub(crate) struct Reading<F> {
    read: F,
    known: Children,
}

impl<F: FnMut(&Digest) -> Option<Vec<Digest>>> Reading<F> {
    pub(crate) fn new(read: F) -> Reading<F> {
        let known = Children::new();
        Reading { read, known }
    }

    fn children(&mut self, digest: &Digest) -> Option<&[Digest]> {
        if !self.known.contains_key(digest) {
            let children = (self.read)(digest);
            self.known.insert(*digest, children);
        }
        self.known.get(digest)?.as_deref()
    }
}

/// What lives in one repository.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// Everything reached, manifests and blobs.
    pub(crate) live: HashSet<Digest>,
    /// Names nothing reaches.
    pub(crate) garbage: BTreeSet<Garbage>,
    /// A manifest that lives cannot be read: everything here stays.
    pub(crate) unreadable: Option<Digest>,
}

/// Marks one repository. `given_up` are untagged manifests somebody asked to be taken.
pub(crate) fn repository<F: FnMut(&Digest) -> Option<Vec<Digest>>>(
    name: &RepositoryName,
    repository: &Repository,
    kept: Option<&KeptRepository>,
    given_up: impl Fn(&Digest) -> bool,
    reading: &mut Reading<F>,
) -> Marked {
    let mut walk = Walk::new(repository);
    for (tag, entry) in &repository.tags {
        match subject_of(tag) {
            Some(subject) if repository.manifests.contains_key(&subject) => {
                walk.tied.entry(subject).or_default().push(entry.digest);
            }
            _ => walk.reach(entry.digest),
        }
    }
    let tagged: HashSet<Digest> = repository.tags.values().map(|tag| tag.digest).collect();
    for digest in repository.manifests.keys() {
        let kept = kept.is_some_and(|kept| kept.manifests.contains(digest));
        let untagged = !tagged.contains(digest) && !given_up(digest);
        if kept || untagged {
            walk.reach(*digest);
        }
    }
    let unreadable = walk.run(reading);
    let mut live = walk.live;
    if unreadable.is_some() {
        live.extend(repository.manifests.keys().chain(repository.blobs.keys()));
    }
    if let Some(kept) = kept {
        live.extend(kept.manifests.iter().chain(&kept.blobs));
    }
    let dead = |digest: &&Digest| !live.contains(*digest);
    let garbage = |digest: &Digest, claim| Garbage {
        digest: *digest,
        claim,
    };
    let manifests = repository.manifests.keys().filter(dead);
    let blobs = repository.blobs.keys().filter(dead);
    let garbage = manifests
        .map(|digest| garbage(digest, Claim::Manifest(name.clone())))
        .chain(blobs.map(|digest| garbage(digest, Claim::Blob(name.clone()))))
        .collect();
    Marked {
        live,
        garbage,
        unreadable,
    }
}

/// The walk from the roots.
struct Walk<'r> {
    repository: &'r Repository,
    referrers: HashMap<Digest, Vec<Digest>>,
    /// What lives as long as its subject.
    tied: HashMap<Digest, Vec<Digest>>,
    live: HashSet<Digest>,
    next: Vec<Digest>,
}

impl<'r> Walk<'r> {
    fn new(repository: &'r Repository) -> Walk<'r> {
        let mut referrers: HashMap<Digest, Vec<Digest>> = HashMap::new();
        for (digest, entry) in &repository.manifests {
            if let Some(subject) = &entry.subject {
                let subject: &Digest = subject;
                referrers.entry(*subject).or_default().push(*digest);
            }
        }
        Walk {
            repository,
            referrers,
            tied: HashMap::new(),
            live: HashSet::new(),
            next: Vec::new(),
        }
    }

    fn reach(&mut self, digest: Digest) {
        if self.live.insert(digest) {
            self.next.push(digest);
        }
    }

    /// Goes as far as there is anything. Answers a manifest that could not be read.
    fn run<F: FnMut(&Digest) -> Option<Vec<Digest>>>(
        &mut self,
        reading: &mut Reading<F>,
    ) -> Option<Digest> {
        let mut unreadable = None;
        while let Some(digest) = self.next.pop() {
            if self.repository.manifests.contains_key(&digest) {
                match reading.children(&digest) {
                    Some(children) => {
                        for child in children {
                            if self.live.insert(*child) {
                                self.next.push(*child);
                            }
                        }
                    }
                    None => unreadable = Some(digest),
                }
            }
            for belonging in [self.referrers.remove(&digest), self.tied.remove(&digest)] {
                belonging
                    .into_iter()
                    .flatten()
                    .for_each(|digest| self.reach(digest));
            }
        }
        unreadable
    }
}

/// The manifest a tag belongs to, where it is one of those that stand for a digest:
/// `sha256-<64 hex>` (tag schema of the distribution specification), or that with a suffix
/// cosign uses.
pub(crate) fn subject_of(tag: &Tag) -> Option<Digest> {
    let text = tag.as_str();
    let text = match text.split_once('.') {
        Some((text, suffix)) if SUFFIXES.contains(&suffix) => text,
        Some(_) => return None,
        None => text,
    };
    text.replacen('-', ":", 1).parse().ok()
}

/// Everything a manifest names, of whatever kind it is: all `digest` members but that of its
/// subject, which it does not keep alive. `None` when it is no manifest.
pub(crate) fn named_by(bytes: &[u8]) -> Option<Vec<Digest>> {
    let mut value: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    value.as_object_mut()?.remove("subject");
    let mut found = Vec::new();
    collect(&value, &mut found);
    Some(found)
}

fn collect(value: &serde_json::Value, found: &mut Vec<Digest>) {
    match value {
        serde_json::Value::Object(members) => {
            for (name, value) in members {
                match value.as_str().map(str::parse) {
                    Some(Ok(digest)) if name == "digest" => found.push(digest),
                    _ => collect(value, found),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}
