//! Which repository supplies a package, and which of its versions is taken.
//!
//! The repository of the highest priority that carries a package at all supplies it; what
//! others carry under that name is not looked at, even where no version fits. So nobody can
//! slip in a package by publishing a higher version elsewhere.

mod left_out;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::api::PackageSource;
use crate::error::{Classify, Kind};
use crate::index::{Index, IndexVersion, LeftOut};
use crate::version::{Constraint, Version};

pub(crate) use left_out::advice;

/// How many versions or names an error lists.
const SHOWN: usize = 5;

/// What the source of packages is called that were written by hand, in place of a URL.
pub const HAND_WRITTEN: &str = "(local PackageSource)";

/// The version of a package that has none; it meets no constraint.
pub const UNVERSIONED: &str = "0.0.0-unversioned";

/// A repository to choose from: its verified index and its rank.
#[derive(Clone, Debug)]
pub struct Source {
    /// What it is called in messages, usually its URL. Of two repositories with the same
    /// priority the one with the smaller name comes first.
    pub name: String,
    /// The higher one supplies a package that several carry.
    pub priority: i32,
    /// Its index.
    pub index: Arc<Index>,
}

/// Decides whether a version of the named package may be taken.
pub type Policy = dyn Fn(&str, &IndexVersion) -> bool + Send + Sync;

/// The repositories one can choose from.
pub struct Catalog {
    /// The one asked first comes first.
    sources: Vec<Source>,
    /// Per source the packages that are there only in versions that are not offered: those
    /// too keep another repository from supplying the name.
    hidden: Vec<BTreeSet<String>>,
    policy: Option<Box<Policy>>,
}

/// A version of a package, and where it is listed.
#[derive(Clone, Debug)]
pub struct Selection<'c> {
    /// The repository.
    pub source: &'c Source,
    /// The version as listed in its index.
    pub listed: &'c IndexVersion,
    /// Its version, parsed.
    pub version: Version,
}

impl Selection<'_> {
    /// Whether the publisher withdrew it and has not taken that back.
    pub fn is_withdrawn(&self) -> bool {
        let withdrawn = self.listed.withdrawn.as_ref();
        withdrawn.is_some_and(|statement| statement.holds())
    }

    /// Whether it comes from a repository, not from what was written by hand.
    pub fn is_published(&self) -> bool {
        self.source.name != HAND_WRITTEN
    }
}

impl Catalog {
    /// A catalog of `sources`, in any order.
    pub fn new(mut sources: Vec<Source>) -> Catalog {
        sources.sort_by(|a, b| (Reverse(a.priority), &a.name).cmp(&(Reverse(b.priority), &b.name)));
        Catalog::ordered(sources, None)
    }

    fn ordered(sources: Vec<Source>, policy: Option<Box<Policy>>) -> Catalog {
        let hidden = |source: &Source| {
            let left_out = source.index.left_out.iter();
            left_out.map(|left| left.package.clone()).collect()
        };
        Catalog {
            hidden: sources.iter().map(hidden).collect(),
            sources,
            policy,
        }
    }

    /// The same catalog, but packages of which `written` has one come from there: what was
    /// written by hand always wins over repositories. One without a version becomes
    /// [`UNVERSIONED`].
    #[must_use]
    pub fn with_hand_written(mut self, written: Vec<PackageSource>) -> Catalog {
        if written.is_empty() {
            return self;
        }
        let mut index = Index::default();
        for mut source in written {
            if source.spec.version.is_empty() {
                source.spec.version = UNVERSIONED.to_owned();
            }
            let package = index.packages.entry(source.metadata.name).or_default();
            package.versions.push(IndexVersion::of(source.spec));
        }
        let source = Source {
            name: HAND_WRITTEN.to_owned(),
            priority: i32::MAX,
            index: Arc::new(index),
        };
        self.sources.insert(0, source);
        Catalog::ordered(self.sources, self.policy)
    }

    /// The same catalog, but only versions that `policy` admits are taken. It does not
    /// change which repository supplies a package.
    #[must_use]
    pub fn admitting(self, policy: Box<Policy>) -> Catalog {
        Catalog {
            policy: Some(policy),
            ..self
        }
    }

    /// The same catalog with no repository but the one called `name`.
    #[must_use]
    pub fn only(mut self, name: &str) -> Catalog {
        self.sources.retain(|source| source.name == name);
        Catalog::ordered(self.sources, self.policy)
    }

    /// The repositories, the one asked first at the front.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The repository that supplies `package`.
    pub fn supplier(&self, package: &str) -> Option<&Source> {
        let carries = |at: &usize| {
            self.sources[*at].index.packages.contains_key(package)
                || self.hidden[*at].contains(package)
        };
        let at = (0..self.sources.len()).find(carries)?;
        self.sources.get(at)
    }

