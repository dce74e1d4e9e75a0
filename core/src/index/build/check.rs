//! The rules a PackageSource must keep to be published.

use crate::Digest;
use crate::api::{Component, OCI_ARTIFACT, PackageSourceSpec, Requirement, SourceRef, Variant};
use crate::error::shown;
use crate::location::{CanonicalUrl, redacted};
use crate::name::NameError;
use crate::reference::Reference;
use crate::version::{Constraint, Version};

/// A rule that a PackageSource breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// No name, or none that an object can have.
    #[error("metadata.name: {0}")]
    Name(NameError),
    /// Not an exact semantic version.
    #[error("spec.version must be an exact version like 1.2.3")]
    NotExact,
    /// A negative build.
    #[error("spec.build must be 0 or more")]
    Build,
    /// Two variants, or two components of one, share a name; or one has none.
    #[error("{0} has no name, or shares it with another one")]
    Names(String),
    /// A component has both or neither of path and chart.
    #[error("component {0} must have either a path or a chart")]
    PathOrChart(String),
    /// A component with a chart names parts of a tree.
    #[error("component {0} has a chart, so it can have no libraries and valuesFiles")]
    TreeParts(String),
    /// A chart lacks a member, or its repository is no URL of a known kind.
    #[error("component {component}: the chart needs {what}")]
    Chart {
        /// The component.
        component: String,
        /// What it needs.
        what: &'static str,
    },
    /// Components lie in a tree that is not an artifact pinned by digest.
    #[error("sourceRef {0} must be an OCIArtifact pinned by digest (oci://…@sha256:…)")]
    Tree(String),
    /// A sourceRef lacks a member.
    #[error("sourceRef needs {0}")]
    SourceRef(&'static str),
    /// An image is no reference, or has no digest.
    #[error("image {0} is not pinned by digest")]
    Image(String),
    /// A requirement names both or neither of package and capability.
    #[error("a requirement of variant {0} must name either a package or a capability")]
    Requirement(String),
    /// A member has a value that does not exist.
    #[error("component {component}: {member} is {value}, not one of {known}")]
    Word {
        /// The component.
        component: String,
        /// The member.
        member: &'static str,
        /// Its value.
        value: String,
        /// The values there are.
        known: &'static str,
    },
    /// A version constraint does not read.
    #[error("a requirement of variant {variant}: {source}")]
    Constraint {
        /// The variant.
        variant: String,
        /// What is wrong with the constraint.
        source: crate::version::ConstraintError,
    },
    /// A capability of a kind that does not exist.
    #[error(
        "the capability {0} is of no known kind; behind a colon-word only api:<group>/<version> is one"
    )]
    Capability(String),
    /// A requirement of a capability passes what only packages take.
    #[error("a requirement of variant {0} passes a variant or values to a capability")]
    Passed(String),
    /// The annotation with approvals does not read.
    #[error("the annotation kubepkg.dev/approvals is no list of approvals")]
    Approvals,
    /// The annotation with signatures does not read.
    #[error("the annotation kubepkg.dev/signatures is no list of signatures")]
    Signatures,
}

impl Rule {
    /// What to do about it.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Rule::Image(_) => Some("write <registry>/<path>:<tag>@sha256:…"),
            Rule::Tree(_) => Some("push the tree and pin the digest that was printed"),
            _ => None,
        }
    }
}

/// Checks a spec against every rule.
pub(super) fn spec(spec: &PackageSourceSpec) -> Result<(), Rule> {
    if Version::parse_published(&spec.version).is_err() {
        return Err(Rule::NotExact);
    }
    if spec.build < 0 {
        return Err(Rule::Build);
    }
    if let Some(source) = &spec.source_ref {
        source_ref(source)?;
    }
    let offered = spec.provides.iter().chain(&spec.conflicts);
    offered.map(String::as_str).try_for_each(capability)?;
    names("a variant", spec.variants.iter().map(|v| &v.name))?;
    spec.variants.iter().try_for_each(variant)?;
    if spec.uses_tree() {
        tree(spec.source_ref.as_ref())?;
    }
    spec.images.iter().try_for_each(|image| {
        let pinned = |image: Reference| image.digest().is_some();
        if image.parse().is_ok_and(pinned) {
            Ok(())
        } else {
            Err(Rule::Image(redacted(image)))
        }
    })
}

