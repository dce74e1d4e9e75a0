//! What is gathered while a list is read: images, charts, notes and faults, all bounded.

use std::collections::HashSet;

use kubepkg_core::Reference;
use kubepkg_core::descriptor::Platform;
use kubepkg_core::error::Classify as _;
use kubepkg_core::yaml::YamlError;

use super::error::{Fault, ListError, MAX_FAULTS};
use super::looks::{self, brief};
use super::{Form, List, ListedChart, ListedImage, MAX_CHARTS, MAX_IMAGES};

/// How many different notes are kept.
const MAX_NOTES: usize = 50;

/// How many lines a note names.
const MAX_NOTED_LINES: usize = 5;

/// Longest name of a chart, and longest version.
const MAX_CHART_WORD: usize = 255;

/// Longest URL of a repository of charts.
const MAX_URL: usize = 2048;

/// Something a list says that is not done here, and where it says so.
struct Note {
    what: String,
    lines: Vec<usize>,
    more: usize,
}

/// What was gathered.
#[derive(Default)]
pub(super) struct Gather {
    images: Vec<ListedImage>,
    charts: Vec<ListedChart>,
    notes: Vec<Note>,
    notes_left_out: usize,
    faults: Vec<Fault>,
    more: usize,
    seen: HashSet<(Reference, Option<String>)>,
}

impl Gather {
    /// An image, if `text` is one; a fault otherwise.
    pub(super) fn image(&mut self, line: usize, text: &str, platform: Option<&str>) {
        let text = text.trim();
        let reference = match looks::reference(text) {
            Ok(reference) => reference,
            Err((what, advice)) => return self.fault(line, what, advice),
        };
        let platform = platform.map(str::to_owned);
        // the same image under another spelling is the same
        if !self.seen.insert((reference, platform.clone())) {
            return self.note(line, "an image that is named before is taken once");
        }
        if self.images.len() >= MAX_IMAGES {
            // the set would grow without end otherwise
            self.seen.clear();
            return self.fault(
                line,
                format!("more than {MAX_IMAGES} images are named"),
                "split the list",
            );
        }
        self.images.push(ListedImage {
            reference: text.to_owned(),
            line,
            platform,
        });
    }

    /// Whether `text` names a platform; a fault otherwise.
    pub(super) fn is_platform(&mut self, line: usize, text: &str) -> bool {
        let legal = Platform::is_name(text);
        if !legal {
            self.fault(
                line,
                format!("{} is no platform", brief(text)),
                "write platforms as os/architecture, such as linux/amd64",
            );
        }
        legal
    }

    /// A chart, if these words are one; a fault otherwise.
    pub(super) fn chart(
        &mut self,
        line: usize,
        repository: &str,
        name: &str,
        version: Option<&str>,
    ) {
        let (repository, name) = (repository.trim(), name.trim());
        let version = version.map(str::trim).filter(|version| !version.is_empty());
        for text in [repository, name].into_iter().chain(version) {
            if let Some((what, advice)) = looks::template(text) {
                return self.fault(line, what, advice);
            }
        }
        if let Err(what) = legal_repository(repository) {
            return self.fault(
                line,
                what,
                "name the chart's repository as https://HOST/PATH or oci://HOST/PATH",
            );
        }
        let legal_name = name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
        let elements = name.split('/').all(|part| !part.is_empty() && part != "..");
        if !legal_name || !elements || name.len() > MAX_CHART_WORD {
            return self.fault(
                line,
                format!("{} is no name of a chart", brief(name)),
                "write the name the chart has in its repository",
            );
        }
        let word =
            |text: &str| text.len() <= MAX_CHART_WORD && text.bytes().all(|b| b.is_ascii_graphic());
        if let Some(version) = version.filter(|version| !word(version)) {
            return self.fault(
                line,
                format!("{} is no version of a chart", brief(version)),
                "write one version, such as 1.2.3",
            );
        }
        if self.charts.len() >= MAX_CHARTS {
            return self.fault(
                line,
                format!("more than {MAX_CHARTS} charts are named"),
                "split the list",
            );
        }
        self.charts.push(ListedChart {
            repository: repository.trim_end_matches('/').to_owned(),
            name: name.to_owned(),
            version: version.map(str::to_owned),
            line,
        });
    }

