//! From a checked bundle and the names as they stand to the changes that bring it in.
//!
//! Pure: it sees a [`Now`] and gives a [`Plan`]. The same bundle against the names it made
//! gives no change at all, which is how a second import of one file is recognised.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use kubepkg_core::bundle::Bundle;
use kubepkg_core::bundle::head::{Head, HeadPackage};
use kubepkg_core::bundle::verify::{Placement, Tagged};
use kubepkg_core::carried;
use kubepkg_core::chart;
use kubepkg_core::digest::Digest;
use kubepkg_core::manifest::{Content, Manifest};
use kubepkg_core::name::{PackageName, Tag};
use kubepkg_core::store::{
    Change, Names, Origin, Receipt, ReceiptIndex, ReceiptPackage, Repository, SiteEntry, SiteFile,
    TagEntry,
};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{CURRENT, KNOWN_ID};

use crate::carried::updated;
use crate::judge::{is_root, root_number};
use crate::subjects::Subjects;
use crate::tags::{Decision, Wish, WishKind, decide};
use crate::{Checked, ImportError, Judged};

/// What the store holds of everything the bundle touches.
#[derive(Debug, Default)]
pub struct Now {
    /// Repositories, sites and memory, as far as the bundle touches them.
    pub names: Names,
    /// `carried.json` of each site, by folder.
    pub carried: BTreeMap<String, Vec<u8>>,
    /// What tags of referrers and of charts point at that the bundle wants to move, as far as it
    /// is there.
    pub manifests: BTreeMap<Digest, Manifest>,
}

/// What an import does to the names.
#[derive(Debug, Default)]
pub struct Plan {
    /// The changes, only those that change something.
    pub changes: Vec<Change>,
    /// Small files made here (`carried.json`), to be published before the commit.
    pub files: Vec<(Digest, Bytes)>,
    /// What should be said: tags left alone.
    pub warnings: Vec<String>,
}

/// Plans the changes.
///
/// # Errors
/// The list of what is carried cannot be read.
pub fn plan(
    bundle: &Bundle,
    checked: &Checked,
    now: &Now,
    allow_tag_back: bool,
) -> Result<Plan, ImportError> {
    let head = bundle.head();
    let subjects = Subjects::of(head, &checked.closure);
    let mut plan = Plan::default();
    for place in &checked.placements {
        let old = now.names.repositories.get(&place.repository);
        plan.content(place);
        let wishes = wishes(place, &subjects, bundle, checked, now);
        plan.tags(place, old.map(Arc::as_ref), &wishes, allow_tag_back);
    }
    for judged in &checked.judged {
        // what is judged as of another time changes nothing that clusters see of indexes
        if !checked.audit() {
            plan.site(head, judged, now)?;
        }
        if let Some(memory) = judged.memory() {
            plan.changes
                .extend(judged.moved().map(|moved| Change::Trust {
                    entry: moved.to_owned(),
                    new: None,
                }));
            plan.changes.push(Change::Trust {
                entry: judged.entry.id.clone(),
                new: Some(memory.to_value()),
            });
        }
    }
    if !checked.audit() && !checked.judged.is_empty() {
        plan.changes.push(Change::Trust {
            entry: KNOWN_ID.to_owned(),
            new: Some(checked.remembered.known.to_value()),
        });
    }
    plan.changes.retain(|change| now.names.differs(change));
    Ok(plan)
}

impl Plan {
    fn content(&mut self, place: &Placement) {
        let repository = &place.repository;
        self.changes
            .extend(place.blobs.iter().map(|(digest, size)| Change::Blob {
                repository: repository.clone(),
                digest: *digest,
                new: Some(*size),
            }));
        self.changes.extend(
            place
                .manifests
                .iter()
                .map(|(digest, entry)| Change::Manifest {
                    repository: repository.clone(),
                    digest: *digest,
                    new: Some(entry.clone()),
                }),
        );
    }

    fn tags(
        &mut self,
        place: &Placement,
        old: Option<&Repository>,
        wishes: &BTreeMap<&Tag, Wish>,
        allow_back: bool,
    ) {
        for (tag, tagged) in &place.tags {
            let current = old.and_then(|old| old.tags.get(tag));
            let Some(wish) = wishes.get(tag) else {
                continue;
            };
            match decide(current, wish, allow_back) {
                Decision::Stays => {}
                Decision::Set(entry) => {
                    self.warnings.extend(moved(place, tag, current, &entry));
                    self.changes.push(Change::Tag {
                        repository: place.repository.clone(),
                        tag: tag.clone(),
                        new: Some(entry),
                    });
                }
                Decision::Refused(why) => self.warnings.push(format!(
                    "tag {}:{tag} is left alone: {why}; the content is here by digest {}",
                    place.repository, tagged.digest
                )),
            }
        }
    }

