//! For any head: what is planned covers the file without gap or overlap, and what is written
//! is read back.

use proptest::prelude::*;

use super::sample::Sample;
use crate::bundle::head::{Class, Head, HeadBlob};
use crate::bundle::{Bundle, Layout, MemberKind, Signatures, write};
use crate::digest::{Algorithm, Digest};

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..2_000u64,
        65_000..66_100u64,
        (0..20_000u64).prop_map(|n| n * 512),
        (8u64 << 30) - 2..(8u64 << 30) + 3,
        any::<u64>().prop_map(|n| n >> 24),
    ]
}

fn blob() -> impl Strategy<Value = HeadBlob> {
    (any::<u64>(), size(), 0..4usize, any::<bool>()).prop_map(|(seed, size, class, long)| {
        let algorithm = if long {
            Algorithm::Sha512
        } else {
            Algorithm::Sha256
        };
        HeadBlob {
            digest: Digest::of(algorithm, seed.to_le_bytes()),
            size,
            class: [Class::Config, Class::Chart, Class::Tree, Class::Layer][class],
            assumed: false,
        }
    })
}

/// A head with one of everything, and any blobs, files and names besides.
fn head() -> impl Strategy<Value = Head> {
    let file = ("[a-z0-9._-]{0,40}x(/[A-Z]{1,9}){0,4}", size());
    (
        prop::collection::vec(blob(), 0..12),
        prop::collection::vec(file, 0..5),
        prop::collection::vec("[a-z]{1,12}(/[a-z]{1,9}){0,3}:[a-z0-9]{1,8}", 0..6),
        any::<bool>(),
    )
        .prop_map(|(blobs, files, images, full)| {
            let mut sample = if full {
                Sample::new(0)
            } else {
                Sample::empty()
            };
            let manifest = sample.image(b"layer", None);
            for image in images {
                sample.add_image(&format!("registry.example.com/{image}"), &manifest);
            }
            sample.head.blobs.extend(blobs);
            if full {
                let extension = sample.head.extensions.get_mut("notes").unwrap();
                let template = extension.files[0].clone();
                for (path, size) in files {
                    let mut file = template.clone();
                    (file.path, file.size) = (path, size);
                    extension.files.push(file);
                }
                extension.files.sort();
                extension.files.dedup_by(|a, b| a.path == b.path);
            }
            sample
                .head
                .images
                .sort_by(|a, b| a.reference.cmp(&b.reference));
            sample
                .head
                .images
                .dedup_by(|a, b| a.reference == b.reference);
            sample.head.sort();
            let mut seen = std::collections::BTreeSet::new();
            sample.head.blobs.retain(|blob| seen.insert(blob.digest));
            sample.head
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_plan_names_every_byte_once(head in head()) {
        let bytes = head.encode().unwrap();
        prop_assert_eq!(&Head::decode(&bytes).unwrap(), &head);
        let layout = Layout::plan(&head, &bytes).unwrap();
        prop_assert_eq!(layout.len() % 4096, 0);
        let mut extents: Vec<(u64, u64)> = layout
            .frame()
            .map(|piece| (piece.offset, piece.bytes.len() as u64))
            .collect();
        let slot = layout.signatures();
        extents.push((slot.offset, slot.size));
        for member in layout.payload() {
            extents.push((member.data_at, member.size));
            prop_assert_eq!(member.data_at % 512, 0);
            if member.size >= 65_536 {
                prop_assert_eq!(member.data_at % 4096, 0);
            }
        }
        extents.sort();
        let mut at = 0;
        for (offset, size) in extents {
            prop_assert_eq!(offset, at);
            at += size;
        }
        prop_assert_eq!(at, layout.len());
        let last = layout.members().last().unwrap();
        prop_assert!(layout.len() - (last.data_at + last.size) >= 1024);
        let carried = layout.members().iter().filter(|m| m.kind == MemberKind::Blob).count();
        prop_assert_eq!(carried, head.blobs.len());
    }

    #[test]
    fn what_is_written_is_opened(head in head()) {
        let layout = Layout::plan(&head, &head.encode().unwrap()).unwrap();
        // a sparse file: the payload may be larger than any disk
        let file = tempfile::tempfile().unwrap();
        prop_assume!(file.set_len(layout.len()).is_ok());
        write::write_frame(&file, &layout, &Signatures::default()).unwrap();
        let bundle = Bundle::from_file(file.try_clone().unwrap()).unwrap();
        prop_assert_eq!(&**bundle.head(), &head);
        prop_assert_eq!(bundle.id(), layout.id());
        prop_assert_eq!(bundle.layout().members(), layout.members());
        write::check(file, &layout).unwrap();
    }
}
