//! Finds the container images that charts and manifests run.
//!
//! [`walk`] goes over every document of a text and reports each image with the place it stands
//! at and how sure that is: containers and image volumes, fields of known kinds ([`Rules`]),
//! variables, arguments, annotations, and documents within ConfigMaps and Secrets. What is no
//! image (a sentence, a URL, a path) is told apart by [`plausible`]. A document that cannot be
//! read is reported, never passed over.
//!
//! A [`Chart`] is rendered by the real Helm ([`helm`]) from a private copy, without network and
//! within bounds of time, memory and output.
//!
//! Nothing here talks to a registry.

mod annotations;
pub mod chart;
mod crd;
mod documents;
mod embedded;
mod environment;
mod error;
pub mod explore;
mod found;
pub mod helm;
pub mod inputs;
pub mod lists;
pub mod plausible;
mod possible;
mod report;
mod rules;
mod salvage;
mod search;
mod shape;
mod values;
mod walk;
mod words;

pub use annotations::annotations;
pub use chart::Chart;
pub use documents::Unread;
pub use error::Error;
pub use found::{Findings, How, Place, Sighting};
pub use inputs::Inputs;
pub use possible::{Possible, literals, possible};
pub use report::{Entry, Failed, FailedTry, Found, PossibleEntry, Report, Tries};
pub use rules::Rules;
pub use search::Search;
pub use values::Values;
pub use walk::walk;
