//! Closure: from charts, trees, images and referrers down to the last layer, everything is in
//! the bundle, is what it is said to be, and nothing else is there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::charts;
use super::fault::{ClosureError, Fault, MAX_MEMBERSHIPS};
use super::node::{MAX_ANNOTATIONS, Node};
use super::placement::Upstream;
use crate::bundle::format::{FOREIGN_LAYERS, MAX_REFERRER_DEPTH, MAX_REFERRERS};
use crate::bundle::head::{ATTESTATION, Class, Head, HeadBlob, HeadChart, HeadImage, HeadReferrer};
use crate::descriptor::{Descriptor, Platform, media_type};
use crate::digest::{Algorithm, Digest};
use crate::error::shown;
use crate::manifest::{Content, MAX_NESTING, Manifest};
use crate::sparse;

/// Most faults that are kept; a hostile bundle could have millions.
const MAX_FAULTS: usize = 10_000;

/// A bundle whose manifests and head agree.
#[derive(Clone, Debug, Default)]
pub struct Closure {
    pub(super) manifests: BTreeMap<Digest, Node>,
    /// Layers that are not carried because they may not be distributed, and the first place
    /// where each is said to be.
    elsewhere: BTreeMap<Digest, Option<String>>,
    pub(super) members: BTreeMap<Upstream, BTreeSet<Digest>>,
}

impl Closure {
    /// The digests of all manifests.
    pub fn manifests(&self) -> impl Iterator<Item = &Digest> {
        self.manifests.keys()
    }

    /// The manifests that the manifest `digest` names.
    pub fn children(&self, digest: &Digest) -> &[Digest] {
        self.manifests
            .get(digest)
            .map_or(&[], |node| node.children.as_slice())
    }

    /// What the manifest `digest` is made of: its layers, or the manifests of an index. `None`
    /// when it is not in the bundle.
    pub fn parts(&self, digest: &Digest) -> Option<BTreeSet<Digest>> {
        let node = self.manifests.get(digest)?;
        // the config comes first and only says what layers there are
        let layers = node.blobs.iter().skip(1).map(|(digest, _)| *digest);
        Some(layers.chain(node.children.iter().copied()).collect())
    }

    /// The platforms an image is for, as its index says, and that are not carried, at any depth
    /// of it.
    pub fn left_out(&self, digest: &Digest) -> &[Platform] {
        self.manifests
            .get(digest)
            .map_or(&[], |node| node.left_out.as_slice())
    }

    /// The archive and the provenance file of the chart that this manifest carries; `None` when it
    /// is no chart.
    pub fn chart(&self, digest: &Digest) -> Option<(Digest, Option<Digest>)> {
        let chart = self.manifests.get(digest)?.chart.as_ref().ok()?;
        Some((chart.archive, chart.provenance.map(|(file, _)| file)))
    }

    /// The layers that are not carried because they may not be distributed, each with the
    /// first place where its manifest says that it is.
    pub fn elsewhere(&self) -> impl Iterator<Item = (&Digest, Option<&str>)> {
        self.elsewhere
            .iter()
            .map(|(digest, place)| (digest, place.as_deref()))
    }

    /// The platforms of an image that are carried, as its index says. Empty for a plain manifest, which says
    /// it only in its config.
    pub fn platforms(&self, digest: &Digest) -> &[Platform] {
        let node = self.manifests.get(digest);
        node.and_then(|node| node.platforms.as_deref())
            .unwrap_or_default()
    }
}

/// Walks the bundle from `head`. `read` gives the bytes of a manifest; they are checked against
/// their digest here. All faults are collected, so that one run names everything that is
/// missing; an error of `read` ends the walk at once.
pub fn closure<E: From<ClosureError>>(
    head: &Head,
    read: impl FnMut(&HeadBlob) -> Result<Vec<u8>, E>,
) -> Result<Closure, E> {
    let mut walk = Walk {
        blobs: head.blobs.iter().map(|blob| (blob.digest, blob)).collect(),
        read,
        wanted: &head.platforms,
        holes: holes(head),
        foreign: head.requires(FOREIGN_LAYERS),
        found: Closure::default(),
        done: HashMap::new(),
        active: HashSet::new(),
        uses: HashMap::new(),
        broken: HashSet::new(),
        missing: HashSet::new(),
        absent: HashSet::new(),
        memberships: 0,
        too_wide: false,
        incomplete: false,
        faults: Vec::new(),
    };
    walk.roots(head)?;
    walk.referrers(head)?;
    walk.check_blobs(head);
    walk.check_holes(head);
    if walk.too_wide {
        walk.fault(Fault::TooWide);
    }
    if walk.faults.is_empty() {
        Ok(walk.found)
    } else {
        Err(E::from(ClosureError {
            faults: walk.faults,
        }))
    }
}

