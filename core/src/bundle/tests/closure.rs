//! Manifests and head agree, or every disagreement is named.

use super::sample::{IMAGE_CONFIG, Sample};
use crate::bundle::head::{Class, Hole};
use crate::bundle::verify::{
    Closure, ClosureError, Fault, PlacementError, charts, closure, placements,
};
use crate::chart::MAX_PROVENANCE;
use crate::chart::tests::tgz;
use crate::descriptor::{Descriptor, Platform, media_type};
use crate::digest::{Algorithm, Digest};

fn walk(sample: &Sample) -> Result<Closure, ClosureError> {
    let mut head = sample.head.clone();
    head.sort();
    closure(&head, |blob| Ok(sample.content[&blob.digest].clone()))
}

fn faults(sample: &Sample) -> Vec<Fault> {
    walk(sample).unwrap_err().faults
}

fn drop_blob(sample: &mut Sample, digest: &Digest) {
    sample.head.blobs.retain(|blob| blob.digest != *digest);
}

#[test]
fn a_whole_bundle_is_closed() {
    let sample = Sample::new(0);
    let closure = walk(&sample).unwrap();
    let manifests = sample
        .head
        .blobs
        .iter()
        .filter(|b| b.class == Class::Manifest);
    assert_eq!(closure.manifests().count(), manifests.count());
    let image = &sample.head.images[1];
    let platforms = closure.platforms(&image.manifest.digest);
    let shown: Vec<String> = platforms.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["linux/amd64", "linux/arm64"]);
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    let mut sample = Sample::new(0);
    let gone: Vec<Digest> = [b"sbom".as_slice(), &[0; 100], &[1; 100]]
        .iter()
        .map(Digest::sha256)
        .collect();
    for digest in &gone {
        drop_blob(&mut sample, digest);
    }
    let error = walk(&sample).unwrap_err();
    let mut named: Vec<Digest> = error
        .faults
        .iter()
        .map(|fault| match fault {
            Fault::Missing { digest, .. } => *digest,
            other => panic!("{other}"),
        })
        .collect();
    named.sort();
    let mut gone = gone;
    gone.sort();
    assert_eq!(named, gone);
    for digest in gone {
        assert!(error.to_string().contains(&digest.to_string()));
    }
}

#[test]
fn an_image_cannot_be_stripped_of_its_children() {
    let mut sample = Sample::empty();
    let here = sample.image(b"here", None);
    let gone = Descriptor::new(media_type::OCI_MANIFEST, Digest::sha256("gone"), 7);
    let index = sample.index(&[here, gone.clone()]);
    sample.add_image("ghcr.io/a/b:1", &index);
    let missing = |sample: &Sample| {
        matches!(
            faults(sample).first(),
            Some(Fault::Missing { what: "manifest", digest, .. }) if *digest == gone.digest
        )
    };
    assert!(missing(&sample));
    // whatever the head says of it
    for kind in ["platform", "referrers"] {
        sample.head.holes = vec![Hole {
            kind: kind.to_owned(),
            of: format!("ghcr.io/a/b@{}", gone.digest),
            why: "left out".to_owned(),
        }];
        assert!(missing(&sample), "{kind}");
    }
    sample.head.sort();
    assert!(
        sample.head.encode().is_ok(),
        "a failed look-up may be named"
    );
    sample.head.holes[0].kind = "platform".to_owned();
    assert!(sample.head.encode().is_err());
}

#[test]
fn a_hole_is_said_of_something_in_the_bundle() {
    let mut sample = Sample::new(0);
    sample.head.holes.push(Hole {
        kind: "referrers".to_owned(),
        of: format!("ghcr.io/a/b@{}", Digest::sha256("elsewhere")),
        why: "no answer".to_owned(),
    });
    assert!(matches!(faults(&sample)[..], [Fault::Hole { .. }]));
}

#[test]
fn platforms_are_those_of_the_index() {
    let good = Sample::new(0);
    let of = |sample: &mut Sample, change: fn(&mut Vec<Platform>)| {
        let image = sample
            .head
            .images
            .iter_mut()
            .find(|i| !i.platforms.is_empty());
        change(&mut image.unwrap().platforms);
    };
    let changes: [fn(&mut Vec<Platform>); 3] = [
        Vec::clear,
        |platforms| drop(platforms.pop()),
        |platforms| platforms[0].architecture = "s390x".to_owned(),
    ];
    for change in changes {
        let mut sample = good.clone();
        of(&mut sample, change);
        assert!(matches!(faults(&sample)[..], [Fault::Platforms { .. }]));
    }
}

