//! The parts of an index one by one, whichever reader made their trees. Nothing is believed
//! before its digest is computed again.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::spec::LazySpec;
use super::{
    Approval, Index, IndexError, IndexPackage, IndexVersion, LeftOut, LeftOutWhy, VersionSignature,
    Why, Withdrawn, exact_version,
};
use crate::Digest;
use crate::api::{INDEX_KIND, PackageSourceSpec};
use crate::error::shown;
use crate::location::CanonicalUrl;
use crate::name::PackageName;
use crate::time::Time;
use crate::version::MAX_VERSION;
use crate::yaml::go::{Decoded, Text};
use crate::yaml::{Node, YamlError};

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawIndex {
    kind: String,
    generated: Option<Time>,
    expires: Option<Time>,
    repository: String,
    packages: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPackage {
    description: String,
    home: String,
    versions: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawVersion {
    version: String,
    build: i32,
    digest: String,
    signatures: Vec<VersionSignature>,
    withdrawn: Option<Withdrawn>,
    approvals: Vec<RawApproval>,
    spec: IgnoredAny,
}

/// An approval before its time is looked at: one that does not read counts for nothing, and
/// must not make the whole index unreadable.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawApproval {
    keyid: String,
    sig: String,
    time: String,
}

impl RawApproval {
    fn read(self) -> Option<Approval> {
        Some(Approval {
            keyid: self.keyid,
            sig: self.sig,
            time: self.time.parse().ok()?,
        })
    }
}

/// What stands beside the packages.
pub(super) fn head(text: Text<'_>, root: &Node<'_>) -> Result<Index, IndexError> {
    let raw: RawIndex = known(text, root)?;
    if raw.kind != INDEX_KIND {
        let kind = shown(&raw.kind);
        return Err(IndexError::Kind { kind });
    }
    Ok(Index {
        generated: raw.generated,
        expires: raw.expires,
        repository: match raw.repository.as_str() {
            "" => None,
            url => Some(url.parse::<CanonicalUrl>()?),
        },
        packages: BTreeMap::new(),
        left_out: Vec::new(),
    })
}

/// A package being read: versions are added one by one.
pub(super) struct Package<'n> {
    name: &'n str,
    package: IndexPackage,
    /// By version and build: the same twice is one version, or a fraud.
    seen: BTreeMap<(String, u32), Digest>,
}

/// Checks the name of a package, before its node is looked at.
pub(super) fn name(text: Text<'_>, name: &str, node: &Node<'_>) -> Result<(), IndexError> {
    let named = |source| IndexError::Name {
        line: text.line(node),
        source,
    };
    name.parse::<PackageName>().map_err(named)?;
    Ok(())
}

impl<'n> Package<'n> {
    pub(super) fn new(name: &'n str) -> Package<'n> {
        Package {
            name,
            package: IndexPackage::default(),
            seen: BTreeMap::new(),
        }
    }

    /// Reads what stands beside the versions.
    pub(super) fn head(&mut self, text: Text<'_>, node: &Node<'_>) -> Result<(), IndexError> {
        let raw: RawPackage = known(text, node)?;
        self.package.description = raw.description;
        self.package.home = raw.home;
        Ok(())
    }

    /// Checks one version and adds it here, or to those left out. `lazy` makes of its spec
    /// what is kept.
    pub(super) fn version(
        &mut self,
        text: Text<'_>,
        node: &Node<'_>,
        left_out: &mut Vec<LeftOut>,
        lazy: impl FnOnce(PackageSourceSpec) -> LazySpec,
    ) -> Result<(), IndexError> {
        let raw: RawVersion = known(text, node)?;
        let refused = |why| IndexError::Version {
            line: text.line(node),
            package: self.name.to_owned(),
            version: shown(&raw.version),
            build: raw.build,
            why: Box::new(why),
        };
        if raw.version.len() > MAX_VERSION || exact_version(&raw.version).is_none() {
            return Err(refused(Why::NotExact));
        }
        let build = u32::try_from(raw.build).map_err(|_| refused(Why::Build))?;
        let Decoded {
            value: spec,
            unknown,
            doubled,
        } = match node.member("spec") {
            Some(spec) => text.decode::<PackageSourceSpec>(spec)?,
            None => return Err(refused(Why::Disagree)),
        };
        if let Some(name) = doubled.first() {
            return Err(text.doubled(node, name).into());
        }
        if spec.version != raw.version || spec.build != raw.build {
            return Err(refused(Why::Disagree));
        }
        let computed = spec.digest();
        if !is_written(&computed, &raw.digest) {
            let unknown = match unknown.is_empty() {
                true => unsettled(&spec),
                false => unknown,
            };
            if unknown.is_empty() {
                let listed = shown(&raw.digest);
                return Err(refused(Why::Digest { listed, computed }));
            }
            left_out.push(LeftOut {
                package: self.name.to_owned(),
                version: raw.version,
                build,
                why: LeftOutWhy::Newer { unknown },
            });
            return Ok(());
        }
        let key = (raw.version.clone(), build);
        if *self.seen.entry(key).or_insert(computed) != computed {
            return Err(refused(Why::Twice));
        }
        let approvals = raw.approvals.into_iter();
        let last = self.package.versions.last().map(|last| &last.provides);
        let provides = match last {
            Some(last) if **last == *spec.provides => Arc::clone(last),
            _ => spec.provides.as_slice().into(),
        };
        self.package.versions.push(IndexVersion {
            version: raw.version,
            build,
            digest: computed,
            signatures: raw.signatures,
            withdrawn: raw.withdrawn,
            approvals: approvals.filter_map(RawApproval::read).collect(),
            provides,
            spec: lazy(spec),
        });
        Ok(())
    }

    /// Puts the package where it belongs, if any version is left.
    pub(super) fn finish(mut self, packages: &mut BTreeMap<String, IndexPackage>) {
        if !self.package.versions.is_empty() {
            self.package.versions.shrink_to_fit();
            packages.insert(self.name.to_owned(), self.package);
        }
    }
}

/// The members of a spec whose place in the canonical JSON another kubepkg may have chosen
/// differently: it is not known yet.
fn unsettled(spec: &PackageSourceSpec) -> Vec<String> {
    let all = || spec.variants.iter().flat_map(|variant| &variant.requires);
    let variant = all().any(|requirement| !requirement.variant.is_empty());
    let values = all().any(|requirement| !requirement.values.is_empty());
    let found = [("variant", variant), ("values", values)];
    let found = found.into_iter().filter(|(_, used)| *used);
    found.map(|(name, _)| name.to_owned()).collect()
}

/// Whether `text` is `digest` as an index lists it.
fn is_written(digest: &Digest, text: &str) -> bool {
    let Some(listed) = text.strip_prefix("sha256:") else {
        return false;
    };
    let mut hex = [0; 64];
    hex::encode_to_slice(digest.as_bytes(), &mut hex).is_ok() && listed.as_bytes() == hex
}

/// Reads a `T`; members it does not have are of no account outside a spec.
fn known<T: serde::de::DeserializeOwned>(text: Text<'_>, node: &Node<'_>) -> Result<T, YamlError> {
    let decoded = text.decode::<T>(node)?;
    match decoded.doubled.first() {
        Some(name) => Err(text.doubled(node, name)),
        None => Ok(decoded.value),
    }
}
