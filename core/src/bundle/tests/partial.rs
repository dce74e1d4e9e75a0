//! What a bundle may leave out: platforms nobody asked for, attestations that do not exist,
//! layers that may not be distributed. And content that belongs to no package.

use super::sample::{IMAGE_CONFIG, Sample};
use crate::bundle::FormatError;
use crate::bundle::format::{FOREIGN_LAYERS, SPARSE_INDEXES, UNPACKAGED_CONTENT};
use crate::bundle::head::{ATTESTATION, Class, Head, Hole, REFERRERS};
use crate::bundle::verify::{Closure, ClosureError, Fault, closure, placements};
use crate::descriptor::{Descriptor, media_type};
use crate::digest::Digest;

const FOREIGN: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";

fn walk(sample: &Sample) -> Result<Closure, ClosureError> {
    let mut head = sample.head.clone();
    head.sort();
    closure(&head, |blob| Ok(sample.content[&blob.digest].clone()))
}

fn faults(sample: &Sample) -> Vec<Fault> {
    walk(sample).unwrap_err().faults
}

fn require(head: &mut Head, feature: &str) {
    head.requires.push(feature.to_owned());
}

fn on(mut child: Descriptor, platform: &str) -> Descriptor {
    child.platform = Some(platform.parse().unwrap());
    child
}

/// A manifest that is not in the bundle.
fn elsewhere(name: &str, platform: &str) -> Descriptor {
    let gone = Descriptor::new(media_type::OCI_MANIFEST, Digest::sha256(name), 7);
    on(gone, platform)
}

/// An image for amd64 that lacks `others`, in a bundle that was made for linux/amd64.
fn sparse(others: &[Descriptor]) -> Sample {
    let mut sample = Sample::empty();
    let here = on(sample.image(b"here", None), "linux/amd64");
    let children: Vec<Descriptor> = std::iter::once(here.clone())
        .chain(others.iter().cloned())
        .collect();
    let index = sample.index(&children);
    sample.add_image("ghcr.io/a/b:1", &index);
    let image = sample.head.images.last_mut().unwrap();
    image.platforms = vec![here.platform.unwrap()];
    image.sparse = true;
    sample.head.platforms = vec!["linux/amd64".parse().unwrap()];
    require(&mut sample.head, SPARSE_INDEXES);
    sample
}

fn left_out(sample: &Sample) -> Vec<String> {
    let closure = walk(sample).unwrap();
    let root = sample.head.images.last().unwrap().manifest.digest;
    let left_out = closure.left_out(&root).iter();
    left_out.map(ToString::to_string).collect()
}

#[test]
fn only_platforms_nobody_asked_for_are_left_out() {
    let mut sample = sparse(&[
        elsewhere("1", "linux/arm64"),
        elsewhere("2", "windows/amd64"),
    ]);
    sample.head.sort();
    sample.head.encode().unwrap();
    assert_eq!(left_out(&sample), ["linux/arm64", "windows/amd64"]);
    // one that was asked for is missing
    let stripped = sparse(&[elsewhere("1", "linux/amd64/v2")]);
    assert!(matches!(
        faults(&stripped)[..],
        [
            Fault::Missing {
                what: "manifest",
                ..
            },
            ..
        ]
    ));
    // all are for something else
    let mut other = sparse(&[elsewhere("1", "linux/arm64")]);
    other.head.platforms = vec!["linux/s390x".parse().unwrap()];
    let faults = faults(&other);
    assert!(
        faults
            .iter()
            .any(|fault| matches!(fault, Fault::NoPlatform { .. })),
        "{faults:?}"
    );
}

