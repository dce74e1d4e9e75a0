//! What trust entries ask beyond signatures: who signed the bundle, where packages may take
//! content from, and that nothing withdrawn comes in.

use std::collections::BTreeSet;
use std::fmt;

use kubepkg_core::bundle::Bundle;
use kubepkg_core::bundle::head::{Head, HeadPackage};
use kubepkg_core::bundle::verify::Closure;
use kubepkg_core::descriptor::Platform;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::index::Withdrawn;
use kubepkg_core::keys::{KeyId, PublicKey};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::name::PackageName;
use kubepkg_core::sparse;
use kubepkg_core::trust::{Entry, Prefix};

use crate::listed;
use crate::{ImportError, Judged};

/// One thing an entry asks that the bundle does not meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Want {
    /// Too few of the wanted keys signed the bundle.
    #[error("the bundle is signed by {have} of the {of} keys wanted for {url}, and needs {need}")]
    Signers {
        /// The repository that wants it.
        url: CanonicalUrl,
        /// How many signed.
        have: usize,
        /// How many may.
        of: usize,
        /// How many must.
        need: u32,
    },
    /// Content from elsewhere.
    #[error("{what} of {package} is outside the locations allowed for {url}")]
    Location {
        /// The repository.
        url: CanonicalUrl,
        /// The package.
        package: PackageName,
        /// The content.
        what: String,
    },
    /// A wanted platform was left out when the bundle was created.
    #[error("{what} was carried without {left_out}, and {wanted} is wanted for {url}")]
    Platform {
        /// The repository.
        url: CanonicalUrl,
        /// The image.
        what: String,
        /// What was left out.
        left_out: String,
        /// What is wanted.
        wanted: String,
    },
    /// A package that is not to be used any more.
    #[error("{package} was withdrawn by its publisher at {since}: {reason}")]
    Withdrawn {
        /// Name, version and build.
        package: String,
        /// Since when.
        since: String,
        /// Why.
        reason: String,
    },
}

/// Everything asked that is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantError {
    /// The problems, sorted.
    pub problems: Vec<Want>,
}

impl fmt::Display for WantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        listed::write(f, &self.problems)
    }
}

impl std::error::Error for WantError {}

impl Classify for WantError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn hint(&self) -> Option<String> {
        let hint = match self.problems.first()? {
            Want::Signers { .. } => {
                "have the bundle signed by those who must (`kubepkg bundle sign FILE --sign-key \
                 KEY`)"
            }
            Want::Platform { .. } => {
                "make the bundle again with that platform too (--platform, repeatable), or \
                 without --platform"
            }
            Want::Location { .. } => {
                "ask the publisher why; if it is meant, add the location to the entry and import \
                 with --trust FILE --change-trust"
            }
            Want::Withdrawn { .. } => {
                "make the bundle again with another version; --allow-withdrawn takes it all the same"
            }
        };
        Some(hint.to_owned())
    }
}

fn met(mut problems: Vec<Want>) -> Result<(), ImportError> {
    problems.sort();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(WantError { problems }.into()),
    }
}

/// Checks who signed the bundle. Before anything in it is read further: its head says what
/// all the rest is.
pub fn signers(bundle: &Bundle, entries: &[Entry]) -> Result<(), ImportError> {
    let signed: BTreeSet<KeyId> = bundle.signatures().keys().map(PublicKey::id).collect();
    let lacking = entries.iter().filter_map(|entry| {
        let set = entry.bundle_signers.as_ref()?;
        let have = set.ids().iter().filter(|id| signed.contains(id)).count();
        (!set.met_by(have)).then(|| Want::Signers {
            url: entry.url.clone(),
            have,
            of: set.keys().len(),
            need: set.threshold(),
        })
    });
    met(lacking.collect())
}

/// Checks locations and withdrawals. Call it when the head's claims hold: then the packages
/// named for some content are those that pin it. Gives what should be said: withdrawn packages
/// that were let pass.
pub fn content(
    head: &Head,
    judged: &[Judged],
    allow_withdrawn: bool,
) -> Result<Vec<String>, ImportError> {
    let mut wants = Wants {
        head,
        judged,
        problems: Vec::new(),
    };
    wants.locations();
    let withdrawn = wants.withdrawn();
    let said: Vec<String> = withdrawn.iter().map(ToString::to_string).collect();
    if !allow_withdrawn {
        wants.problems.extend(withdrawn);
    }
    met(wants.problems)?;
    Ok(said)
}

