//! What comes out of registries and bundles: references, manifests, the head of a bundle.

use std::str::FromStr;

use kubepkg_core::bundle::{self, Head};
use kubepkg_core::descriptor::media_type;
use kubepkg_core::manifest::{Content, MAX_DESCRIPTORS, Manifest};
use kubepkg_core::reference::Reference;
use kubepkg_core::store::ManifestEntry;

/// A reference as people write it.
pub fn reference(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match Reference::from_str(text) {
        Ok(read) => {
            assert!(read.tag().is_some() || read.digest().is_some(), "{read}");
            assert_eq!(Reference::from_str(&read.to_string()), Ok(read));
        }
        Err(error) => assert!(error.to_string().len() < 1024, "{error}"),
    }
}

/// A manifest, under every type it may be declared to have.
pub fn manifest(data: &[u8]) {
    let declared = [
        None,
        Some(media_type::OCI_MANIFEST),
        Some(media_type::OCI_INDEX),
        Some(media_type::DOCKER_MANIFEST),
        Some(media_type::DOCKER_LIST),
        Some(media_type::DOCKER_SCHEMA1),
    ];
    for declared in declared {
        let Ok(manifest) = Manifest::parse(data, declared) else {
            continue;
        };
        assert!(declared.is_none_or(|kind| kind == manifest.media_type));
        match &manifest.content {
            Content::Image { layers, .. } => {
                assert!(layers.len() <= MAX_DESCRIPTORS);
                assert_eq!(manifest.blobs().len(), layers.len() + 1);
                assert!(manifest.children().is_empty());
            }
            Content::Index(children) => {
                assert!(children.len() <= MAX_DESCRIPTORS);
                assert!(manifest.blobs().is_empty());
            }
        }
        let entry = ManifestEntry::of(&manifest, data.len() as u64);
        assert_eq!(entry.size, data.len() as u64);
        assert_eq!(
            Manifest::parse(data, Some(&manifest.media_type)),
            Ok(manifest)
        );
    }
}

/// The head of a bundle, as bytes of a whole file and alone.
pub fn head(data: &[u8]) {
    if let Ok(opened) = bundle::open_head(data) {
        assert!(opened.layout.len() >= data.len().min(1024) as u64);
        has_one_form(&opened.head, None);
    }
    if let Ok(head) = Head::decode(data) {
        has_one_form(&head, Some(data));
    }
}

fn has_one_form(head: &Head, bytes: Option<&[u8]>) {
    let Ok(written) = head.encode() else {
        panic!("a head that was read cannot be written");
    };
    assert!(bytes.is_none_or(|bytes| bytes == written));
    assert_eq!(Head::decode(&written).ok().as_ref(), Some(head));
}
