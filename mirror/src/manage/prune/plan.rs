//! What stays and what goes. Pure: manifests are read through a [`Closure`].

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::carried::{self, CarriedVersion};
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{Change, Names, Repository, SiteEntry, SiteFile, StoreError, TagEntry};

use super::ground::{Ground, Pin, Pinned};
use super::weigh::{Contents, weigh};
use super::{Fate, NameFate, PackageFate, Pruning, Release, Stays, Totals};
use crate::manage::closure::{Closure, Reached};
use crate::store::subject_of;

/// What becomes of one repository.
#[derive(Default)]
struct Judged {
    /// Why tags stay, and manifests without one.
    tags: BTreeMap<Tag, Stays>,
    pinned: BTreeMap<Digest, Stays>,
    /// What goes.
    gone_tags: Vec<Tag>,
    gone: Reached,
}

/// Plans a prune of `names`.
pub(super) fn plan(
    closure: &mut Closure<'_>,
    names: &Names,
    ground: &Ground,
) -> Result<Pruning, StoreError> {
    let mut judged = BTreeMap::new();
    for (name, repository) in &names.repositories {
        judged.insert(name, judge(closure, ground, name, repository)?);
    }
    let freed = freed(names, &judged);
    let mut pruning = Pruning {
        imports: ground.imports.clone(),
        totals: Totals {
            contents: freed.len() as u64,
            bytes: freed.values().sum(),
            ..Totals::default()
        },
        ..Pruning::default()
    };
    let mut going = Vec::new();
    let mut contents = Vec::new();
    for (name, repository) in &names.repositories {
        let Some(judged) = judged.get(name) else {
            continue;
        };
        pruning.changes.extend(changes(name, judged));
        pruning.totals.tags += judged.gone_tags.len() as u64;
        pruning.totals.manifests += judged.gone.manifests.len() as u64;
        pruning.totals.blobs += judged.gone.blobs.len() as u64;
        let fate = |tag: Option<&Tag>, digest: &Digest, fate: Fate| NameFate {
            repository: name.clone(),
            tag: tag.cloned(),
            digest: *digest,
            fate,
        };
        for (tag, entry) in &repository.tags {
            match judged.tags.get(tag) {
                Some(why) => {
                    let why = Fate::Stays(why.clone());
                    pruning.names.push(fate(Some(tag), &entry.digest, why));
                }
                None => going.push((name, Some(tag), entry.digest)),
            }
        }
        for (digest, why) in &judged.pinned {
            let why = Fate::Stays(why.clone());
            pruning.names.push(fate(None, digest, why));
        }
        let untagged = alone(closure, repository, judged)?;
        going.extend(untagged.into_iter().map(|digest| (name, None, digest)));
    }
    for (name, _, digest) in &going {
        contents.push(match names.repositories.get(*name) {
            Some(repository) => closure.of(repository, [*digest])?.sizes(repository),
            None => Contents::new(),
        });
    }
    let weights = weigh(&contents, &freed);
    for ((name, tag, digest), weight) in going.into_iter().zip(weights) {
        pruning.names.push(NameFate {
            repository: name.clone(),
            tag: tag.cloned(),
            digest,
            fate: Fate::Goes(weight),
        });
    }
    pruning.names.sort_by(|a, b| {
        (&a.repository, &a.tag, &a.digest).cmp(&(&b.repository, &b.tag, &b.digest))
    });
    packages(closure, names, ground, &freed, &mut pruning)?;
    sites(names, ground, &mut pruning);
    pruning.changes.retain(|change| names.differs(change));
    Ok(pruning)
}