    /// The names of all packages that some repository carries.
    pub fn packages(&self) -> BTreeSet<&str> {
        let names = self.sources.iter().flat_map(|s| s.index.packages.keys());
        names.map(String::as_str).collect()
    }

    /// Every package with all versions that its supplier lists, taken or not.
    pub(crate) fn supplied(&self) -> impl Iterator<Item = (&str, &[IndexVersion])> {
        self.sources
            .iter()
            .enumerate()
            .flat_map(move |(at, source)| {
                let packages = source.index.packages.iter();
                let supplied = packages.filter(move |(name, _)| {
                    let mut higher = self.sources.iter().zip(&self.hidden).take(at);
                    !higher.any(|(other, hidden)| {
                        other.index.packages.contains_key(*name) || hidden.contains(*name)
                    })
                });
                supplied.map(|(name, package)| (name.as_str(), package.versions.as_slice()))
            })
    }

    /// All versions of `package` that may be taken, newest version first, of one version the
    /// highest build first. Withdrawn ones are not among them.
    pub fn releases(&self, package: &str) -> Vec<Selection<'_>> {
        self.releases_and(package, |_| false)
    }

    /// The same with those withdrawn versions that `also` names.
    pub fn releases_and(
        &self,
        package: &str,
        also: impl Fn(&Version) -> bool,
    ) -> Vec<Selection<'_>> {
        let Some(source) = self.supplier(package) else {
            return Vec::new();
        };
        let admits = |listed: &IndexVersion| match &self.policy {
            Some(policy) => policy(package, listed),
            None => true,
        };
        let mut releases: Vec<_> = listed(source, package)
            .filter(|release| admits(release.listed))
            .filter(|release| !release.is_withdrawn() || also(&release.version))
            .collect();
        releases.sort_by(|a, b| {
            // the text decides between versions that differ behind the `+` only
            let order = b.version.cmp(&a.version);
            let order = order.then_with(|| b.listed.build.cmp(&a.listed.build));
            order.then_with(|| b.listed.version.cmp(&a.listed.version))
        });
        releases
    }

    /// A repository that has a version of `package` that `fits`, but does not supply it.
    pub(crate) fn shadowed(
        &self,
        package: &str,
        fits: impl Fn(&Version) -> bool,
    ) -> Option<(&Source, Selection<'_>)> {
        let supplier = self.supplier(package)?;
        let others = self.sources.iter().filter(|s| s.name != supplier.name);
        others.into_iter().find_map(|other| {
            let mut fitting = listed(other, package).filter(|r| fits(&r.version));
            fitting.next().map(|release| (other, release))
        })
    }

    /// A withdrawn version of `package` that `fits`.
    pub(crate) fn withdrawn(
        &self,
        package: &str,
        fits: impl Fn(&Version) -> bool,
    ) -> Option<Selection<'_>> {
        let supplier = self.supplier(package)?;
        listed(supplier, package).find(|r| r.is_withdrawn() && fits(&r.version))
    }

    /// The newest version of `package`, and of that the highest build, that meets
    /// `constraint`. Without a constraint a pre-release is as good as any other version. A
    /// withdrawn version is taken only where the constraint names it exactly.
    pub fn select(
        &self,
        package: &str,
        constraint: Option<&Constraint>,
    ) -> Result<Selection<'_>, SelectError> {
        let Some(source) = self.supplier(package) else {
            return Err(self.unknown(package));
        };
        let exact = constraint.and_then(Constraint::exact);
        let releases = self.releases_and(package, |version| exact == Some(version));
        let has = self.has(package, &releases);
        let prereleases = releases.iter().any(|r| r.version.is_prerelease());
        let fits = |version: &Version| constraint.is_none_or(|c| c.matches(version));
        if let Some(release) = releases.into_iter().find(|r| fits(&r.version)) {
            return Ok(release);
        }
        let near = if let Some((other, _)) = self.shadowed(package, fits) {
            Some(Near::Shadowed(other.name.clone()))
        } else if let Some(release) = self.withdrawn(package, fits) {
            Some(Near::Withdrawn(release.listed.version.clone()))
        } else if let Some(left) = self.lacking(package, fits) {
            Some(Near::LeftOut(Box::new(left.clone())))
        } else {
            prereleases.then_some(Near::Prerelease)
        };
        Err(SelectError::NoMatch {
            package: package.to_owned(),
            constraint: constraint.map(ToString::to_string),
            supplier: source.name.clone(),
            has: has.into(),
            near,
        })
    }

    fn unknown(&self, package: &str) -> SelectError {
        let alike: BTreeSet<&str> = self
            .sources
            .iter()
            .flat_map(|source| source.index.packages.keys())
            .map(String::as_str)
            .filter(|name| name.contains(package) || package.contains(name))
            .collect();
        SelectError::Unknown {
            package: package.to_owned(),
            sources: self.sources.iter().map(|s| s.name.clone()).collect(),
            alike: alike.into_iter().take(SHOWN).map(str::to_owned).collect(),
        }
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.sources.iter().map(|source| &source.name).collect();
        f.debug_struct("Catalog").field("sources", &names).finish()
    }
}

