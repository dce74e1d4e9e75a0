//! Packages with the shapes and the shares that published recipes have: mostly one upstream
//! chart with its images pinned, some a manifest with a chart for its resource, a fifth only
//! requirements.
//!
//! Every requirement can be met, so that a plan for [`DISTRIBUTION`] exists, and not by taking
//! the newest of everything. Packages stand in families of eight; a family is released
//! together, two versions to a minor version. Within a family requirements are narrow (`~1.4`),
//! across families wide (`^1.2`) and only of earlier packages. Some families have a package
//! whose newest minor version needs what nobody provides: the whole family stays one behind.

use kubepkg_core::api::{
    Chart, Component, Install, PackageSourceSpec, Requirement, Rollback, Variant,
};

use crate::dice::{below, chance, digest};

/// The package that requires [`MEMBERS`] others.
pub const DISTRIBUTION: &str = "distribution";

/// Members of the distribution (all packages, where there are not as many).
pub const MEMBERS: usize = 300;

const FAMILY: usize = 8;
/// Minor versions of one major version.
const MINORS: usize = 5;
/// One in this many packages brings a role that only one package may fill.
const EXCLUSIVE: usize = 40;

const VENDORS: [&str; 16] = [
    "acme", "borealis", "cobalt", "delta", "ember", "fjord", "granite", "harbor", "indigo",
    "juniper", "keystone", "lumen", "meridian", "nimbus", "orchard", "pioneer",
];
const SUBJECTS: [&str; 24] = [
    "cache",
    "database",
    "queue",
    "gateway",
    "storage",
    "backup",
    "metrics",
    "logs",
    "traces",
    "registry",
    "certificates",
    "secrets",
    "policy",
    "scheduler",
    "network",
    "dns",
    "search",
    "vectors",
    "models",
    "notebooks",
    "training",
    "devices",
    "snapshots",
    "dashboards",
];

/// A catalogue of `packages` packages (the distribution not counted) with `versions` versions.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    /// Packages beside the distribution.
    pub packages: usize,
    /// Versions of each.
    pub versions: usize,
}

impl Catalogue {
    /// Name of a package.
    pub fn name(&self, package: usize) -> String {
        let vendor = VENDORS[below(VENDORS.len(), "vendor", package, 0)];
        let subject = SUBJECTS[below(SUBJECTS.len(), "subject", package, 0)];
        format!("{vendor}-{subject}-{package}")
    }

    /// Minor versions of a package, over all its major versions.
    fn minors(&self) -> usize {
        self.versions.div_ceil(2)
    }

    /// Major and minor version number of the `minor`th minor version, counted over all.
    fn numbers(&self, package: usize, minor: usize) -> (usize, usize) {
        let from_top = self.minors() - 1 - minor;
        let majors = (self.minors() - 1) / MINORS;
        let first = below(4, "major", package, 0);
        (
            first + majors - from_top / MINORS,
            MINORS - 1 - from_top % MINORS,
        )
    }

    /// The text of a version; 0 is the oldest. Some packages end with a candidate.
    pub fn version(&self, package: usize, version: usize) -> String {
        let (major, minor) = self.numbers(package, version / 2);
        let candidate = version + 1 == self.versions && version % 2 == 1 && package % 25 == 3;
        let suffix = if candidate { "-rc.1" } else { "" };
        format!("{major}.{minor}.{}{suffix}", version % 2)
    }

    /// Whether the newest minor version of this very package cannot be installed.
    fn is_held_back(&self, package: usize) -> bool {
        self.minors() >= 3 && chance(2, "held back", package, 0)
    }

    /// The newest minor version that the family of a package has in common.
    fn level(&self, package: usize) -> usize {
        let first = package / FAMILY * FAMILY;
        let held = (first..first + FAMILY).any(|member| self.is_held_back(member));
        self.minors() - 1 - usize::from(held)
    }

    fn is_meta(&self, package: usize) -> bool {
        package >= FAMILY && chance(20, "meta", package, 0)
    }

    fn is_exclusive(&self, package: usize) -> bool {
        package % EXCLUSIVE == 7
    }

    /// One of the packages before the family of this one: half of the time one that everybody
    /// needs. Never one that excludes others.
    fn foundation(&self, package: usize, nth: usize) -> Option<usize> {
        let earlier = package / FAMILY * FAMILY;
        let pool = if chance(50, "common", package, nth) {
            earlier.min(64)
        } else {
            earlier
        };
        let chosen = below(pool, "foundation", package, nth);
        (chosen < earlier && !self.is_exclusive(chosen)).then_some(chosen)
    }

    /// `~major.minor`: this minor version and no other.
    fn narrow(&self, package: usize, minor: usize) -> Requirement {
        let (major, minor) = self.numbers(package, minor);
        requirement(&self.name(package), format!("~{major}.{minor}"))
    }

    /// `^major.minor`, from two minor versions back where the major version is the same.
    fn wide(&self, package: usize, minor: usize) -> Requirement {
        let (major, minor) = self.numbers(package, minor);
        let minor = minor.saturating_sub(2);
        requirement(&self.name(package), format!("^{major}.{minor}"))
    }