#[test]
fn a_blob_nobody_names_is_refused() {
    let mut sample = Sample::new(0);
    let extra = sample.blob(Class::Layer, "text/plain", b"extra");
    assert_eq!(
        faults(&sample),
        [Fault::Unnamed {
            digest: extra.digest
        }]
    );
    let mut sample = Sample::new(0);
    let extra = sample.image(b"no image of the head", None);
    assert_eq!(faults(&sample).len(), 2);
    assert!(faults(&sample).contains(&Fault::Unnamed {
        digest: extra.digest
    }));
}

#[test]
fn size_class_and_type_must_agree() {
    let mut sample = Sample::new(0);
    let layer = Digest::sha256(b"sbom");
    let blob = sample.head.blobs.iter_mut().find(|b| b.digest == layer);
    blob.unwrap().size += 1;
    assert!(matches!(faults(&sample)[..], [Fault::Size { digest, .. }] if digest == layer));

    let mut sample = Sample::new(0);
    let blob = sample.head.blobs.iter_mut().find(|b| b.digest == layer);
    blob.unwrap().class = Class::Tree;
    assert!(matches!(
        faults(&sample)[..],
        [Fault::Class { digest, listed: Class::Tree, used: Class::Layer }] if digest == layer
    ));

    let mut sample = Sample::new(0);
    sample.head.images[0].manifest.media_type = media_type::OCI_MANIFEST.to_owned();
    assert!(matches!(
        faults(&sample).first(),
        Some(Fault::Manifest { .. } | Fault::Type { .. })
    ));
}

#[test]
fn a_blob_lies_by_the_lowest_class_of_its_uses() {
    let mut sample = Sample::empty();
    // the empty config is also the layer
    let config = sample.blob(Class::Config, IMAGE_CONFIG, b"{}");
    let manifest = sample.manifest(&serde_json::json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "config": config,
        "layers": [config],
    }));
    sample.add_image("ghcr.io/a/b:1", &manifest);
    walk(&sample).unwrap();
}

#[test]
fn a_damaged_manifest_is_not_believed() {
    let mut sample = Sample::new(0);
    let digest = sample.head.images[0].manifest.digest;
    sample.content.get_mut(&digest).unwrap()[0] ^= 1;
    assert!(faults(&sample).contains(&Fault::Damaged { digest }));
}

/// An index around an index …, `depth` of them, around an image.
fn nested(sample: &mut Sample, depth: usize) -> Descriptor {
    let mut inner = sample.image(b"inner", None);
    for _ in 0..depth {
        inner = sample.index(&[inner]);
    }
    inner
}

#[test]
fn indexes_nest_eight_deep() {
    let mut sample = Sample::empty();
    let root = nested(&mut sample, 8);
    sample.add_image("ghcr.io/a/b:1", &root);
    walk(&sample).unwrap();
    let deeper = sample.index(&[root]);
    // both orders: the inner one is known when the outer one is walked, or not
    for name in ["ghcr.io/a/a:1", "ghcr.io/a/c:1"] {
        let mut sample = sample.clone();
        sample.add_image(name, &deeper);
        let faults = faults(&sample);
        assert!(matches!(faults[..], [Fault::Nesting { .. }]), "{faults:?}");
    }
}

#[test]
fn a_chart_is_a_helm_chart_with_its_archive() {
    let mut sample = Sample::new(0);
    sample.head.charts[0].archive = Digest::sha256(b"tree");
    assert!(matches!(faults(&sample)[..], [Fault::Chart { .. }]));
}

