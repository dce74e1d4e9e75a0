//! Files whose members or head are not of the one form the format allows.

use kubepkg_test_support::forge::{head_text, with_head, with_header};
use kubepkg_test_support::{Forge, ImageBuilder, Package, Upstream};
use serde_json::{Value, json};

use crate::command::Scratch;

use super::site::{Site, URL, honest};

/// What `bundle create` writes and what the forge writes is one format: a created file taken
/// apart and put together again is the same file.
#[test]
fn forged_files_differ_from_created_ones_only_where_they_lie() {
    let scratch = Scratch::new();
    let upstream = Upstream::start();
    let image = ImageBuilder::new(1).layers(2, 70_000).build();
    upstream.put_image("tool", &["1"], &image);
    let reference = format!("{}/tool:1@{}", upstream.host(), image.digest());
    let tool = Package::new("tool", "1.0.0").image(&reference);
    scratch.write("packages/tool.yaml", tool.to_yaml());
    for call in [
        &["repo", "keygen", "release"][..],
        &["repo", "index", "packages", "--sign-key", "release.key"],
        &[
            "bundle",
            "create",
            "tool",
            "-o",
            "site.tar",
            "--repo",
            "index.yaml",
            "--public-key",
            "release.pub",
        ],
    ] {
        scratch.run(call).ok();
    }
    let created = std::fs::read(scratch.path("site.tar")).unwrap();
    let forged = Forge::of(&scratch.path("site.tar")).bytes();
    assert!(created == forged);
}

/// The honest bundle with its head's JSON changed. Keys stay sorted.
fn rewritten(change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let bytes = &honest().bytes;
    let mut head: Value = serde_json::from_str(head_text(bytes)).unwrap();
    change(&mut head);
    with_head(bytes, &head.to_string())
}

/// Exchanges the name in a tar header.
fn named(name: &str) -> impl FnOnce(&mut [u8]) {
    move |header: &mut [u8]| {
        header[..100].fill(0);
        header[..name.len()].copy_from_slice(name.as_bytes());
    }
}

#[test]
fn a_head_lists_everything_once_and_in_order() {
    let site = Site::new();
    for (list, what) in [
        ("blobs", "sha256:"),
        ("packages", "base"),
        ("images", "registry."),
    ] {
        let twice = rewritten(|head| {
            let entries = head[list].as_array_mut().unwrap();
            entries.insert(0, entries[0].clone());
        });
        site.refuses_by(&twice, "is there twice")
            .why(what)
            .at("site.tar");
        let swapped = rewritten(|head| head[list].as_array_mut().unwrap().swap(0, 1));
        site.refuses_by(&swapped, "is out of order")
            .why(what)
            .at("site.tar");
    }
}

#[test]
fn members_lie_in_their_order_each_once() {
    let site = Site::new();
    let honest = honest();
    let layout = honest.forge.layout();
    let (first, second) = (&layout.members()[4], &layout.members()[5]);
    let range = first.header_at as usize..second.header_at as usize;
    let end = layout.members().last().unwrap();
    let end = (end.data_at + end.size).next_multiple_of(512) as usize;

    // a second copy of a member before the end of the file
    let mut twice = honest.bytes[..end].to_vec();
    twice.extend_from_slice(&honest.bytes[range.clone()]);
    twice.extend_from_slice(&honest.bytes[end..]);
    site.refuses_by(&twice, "more bytes follow")
        .at("site.tar: byte ");

    // a header that says the member before once more
    let header = &honest.bytes[first.header_at as usize..][..512];
    let again = with_header(&honest.bytes, second.header_at as usize, |h| {
        h.copy_from_slice(header);
    });
    site.refuses_by(&again, &format!("the header of {} differs", second.path))
        .at("site.tar: byte ");

    // the two exchanged
    let after = layout.members()[6].header_at as usize;
    let mut swapped = honest.bytes[..range.start].to_vec();
    swapped.extend_from_slice(&honest.bytes[range.end..after]);
    swapped.extend_from_slice(&honest.bytes[range]);
    swapped.extend_from_slice(&honest.bytes[after..]);
    site.refuses_by(&swapped, &format!("the header of {} differs", first.path))
        .hints("must not be packed anew with tar");
}

#[test]
fn no_member_has_a_path_that_leaves_its_folder() {
    let site = Site::new();
    let honest = honest();
    let layout = honest.forge.layout();
    let member = &layout.members()[4];
    for path in ["../x", "/etc/passwd", "root/../../x", "a\\..\\x", "a/", "."] {
        // as the head says it
        let bytes = rewritten(|head| {
            let files = head["repositories"][0]["files"].as_array_mut().unwrap();
            files[0]["path"] = path.into();
            files.sort_by_key(|file| file["path"].as_str().unwrap().to_owned());
        });
        site.refuses_by(&bytes, &format!("\"{path}\" is no legal path"))
            .why(URL)
            .at("site.tar");
        // as a tar header says it, under an honest head
        let bytes = with_header(&honest.bytes, member.header_at as usize, named(path));
        site.refuses_by(&bytes, &format!("the header of {} differs", member.path))
            .at("site.tar: byte ");
    }
}

