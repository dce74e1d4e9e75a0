//! A chart as files in memory: what Helm will render, and what it may leave out.

mod read;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use kubepkg_core::chart::{Dependency, Metadata, read_metadata};
use kubepkg_core::yaml::go;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::documents::LIMITS;
use crate::error::Error;

pub use read::{MAX_FILE, MAX_FILES, MAX_TREE};

/// Charts within charts. Helm has no limit; nobody has more than three.
const MAX_LEVELS: usize = 16;

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The folder or archive it was read from.
    pub origin: String,
    /// Its metadata.
    pub metadata: Metadata,
    /// Its default values.
    pub values: Json,
    /// The charts in its `charts/` folder.
    pub subcharts: Vec<Chart>,
    files: BTreeMap<String, Vec<u8>>,
}

/// The file in which charts of the first kind name the charts they include.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requirements {
    dependencies: Vec<Dependency>,
}

impl Chart {
    /// Reads a chart from a folder or a `.tgz`.
    ///
    /// # Errors
    /// It is no chart, holds more than [`MAX_TREE`] bytes, or links out of its folder.
    pub fn open(path: &Path) -> Result<Chart, Error> {
        let files = match path.is_dir() {
            true => read::folder(path)?,
            false => read::archive_file(path)?,
        };
        let mut room = MAX_UNPACKED;
        Chart::of(path.display().to_string(), files, 0, &mut room)
    }

    /// The chart in a `.tgz`; `origin` is what it is called in messages.
    ///
    /// # Errors
    /// As [`Chart::open`].
    pub fn from_archive(origin: &str, archive: &[u8]) -> Result<Chart, Error> {
        let files = read::archive(origin, archive)?;
        let mut room = MAX_UNPACKED;
        Chart::of(origin.to_owned(), files, 0, &mut room)
    }

    /// `room` is how many bytes the archives within it may unpack to.
    fn of(
        origin: String,
        files: BTreeMap<String, Vec<u8>>,
        level: usize,
        room: &mut u64,
    ) -> Result<Chart, Error> {
        let wrong = |source| Error::Chart {
            chart: origin.clone(),
            source,
        };
        let chart_yaml = files.get("Chart.yaml").ok_or_else(|| Error::File {
            file: origin.clone(),
            why: "this is no chart: there is no Chart.yaml in it".to_owned(),
        })?;
        let mut metadata = read_metadata(chart_yaml).map_err(wrong)?;
        if let Some(text) = files.get("requirements.yaml") {
            let requirements: Requirements = decode(&format!("{origin}/requirements.yaml"), text)?;
            metadata.dependencies.extend(requirements.dependencies);
        }
        let values = match files.get("values.yaml") {
            Some(text) => decode(&format!("{origin}/values.yaml"), text)?,
            None => Json::Null,
        };
        let subcharts = match level < MAX_LEVELS {
            true => subcharts(&origin, &files, level + 1, room)?,
            false => Vec::new(),
        };
        Ok(Chart {
            origin,
            metadata,
            values,
            subcharts,
            files,
        })
    }

    /// The charts it includes that are not in it, each with its version.
    pub fn missing(&self) -> Vec<String> {
        let there = |name: &str| {
            self.subcharts
                .iter()
                .any(|chart| chart.metadata.name == name)
        };
        let mut missing: Vec<String> = self
            .metadata
            .dependencies
            .iter()
            .filter(|dependency| !there(&dependency.name))
            .map(|dependency| {
                format!("{} {}", dependency.name, dependency.version)
                    .trim()
                    .to_owned()
            })
            .collect();
        for chart in &self.subcharts {
            let inner = chart.missing().into_iter();
            missing.extend(inner.map(|name| format!("{name} (of {})", chart.metadata.name)));
        }
        missing
    }

    /// The chart that is included as `dependency`.
    pub(crate) fn included(&self, dependency: &Dependency) -> Option<&Chart> {
        self.subcharts
            .iter()
            .find(|chart| chart.metadata.name == dependency.name)
    }

    /// Its files by their path below the chart.
    pub(crate) fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Its templates, named as Helm names them, with their text.
    pub(crate) fn own_templates(&self) -> impl Iterator<Item = (String, Cow<'_, str>)> {
        let name = &self.metadata.name;
        let own = self.files.iter();
        let own = own.filter(|(path, _)| path.starts_with("templates/"));
        own.map(move |(path, text)| (format!("{name}/{path}"), String::from_utf8_lossy(text)))
    }

    /// Its templates and those of the charts in it.
    pub(crate) fn templates(&self) -> Vec<(String, Cow<'_, str>)> {
        let name = &self.metadata.name;
        let inner = self.subcharts.iter().flat_map(Chart::templates);
        let inner = inner.map(|(path, text)| (format!("{name}/charts/{path}"), text));
        self.own_templates().chain(inner).collect()
    }

    /// Whether a schema of its values, or of those of a chart in it, would have Helm read
    /// something that is not in the chart.
    pub(crate) fn schema_leads_out(&self) -> bool {
        let leads_out = |text: &[u8]| match serde_json::from_slice::<Json>(text) {
            Ok(schema) => refers_out(&schema),
            // Helm will say what is wrong with it
            Err(_) => false,
        };
        self.files
            .get("values.schema.json")
            .is_some_and(|text| leads_out(text))
            || self.subcharts.iter().any(Chart::schema_leads_out)
    }
}

