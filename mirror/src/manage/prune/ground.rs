//! What decides about a prune, read from a store: the last imports, what packages pin, and which
//! packages are here.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use kubepkg_core::Digest;
use kubepkg_core::carried::{self, Carried};
use kubepkg_core::index::{Index, MAX_INDEX};
use kubepkg_core::location::{mirror_chart, mirror_image};
use kubepkg_core::name::{PackageName, RepositoryName, Tag};
use kubepkg_core::pins::Pins;
use kubepkg_core::reference::Reference;
use kubepkg_core::store::{
    Body, Cause, Change, FileRange, Names, Origin, Receipt, Record, SiteEntry, StoreError,
};

use super::{KeptImport, Release};
use crate::manage::managed::Managed;

/// Something a package pins, where it lies in a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) repository: RepositoryName,
    pub(super) tag: Option<Tag>,
    pub(super) what: Pinned,
}

/// How something is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pinned {
    /// The manifest.
    Manifest(Digest),
    /// A chart, by its archive.
    Archive(Digest),
    /// Whatever the tag points at.
    Tag,
}

/// Everything that decides.
#[derive(Debug, Default)]
pub(super) struct Ground {
    /// The imports that are kept, the newest first.
    pub(super) imports: Vec<KeptImport>,
    /// The packages they name, each with the newest import that does.
    pub(super) kept: BTreeMap<Release, u64>,
    /// Trust entries the kept imports were judged by, with the packages named: as origins of
    /// tags say it.
    origins: BTreeMap<(String, String, String, u32), u64>,
    /// Manifests they brought.
    pub(super) brought: BTreeMap<RepositoryName, BTreeMap<Digest, u64>>,
    /// Tags they set.
    pub(super) tagged: BTreeMap<(RepositoryName, Tag), (Digest, u64)>,
    /// What packages pin, of those that stay and those that are here.
    pub(super) pins: BTreeMap<Release, Vec<Pin>>,
    /// Which packages are here, by folder of the site.
    pub(super) carried: BTreeMap<String, Carried>,
}

impl Ground {
    /// Reads it from a store as of `names`.
    pub(super) async fn read<S: Managed>(
        store: &S,
        names: &Names,
        imports: usize,
    ) -> Result<Ground, StoreError> {
        let mut ground = Ground::default();
        let mut indexes = BTreeSet::new();
        let mut older = Vec::new();
        for record in store.imports_back()? {
            let record = record?;
            let Cause::Import(receipt) = &record.cause else {
                continue;
            };
            if record.number > names.sequence {
                continue;
            }
            if ground.imports.len() == imports {
                older.push(record.number);
                continue;
            }
            indexes.extend(receipt.repositories.iter().map(|index| index.digest));
            ground.keep(&record, receipt);
        }
        let mut wanted: BTreeSet<Release> = ground.kept.keys().cloned().collect();
        let mut read = Vec::new();
        for (folder, site) in &names.sites {
            let damaged = |path: &str, why: String| StoreError::Damaged {
                path: Path::new("sites").join(folder).join(path),
                why,
            };
            let path = site.url.file_name();
            if let Some(bytes) = site_file(store, folder, site, path)? {
                let index = Index::read_shared(bytes);
                read.push(index.map_err(|e| damaged(path, e.to_string()))?);
            }
            if let Some(bytes) = site_file(store, folder, site, carried::FILE)? {
                let list = Carried::read(&bytes);
                let list = list.map_err(|e| damaged(carried::FILE, e.to_string()))?;
                wanted.extend(releases(&list));
                ground.carried.insert(folder.clone(), list);
            }
        }
        // versions that the index of today does not list any more are in those of then
        for digest in indexes {
            if let Some(bytes) = whole(store, &digest).await?
                && let Ok(index) = Index::read_shared(bytes)
            {
                read.push(index);
            }
        }
        for release in wanted {
            if let Some(pins) = read.iter().find_map(|index| pins(index, &release)) {
                ground.pins.insert(release, pins);
            }
        }
        ground.unknown(store, older)?;
        Ok(ground)
    }

    /// Keeps an import: what it named and what it brought.
    pub(super) fn keep(&mut self, record: &Record, receipt: &Receipt) {
        let number = record.number;
        self.imports.push(KeptImport {
            number,
            at: record.at,
            bundle: receipt.bundle.clone(),
        });
        for package in &receipt.packages {
            self.kept.entry(Release::from(package)).or_insert(number);
            for index in &receipt.repositories {
                let origin = (
                    index.entry.clone(),
                    package.name.clone(),
                    package.version.clone(),
                    package.build,
                );
                self.origins.entry(origin).or_insert(number);
            }
        }
        self.brought_by(record);
    }

