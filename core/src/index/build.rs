//! Making an index from PackageSource documents: the part of `kubepkg repo index` that needs
//! neither files nor network. [`read_file`], [`collect`], pin what [`Draft::unpinned`]
//! lists, [`Draft::to_yaml`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{VersionSignature, exact_version, shown, version_and_build};
use crate::api::{
    Chart, DESCRIPTION_ANNOTATION, HOME_ANNOTATION, INDEX_API_VERSION, INDEX_KIND,
    PACKAGE_SOURCE_KIND, PackageSource, PackageSourceSpec, SIGNATURES_ANNOTATION,
};
use crate::error::{Classify, Kind};
use crate::location::CanonicalUrl;
use crate::name::PackageName;
use crate::time::Time;
use crate::yaml::{Limits, YamlError, strict, write};
use crate::{Algorithm, Digest};

mod check;

pub use check::Rule;

/// Largest file of PackageSources that is read, in bytes.
pub const MAX_SOURCE_FILE: usize = 16 * 1024 * 1024;

/// A PackageSource document and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file, as the user named it.
    pub file: String,
    /// Line the document begins on.
    pub line: usize,
    /// The document.
    pub source: PackageSource,
}

/// Why no index can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A file does not read.
    #[error("{}", in_file(.file, .source))]
    Yaml {
        /// The file.
        file: String,
        /// What is wrong with it.
        source: YamlError,
    },
    /// A document breaks a rule.
    #[error("{file}:{line}: {package}: {rule}")]
    Rule {
        /// The file.
        file: String,
        /// Line the document begins on.
        line: usize,
        /// Name and version of the package, as far as given.
        package: String,
        /// The rule.
        rule: Box<Rule>,
    },
    /// The same name, version and build twice.
    #[error("{file}:{line}: {package} is also defined in {other}")]
    Twice {
        /// The file.
        file: String,
        /// Line the document begins on.
        line: usize,
        /// Name, version and build.
        package: String,
        /// The other place, `file:line`.
        other: String,
    },
    /// A chart has no digest yet.
    #[error("chart {name} {version} of {repository} is not pinned by digest")]
    Unpinned {
        /// Name of the chart.
        name: String,
        /// Version of the chart.
        version: String,
        /// Repository of the chart, redacted.
        repository: String,
    },
    /// Pinning with something else than sha256, which is all the API takes.
    #[error("a chart is pinned with a sha256 digest, not with {0}")]
    PinAlgorithm(&'static str),
    /// The index has no JSON form.
    #[error("the index cannot be written: {0}")]
    Write(String),
}

/// An error in a file; the line goes to the file's name, as editors and `place` have it.
fn in_file(file: &str, error: &YamlError) -> String {
    let text = error.to_string();
    let Some(line) = error.line else {
        return format!("{file}: {text}");
    };
    let what = text.strip_prefix(&format!("line {line}: "));
    format!("{file}:{line}: {}", what.unwrap_or(&text))
}

impl Classify for BuildError {
    fn kind(&self) -> Kind {
        match self {
            BuildError::Write(_) => Kind::Failed,
            _ => Kind::Refused,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            BuildError::Yaml { file, source } => Some(match source.line {
                Some(line) => format!("{file}:{line}"),
                None => file.clone(),
            }),
            BuildError::Rule { file, line, .. } | BuildError::Twice { file, line, .. } => {
                Some(format!("{file}:{line}"))
            }
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            BuildError::Yaml { source, .. } => source.hint(),
            BuildError::Rule { rule, .. } => rule.hint().map(str::to_owned),
            BuildError::Twice { .. } => {
                Some("give one of them a new version or a higher build".to_owned())
            }
            _ => None,
        }
    }
}

