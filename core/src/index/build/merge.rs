//! Taking over what is published already: versions never go, and never change.

use super::spec::Spec;
use super::{BuildError, Draft, DraftChart, Relocation, Version, label, sort};
use crate::api::PackageSourceSpec;
use crate::index::{Index, IndexPackage, IndexVersion, LeftOutWhy};
use crate::version::Version as Semver;

/// What a merge took over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Versions of the published index that were not in the draft.
    pub kept: usize,
    /// Charts that are elsewhere now: each must be there, with the digest it was published
    /// with.
    pub moved: Vec<DraftChart>,
}

impl Draft {
    /// A draft of what `base` has, to withdraw from or to write anew.
    pub fn of(base: &Index) -> Result<Draft, BuildError> {
        let mut draft = Draft::default();
        draft.merge(base, &[])?;
        Ok(draft)
    }

    /// Takes over every version of `base`, with the signatures, withdrawals and approvals
    /// that stand beside it, and the repository it names where this draft names none. Charts
    /// and trees of published versions move as `moves` say.
    ///
    /// That `base` is signed by the right keys is for the caller to check.
    pub fn merge(&mut self, base: &Index, moves: &[Relocation]) -> Result<Merged, BuildError> {
        refuse_newer(base)?;
        let mut merged = Merged::default();
        let mut moved = Draft::default();
        for (name, package) in &base.packages {
            for published in &package.versions {
                let version = self.published(name, package, published, moves)?;
                if let Spec::Own(_) = &version.spec {
                    moved
                        .packages
                        .entry(name.clone())
                        .or_default()
                        .push(version.clone());
                }
                let versions = self.packages.entry(name.clone()).or_default();
                let same = versions.iter_mut().find(|own| own.is(&version));
                match same {
                    Some(own) => own.join(name, version)?,
                    None => {
                        merged.kept += 1;
                        versions.push(version);
                    }
                }
            }
        }
        self.packages.retain(|_, versions| !versions.is_empty());
        self.packages
            .values_mut()
            .for_each(|versions| sort(versions));
        self.repository = self.repository.take().or_else(|| base.repository.clone());
        merged.moved = moved.charts();
        merged
            .moved
            .retain(|used| moves.iter().any(|to| to.leads_to(&used.chart.repository)));
        Ok(merged)
    }

    /// A version of the published index as one of this draft.
    fn published(
        &self,
        name: &str,
        package: &IndexPackage,
        published: &IndexVersion,
        moves: &[Relocation],
    ) -> Result<Version, BuildError> {
        let exact = Semver::parse_published(&published.version)
            .map_err(|_| BuildError::NotListed(name.to_owned()))?;
        let mut version = Version {
            exact,
            place: None,
            description: package.description.clone(),
            home: package.home.clone(),
            signatures: published.signatures.clone(),
            withdrawn: published.withdrawn.clone(),
            approvals: published.approvals.clone(),
            text: published.version.clone(),
            build: i32::try_from(published.build).unwrap_or(i32::MAX),
            spec: Spec::published(published),
        };
        if moves.iter().all(|to| !published.may_mention(to.from())) {
            return Ok(version);
        }
        let mut spec = published.spec.decoded().into_owned();
        if super::relocate::apply(&mut spec, moves) {
            if !version.signatures.is_empty() || !version.approvals.is_empty() {
                return Err(BuildError::Signed {
                    package: label(name, &spec),
                });
            }
            version.spec = Spec::Own(spec.into());
        }
        Ok(version)
    }
}

fn refuse_newer(base: &Index) -> Result<(), BuildError> {
    let newer = |left: &&crate::index::LeftOut| matches!(left.why, LeftOutWhy::Newer { .. });
    let mut newer = base.left_out.iter().filter(newer);
    match newer.next() {
        None => Ok(()),
        Some(first) => Err(BuildError::Newer {
            first: first.to_string(),
            count: 1 + newer.count(),
        }),
    }
}

impl Version {
    /// Whether this is the same version and build as the published `other`. Of published
    /// ones only the very same are one: what stands in an index stays there.
    fn is(&self, other: &Version) -> bool {
        let unlike = self.place.is_none() && self.spec.digest() != other.spec.digest();
        !unlike
            && self.build == other.build
            && self.text.trim_start_matches('v') == other.text.trim_start_matches('v')
    }

    /// Makes of this version and the published one a single one.
    fn join(&mut self, name: &str, published: Version) -> Result<(), BuildError> {
        let theirs = published.spec.get();
        if let Some(spec) = self.spec.own_mut() {
            pin_alike(spec, &theirs);
        }
        if self.spec.digest() != published.spec.digest() {
            let package = label(name, &self.spec.get());
            let (file, line) = self.place.take().unwrap_or_default();
            return Err(BuildError::Published {
                file,
                line,
                package,
            });
        }
        self.place = None;
        drop(theirs);
        let more = std::mem::replace(&mut self.signatures, published.signatures);
        for signature in more {
            if !self.signatures.contains(&signature) {
                self.signatures.push(signature);
            }
        }
        let more = std::mem::replace(&mut self.approvals, published.approvals);
        for approval in more {
            if !self.approvals.contains(&approval) {
                self.approvals.push(approval);
            }
        }
        self.withdrawn = self.withdrawn.take().or(published.withdrawn);
        self.spec = published.spec;
        Ok(())
    }
}

/// Gives the charts of `spec` the digests they were published with: a recipe that is not
/// pinned is built again as it was, whatever its chart repository serves by now.
fn pin_alike(spec: &mut PackageSourceSpec, published: &PackageSourceSpec) {
    for (variant, theirs) in spec.variants.iter_mut().zip(&published.variants) {
        for (component, theirs) in variant.components.iter_mut().zip(&theirs.components) {
            let (Some(chart), Some(theirs)) = (&mut component.chart, &theirs.chart) else {
                continue;
            };
            let same = (&chart.repository, &chart.name, &chart.version)
                == (&theirs.repository, &theirs.name, &theirs.version);
            if same && chart.digest.is_empty() {
                chart.digest.clone_from(&theirs.digest);
            }
        }
    }
}
