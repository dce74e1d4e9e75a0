//! Where the content of a bundle belongs in a mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::closure::Closure;
use super::node::Node;
use crate::bundle::head::Head;
use crate::digest::Digest;
use crate::error::{Classify, Kind};
use crate::location::{CanonicalUrl, LocationError, mirror_repository};
use crate::name::{NameError, PackageName, RepositoryName, Tag};
use crate::store::ManifestEntry;

/// Most blobs in all repositories, counted once for each; see the like limit of manifests.
const MAX_BLOB_PLACES: usize = 4_000_000;

/// Most bytes of annotations and artifact types in all repositories, counted once for each: a
/// store keeps them among its names. 100 000 manifests with what real ones have are 50 MiB.
const MAX_TEXT: usize = 128 * 1024 * 1024;

/// An upstream location: a repository in a registry, or a chart of a classic Helm repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upstream {
    /// Whether it is a chart of a classic Helm repository (found by HTTP, not in a registry).
    pub helm: bool,
    /// `host[:port]`.
    pub host: String,
    /// Path below the host, without slashes at its ends.
    pub path: String,
}

impl Upstream {
    /// A repository in a registry.
    pub fn registry(host: &str, path: &str) -> Upstream {
        Upstream {
            helm: false,
            host: host.to_owned(),
            path: path.to_owned(),
        }
    }

    /// A repository in a registry, from `host/path`.
    pub fn of_registry(repository: &str) -> Upstream {
        let (host, path) = repository.split_once('/').unwrap_or((repository, ""));
        Upstream::registry(host, path)
    }

    /// The chart `name` of the chart repository `url`.
    pub fn chart(url: &CanonicalUrl, name: &str) -> Upstream {
        let base = url.path().trim_matches('/');
        Upstream {
            helm: url.scheme() != "oci",
            host: url.host().to_owned(),
            path: match base {
                "" => name.to_owned(),
                base => format!("{base}/{name}"),
            },
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.helm {
            "Helm chart"
        } else {
            "repository"
        };
        write!(f, "{kind} {}/{}", self.host, self.path)
    }
}

/// What a tag points at, and the packages that ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged {
    /// The manifest.
    pub digest: Digest,
    /// Packages that pin it, sorted; empty for the tag of a referrer, and for content that
    /// belongs to no package.
    pub packages: Vec<PackageName>,
}

/// One repository of a mirror, and what of the bundle belongs there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The repository in the mirror.
    pub repository: RepositoryName,
    /// Where it came from.
    pub upstream: Upstream,
    /// Whether a package has content here. Otherwise only whoever made the bundle says that it
    /// comes from there.
    pub by_package: bool,
    /// Its manifests, as a store keeps them.
    pub manifests: BTreeMap<Digest, ManifestEntry>,
    /// Configs, archives and layers these manifests name, with their sizes.
    pub blobs: BTreeMap<Digest, u64>,
    /// Its tags.
    pub tags: BTreeMap<Tag, Tagged>,
}

/// Why content has no single place in a mirror.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// A location that cannot be mapped.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// Two upstream locations have one place.
    #[error("{first} and {second} would both become {repository} in a mirror")]
    Meet {
        /// The place.
        repository: RepositoryName,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// One tag points at two manifests.
    #[error("{repository}:{tag} is {first} and also {second}")]
    Tag {
        /// The repository in the mirror.
        repository: RepositoryName,
        /// The tag.
        tag: Tag,
        /// One manifest, and who wants it.
        first: String,
        /// The other.
        second: String,
    },
    /// The same blobs are asked for in very many repositories.
    #[error("its repositories have more than {MAX_BLOB_PLACES} blobs in sum")]
    TooWide,
    /// A store would have to keep very much text.
    #[error("its manifests have more than {MAX_TEXT} bytes of annotations in sum")]
    Text,
    /// The version of a chart makes no tag.
    #[error("chart {chart}: {source}")]
    ChartTag {
        /// The chart.
        chart: String,
        /// The rule.
        source: NameError,
    },
}

