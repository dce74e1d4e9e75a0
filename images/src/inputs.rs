//! What is searched: charts, manifests, recipes, folders of them.

mod recipe;

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use walkdir::WalkDir;

use crate::chart::Chart;
use crate::error::Error;

/// Bytes of one file of manifests: the largest releases have 8 MiB.
pub const MAX_MANIFESTS: u64 = 64 * 1024 * 1024;

/// Files looked at in one folder.
pub const MAX_IN_FOLDER: usize = 20_000;

/// What is to be searched.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Charts, to be rendered.
    pub charts: Vec<Chart>,
    /// Manifests.
    pub texts: Vec<Text>,
    /// What recipes and packages are made of and is published somewhere: the caller's to fetch.
    pub wanted: Vec<Wanted>,
    /// What is named and not here.
    pub outside: Vec<Outside>,
    /// The folders that were looked into.
    folders: BTreeSet<PathBuf>,
}

/// A text of manifests.
#[derive(Clone, Debug)]
pub struct Text {
    /// The file.
    pub source: String,
    /// Its content.
    pub text: String,
}

/// Something published that belongs to what is searched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// A chart.
    Chart {
        /// The file that names it.
        source: String,
        /// URL of its repository.
        repository: String,
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// `sha256:` digest of the archive; empty where it is not said.
        digest: String,
    },
    /// A file of manifests.
    File {
        /// The file that names it.
        source: String,
        /// Its URL.
        url: String,
        /// SHA-256 in hexadecimal digits; empty where it is not said.
        sha256: String,
    },
}

impl Wanted {
    /// What it is, for people.
    pub fn what(&self) -> String {
        match self {
            Wanted::Chart {
                repository,
                name,
                version,
                ..
            } => format!("chart {name} {version} of {repository}"),
            Wanted::File { url, .. } => url.clone(),
        }
    }

    /// The note that it was not looked into.
    pub fn outside(&self) -> Outside {
        let (Wanted::Chart { source, .. } | Wanted::File { source, .. }) = self;
        Outside {
            source: source.clone(),
            what: self.what(),
            hint: "fetch it and name it in the call".to_owned(),
        }
    }
}

/// Something that is named and was not looked into.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Outside {
    /// The file that names it.
    pub source: String,
    /// What it is.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// Names of files that say what a folder is.
const CHART: &str = "Chart.yaml";
const RECIPE: &str = "recipe.yaml";
const KUSTOMIZATIONS: &[&str] = &["kustomization.yaml", "kustomization.yml", "Kustomization"];

impl Inputs {
    /// Adds a chart (folder or `.tgz`), a recipe, a file of manifests, or a folder of any of them.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn add(&mut self, path: &Path) -> Result<(), Error> {
        let is_folder = path.metadata().map_err(Error::io("read", path))?.is_dir();
        let real = path.canonicalize().map_err(Error::io("read", path))?;
        // by links a recipe can lead to itself
        if is_folder && !self.folders.insert(real) {
            return Ok(());
        }
        match is_folder {
            true => self.folder(path),
            false => self.file(path),
        }
    }

    /// Adds manifests, e.g. from standard input.
    pub fn add_text(&mut self, source: &str, text: String) {
        self.wanted.extend(recipe::charts_of(source, &text));
        self.texts.push(Text {
            source: source.to_owned(),
            text,
        });
    }

    fn folder(&mut self, folder: &Path) -> Result<(), Error> {
        if folder.join(CHART).is_file() {
            self.charts.push(Chart::open(folder)?);
            return Ok(());
        }
        if folder.join(RECIPE).is_file() {
            return self.file(&folder.join(RECIPE));
        }
        let mut inner = WalkDir::new(folder)
            .min_depth(1)
            .sort_by_file_name()
            .into_iter();
        let mut seen = 0;
        while let Some(entry) = inner.next() {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(folder).to_owned();
                Error::io("read", path)(error.into())
            })?;
            let name = entry.file_name().to_string_lossy();
            if entry.file_type().is_dir() {
                let known =
                    entry.path().join(CHART).is_file() || entry.path().join(RECIPE).is_file();
                if known || name.starts_with('.') {
                    inner.skip_current_dir();
                }
                if known {
                    self.folder(entry.path())?;
                }
                continue;
            }
            seen += 1;
            if seen > MAX_IN_FOLDER {
                return Err(Error::File {
                    file: folder.display().to_string(),
                    why: format!("this folder has more than {MAX_IN_FOLDER} files"),
                });
            }
            if KUSTOMIZATIONS.contains(&name.as_ref()) {
                self.outside.push(Outside {
                    source: entry.path().display().to_string(),
                    what: "a kustomization, which is not built here".to_owned(),
                    hint: "kubectl kustomize DIR | kubepkg images -".to_owned(),
                });
            } else if is_manifest(&name) || is_archive(&name) {
                self.file(entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if is_archive(&name) {
            self.charts.push(Chart::open(path)?);
            return Ok(());
        }
        let source = path.display().to_string();
        let file = std::fs::File::open(path).map_err(Error::io("read", path))?;
        let text = read_text(&source, file)?;
        if let Some(found) = recipe::sources(&source, &text)? {
            self.outside.extend(found.outside);
            self.wanted.extend(found.wanted);
            let home = path.parent().unwrap_or(Path::new("."));
            for folder in found.folders {
                self.add(&home.join(folder))?;
            }
        }
        self.add_text(&source, text);
        Ok(())
    }
}