/// The PackageSources of a file. Documents of other kinds may stand beside them and are not
/// looked at.
pub fn read_file(file: &str, text: &str) -> Result<Vec<Found>, BuildError> {
    let wrong = |source| BuildError::Yaml {
        file: file.to_owned(),
        source,
    };
    let limits = Limits {
        bytes: MAX_SOURCE_FILE,
        ..Limits::default()
    };
    let documents = strict::documents(text, &limits).map_err(wrong)?;
    let ours = |document: &&strict::Document<'_>| document.kind() == Some(PACKAGE_SOURCE_KIND);
    documents
        .iter()
        .filter(ours)
        .map(|document| {
            Ok(Found {
                file: file.to_owned(),
                line: document.line(),
                source: document.read().map_err(wrong)?,
            })
        })
        .collect()
}

/// An index being made.
#[derive(Clone, Debug)]
pub struct Draft {
    packages: BTreeMap<String, Vec<Version>>,
    repository: Option<CanonicalUrl>,
}

/// One version in a draft.
#[derive(Clone, Debug)]
struct Version {
    exact: semver::Version,
    description: String,
    home: String,
    signatures: Vec<VersionSignature>,
    spec: PackageSourceSpec,
}

/// A chart that some versions of a draft use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftChart {
    /// The chart; its digest is empty while it is not pinned.
    pub chart: Chart,
    /// Who uses it: `<package> <version> build <n>`, each once.
    pub used_by: Vec<String>,
}

/// Checks the documents and gathers them into a draft, newest version first.
pub fn collect(found: Vec<Found>) -> Result<Draft, BuildError> {
    let mut packages: BTreeMap<String, Vec<Version>> = BTreeMap::new();
    let mut places: BTreeMap<(String, String, i32), String> = BTreeMap::new();
    for Found { file, line, source } in found {
        let label = label(source.name(), &source.spec);
        let refused = |rule| BuildError::Rule {
            file: file.clone(),
            line,
            package: label.clone(),
            rule: Box::new(rule),
        };
        let name = source.name();
        name.parse::<PackageName>()
            .map_err(|error| refused(Rule::Name(error)))?;
        check::spec(&source.spec).map_err(refused)?;
        let exact = exact_version(&source.spec.version).ok_or_else(|| refused(Rule::NotExact))?;
        let signatures = signatures(&source).map_err(refused)?;
        let key = (
            name.to_owned(),
            source.spec.version.trim_start_matches('v').to_owned(),
            source.spec.build,
        );
        if let Some(other) = places.insert(key, format!("{file}:{line}")) {
            return Err(BuildError::Twice {
                file,
                line,
                package: label,
                other,
            });
        }
        let version = Version {
            exact,
            description: source.annotation(DESCRIPTION_ANNOTATION).to_owned(),
            home: source.annotation(HOME_ANNOTATION).to_owned(),
            signatures,
            spec: source.spec,
        };
        packages
            .entry(source.metadata.name)
            .or_default()
            .push(version);
    }
    for versions in packages.values_mut() {
        versions.sort_by(|a, b| {
            // Build metadata has no say in what is newer; the text only settles the order.
            let newer = b.exact.cmp_precedence(&a.exact);
            newer
                .then(Reverse(a.spec.build).cmp(&Reverse(b.spec.build)))
                .then_with(|| a.spec.version.cmp(&b.spec.version))
        });
    }
    Ok(Draft {
        packages,
        repository: None,
    })
}

/// Name, version and build for messages.
fn label(name: &str, spec: &PackageSourceSpec) -> String {
    let name = if name.is_empty() { "(no name)" } else { name };
    let version = shown(&spec.version);
    format!(
        "{} {}",
        shown(name),
        version_and_build(&version, spec.build)
    )
}

/// The signatures by delegated keys that the annotation carries.
fn signatures(source: &PackageSource) -> Result<Vec<VersionSignature>, Rule> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        keyid: String,
        sig: String,
    }
    let entries: Vec<Entry> = match source.annotation(SIGNATURES_ANNOTATION) {
        "" => Vec::new(),
        text => serde_json::from_str(text).map_err(|_| Rule::Signatures)?,
    };
    let signature = |Entry { keyid, sig }| VersionSignature { keyid, sig };
    Ok(entries.into_iter().map(signature).collect())
}

impl Draft {
    /// Makes the index say which URL it belongs to.
    pub fn set_repository(&mut self, url: CanonicalUrl) {
        self.repository = Some(url);
    }

