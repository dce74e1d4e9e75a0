//! What a search brings: images, where they stand, how sure it is.

use std::fmt;

use kubepkg_core::Reference;
use serde::Serialize;

use crate::documents::Unread;

/// How an image was found, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// A container or an image volume of a rendered document.
    Container,
    /// A package or recipe lists it.
    Listed,
    /// A field that is known, or named, to hold an image.
    Field,
    /// An environment variable.
    Environment,
    /// An argument of a command.
    Argument,
    /// An annotation of the chart.
    Annotation,
    /// A whole reference in a place that nothing is known of.
    Text,
    /// It may be one, and nothing says that it is run.
    Possible,
}

impl How {
    /// The word for it, also in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Container => "container",
            How::Listed => "listed",
            How::Field => "field",
            How::Environment => "environment",
            How::Argument => "argument",
            How::Annotation => "annotation",
            How::Text => "text",
            How::Possible => "possible",
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where something stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// The file, or the template of a chart.
    pub source: String,
    /// Kind and name of the object, e.g. `Deployment web`; empty where there is none.
    pub object: String,
    /// Where in the document, e.g. `spec.template.spec.containers[0].image`.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.source, &self.object, &self.path];
        let parts: Vec<&str> = parts
            .into_iter()
            .map(String::as_str)
            .filter(|part| !part.is_empty())
            .collect();
        f.write_str(&parts.join(": "))
    }
}

/// One image at one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sighting {
    /// The image, in canonical form.
    pub image: Reference,
    /// How it was found.
    pub how: How,
    /// Where.
    pub place: Place,
}

/// How far back it is looked for the same sighting: objects have some dozens. One with a million
/// is listed with doubles, and does not take hours.
const LOOK_BACK: usize = 1_000;

/// What one search brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Images, in the order of the documents.
    pub sightings: Vec<Sighting>,
    /// What could not be read.
    pub unread: Vec<Unread>,
}

impl Findings {
    /// Adds what another search brought.
    pub fn merge(&mut self, other: Findings) {
        self.sightings.extend(other.sightings);
        self.unread.extend(other.unread);
    }

    /// Adds one image, unless it is known from this place: then the surer way stays.
    pub(crate) fn add(&mut self, sighting: Sighting) {
        let known = self
            .sightings
            .iter_mut()
            .rev()
            .take(LOOK_BACK)
            // one document at most lies between two sightings of one place
            .take_while(|known| known.place.object == sighting.place.object)
            .find(|known| known.place == sighting.place && known.image == sighting.image);
        match known {
            Some(known) => known.how = known.how.min(sighting.how),
            None => self.sightings.push(sighting),
        }
    }
}