/// Reads manifests to their end.
///
/// # Errors
/// They cannot be read, are longer than [`MAX_MANIFESTS`], or no text.
pub fn read_text(source: &str, from: impl Read) -> Result<String, Error> {
    let wrong = |why: String| Error::File {
        file: source.to_owned(),
        why,
    };
    let mut bytes = Vec::new();
    let read = from.take(MAX_MANIFESTS + 1).read_to_end(&mut bytes);
    read.map_err(Error::io("read", source))?;
    if bytes.len() as u64 > MAX_MANIFESTS {
        return Err(wrong(format!(
            "there are more than {MAX_MANIFESTS} bytes of manifests"
        )));
    }
    String::from_utf8(bytes).map_err(|_| wrong("these manifests are not UTF-8 text".to_owned()))
}

fn ends_with(name: &str, ends: &[&str]) -> bool {
    let name = name.to_ascii_lowercase();
    ends.iter().any(|end| name.ends_with(end))
}

fn is_manifest(name: &str) -> bool {
    ends_with(name, &[".yaml", ".yml", ".json"]) && !name.starts_with('.')
}

fn is_archive(name: &str) -> bool {
    ends_with(name, &[".tgz", ".tar.gz"])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    const CHART_YAML: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";

    #[test]
    fn a_folder_is_taken_apart() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        file(root, "a.yaml", "kind: Pod");
        file(root, "deep/b.json", "{}");
        file(root, "deep/README.md", "x");
        file(root, ".git/c.yaml", "kind: Pod");
        file(root, "chart/Chart.yaml", CHART_YAML);
        file(root, "chart/templates/d.yaml", "kind: Pod");
        file(root, "k/kustomization.yaml", "resources: []");
        let mut inputs = Inputs::default();
        inputs.add(root).unwrap();
        let names: Vec<&str> = inputs
            .texts
            .iter()
            .map(|t| t.source.rsplit('/').next().unwrap())
            .collect();
        assert_eq!(names, ["a.yaml", "b.json"]);
        assert_eq!(inputs.charts.len(), 1);
        assert_eq!(inputs.outside.len(), 1);
        assert!(Inputs::default().add(&root.join("none")).is_err());
    }

    #[test]
    fn a_recipe_brings_its_folders_and_names_what_is_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let recipe = "
apiVersion: kubepkg.dev/v1
kind: Recipe
metadata: {name: web}
spec:
  version: 1.0.0
  sources:
    own: {dir: charts/web}
    upstream: {chart: {repository: 'https://charts.example.com', name: db, version: 1.2.3}}
    operator: {url: 'https://example.com/operator.yaml', sha256: ab}
  package: {images: ['quay.io/a/listed:1']}
";
        file(root, "recipe.yaml", recipe);
        file(root, "charts/web/Chart.yaml", CHART_YAML);
        let mut inputs = Inputs::default();
        inputs.add(root).unwrap();
        assert_eq!((inputs.charts.len(), inputs.texts.len()), (1, 1));
        let wanted: Vec<String> = inputs.wanted.iter().map(Wanted::what).collect();
        assert_eq!(
            wanted,
            [
                "https://example.com/operator.yaml",
                "chart db 1.2.3 of https://charts.example.com"
            ]
        );
        file(
            root,
            "recipe.yaml",
            "kind: Recipe\nspec: {sources: {own: {dir: ../../etc}}}",
        );
        assert!(Inputs::default().add(root).is_err());
    }

    #[test]
    fn a_package_names_charts_that_are_elsewhere() {
        let mut inputs = Inputs::default();
        let package = "
apiVersion: kubepkg.dev/v1
kind: PackageSource
spec: {variants: [{components: [{chart: {repository: 'https://c.example.com', name: db, version: '1'}}]}]}
---
kind: Pod
";
        inputs.add_text("p.yaml", package.to_owned());
        assert_eq!(inputs.wanted.len(), 1);
        assert!(inputs.wanted[0].what().contains("chart db 1"));
    }
}
