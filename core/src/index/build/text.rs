//! The text of an index, written package by package: as a whole it would stand in memory many
//! times.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{BuildError, Draft, DraftChart, Version};
use crate::Digest;
use crate::api::{INDEX_API_VERSION, INDEX_KIND, PackageSourceSpec};
use crate::error::shown;
use crate::index::{Approval, VersionSignature, Withdrawn};
use crate::location::CanonicalUrl;
use crate::time::Time;
use crate::yaml::write;

/// What stands before the packages, in the order of keys.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Time>,
    generated: Time,
    kind: &'static str,
}

/// What stands behind them.
#[derive(Serialize)]
struct Tail<'a> {
    repository: &'a CanonicalUrl,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawn: Option<&'a Withdrawn>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    approvals: &'a [Approval],
}

fn is_zero(build: &i32) -> bool {
    *build == 0
}

impl Draft {
    /// The text of the index.
    pub fn to_yaml(&self, generated: Time, expires: Option<Time>) -> Result<Vec<u8>, BuildError> {
        if let Some(DraftChart { chart, .. }) = self.unpinned_charts().into_iter().next() {
            return Err(BuildError::Unpinned {
                name: shown(&chart.name),
                version: shown(&chart.version),
                repository: crate::location::redacted(&chart.repository),
            });
        }
        let mut text = yaml(&Head {
            api_version: INDEX_API_VERSION,
            expires,
            generated,
            kind: INDEX_KIND,
        })?;
        if self.packages.is_empty() {
            text.push_str("packages: {}\n");
        } else {
            text.push_str("packages:\n");
        }
        for (name, versions) in &self.packages {
            package(&mut text, name, versions)?;
        }
        if let Some(repository) = &self.repository {
            text.push_str(&yaml(&Tail { repository })?);
        }
        Ok(text.into_bytes())
    }
}

fn yaml(value: &impl Serialize) -> Result<String, BuildError> {
    write::to_string(value).map_err(|error| BuildError::Write(error.to_string()))
}

/// Adds one package, moved in by one level.
fn package(text: &mut String, name: &str, versions: &[Version]) -> Result<(), BuildError> {
    let newest = versions.first();
    let specs: Vec<_> = versions.iter().map(|version| version.spec.get()).collect();
    let file = FilePackage {
        description: newest.map_or("", |version| &version.description),
        home: newest.map_or("", |version| &version.home),
        versions: versions
            .iter()
            .zip(&specs)
            .map(|(version, spec)| FileVersion {
                version: &spec.version,
                build: spec.build,
                digest: version.spec.digest(),
                spec,
                signatures: &version.signatures,
                withdrawn: version.withdrawn.as_ref(),
                approvals: &version.approvals,
            })
            .collect(),
    };
    for line in yaml(&BTreeMap::from([(name, file)]))?.split_inclusive('\n') {
        // A line without text is one of a block of text, and stays so.
        if line != "\n" {
            text.push_str("  ");
        }
        text.push_str(line);
    }
    Ok(())
}