    fn brought_by(&mut self, record: &Record) {
        let number = record.number;
        for recorded in &record.changes {
            match &recorded.change {
                Change::Manifest {
                    repository,
                    digest,
                    new: Some(_),
                } => {
                    let brought = self.brought.entry(repository.clone()).or_default();
                    brought.entry(*digest).or_insert(number);
                }
                Change::Tag {
                    repository,
                    tag,
                    new: Some(entry),
                } => {
                    self.tagged
                        .entry((repository.clone(), tag.clone()))
                        .or_insert((entry.digest, number));
                }
                _ => {}
            }
        }
    }

    /// Where no index says any more what a package that stays pins, everything stays that came
    /// with an import that names it.
    fn unknown<S: Managed>(&mut self, store: &S, older: Vec<u64>) -> Result<(), StoreError> {
        let unknown: BTreeSet<Release> = self
            .kept
            .keys()
            .filter(|release| !self.pins.contains_key(*release))
            .cloned()
            .collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let older: BTreeSet<u64> = older.into_iter().collect();
        for record in store.imports_back()? {
            let record = record?;
            if let Cause::Import(receipt) = &record.cause
                && older.contains(&record.number)
                && (receipt.packages.iter()).any(|p| unknown.contains(&Release::from(p)))
            {
                self.brought_by(&record);
            }
        }
        Ok(())
    }

    /// The newest kept import that names the package a tag came with.
    pub(super) fn origin(&self, origin: &Origin) -> Option<u64> {
        let key = (
            origin.entry.clone(),
            origin.package.clone(),
            origin.version.clone(),
            origin.build,
        );
        self.origins.get(&key).copied()
    }
}

/// The releases a list names.
pub(super) fn releases(list: &Carried) -> impl Iterator<Item = Release> {
    list.packages.iter().flat_map(|(name, versions)| {
        versions.iter().map(|version| Release {
            name: name.to_string(),
            version: version.version.clone(),
            build: version.build,
            digest: version.digest,
        })
    })
}

fn site_file<S: Managed>(
    store: &S,
    folder: &str,
    site: &SiteEntry,
    path: &str,
) -> Result<Option<Bytes>, StoreError> {
    let Some(file) = site.files.get(path) else {
        return Ok(None);
    };
    match store.site_file(folder, site, path)? {
        Some(range) => bytes_of(&range, &file.digest).map(Some),
        None => Err(StoreError::Missing {
            digest: file.digest,
        }),
    }
}

/// All of an index that no name gives a size; `None` where it is not here, or larger than one is.
async fn whole<S: Managed>(store: &S, digest: &Digest) -> Result<Option<Bytes>, StoreError> {
    let mut stream = match store.read(digest).await? {
        None => return Ok(None),
        Some(Body::Bytes(bytes)) => return Ok(Some(bytes)),
        Some(Body::Range(range)) => return bytes_of(&range, digest).map(Some),
        Some(Body::Stream(stream)) => stream,
    };
    let mut bytes = BytesMut::new();
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|source| StoreError::Source {
            digest: *digest,
            source,
        })?;
        if (bytes.len() + piece.len()) as u64 > MAX_INDEX {
            return Ok(None);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Some(bytes.freeze()))
}

fn bytes_of(range: &FileRange, digest: &Digest) -> Result<Bytes, StoreError> {
    let len = range.len.min(MAX_INDEX);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
    let read = range.file.read_exact_at(&mut bytes, range.offset);
    read.map_err(|source| StoreError::Source {
        digest: *digest,
        source,
    })?;
    Ok(bytes.into())
}

/// What an index says that a release pins; `None` where it does not list it, or where what it
/// says cannot be understood.
fn pins(index: &Index, release: &Release) -> Option<Vec<Pin>> {
    let package = index.packages.get(&release.name)?;
    let listed = package.versions.iter().find(|listed| {
        listed.version == release.version
            && listed.build == release.build
            && listed.digest == release.digest
    })?;
    let name: PackageName = release.name.parse().ok()?;
    let mut pins = Pins::default();
    pins.add(&name, listed.spec()).ok()?;
    let mut found = Vec::new();
    for chart in pins.charts.keys() {
        found.push(Pin {
            repository: mirror_chart(&chart.repository, &chart.name).ok()?,
            // a tag has no "+"
            tag: chart.version.replace('+', "_").parse().ok(),
            what: Pinned::Archive(chart.archive),
        });
    }
    let references = pins.trees.keys().chain(pins.images.keys());
    for reference in references.chain(pins.unpinned.keys()) {
        found.push(pin(reference)?);
    }
    Some(found)
}

fn pin(reference: &Reference) -> Option<Pin> {
    Some(Pin {
        repository: mirror_image(reference).ok()?,
        tag: reference.tag().cloned(),
        what: match reference.digest() {
            Some(digest) => Pinned::Manifest(*digest),
            None => Pinned::Tag,
        },
    })
}
