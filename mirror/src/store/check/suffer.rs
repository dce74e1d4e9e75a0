//! Who suffers from content that is not right: repositories, and the tags that lead to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use kubepkg_core::Digest;
use kubepkg_core::manifest::{MAX_MANIFEST, Manifest};
use kubepkg_core::name::Tag;
use kubepkg_core::store::{Names, Repository, Unit};

use super::super::layout::Layout;
use super::{Finding, Sufferer};

/// Most tags that are named of one repository; more do not help anybody.
const MAX_TAGS: usize = 100;

/// Fills in [`Finding::suffers`].
pub(super) fn find(layout: &Layout, names: &Names, findings: &mut [Finding]) {
    let bad: BTreeSet<Digest> = findings.iter().filter_map(|f| f.digest).collect();
    let mut known = Known::default();
    let mut sufferers: BTreeMap<Digest, Vec<Sufferer>> = BTreeMap::new();
    for (name, repository) in &names.repositories {
        let touched: BTreeSet<Digest> = bad
            .iter()
            .filter(|d| repository.blobs.contains_key(d) || repository.manifests.contains_key(d))
            .copied()
            .collect();
        if touched.is_empty() {
            continue;
        }
        let tags = tags_to(layout, repository, &touched, &mut known);
        for digest in touched {
            let tags = tags.get(&digest).into_iter().flatten();
            sufferers.entry(digest).or_default().push(Sufferer {
                name: name.to_string(),
                tags: tags.take(MAX_TAGS).map(|tag| tag.to_string()).collect(),
            });
        }
    }
    for site in names.sites.values() {
        for file in site
            .files
            .values()
            .filter(|file| bad.contains(&file.digest))
        {
            let entry = sufferers.entry(file.digest).or_default();
            entry.push(whole(site.url.to_string()));
        }
    }
    for finding in findings {
        if let Some(digest) = &finding.digest {
            finding.suffers = sufferers.get(digest).cloned().unwrap_or_default();
            finding.suffers.dedup();
        } else if let Some(unit) = &finding.unit {
            finding.suffers = vec![whole(match unit {
                Unit::Repository(name) => name.to_string(),
                Unit::Site(folder) => match names.sites.get(folder) {
                    Some(site) => site.url.to_string(),
                    None => kubepkg_core::error::shown(folder),
                },
                Unit::Trust(entry) => kubepkg_core::error::shown(entry),
            })];
        }
    }
}

fn whole(name: String) -> Sufferer {
    Sufferer {
        name,
        tags: Vec::new(),
    }
}

/// What manifests name, read once each.
#[derive(Default)]
struct Known(BTreeMap<Digest, Vec<Digest>>);

impl Known {
    fn below(&mut self, layout: &Layout, digest: &Digest, media_type: &str) -> &[Digest] {
        self.0.entry(*digest).or_insert_with(|| {
            let path = layout.blob(digest);
            let read = fs::metadata(&path)
                .ok()
                .filter(|metadata| metadata.len() <= MAX_MANIFEST)
                .and_then(|_| fs::read(&path).ok())
                .and_then(|bytes| Manifest::parse(&bytes, Some(media_type)).ok());
            read.map_or_else(Vec::new, |manifest| {
                let below = manifest.children().iter().chain(manifest.blobs());
                below.map(|descriptor| descriptor.digest).collect()
            })
        })
    }
}

/// The tags that lead to each of these digests.
fn tags_to<'r>(
    layout: &Layout,
    repository: &'r Repository,
    wanted: &BTreeSet<Digest>,
    known: &mut Known,
) -> BTreeMap<Digest, BTreeSet<&'r Tag>> {
    let mut found: BTreeMap<Digest, BTreeSet<&Tag>> = BTreeMap::new();
    for (tag, entry) in &repository.tags {
        let mut seen = BTreeSet::new();
        let mut open = vec![entry.digest];
        while let Some(digest) = open.pop() {
            if !seen.insert(digest) {
                continue;
            }
            if wanted.contains(&digest) {
                found.entry(digest).or_default().insert(tag);
            }
            if let Some(manifest) = repository.manifests.get(&digest) {
                open.extend_from_slice(known.below(layout, &digest, &manifest.media_type));
            }
        }
    }
    found
}
