//! Helm charts: metadata out of an archive, and the OCI form of a chart that came from a
//! classic Helm repository.
//!
//! The OCI form is computed from the archive, and from the provenance file where there is one, so
//! every mirror shows the same digests. Its config is byte for byte what `helm push` writes. Its
//! manifest is not: Helm puts the time of the push into it.

mod archive;
mod form;
mod metadata;
mod oci;
mod provenance;

use crate::error::{Classify, Kind};
use crate::yaml::YamlError;

pub use form::{Config, MAX_CONFIG, Parts, check_computed, check_config, parts};
pub use metadata::{Dependency, Maintainer, Metadata};
pub use oci::{ChartForm, oci_form, oci_form_as, oci_form_with};
pub use provenance::{Attested, MAX_PROVENANCE, attested};

/// Largest chart archive. Helm's own limit for what it unpacks is 100 MiB.
pub const MAX_ARCHIVE: u64 = 64 * 1024 * 1024;

/// Most bytes an archive may unpack to.
pub const MAX_UNPACKED: u64 = 512 * 1024 * 1024;

/// Most entries in an archive: large charts with all their subcharts have some 1 000.
pub const MAX_FILES: usize = 50_000;

/// Largest `Chart.yaml`; it becomes part of a manifest, which may have 4 MiB.
pub const MAX_CHART_YAML: u64 = 1024 * 1024;

/// Why bytes are no chart that can be carried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChartError {
    /// The archive is over [`MAX_ARCHIVE`].
    #[error("the chart archive has {0} bytes; at most {MAX_ARCHIVE} are allowed")]
    TooLarge(u64),
    /// It unpacks to more than [`MAX_UNPACKED`].
    #[error("the chart archive unpacks to more than {MAX_UNPACKED} bytes")]
    Unpacked,
    /// It has more than [`MAX_FILES`] entries.
    #[error("the chart archive has more than {MAX_FILES} entries")]
    TooMany,
    /// It is no gzip-compressed tar.
    #[error("the chart archive cannot be read: {0}")]
    Archive(String),
    /// There is no `Chart.yaml`.
    #[error("the chart archive has no <chart>/Chart.yaml")]
    NoMetadata,
    /// There are two, and readers would differ in which one counts.
    #[error("the chart archive has Chart.yaml twice")]
    Twice,
    /// `Chart.yaml` cannot be read.
    #[error("Chart.yaml: {0}")]
    Yaml(#[from] YamlError),
    /// `Chart.yaml` breaks a rule.
    #[error("Chart.yaml: {0}")]
    Metadata(String),
    /// What a registry holds around the archive does not belong to it.
    #[error("{0}")]
    Form(String),
}

impl Classify for ChartError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn hint(&self) -> Option<String> {
        Some("get the chart again, and look at it with `helm show chart`".to_owned())
    }
}

/// The metadata of the chart in `archive` (a `.tgz`).
pub fn read(archive: &[u8]) -> Result<Metadata, ChartError> {
    Metadata::parse(&archive::chart_yaml(archive)?)
}

/// The metadata in a `Chart.yaml`.
pub fn read_metadata(chart_yaml: &[u8]) -> Result<Metadata, ChartError> {
    Metadata::parse(chart_yaml)
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::archive::tests::tgz;
}
