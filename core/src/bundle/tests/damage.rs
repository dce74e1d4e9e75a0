//! Whatever is changed in a file, it is refused, and the message says where.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::sample::Sample;
use crate::bundle::verify::hash_all;
use crate::bundle::{Bundle, FormatError, Signatures, open_head, write};
use crate::error::{Classify as _, Kind};
use crate::keys::PrivateKey;

fn open(file: &File) -> Result<Bundle, FormatError> {
    let bundle = Bundle::from_file(file.try_clone().unwrap())?;
    hash_all(&bundle, 1, &|_| {})?;
    Ok(bundle)
}

#[test]
fn what_was_written_is_read() {
    for large in [0, 70_000, 5_000_000] {
        let sample = Sample::new(large);
        let file = sample.write();
        let bundle = open(&file).unwrap();
        assert_eq!(**bundle.head(), sample.head);
        assert_eq!(bundle.layout().len() % 4096, 0);
        for member in bundle.layout().blobs() {
            let digest = member.digest.unwrap();
            assert_eq!(bundle.blob(&digest), Some(member.extent()));
            let bytes = bundle.read_blob(&digest, u64::MAX).unwrap();
            assert_eq!(bytes, sample.content[&digest]);
            if member.size >= 64 * 1024 {
                assert_eq!(member.data_at % 4096, 0);
            }
        }
        let url = &sample.head.repositories[0].url;
        let index = bundle.read_repository_file(url, "index.yaml", 1000);
        assert_eq!(index.unwrap(), b"packages: {}\n");
        assert!(bundle.read_repository_file(url, "index.yaml", 3).is_err());
        let absent = bundle.read_repository_file(url, "other", 3).unwrap_err();
        assert_eq!(absent.kind(), Kind::NotFound);
        assert!(
            bundle
                .layout()
                .extension_file("notes", "notes/a.txt")
                .is_some()
        );
    }
}

#[test]
fn the_body_and_the_slot_begin_at_multiples_of_4096() {
    let layout = Sample::new(0).layout();
    assert_eq!(layout.head_bytes().len() % 4096, 3072);
    assert_eq!(layout.signatures().offset % 4096, 0);
    assert_eq!(layout.signatures().size, 16_384);
    assert_eq!(layout.members()[2].header_at % 4096, 0);
}

#[test]
fn any_flipped_byte_is_refused() {
    let mut sample = Sample::empty();
    sample.chart("https://charts.example.com/stable", "web", b"chart archive");
    let image = sample.image(b"layer", None);
    sample.add_image("registry.example.com/web/app:1", &image);
    sample.head.sort();
    let file = sample.write();
    let len = file.metadata().unwrap().len();
    let original = open(&file).unwrap();
    let head_end = 512 + original.layout().head_bytes().len() as u64;
    let slot = original.layout().signatures();
    let in_slot = |at| (slot.offset..slot.offset + slot.size).contains(&at);
    let mut byte = [0];
    // every byte of the slot has its own test; here some, to see that it is looked at
    for at in (0..len).filter(|at| !in_slot(*at) || at % 512 < 2) {
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
        if let Ok(other) = open(&file) {
            // a letter of a free text in the head: that is another bundle, with another id, and
            // what it says is compared with signed indexes
            assert!((512..head_end).contains(&at), "byte {at}");
            assert_ne!(other.id(), original.id());
            assert_ne!(other.head(), original.head());
        }
        file.write_all_at(&byte, at).unwrap();
    }
    open(&file).unwrap();
}

#[test]
fn a_difference_is_named_with_its_place() {
    let sample = Sample::new(70_000);
    let layout = sample.layout();
    let large = layout.blobs().iter().find(|b| b.size > 65_536).unwrap();
    let padded = layout.blobs().iter().find(|b| b.size % 512 != 0).unwrap();
    let index = &layout.members()[3];
    for (at, says) in [
        (5, "no bundle".to_owned()),
        (110, "bundle.json differs at byte 110".to_owned()),
        (600, "the head".to_owned()),
        (
            layout.signatures().offset + 9000,
            "the signature slot".to_owned(),
        ),
        (
            index.data_at + 7,
            format!(
                "the content of index.json differs at byte {}",
                index.data_at + 7
            ),
        ),
        (
            large.header_at + 200,
            format!("the header of {}", large.path),
        ),
        (
            padded.data_at + padded.size,
            format!(
                "the padding after {} differs at byte {}",
                padded.path,
                padded.data_at + padded.size
            ),
        ),
        (
            large.data_at + 69_999,
            format!("{} at byte {} is damaged", large.path, large.data_at),
        ),
        (layout.len() - 1, "the end of the file differs".to_owned()),
    ] {
        let file = sample.write();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
        let error = open(&file).unwrap_err();
        assert!(error.to_string().contains(&says), "{error} lacks {says}");
        assert_eq!(error.kind(), Kind::Refused);
        assert!(error.hint().is_some());
    }
}

#[test]
fn every_damaged_member_is_named() {
    let sample = Sample::new(0);
    let layout = sample.layout();
    let file = sample.write();
    for member in [&layout.blobs()[0], &layout.blobs()[3]] {
        file.write_all_at(b"x", member.data_at).unwrap();
    }
    let bundle = Bundle::from_file(file).unwrap();
    let error = hash_all(&bundle, 3, &|_| {}).unwrap_err();
    let FormatError::Damaged(list) = error else {
        panic!("{error}");
    };
    let found: Vec<&str> = list.iter().map(|damage| damage.member.as_str()).collect();
    assert_eq!(found, [&layout.blobs()[0].path, &layout.blobs()[3].path]);
    let digest = layout.blobs()[0].digest.unwrap();
    assert!(bundle.read_blob(&digest, u64::MAX).is_err());
}