#[test]
fn what_is_left_out_of_an_index_within_an_index_counts() {
    let mut sample = Sample::empty();
    let here = on(sample.image(b"here", None), "linux/amd64");
    let inner = sample.index(&[here, elsewhere("1", "linux/arm64")]);
    // the outer one says nothing of platforms
    let outer = sample.index(&[inner]);
    sample.add_image("ghcr.io/a/b:1", &outer);
    sample.head.platforms = vec!["linux/amd64".parse().unwrap()];
    require(&mut sample.head, SPARSE_INDEXES);
    let whole = faults(&sample);
    assert!(
        matches!(whole[..], [Fault::Sparse { said: "whole", .. }]),
        "{whole:?}"
    );
    sample.head.images[0].sparse = true;
    assert_eq!(left_out(&sample), ["linux/arm64"]);
    // nor may the inner one be left with nothing that runs
    let mut bare = Sample::empty();
    let inner = bare.index(&[elsewhere("1", "linux/arm64")]);
    let here = on(bare.image(b"here", None), "linux/amd64");
    let outer = bare.index(&[here, inner]);
    bare.add_image("ghcr.io/a/b:1", &outer);
    bare.head.platforms = vec!["linux/amd64".parse().unwrap()];
    require(&mut bare.head, SPARSE_INDEXES);
    bare.head.images[0].sparse = true;
    assert!(matches!(faults(&bare)[..], [Fault::NoPlatform { .. }]));
}

#[test]
fn an_image_says_itself_that_it_is_sparse() {
    let mut sample = sparse(&[elsewhere("1", "linux/arm64")]);
    sample.head.images[0].sparse = false;
    assert!(matches!(
        faults(&sample)[..],
        [Fault::Sparse { said: "whole", .. }]
    ));
    let mut whole = sparse(&[]);
    assert!(matches!(
        faults(&whole)[..],
        [Fault::Sparse { said: "sparse", .. }]
    ));
    whole.head.images[0].sparse = false;
    walk(&whole).unwrap();
    // and has no name by which a runtime would import it
    let sample = sparse(&[elsewhere("1", "linux/arm64")]);
    let index = crate::bundle::oci::index(&sample.head).unwrap();
    let index = String::from_utf8(index).unwrap();
    assert!(!index.contains("ref.name") && index.contains("dev.kubepkg.reference"));
}

#[test]
fn the_list_of_what_is_left_out_is_short() {
    let many: Vec<Descriptor> = (0..70)
        .map(|n| elsewhere(&n.to_string(), &format!("linux/arch{n}")))
        .collect();
    assert!(matches!(
        faults(&sparse(&many))[..],
        [Fault::LeftOut { .. }, ..]
    ));
}

#[test]
fn an_attestation_may_be_missing_when_that_is_said() {
    let gone = elsewhere("attestation", "unknown/unknown");
    let mut sample = sparse(std::slice::from_ref(&gone));
    assert!(matches!(
        faults(&sample)[..],
        [Fault::Missing { digest, .. }, ..] if digest == gone.digest
    ));
    sample.head.holes.push(Hole {
        kind: ATTESTATION.to_owned(),
        of: format!("ghcr.io/a/b@{}", gone.digest),
        why: "not found".to_owned(),
    });
    sample.head.sort();
    sample.head.encode().unwrap();
    assert!(left_out(&sample).is_empty());
    // what runs is no attestation
    let mut stripped = sparse(&[elsewhere("1", "linux/amd64/v2")]);
    stripped.head.holes = vec![Hole {
        of: format!("ghcr.io/a/b@{}", Digest::sha256("1")),
        ..sample.head.holes[0].clone()
    }];
    let found = faults(&stripped);
    let named = |what: fn(&Fault) -> bool| found.iter().any(what);
    assert!(
        named(|fault| matches!(fault, Fault::Missing { .. })),
        "{found:?}"
    );
    // nor is one that is there a hole
    let mut there = sparse(&[]);
    there.head.holes = sample.head.holes.clone();
    let found = faults(&there);
    assert!(
        found
            .iter()
            .any(|fault| matches!(fault, Fault::Hole { .. })),
        "{found:?}"
    );
}

#[test]
fn parts_that_are_left_out_need_the_feature() {
    let refused = |change: &dyn Fn(&mut Head)| {
        let mut head = sparse(&[elsewhere("1", "linux/arm64")]).head;
        head.sort();
        head.encode().unwrap();
        change(&mut head);
        head.encode().unwrap_err().to_string()
    };
    for change in [
        (&|head: &mut Head| head.requires.clear()) as &dyn Fn(&mut Head),
        &|head| {
            head.requires.clear();
            head.platforms.clear();
        },
        &|head| {
            head.platforms.clear();
            head.images[0].sparse = false;
        },
    ] {
        let error = refused(change);
        assert!(error.contains("sparse-indexes"), "{error}");
    }
    let error = refused(&|head| head.platforms[0].os_version = Some("10".to_owned()));
    assert!(error.contains("version of its system"), "{error}");
    let error = refused(&|head| head.platforms.push(head.platforms[0].clone()));
    assert!(error.contains("twice"), "{error}");
    // a reader that does not know it names it
    let mut head = sparse(&[]).head;
    head.images[0].sparse = false;
    head.sort();
    let text = String::from_utf8(head.encode().unwrap()).unwrap();
    let other = text.replace(SPARSE_INDEXES, "sparse-indices");
    assert!(matches!(
        Head::decode(other.as_bytes()),
        Err(FormatError::Features(names)) if names == ["\"sparse-indices\""]
    ));
}

