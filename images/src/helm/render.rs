//! Rendering a chart.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubepkg_core::error::shown;
use serde_json::Value as Json;

use super::Helm;
use super::process::{self, Ended, MAX_RENDERED, MAX_SECONDS, Stopped};
use crate::chart::Chart;
use crate::documents;
use crate::error::Error;

/// A template that is added to the copy of the chart: the values as Helm sees them, conditions,
/// tags and imported values applied.
const VALUES_TEMPLATE: &str = "templates/kubepkg-zz-values.yaml";
const VALUES_TEXT: &str = "{\"kind\": \"KubepkgValues\", \"values\": {{ .Values | toJson }}}\n";

/// What a chart is rendered with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The content of values files, later ones win.
    pub values: Vec<Vec<u8>>,
    /// `key=value`, as Helm takes them.
    pub set: Vec<String>,
    /// `key=value` that are text.
    pub set_string: Vec<String>,
    /// Version of Kubernetes.
    pub kube_version: Option<String>,
    /// APIs the cluster is taken to have.
    pub api_versions: Vec<String>,
    /// Namespace.
    pub namespace: Option<String>,
    /// Name of the release.
    pub release_name: Option<String>,
}

/// One thing that is different from the [`Options`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extra {
    /// A value: `key=value`.
    Set(String),
    /// An API the cluster has besides.
    ApiVersion(String),
}

impl Extra {
    /// As it is given to the command.
    pub fn flag(&self) -> String {
        match self {
            Extra::Set(pair) => format!("--set {pair}"),
            Extra::ApiVersion(api) => format!("--api-version {api}"),
        }
    }
}

/// A rendered chart.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// All documents: hooks, tests and definitions, too.
    pub text: String,
    /// The values it was rendered with, those of charts that are switched on included; null
    /// where Helm did not come that far.
    pub values: Json,
    /// What Helm said, where it wrote documents that are no YAML.
    pub complaint: Option<String>,
}

/// A chart that lies ready for Helm.
#[derive(Debug)]
pub struct Renderer<'a> {
    helm: &'a Helm,
    chart: &'a Chart,
    options: &'a Options,
    home: PathBuf,
    folder: PathBuf,
    values: Vec<PathBuf>,
}

/// What a release is called that nobody named.
const RELEASE: &str = "release-name";

impl<'a> Renderer<'a> {
    /// Writes a copy of `chart` and the values into `scratch`, an empty folder.
    ///
    /// # Errors
    /// A chart it includes is missing, or something cannot be written.
    pub fn new(
        helm: &'a Helm,
        chart: &'a Chart,
        options: &'a Options,
        scratch: &Path,
    ) -> Result<Renderer<'a>, Error> {
        let missing = chart.missing();
        if !missing.is_empty() {
            return Err(Error::Dependencies {
                chart: chart.origin.clone(),
                names: missing,
            });
        }
        let folder = scratch.join("chart");
        let home = scratch.join("home");
        std::fs::create_dir_all(&home).map_err(Error::io("make", &home))?;
        let own = std::iter::once((VALUES_TEMPLATE, VALUES_TEXT.as_bytes()));
        let files = chart.files().iter();
        for (path, content) in files
            .map(|(path, text)| (path.as_str(), text.as_slice()))
            .chain(own)
        {
            write(&folder.join(path), content)?;
        }
        let mut values = Vec::new();
        for (n, content) in options.values.iter().enumerate() {
            let path = scratch.join(format!("values-{n}.yaml"));
            write(&path, content)?;
            values.push(path);
        }
        Ok(Renderer {
            helm,
            chart,
            options,
            home,
            folder,
            values,
        })
    }

    /// The chart, rendered, with what `extra` changes.
    ///
    /// # Errors
    /// It does not render with these values, or not within [`MAX_SECONDS`] and
    /// [`MAX_RENDERED`].
    pub fn render(&self, extra: &[Extra]) -> Result<Rendered, Error> {
        let ended = self.run(self.command(extra))?;
        if ended.status.success() {
            return Ok(rendered(ended.stdout, None));
        }
        // One bad document hides all others, unless Helm is asked for them.
        if ended.stderr.contains("YAML parse error") {
            let mut command = self.command(extra);
            command.arg("--debug");
            let again = self.run(command)?;
            if !again.stdout.trim().is_empty() {
                return Ok(rendered(again.stdout, Some(message(&ended.stderr))));
            }
        }
        Err(Error::Render {
            chart: self.chart.origin.clone(),
            message: self.without_paths(&message(&ended.stderr)),
        })
    }

    /// Whether the schema of its values is left out of account, and why that is said.
    pub fn skips_schema(&self) -> bool {
        self.chart.schema_leads_out()
    }

    fn command(&self, extra: &[Extra]) -> Command {
        let options = self.options;
        let mut command = self.helm.command(&self.home);
        let release = options.release_name.as_deref().unwrap_or(RELEASE);
        command.arg("template").arg(release).arg(&self.folder);
        command.arg("--include-crds");
        for path in &self.values {
            command.arg("--values").arg(path);
        }
        let pairs = options.set.iter().map(|pair| ("--set", pair));
        let texts = options.set_string.iter().map(|pair| ("--set-string", pair));
        let apis = options
            .api_versions
            .iter()
            .map(|api| ("--api-versions", api));
        let single = [
            ("--kube-version", &options.kube_version),
            ("--namespace", &options.namespace),
        ];
        let single = single
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value.as_ref()?)));
        let more = extra.iter().map(|extra| match extra {
            Extra::Set(pair) => ("--set", pair),
            Extra::ApiVersion(api) => ("--api-versions", api),
        });
        for (flag, value) in pairs.chain(texts).chain(apis).chain(single).chain(more) {
            // joined, so that no value is taken for a flag
            command.arg(format!("{flag}={value}"));
        }
        if self.skips_schema() {
            command.arg("--skip-schema-validation");
        }
        command
    }

    fn run(&self, command: Command) -> Result<Ended, Error> {
        let chart = || self.chart.origin.clone();
        process::run(command).map_err(|stopped| match stopped {
            Stopped::TooLong => Error::TooLong {
                chart: chart(),
                seconds: MAX_SECONDS,
            },
            Stopped::TooMuch => Error::TooMuch {
                chart: chart(),
                bytes: MAX_RENDERED,
            },
            Stopped::Io(error) => Error::io("run", self.helm.program())(error),
        })
    }

    /// Helm's words without the private folder that the user knows nothing of.
    fn without_paths(&self, text: &str) -> String {
        let folder = format!("{}/", self.folder.display());
        text.replace(&folder, "")
            .replace(&self.folder.display().to_string(), &self.chart.origin)
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(Error::io("make", folder))?;
    }
    std::fs::write(path, content).map_err(Error::io("write", path))
}

