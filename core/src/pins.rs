//! What signed packages pin: the charts, trees and images a bundle of them carries, no more
//! and no less. Creation and import read it here, so they cannot disagree.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Chart, PackageSourceSpec};
use crate::digest::{Digest, ParseDigestError};
use crate::error::{Classify, Kind};
use crate::location::{CanonicalUrl, UrlError};
use crate::name::PackageName;
use crate::reference::{ParseReferenceError, Reference};

/// A chart as a package names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChartPin {
    /// Chart repository, canonical.
    pub repository: CanonicalUrl,
    /// Chart name.
    pub name: String,
    /// Chart version, as written.
    pub version: String,
    /// Digest of the archive.
    pub archive: Digest,
}

/// Everything some packages pin, each with the packages that do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Charts.
    pub charts: BTreeMap<ChartPin, BTreeSet<PackageName>>,
    /// Package trees, by reference with digest.
    pub trees: BTreeMap<Reference, BTreeSet<PackageName>>,
    /// Images by reference with digest.
    pub images: BTreeMap<Reference, BTreeSet<PackageName>>,
    /// Images named by tag only: nothing signed says which bytes they are.
    pub unpinned: BTreeMap<Reference, BTreeSet<PackageName>>,
    /// Packages that have charts or trees and name no image at all.
    pub without_images: BTreeSet<PackageName>,
}

/// A package names something that cannot be carried.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("package {package}: {why}")]
pub struct PinError {
    /// The package.
    pub package: PackageName,
    /// What is wrong.
    pub why: PinProblem,
}

/// What is wrong with a pin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinProblem {
    /// A chart has no digest.
    #[error("chart {name} {version} is not pinned by digest")]
    ChartUnpinned {
        /// Chart name.
        name: String,
        /// Chart version.
        version: String,
    },
    /// A chart's digest is not legal.
    #[error("chart {name}: {source}")]
    ChartDigest {
        /// Chart name.
        name: String,
        /// What is wrong with it.
        source: ParseDigestError,
    },
    /// A chart's repository is not legal.
    #[error("chart {name}: {source}")]
    ChartRepository {
        /// Chart name.
        name: String,
        /// What is wrong with it.
        source: UrlError,
    },
    /// A component lives in a package tree that is not pinned.
    #[error("its package tree \"{0}\" is not pinned: a published version names oci://…@sha256:…")]
    TreeUnpinned(String),
    /// A reference is not legal.
    #[error(transparent)]
    Reference(#[from] ParseReferenceError),
}

impl Classify for PinError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn hint(&self) -> Option<String> {
        Some(
            "this is a fault of the published package; ask those who sign the repository"
                .to_owned(),
        )
    }
}

impl Pins {
    /// Adds what `spec`, the spec of `package`, pins: the charts of every variant, the tree
    /// its components with a path live in, and its images.
    pub fn add(&mut self, package: &PackageName, spec: &PackageSourceSpec) -> Result<(), PinError> {
        let fail = |why| PinError {
            package: package.clone(),
            why,
        };
        for used in spec.charts() {
            let pin = chart_pin(used.chart).map_err(fail)?;
            self.charts.entry(pin).or_default().insert(package.clone());
        }
        if spec.uses_tree() {
            let url = spec.tree().unwrap_or_default();
            let unpinned = || fail(PinProblem::TreeUnpinned(url.to_owned()));
            let tree: Reference = url.parse().map_err(|_| unpinned())?;
            if tree.digest().is_none() || !url.starts_with("oci://") {
                return Err(unpinned());
            }
            self.trees.entry(tree).or_default().insert(package.clone());
        }
        for image in &spec.images {
            let image: Reference = image
                .parse()
                .map_err(|e: ParseReferenceError| fail(e.into()))?;
            let list = if image.digest().is_some() {
                &mut self.images
            } else {
                &mut self.unpinned
            };
            list.entry(image).or_default().insert(package.clone());
        }
        if spec.images.is_empty() && (spec.uses_tree() || spec.charts().next().is_some()) {
            self.without_images.insert(package.clone());
        }
        Ok(())
    }
}

/// The pin of one chart of a component.
fn chart_pin(chart: &Chart) -> Result<ChartPin, PinProblem> {
    let (name, version) = (chart.name.clone(), chart.version.clone());
    if chart.digest.is_empty() {
        return Err(PinProblem::ChartUnpinned { name, version });
    }
    let repository = chart
        .repository
        .parse()
        .map_err(|source| PinProblem::ChartRepository {
            name: name.clone(),
            source,
        })?;
    let archive = chart
        .digest
        .parse()
        .map_err(|source| PinProblem::ChartDigest {
            name: name.clone(),
            source,
        })?;
    Ok(ChartPin {
        repository,
        name,
        version,
        archive,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn pins(spec: &str) -> Result<Pins, PinError> {
        let spec: PackageSourceSpec = yaml::strict::from_str(spec).unwrap();
        let mut pins = Pins::default();
        pins.add(&"web".parse().unwrap(), &spec)?;
        Ok(pins)
    }

    const D: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    #[test]
    fn charts_of_every_variant_count_once() {
        let chart = format!(
            "{{repository: https://Charts.example.org, name: web, version: 1.0.0, digest: '{D}'}}"
        );
        let spec = format!(
            "version: 1.0.0\nvariants:\n- name: a\n  components: [{{name: x, chart: {chart}}}]\n- name: b\n  components: [{{name: x, chart: {chart}}}]\nimages: ['nginx:1@{D}', 'busybox:1']\n"
        );
        let pins = pins(&spec).unwrap();
        assert_eq!(pins.charts.len(), 1);
        assert_eq!(
            pins.charts.keys().next().unwrap().repository.as_str(),
            "https://charts.example.org"
        );
        assert_eq!(
            (
                pins.images.len(),
                pins.unpinned.len(),
                pins.without_images.len()
            ),
            (1, 1, 0)
        );
    }

    #[test]
    fn what_is_not_pinned_is_refused() {
        let chart = "version: 1.0.0\nvariants: [{name: a, components: [{name: x, chart: {repository: 'https://c.example.org', name: web, version: 1.0.0}}]}]\n";
        assert!(matches!(
            pins(chart).unwrap_err().why,
            PinProblem::ChartUnpinned { .. }
        ));
        let tree = "version: 1.0.0\nsourceRef: {kind: OCIArtifact, url: 'oci://ghcr.io/a/b:1'}\nvariants: [{name: a, components: [{name: x, path: charts/x}]}]\n";
        assert!(matches!(
            pins(tree).unwrap_err().why,
            PinProblem::TreeUnpinned(_)
        ));
    }
}