    /// The repository files: the bundle's own set where its index is newly accepted, else the
    /// set that is there, with the bundle's roots where they are newer; in all cases with a
    /// `carried.json` brought up to the bundle.
    fn site(&mut self, head: &Head, judged: &Judged, now: &Now) -> Result<(), ImportError> {
        let url = &judged.entry.url;
        let folder = url.folder();
        let old = now.names.sites.get(&folder);
        let mut files = match old {
            Some(old) if !judged.publishes() => {
                let mut files = old.files.clone();
                if judged.newer_root() {
                    let offered = offered_files(head, judged, Some(old)).into_iter();
                    files.extend(offered.filter(|(path, _)| is_root(path)));
                }
                files
            }
            old => offered_files(head, judged, old),
        };
        let carried = Bytes::from(updated(
            url,
            now.carried.get(&folder).map(Vec::as_slice),
            head,
            judged.index(),
        )?);
        let digest = Digest::sha256(&carried);
        let size = carried.len() as u64;
        files.insert(carried::FILE.to_owned(), SiteFile { digest, size });
        self.files.push((digest, carried));
        self.changes.push(Change::Site {
            folder,
            new: Some(SiteEntry {
                url: url.clone(),
                set: 0,
                files,
            }),
        });
        Ok(())
    }
}

/// A tag of no package goes where the bundle that came last says: there are no versions to
/// compare, so that is told.
fn moved(
    place: &Placement,
    tag: &Tag,
    current: Option<&TagEntry>,
    new: &TagEntry,
) -> Option<String> {
    let current = current?;
    let word = |entry: &TagEntry| entry.origin.as_ref().is_some_and(|o| o.is_of_bundle());
    (word(current) && word(new) && current.digest != new.digest).then(|| {
        format!(
            "tag {}:{tag} belongs to no package and moves from {} to {}",
            place.repository, current.digest, new.digest
        )
    })
}

/// The files of the bundle that the verdict covers: the index and its signature, and with a
/// root the chain up to the current one. Without a root nobody has judged root files. They are
/// not published: anybody could have put them into the bundle, and a client that pins a root
/// would then be shown a root nobody here has checked, under this mirror's name.
///
/// Of roots accepted before, the files that are there stay: those of the bundle have the same
/// signed bytes, but nobody has counted their signatures again.
fn offered_files(
    head: &Head,
    judged: &Judged,
    old: Option<&SiteEntry>,
) -> BTreeMap<String, SiteFile> {
    let repository = head.repositories.iter().find(|r| r.url == judged.entry.url);
    let files = repository.map_or(&[][..], |repository| &repository.files);
    let index = judged.entry.url.file_name();
    let last = judged.verdict.root.as_ref().map(|root| root.version);
    let before = judged.root_before().map(|root| root.version);
    let covered = |path: &str| match root_number(path) {
        Some(number) => last.is_some_and(|last| number <= last),
        None if path == CURRENT => last.is_some(),
        None => path
            .strip_prefix(index)
            .is_some_and(|rest| matches!(rest, "" | ".sig")),
    };
    let stays = |path: &str| match root_number(path) {
        Some(number) => before.is_some_and(|before| number <= before),
        None => path == CURRENT && before == last,
    };
    let offered = files.iter().map(|file| {
        let kept = SiteFile {
            digest: file.digest,
            size: file.size,
        };
        (file.path.clone(), kept)
    });
    let mut set: BTreeMap<String, SiteFile> = offered.filter(|(path, _)| covered(path)).collect();
    if last.is_some() {
        let old = old.into_iter().flat_map(|old| &old.files);
        let old = old.filter(|(path, _)| stays(path) && covered(path));
        set.extend(old.map(|(path, file)| (path.clone(), file.clone())));
    }
    set
}

