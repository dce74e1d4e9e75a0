//! What can go wrong.

use std::io;
use std::path::PathBuf;

use kubepkg_core::chart::ChartError;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::yaml::YamlError;

use crate::helm::OLDEST;

/// Why images could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no Helm.
    #[error("Helm is needed to render charts, and there is none: looked for {}", all(.looked))]
    NoHelm {
        /// The places where it was looked for.
        looked: Vec<PathBuf>,
    },
    /// This Helm cannot be used.
    #[error("this Helm cannot be used: {why}: {}", .program.display())]
    Helm {
        /// The program.
        program: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The chart does not render with these values.
    #[error("the chart does not render: {message}: {chart}")]
    Render {
        /// The chart.
        chart: String,
        /// Helm's words.
        message: String,
    },
    /// Helm took longer than it may.
    #[error("Helm did not end within {seconds} s: {chart}")]
    TooLong {
        /// The chart.
        chart: String,
        /// The limit.
        seconds: u64,
    },
    /// Helm wrote more than it may.
    #[error("the chart renders to more than {bytes} bytes: {chart}")]
    TooMuch {
        /// The chart.
        chart: String,
        /// The limit.
        bytes: usize,
    },
    /// Charts that this one includes are not in it.
    #[error("charts it includes are not in its charts/ folder: {}: {chart}", .names.join(", "))]
    Dependencies {
        /// The chart.
        chart: String,
        /// Name and version of each.
        names: Vec<String>,
    },
    /// It is no chart.
    #[error("{source}: {chart}")]
    Chart {
        /// The folder or archive.
        chart: String,
        /// What is wrong.
        source: ChartError,
    },
    /// A file of a chart is not what it should be.
    #[error("{why}: {file}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// YAML that is not what it should be.
    #[error("{source}: {file}")]
    Yaml {
        /// The file.
        file: String,
        /// What is wrong.
        source: YamlError,
    },
    /// A file or folder cannot be used.
    #[error("cannot {action} {}", .path.display())]
    Io {
        /// What was tried, e.g. "read".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

fn all(paths: &[PathBuf]) -> String {
    match paths {
        [] => "it nowhere, as PATH is empty".to_owned(),
        paths => {
            let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
            paths.join(", ")
        }
    }
}

impl Error {
    /// What is wrong, without the chart it is about.
    pub(crate) fn words(&self) -> String {
        let text = self.to_string();
        match self.place() {
            Some(place) => text
                .strip_suffix(&format!(": {place}"))
                .map_or_else(|| text.clone(), str::to_owned),
            None => text,
        }
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            action,
            path,
            source,
        }
    }
}

impl Classify for Error {
    fn kind(&self) -> Kind {
        match self {
            Error::NoHelm { .. } => Kind::NotFound,
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => Kind::NotFound,
            Error::Chart { .. } | Error::File { .. } | Error::Yaml { .. } => Kind::Refused,
            _ => Kind::Failed,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            Error::NoHelm { .. } => None,
            Error::Helm { program, .. } => Some(program.display().to_string()),
            Error::Render { chart, .. }
            | Error::TooLong { chart, .. }
            | Error::TooMuch { chart, .. }
            | Error::Dependencies { chart, .. }
            | Error::Chart { chart, .. } => Some(chart.clone()),
            Error::File { file, .. } | Error::Yaml { file, .. } => Some(file.clone()),
            Error::Io { path, .. } => Some(path.display().to_string()),
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoHelm { .. } | Error::Helm { .. } => format!(
                "install Helm {OLDEST} or newer (https://helm.sh/docs/intro/install) so that it is \
                 on PATH, or name it: --helm /path/to/helm"
            ),
            Error::Render { .. } => "give it the values it needs with --set KEY=VALUE or --values \
                                     FILE; kubepkg itself passes none"
                .to_owned(),
            Error::Dependencies { chart, .. } => format!(
                "nothing is fetched here; bring them into the chart: helm dependency build {chart}"
            ),
            Error::Chart { source, .. } => return source.hint(),
            _ => return None,
        })
    }
}