#[test]
fn no_member_is_a_link_a_device_or_a_pipe() {
    let site = Site::new();
    let honest = honest();
    let layout = honest.forge.layout();
    let member = &layout.members()[4];
    // hard link, symbolic link, character and block device, folder, pipe, and the records with
    // which tar programs hand a long name to the next header
    for kind in *b"1234567KLS" {
        let bytes = with_header(&honest.bytes, member.header_at as usize, |header| {
            header[156] = kind;
        });
        site.refuses_by(&bytes, &format!("the header of {} differs", member.path))
            .at("site.tar: byte ");
    }
}

#[test]
fn a_name_over_the_limit_is_refused() {
    let site = Site::new();
    let index = format!("{}.yaml", "x".repeat(191));
    let url = format!("https://a-long-name-of-a-host.packages.example.com/{index}");
    let bytes = rewritten(|head| {
        let repository = &mut head["repositories"][0];
        repository["url"] = url.as_str().into();
        repository["files"][0]["path"] = index.as_str().into();
        repository["files"][1]["path"] = format!("{index}.sig").into();
        for package in head["packages"].as_array_mut().unwrap() {
            package["repository"] = url.as_str().into();
        }
    });
    site.refuses_by(
        &bytes,
        "the name of member repositories/a-long-name-of-a-host.packages.example.com-",
    )
    .why("at most 255 are allowed")
    .at("site.tar");
}

#[test]
fn a_newer_format_says_so() {
    let site = Site::new();
    let newer = rewritten(|head| head["format"] = "kubepkg.dev/bundle/v2".into());
    site.refuses_by(
        &newer,
        "the bundle has the format \"kubepkg.dev/bundle/v2\"",
    )
    .at("site.tar")
    .hints("use a newer kubepkg");
    let features = rewritten(|head| head["requires"] = json!(["derived-blobs", "encrypted"]));
    site.refuses_by(&features, "does not know: \"derived-blobs\", \"encrypted\"")
        .at("site.tar")
        .hints("use a newer kubepkg");
    let field = rewritten(|head| head["packages"][0]["shiny"] = 1.into());
    site.refuses_by(&field, "unknown field `shiny`")
        .at("site.tar");
}

#[test]
fn a_head_has_one_form() {
    let site = Site::new();
    let bytes = &honest().bytes;
    let text = head_text(bytes);
    let spaced = text.replacen("\":", "\": ", 1);
    site.refuses_by(&with_head(bytes, &spaced), "not written in its one form");
    let doubled = text.replacen('{', "{\"format\":\"kubepkg.dev/bundle/v1\",", 1);
    site.refuses_by(&with_head(bytes, &doubled), "duplicate field `format`");
    site.refuses_by(
        &with_head(bytes, "[]"),
        "the head (kubepkg/bundle.json) is not valid",
    );
}

#[test]
fn giant_claims_are_refused_before_anything_is_read_or_reserved() {
    let site = Site::new();
    let honest = honest();
    // 1 GiB of head
    let head = with_header(&honest.bytes, 0, |h| {
        h[124..135].copy_from_slice(b"10000000000")
    });
    site.refuses_by(&head, "has 1073741824 bytes; at most 67108864 are allowed")
        .at("site.tar");
    // 10 TB of body, in a file of the honest size
    let mut forge = honest.forge.clone();
    forge.head.sort();
    forge.head.blobs.last_mut().unwrap().size = 10_000_000_000_000;
    let mut body = honest.bytes.clone();
    let beginning = forge.beginning();
    body[..beginning.len()].copy_from_slice(&beginning);
    site.refuses_by(&body, "the file ends at byte")
        .why("the copy was not finished");
    // more than any file can have
    let beyond = rewritten(|head| {
        let blobs = head["blobs"].as_array_mut().unwrap();
        blobs.last_mut().unwrap()["size"] = (u64::MAX / 2).into();
    });
    site.refuses_by(&beyond, "bytes; at most 9223372036854775807 are allowed");
    // a manifest larger than is ever read into memory
    let manifest = rewritten(|head| head["blobs"][0]["size"] = (1u64 << 30).into());
    site.refuses_by(
        &manifest,
        "has 1073741824 bytes; at most 4194304 are allowed",
    );
    // an index larger than is ever read into memory
    let index = rewritten(|head| {
        head["repositories"][0]["files"][0]["size"] = (1u64 << 40).into();
    });
    site.refuses_by(
        &index,
        "has 1099511627776 bytes; at most 536870912 are allowed",
    );
}