/// What the bundle wants of each tag of `place`, and the signed packages behind it. Behind the
/// tag of a signature (or another referrer) are those behind what it is about.
fn wishes<'p>(
    place: &'p Placement,
    subjects: &Subjects<'_>,
    bundle: &Bundle,
    checked: &Checked,
    now: &Now,
) -> BTreeMap<&'p Tag, Wish> {
    let old = now.names.repositories.get(&place.repository);
    let points_at = |tag: &Tag| {
        let old = old.and_then(|old| old.tags.get(tag));
        old.and_then(|old| now.manifests.get(&old.digest))
    };
    let adds = |tag: &Tag, new: &Digest| match (points_at(tag), checked.closure.parts(new)) {
        (Some(old), Some(new)) => {
            let old = parts(old);
            old.len() < new.len() && old.is_subset(&new)
        }
        _ => false,
    };
    let loses = |tag: &Tag, archive: Digest, file: Option<Digest>| {
        let old = points_at(tag).and_then(|old| chart::parts(old).ok());
        old.is_some_and(|old| {
            let signed = old.provenance.map(|file| file.digest);
            old.archive.digest == archive && signed.is_some() && signed != file
        })
    };
    let wish = |(tag, tagged): (&'p Tag, &Tagged)| {
        let referrer = subjects.packages(&place.upstream, tag);
        let packages = referrer.as_ref().unwrap_or(&tagged.packages);
        let mut origins: Vec<Origin> = packages
            .iter()
            .filter_map(|name| origin(name, bundle.head(), &checked.judged))
            .collect();
        if packages.is_empty() {
            origins.push(Origin::of_bundle());
        }
        let wish = Wish {
            digest: tagged.digest,
            origins,
            kind: match (referrer, checked.closure.chart(&tagged.digest)) {
                (Some(_), _) => WishKind::Referrer {
                    adds: adds(tag, &tagged.digest),
                },
                (None, Some((archive, file))) => WishKind::Chart {
                    loses: loses(tag, archive, file),
                },
                (None, None) => WishKind::Pinned,
            },
        };
        (tag, wish)
    };
    place.tags.iter().map(wish).collect()
}

/// The signatures a manifest holds: cosign keeps them as layers, the fallback tag of the
/// distribution specification as children. The config only says what layers there are.
fn parts(manifest: &Manifest) -> BTreeSet<Digest> {
    match &manifest.content {
        Content::Image { layers: parts, .. } | Content::Index(parts) => {
            parts.iter().map(|part| part.digest).collect()
        }
    }
}

fn origin(name: &PackageName, head: &Head, judged: &[Judged]) -> Option<Origin> {
    let package: &HeadPackage = head.packages.iter().find(|package| package.name == *name)?;
    let judged = judged
        .iter()
        .find(|judged| judged.entry.url == package.repository)?;
    Some(Origin {
        entry: judged.entry.id.clone(),
        package: name.to_string(),
        version: package.version.clone(),
        build: package.build,
    })
}

/// What the site keeps of this import.
pub fn receipt(
    bundle: &Bundle,
    checked: &Checked,
    new_bytes: u64,
    warnings: Vec<String>,
    as_of: Option<Time>,
) -> Receipt {
    let head = bundle.head();
    let count = |name: &str, n: usize| (name.to_owned(), n as u64);
    Receipt {
        bundle: bundle.id().to_string(),
        size: bundle.layout().len(),
        repositories: checked.judged.iter().map(receipt_index).collect(),
        packages: head
            .packages
            .iter()
            .map(|package| ReceiptPackage {
                name: package.name.to_string(),
                version: package.version.clone(),
                build: package.build,
                digest: package.digest,
            })
            .collect(),
        counts: BTreeMap::from([
            count("charts", head.charts.len()),
            count("trees", head.trees.len()),
            count("images", head.images.len()),
            count("referrers", head.referrers.len()),
            count("blobs", head.blobs.len()),
        ]),
        new_bytes,
        warnings,
        as_of,
    }
}

fn receipt_index(judged: &Judged) -> ReceiptIndex {
    ReceiptIndex {
        entry: judged.entry.id.clone(),
        url: judged.entry.url.to_string(),
        digest: judged.offered,
        generated: judged.verdict.index.generated,
        signed_by: judged
            .verdict
            .signed_by
            .iter()
            .map(ToString::to_string)
            .collect(),
        root: judged.verdict.root.as_ref().map(|root| root.version),
        acceptable_until: judged.acceptable_until(),
        left_out: judged.index().left_out.len() as u64,
    }
}