#[test]
fn a_cut_copy_is_refused_and_says_how_much_is_missing() {
    let sample = Sample::new(70_000);
    let file = sample.write();
    let len = file.metadata().unwrap().len();
    let mut cut = len;
    while cut >= 512 {
        cut -= 512;
        file.set_len(cut).unwrap();
        let error = open(&file).unwrap_err();
        if cut >= 8192 {
            let says = format!(
                "the file ends at byte {cut}, {} bytes are missing",
                len - cut
            );
            assert!(error.to_string().contains(&says), "{error}");
            assert!(error.to_string().contains("the copy was not finished"));
        }
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let file = Sample::new(0).write();
    let len = file.metadata().unwrap().len();
    for extra in [1, 512, 4096, 10_000] {
        file.set_len(len + extra).unwrap();
        let error = open(&file).unwrap_err().to_string();
        let says = format!("ends at byte {len}, but {extra} more bytes follow");
        assert!(error.contains(&says), "{error}");
    }
}

#[test]
fn a_giant_claim_is_refused_before_anything_is_read_by_it() {
    let sample = Sample::new(0);
    let file = sample.write();
    // 1 GiB of head, with a correct checksum or not: the size alone decides
    file.write_all_at(b"10000000000\0", 124).unwrap();
    let error = open(&file).unwrap_err().to_string();
    assert!(
        error.contains("1073741824 bytes; at most 67108864"),
        "{error}"
    );

    // 10 TB of body
    let mut giant = Sample::new(0);
    giant.head.blobs.last_mut().unwrap().size = 10_000_000_000_000;
    let layout = giant.layout();
    let file = sample.write();
    file.write_all_at(&giant.bytes_of_head(), 0).unwrap();
    let error = open(&file).unwrap_err().to_string();
    assert!(error.contains("the copy was not finished"), "{error}");
    assert!(layout.len() > 10_000_000_000_000);
}

impl Sample {
    fn bytes_of_head(&self) -> Vec<u8> {
        let layout = self.layout();
        let pieces = layout.frame().take(2);
        pieces.flat_map(|piece| piece.bytes.into_owned()).collect()
    }
}

#[test]
fn sizes_beyond_what_a_file_can_have_are_refused() {
    for size in [u64::MAX, i64::MAX as u64, i64::MAX as u64 - 4096] {
        let mut sample = Sample::new(0);
        sample.head.blobs.last_mut().unwrap().size = size;
        let head = sample.head.encode().unwrap();
        assert!(crate::bundle::Layout::plan(&sample.head, &head).is_err());
    }
}

#[test]
fn a_signature_moves_nothing() {
    let sample = Sample::new(0);
    let file = sample.write();
    let layout = sample.layout();
    let mut signatures = Signatures::default();
    let key = PrivateKey::generate().unwrap();
    signatures.sign(&key, &layout.id()).unwrap();
    write::put(&file, layout.signatures(), &signatures.encode().unwrap()).unwrap();
    let bundle = open(&file).unwrap();
    assert_eq!(bundle.id(), layout.id());
    let keys: Vec<_> = bundle.signatures().keys().collect();
    assert_eq!(keys, [&key.public().unwrap()]);

    let mut other = Signatures::default();
    other
        .sign(&key, &crate::Digest::sha256("another head"))
        .unwrap();
    write::put(&file, layout.signatures(), &other.encode().unwrap()).unwrap();
    assert!(
        open(&file)
            .unwrap_err()
            .to_string()
            .contains("does not verify")
    );
}

#[test]
fn the_head_alone_is_read_from_a_stream() {
    let sample = Sample::new(70_000);
    let bytes = sample.bytes();
    let opened = open_head(&bytes[..8192]).unwrap();
    assert_eq!(opened.head, sample.head);
    assert_eq!(opened.layout.len(), bytes.len() as u64);
    assert_eq!(opened.id, sample.layout().id());
    assert!(matches!(
        open_head(&bytes[..2000]),
        Err(FormatError::CutHead { len: 2000 })
    ));
    assert!(matches!(
        open_head(&bytes[..20]),
        Err(FormatError::NotABundle(_))
    ));
    let gzip = [0x1f, 0x8b, 8, 0].repeat(200);
    assert!(
        open_head(&gzip[..])
            .unwrap_err()
            .to_string()
            .contains("compressed")
    );
}

#[test]
fn an_error_names_the_file_and_what_kind_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.tar");
    let error = Bundle::open(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    let place = path.display().to_string();
    assert_eq!(error.place(), Some(place.clone()));
    std::fs::write(&path, b"hello").unwrap();
    let error = Bundle::open(&path).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(error.to_string().contains("this is no bundle"), "{error}");
    assert_eq!(error.place(), Some(place));
    assert!(Bundle::open(folder.path()).is_err());
    std::fs::write(&path, Sample::new(0).bytes()).unwrap();
    assert_eq!(Bundle::open(&path).unwrap().path(), Some(path.as_path()));
}