/// The versions of `package` in one repository. Reading an index refuses what is no version,
/// so none is passed over here in practice.
fn listed<'c>(source: &'c Source, package: &str) -> impl Iterator<Item = Selection<'c>> {
    let versions = source.index.packages.get(package).map(|p| &p.versions);
    versions.into_iter().flatten().filter_map(move |listed| {
        let version = Version::parse_published(&listed.version).ok()?;
        Some(Selection {
            source,
            listed,
            version,
        })
    })
}

/// The newest versions as one text.
pub(crate) fn shown_versions(releases: &[Selection<'_>]) -> String {
    let mut texts: Vec<&str> = releases.iter().map(|r| r.listed.version.as_str()).collect();
    texts.dedup();
    match texts.len() {
        0 => "no version that can be taken".to_owned(),
        n if n > SHOWN => format!("{} and {} older ones", texts[..SHOWN].join(", "), n - SHOWN),
        _ => texts.join(", "),
    }
}

/// Why no version was chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// No repository carries the package.
    #[error("no repository carries a package \"{package}\" (asked: {})", or_none(.sources))]
    Unknown {
        /// The package.
        package: String,
        /// The repositories asked.
        sources: Vec<String>,
        /// Packages with a name like it.
        alike: Vec<String>,
    },
    /// The supplying repository has no version that fits.
    #[error("{package}: {supplier} has {}{has}", wanted(.constraint))]
    NoMatch {
        /// The package.
        package: String,
        /// What was asked for.
        constraint: Option<String>,
        /// The supplying repository.
        supplier: String,
        /// What it has.
        has: Box<str>,
        /// What would fit but is not taken.
        near: Option<Near>,
    },
}

/// A version that would fit but is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Near {
    /// This repository has one, but does not supply the package.
    Shadowed(String),
    /// This version was withdrawn.
    Withdrawn(String),
    /// This version lacks something.
    LeftOut(Box<LeftOut>),
    /// There are pre-releases.
    Prerelease,
}

