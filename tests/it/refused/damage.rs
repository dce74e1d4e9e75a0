//! Files that were damaged on the way.

use kubepkg_core::bundle::Layout;
use kubepkg_core::bundle::head::Class;

use super::site::{Honest, Site, honest};

const AGAIN: &str = "copy the file again";

/// The file with one bit of the byte at `at` turned over.
fn flipped(honest: &Honest, at: u64) -> Vec<u8> {
    let mut bytes = honest.bytes.clone();
    bytes[at as usize] ^= 1;
    bytes
}

/// Where the first blob of this class lies: its path and the place of its data.
fn blob(honest: &Honest, layout: &Layout, class: Class) -> (String, u64) {
    let of_class = honest.forge.head.blobs.iter().filter(|b| b.class == class);
    let large = of_class.max_by_key(|blob| blob.size).unwrap();
    let member = layout.blob_member(&large.digest).unwrap();
    (member.path.clone(), member.data_at)
}

#[test]
fn a_flipped_byte_outside_the_payload_is_named_with_its_place() {
    let site = Site::new();
    let honest = honest();
    let layout = honest.forge.layout();
    let members = layout.members();
    let (oci_layout, index) = (&members[2], &members[3]);
    // a large layer has a pax header before its own, so that its data is aligned
    let pax = members
        .iter()
        .find(|m| m.data_at - m.header_at > 512)
        .unwrap();
    let last = members.last().unwrap();
    let end = last.data_at + last.size.next_multiple_of(512);
    let padded = members
        .iter()
        .find(|m| m.size % 512 != 0 && m.digest.is_some())
        .unwrap();
    let header = &members[5];
    for (at, what) in [
        (
            oci_layout.data_at + 3,
            "the content of oci-layout differs".to_owned(),
        ),
        (
            index.data_at + 10,
            "the content of index.json differs".to_owned(),
        ),
        (
            header.header_at + 2,
            format!("the header of {} differs", header.path),
        ),
        (
            header.header_at + 150,
            format!("the header of {} differs", header.path),
        ),
        (
            pax.header_at + 2,
            format!("the header of {} differs", pax.path),
        ),
        (
            pax.header_at + 512 + 20,
            format!("the header of {} differs", pax.path),
        ),
        (
            pax.data_at - 512 + 130,
            format!("the header of {} differs", pax.path),
        ),
        (
            padded.data_at + padded.size,
            format!("the padding after {} differs", padded.path),
        ),
        (end, "the end of the file differs".to_owned()),
        (layout.len() - 1, "the end of the file differs".to_owned()),
    ] {
        site.refuses_by(&flipped(honest, at), &what)
            .at(&format!("site.tar: byte {at}"))
            .hints(AGAIN)
            .hints("must not be packed anew with tar");
    }
}

#[test]
fn a_flipped_byte_in_head_or_slot_is_refused() {
    let site = Site::new();
    let honest = honest();
    let layout = honest.forge.layout();
    let slot = layout.signatures().offset;
    let head_end = 512 + layout.head_bytes().len() as u64;
    for (at, what) in [
        (0, "no bundle of kubepkg: its first member is"),
        (110, "the header of kubepkg/bundle.json differs"),
        (512, "the head (kubepkg/bundle.json) is not valid"),
        (head_end - 1, "the head (kubepkg/bundle.json) is not valid"),
        (
            slot,
            "the signature slot (kubepkg/signatures.json) is not valid",
        ),
        (
            slot + 9_000,
            "the signature slot (kubepkg/signatures.json) is not valid",
        ),
    ] {
        site.refuses_by(&flipped(honest, at), what).at("site.tar");
    }
    // one letter of a free text: still a head, but no longer what was signed
    let text = String::from_utf8_lossy(&honest.bytes[512..head_end as usize]);
    let at = 512 + text.find("\"version\":\"2.0.0\"").unwrap() + 11;
    site.refuses_by(&flipped(honest, at as u64), "base 3.0.0")
        .why("is not in the signed index")
        .hints("make the bundle again");
}

#[test]
fn a_flipped_byte_of_the_payload_names_its_member() {
    let site = Site::new();
    let honest = honest();
    let layout = honest.forge.layout();
    let mut places: Vec<(String, u64)> =
        [Class::Manifest, Class::Config, Class::Chart, Class::Layer]
            .map(|class| blob(honest, &layout, class))
            .into();
    let files = &layout.members()[4..6];
    places.extend(files.iter().map(|file| (file.path.clone(), file.data_at)));
    for (path, at) in places {
        site.refuses_by(
            &flipped(honest, at + 40),
            &format!("{path} at byte {at} is damaged"),
        )
        .at(&format!("site.tar: {path} at byte {at}"))
        .hints(AGAIN);
    }
}

#[test]
fn a_copy_that_was_cut_says_how_much_is_missing() {
    let site = Site::new();
    let honest = honest();
    let len = honest.bytes.len();
    for n in 2..=20 {
        let cut = len * n / 21;
        site.refuses_by(
            &honest.bytes[..cut],
            &format!(
                "the file ends at byte {cut}, {} bytes are missing",
                len - cut
            ),
        )
        .why("the copy was not finished")
        .at(&format!("site.tar: byte {cut}"))
        .hints(AGAIN);
    }
    site.refuses_by(&honest.bytes[..len - 1], "1 byte is missing");
    // too short for the head to say how long it should be
    for cut in [512, 1_000] {
        site.refuses_by(
            &honest.bytes[..cut],
            &format!("the file ends at byte {cut}, inside its head"),
        )
        .hints(AGAIN);
    }
    for cut in [0, 100] {
        site.refuses_by(&honest.bytes[..cut], &format!("it has only {cut} bytes"))
            .at("site.tar");
    }
}

#[test]
fn bytes_behind_the_end_are_refused() {
    let site = Site::new();
    let honest = honest();
    let len = honest.bytes.len();
    for extra in [1, 512, 4096] {
        let mut longer = honest.bytes.clone();
        longer.resize(len + extra, 0);
        site.refuses_by(&longer, &format!("{extra} more bytes follow"))
            .at(&format!("site.tar: byte {len}"))
            .hints("do not trust it");
    }
}

#[test]
fn another_kind_of_file_is_no_bundle() {
    let site = Site::new();
    let text = b"hello\n".repeat(200);
    site.refuses_by(&text, "this is no bundle of kubepkg")
        .at("site.tar")
        .hints("kubepkg bundle create");
    let gzip = [0x1f, 0x8b, 8, 0].repeat(300);
    site.refuses_by(&gzip, "it is compressed, and a bundle is a plain tar");
}
