//! The index of a repository and its signature file.

use std::collections::BTreeSet;

use kubepkg_core::api::PackageSourceSpec;
use kubepkg_core::index::Index;
use kubepkg_core::index::signature::{MAX_SIGNATURE_FILE, MAX_SIGNATURES, Signatures};
use kubepkg_core::version::Version;
use kubepkg_core::yaml::go::Document;
use kubepkg_core::yaml::{Limits, write};

/// An index.
pub fn index(data: &[u8]) {
    let read = Index::read(data);
    let whole = Index::read_whole(data);
    assert_eq!(read.is_ok(), whole.is_ok(), "{read:?}\n{whole:?}");
    let Ok(index) = read else {
        return;
    };
    assert_eq!(whole.ok().as_ref(), Some(&index), "both readers");
    for (name, package) in &index.packages {
        assert!(!package.versions.is_empty(), "{name} has no version");
        let mut seen = BTreeSet::new();
        for version in &package.versions {
            let spec = version.spec();
            assert_eq!(spec.version, version.version);
            assert_eq!(u32::try_from(spec.build).ok(), Some(version.build));
            assert_eq!(spec.digest(), version.digest);
            assert!(Version::parse_published(&version.version).is_ok());
            seen.insert((&version.version, version.build, version.digest));
            written_again(spec);
        }
        let contents = seen.len();
        let names: BTreeSet<_> = seen.iter().map(|(v, b, _)| (*v, *b)).collect();
        assert_eq!(names.len(), contents, "{name}: one version, two contents");
    }
    assert_eq!(Index::read(data).ok(), Some(index));
}

/// A spec that is written by us and read by Go's rules has the same digest.
pub fn written_again(spec: &PackageSourceSpec) {
    let Ok(text) = write::to_string(spec) else {
        panic!("a spec that was read cannot be written");
    };
    let limits = Limits::default();
    let read = Document::read_signed(text.as_bytes(), &limits)
        .and_then(|document| document.decode::<PackageSourceSpec>(document.root()));
    match read {
        Ok(read) => {
            assert!(read.unknown.is_empty() && read.doubled.is_empty(), "{text}");
            assert_eq!(read.value.digest(), spec.digest(), "{text}");
        }
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// A signature file.
pub fn signatures(data: &[u8]) {
    let Ok(signatures) = Signatures::parse(data) else {
        return;
    };
    assert!(data.len() as u64 <= MAX_SIGNATURE_FILE);
    assert!((1..=MAX_SIGNATURES).contains(&signatures.entries().len()));
    let text = Signatures::write_entries(signatures.entries());
    // key ids can be of any length, and with quotes the text can outgrow what it was read from
    if text.len() as u64 <= MAX_SIGNATURE_FILE {
        assert_eq!(Signatures::parse(text.as_bytes()), Ok(signatures));
    }
}
