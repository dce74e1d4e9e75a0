//! The head: one way to write it, every rule, every limit.

use super::sample::Sample;
use crate::bundle::format::*;
use crate::bundle::head::{Class, Head, HeadBlob, HeadFile, Hole};
use crate::bundle::{FormatError, bundle_id};
use crate::digest::Digest;

/// Something that breaks a rule.
type Change = fn(&mut Head);

fn text(head: &Head) -> String {
    String::from_utf8(head.encode().unwrap()).unwrap()
}

/// `json`, filled with spaces as a head is.
fn padded(json: &str) -> Vec<u8> {
    let mut bytes = json.trim_end_matches(' ').as_bytes().to_vec();
    while bytes.len() as u64 % ALIGNMENT != HEAD_REMAINDER {
        bytes.push(b' ');
    }
    bytes
}

fn refused(head: &Head, says: &str) {
    let error = head.encode().unwrap_err().to_string();
    assert!(error.contains(says), "\"{error}\" does not say \"{says}\"");
}

#[test]
fn a_head_is_written_in_one_way() {
    let head = Sample::new(0).head;
    let bytes = head.encode().unwrap();
    assert_eq!(bytes.len() as u64 % ALIGNMENT, HEAD_REMAINDER);
    assert_eq!(Head::decode(&bytes).unwrap(), head);
    let mut again = head.clone();
    again.images.reverse();
    again.blobs.reverse();
    again.sort();
    assert_eq!(again.encode().unwrap(), bytes);
    assert_eq!(bundle_id(&bytes), Digest::sha256(&bytes));
    let json = text(&head);
    let keys = [
        "\"blobs\"",
        "\"charts\"",
        "\"extensions\"",
        "\"format\"",
        "\"holes\"",
        "\"images\"",
    ];
    let places: Vec<_> = keys.iter().map(|key| json.find(key).unwrap()).collect();
    assert!(places.is_sorted());
    assert!(json.contains(r#"{"a":[],"z":1}"#));
}

#[test]
fn the_id_of_a_head_never_changes() {
    // a change here is a change of the format: every bundle would get another id
    let id = bundle_id(&Sample::new(0).head.encode().unwrap()).to_string();
    assert_eq!(id, GOLDEN_ID);
}

const GOLDEN_ID: &str = "sha256:736a51fba98dee8fd8e2f2fdb9ec99285daa36f48000b9677bec731c947e03b4";

#[test]
fn another_spelling_of_the_same_head_is_refused() {
    let json = text(&Sample::new(0).head);
    for (what, other) in [
        ("a space", json.replacen(':', ": ", 1)),
        ("an escape", json.replacen("\"web\"", "\"\\u0077eb\"", 1)),
        (
            "an unknown field",
            json.replacen("{\"blobs\"", "{\"aaa\":1,\"blobs\"", 1),
        ),
        (
            "an unknown field below",
            json.replacen("\"class\"", "\"aaa\":1,\"class\"", 1),
        ),
        (
            "a default written out",
            json.replacen("\"class\"", "\"assumed\":false,\"class\"", 1),
        ),
        (
            "a field twice",
            json.replacen("\"format\"", "\"format\":\"x\",\"format\"", 1),
        ),
        ("a line feed", json.trim_end().to_owned() + "\n"),
        (
            "an unknown class",
            json.replacen("\"layer\"", "\"other\"", 1),
        ),
        (
            "another order",
            json.replacen("\"build\":0,\"digest\"", "\"digest\"", 1),
        ),
        (
            "a field of a descriptor",
            json.replacen("\"mediaType\"", "\"data\":\"\",\"mediaType\"", 1),
        ),
    ] {
        assert_ne!(other, json, "{what}");
        assert!(Head::decode(&padded(&other)).is_err(), "{what}");
    }
    let mut longer = json.clone().into_bytes();
    longer.extend([b' '; 4096]);
    assert!(Head::decode(&longer).is_err());
    assert!(Head::decode(json.trim_end().as_bytes()).is_err());
}

#[test]
fn newer_bundles_are_named_as_such() {
    let json = text(&Sample::new(0).head);
    let newer = json
        .replace("kubepkg.dev/bundle/v1", "kubepkg.dev/bundle/v2")
        .replacen("{\"blobs\"", "{\"aaa\":1,\"blobs\"", 1);
    let error = Head::decode(&padded(&newer)).unwrap_err();
    assert!(matches!(error, FormatError::Version(_)), "{error}");
    let needs = json.replacen(
        "\"trees\"",
        "\"requires\":[\"parity\",\"zstd\"],\"trees\"",
        1,
    );
    let error = Head::decode(&padded(&needs)).unwrap_err();
    let FormatError::Features(names) = &error else {
        panic!("{error}");
    };
    assert_eq!(names, &["\"parity\"", "\"zstd\""]);
    assert!(error.to_string().contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn lists_are_sorted_and_without_doubles() {
    let good = Sample::new(0).head;
    let changes: [(&str, Change); 10] = [
        ("blobs", |h| h.blobs.swap(0, 1)),
        ("blobs", |h| h.blobs.insert(0, h.blobs[0].clone())),
        ("twice", |h| {
            let mut again = h.blobs[0].clone();
            again.class = Class::Layer;
            h.blobs.push(again);
            h.sort();
        }),
        ("images", |h| h.images.reverse()),
        ("images", |h| h.images.insert(0, h.images[0].clone())),
        ("referrers", |h| {
            h.referrers.insert(0, h.referrers[0].clone())
        }),
        ("charts", |h| h.charts.insert(0, h.charts[0].clone())),
        ("trees", |h| h.trees.insert(0, h.trees[0].clone())),
        ("packages", |h| h.packages.insert(0, h.packages[0].clone())),
        ("repositories", |h| {
            h.repositories.insert(0, h.repositories[0].clone());
        }),
    ];
    for (says, change) in changes {
        let mut head = good.clone();
        change(&mut head);
        refused(&head, says);
    }
}

#[test]
fn parts_of_a_head_agree() {
    let good = Sample::new(0).head;
    let changes: [(&str, Change); 13] = [
        ("not among the blobs", |h| {
            let digest = h.images[0].manifest.digest;
            h.blobs.retain(|blob| blob.digest != digest);
        }),
        ("is not a manifest of", |h| h.images[0].manifest.size += 1),
        ("no type of a manifest", |h| {
            h.images[0].manifest.media_type = "text/plain".to_owned();
        }),
        ("only mediaType, digest and size", |h| {
            h.images[0].manifest.urls.push("https://x".to_owned());
        }),
        ("must name the digest", |h| {
            h.images[0].reference = h.images[0].reference.at(Digest::sha256("x"));
        }),
        ("is not in the bundle", |h| {
            h.images[0].packages = vec!["other".parse().unwrap()];
        }),
        ("no repository of this bundle", |h| {
            h.packages[0].repository = "https://other.example.com/index.yaml".parse().unwrap();
        }),
        ("makes no tag", |h| h.charts[0].version = "1.0 0".to_owned()),
        ("has no '/'", |h| h.charts[0].name = "a/b".to_owned()),
        ("no canonical host/path", |h| {
            h.referrers[0].repository = "Docker.io/x".to_owned();
        }),
        ("its archive", |h| h.charts[0].archive = Digest::sha256("x")),
        ("its kind is neither referrers", |h| {
            h.holes.push(Hole {
                kind: "other".to_owned(),
                of: format!("ghcr.io/a/b@{}", Digest::sha256("x")),
                why: String::new(),
            });
        }),
        ("assumed-blobs", |h| {
            h.blobs.last_mut().unwrap().assumed = true
        }),
    ];
    for (says, change) in changes {
        let mut head = good.clone();
        change(&mut head);
        refused(&head, says);
    }
}

#[test]
fn only_the_files_of_a_repository_are_allowed() {
    let file = |path: &str| HeadFile {
        path: path.to_owned(),
        size: 3,
        digest: Digest::sha256("x"),
    };
    for (path, says) in [
        ("../x", "no legal path"),
        ("/etc/passwd", "no legal path"),
        ("root/../x", "no legal path"),
        ("root/01.yaml", "no file of a repository"),
        ("root/0.yaml", "no file of a repository"),
        ("root/1001.yaml", "no file of a repository"),
        ("root/4.yaml", "root/3.yaml is missing"),
        ("root/3.yaml", "byte for byte"),
        ("readme.md", "no file of a repository"),
        ("a b", "no legal path"),
        ("a\u{e9}", "no legal path"),
        ("", "no legal path"),
    ] {
        let mut head = Sample::new(0).head;
        head.repositories[0].files.push(file(path));
        head.sort();
        refused(&head, says);
    }
    let mut head = Sample::new(0).head;
    head.repositories[0]
        .files
        .retain(|f| f.path != "index.yaml");
    refused(&head, "index.yaml is missing");
    let mut head = Sample::new(0).head;
    head.repositories[0].files.retain(|f| f.path != "root.yaml");
    refused(&head, "byte for byte");
}

#[test]
fn an_extension_cannot_climb_out_of_its_folder() {
    for (feature, path) in [
        ("../x", "a"),
        ("", "a"),
        ("a/b", "a"),
        ("a", "../../index.json"),
    ] {
        let mut head = Sample::new(0).head;
        let mut extension = head.extensions["notes"].clone();
        extension.files[0].path = path.to_owned();
        head.extensions.insert(feature.to_owned(), extension);
        assert!(head.encode().is_err(), "{feature} {path}");
    }
}

#[test]
fn sizes_of_small_things_are_limited() {
    for (path, limit) in [
        ("index.yaml", MAX_INDEX),
        ("index.yaml.sig", MAX_SIGNATURE_FILE),
        ("root/1.yaml", MAX_ROOT),
    ] {
        let mut head = Sample::new(0).head;
        let files = &mut head.repositories[0].files;
        let file = files.iter_mut().find(|f| f.path == path).unwrap();
        file.size = limit;
        assert!(head.encode().is_ok(), "{path}");
        let files = &mut head.repositories[0].files;
        files.iter_mut().find(|f| f.path == path).unwrap().size = limit + 1;
        refused(&head, "at most");
    }
    let mut head = Sample::new(0).head;
    let manifest = head.blobs.iter_mut().find(|b| b.class == Class::Manifest);
    manifest.unwrap().size = crate::manifest::MAX_MANIFEST + 1;
    refused(&head, "at most 4194304");
}

fn roots(count: usize) -> Head {
    let mut head = Sample::new(0).head;
    let files = &mut head.repositories[0].files;
    files.retain(|f| !f.path.starts_with("root/"));
    let template = files[0].clone();
    for n in 1..=count {
        files.push(HeadFile {
            path: format!("root/{n}.yaml"),
            size: 1,
            ..template.clone()
        });
    }
    let top = files.iter_mut().find(|f| f.path == "root.yaml").unwrap();
    (top.size, top.digest) = (1, template.digest);
    head.sort();
    head
}

#[test]
fn a_chain_has_at_most_a_thousand_roots() {
    let head = roots(MAX_ROOTS);
    assert_eq!(Head::decode(&head.encode().unwrap()).unwrap(), head);
    refused(&roots(MAX_ROOTS + 1), "no file of a repository");
}

#[test]
fn there_are_at_most_400_000_blobs() {
    let mut head = Sample::empty().head;
    head.blobs = (0..MAX_BLOBS as u64 + 1)
        .map(|n| HeadBlob {
            digest: Digest::sha256(n.to_le_bytes()),
            size: n,
            class: Class::Layer,
            assumed: false,
        })
        .collect();
    head.sort();
    refused(&head, "400001 entries; at most 400000");
}

#[test]
fn the_longest_list_of_blobs_fits_into_a_head() {
    let mut head = Sample::empty().head;
    head.sort();
    let empty = head.encode().unwrap().len();
    head.blobs = (0..1000u64)
        .map(|n| HeadBlob {
            digest: Digest::sha256(n.to_le_bytes()),
            size: u64::from(u32::MAX),
            class: Class::Config,
            assumed: false,
        })
        .collect();
    head.sort();
    let each = (head.encode().unwrap().len() - empty).div_ceil(1000);
    assert!(
        (each * MAX_BLOBS) as u64 + 8 * 1024 * 1024 <= MAX_HEAD,
        "{each}"
    );
}

#[test]
fn there_are_at_most_a_thousand_repositories() {
    let mut head = Sample::empty().head;
    let template = head.repositories[0].clone();
    for n in 0..MAX_REPOSITORIES {
        let mut other = template.clone();
        other.url = format!("https://h{n}.example.com/index.yaml")
            .parse()
            .unwrap();
        head.repositories.push(other);
    }
    head.sort();
    refused(&head, "at most 1000");
}

#[test]
fn a_head_over_64_mib_is_refused() {
    let bytes = vec![b' '; MAX_HEAD as usize + HEAD_REMAINDER as usize];
    let error = Head::decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("at most 67108864"), "{error}");
}

#[test]
fn free_fields_are_limited() {
    let mut head = Sample::new(0).head;
    let extension = head.extensions.get_mut("notes").unwrap();
    let long = "x".repeat(MAX_EXTENSION_FIELDS);
    extension.fields.insert("c".to_owned(), long.into());
    let error = head.encode().map(|bytes| Head::decode(&bytes));
    assert!(!matches!(error, Ok(Ok(_))));
}

#[test]
fn a_name_has_at_most_255_bytes() {
    let mut head = Sample::new(0).head;
    let extension = head.extensions.get_mut("notes").unwrap();
    let room = MAX_NAME - "extensions/notes/".len();
    extension.files[0].path = "x".repeat(room);
    let plan = |head: &Head| crate::bundle::Layout::plan(head, &head.encode().unwrap());
    plan(&head).unwrap();
    head.extensions.get_mut("notes").unwrap().files[0]
        .path
        .push('x');
    let error = plan(&head).unwrap_err().to_string();
    assert!(error.contains("256 bytes; at most 255"), "{error}");
}

#[test]
fn short_names_cannot_fill_the_memory() {
    let json = text(&Sample::new(0).head);
    let many = |entry: &str, count: usize| vec![entry; count].join(",");
    // before they are values, let alone names in order
    let names = many("\"a\"", MAX_INNER + 1);
    let other = json.replacen(
        "\"packages\":[\"web\"]",
        &format!("\"packages\":[{names}]"),
        1,
    );
    assert_ne!(other, json);
    let error = Head::decode(&padded(&other)).unwrap_err();
    assert!(
        matches!(error, FormatError::TooLarge { size, .. } if size > MAX_INNER as u64),
        "{error}"
    );
    let extensions: Vec<String> = (0..=MAX_EXTENSIONS)
        .map(|n| format!("\"e{n}\":{{}}"))
        .collect();
    let other = json.replacen(
        "\"extensions\":{",
        &format!("\"extensions\":{{{},", extensions.join(",")),
        1,
    );
    let error = Head::decode(&padded(&other)).unwrap_err();
    assert!(matches!(error, FormatError::TooLarge { .. }), "{error}");
}

#[test]
fn all_manifests_together_are_limited() {
    let mut head = Sample::empty().head;
    let size = crate::manifest::MAX_MANIFEST;
    head.blobs = (0..=MAX_MANIFESTS / size)
        .map(|n| HeadBlob {
            digest: Digest::sha256(n.to_le_bytes()),
            size,
            class: Class::Manifest,
            assumed: false,
        })
        .collect();
    head.sort();
    refused(&head, "all manifests of the bundle");
    head.blobs.pop();
    head.encode().unwrap();
}

#[test]
fn an_index_has_no_name_of_another_file() {
    for name in [
        "carried.json",
        "Carried.JSON",
        "root",
        "ROOT",
        "root.yaml",
        "index.yaml.sig",
        "x.SIG",
        &"x".repeat(201),
    ] {
        let mut head = Sample::empty().head;
        let url = format!("https://packages.example.com/{name}");
        head.repositories[0].url = url.parse().unwrap();
        head.packages[0].repository = url.parse().unwrap();
        let file = head.repositories[0].files[0].clone();
        head.repositories[0].files = vec![HeadFile {
            path: name.to_owned(),
            ..file
        }];
        refused(&head, "repository https://packages.example.com/");
    }
}
