//! Making an index from PackageSource documents: the part of `kubepkg repo index` that needs
//! neither files nor network. [`read_file`], [`collect`], pin what [`Draft::unpinned`]
//! lists, [`Draft::to_yaml`].

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Approval, VersionSignature, Withdrawn, version_and_build};
use crate::api::{
    APPROVALS_ANNOTATION, Chart, DESCRIPTION_ANNOTATION, HOME_ANNOTATION, PACKAGE_SOURCE_KIND,
    PackageSource, PackageSourceSpec, SIGNATURES_ANNOTATION,
};
use crate::error::shown;
use crate::location::CanonicalUrl;
use crate::name::PackageName;
use crate::time::Time;
use crate::version::Version as Semver;
use crate::yaml::{Limits, strict};
use crate::{Algorithm, Digest};

mod check;
mod error;
mod merge;
mod relocate;
mod spec;
mod text;
mod withdraw;

pub use check::Rule;
pub use error::BuildError;
pub use merge::Merged;
pub use relocate::{Relocation, RelocationError};
use spec::Spec;

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
#[derive(Clone, Debug, Default)]
pub struct Draft {
    packages: BTreeMap<String, Vec<Version>>,
    repository: Option<CanonicalUrl>,
}

/// One version in a draft.
#[derive(Clone, Debug)]
struct Version {
    exact: Semver,
    /// File and line of its recipe; a published one has none.
    place: Option<(String, usize)>,
    description: String,
    home: String,
    signatures: Vec<VersionSignature>,
    withdrawn: Option<Withdrawn>,
    approvals: Vec<Approval>,
    /// The version as written.
    text: String,
    build: i32,
    spec: Spec,
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
        let exact =
            Semver::parse_published(&source.spec.version).map_err(|_| refused(Rule::NotExact))?;
        let signatures = signatures(&source).map_err(refused)?;
        let approvals = approvals(&source).map_err(refused)?;
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
            place: Some((file, line)),
            description: source.annotation(DESCRIPTION_ANNOTATION).to_owned(),
            home: source.annotation(HOME_ANNOTATION).to_owned(),
            signatures,
            withdrawn: None,
            approvals,
            text: source.spec.version.clone(),
            build: source.spec.build,
            spec: Spec::Own(source.spec.into()),
        };
        packages
            .entry(source.metadata.name)
            .or_default()
            .push(version);
    }
    packages.values_mut().for_each(|versions| sort(versions));
    Ok(Draft {
        packages,
        repository: None,
    })
}

/// Newest first.
fn sort(versions: &mut [Version]) {
    versions.sort_by(|a, b| {
        // Build metadata has no say in what is newer; the text only settles the order.
        let newer = b.exact.cmp(&a.exact);
        newer
            .then(Reverse(a.build).cmp(&Reverse(b.build)))
            .then_with(|| a.text.cmp(&b.text))
    });
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
    let entries: Vec<Entry> = list(source, SIGNATURES_ANNOTATION).ok_or(Rule::Signatures)?;
    let signature = |Entry { keyid, sig }| VersionSignature { keyid, sig };
    Ok(entries.into_iter().map(signature).collect())
}

/// The approvals that the annotation carries.
fn approvals(source: &PackageSource) -> Result<Vec<Approval>, Rule> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry {
        keyid: String,
        sig: String,
        time: Time,
    }
    let entries: Vec<Entry> = list(source, APPROVALS_ANNOTATION).ok_or(Rule::Approvals)?;
    let approval = |Entry { keyid, sig, time }| Approval { keyid, sig, time };
    Ok(entries.into_iter().map(approval).collect())
}

/// The JSON list of an annotation; an empty one is none.
fn list<T: DeserializeOwned>(source: &PackageSource, annotation: &str) -> Option<Vec<T>> {
    match source.annotation(annotation) {
        "" => Some(Vec::new()),
        text => serde_json::from_str(text).ok(),
    }
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

    /// Every chart once, with its users: what `--verify` fetches and compares.
    pub fn charts(&self) -> Vec<DraftChart> {
        let mut charts: BTreeMap<Chart, Vec<String>> = BTreeMap::new();
        for (name, versions) in &self.packages {
            for version in versions {
                let spec = version.spec.get();
                let label = label(name, &spec);
                for used in spec.charts() {
                    let users = match charts.get_mut(used.chart) {
                        Some(users) => users,
                        None => charts.entry(used.chart.clone()).or_default(),
                    };
                    if users.last() != Some(&label) {
                        users.push(label.clone());
                    }
                }
            }
        }
        charts
            .into_iter()
            .map(|(chart, used_by)| DraftChart { chart, used_by })
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
        let specs = versions.filter_map(|version| version.spec.own_mut());
        let variants = specs.flat_map(|spec| &mut spec.variants);
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
}

#[cfg(test)]
mod tests;