#[test]
fn referrers_are_about_something_in_the_bundle() {
    let mut sample = Sample::new(0);
    sample.head.referrers[0].repository = "ghcr.io/other/place".to_owned();
    let found = faults(&sample);
    assert!(
        found.iter().any(|f| matches!(f, Fault::NoSubject { .. })),
        "{found:?}"
    );

    let mut sample = Sample::new(0);
    let wrong = sample.head.images[0].manifest.digest;
    sample.head.referrers[0].subject = wrong;
    sample.head.referrers[0].repository = "docker.io/library/plain".to_owned();
    let found = faults(&sample);
    assert!(
        found.iter().any(|f| matches!(f, Fault::Subject { .. })),
        "{found:?}"
    );
}

#[test]
fn referrers_go_three_deep() {
    let mut sample = Sample::empty();
    let image = sample.image(b"image", None);
    sample.add_image("ghcr.io/a/b:1", &image);
    let mut subject = image;
    for n in 0..4 {
        let next = sample.image(&[n], Some(&subject));
        sample.add_referrer("ghcr.io/a/b", &subject.digest, &next);
        subject = next;
        match n {
            3 => assert!(
                faults(&sample)
                    .iter()
                    .any(|f| matches!(f, Fault::NoSubject { .. }))
            ),
            _ => drop(walk(&sample).unwrap()),
        }
    }
}

#[test]
fn a_subject_has_at_most_64_referrers() {
    let mut sample = Sample::empty();
    let image = sample.image(b"image", None);
    sample.add_image("ghcr.io/a/b:1", &image);
    for n in 0..65 {
        if n == 64 {
            walk(&sample).unwrap();
        }
        let next = sample.image(&[n], Some(&image));
        sample.add_referrer("ghcr.io/a/b", &image.digest, &next);
    }
    assert!(matches!(faults(&sample)[..], [Fault::Referrers { .. }]));
}

#[test]
fn cosign_tags_say_what_they_are_about() {
    let mut sample = Sample::empty();
    let image = sample.image(b"image", None);
    sample.add_image("ghcr.io/a/b:1", &image);
    let signature = sample.image(b"signature", None);
    sample.add_referrer("ghcr.io/a/b", &image.digest, &signature);
    assert!(matches!(faults(&sample)[..], [Fault::Subject { .. }]));
    for (suffix, good) in [
        (".sig", true),
        (".att", true),
        (".sbom", true),
        ("", true),
        (".other", false),
        ("0", false),
        ("-x", false),
    ] {
        let tag = format!("sha256-{}{suffix}", image.digest.hex());
        sample.head.referrers[0].tag = Some(tag.parse().unwrap());
        assert_eq!(walk(&sample).is_ok(), good, "{tag}");
    }
}

#[test]
fn a_referrer_cannot_take_the_tag_of_an_image() {
    let mut sample = Sample::empty();
    let image = sample.image(b"image", None);
    sample.add_image("ghcr.io/a/b:1", &image);
    let other = Digest::sha256("other").hex();
    let own = format!("sha256-{}.sig", image.digest.hex());
    // with a subject and without one
    for subject in [Some(&image), None] {
        let mut sample = sample.clone();
        let evil = sample.image(b"evil", subject);
        sample.add_referrer("ghcr.io/a/b", &image.digest, &evil);
        for tag in ["latest", "2", &format!("sha256-{other}.sig")] {
            sample.head.referrers[0].tag = Some(tag.parse().unwrap());
            let found = faults(&sample);
            assert!(matches!(found[..], [Fault::Tag { .. }]), "{tag}: {found:?}");
        }
        sample.head.referrers[0].tag = Some(own.parse().unwrap());
        walk(&sample).unwrap();
    }
}

fn manifest_about(sample: &mut Sample, subject: &Descriptor, text: &str) -> Descriptor {
    let config = sample.blob(Class::Config, IMAGE_CONFIG, b"{}");
    sample.manifest(&serde_json::json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "config": config,
        "layers": [],
        "subject": subject,
        "annotations": {"note": text},
    }))
}

#[test]
fn a_referrer_has_little_text_for_a_store_to_keep() {
    for (len, good) in [(500, true), (16 * 1024, false), (3_000_000, false)] {
        let mut sample = Sample::empty();
        let image = sample.image(b"image", None);
        sample.add_image("ghcr.io/a/b:1", &image);
        let next = manifest_about(&mut sample, &image, &"x".repeat(len));
        sample.add_referrer("ghcr.io/a/b", &image.digest, &next);
        match good {
            true => drop(walk(&sample).unwrap()),
            false => assert!(matches!(faults(&sample)[..], [Fault::Annotations { .. }])),
        }
    }
}

