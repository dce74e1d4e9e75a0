//! Lists of images that people and other tools write.
//!
//! [`read`] takes the text of a list and gives the images it names, in the order of the text and
//! with their lines. Which form the text has is told by what stands in it, never by the name of
//! the file, and by rules alone: what fits none of them is refused with the line, as is every
//! text in it that is no reference. So no sentence becomes an image, and no image is left out
//! without a word.
//!
//! * The first line that is neither empty nor a comment decides: a dash, `---`, a bracket or
//!   `key:` begins YAML (of which JSON is a part), a frame begins the table of `helm images`;
//!   everything else is one reference a line ([`plain`]).
//! * In YAML the `apiVersion` and `kind` of a document decide; without them it is a list of
//!   references, or an answer of `helm images`, `kubepkg images` or `kubepkg mirror wanted`.

mod document;
mod error;
mod gather;
mod hauler;
mod helm_images;
mod looks;
mod openshift;
mod own;
mod plain;
mod text;
mod zarf;

use kubepkg_core::yaml::strict;

pub use error::{Fault, ListError};

use gather::Gather;

/// Larger than any list, in bytes: a hundred thousand long references take ten million.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// More images than any list names. The longest published one, Rancher's, has about a thousand.
pub const MAX_IMAGES: usize = 100_000;

/// More charts than any list names.
pub const MAX_CHARTS: usize = 10_000;

/// The form a list is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// One reference a line.
    Plain,
    /// One reference a line and behind it what runs it, as Rancher publishes.
    RancherSources,
    /// A YAML or JSON list of references.
    Strings,
    /// Hauler's `Images` and `Charts`.
    Hauler,
    /// Zarf's definition of a package.
    Zarf,
    /// An answer of the Helm plugin `helm images`.
    HelmImages,
    /// The configuration of oc-mirror.
    OcMirror,
    /// An answer of `kubepkg images`.
    Kubepkg,
    /// What a mirror was asked for in vain: an answer of `kubepkg mirror wanted`.
    Wanted,
}

impl Form {
    /// What the form is called in messages.
    pub fn name(self) -> &'static str {
        match self {
            Form::Plain => "a plain list",
            Form::RancherSources => "Rancher's list with sources",
            Form::Strings => "a list in YAML or JSON",
            Form::Hauler => "a manifest of Hauler",
            Form::Zarf => "a package of Zarf",
            Form::HelmImages => "an answer of helm images",
            Form::OcMirror => "a configuration of oc-mirror",
            Form::Kubepkg => "an answer of kubepkg images",
            Form::Wanted => "an answer of kubepkg mirror wanted",
        }
    }
}

/// What a list names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The form it is written in.
    pub form: Form,
    /// The images, each once, in the order of the text.
    pub images: Vec<ListedImage>,
    /// The charts, in the order of the text.
    pub charts: Vec<ListedChart>,
    /// What the list says besides and is not done here, with its lines.
    pub notes: Vec<String>,
}

/// An image of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedImage {
    /// The reference as it is written, completed only where the form says how; it parses as a
    /// [`Reference`](kubepkg_core::Reference).
    pub reference: String,
    /// The line it stands on, from 1.
    pub line: usize,
    /// The one platform that is wanted, where the list says so: `os/architecture[/variant]`.
    pub platform: Option<String>,
}

/// A chart of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedChart {
    /// The Helm repository, or `oci://` and the path under which the chart's name stands.
    pub repository: String,
    /// The chart's name there.
    pub name: String,
    /// Its version; `None` where the list leaves that to the repository.
    pub version: Option<String>,
    /// The line it stands on, from 1.
    pub line: usize,
}

/// Reads a list. `name` is what the file is called in errors. Everything that is wrong with it
/// is told at once, up to a bound.
pub fn read(text: &[u8], name: &str) -> Result<List, ListError> {
    let mut gather = Gather::default();
    let form = match text::decode(text) {
        Ok(text) => forms(&text, &mut gather),
        Err(fault) => {
            gather.push(fault);
            None
        }
    };
    gather.finish(form, name)
}

/// Reads a text by the form it has; `None` where it has none, and that is told.
fn forms(text: &str, gather: &mut Gather) -> Option<Form> {
    match text::begins(text) {
        text::Begins::Nothing => None,
        text::Begins::Frame => {
            helm_images::table(text, gather);
            Some(Form::HelmImages)
        }
        text::Begins::Line => Some(plain::read(text, gather)),
        text::Begins::Yaml => match strict::documents(text, &document::LIMITS) {
            Ok(documents) => document::read(text, &documents, gather),
            Err(error) => {
                gather.yaml(&error);
                None
            }
        },
    }
}

#[cfg(test)]
mod tests;