fn source_ref(source: &SourceRef) -> Result<(), Rule> {
    match source.kind.as_str() {
        OCI_ARTIFACT if source.url.is_empty() => Err(Rule::SourceRef("a url")),
        OCI_ARTIFACT => Ok(()),
        "GitRepository" | "OCIRepository" => {
            if source.name.is_empty() || source.namespace.is_empty() {
                Err(Rule::SourceRef("a name and a namespace"))
            } else {
                Ok(())
            }
        }
        _ => Err(Rule::SourceRef(
            "a kind: OCIArtifact, OCIRepository or GitRepository",
        )),
    }
}

fn tree(source: Option<&SourceRef>) -> Result<(), Rule> {
    let Some(source) = source else {
        return Err(Rule::Tree("(none)".to_owned()));
    };
    let pinned = |reference: Reference| reference.digest().is_some();
    let fits = source.kind == OCI_ARTIFACT
        && source.url.starts_with("oci://")
        && source.url.parse().is_ok_and(pinned);
    if fits {
        Ok(())
    } else {
        Err(Rule::Tree(redacted(&source.url)))
    }
}

/// Every name is there and stands once.
fn names<'a>(what: &str, names: impl Iterator<Item = &'a String>) -> Result<(), Rule> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if name.is_empty() || !seen.insert(name) {
            return Err(Rule::Names(format!("{what} \"{}\"", shown(name))));
        }
    }
    Ok(())
}

/// A capability is any text, or `api:<group>/<version>`: another word before the colon may
/// come to mean something.
fn capability(text: &str) -> Result<(), Rule> {
    let known = match text.split_once(':') {
        None => true,
        Some(("api", api)) => api.split_once('/').is_some_and(|(group, version)| {
            let word = |text: &str| {
                let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
                !text.is_empty() && text.bytes().all(inner)
            };
            word(group) && word(version)
        }),
        Some(_) => false,
    };
    match known {
        true => Ok(()),
        false => Err(Rule::Capability(shown(text))),
    }
}

fn variant(variant: &Variant) -> Result<(), Rule> {
    let one = |r: &Requirement| r.package.is_empty() != r.capability.is_empty();
    if !variant.requires.iter().all(one) {
        return Err(Rule::Requirement(shown(&variant.name)));
    }
    for requirement in &variant.requires {
        let source = Constraint::parse_optional(&requirement.version).err();
        if let Some(source) = source {
            let variant = shown(&variant.name);
            return Err(Rule::Constraint { variant, source });
        }
        let passes = !requirement.variant.is_empty() || !requirement.values.is_empty();
        if passes && requirement.package.is_empty() {
            return Err(Rule::Passed(shown(&variant.name)));
        }
        capability(&requirement.capability)?;
    }
    names("a component", variant.components.iter().map(|c| &c.name))?;
    variant.components.iter().try_for_each(component)
}

fn component(component: &Component) -> Result<(), Rule> {
    let name = || shown(&component.name);
    match &component.chart {
        None if component.path.is_empty() => return Err(Rule::PathOrChart(name())),
        Some(_) if !component.path.is_empty() => return Err(Rule::PathOrChart(name())),
        Some(_) if !component.libraries.is_empty() || !component.values_files.is_empty() => {
            return Err(Rule::TreeParts(name()));
        }
        Some(chart) => {
            let what = if !is_chart_repository(&chart.repository) {
                Some("a repository (https://, http:// or oci://)")
            } else if chart.name.is_empty() || chart.version.is_empty() {
                Some("a name and a version")
            } else if !chart.digest.is_empty() && !is_sha256(&chart.digest) {
                Some("a digest that reads sha256: and 64 hex digits, or none")
            } else {
                None
            };
            if let Some(what) = what {
                let component = name();
                return Err(Rule::Chart { component, what });
            }
        }
        None => {}
    }
    let Some(install) = &component.install else {
        return Ok(());
    };
    for (member, value, known, words) in [
        (
            "install.upgradeCRDs",
            &install.upgrade_crds,
            "Skip, Create, CreateReplace",
            &["Skip", "Create", "CreateReplace"][..],
        ),
        (
            "install.waitStrategy",
            &install.wait_strategy,
            "poller, legacy",
            &["poller", "legacy"],
        ),
        (
            "install.phase",
            &install.phase,
            "PreUpgrade",
            &["PreUpgrade"],
        ),
    ] {
        if !value.is_empty() && !words.contains(&value.as_str()) {
            return Err(Rule::Word {
                component: name(),
                member,
                value: shown(value),
                known,
            });
        }
    }
    Ok(())
}

fn is_chart_repository(url: &str) -> bool {
    url.parse::<CanonicalUrl>()
        .is_ok_and(|url| url.scheme() != "file")
}

fn is_sha256(text: &str) -> bool {
    text.starts_with("sha256:") && text.parse::<Digest>().is_ok()
}