/// What Helm says is wrong, without what it says around it.
pub(super) fn message(stderr: &str) -> String {
    let text = match stderr.find("Error: ") {
        Some(at) => &stderr[at + "Error: ".len()..],
        None => stderr,
    };
    let text = text.split("Use --debug flag").next().unwrap_or(text).trim();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.as_str() {
        "" => "Helm says nothing".to_owned(),
        text => shown(text),
    }
}

/// Takes the values out of what was rendered.
fn rendered(text: String, complaint: Option<String>) -> Rendered {
    let mut values = Json::Null;
    let mut kept = String::with_capacity(text.len());
    for document in documents::split(&text) {
        let is_values = document
            .template
            .is_some_and(|template| template.ends_with(VALUES_TEMPLATE));
        if is_values {
            let json = document.text.lines().find(|line| line.starts_with('{'));
            let read = json.and_then(|line| serde_json::from_str::<Json>(line).ok());
            values = read.map_or(Json::Null, |mut read| read["values"].take());
        } else {
            kept.push_str("---");
            if !document.text.starts_with(['\n', '\r', ' ', '\t']) {
                kept.push('\n');
            }
            kept.push_str(document.text);
        }
    }
    Rendered {
        text: kept,
        values,
        complaint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helms_words_are_one_line() {
        let text = "level=WARN msg=x\nError: execution error at (a/b.yaml:1:2): needs a\npassword\n\nUse --debug flag to render out invalid YAML\n";
        assert_eq!(
            message(text),
            "execution error at (a/b.yaml:1:2): needs a password"
        );
        assert_eq!(message(""), "Helm says nothing");
    }

    #[test]
    fn the_values_are_taken_out() {
        let text = "---\n# Source: w/templates/a.yaml\nkind: A\n---\n# Source: w/templates/kubepkg-zz-values.yaml\n{\"kind\": \"KubepkgValues\", \"values\": {\"a\":{\"b\":true}}}\n---\n# Source: w/templates/c.yaml\nkind: C\n";
        let rendered = rendered(text.to_owned(), None);
        assert_eq!(rendered.values["a"]["b"], true);
        let sources: Vec<_> = documents::split(&rendered.text)
            .into_iter()
            .map(|d| d.template.unwrap())
            .collect();
        assert_eq!(sources, ["w/templates/a.yaml", "w/templates/c.yaml"]);
    }
}