fn judge(
    closure: &mut Closure<'_>,
    ground: &Ground,
    name: &RepositoryName,
    repository: &Repository,
) -> Result<Judged, StoreError> {
    let mut roots: BTreeMap<Digest, Stays> = BTreeMap::new();
    let mut tags: BTreeMap<Tag, Stays> = BTreeMap::new();
    for (release, import) in &ground.kept {
        let pins = ground.pins.get(release).into_iter().flatten();
        for pin in pins.filter(|pin| pin.repository == *name) {
            let why = Stays::Package {
                release: release.to_string(),
                import: *import,
            };
            for digest in resolve(closure, repository, pin)? {
                let tag = pin.tag.as_ref();
                let tag = tag.filter(|tag| points_at(repository, tag, &digest));
                if let Some(tag) = tag {
                    tags.entry(tag.clone()).or_insert_with(|| why.clone());
                }
                roots.entry(digest).or_insert_with(|| why.clone());
            }
        }
    }
    let brought = ground.brought.get(name).into_iter().flatten();
    for (digest, import) in brought.filter(|(d, _)| repository.manifests.contains_key(*d)) {
        let why = Stays::Brought { import: *import };
        roots.entry(*digest).or_insert(why);
    }
    for (tag, entry) in &repository.tags {
        if tied_to(repository, tag).is_some() {
            continue; // it stays as long as what it is about
        }
        if let Some(why) = own_reason(ground, name, tag, entry) {
            tags.entry(tag.clone()).or_insert(why);
        }
        if let Some(why) = tags.get(tag) {
            roots.entry(entry.digest).or_insert_with(|| why.clone());
        }
    }
    let reached = closure.of(repository, roots.keys().copied())?;
    for digest in &reached.manifests {
        let Some(entry) = repository.manifests.get(digest) else {
            continue;
        };
        if closure.manifest(digest, &entry.media_type)?.is_none() {
            // what it needs is not known, so everything here stays
            let why = || Stays::Unreadable(*digest);
            let all = repository.tags.keys();
            return Ok(Judged {
                tags: all
                    .map(|tag| (tag.clone(), tags.get(tag).cloned().unwrap_or_else(why)))
                    .collect(),
                ..Judged::default()
            });
        }
    }
    for tag in repository.tags.keys() {
        if let Some(subject) = tied_to(repository, tag)
            && reached.manifests.contains(&subject)
        {
            tags.insert(tag.clone(), Stays::About(subject));
        }
    }
    let all = repository.manifests.keys().copied();
    let gone: BTreeSet<Digest> = all.filter(|d| !reached.manifests.contains(d)).collect();
    // a blob that no manifest names is being pushed: that is for collection to judge
    let blobs = closure.of(repository, gone.iter().copied())?.blobs;
    let blobs = blobs.difference(&reached.blobs).copied().collect();
    let tagged: HashSet<Digest> = repository.tags.values().map(|e| e.digest).collect();
    let pinned = |why: &Stays| matches!(why, Stays::Package { .. });
    roots.retain(|digest, why| pinned(why) && !tagged.contains(digest));
    let gone_tags = repository
        .tags
        .keys()
        .filter(|tag| !tags.contains_key(*tag));
    Ok(Judged {
        gone_tags: gone_tags.cloned().collect(),
        tags,
        pinned: roots,
        gone: Reached {
            manifests: gone,
            blobs,
            ..Reached::default()
        },
    })
}

/// Why a tag stays for its own sake.
fn own_reason(
    ground: &Ground,
    name: &RepositoryName,
    tag: &Tag,
    entry: &TagEntry,
) -> Option<Stays> {
    let Some(origin) = &entry.origin else {
        return Some(Stays::Pushed);
    };
    if let Some(import) = ground.origin(origin) {
        let build = match origin.build {
            0 => String::new(),
            build => format!(" build {build}"),
        };
        return Some(Stays::Package {
            release: format!("{} {}{build}", origin.package, origin.version),
            import,
        });
    }
    match ground.tagged.get(&(name.clone(), tag.clone())) {
        Some((digest, import)) if *digest == entry.digest => {
            Some(Stays::Brought { import: *import })
        }
        _ => None,
    }
}

/// What a tag belongs to by its form, where that is here.
fn tied_to(repository: &Repository, tag: &Tag) -> Option<Digest> {
    subject_of(tag).filter(|subject| repository.manifests.contains_key(subject))
}

fn points_at(repository: &Repository, tag: &Tag, digest: &Digest) -> bool {
    (repository.tags.get(tag)).is_some_and(|entry| entry.digest == *digest)
}

/// The manifests a pin means, as far as they are here.
fn resolve(
    closure: &mut Closure<'_>,
    repository: &Repository,
    pin: &Pin,
) -> Result<Vec<Digest>, StoreError> {
    match &pin.what {
        Pinned::Manifest(digest) => Ok(repository
            .manifests
            .contains_key(digest)
            .then_some(*digest)
            .into_iter()
            .collect()),
        Pinned::Tag => {
            let entry = pin.tag.as_ref().and_then(|tag| repository.tags.get(tag));
            Ok(entry.map(|entry| entry.digest).into_iter().collect())
        }
        Pinned::Archive(archive) => {
            let mut found = Vec::new();
            if !repository.blobs.contains_key(archive) {
                return Ok(found);
            }
            for (digest, entry) in &repository.manifests {
                let manifest = closure.manifest(digest, &entry.media_type)?;
                if manifest.is_some_and(|m| m.blobs().iter().any(|b| b.digest == *archive)) {
                    found.push(*digest);
                }
            }
            Ok(found)
        }
    }
}

/// Manifests that go and that neither a tag that goes nor another one of them leads to.
fn alone(
    closure: &mut Closure<'_>,
    repository: &Repository,
    judged: &Judged,
) -> Result<Vec<Digest>, StoreError> {
    let tagged = judged.gone_tags.iter();
    let tagged = tagged.filter_map(|tag| Some(repository.tags.get(tag)?.digest));
    let led_to = closure.of(repository, tagged)?.manifests;
    let rest: Vec<Digest> = judged.gone.manifests.difference(&led_to).copied().collect();
    let mut below = BTreeSet::new();
    for digest in &rest {
        let mut led_to = closure.of(repository, [*digest])?.manifests;
        led_to.remove(digest);
        below.extend(led_to);
    }
    Ok(rest.into_iter().filter(|d| !below.contains(d)).collect())
}

