//! Reading an index: nothing in it is believed before its digest is computed again.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::spec::LazySpec;
use super::{
    Approval, Index, IndexPackage, IndexVersion, LeftOut, LeftOutWhy, MAX_INDEX, VersionSignature,
    Withdrawn, exact_version, shown, version_and_build,
};
use crate::Digest;
use crate::api::{INDEX_KIND, PackageSourceSpec};
use crate::error::{Classify, Kind};
use crate::location::CanonicalUrl;
use crate::name::PackageName;
use crate::time::Time;
use crate::yaml::go::{Decoded, Document};
use crate::yaml::{Limits, Node, Value, YamlError};

/// An index is refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Not YAML, too large, a key given twice, a member of the wrong type.
    #[error("the index does not read: {0}")]
    Yaml(#[from] YamlError),
    /// Another kind of document.
    #[error("this is no repository index: its kind is \"{kind}\", not \"{INDEX_KIND}\"")]
    Kind {
        /// The kind given.
        kind: String,
    },
    /// The URL the index says it belongs to is none.
    #[error("the index names as its repository what is no URL: {0}")]
    Repository(#[from] crate::location::UrlError),
    /// A name that no object can have.
    #[error("line {line}: {source}")]
    Name {
        /// Line in the index.
        line: usize,
        /// What is wrong with the name.
        source: crate::name::NameError,
    },
    /// A version is refused.
    #[error("line {line}: package {package} {}: {why}", version_and_build(version, *build))]
    Version {
        /// Line in the index.
        line: usize,
        /// Name of the package.
        package: String,
        /// Version as written.
        version: String,
        /// Build as written.
        build: i32,
        /// What is wrong.
        why: Box<Why>,
    },
}

/// What is wrong with a version of an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// Not an exact semantic version.
    #[error("the version is not exact (like 1.2.3)")]
    NotExact,
    /// A negative build.
    #[error("a build is 0 or more")]
    Build,
    /// Entry and spec name different versions or builds.
    #[error("entry and spec disagree on version or build")]
    Disagree,
    /// The digest is not that of the spec.
    #[error("the spec does not match its digest: listed {listed}, computed {computed}")]
    Digest {
        /// As listed.
        listed: String,
        /// Of the spec.
        computed: Digest,
    },
    /// The same version and build with two contents.
    #[error("it is listed twice with different content")]
    Twice,
}

impl Classify for IndexError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn place(&self) -> Option<String> {
        match self {
            IndexError::Yaml(error) => error.place(),
            IndexError::Name { line, .. } | IndexError::Version { line, .. } => {
                Some(format!("line {line}"))
            }
            IndexError::Kind { .. } | IndexError::Repository(_) => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            IndexError::Kind { .. } => Some("check the URL of the index".to_owned()),
            IndexError::Version { .. } | IndexError::Name { .. } => Some(
                "tell the publisher: make the index anew with \"kubepkg repo index\"".to_owned(),
            ),
            _ => None,
        }
    }
}

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

impl Index {
    /// Reads an index and checks every version. Anything wrong refuses the whole index, except
    /// a version with members this release does not know: that is left out.
    pub fn read(bytes: &[u8]) -> Result<Index, IndexError> {
        let limits = Limits {
            bytes: usize::try_from(MAX_INDEX).unwrap_or(usize::MAX),
            ..Limits::default()
        };
        let document = Document::read_signed(bytes, &limits)?;
        let root = document.root();
        let raw: RawIndex = known(&document, root)?;
        if raw.kind != INDEX_KIND {
            let kind = shown(&raw.kind);
            return Err(IndexError::Kind { kind });
        }
        let mut index = Index {
            generated: raw.generated,
            expires: raw.expires,
            repository: match raw.repository.as_str() {
                "" => None,
                url => Some(url.parse::<CanonicalUrl>()?),
            },
            packages: BTreeMap::new(),
            left_out: Vec::new(),
        };
        let packages = root.member("packages").map(|node| (node, &node.value));
        match packages {
            None | Some((_, Value::Null)) => {}
            Some((_, Value::Map(packages))) => {
                for (name, node) in packages {
                    index.package(&document, name, node)?;
                }
            }
            Some((node, _)) => return Err(document.wrong(node, "packages", "a map").into()),
        }
        Ok(index)
    }