fn hole_digest(of: &str) -> Option<Digest> {
    of.split_once('@')?.1.parse().ok()
}

/// The attestations that are said to be missing.
fn holes(head: &Head) -> HashSet<Digest> {
    let holes = head.holes.iter().filter(|hole| hole.kind == ATTESTATION);
    holes.filter_map(|hole| hole_digest(&hole.of)).collect()
}

struct Walk<'a, F> {
    blobs: HashMap<Digest, &'a HeadBlob>,
    read: F,
    /// The platforms the bundle is made for.
    wanted: &'a [Platform],
    /// Attestations that may be missing.
    holes: HashSet<Digest>,
    /// Whether layers that may not be distributed may be missing.
    foreign: bool,
    found: Closure,
    /// Manifests walked with the class of their layers, and how many indexes lie in and below.
    done: HashMap<(Digest, Class), usize>,
    /// Manifests on the way from the root to here.
    active: HashSet<Digest>,
    uses: HashMap<Digest, Class>,
    /// Manifests that were read and are none; they are not read again.
    broken: HashSet<Digest>,
    missing: HashSet<Digest>,
    /// The attestations of [`Walk::holes`] that an index names and that are missing.
    absent: HashSet<Digest>,
    memberships: usize,
    too_wide: bool,
    /// Some manifest could not be followed; what lies below it is then named by nobody.
    incomplete: bool,
    faults: Vec<Fault>,
}

/// Where a walk stands.
#[derive(Clone, Copy)]
struct At<'a> {
    /// Class of layers found from here on.
    layers: Class,
    /// Indexes on the way here.
    depth: usize,
    /// Who names what is visited.
    by: &'a str,
    /// It is part of an image, of which platforms may be left out.
    image: bool,
}

