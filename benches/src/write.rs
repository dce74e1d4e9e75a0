//! Writing the index, package by package: 200 MB of it never lie in memory as a tree.

use std::collections::BTreeMap;
use std::io::{self, Write};

use kubepkg_core::Digest;
use kubepkg_core::api::{INDEX_API_VERSION, INDEX_KIND, PackageSourceSpec};
use kubepkg_core::time::Time;
use kubepkg_core::yaml::write as yaml;
use serde::Serialize;

use crate::{Catalogue, DISTRIBUTION};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    api_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Time>,
    generated: Time,
    kind: &'static str,
}

#[derive(Serialize)]
struct Package {
    description: String,
    home: String,
    versions: Vec<Version>,
}

#[derive(Serialize)]
struct Version {
    version: String,
    #[serde(skip_serializing_if = "is_zero")]
    build: i32,
    digest: Digest,
    spec: PackageSourceSpec,
}

fn is_zero(build: &i32) -> bool {
    *build == 0
}

const PACKAGES: &str = "packages:\n";

/// Writes the index in the form `repo index` gives it.
///
/// # Errors
/// Where `out` has one.
pub fn write(
    catalogue: &Catalogue,
    generated: Time,
    expires: Option<Time>,
    out: &mut impl Write,
) -> io::Result<()> {
    let head = Head {
        api_version: INDEX_API_VERSION,
        expires,
        generated,
        kind: INDEX_KIND,
    };
    out.write_all(yaml::to_string(&head)?.as_bytes())?;
    out.write_all(PACKAGES.as_bytes())?;
    // Sorted by name, as the writer sorts them.
    let names = (0..catalogue.packages).map(|package| (catalogue.name(package), Some(package)));
    let names: BTreeMap<_, _> = names.chain([(DISTRIBUTION.to_owned(), None)]).collect();
    for (name, number) in names {
        let spec = |version| match number {
            Some(package) => catalogue.spec(package, version),
            None => catalogue.distribution(version),
        };
        let versions = (0..catalogue.versions).rev().map(|version| {
            let spec = spec(version);
            Version {
                version: spec.version.clone(),
                build: spec.build,
                digest: spec.digest(),
                spec,
            }
        });
        let package = Package {
            description: format!("What {name} does in one line"),
            home: format!("https://{name}.example.com"),
            versions: versions.collect(),
        };
        let text = yaml::to_string(&BTreeMap::from([(
            "packages",
            BTreeMap::from([(name, package)]),
        )]))?;
        out.write_all(text.trim_start_matches(PACKAGES).as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::api::{Metadata, PACKAGE_SOURCE_KIND, PackageSource};
    use kubepkg_core::index::Index;
    use kubepkg_core::index::build::{Found, collect};
    use kubepkg_core::index::signature::Signatures;

    fn text(catalogue: &Catalogue) -> Vec<u8> {
        let mut text = Vec::new();
        write(catalogue, Time::from_unix(0), None, &mut text).unwrap();
        text
    }

    /// What `repo index` makes of the same packages.
    fn drafted(catalogue: &Catalogue) -> Vec<u8> {
        let mut found = Vec::new();
        let mut add = |name: &str, spec: PackageSourceSpec| {
            let annotations = [
                (
                    "kubepkg.dev/description",
                    format!("What {name} does in one line"),
                ),
                ("kubepkg.dev/home", format!("https://{name}.example.com")),
            ];
            found.push(Found {
                file: String::new(),
                line: found.len(),
                source: PackageSource {
                    api_version: "kubepkg.dev/v1".to_owned(),
                    kind: PACKAGE_SOURCE_KIND.to_owned(),
                    metadata: Metadata {
                        name: name.to_owned(),
                        annotations: annotations.map(|(k, v)| (k.to_owned(), v)).into(),
                        ..Metadata::default()
                    },
                    spec,
                },
            });
        };
        for version in 0..catalogue.versions {
            for package in 0..catalogue.packages {
                add(&catalogue.name(package), catalogue.spec(package, version));
            }
            add(DISTRIBUTION, catalogue.distribution(version));
        }
        let draft = collect(found).unwrap();
        draft.to_yaml(Time::from_unix(0), None).unwrap()
    }

    #[test]
    fn the_text_is_what_repo_index_writes() {
        let catalogue = Catalogue {
            packages: 60,
            versions: 12,
        };
        assert_eq!(text(&catalogue), drafted(&catalogue));
    }

    #[test]
    fn the_index_reads_and_its_signature_holds() {
        let catalogue = Catalogue {
            packages: 40,
            versions: 5,
        };
        let text = text(&catalogue);
        let index = Index::read(&text).unwrap();
        assert_eq!(index.packages.len(), 41);
        assert!(index.packages.values().all(|p| p.versions.len() == 5));
        let key = crate::key::private().unwrap();
        let signature = Signatures::write_plain(&key.sign(&text));
        let signatures = Signatures::parse(signature.as_bytes()).unwrap();
        let public = key.public().unwrap();
        assert_eq!(signatures.signed_by(&text, &[public]).len(), 1);
    }
}