    fn package(
        &mut self,
        document: &Document<'_>,
        name: &str,
        node: &Node,
    ) -> Result<(), IndexError> {
        let named = |source| IndexError::Name {
            line: document.line(node),
            source,
        };
        name.parse::<PackageName>().map_err(named)?;
        let raw: RawPackage = known(document, node)?;
        let versions: &[Node] = match node.member("versions").map(|node| (node, &node.value)) {
            None | Some((_, Value::Null)) => &[],
            Some((_, Value::List(versions))) => versions,
            Some((node, _)) => return Err(document.wrong(node, "versions", "a list").into()),
        };
        let mut package = IndexPackage {
            description: raw.description,
            home: raw.home,
            versions: Vec::with_capacity(versions.len()),
        };
        // By version and build: the same twice is one version, or a fraud.
        let mut seen: BTreeMap<(String, u32), Digest> = BTreeMap::new();
        for node in versions {
            let Some(version) = self.version(document, name, node)? else {
                continue;
            };
            let key = (version.version.clone(), version.build);
            let digest = *seen.entry(key).or_insert(version.digest);
            if digest != version.digest {
                return Err(IndexError::Version {
                    line: document.line(node),
                    package: name.to_owned(),
                    build: version.spec().build,
                    version: version.version,
                    why: Box::new(Why::Twice),
                });
            }
            package.versions.push(version);
        }
        if !package.versions.is_empty() {
            self.packages.insert(name.to_owned(), package);
        }
        Ok(())
    }

    /// Checks one version; `None` when it is left out.
    fn version(
        &mut self,
        document: &Document<'_>,
        package: &str,
        node: &Node,
    ) -> Result<Option<IndexVersion>, IndexError> {
        let raw: RawVersion = known(document, node)?;
        let refused = |why| IndexError::Version {
            line: document.line(node),
            package: package.to_owned(),
            version: shown(&raw.version),
            build: raw.build,
            why: Box::new(why),
        };
        if exact_version(&raw.version).is_none() {
            return Err(refused(Why::NotExact));
        }
        let build = u32::try_from(raw.build).map_err(|_| refused(Why::Build))?;
        let Decoded {
            value: spec,
            unknown,
            doubled,
        } = match node.member("spec") {
            Some(spec) => document.decode::<PackageSourceSpec>(spec)?,
            None => return Err(refused(Why::Disagree)),
        };
        if let Some(name) = doubled.first() {
            return Err(document.doubled(node, name).into());
        }
        if spec.version != raw.version || spec.build != raw.build {
            return Err(refused(Why::Disagree));
        }
        let computed = spec.digest();
        if raw.digest == computed.to_string() {
            let approvals = raw.approvals.into_iter();
            return Ok(Some(IndexVersion {
                version: raw.version,
                build,
                digest: computed,
                signatures: raw.signatures,
                withdrawn: raw.withdrawn,
                approvals: approvals.filter_map(RawApproval::read).collect(),
                spec: LazySpec::of(spec),
            }));
        }
        if unknown.is_empty() {
            let listed = shown(&raw.digest);
            return Err(refused(Why::Digest { listed, computed }));
        }
        self.left_out.push(LeftOut {
            package: package.to_owned(),
            version: raw.version,
            build,
            why: LeftOutWhy::Newer { unknown },
        });
        Ok(None)
    }
}

/// Reads a `T`; members it does not have are of no account outside a spec.
fn known<T: serde::de::DeserializeOwned>(
    document: &Document<'_>,
    node: &Node,
) -> Result<T, YamlError> {
    let decoded = document.decode::<T>(node)?;
    match decoded.doubled.first() {
        Some(name) => Err(document.doubled(node, name)),
        None => Ok(decoded.value),
    }
}
