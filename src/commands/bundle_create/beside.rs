//! What goes into a bundle beside packages: images, charts and files that are named one by one
//! or in lists of other tools.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use kubepkg_bundler::{Chart, LooseFile, Unpackaged};
use kubepkg_core::file::FileName;
use kubepkg_core::reference::Reference;
use kubepkg_images::lists::{self, ListedChart, ListedImage};
use serde::Deserialize;

use crate::error::CommandError;
use crate::printer::Printer;

const HEADING: &str = "Content without packages";

/// Flags that name content without packages.
#[derive(Debug, clap::Args)]
pub struct Beside {
    /// Carry this image too, by tag, digest or both (repeatable)
    #[arg(help_heading = HEADING, long, value_name = "REF")]
    pub image: Vec<Reference>,
    /// Carry the images (and charts) that this list names; - for stdin (repeatable). One reference
    /// a line, or a list of Hauler, Zarf, k3s, Rancher, oc-mirror, `helm images`, `kubepkg images`
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub images_from: Vec<PathBuf>,
    /// Carry what a mirror was asked for in vain; - for stdin. FILE is what `mirror wanted` writes
    /// with --references or -o json. What cannot be had is left out, and told
    #[arg(help_heading = HEADING, long, value_name = "FILE")]
    pub wanted: Option<PathBuf>,
    /// Carry this chart too, without its images (repeatable): https://…/NAME@VERSION or
    /// oci://…/NAME:VERSION
    #[arg(help_heading = HEADING, long, value_name = "CHART")]
    pub chart: Vec<ChartArgument>,
    /// Carry this file too, and call it NAME, any UTF-8 path (repeatable)
    #[arg(help_heading = HEADING, long, value_name = "PATH=NAME")]
    pub file: Vec<FileArgument>,
}

/// `URL/NAME@VERSION` or `oci://HOST/PATH/NAME:VERSION`.
#[derive(Clone, Debug)]
pub struct ChartArgument(Chart);

/// `PATH=NAME`.
#[derive(Clone, Debug)]
pub struct FileArgument(LooseFile);

impl FromStr for ChartArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write it as https://charts.example.com/NAME@1.2.3 or \
                    oci://registry.example.com/charts/NAME:1.2.3";
        let separator = if text.starts_with("oci://") { ':' } else { '@' };
        if text.starts_with("oci://") && text.contains('@') {
            return Err("a chart is named by its version, not by a digest".to_owned());
        }
        let (place, version) = text
            .rsplit_once(separator)
            .filter(|(_, version)| !version.contains('/'))
            .ok_or_else(|| format!("it has no version; {form}"))?;
        let (repository, name) = place
            .rsplit_once('/')
            .filter(|(repository, _)| repository.contains("://") && !repository.ends_with(":/"))
            .ok_or_else(|| form.to_owned())?;
        chart(repository, name, version).map(ChartArgument)
    }
}

fn chart(repository: &str, name: &str, version: &str) -> Result<Chart, String> {
    if name.is_empty() || version.is_empty() {
        return Err("a chart has a name and a version".to_owned());
    }
    Ok(Chart {
        repository: repository.parse().map_err(|e| format!("{e}"))?,
        name: name.to_owned(),
        version: version.to_owned(),
    })
}

impl FromStr for FileArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // a name may hold '=', and a path seldom does
        let (path, name) = text.split_once('=').ok_or("write it as PATH=NAME")?;
        if path.is_empty() {
            return Err("there is no path before '='".to_owned());
        }
        let name: FileName = name.parse().map_err(|e| format!("{e}"))?;
        Ok(FileArgument(LooseFile {
            path: path.into(),
            name,
        }))
    }
}

impl Beside {
    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.image.is_empty()
            && self.images_from.is_empty()
            && self.wanted.is_none()
            && self.chart.is_empty()
            && self.file.is_empty()
    }

    /// Everything that is named; reads the lists.
    pub fn read(&self, any_platform: bool, printer: &Printer) -> anyhow::Result<Unpackaged> {
        let mut all = Unpackaged {
            images: self.image.iter().cloned().collect(),
            charts: self.chart.iter().map(|chart| chart.0.clone()).collect(),
            wanted: BTreeSet::new(),
            files: Vec::new(),
        };
        for file in &self.file {
            if !all.files.contains(&file.0) {
                all.files.push(file.0.clone());
            }
        }
        let lists = self.images_from.iter().chain(&self.wanted);
        if lists.filter(|file| is_stdin(file)).count() > 1 {
            return Err(CommandError::usage("stdin can be read once only")
                .at("-")
                .into());
        }
        if let Some(file) = &self.wanted {
            all.wanted = wanted(file, printer)?;
        }
        for file in &self.images_from {
            let list = lists::read(&content(file)?, &shown(file))?;
            for note in &list.notes {
                printer.warn(&format!("{}: {note}", shown(file)));
            }
            let mut partial = BTreeSet::new();
            for image in &list.images {
                all.images.insert(reference(file, image)?);
                partial.extend(image.platform.as_deref());
            }
            if any_platform && !partial.is_empty() {
                let partial: Vec<&str> = partial.into_iter().collect();
                printer.warn(&format!(
                    "{} wants some images for {} only; all platforms are carried. --platform \
                     chooses for the whole bundle",
                    shown(file),
                    partial.join(", ")
                ));
            }
            for listed in &list.charts {
                all.charts.insert(listed_chart(file, listed)?);
            }
        }
        Ok(all)
    }
}