    /// Number of packages.
    pub fn packages(&self) -> usize {
        self.packages.len()
    }

    /// Number of versions of all packages.
    pub fn versions(&self) -> usize {
        self.packages.values().map(Vec::len).sum()
    }

    /// Every chart once, with its users.
    pub fn charts(&self) -> Vec<DraftChart> {
        let mut charts: BTreeMap<&Chart, Vec<String>> = BTreeMap::new();
        for (name, versions) in &self.packages {
            for version in versions {
                let label = label(name, &version.spec);
                for used in version.spec.charts() {
                    let users = charts.entry(used.chart).or_default();
                    if users.last() != Some(&label) {
                        users.push(label.clone());
                    }
                }
            }
        }
        charts
            .into_iter()
            .map(|(chart, used_by)| DraftChart {
                chart: chart.clone(),
                used_by,
            })
            .collect()
    }

    /// The charts that still need a digest: fetch each and [`Draft::pin`] it.
    pub fn unpinned_charts(&self) -> Vec<DraftChart> {
        let mut charts = self.charts();
        charts.retain(|used| used.chart.digest.is_empty());
        charts
    }

    /// Pins `chart` (as [`Draft::unpinned_charts`] lists it) wherever it is used without a
    /// digest. Gives the number of places.
    pub fn pin(&mut self, chart: &Chart, digest: &Digest) -> Result<usize, BuildError> {
        if digest.algorithm() != Algorithm::Sha256 {
            return Err(BuildError::PinAlgorithm(digest.algorithm().as_str()));
        }
        let versions = self.packages.values_mut().flatten();
        let variants = versions.flat_map(|version| &mut version.spec.variants);
        let components = variants.flat_map(|variant| &mut variant.components);
        let mut pinned = 0;
        for used in components.filter_map(|component| component.chart.as_mut()) {
            let same = used.repository == chart.repository
                && used.name == chart.name
                && used.version == chart.version;
            if same && used.digest.is_empty() {
                used.digest = digest.to_string();
                pinned += 1;
            }
        }
        Ok(pinned)
    }

    /// The text of the index.
    pub fn to_yaml(&self, generated: Time, expires: Option<Time>) -> Result<Vec<u8>, BuildError> {
        if let Some(DraftChart { chart, .. }) = self.unpinned_charts().into_iter().next() {
            return Err(BuildError::Unpinned {
                name: shown(&chart.name),
                version: shown(&chart.version),
                repository: crate::location::redacted(&chart.repository),
            });
        }
        let file = File {
            api_version: INDEX_API_VERSION,
            kind: INDEX_KIND,
            generated,
            expires,
            repository: self.repository.as_ref(),
            packages: self.packages.iter().map(file_package).collect(),
        };
        write::to_string(&file)
            .map(String::into_bytes)
            .map_err(|error| BuildError::Write(error.to_string()))
    }
}

fn file_package<'a>(
    (name, versions): (&'a String, &'a Vec<Version>),
) -> (&'a str, FilePackage<'a>) {
    let newest = versions.first();
    let entry = |version: &'a Version| FileVersion {
        version: &version.spec.version,
        build: version.spec.build,
        digest: version.spec.digest(),
        spec: &version.spec,
        signatures: &version.signatures,
    };
    let package = FilePackage {
        description: newest.map_or("", |version| &version.description),
        home: newest.map_or("", |version| &version.home),
        versions: versions.iter().map(entry).collect(),
    };
    (name, package)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    api_version: &'static str,
    kind: &'static str,
    generated: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<&'a CanonicalUrl>,
    packages: BTreeMap<&'a str, FilePackage<'a>>,
}

#[derive(Serialize)]
struct FilePackage<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    home: &'a str,
    versions: Vec<FileVersion<'a>>,
}

#[derive(Serialize)]
struct FileVersion<'a> {
    version: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    build: i32,
    digest: Digest,
    spec: &'a PackageSourceSpec,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    signatures: &'a [VersionSignature],
}

fn is_zero(build: &i32) -> bool {
    *build == 0
}

#[cfg(test)]
mod tests;