impl<F, E> Walk<'_, F>
where
    F: FnMut(&HeadBlob) -> Result<Vec<u8>, E>,
{
    fn fault(&mut self, fault: Fault) {
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }

    fn roots(&mut self, head: &Head) -> Result<(), E> {
        for chart in &head.charts {
            let by = format!("chart {} {}", chart.name, chart.version);
            let upstream = Upstream::chart(&chart.repository, &chart.name);
            self.root(&chart.manifest, Class::Chart, false, &by, upstream)?;
            self.check_chart(chart);
        }
        for tree in &head.trees {
            let by = format!("tree {}", tree.reference);
            let upstream = Upstream::registry(tree.reference.host(), tree.reference.path());
            self.root(&tree.manifest, Class::Tree, false, &by, upstream)?;
        }
        for image in &head.images {
            let by = format!("image {}", image.reference);
            let upstream = Upstream::registry(image.reference.host(), image.reference.path());
            self.root(&image.manifest, Class::Layer, true, &by, upstream)?;
            self.check_platforms(image);
            self.check_sparse(image);
            self.check_file(image);
        }
        Ok(())
    }

    fn root(
        &mut self,
        manifest: &Descriptor,
        layers: Class,
        image: bool,
        by: &str,
        upstream: Upstream,
    ) -> Result<(), E> {
        let at = At {
            layers,
            depth: 0,
            by,
            image,
        };
        self.visit(manifest, at)?;
        if self.memberships > MAX_MEMBERSHIPS {
            self.too_wide = true;
            return Ok(());
        }
        let mut members = self.found.members.remove(&upstream).unwrap_or_default();
        let before = members.len();
        self.collect(&manifest.digest, MAX_NESTING, &mut members);
        self.memberships += members.len() - before;
        self.found.members.insert(upstream, members);
        Ok(())
    }

    /// Adds the manifest and everything below it that was found, down to the depth that a
    /// sound bundle can have.
    fn collect(&self, digest: &Digest, depth: usize, into: &mut BTreeSet<Digest>) {
        let Some(node) = self.found.manifests.get(digest) else {
            return;
        };
        if into.insert(*digest) && depth > 0 {
            for child in &node.children {
                self.collect(child, depth - 1, into);
            }
        }
    }

    /// Walks one manifest; gives the number of indexes in it and below.
    fn visit(&mut self, descriptor: &Descriptor, at: At<'_>) -> Result<usize, E> {
        let digest = descriptor.digest;
        if self.active.contains(&digest) {
            self.incomplete = true;
            self.fault(Fault::Nesting { digest });
            return Ok(0);
        }
        if !self.blob(descriptor, Class::Manifest, "manifest", at.by)
            || self.broken.contains(&digest)
        {
            self.incomplete = true;
            return Ok(0);
        }
        if let Some(node) = self.found.manifests.get(&digest)
            && node.entry.media_type != descriptor.media_type
        {
            let other = node.entry.media_type.to_string();
            self.fault(Fault::Type {
                digest,
                by: at.by.to_owned(),
                said: shown(&descriptor.media_type),
                other,
            });
            return Ok(0);
        }
        // Before anything is read: one index can be named a hundred thousand times.
        if let Some(below) = self.done.get(&(digest, at.layers)).copied() {
            if at.depth + below > MAX_NESTING {
                self.fault(Fault::Nesting { digest });
            }
            return Ok(below);
        }
        let Some(manifest) = self.load(descriptor, at.image)? else {
            self.broken.insert(digest);
            self.incomplete = true;
            return Ok(0);
        };
        let by = format!("manifest {digest}");
        let below = match manifest.content {
            Content::Image { config, layers } => {
                self.blob(&config, Class::Config, "config", &by);
                for layer in &layers {
                    self.blob(layer, at.layers, "layer", &by);
                }
                0
            }
            Content::Index(_) if at.depth >= MAX_NESTING => {
                self.incomplete = true;
                self.fault(Fault::Nesting { digest });
                1
            }
            Content::Index(children) => {
                self.active.insert(digest);
                let mut below = 0;
                for child in &children {
                    let at = At {
                        depth: at.depth + 1,
                        by: &by,
                        ..at
                    };
                    below = below.max(self.visit(child, at)?);
                }
                self.active.remove(&digest);
                self.lacks_below(digest, &children);
                below + 1
            }
        };
        self.done.insert((digest, at.layers), below);
        Ok(below)
    }

    /// Reads a manifest and keeps what is needed of it. `None` when it is no sound one.
    fn load(&mut self, descriptor: &Descriptor, image: bool) -> Result<Option<Manifest>, E> {
        let digest = descriptor.digest;
        let Some(blob) = self.blobs.get(&digest).copied() else {
            return Ok(None);
        };
        let bytes = (self.read)(blob)?;
        if bytes.len() as u64 != blob.size || !digest.matches(&bytes) {
            self.fault(Fault::Damaged { digest });
            return Ok(None);
        }
        let mut manifest = match Manifest::parse(&bytes, Some(&descriptor.media_type)) {
            Ok(manifest) => manifest,
            Err(source) => {
                self.fault(Fault::Manifest { digest, source });
                return Ok(None);
            }
        };
        let lacks = self.take_out(digest, image, &mut manifest.content);
        let mut node = Node::of(&manifest, blob.size);
        if let Some(platforms) = &lacks
            && !node.lacks(true, platforms.iter())
        {
            self.fault(Fault::LeftOut { digest });
        }
        let size = node.kept_text();
        if size > MAX_ANNOTATIONS {
            self.fault(Fault::Annotations { digest, size });
            return Ok(None);
        }
        self.found.manifests.insert(digest, node);
        Ok(Some(manifest))
    }

    /// Takes out of a manifest what a bundle of these platforms does not carry. Of an index
    /// that lacks something, gives the platforms left out.
    fn take_out(
        &mut self,
        digest: Digest,
        image: bool,
        content: &mut Content,
    ) -> Option<Vec<Platform>> {
        match content {
            Content::Index(children) => {
                // trees and referrers are small, and nobody could tell what they lack
                let wanted = if image { self.wanted } else { &[] };
                let selection = sparse::select(children, wanted);
                if selection.is_empty() {
                    self.fault(Fault::NoPlatform { digest });
                }
                let platforms = selection.platforms().cloned().collect();
                let all = children.len();
                let kept: Vec<Descriptor> = selection.kept.into_iter().cloned().collect();
                *children = kept;
                children.retain(|child| {
                    let absent = image
                        && sparse::is_attestation(child)
                        && self.holes.contains(&child.digest)
                        && !self.blobs.contains_key(&child.digest);
                    if absent {
                        self.absent.insert(child.digest);
                    }
                    !absent
                });
                (children.len() < all).then_some(platforms)
            }
            Content::Image { layers, .. } => {
                if self.foreign {
                    layers.retain(|layer| {
                        let absent = media_type::is_foreign_layer(&layer.media_type)
                            && !self.blobs.contains_key(&layer.digest);
                        if absent {
                            let place = layer.urls.first().map(|url| shown(url));
                            self.found.elsewhere.insert(layer.digest, place);
                        }
                        !absent
                    });
                }
                None
            }
        }
    }

    /// Notes of an index what its `children` lack.
    fn lacks_below(&mut self, digest: Digest, children: &[Descriptor]) {
        let Some(mut node) = self.found.manifests.remove(&digest) else {
            return;
        };
        let below = children
            .iter()
            .filter_map(|child| self.found.manifests.get(&child.digest));
        let mut fits = true;
        for child in below {
            fits &= node.lacks(child.sparse, child.left_out.iter());
        }
        self.found.manifests.insert(digest, node);
        if !fits {
            self.fault(Fault::LeftOut { digest });
        }
    }

    /// Notes a use of a blob. Gives whether it is there, with the right size.
    fn blob(
        &mut self,
        descriptor: &Descriptor,
        class: Class,
        what: &'static str,
        by: &str,
    ) -> bool {
        let digest = descriptor.digest;
        let use_of = self.uses.entry(digest).or_insert(class);
        *use_of = class.min(*use_of);
        match self.blobs.get(&digest) {
            Some(blob) if blob.assumed && class != Class::Layer => {}
            Some(blob) if blob.size == descriptor.size => return true,
            Some(blob) => {
                let fault = Fault::Size {
                    digest,
                    size: blob.size,
                    by: by.to_owned(),
                    said: descriptor.size,
                };
                self.fault(fault);
                return false;
            }
            None => {}
        }
        if self.missing.insert(digest) {
            self.fault(Fault::Missing {
                what,
                digest,
                by: by.to_owned(),
            });
        }
        false
    }

    fn check_chart(&mut self, chart: &HeadChart) {
        let Some(node) = self.found.manifests.get(&chart.manifest.digest) else {
            return;
        };
        let why = match &node.chart {
            Ok(blobs) if blobs.archive == chart.archive => return,
            Ok(_) => "it carries another one",
            Err(why) => why,
        };
        self.fault(charts::fault(chart, why));
    }

    /// An index says itself which platforms it is for.
    fn check_platforms(&mut self, image: &HeadImage) {
        let node = self.found.manifests.get(&image.manifest.digest);
        let Some(own) = node.and_then(|node| node.platforms.as_ref()) else {
            return;
        };
        if *own == image.platforms {
            return;
        }
        let (own, said) = (list(own), list(&image.platforms));
        self.fault(Fault::Platforms {
            image: image.reference.to_string(),
            own,
            said,
        });
    }

    /// An image says whether all of it is here.
    fn check_sparse(&mut self, image: &HeadImage) {
        let Some(node) = self.found.manifests.get(&image.manifest.digest) else {
            return;
        };
        if node.sparse != image.sparse {
            let said = if image.sparse { "sparse" } else { "whole" };
            self.fault(Fault::Sparse {
                image: image.reference.to_string(),
                said,
            });
        }
    }

    /// The manifest of a file follows from its name and content.
    fn check_file(&mut self, image: &HeadImage) {
        let Some(name) = &image.file else { return };
        let node = self.found.manifests.get(&image.manifest.digest);
        let Some(node) = node else { return };
        let own = match node.blobs.as_slice() {
            [_, (content, size)] => image.manifest.digest.matches(name.manifest(content, *size)),
            _ => false,
        };
        if !own {
            self.fault(Fault::File {
                image: image.reference.to_string(),
                name: shown(name.as_str()),
            });
        }
    }

    fn referrers(&mut self, head: &Head) -> Result<(), E> {
        let mut left: Vec<&HeadReferrer> = head.referrers.iter().collect();
        self.check_counts(&left);
        for _ in 0..MAX_REFERRER_DEPTH {
            let (now, later) = left
                .into_iter()
                .partition(|referrer| self.holds(&referrer.repository, &referrer.subject));
            left = later;
            for referrer in Vec::<&HeadReferrer>::clone(&now) {
                let by = format!("referrer of {}@{}", referrer.repository, referrer.subject);
                let upstream = Upstream::of_registry(&referrer.repository);
                self.root(&referrer.manifest, Class::Layer, false, &by, upstream)?;
                self.check_subject(referrer);
            }
        }
        for referrer in left {
            self.incomplete = true;
            self.fault(Fault::NoSubject {
                digest: referrer.manifest.digest,
                repository: referrer.repository.clone(),
                subject: referrer.subject,
            });
        }
        Ok(())
    }

    fn holds(&self, repository: &str, digest: &Digest) -> bool {
        self.found
            .members
            .get(&Upstream::of_registry(repository))
            .is_some_and(|members| members.contains(digest))
    }

    fn check_counts(&mut self, referrers: &[&HeadReferrer]) {
        let mut counts: BTreeMap<(&str, Digest), usize> = BTreeMap::new();
        for referrer in referrers {
            *counts
                .entry((&referrer.repository, referrer.subject))
                .or_default() += 1;
        }
        for ((repository, subject), count) in counts {
            if count > MAX_REFERRERS {
                self.fault(Fault::Referrers {
                    repository: repository.to_owned(),
                    subject,
                });
            }
        }
    }

    fn check_subject(&mut self, referrer: &HeadReferrer) {
        let Some(node) = self.found.manifests.get(&referrer.manifest.digest) else {
            return;
        };
        let about = match &node.entry.subject {
            Some(subject) => **subject == referrer.subject,
            // found by its tag, it says nothing of a subject itself
            None => referrer.tag.is_some(),
        };
        // nobody signs for a referrer, so it may take no tag that is looked up as an image
        if let Some(tag) = &referrer.tag
            && !is_tag_of(tag.as_str(), &referrer.subject)
        {
            self.fault(Fault::Tag {
                digest: referrer.manifest.digest,
                repository: referrer.repository.clone(),
                subject: referrer.subject,
                tag: tag.clone(),
            });
        }
        if !about {
            self.fault(Fault::Subject {
                digest: referrer.manifest.digest,
                repository: referrer.repository.clone(),
                subject: referrer.subject,
            });
        }
    }

    fn check_blobs(&mut self, head: &Head) {
        if self.incomplete {
            return;
        }
        for blob in &head.blobs {
            match self.uses.get(&blob.digest).copied() {
                None => self.fault(Fault::Unnamed {
                    digest: blob.digest,
                }),
                Some(used) if used != blob.class => self.fault(Fault::Class {
                    digest: blob.digest,
                    listed: blob.class,
                    used,
                }),
                Some(_) => {}
            }
        }
    }

    fn check_holes(&mut self, head: &Head) {
        for hole in &head.holes {
            let real = hole_digest(&hole.of).is_some_and(|digest| match hole.kind.as_str() {
                ATTESTATION => self.absent.contains(&digest),
                _ => self.found.manifests.contains_key(&digest),
            });
            if !real && !self.incomplete {
                self.fault(Fault::Hole {
                    kind: hole.kind.clone(),
                    of: hole.of.clone(),
                });
            }
        }
    }
}

/// Whether `tag` is one that says by its name that it is about `digest`: the referrers tag
/// (`sha256-…`, distribution specification, "Referrers Tag Schema") or cosign's
/// (`sha256-….sig`, `.att`, `.sbom`).
fn is_tag_of(tag: &str, digest: &Digest) -> bool {
    let hex = digest.hex();
    // the tag schema cuts the hash to 64 digits
    let cut = match digest.algorithm() {
        Algorithm::Sha256 | Algorithm::Sha512 => &hex[..64],
    };
    let prefix = format!("{}-{cut}", digest.algorithm().as_str());
    matches!(
        tag.strip_prefix(&prefix),
        Some("" | ".sig" | ".att" | ".sbom")
    )
}

fn list(platforms: &[Platform]) -> String {
    let names: Vec<String> = platforms.iter().map(Platform::to_string).collect();
    shown(&names.join(", "))
}