/// What a mirror was asked for in vain, as `mirror wanted` writes it. Whoever reaches a mirror can
/// ask it for anything, so what is no reference is told and left out.
fn wanted(file: &Path, printer: &Printer) -> anyhow::Result<BTreeSet<Reference>> {
    let bytes = content(file)?;
    let wrong = |why: String| {
        CommandError::usage(why)
            .at(shown(file))
            .hint("give what kubepkg mirror wanted writes with --references or -o json")
    };
    if bytes.len() > lists::MAX_BYTES {
        return Err(wrong("this file is too large to be a list".to_owned()).into());
    }
    let text = String::from_utf8(bytes).map_err(|_| wrong("this is no text".to_owned()))?;
    let names: Vec<String> = match text.trim_start().starts_with('{') {
        true => {
            let list: WantedList =
                serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            list.references
                .into_iter()
                .map(|entry| entry.reference)
                .collect()
        }
        false => {
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            lines.map(str::to_owned).collect()
        }
    };
    let mut wanted = BTreeSet::new();
    for name in names {
        match name.parse() {
            Ok(reference) => {
                wanted.insert(reference);
            }
            Err(error) => printer.warn(&format!("left out of what is wanted: {error}")),
        }
    }
    Ok(wanted)
}

/// What of `mirror wanted -o json` is read.
#[derive(Deserialize)]
struct WantedList {
    references: Vec<WantedEntry>,
}

#[derive(Deserialize)]
struct WantedEntry {
    reference: String,
}

/// The reference of an image; the list was read by the same rules.
fn reference(file: &Path, image: &ListedImage) -> Result<Reference, CommandError> {
    image.reference.parse().map_err(|error| {
        let place = format!("{}, line {}", shown(file), image.line);
        CommandError::usage(format!("{error}")).at(place)
    })
}

fn listed_chart(file: &Path, listed: &ListedChart) -> Result<Chart, CommandError> {
    let wrong = |why: String| {
        CommandError::usage(format!("chart {}: {why}", listed.name)).at(format!(
            "{}, line {}",
            shown(file),
            listed.line
        ))
    };
    let Some(version) = &listed.version else {
        return Err(wrong("it has no version".to_owned())
            .hint("write the exact version into the list; which one is newest changes"));
    };
    chart(&listed.repository, &listed.name, version).map_err(wrong)
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn shown(file: &Path) -> String {
    match is_stdin(file) {
        true => "stdin".to_owned(),
        false => file.display().to_string(),
    }
}

fn content(file: &Path) -> Result<Vec<u8>, CommandError> {
    // one byte more than is taken tells that there is more
    let limit = lists::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = match is_stdin(file) {
        true => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        false => {
            std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes))
        }
    };
    read.map_err(|error| CommandError::io("cannot read the list", error).at(shown(file)))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_named_by_repository_name_and_version() {
        for (text, repository, name, version) in [
            (
                "https://charts.example.com/stable/web@1.2.3+up1",
                "https://charts.example.com/stable",
                "web",
                "1.2.3+up1",
            ),
            (
                "oci://r.example.com:5000/charts/web:1.2.3",
                "oci://r.example.com:5000/charts",
                "web",
                "1.2.3",
            ),
            (
                "http://127.0.0.1:80/web@v1",
                "http://127.0.0.1:80",
                "web",
                "v1",
            ),
        ] {
            let chart = text.parse::<ChartArgument>().unwrap().0;
            assert_eq!(chart.repository, repository.parse().unwrap());
            assert_eq!((&*chart.name, &*chart.version), (name, version));
        }
        for bad in [
            "web@1",
            "https://web@1",
            "https://charts.example.com/web",
            "oci://r.example.com:5000/web",
            "oci://r.example.com/web:1@sha256:00",
            "https://charts.example.com/@1",
        ] {
            assert!(bad.parse::<ChartArgument>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_file_has_a_path_and_a_name() {
        let file = "dist/k3s=bin/k3s=1".parse::<FileArgument>().unwrap().0;
        assert_eq!(file.path, Path::new("dist/k3s"));
        assert_eq!(file.name.as_str(), "bin/k3s=1");
        for bad in ["k3s", "=k3s", "k3s=", "k3s=../k3s"] {
            assert!(bad.parse::<FileArgument>().is_err(), "{bad}");
        }
    }
}
