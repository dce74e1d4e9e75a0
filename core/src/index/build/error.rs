//! Why no index can be made.

use super::Rule;
use crate::error::{Classify, Kind};
use crate::yaml::YamlError;

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
    /// A version is published already, and is another now.
    #[error(
        "{file}:{line}: {package} is already published with different content; published versions do not change"
    )]
    Published {
        /// The file.
        file: String,
        /// Line the document begins on.
        line: usize,
        /// Name, version and build.
        package: String,
    },
    /// The published index has versions that this program would lose.
    #[error(
        "the published index has {count} versions made for a newer kubepkg, {first} among them"
    )]
    Newer {
        /// Their number.
        count: usize,
        /// The first of them.
        first: String,
    },
    /// A version whose digest changes is signed or approved by others.
    #[error("{package} would move, but others have signed it as it is; it needs signing again")]
    Signed {
        /// Name, version and build.
        package: String,
    },
    /// A version that the index does not have.
    #[error("the index has no {0}")]
    NotListed(String),
    /// A version that nobody has withdrawn.
    #[error("{0} is not withdrawn")]
    NotWithdrawn(String),
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
            BuildError::NotListed(_) | BuildError::NotWithdrawn(_) => Kind::NotFound,
            _ => Kind::Refused,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            BuildError::Yaml { file, source } => Some(match source.line {
                Some(line) => format!("{file}:{line}"),
                None => file.clone(),
            }),
            BuildError::Rule { file, line, .. }
            | BuildError::Twice { file, line, .. }
            | BuildError::Published { file, line, .. } => Some(format!("{file}:{line}")),
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
            BuildError::Published { .. } => Some("give it a new build number".to_owned()),
            BuildError::Newer { .. } => Some("upgrade kubepkg on this machine".to_owned()),
            BuildError::Signed { .. } => {
                Some("publish it under a new build, signed by its own keys".to_owned())
            }
            BuildError::NotListed(_) => {
                Some("\"kubepkg repo show\" lists what the index has".to_owned())
            }
            _ => None,
        }
    }
}
