//! Looking up everything that is small: manifests, charts and referrers. Afterwards the size
//! and digest of every blob is known, and where it can be fetched.

mod chart;
pub mod file;
mod graph;
mod referrers;
mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kubepkg_core::bundle::format::MAX_REASON;
use kubepkg_core::bundle::head::{
    ATTESTATION, Class, HeadChart, HeadImage, HeadReferrer, HeadTree, Hole, REFERRERS,
};
use kubepkg_core::descriptor::Descriptor;
use kubepkg_core::digest::Digest;
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::{ChartPin, Pins};
use kubepkg_core::reference::Reference;

pub use scope::{Fetched, Scope};

use crate::CreateError;
use crate::tags::{Images, Wanted, lacking};
use crate::unpackaged::{Chart, LooseFile, Unpackaged};

/// Manifests of one image, or about one, that are asked for at the same time. Requests in all are
/// bounded elsewhere; this bounds the answers that wait for their turn.
const ABREAST: usize = 8;

/// Where content is to be had.
#[derive(Clone, Debug)]
pub enum From {
    /// A repository that has it.
    Registry(Reference),
    /// A file of this host.
    File(PathBuf),
}

/// A blob that is still to be fetched.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where from.
    pub from: From,
    /// What it is.
    pub blob: Descriptor,
    /// What it is used as; the lowest of all uses.
    pub class: Class,
}

/// Everything that was looked up.
#[derive(Debug, Default)]
pub struct Collected {
    /// Charts.
    pub charts: Vec<HeadChart>,
    /// Package trees.
    pub trees: Vec<HeadTree>,
    /// Images.
    pub images: Vec<HeadImage>,
    /// Referrers.
    pub referrers: Vec<HeadReferrer>,
    /// Small content that is here already: manifests, and what is needed of charts.
    pub here: BTreeMap<Digest, (Class, Bytes)>,
    /// Blobs to fetch.
    pub sources: BTreeMap<Digest, Source>,
    /// Referrers that could not be had, by `host/path@digest` of what they are about.
    pub lacking: Vec<(String, CreateError)>,
    /// What was left out because of them, and attestations that do not exist.
    pub holes: Vec<Hole>,
    /// What should be said.
    pub notes: Vec<String>,
    /// Layers that may not be distributed were left out.
    pub foreign: bool,
    /// Images, and the attestations that their registry does not have.
    ghosts: Vec<(Reference, Digest)>,
}

impl Collected {
    /// Takes note of a referrer of `subject` that cannot be carried.
    fn lack(&mut self, reference: &Reference, subject: &Digest, error: CreateError) {
        let of = format!("{}@{subject}", reference.repository());
        self.lacking.push((of, error));
    }

    /// Adds content that is here.
    fn have(&mut self, digest: Digest, class: Class, bytes: Bytes) {
        let entry = self.here.entry(digest).or_insert((class, bytes));
        entry.0 = entry.0.min(class);
        if let Some(source) = self.sources.remove(&digest) {
            entry.0 = entry.0.min(source.class);
        }
    }

    /// Adds a blob of a repository that is to be fetched, unless it is here.
    fn want_of(&mut self, from: &Reference, blob: &Descriptor, class: Class) {
        self.want(Source {
            from: From::Registry(from.clone()),
            blob: blob.clone(),
            class,
        });
    }

    /// Adds a blob that is to be fetched, unless it is here.
    fn want(&mut self, source: Source) {
        let class = source.class;
        if let Some(known) = self.sources.get_mut(&source.blob.digest)
            && known.blob.urls.is_empty()
        {
            // a layer that lies elsewhere is found there also when another image has it as its own
            known.blob = source.blob.clone();
        }
        if let Some((known, _)) = self.here.get_mut(&source.blob.digest) {
            *known = (*known).min(class);
            return;
        }
        let known = self.sources.entry(source.blob.digest).or_insert(source);
        known.class = known.class.min(class);
    }