fn or_none(names: &[String]) -> String {
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

fn wanted(constraint: &Option<String>) -> String {
    match constraint {
        Some(constraint) => format!("no version that meets {constraint}; it has "),
        // then it has none at all, and that is said of what it has
        None => String::new(),
    }
}

impl Classify for SelectError {
    fn kind(&self) -> Kind {
        Kind::NotFound
    }

    fn hint(&self) -> Option<String> {
        match self {
            SelectError::Unknown { sources, .. } if sources.is_empty() => {
                Some("give a repository with --repo URL".to_owned())
            }
            SelectError::Unknown { alike, .. } if alike.is_empty() => None,
            SelectError::Unknown { alike, .. } => {
                Some(format!("did you mean {}?", alike.join(", ")))
            }
            SelectError::NoMatch {
                package,
                supplier,
                near: Some(near),
                ..
            } => Some(match near {
                Near::Shadowed(other) => format!(
                    "{other} has such a version, but {supplier} comes first and then alone supplies \
                     the package; name {other} before it, or leave it out"
                ),
                Near::Withdrawn(version) => format!(
                    "{version} was withdrawn and is taken only when asked for: {package}@{version}"
                ),
                Near::LeftOut(left) => advice(left),
                Near::Prerelease => {
                    "a pre-release is taken only by a constraint that names one, e.g. >=1.2.0-0"
                        .to_owned()
                }
            }),
            SelectError::NoMatch { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::PackageSourceSpec;
    use crate::index::{IndexPackage, LeftOutWhy, Withdrawn};
    use crate::time::Time;

    fn source(name: &str, priority: i32, versions: &[&str]) -> Source {
        let versions = versions.iter().map(|version| {
            let spec = PackageSourceSpec {
                version: (*version).to_owned(),
                ..PackageSourceSpec::default()
            };
            IndexVersion::of(spec)
        });
        let package = IndexPackage {
            versions: versions.collect(),
            ..IndexPackage::default()
        };
        Source {
            name: name.to_owned(),
            priority,
            index: Arc::new(Index {
                generated: None,
                expires: None,
                repository: None,
                packages: [("app".to_owned(), package)].into(),
                left_out: Vec::new(),
            }),
        }
    }

    #[test]
    fn a_higher_version_elsewhere_is_not_taken_and_that_is_said() {
        let catalog = Catalog::new(vec![
            source("community", 0, &["9.9.9"]),
            source("vendor", 1, &["1.0.0"]),
        ]);
        assert_eq!(catalog.select("app", None).unwrap().source.name, "vendor");
        let constraint = Constraint::parse(">=2").unwrap();
        let error = catalog.select("app", Some(&constraint)).unwrap_err();
        assert!(error.to_string().contains("it has 1.0.0"), "{error}");
        let hint = error.hint().unwrap();
        assert!(hint.starts_with("community has such a version"), "{hint}");
    }

    #[test]
    fn a_package_only_a_newer_program_can_read_is_not_taken_from_elsewhere() {
        let mut vendor = source("vendor", 1, &[]);
        vendor.index = Arc::new(Index {
            packages: Default::default(),
            left_out: vec![LeftOut {
                package: "app".to_owned(),
                version: "2.0.0".to_owned(),
                build: 0,
                why: LeftOutWhy::Newer {
                    unknown: vec!["shiny".to_owned()],
                },
            }],
            ..(*vendor.index).clone()
        });
        let catalog = Catalog::new(vec![source("community", 0, &["9.9.9"]), vendor]);
        let error = catalog.select("app", None).unwrap_err();
        assert!(matches!(error, SelectError::NoMatch { .. }), "{error}");
    }

    #[test]
    fn where_all_versions_are_left_out_it_says_how_many_why_and_what_helps() {
        let left = |version: &str, why: LeftOutWhy| LeftOut {
            package: "app".to_owned(),
            version: version.to_owned(),
            build: 0,
            why,
        };
        let delegation = LeftOutWhy::Delegation {
            name: "team".to_owned(),
            have: 1,
            need: 2,
        };
        let mut withdrawn = source("vendor", 1, &["1.0.0"]);
        let mut index = (*withdrawn.index).clone();
        index.packages.get_mut("app").unwrap().versions[0].withdrawn = Some(Withdrawn {
            since: Time::from_unix(0),
            reason: "loses data".to_owned(),
            replacement: None,
            lifted: None,
        });
        index.left_out = vec![
            left("3.0.0", LeftOutWhy::Approvals { have: 0, need: 2 }),
            left("2.0.0", delegation),
        ];
        withdrawn.index = Arc::new(index);
        let catalog = Catalog::new(vec![withdrawn]);
        let asked = |constraint: Option<&str>| {
            let constraint = constraint.map(|text| Constraint::parse(text).unwrap());
            let error = catalog.select("app", constraint.as_ref()).unwrap_err();
            (error.to_string(), error.hint().unwrap())
        };
        let left = "no version that can be taken; 3 left out: 3.0.0 (0 of 2 approvals), 2.0.0 \
                    (delegation team: 1 of 2 signatures), 1.0.0 (withdrawn: loses data)";
        let (text, hint) = asked(None);
        assert_eq!(text, format!("app: vendor has {left}"));
        assert!(hint.contains("app@1.0.0"), "{hint}");
        let (text, hint) = asked(Some(">=3"));
        let expected = format!("app: vendor has no version that meets >=3; it has {left}");
        assert_eq!(text, expected);
        assert!(hint.contains("lacks 2 approvals"), "{hint}");
        assert!(hint.contains("trust sign FILE --approve"), "{hint}");
        let (_, hint) = asked(Some("^2"));
        assert!(hint.contains("lacks 1 signature;"), "{hint}");
    }

    #[test]
    fn a_missing_pre_release_gets_a_hint() {
        let catalog = Catalog::new(vec![source("r", 0, &["1.0.0-rc.1"])]);
        let constraint = Constraint::parse("^1").unwrap();
        let error = catalog.select("app", Some(&constraint)).unwrap_err();
        assert!(error.hint().unwrap().contains("pre-release"));
    }

    #[test]
    fn long_lists_of_versions_are_cut() {
        let versions: Vec<String> = (0..40).map(|n| format!("1.{n}.0")).collect();
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let catalog = Catalog::new(vec![source("r", 0, &versions)]);
        let constraint = Constraint::parse("^2").unwrap();
        let text = catalog
            .select("app", Some(&constraint))
            .unwrap_err()
            .to_string();
        assert!(text.contains("1.39.0, 1.38.0"), "{text}");
        assert!(text.contains("and 35 older ones"), "{text}");
    }
}
