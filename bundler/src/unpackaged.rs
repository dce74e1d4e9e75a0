//! Content that belongs to no package: images, charts and files somebody names themselves.
//! Nothing signed says which bytes they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kubepkg_core::file::FileName;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::pins::ChartPin;
use kubepkg_core::reference::Reference;

use crate::CreateError;

/// A chart, by its exact version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chart {
    /// Chart repository.
    pub repository: CanonicalUrl,
    /// Its name there.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A file of this host, and the name it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LooseFile {
    /// Where it lies.
    pub path: PathBuf,
    /// What it is called from then on.
    pub name: FileName,
}

/// What is named beside packages.
#[derive(Clone, Debug, Default)]
pub struct Unpackaged {
    /// Images, in any form of reference.
    pub images: BTreeSet<Reference>,
    /// Images that a mirror was asked for in vain. Some of them exist nowhere: what cannot be
    /// had is left out, and told.
    pub wanted: BTreeSet<Reference>,
    /// Charts.
    pub charts: BTreeSet<Chart>,
    /// Files.
    pub files: Vec<LooseFile>,
}

impl Unpackaged {
    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
            && self.wanted.is_empty()
            && self.charts.is_empty()
            && self.files.is_empty()
    }

    /// The charts that no package pins.
    pub fn further_charts<B>(
        &self,
        pinned: &BTreeMap<ChartPin, B>,
    ) -> impl Iterator<Item = &Chart> {
        self.charts.iter().filter(|chart| {
            let same = |pin: &ChartPin| {
                pin.repository == chart.repository
                    && pin.name == chart.name
                    && pin.version == chart.version
            };
            !pinned.keys().any(same)
        })
    }

    /// Two files cannot have one name.
    pub fn check(&self) -> Result<(), CreateError> {
        let mut seen = BTreeMap::new();
        for file in &self.files {
            if let Some(other) = seen.insert(&file.name, &file.path)
                && *other != file.path
            {
                return Err(CreateError::FileTwice {
                    name: file.name.clone(),
                    first: other.clone(),
                    second: file.path.clone(),
                });
            }
        }
        Ok(())
    }
}
