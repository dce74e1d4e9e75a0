//! In what ways manifests and head can disagree.

use std::fmt;

use super::node::{MAX_ANNOTATIONS, MAX_LEFT_OUT};
use crate::bundle::format::{MAX_REFERRER_DEPTH, MAX_REFERRERS};
use crate::bundle::head::Class;
use crate::digest::Digest;
use crate::error::{Classify, Kind};
use crate::manifest::{MAX_NESTING, ManifestError};
use crate::name::Tag;

/// Most manifests in all repositories, counted once for each: a small file can ask for one
/// large index in 100 000 repositories, and every store would have to list it in each.
pub(super) const MAX_MEMBERSHIPS: usize = 1_000_000;

/// Most faults that a message names one by one.
const SHOWN: usize = 50;

/// One way in which manifests and head disagree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Something that is named is not in the bundle.
    #[error("{what} {digest} is missing; {by} names it")]
    Missing {
        /// `manifest`, `config`, `layer` …
        what: &'static str,
        /// Its digest.
        digest: Digest,
        /// Who names it.
        by: String,
    },
    /// It is there with another size.
    #[error("{digest} has {size} bytes; {by} says {said}")]
    Size {
        /// Its digest.
        digest: Digest,
        /// Its size.
        size: u64,
        /// Who says otherwise.
        by: String,
        /// The size they say.
        said: u64,
    },
    /// A manifest's bytes do not have its digest or size.
    #[error("manifest {digest} is damaged")]
    Damaged {
        /// The digest it should have.
        digest: Digest,
    },
    /// A manifest that cannot be read.
    #[error("manifest {digest}: {source}")]
    Manifest {
        /// Its digest.
        digest: Digest,
        /// Why.
        source: ManifestError,
    },
    /// Two descriptors give one manifest two types.
    #[error("manifest {digest} is called {said} by {by}, and {other} elsewhere")]
    Type {
        /// Its digest.
        digest: Digest,
        /// Who names it.
        by: String,
        /// The type they give.
        said: String,
        /// The type it has.
        other: String,
    },
    /// Of an index nothing but attestations would be here.
    #[error(
        "index {digest} has no manifest for a platform the bundle is made for; without one the \
         image cannot run"
    )]
    NoPlatform {
        /// The index.
        digest: Digest,
    },
    /// An index is for very many platforms.
    #[error(
        "more than {MAX_LEFT_OUT} platforms are left out of index {digest}, or one with a name that is \
         none"
    )]
    LeftOut {
        /// The index.
        digest: Digest,
    },
    /// The head says of an image that it is whole, or that it is not, and that is wrong.
    #[error("image {image} is said to be {said}, and is {}", if *.said == "sparse" { "whole" } else { "sparse" })]
    Sparse {
        /// Its reference.
        image: String,
        /// What the head says.
        said: &'static str,
    },
    /// What is said to be a file is carried in another way than files are.
    #[error("{image} is said to be the file \"{name}\", and its manifest is not that of one")]
    File {
        /// Its reference.
        image: String,
        /// The name.
        name: String,
    },
    /// Indexes within indexes, too deep, or in a circle.
    #[error("indexes are nested deeper than {MAX_NESTING} or in a circle at {digest}")]
    Nesting {
        /// Where that was noticed.
        digest: Digest,
    },
    /// A blob that nothing in the bundle names.
    #[error("{digest} is a blob nobody names")]
    Unnamed {
        /// Its digest.
        digest: Digest,
    },
    /// The head calls a blob something else than it is.
    #[error("{digest} is listed as {listed:?}, its uses say {used:?}")]
    Class {
        /// Its digest.
        digest: Digest,
        /// What the head says.
        listed: Class,
        /// The lowest class of its uses.
        used: Class,
    },
    /// The manifest of a chart does not carry the chart.
    #[error("the manifest of chart {chart} does not carry the archive {archive} alone: {why}")]
    Chart {
        /// Name and version.
        chart: String,
        /// The archive as pinned.
        archive: Digest,
        /// What is wrong with it.
        why: String,
    },
    /// The head says another list of platforms than the image itself.
    #[error("image {image} is for the platforms {own}; the head says {said}")]
    Platforms {
        /// Its reference.
        image: String,
        /// Those its index names.
        own: String,
        /// Those of the head.
        said: String,
    },
    /// Every store would have to keep very much text of one manifest.
    #[error(
        "manifest {digest} has {size} bytes of annotations; at most {MAX_ANNOTATIONS} are allowed"
    )]
    Annotations {
        /// The manifest.
        digest: Digest,
        /// Bytes of its annotations and its artifact type.
        size: usize,
    },
    /// A referrer would set a tag that is not its own to set.
    #[error(
        "referrer {digest} in {repository} claims the tag {tag}, which does not say by its name \
         that it is about {subject}"
    )]
    Tag {
        /// The referrer.
        digest: Digest,
        /// `host/path` upstream.
        repository: String,
        /// What it is about.
        subject: Digest,
        /// The tag.
        tag: Tag,
    },
    /// A referrer is about something else than the head says.
    #[error("referrer {digest} in {repository} is not about {subject}")]
    Subject {
        /// The referrer.
        digest: Digest,
        /// `host/path` upstream.
        repository: String,
        /// What it should be about.
        subject: Digest,
    },
    /// A referrer whose subject is not in the bundle, or only below too many others.
    #[error(
        "referrer {digest}: its subject {repository}@{subject} is not in the bundle, or deeper than {MAX_REFERRER_DEPTH}"
    )]
    NoSubject {
        /// The referrer.
        digest: Digest,
        /// `host/path` upstream.
        repository: String,
        /// What it is about.
        subject: Digest,
    },
    /// One subject has too many referrers.
    #[error("{repository}@{subject} has more than {MAX_REFERRERS} referrers")]
    Referrers {
        /// `host/path` upstream.
        repository: String,
        /// The subject.
        subject: Digest,
    },
    /// The same manifests are asked for in very many repositories.
    #[error("its repositories have more than {MAX_MEMBERSHIPS} manifests in sum")]
    TooWide,
    /// The head names a hole where nothing is missing.
    #[error("the hole {kind} of {of} is none")]
    Hole {
        /// Kind of the hole.
        kind: String,
        /// What it is said of.
        of: String,
    },
}

/// Everything that was found wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosureError {
    /// The faults, in the order they were found.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ClosureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bundle is not complete or not consistent: ")?;
        for (n, fault) in self.faults.iter().take(SHOWN).enumerate() {
            if n > 0 {
                f.write_str("; ")?;
            }
            fault.fmt(f)?;
        }
        match self.faults.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for ClosureError {}

impl Classify for ClosureError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn hint(&self) -> Option<String> {
        Some("create the bundle anew; what is missing cannot be repaired on this side".to_owned())
    }
}