impl Classify for PlacementError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            PlacementError::Meet { .. } => {
                "carry the two in separate bundles to separate mirrors, or rename one upstream"
            }
            PlacementError::Tag { .. } => "choose one when the bundle is created: --tag REF=DIGEST",
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// The content of a bundle by repository of a mirror, sorted by name.
pub fn placements(head: &Head, closure: &Closure) -> Result<Vec<Placement>, PlacementError> {
    let mut places: BTreeMap<RepositoryName, Placement> = BTreeMap::new();
    let (mut blobs, mut text) = (0, 0);
    let packaged = packaged(head);
    for (upstream, digests) in &closure.members {
        let repository = mirror_repository(&upstream.host, &upstream.path)?;
        if let Some(other) = places.get(&repository) {
            return Err(PlacementError::Meet {
                repository,
                first: other.upstream.to_string(),
                second: upstream.to_string(),
            });
        }
        let mut place = Placement {
            repository: repository.clone(),
            upstream: upstream.clone(),
            by_package: packaged.contains(upstream),
            manifests: BTreeMap::new(),
            blobs: BTreeMap::new(),
            tags: BTreeMap::new(),
        };
        for digest in digests {
            place.add(digest, closure);
            text += closure.manifests.get(digest).map_or(0, Node::kept_text);
            if text > MAX_TEXT {
                return Err(PlacementError::Text);
            }
            if blobs + place.blobs.len() > MAX_BLOB_PLACES {
                return Err(PlacementError::TooWide);
            }
        }
        blobs += place.blobs.len();
        places.insert(repository, place);
    }
    let mut tag = |upstream: Upstream, tag: &Tag, digest, packages: &[PackageName]| {
        let repository = mirror_repository(&upstream.host, &upstream.path)?;
        match places.get_mut(&repository) {
            Some(place) => place.tag(tag, digest, packages),
            None => Ok(()),
        }
    };
    for chart in &head.charts {
        let name = chart
            .tag()
            .parse()
            .map_err(|source| PlacementError::ChartTag {
                chart: format!("{} {}", chart.name, chart.version),
                source,
            })?;
        let upstream = Upstream::chart(&chart.repository, &chart.name);
        tag(upstream, &name, chart.manifest.digest, &chart.packages)?;
    }
    let trees = head
        .trees
        .iter()
        .map(|tree| (&tree.reference, &tree.manifest, &tree.packages));
    let images = head
        .images
        .iter()
        .filter(|image| !image.untagged)
        .map(|image| (&image.reference, &image.manifest, &image.packages));
    for (reference, manifest, packages) in trees.chain(images) {
        if let Some(name) = reference.tag() {
            let upstream = Upstream::registry(reference.host(), reference.path());
            tag(upstream, name, manifest.digest, packages)?;
        }
    }
    for referrer in &head.referrers {
        if let Some(name) = &referrer.tag {
            let upstream = Upstream::of_registry(&referrer.repository);
            tag(upstream, name, referrer.manifest.digest, &[])?;
        }
    }
    Ok(places.into_values().collect())
}

/// The locations where a package has content.
fn packaged(head: &Head) -> BTreeSet<Upstream> {
    let charts = head.charts.iter().filter(|chart| !chart.is_unpackaged());
    let charts = charts.map(|chart| Upstream::chart(&chart.repository, &chart.name));
    let images = head.images.iter().filter(|image| !image.is_unpackaged());
    let references = images.map(|image| &image.reference);
    let references = references.chain(head.trees.iter().map(|tree| &tree.reference));
    let registries = references.map(|at| Upstream::registry(at.host(), at.path()));
    charts.chain(registries).collect()
}

impl Placement {
    fn add(&mut self, digest: &Digest, closure: &Closure) {
        let Some(node) = closure.manifests.get(digest) else {
            return;
        };
        self.manifests.insert(*digest, node.entry.clone());
        self.blobs.extend(node.blobs.iter().copied());
    }

    fn tag(
        &mut self,
        tag: &Tag,
        digest: Digest,
        packages: &[PackageName],
    ) -> Result<(), PlacementError> {
        let tagged = self.tags.entry(tag.clone()).or_insert_with(|| Tagged {
            digest,
            packages: Vec::new(),
        });
        if tagged.digest != digest {
            return Err(PlacementError::Tag {
                repository: self.repository.clone(),
                tag: tag.clone(),
                first: wanted(&tagged.digest, &tagged.packages),
                second: wanted(&digest, packages),
            });
        }
        tagged.packages.extend_from_slice(packages);
        tagged.packages.sort();
        tagged.packages.dedup();
        Ok(())
    }
}

fn wanted(digest: &Digest, packages: &[PackageName]) -> String {
    if packages.is_empty() {
        return digest.to_string();
    }
    let names: Vec<&str> = packages.iter().map(PackageName::as_str).collect();
    format!("{digest} (wanted by {})", names.join(", "))
}