/// An image with a layer that may not be distributed.
fn windows(kind: &str) -> (Sample, Descriptor) {
    let mut sample = Sample::empty();
    let config = sample.blob(Class::Config, IMAGE_CONFIG, b"{}");
    let mut layer = Descriptor::new(kind, Digest::sha256("windows"), 7);
    layer.urls = vec!["https://go.example.com/windows".to_owned()];
    let manifest = sample.manifest(&serde_json::json!({
        "schemaVersion": 2,
        "mediaType": media_type::DOCKER_MANIFEST,
        "config": config,
        "layers": [layer],
    }));
    sample.add_image("ghcr.io/a/windows:1", &manifest);
    (sample, layer)
}

#[test]
fn only_foreign_layers_are_left_where_they_are() {
    let (mut sample, layer) = windows(FOREIGN);
    assert!(matches!(
        faults(&sample)[..],
        [Fault::Missing { what: "layer", .. }]
    ));
    require(&mut sample.head, FOREIGN_LAYERS);
    let closure = walk(&sample).unwrap();
    let outside: Vec<_> = closure.elsewhere().collect();
    let place = Some("https://go.example.com/windows");
    assert_eq!(outside, [(&layer.digest, place)]);
    // no store is told that it has it
    let places = placements(&sample.head, &closure).unwrap();
    assert!(!places[0].blobs.contains_key(&layer.digest));
    // a layer of the usual kind is missing, whatever else it says
    let (mut usual, _) = windows("application/vnd.docker.image.rootfs.diff.tar.gzip");
    require(&mut usual.head, FOREIGN_LAYERS);
    assert!(matches!(
        faults(&usual)[..],
        [Fault::Missing { what: "layer", .. }]
    ));
}

#[test]
fn content_without_a_package_needs_the_feature() {
    let mut head = Sample::new(0).head;
    head.images[0].packages.clear();
    head.images[0].pinned = false;
    let error = head.encode().unwrap_err().to_string();
    assert!(error.contains(UNPACKAGED_CONTENT), "{error}");
    require(&mut head, UNPACKAGED_CONTENT);
    head.encode().unwrap();
    head.images[0].pinned = true;
    let error = head.encode().unwrap_err().to_string();
    assert!(error.contains("no package"), "{error}");
    let mut needless = Sample::new(0).head;
    require(&mut needless, UNPACKAGED_CONTENT);
    let error = needless.encode().unwrap_err().to_string();
    assert!(error.contains("nothing in it needs"), "{error}");
}

#[test]
fn a_place_knows_whether_a_package_has_content_there() {
    let mut sample = Sample::new(0);
    let chart = &mut sample.head.charts[0];
    chart.packages.clear();
    let closure = walk(&sample).unwrap();
    let places = placements(&sample.head, &closure).unwrap();
    let alone: Vec<String> = places
        .iter()
        .filter(|place| !place.by_package)
        .map(|place| place.upstream.to_string())
        .collect();
    assert_eq!(alone, ["Helm chart charts.example.com/stable/web"]);
}

#[test]
fn other_holes_are_refused() {
    let mut head = sparse(&[elsewhere("1", "linux/arm64")]).head;
    head.holes = vec![Hole {
        kind: "platform".to_owned(),
        of: format!("ghcr.io/a/b@{}", Digest::sha256("1")),
        why: "left out".to_owned(),
    }];
    head.sort();
    let error = head.encode().unwrap_err().to_string();
    assert!(
        error.contains(REFERRERS) && error.contains(ATTESTATION),
        "{error}"
    );
}