    /// Something that the list says and that is not done here.
    pub(super) fn note(&mut self, line: usize, what: impl Into<String>) {
        let what = what.into();
        match self.notes.iter().position(|note| note.what == what) {
            Some(at) => self.notes[at].again(line),
            None if self.notes.len() < MAX_NOTES => self.notes.push(Note {
                what,
                lines: vec![line],
                more: 0,
            }),
            None => self.notes_left_out += 1,
        }
    }

    /// Something that is wrong on a line.
    pub(super) fn fault(
        &mut self,
        line: usize,
        what: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.push(Fault {
            line: Some(line),
            what: what.into(),
            advice: advice.into(),
        });
    }

    /// Something that is wrong.
    pub(super) fn push(&mut self, fault: Fault) {
        match self.faults.len() < MAX_FAULTS {
            // a member may be looked at twice
            true if self.faults.contains(&fault) => {}
            true => self.faults.push(fault),
            false => self.more += 1,
        }
    }

    /// The YAML is wrong.
    pub(super) fn yaml(&mut self, error: &YamlError) {
        let line = error.line;
        let mut error = error.clone();
        error.line = None;
        self.push(Fault {
            line,
            what: error.to_string(),
            advice: error.hint().unwrap_or_else(|| {
                "mend the YAML; a plain list has one image a line and nothing else".to_owned()
            }),
        });
    }

    /// The list, or what is wrong with it.
    pub(super) fn finish(mut self, form: Option<Form>, name: &str) -> Result<List, ListError> {
        let nothing = self.images.is_empty() && self.charts.is_empty();
        if self.faults.is_empty() && nothing {
            let what = match self.notes.is_empty() {
                true => "the list names no image".to_owned(),
                false => format!("the list names no image: {}", self.notes().join("; ")),
            };
            self.push(Fault {
                line: None,
                what,
                advice: "write one image a line, such as docker.io/library/busybox:1.36".to_owned(),
            });
        }
        match form {
            Some(form) if self.faults.is_empty() => Ok(List {
                form,
                notes: self.notes(),
                images: self.images,
                charts: self.charts,
            }),
            _ => {
                self.faults.sort_by_key(|fault| fault.line);
                Err(ListError {
                    name: name.to_owned(),
                    faults: self.faults,
                    more: self.more,
                })
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.notes.iter().map(Note::text).collect();
        if self.notes_left_out > 0 {
            texts.push(format!("and {} more of that kind", self.notes_left_out));
        }
        texts
    }
}

impl Note {
    fn again(&mut self, line: usize) {
        match self.lines.len() < MAX_NOTED_LINES {
            true => self.lines.push(line),
            false => self.more += 1,
        }
    }

    fn text(&self) -> String {
        let lines: Vec<String> = self.lines.iter().map(usize::to_string).collect();
        let lines = lines.join(", ");
        match (self.lines.len(), self.more) {
            (1, 0) => format!("line {lines}: {}", self.what),
            (_, 0) => format!("lines {lines}: {}", self.what),
            (_, more) => format!("lines {lines} and {more} more: {}", self.what),
        }
    }
}

/// Whether `url` is a repository of charts. What stands before an `@` may be a password, and is
/// not repeated.
fn legal_repository(url: &str) -> Result<(), String> {
    if url.contains('@') {
        return Err("the URL of the repository holds an @, as with a login".to_owned());
    }
    let schemes = ["https://", "http://", "oci://"];
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
    let legal = url.bytes().all(|b| b.is_ascii_graphic()) && url.len() <= MAX_URL;
    match rest {
        Some(rest) if legal && !rest.starts_with(['/', '?', '#', ':']) && !rest.is_empty() => {
            Ok(())
        }
        _ => Err(format!("{} is no repository of charts", brief(url))),
    }
}