/// The dialects that a validator knows without looking anywhere.
const DIALECTS: &[&str] = &["http://json-schema.org/", "https://json-schema.org/"];

fn refers_out(schema: &Json) -> bool {
    match schema {
        Json::Object(members) => members
            .iter()
            .any(|(name, value)| match (name.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$schema" | "$id" | "id", Json::String(url)) => {
                    url.contains("://") && !DIALECTS.iter().any(|known| url.starts_with(known))
                }
                _ => refers_out(value),
            }),
        Json::Array(items) => items.iter().any(refers_out),
        _ => false,
    }
}

/// Reads YAML as Helm does.
fn decode<T: serde::de::DeserializeOwned>(file: &str, text: &[u8]) -> Result<T, Error> {
    let wrong = |source| Error::Yaml {
        file: file.to_owned(),
        source,
    };
    let document = go::Document::read(text, &LIMITS).map_err(wrong)?;
    let decoded = document.decode(document.root()).map_err(wrong)?;
    Ok(decoded.value)
}

/// Bytes that the archives within one chart may unpack to, all together: what one chart may
/// have. Each alone keeps to it, but there may be thousands.
const MAX_UNPACKED: u64 = MAX_TREE;

/// The charts in the `charts/` folder: folders and archives.
fn subcharts(
    origin: &str,
    files: &BTreeMap<String, Vec<u8>>,
    level: usize,
    room: &mut u64,
) -> Result<Vec<Chart>, Error> {
    let mut folders: BTreeMap<&str, BTreeMap<String, Vec<u8>>> = BTreeMap::new();
    let mut found = Vec::new();
    for (path, content) in files {
        let Some(below) = path.strip_prefix("charts/") else {
            continue;
        };
        match below.split_once('/') {
            // Helm passes these over too
            _ if below.starts_with(['_', '.']) => {}
            Some((folder, rest)) => {
                let inner = folders.entry(folder).or_default();
                inner.insert(rest.to_owned(), content.clone());
            }
            None if below.ends_with(".tgz") => {
                let origin = format!("{origin}/{path}");
                let inner = read::archive(&origin, content)?;
                let unpacked: u64 = inner.values().map(|content| content.len() as u64).sum();
                *room = room.checked_sub(unpacked).ok_or_else(|| Error::File {
                    file: origin.clone(),
                    why: format!("the charts within it have more than {MAX_UNPACKED} bytes"),
                })?;
                found.push(Chart::of(origin, inner, level, room)?);
            }
            None => {}
        }
    }
    for (folder, inner) in folders {
        if inner.contains_key("Chart.yaml") {
            found.push(Chart::of(
                format!("{origin}/charts/{folder}"),
                inner,
                level,
                room,
            )?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Chart {
        pub(crate) fn for_tests(files: &[(&str, &str)]) -> Result<Chart, Error> {
            let files = files.iter();
            let files = files.map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
            let mut room = MAX_UNPACKED;
            Chart::of("web".to_owned(), files.collect(), 0, &mut room)
        }
    }

    fn chart(files: &[(&str, &str)]) -> Result<Chart, Error> {
        Chart::for_tests(files)
    }

    const OWN: (&str, &str) = (
        "Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n- {name: db, version: ~1, alias: main}\n- {name: mail, version: '2'}\n",
    );

    #[test]
    fn what_is_included_and_missing_is_named() {
        let db = (
            "charts/db/Chart.yaml",
            "apiVersion: v2\nname: db\nversion: 1.2.0\ndependencies: [{name: disk, version: '3'}]\n",
        );
        let web = chart(&[
            OWN,
            db,
            ("charts/db/values.yaml", "a: 1\n"),
            ("charts/README.md", "x"),
        ])
        .unwrap();
        assert_eq!(web.missing(), ["mail 2", "disk 3 (of db)"]);
        assert_eq!(web.subcharts.len(), 1);
        assert_eq!(
            web.included(&web.metadata.dependencies[0]).unwrap().values["a"],
            1
        );
    }

    #[test]
    fn a_folder_without_metadata_is_no_chart() {
        let error = chart(&[("values.yaml", "a: 1")]).unwrap_err();
        assert!(error.to_string().contains("no Chart.yaml"), "{error}");
    }

    #[test]
    fn a_schema_that_leads_out_is_known() {
        let own = ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
        for (schema, out) in [
            (
                r#"{"$schema": "http://json-schema.org/draft-07/schema#", "description": "https://example.com"}"#,
                false,
            ),
            (
                r##"{"properties": {"a": {"$ref": "#/definitions/a"}}}"##,
                false,
            ),
            (
                r#"{"properties": {"a": {"$ref": "https://example.com/s.json"}}}"#,
                true,
            ),
            (r#"{"allOf": [{"$ref": "file:///etc/passwd"}]}"#, true),
        ] {
            let web = chart(&[own, ("values.schema.json", schema)]).unwrap();
            assert_eq!(web.schema_leads_out(), out, "{schema}");
        }
    }
}