#[test]
fn a_large_index_named_very_often_is_read_once() {
    let mut sample = Sample::empty();
    let image = sample.image(b"image", None);
    sample.add_image("ghcr.io/a/b:1", &image);
    // one child under many descriptors: what counts is the list of the index
    let children = vec![image.clone(); 10_000];
    let index = sample.index(&children);
    for n in 0..5_000u32 {
        let subject = Digest::sha256(n.to_le_bytes());
        sample.add_referrer("ghcr.io/a/b", &subject, &index);
        sample.head.referrers.last_mut().unwrap().subject = image.digest;
    }
    let mut reads = 0;
    let mut head = sample.head.clone();
    head.sort();
    let error = closure::<ClosureError>(&head, |blob| {
        reads += 1;
        Ok(sample.content[&blob.digest].clone())
    })
    .unwrap_err();
    assert_eq!(reads, 2);
    assert!(
        error
            .faults
            .iter()
            .any(|f| matches!(f, Fault::Referrers { .. }))
    );
}

fn chart_of(version: &str) -> Vec<u8> {
    let yaml = format!("apiVersion: v2\nname: web\nversion: {version}\n");
    tgz(&[("web/Chart.yaml", yaml.as_bytes())])
}

/// A provenance file that names these bytes.
fn signed_for(archive: &[u8]) -> String {
    format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nname: web\n\n...\nfiles:\n  \
         web.tgz: sha256:{}\n-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----\n",
        Digest::sha256(archive).hex()
    )
}

fn charts_of(sample: &Sample) -> Result<(), ClosureError> {
    let closure = walk(sample)?;
    charts(&sample.head, &closure, |digest, limit| {
        let bytes = &sample.content[digest];
        assert!(bytes.len() as u64 <= limit);
        Ok(bytes.clone())
    })
}

#[test]
fn a_classic_chart_has_the_manifest_of_its_archive() {
    let archive = chart_of("1.0.0+up1");
    for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
        let mut sample = Sample::empty();
        sample.classic_chart("https://c.example.com", "web", &archive, algorithm, None);
        charts_of(&sample).unwrap();
        let mut sample = Sample::empty();
        let signed = signed_for(&archive);
        let file = Some(signed.as_bytes());
        sample.classic_chart("https://c.example.com", "web", &archive, algorithm, file);
        charts_of(&sample).unwrap();
        // named by its manifest, it has to be there
        let file = Digest::sha256(&signed);
        sample.head.blobs.retain(|blob| blob.digest != file);
        let error = charts_of(&sample).unwrap_err();
        assert!(
            matches!(error.faults[..], [Fault::Missing { digest, .. }] if digest == file),
            "{error}"
        );
    }
    // the right archive in a manifest of somebody's own
    let mut sample = Sample::empty();
    sample.chart("https://charts.example.com", "web", &archive);
    walk(&sample).unwrap();
    let error = charts_of(&sample).unwrap_err();
    assert!(matches!(error.faults[..], [Fault::Chart { .. }]), "{error}");
}

#[test]
fn a_provenance_file_is_small_signed_and_not_for_other_bytes() {
    let archive = chart_of("1.0.0+up1");
    let large = vec![b' '; usize::try_from(MAX_PROVENANCE).unwrap() + 1];
    let nothing = signed_for(b"").replace("sha256:", "sha1:");
    for (file, classic, pushed) in [
        (signed_for(&archive).into_bytes(), None, None),
        (nothing.into_bytes(), None, None),
        (
            signed_for(b"other").into_bytes(),
            Some("signed for other bytes"),
            Some("signed for other bytes"),
        ),
        (b"<html>".to_vec(), Some("no signed text"), None),
        (large, Some("is larger than"), Some("is larger than")),
    ] {
        let mut one = Sample::empty();
        let algorithm = Algorithm::Sha512;
        one.classic_chart(
            "https://c.example.com",
            "web",
            &archive,
            algorithm,
            Some(&file),
        );
        let mut two = Sample::empty();
        let layer = (media_type::HELM_PROVENANCE, &file[..]);
        two.chart_with("oci://r.example.com", "web", &archive, false, layer);
        for (sample, want) in [(one, classic), (two, pushed)] {
            match (charts_of(&sample), want) {
                (Ok(()), None) => {}
                (Err(error), Some(want)) => {
                    assert!(matches!(error.faults[..], [Fault::Chart { .. }]), "{error}");
                    assert!(error.to_string().contains(want), "{error}");
                }
                (other, want) => panic!("{other:?}, not {want:?}"),
            }
        }
    }
}

