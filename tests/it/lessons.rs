//! What hurt users of similar tools (`tests/lessons.md`): every promise there names a test that is
//! there, and here are those that have no better place.

use std::path::Path;

use kubepkg_test_support::image::index;
use kubepkg_test_support::{ImageBuilder, Package};

use crate::publisher::Publisher;

#[test]
fn every_lesson_names_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("tests/lessons.md")).unwrap();
    let mut lessons = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let inner = line.trim_start_matches("| ").trim_end_matches(" |");
        let [number, _, _, test] = inner.split(" |").map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("not four columns: {line}");
        };
        if number == "No." {
            continue;
        }
        assert!(number.parse::<u32>().is_ok(), "no number: {line}");
        let (file, name) = test.split_once(' ').expect(line);
        let source = std::fs::read_to_string(root.join(file)).expect(file);
        let there = match file.ends_with(".rs") {
            true => source.contains(&format!("fn {name}(")),
            // a script calls it as well
            false => source.contains(&format!("\n{name}() {{")) && source.matches(name).count() > 1,
        };
        assert!(there, "{file} has no test {name}");
        lessons += 1;
    }
    assert!(lessons > 30, "{lessons}");
}

#[test]
fn a_layer_of_two_images_is_fetched_and_packed_once() {
    let publisher = Publisher::new();
    let one = ImageBuilder::new(1).layers(2, 30_000).build();
    let other = ImageBuilder::new(2).layers(1, 20_000).build();
    // an image alone, and an index that has it beside another
    let both = index(&[one.clone(), other]);
    let images = [
        publisher.image("one", "1", &one),
        publisher.image("both", "1", &both),
    ];
    let package = Package::new("web", "1.0.0");
    let package = images
        .iter()
        .fold(package, |package, image| package.image(image));
    publisher.publish(&[package]);
    publisher.create(&["web"]).ok();
    for blob in both.blobs() {
        assert_eq!(
            publisher.upstream.count(&format!("/blobs/{blob}")),
            1,
            "{blob}"
        );
    }
    let file = std::fs::read(publisher.scratch.path("site.tar")).unwrap();
    for blob in both.blobs() {
        let bytes = &both.content.blobs[&blob];
        let found = file.windows(bytes.len()).filter(|part| part == bytes);
        assert_eq!(found.count(), 1, "{blob}");
    }
}

#[test]
fn an_image_takes_one_request_for_each_of_its_parts_and_for_each_way_things_are_attached() {
    let publisher = Publisher::new();
    let image = ImageBuilder::new(1).layers(3, 30_000).build();
    let web = publisher.image("web", "1", &image);
    publisher.publish(&[Package::new("web", "1.0.0").image(&web)]);
    publisher.create(&["web"]).ok();
    let asked = publisher.upstream.seen();
    let asked = asked.iter().filter(|seen| seen.path.starts_with("/v2/"));
    let mut asked: Vec<String> = asked
        .map(|seen| format!("{} {}", seen.method, seen.path))
        .collect();
    let digest = image.digest();
    let tag = format!("sha256-{}", digest.hex());
    let mut wanted = vec![
        format!("GET /v2/web/manifests/{digest}"),
        format!("GET /v2/web/referrers/{digest}"),
        format!("GET /v2/web/manifests/{tag}"),
    ];
    wanted.extend(
        ["sig", "att", "sbom"].map(|ending| format!("HEAD /v2/web/manifests/{tag}.{ending}")),
    );
    let blobs = image.blobs();
    wanted.extend(blobs.iter().map(|blob| format!("GET /v2/web/blobs/{blob}")));
    asked.sort();
    wanted.sort();
    assert_eq!(asked, wanted);
}