/// Checks that no wanted platform was left out, at any depth of an index: also where another
/// variant of it is carried, since nobody here can tell which one nodes need. Gives what should
/// be said of images that never had one.
pub fn platforms(
    head: &Head,
    judged: &[Judged],
    closure: &Closure,
) -> Result<BTreeSet<String>, ImportError> {
    let mut wants = Wants {
        head,
        judged,
        problems: Vec::new(),
    };
    let said = wants.platforms(closure);
    met(wants.problems)?;
    Ok(said)
}

struct Wants<'a> {
    head: &'a Head,
    judged: &'a [Judged],
    problems: Vec<Want>,
}

impl<'a> Wants<'a> {
    fn judged(&self, package: &HeadPackage) -> Option<&'a Judged> {
        let of = |judged: &&Judged| judged.entry.url == package.repository;
        self.judged.iter().find(of)
    }

    /// The entries behind the packages of some content.
    fn entries(&self, packages: &'a [PackageName]) -> Vec<(&'a PackageName, &'a Entry)> {
        let entry = |name: &'a PackageName| {
            let head: &'a Head = self.head;
            let mut known = head.packages.iter();
            let package = known.find(|package| package.name == *name)?;
            Some((name, &self.judged(package)?.entry))
        };
        packages.iter().filter_map(entry).collect()
    }

    fn place(
        &mut self,
        packages: &'a [PackageName],
        what: &dyn Fn() -> String,
        covered: &dyn Fn(&Prefix) -> bool,
    ) {
        for (package, entry) in self.entries(packages) {
            if !entry.locations.is_empty() && !entry.locations.iter().any(covered) {
                self.problems.push(Want::Location {
                    url: entry.url.clone(),
                    package: package.clone(),
                    what: what(),
                });
            }
        }
    }

    fn locations(&mut self) {
        let head: &'a Head = self.head;
        for chart in &head.charts {
            let path = format!("{}/{}", chart.repository.path(), chart.name);
            self.place(
                &chart.packages,
                &|| format!("chart {} of {}", chart.name, chart.repository),
                &|prefix| prefix.covers(chart.repository.host(), &path),
            );
        }
        for tree in &head.trees {
            self.place(
                &tree.packages,
                &|| format!("package tree {}", tree.reference),
                &|prefix| prefix.covers_reference(&tree.reference),
            );
        }
        for image in &head.images {
            self.place(
                &image.packages,
                &|| format!("image {}", image.reference),
                &|prefix| prefix.covers_reference(&image.reference),
            );
        }
    }

    /// Images that lack a wanted platform. Where it was left out, that is a problem; where the
    /// publisher of the image has none, refusing would not get one.
    fn platforms(&mut self, closure: &Closure) -> BTreeSet<String> {
        let head: &'a Head = self.head;
        let mut said = BTreeSet::new();
        let mut problems = Vec::new();
        for image in &head.images {
            let left_out = closure.left_out(&image.manifest.digest);
            for (package, entry) in self.entries(&image.packages) {
                for wanted in &entry.platforms {
                    let left_out = left_out.iter().find(|left| serves(left, wanted));
                    if let Some(left_out) = left_out {
                        problems.push(Want::Platform {
                            url: entry.url.clone(),
                            what: format!("image {} of {package}", image.reference),
                            left_out: left_out.to_string(),
                            wanted: wanted.clone(),
                        });
                    } else if !image.platforms.is_empty()
                        && !image.platforms.iter().any(|has| serves(has, wanted))
                    {
                        said.insert(format!(
                            "image {} of {package} has nothing for {wanted}, which is wanted for \
                             {}: whoever made the image has none",
                            image.reference, entry.url
                        ));
                    }
                }
            }
        }
        self.problems.extend(problems);
        said
    }

    fn withdrawn(&self) -> Vec<Want> {
        let statement = |package: &HeadPackage| {
            let listed = self
                .judged(package)?
                .index()
                .packages
                .get(package.name.as_str())?;
            let version = listed.versions.iter().find(|version| {
                version.version == package.version && version.build == package.build
            })?;
            let said = version
                .withdrawn
                .as_ref()
                .filter(|said| Withdrawn::holds(said))?;
            let build = match package.build {
                0 => String::new(),
                build => format!(" build {build}"),
            };
            Some(Want::Withdrawn {
                package: format!("{} {}{build}", package.name, package.version),
                since: said.since.to_string(),
                reason: said.reason.clone(),
            })
        };
        self.head.packages.iter().filter_map(statement).collect()
    }
}

/// Whether content for `has` runs where the platform in an entry is asked for.
fn serves(has: &Platform, wanted: &str) -> bool {
    // entries are only made with texts that read
    let wanted = wanted.parse::<Platform>();
    wanted.is_ok_and(|wanted| sparse::serves(has, &wanted))
}
