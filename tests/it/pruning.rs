//! What old imports brought goes, and nothing else does.

use kubepkg_test_support::image::{cosign_signature, cosign_tag};
use kubepkg_test_support::{Chart, Image, ImageBuilder, Package};

use crate::command::{Run, Scratch};
use crate::publisher::{Publisher, hours_ago};
use crate::served::{Mirror, get};

const KEY: [&str; 2] = ["--public-key", "release.pub"];

fn mirror(scratch: &Scratch, verb: &str, more: &[&str]) -> Run {
    scratch.run(&[&["mirror", verb, "--store", "m"], more].concat())
}

fn prune(scratch: &Scratch, more: &[&str]) -> Run {
    mirror(scratch, "prune", &[&["--keep-imports", "1"], more].concat())
}

/// Makes a bundle of these packages and imports it.
fn import(publisher: &Publisher, packages: &[&str]) {
    let bundle = publisher.scratch.path("site.tar");
    if bundle.exists() {
        std::fs::remove_file(bundle).unwrap();
    }
    publisher.create(packages).ok();
    let call = ["bundle", "import", "site.tar", "--store", "m"];
    publisher.scratch.run(&[&call[..], &KEY].concat()).ok();
}

/// Three imports: `web` 1.0.0 with `tool` and a chart, `web` 2.0.0, `web` 3.0.0 with `tool`.
struct Site {
    publisher: Publisher,
    web: [Image; 3],
    bare: Image,
}

impl Site {
    fn new() -> Site {
        let publisher = Publisher::new();
        let web = [1, 2, 3].map(|seed| ImageBuilder::new(seed).layers(2, 20_000).build());
        let bare = ImageBuilder::new(9).build();
        let mut packages = Vec::new();
        let references: Vec<String> = (["1.0", "2.0", "3.0"].iter().zip(&web))
            .map(|(tag, image)| publisher.image("web", tag, image))
            .collect();
        let signature = cosign_signature(b"signed");
        let tag = cosign_tag(&web[0].digest(), "sig");
        publisher.image("web", &tag, &signature);
        let chart = Chart::new("old", "1.2.3", "web:1.0");
        let charts = publisher.chart(&chart);
        for (version, reference) in ["1.0.0", "2.0.0", "3.0.0"].iter().zip(&references) {
            let package = Package::new("web", version).image(reference);
            packages.push(package);
        }
        packages.push(
            Package::new("old", "1.0.0")
                .chart(&charts, "old", "1.2.3", Some(chart.digest()))
                .image(&references[0]),
        );
        // by digest alone
        let pinned = publisher.image("tool", "x", &bare).replace(":x@", "@");
        packages.push(Package::new("tool", "1.0.0").image(&pinned));
        publisher.publish_at(&packages, hours_ago(10));
        import(&publisher, &["web@1.0.0", "old", "tool"]);
        import(&publisher, &["web@2.0.0"]);
        import(&publisher, &["web@3.0.0", "tool"]);
        Site {
            publisher,
            web,
            bare,
        }
    }

    fn name(&self, repository: &str) -> String {
        let host = self.publisher.upstream.host().replace(':', "_");
        format!("{host}/{repository}")
    }

    fn carried(&self, running: &Mirror) -> Vec<String> {
        let host = self.publisher.upstream.host().replace(':', "_");
        let list = running.json(&format!("/repositories/{host}/carried.json"));
        let packages = list["packages"].as_object().unwrap();
        let mut all = Vec::new();
        for (name, versions) in packages {
            for version in versions.as_array().unwrap() {
                all.push(format!("{name} {}", version["version"].as_str().unwrap()));
            }
        }
        all
    }
}

#[test]
fn what_only_old_imports_named_goes_and_the_rest_is_whole() {
    let site = Site::new();
    let scratch = &site.publisher.scratch;
    let (web, tool, old) = (site.name("web"), site.name("tool"), site.name("stable/old"));
    let pin = format!("{web}:2.0");
    mirror(scratch, "tag", &[&pin, "approved"]).ok();
    let running = Mirror::start(scratch, "m");
    let status = |name: &str, target: &str| {
        get(&running.host, &format!("/v2/{name}/manifests/{target}")).status
    };
    let signature = cosign_tag(&site.web[0].digest(), "sig");
    for (name, tag) in [(&web, "1.0"), (&web, &signature), (&old, "1.2.3")] {
        assert_eq!(status(name, tag), 200, "{name}:{tag}");
    }
    let index = |name: &str| {
        let host = site.publisher.upstream.host().replace(':', "_");
        running.body(&format!("/repositories/{host}/{name}"))
    };
    let before = (index("index.yaml"), index("index.yaml.sig"));

    prune(scratch, &[]).fails(2, "--dry-run");
    let plan = prune(scratch, &["--dry-run"]).ok();
    for line in [
        "package  web 1.0.0  goes  own ",
        "package  tool 1.0.0  stays  import 3 names it",
        &format!("image    {web}:1.0  goes  own "),
        &format!("image    {web}:3.0  stays  web 3.0.0, named by import 3"),
        &format!("image    {web}:approved  stays  was pushed or set here"),
        &format!("image    {tool}@{}  stays  tool 1.0.0", site.bare.digest()),
        &format!("image    {old}:1.2.3  goes  own "),
        "3 packages, 4 tags, ",
    ] {
        assert!(plan.stdout.contains(line), "no {line:?} in {}", plan.stdout);
    }
    assert_eq!(status(&web, "1.0"), 200);

    prune(scratch, &["--yes"]).ok().says("kubepkg mirror gc");
    for (name, tag, expected) in [
        (&web, "1.0", 404),
        (&web, &site.web[0].digest().to_string(), 404),
        (&web, &signature, 404),
        (&web, "2.0", 404),
        (&web, &site.web[1].digest().to_string(), 200),
        (&web, "approved", 200),
        (&web, "3.0", 200),
        (&tool, &site.bare.digest().to_string(), 200),
        (&old, "1.2.3", 404),
    ] {
        assert_eq!(status(name, tag), expected, "{name} {tag}");
    }
    for image in [&site.web[1], &site.web[2]] {
        for digest in image.content.blobs.keys() {
            running.body(&format!("/v2/{web}/blobs/{digest}"));
        }
    }
    assert_eq!(site.carried(&running), ["tool 1.0.0", "web 3.0.0"]);
    assert_eq!((index("index.yaml"), index("index.yaml.sig")), before);
    mirror(scratch, "check", &[]).ok();
    prune(scratch, &["--yes"]).ok().says("nothing to do");

    // going back is an import like any other
    import(&site.publisher, &["web@1.0.0"]);
    assert_eq!(status(&web, "1.0"), 200);
    assert_eq!(
        site.carried(&running),
        ["tool 1.0.0", "web 1.0.0", "web 3.0.0"]
    );
    mirror(scratch, "check", &[]).ok();
}
