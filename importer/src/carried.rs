//! The list of what of a repository is here, brought up to a bundle.

use std::path::Path;

use kubepkg_core::bundle::head::Head;
use kubepkg_core::carried::{self, Carried, CarriedVersion};
use kubepkg_core::index::Index;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::name::PackageName;
use kubepkg_core::store::StoreError;

/// The list of `url` after the bundle is in. `old` is the file as it stands. Versions that
/// `index`, the accepted one, does not list any more are left out: nobody may choose them.
///
/// # Errors
/// `old` cannot be read. It is not begun anew: everything carried in before would seem gone.
pub fn updated(
    url: &CanonicalUrl,
    old: Option<&[u8]>,
    head: &Head,
    index: &Index,
) -> Result<Vec<u8>, StoreError> {
    let mut carried = match old {
        Some(bytes) => Carried::read(bytes)
            .map_err(|error| damaged(&url.folder(), &format!("it cannot be read: {error}")))?,
        None => Carried::new(url.clone()),
    };
    if carried.repository != *url {
        let why = format!("it is the list of {}", carried.repository);
        return Err(damaged(&url.folder(), &why));
    }
    for package in head
        .packages
        .iter()
        .filter(|package| package.repository == *url)
    {
        let version = CarriedVersion {
            version: package.version.clone(),
            build: package.build,
            digest: package.digest,
        };
        carried.add(&package.name, version);
    }
    carried.packages.retain(|name, versions| {
        versions.retain(|version| lists(index, name, version));
        !versions.is_empty()
    });
    Ok(carried.to_bytes())
}

/// Whether `index` lists the version, or has it for a newer kubepkg than this.
fn lists(index: &Index, name: &PackageName, carried: &CarriedVersion) -> bool {
    let listed = index.packages.get(name.as_str()).is_some_and(|package| {
        package.versions.iter().any(|listed| {
            listed.version == carried.version
                && listed.build == carried.build
                && listed.digest == carried.digest
        })
    });
    let too_new = || {
        index.left_out.iter().any(|left| {
            left.package == name.as_str()
                && left.version == carried.version
                && left.build == carried.build
        })
    };
    listed || too_new()
}

/// The list in this folder of the store is not as it was written.
pub fn damaged(folder: &str, why: &str) -> StoreError {
    StoreError::Damaged {
        path: Path::new("sites").join(folder).join(carried::FILE),
        why: why.to_owned(),
    }
}
