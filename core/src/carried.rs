//! `carried.json`: which packages and versions of a repository are present in a mirror.
//!
//! The signed index is whole while a mirror holds a selection; without this list a client
//! would choose versions that are not here. It is the mirror's own word and never trusted for
//! more than that. Source: design page "mirror", "Locations".

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::location::CanonicalUrl;
use crate::name::PackageName;

/// File name beside the index.
pub const FILE: &str = "carried.json";

/// The list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Carried {
    /// Canonical URL of the index.
    pub repository: CanonicalUrl,
    /// Versions present, by package, in the order (version text, build).
    pub packages: BTreeMap<PackageName, Vec<CarriedVersion>>,
}

/// One package version that is present.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CarriedVersion {
    /// Version as the index writes it.
    pub version: String,
    /// Build, 0 where there is none.
    pub build: u32,
    /// Digest of the spec.
    pub digest: Digest,
}

impl Carried {
    /// An empty list.
    pub fn new(repository: CanonicalUrl) -> Carried {
        Carried {
            repository,
            packages: BTreeMap::new(),
        }
    }

    /// Reads the file.
    pub fn read(bytes: &[u8]) -> Result<Carried, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Adds a version; one that is listed already stays as it is.
    pub fn add(&mut self, package: &PackageName, version: CarriedVersion) {
        let versions = self.packages.entry(package.clone()).or_default();
        if let Err(at) = versions.binary_search(&version) {
            versions.insert(at, version);
        }
    }

    /// The file's bytes: the same list always gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // a map with text keys and numbers always has a JSON form
        let mut bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_twice_changes_nothing() {
        let mut carried = Carried::new("https://example.org/index.yaml".parse().unwrap());
        let version = CarriedVersion {
            version: "1.0.0".into(),
            build: 1,
            digest: Digest::sha256(b"x"),
        };
        let name: PackageName = "web".parse().unwrap();
        carried.add(&name, version.clone());
        let bytes = carried.to_bytes();
        carried.add(&name, version);
        assert_eq!(carried.to_bytes(), bytes);
        assert_eq!(Carried::read(&bytes).unwrap(), carried);
    }
}