    fn requires(&self, package: usize, version: usize) -> Vec<Requirement> {
        let minor = version / 2;
        let mut requires = Vec::new();
        if !package.is_multiple_of(FAMILY) && chance(25, "narrow", package, 0) {
            requires.push(self.narrow(package / FAMILY * FAMILY, minor));
        }
        let wide = match self.is_meta(package) {
            true => 2 + below(8, "wide", package, 0),
            false => usize::from(chance(25, "wide", package, 0)),
        };
        let mut chosen: Vec<usize> = (0..wide)
            .filter_map(|nth| self.foundation(package, nth))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        requires.extend(chosen.into_iter().map(|other| self.wide(other, minor)));
        if chance(2, "optional", package, 0)
            && let Some(other) = self.foundation(package, 90)
        {
            requires.push(Requirement {
                optional: true,
                ..self.wide(other, minor)
            });
        }
        if chance(2, "capability", package, 0) {
            requires.push(capability("dns".to_owned()));
        }
        if self.is_held_back(package) && minor + 1 == self.minors() {
            requires.push(capability("api:next.example.com/v1".to_owned()));
        }
        requires
    }

    /// The spec of a version; 0 is the oldest.
    pub fn spec(&self, package: usize, version: usize) -> PackageSourceSpec {
        let name = self.name(package);
        let text = self.version(package, version);
        let mut spec = PackageSourceSpec {
            version: text.clone(),
            build: i32::from(version % 5 == 4),
            variants: vec![Variant {
                name: "default".to_owned(),
                requires: self.requires(package, version),
                ..Variant::default()
            }],
            ..PackageSourceSpec::default()
        };
        if self.is_meta(package) {
            return spec;
        }
        let role = SUBJECTS[below(SUBJECTS.len(), "subject", package, 0)];
        spec.provides = vec![name.clone(), role.to_owned()];
        if chance(30, "api", package, 0) {
            spec.provides
                .push(format!("api:{role}-{package}.example.com/v1"));
        }
        if self.is_exclusive(package) {
            let only = format!("only-{}", package / (EXCLUSIVE * 10));
            spec.provides.push(only.clone());
            spec.conflicts.push(only);
        }
        let group = format!("{role}-{package}.example.com");
        let kinds = [
            "instances",
            "clusters",
            "users",
            "policies",
            "backups",
            "classes",
        ];
        let crds = below(kinds.len() + 1, "crds", package, 0);
        spec.crds = kinds[..crds]
            .iter()
            .map(|k| format!("{k}.{group}"))
            .collect();
        spec.rollback = Some(Rollback {
            safe: chance(20, "safe", package, 0),
        });
        spec.images = (0..1 + below(3, "images", package, 0))
            .map(|nth| {
                let digest = digest("image", package * 8 + nth, version);
                format!("registry.example.com/{name}/part-{nth}:v{text}@{digest}")
            })
            .collect();
        spec.variants[0].components = self.components(package, version, &name, &text);
        spec
    }

    /// One chart, or two of which the second waits for the first.
    fn components(&self, package: usize, version: usize, name: &str, text: &str) -> Vec<Component> {
        let parts: &[&str] = match chance(20, "two charts", package, 0) {
            true => &["-operator", ""],
            false => &[""],
        };
        let mut components: Vec<Component> = Vec::new();
        for (nth, part) in parts.iter().enumerate() {
            let depends_on = components.iter().map(|c| c.name.clone()).collect();
            components.push(Component {
                name: format!("{name}{part}"),
                chart: Some(Chart {
                    repository: format!("oci://registry.example.com/packages/{name}"),
                    name: format!("{name}{part}"),
                    version: format!("{text}-{}", version % 5 / 4),
                    digest: digest("chart", package * 2 + nth, version).to_string(),
                }),
                install: Some(Install {
                    release_name: format!("{name}{part}"),
                    namespace: name.to_owned(),
                    privileged: chance(25, "privileged", package, nth),
                    depends_on,
                    upgrade_crds: match chance(10, "replace", package, nth) {
                        true => "CreateReplace".to_owned(),
                        false => String::new(),
                    },
                    ..Install::default()
                }),
                ..Component::default()
            });
        }
        components
    }

    /// The packages that the distribution requires: spread over all, at most one of those that
    /// exclude each other.
    pub fn members(&self) -> Vec<usize> {
        let wanted = self.packages.min(MEMBERS);
        let mut members = Vec::with_capacity(wanted);
        for nth in 0..wanted {
            let package = nth * self.packages / wanted;
            let taken = self.is_exclusive(package) && package % (EXCLUSIVE * 10) != 7;
            if !taken {
                members.push(package);
            } else if package + 1 < self.packages && wanted < self.packages {
                members.push(package + 1);
            }
        }
        members.dedup();
        members
    }

    /// The spec of a version of the distribution.
    pub fn distribution(&self, version: usize) -> PackageSourceSpec {
        let minor = version / 2;
        let requires = self.members().into_iter().map(|member| {
            let minor = minor.min(self.level(member));
            match chance(70, "pinned", member, 0) {
                true => self.narrow(member, minor),
                false => self.wide(member, minor),
            }
        });
        PackageSourceSpec {
            version: format!("{}.{}.{}", 1 + minor / 4, minor % 4, version % 2),
            variants: vec![Variant {
                name: "default".to_owned(),
                requires: requires.collect(),
                ..Variant::default()
            }],
            ..PackageSourceSpec::default()
        }
    }
}

fn requirement(package: &str, version: String) -> Requirement {
    Requirement {
        package: package.to_owned(),
        version,
        ..Requirement::default()
    }
}

fn capability(capability: String) -> Requirement {
    Requirement {
        capability,
        ..Requirement::default()
    }
}