#[test]
fn a_chart_of_a_registry_says_in_its_config_what_its_archive_is() {
    let mut sample = Sample::empty();
    sample.chart("oci://registry.example.com", "web", &chart_of("1.0.0+up1"));
    charts_of(&sample).unwrap();
    let mut sample = Sample::empty();
    sample.chart("oci://registry.example.com", "web", &chart_of("0.9.0"));
    let error = charts_of(&sample).unwrap_err();
    assert!(error.to_string().contains("0.9.0"), "{error}");
}

#[test]
fn a_chart_has_no_second_archive_for_another_reader() {
    let archive = chart_of("1.0.0+up1");
    for (kind, bytes) in [
        (media_type::HELM_CHART, &b"evil"[..]),
        ("application/tar+gzip", b"evil"),
        ("application/octet-stream", b"evil"),
    ] {
        for first in [true, false] {
            let mut sample = Sample::empty();
            sample.chart_with("oci://r.example.com", "web", &archive, first, (kind, bytes));
            let found = faults(&sample);
            assert!(
                matches!(found[..], [Fault::Chart { .. }]),
                "{kind}: {found:?}"
            );
        }
    }
}

#[test]
fn placements_say_where_everything_belongs() {
    let sample = Sample::new(0);
    let places = placements(&sample.head, &walk(&sample).unwrap()).unwrap();
    let names: Vec<&str> = places.iter().map(|p| p.repository.as_str()).collect();
    assert_eq!(
        names,
        [
            "charts.example.com/stable/web",
            "docker.io/library/plain",
            "ghcr.io/org/trees/web",
            "registry.example.com/web/app",
        ]
    );
    let tags: Vec<Vec<&str>> = places
        .iter()
        .map(|p| p.tags.keys().map(|tag| tag.as_str()).collect())
        .collect();
    assert_eq!(tags, [vec!["1.0.0_up1"], vec![], vec!["1.0.0"], vec!["1"]]);
    let app = &places[3];
    let image = &sample.head.images[1];
    assert_eq!(app.tags["1"].digest, image.manifest.digest);
    assert_eq!(app.manifests.len(), 5);
    let sbom = &sample
        .head
        .referrers
        .iter()
        .find(|r| r.subject == image.manifest.digest);
    let entry = &app.manifests[&sbom.unwrap().manifest.digest];
    assert_eq!(entry.subject.as_deref(), Some(&image.manifest.digest));
    assert_eq!(
        entry.artifact_type.as_deref(),
        Some("application/spdx+json")
    );
    assert_eq!(app.blobs[&Digest::sha256("sbom")], 4);
}

#[test]
fn two_locations_never_meet_in_one_place() {
    let mut sample = Sample::empty();
    let image = sample.image(b"image", None);
    sample.chart("https://ghcr.io/A", "b", b"archive");
    sample.add_image("ghcr.io/a/b:1", &image);
    let closure = walk(&sample).unwrap();
    let error = placements(&sample.head, &closure).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, PlacementError::Meet { .. }));
    assert!(text.contains("Helm chart ghcr.io/A/b"), "{text}");
    assert!(text.contains("repository ghcr.io/a/b"), "{text}");
}

#[test]
fn one_tag_never_points_at_two_manifests() {
    let mut sample = Sample::empty();
    for content in [b"one", b"two"] {
        let image = sample.image(content, None);
        sample.add_image("ghcr.io/a/b:1", &image);
    }
    let closure = walk(&sample).unwrap();
    let error = placements(&sample.head, &closure).unwrap_err();
    assert!(matches!(error, PlacementError::Tag { .. }));
    for image in &sample.head.images {
        assert!(
            error
                .to_string()
                .contains(&image.manifest.digest.to_string())
        );
    }
}
