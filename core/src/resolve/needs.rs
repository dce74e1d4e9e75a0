//! What a package requires: read from its spec, per variant.

use super::{Origin, Unmet, Variants};
use crate::api::{PackageSourceSpec, Variant};
use crate::select::Selection;
use crate::version::{Constraint, ConstraintError};

/// Whose requirements count, and which.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope<'a> {
    pub(super) variants: &'a Variants,
    pub(super) with_optional: bool,
}

/// A package is wanted.
#[derive(Clone, Debug)]
pub(super) struct Need {
    pub(super) package: String,
    /// Illegal constraints are an error only when the search comes to them: an old version
    /// nobody takes may say what it likes.
    pub(super) constraint: Result<Option<Constraint>, ConstraintError>,
    pub(super) by: Origin,
    pub(super) optional: bool,
}

impl Need {
    /// The constraint as text, with who set it.
    pub(super) fn shown(&self) -> (Option<String>, Origin) {
        let constraint = match &self.constraint {
            Ok(constraint) => constraint.as_ref().map(ToString::to_string),
            Err(_) => None,
        };
        (constraint, self.by.clone())
    }
}

impl Scope<'_> {
    /// The packages that `release` of `package` requires.
    pub(super) fn needs(self, package: &str, release: &Selection<'_>) -> Vec<Need> {
        let mut needs = Vec::new();
        for (variant, by) in self.variants(package, release) {
            for name in &variant.depends_on {
                needs.push(Need {
                    package: name.clone(),
                    constraint: Ok(None),
                    by: by.clone(),
                    optional: false,
                });
            }
            for requirement in &variant.requires {
                if requirement.package.is_empty() || requirement.optional && !self.with_optional {
                    continue;
                }
                needs.push(Need {
                    package: requirement.package.clone(),
                    constraint: Constraint::parse_optional(&requirement.version),
                    by: by.clone(),
                    optional: requirement.optional,
                });
            }
        }
        needs
    }

    /// The capabilities that `release` of `package` requires, not counting optional ones.
    pub(super) fn capabilities(self, package: &str, release: &Selection<'_>) -> Vec<Unmet> {
        let mut unmet = Vec::new();
        for (variant, by) in self.variants(package, release) {
            for requirement in &variant.requires {
                if !requirement.capability.is_empty() && !requirement.optional {
                    unmet.push(Unmet {
                        what: requirement.capability.clone(),
                        by: by.clone(),
                    });
                }
            }
        }
        unmet
    }

    /// The variants that count, each with how it is named as the origin of a need.
    fn variants<'r>(self, package: &str, release: &Selection<'r>) -> Vec<(&'r Variant, Origin)> {
        let spec: &'r PackageSourceSpec = release.listed.spec();
        let counts: Vec<&Variant> = match self.variants {
            Variants::All => spec.variants.iter().collect(),
            Variants::Named(names) => names
                .iter()
                .filter_map(|name| spec.variants.iter().rfind(|v| v.name == *name))
                .collect(),
        };
        counts
            .into_iter()
            .map(|variant| {
                let by = Origin::Package {
                    name: package.to_owned(),
                    version: release.listed.version.clone(),
                    variant: (spec.variants.len() > 1).then(|| variant.name.clone()),
                };
                (variant, by)
            })
            .collect()
    }
}