    /// An attestation that one registry lacks may have come from another: then it is no hole.
    /// An image that lacks one is sparse.
    fn lay_ghosts(&mut self) {
        let here = &self.here;
        self.holes.retain(|hole| {
            let digest = hole
                .of
                .split_once('@')
                .and_then(|(_, text)| text.parse().ok());
            hole.kind != ATTESTATION
                || digest.is_none_or(|digest: Digest| !here.contains_key(&digest))
        });
        let lacking = self
            .ghosts
            .iter()
            .filter(|(_, digest)| !here.contains_key(digest));
        let lacking: BTreeSet<&Reference> = lacking.map(|(image, _)| image).collect();
        for image in &mut self.images {
            image.sparse |= lacking.contains(&image.reference);
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of different manifests and blobs.
    fn len(&self) -> usize {
        self.here.len() + self.sources.len()
    }

    fn merge(&mut self, other: Collected) {
        self.charts.extend(other.charts);
        self.trees.extend(other.trees);
        self.images.extend(other.images);
        self.referrers.extend(other.referrers);
        self.lacking.extend(other.lacking);
        self.holes.extend(other.holes);
        self.notes.extend(other.notes);
        self.foreign |= other.foreign;
        self.ghosts.extend(other.ghosts);
        for (digest, (class, bytes)) in other.here {
            self.have(digest, class, bytes);
        }
        for source in other.sources.into_values() {
            self.want(source);
        }
    }
}

/// One thing to look up.
enum Item {
    Chart(ChartPin, BTreeSet<PackageName>),
    Tree(Reference, BTreeSet<PackageName>),
    Image(Reference, Wanted),
    /// A chart that no package pins.
    FurtherChart(Chart),
    File(LooseFile),
}

/// Looks up the charts and trees of `pins`, all `images` and what is `unpackaged`, `jobs` things
/// at a time. Referrers that cannot be had are an error, or holes where these are allowed.
pub async fn collect(
    scope: &Scope<'_>,
    pins: &Pins,
    images: &Images,
    unpackaged: &Unpackaged,
    allow_missing_referrers: bool,
    jobs: usize,
) -> Result<Collected, CreateError> {
    let charts = pins
        .charts
        .iter()
        .map(|(pin, by)| Item::Chart(pin.clone(), by.clone()));
    let trees = pins
        .trees
        .iter()
        .map(|(tree, by)| Item::Tree(tree.clone(), by.clone()));
    let images = images
        .iter()
        .map(|(image, wanted)| Item::Image(image.clone(), wanted.clone()));
    let further = unpackaged.further_charts(&pins.charts);
    let further = further.map(|chart| Item::FurtherChart(chart.clone()));
    let files = unpackaged.files.iter().map(|file| Item::File(file.clone()));
    let items: Vec<Item> = charts
        .chain(trees)
        .chain(images)
        .chain(further)
        .chain(files)
        .collect();
    let mut all = Collected::default();
    let mut found = stream::iter(items)
        .map(|item| one(scope, item))
        .buffer_unordered(jobs);
    while let Some(mut collected) = found.try_next().await? {
        for (of, error) in std::mem::take(&mut collected.lacking) {
            if !allow_missing_referrers {
                let source = Box::new(error);
                return Err(CreateError::Referrers { of, source });
            }
            collected.holes.push(hole(REFERRERS, of, &error));
        }
        all.merge(collected);
    }
    all.lay_ghosts();
    // the same referrer is found once for every image that shares its subject
    all.referrers.sort_by(HeadReferrer::order);
    all.referrers.dedup();
    all.holes.sort();
    all.holes.dedup();
    // the same chart under two spellings of its version
    all.charts.sort_by(HeadChart::order);
    all.charts.dedup();
    all.notes.sort();
    Ok(all)
}

/// A hole as the head names it; the reason is cut to what the format takes.
fn hole(kind: &str, of: String, error: &dyn std::error::Error) -> Hole {
    let mut why: String = error.to_string();
    why.retain(|c| !c.is_control());
    why.truncate(why.floor_char_boundary(MAX_REASON));
    Hole {
        kind: kind.to_owned(),
        of,
        why,
    }
}

async fn one(scope: &Scope<'_>, item: Item) -> Result<Collected, CreateError> {
    match item {
        Item::Chart(pin, by) => chart::pinned(scope, pin, by).await,
        Item::FurtherChart(chart) => chart::further(scope, chart).await,
        Item::File(file) => match tokio::task::spawn_blocking(move || file::collect(&file)).await {
            Ok(collected) => collected,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        },
        Item::Tree(reference, by) => {
            let mut collected = Collected::default();
            let found = graph::collect(scope, &reference, Class::Tree, &mut collected).await?;
            collected.trees.push(HeadTree {
                reference,
                manifest: found.manifest,
                packages: by.into_iter().collect(),
            });
            Ok(collected)
        }
        Item::Image(reference, wanted) if wanted.may_lack => {
            let sure = Wanted {
                may_lack: false,
                ..wanted
            };
            let item = Item::Image(reference.clone(), sure);
            match Box::pin(one(scope, item)).await {
                Err(error) if !matches!(&error, CreateError::Remote(error) if error.is_of_us()) => {
                    let mut none = Collected::default();
                    none.notes.push(lacking(&reference, &error));
                    Ok(none)
                }
                found => found,
            }
        }
        Item::Image(reference, wanted) => {
            let mut collected = Collected::default();
            let found = graph::collect(scope, &reference, Class::Layer, &mut collected).await?;
            collected.images.push(HeadImage {
                untagged: wanted.untagged,
                reference,
                manifest: found.manifest,
                platforms: found.platforms,
                file: None,
                sparse: found.sparse,
                packages: wanted.by.into_iter().collect(),
                pinned: wanted.pinned,
            });
            Ok(collected)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::descriptor::media_type;

    #[test]
    fn the_lowest_use_decides_whoever_comes_first() {
        let bytes = Bytes::from_static(b"x");
        let blob = Descriptor::new(media_type::OCI_MANIFEST, Digest::sha256(&bytes), 1);
        let from: Reference = "ghcr.io/a/b:1".parse().unwrap();
        let uses = [Class::Layer, Class::Config, Class::Chart];
        for turn in 0..uses.len() {
            let mut collected = Collected::default();
            for n in 0..uses.len() {
                collected.want_of(&from, &blob, uses[(turn + n) % uses.len()]);
            }
            assert_eq!(collected.sources[&blob.digest].class, Class::Config);
            // what is here is not fetched, before or after it is wanted
            collected.have(blob.digest, Class::Layer, bytes.clone());
            collected.want_of(&from, &blob, Class::Layer);
            assert!(collected.sources.is_empty());
            assert_eq!(collected.here[&blob.digest].0, Class::Config);
            assert_eq!(collected.len(), 1);
        }
    }

    #[test]
    fn the_order_of_merging_shows_nowhere() {
        let from: Reference = "ghcr.io/a/b:1".parse().unwrap();
        let part = |text: &'static str, here: bool, class| {
            let bytes = Bytes::from_static(text.as_bytes());
            let blob = Descriptor::new("a/b", Digest::sha256(&bytes), bytes.len() as u64);
            let mut part = Collected::default();
            match here {
                true => part.have(blob.digest, class, bytes),
                false => part.want_of(&from, &blob, class),
            }
            part
        };
        let parts = || {
            vec![
                part("x", true, Class::Layer),
                part("x", false, Class::Tree),
                part("y", false, Class::Layer),
                part("y", false, Class::Config),
            ]
        };
        let merged = |parts: Vec<Collected>| {
            let mut all = Collected::default();
            parts.into_iter().for_each(|part| all.merge(part));
            crate::assemble::assemble(&[], Vec::new(), &[], &all)
        };
        let there = merged(parts());
        let back = merged(parts().into_iter().rev().collect());
        assert_eq!(there, back);
        let classes: Vec<Class> = there.blobs.iter().map(|blob| blob.class).collect();
        assert_eq!(classes, [Class::Config, Class::Tree]);
    }
}