/// Content that nothing needs afterwards.
fn freed(names: &Names, judged: &BTreeMap<&RepositoryName, Judged>) -> Contents {
    let mut freed = Contents::new();
    let mut needed: HashSet<Digest> = HashSet::new();
    for (name, repository) in &names.repositories {
        let gone = judged.get(name).map(|judged| &judged.gone);
        for (digest, entry) in &repository.manifests {
            match gone.is_some_and(|gone| gone.manifests.contains(digest)) {
                true => drop(freed.insert(*digest, entry.size)),
                false => drop(needed.insert(*digest)),
            }
        }
        for (digest, size) in &repository.blobs {
            match gone.is_some_and(|gone| gone.blobs.contains(digest)) {
                true => drop(freed.insert(*digest, *size)),
                false => drop(needed.insert(*digest)),
            }
        }
    }
    for site in names.sites.values() {
        needed.extend(site.files.values().map(|file| file.digest));
    }
    freed.retain(|digest, _| !needed.contains(digest));
    freed
}

fn changes<'j>(
    name: &RepositoryName,
    judged: &'j Judged,
) -> impl Iterator<Item = Change> + use<'j> {
    let (a, b, c) = (name.clone(), name.clone(), name.clone());
    let tags = judged.gone_tags.iter().map(move |tag| Change::Tag {
        repository: a.clone(),
        tag: tag.clone(),
        new: None,
    });
    let manifests = judged
        .gone
        .manifests
        .iter()
        .map(move |digest| Change::Manifest {
            repository: b.clone(),
            digest: *digest,
            new: None,
        });
    let blobs = judged.gone.blobs.iter().map(move |digest| Change::Blob {
        repository: c.clone(),
        digest: *digest,
        new: None,
    });
    tags.chain(manifests).chain(blobs)
}

/// What becomes of the packages that are here.
fn packages(
    closure: &mut Closure<'_>,
    names: &Names,
    ground: &Ground,
    freed: &Contents,
    pruning: &mut Pruning,
) -> Result<(), StoreError> {
    let mut going = Vec::new();
    let mut contents = Vec::new();
    for list in ground.carried.values() {
        for release in super::ground::releases(list) {
            let site = list.repository.clone();
            if let Some(import) = ground.kept.get(&release) {
                pruning.packages.push(PackageFate {
                    site,
                    release,
                    fate: Fate::Stays(Stays::Named { import: *import }),
                });
                continue;
            }
            contents.push(of_package(closure, names, ground, &release)?);
            going.push((site, release));
        }
    }
    pruning.totals.packages = going.len() as u64;
    let weights = weigh(&contents, freed);
    for ((site, release), weight) in going.into_iter().zip(weights) {
        pruning.packages.push(PackageFate {
            site,
            release,
            fate: Fate::Goes(weight),
        });
    }
    pruning
        .packages
        .sort_by(|a, b| (&a.site, &a.release).cmp(&(&b.site, &b.release)));
    Ok(())
}

/// Everything a package leads to: what it pins.
fn of_package(
    closure: &mut Closure<'_>,
    names: &Names,
    ground: &Ground,
    release: &Release,
) -> Result<Contents, StoreError> {
    let mut contents = Contents::new();
    for pin in ground.pins.get(release).into_iter().flatten() {
        if let Some(repository) = names.repositories.get(&pin.repository) {
            let roots = resolve(closure, repository, pin)?;
            contents.extend(closure.of(repository, roots)?.sizes(repository));
        }
    }
    Ok(contents)
}

/// Brings the lists of what is here in line.
fn sites(names: &Names, ground: &Ground, pruning: &mut Pruning) {
    for (folder, list) in &ground.carried {
        let Some(site) = names.sites.get(folder) else {
            continue;
        };
        let mut new = list.clone();
        new.packages.retain(|name, versions| {
            versions.retain(|version| ground.kept.contains_key(&release(name.as_str(), version)));
            !versions.is_empty()
        });
        if new == *list {
            continue;
        }
        let bytes = Bytes::from(new.to_bytes());
        let digest = Digest::sha256(&bytes);
        let mut files = site.files.clone();
        let size = bytes.len() as u64;
        files.insert(carried::FILE.to_owned(), SiteFile { digest, size });
        pruning.files.push((digest, bytes));
        pruning.changes.push(Change::Site {
            folder: folder.clone(),
            new: Some(SiteEntry {
                url: site.url.clone(),
                set: 0,
                files,
            }),
        });
    }
}

fn release(name: &str, version: &CarriedVersion) -> Release {
    Release {
        name: name.to_owned(),
        version: version.version.clone(),
        build: version.build,
        digest: version.digest,
    }
}
