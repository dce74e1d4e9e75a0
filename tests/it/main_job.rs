//! The main job from the first key to the last byte: a publisher signs an index, a bundle is
//! made of it, carried over, checked, imported and served, and everything the mirror answers
//! is what the upstream would have answered.

use kubepkg_core::Algorithm;
use kubepkg_test_support::image::{artifact, cosign_signature, cosign_tag, docker_list, index};
use kubepkg_test_support::{Chart, Content, Image, ImageBuilder, Package, Upstream};

use crate::command::{Run, Scratch};
use crate::served::Mirror;

const SBOM: &str = "application/spdx+json";

/// Two registries, one of them without referrers API, and a publisher with three packages.
struct Site {
    scratch: Scratch,
    upstream: Upstream,
    legacy: Upstream,
    /// Every repository whose content must travel: its mirror location and what it holds.
    content: Vec<(String, Content)>,
    /// Tags that must travel: repository in the mirror, tag, image.
    tags: Vec<(String, String, Image)>,
    /// Referrers: repository in the mirror, subject, referrer.
    referrers: Vec<(String, Image, Image)>,
    classic: Chart,
    in_registry: Chart,
}

/// `127.0.0.1:5000` as a path element of a mirror.
fn element(host: &str) -> String {
    host.replace(':', "_")
}

impl Site {
    fn new() -> Site {
        let legacy = Upstream::start();
        legacy.referrers_api(false);
        let mut site = Site {
            scratch: Scratch::new(),
            upstream: Upstream::start(),
            legacy,
            content: Vec::new(),
            tags: Vec::new(),
            referrers: Vec::new(),
            classic: Chart::new("web", "1.2.3", "web:1.2"),
            in_registry: Chart::new("db", "2.0.0+up1", "db:2"),
        };
        let web = site.web();
        let db = site.db();
        let old = site.old();
        for (file, package) in [("web.yaml", &web), ("deep/db.yml", &db), ("old.yaml", &old)] {
            site.scratch
                .write(&format!("packages/{file}"), package.to_yaml());
        }
        site
    }

    fn at(&self, repository: &str) -> String {
        format!("{}/{repository}", element(&self.upstream.host()))
    }

    /// Puts an image upstream and notes that it must travel. Gives its reference.
    fn image(&mut self, repository: &str, tag: Option<&str>, image: &Image) -> String {
        self.upstream.put_image(repository, tag.as_slice(), image);
        let place = self.at(repository);
        self.content.push((place.clone(), image.content.clone()));
        let mut reference = format!("{}/{repository}", self.upstream.host());
        if let Some(tag) = tag {
            reference.push_str(&format!(":{tag}"));
            self.tags.push((place, tag.to_owned(), image.clone()));
        }
        format!("{reference}@{}", image.digest())
    }

    /// Charts of a Helm repository without a digest, and images of every form.
    fn web(&mut self) -> Package {
        self.upstream
            .put_charts("/Stable", std::slice::from_ref(&self.classic));
        let amd = ImageBuilder::new(10).layers(2, 70_000).build();
        let arm = ImageBuilder::new(11).platform("linux/arm64/v8").build();
        let both = index(&[amd.clone(), arm]);
        let image = self.image("apps/web", Some("1.2"), &both);
        // about the index, and about one image in it; and a signature of the list of contents
        for (about, payload) in [(&both, "all"), (&amd, "amd")] {
            let sbom = artifact(&about.descriptor, SBOM, payload.as_bytes());
            self.image("apps/web", None, &sbom);
            let signature = artifact(&sbom.descriptor, "application/x-signature", b"s");
            self.image("apps/web", None, &signature);
            let place = self.at("apps/web");
            self.referrers
                .push((place.clone(), about.clone(), sbom.clone()));
            self.referrers.push((place, sbom, signature));
        }
        let signature = cosign_signature(b"signed");
        let tag = cosign_tag(&both.digest(), "sig");
        self.image("apps/web", Some(&tag), &signature);

        let docker = ImageBuilder::new(12).docker().build();
        let list = docker_list(&[docker, ImageBuilder::new(13).docker().build()]);
        let list = self.image("apps/docker", Some("v1"), &list);
        let long = ImageBuilder::new(14).algorithm(Algorithm::Sha512).build();
        let long = self.image("apps/sha512", Some("v1"), &long);
        let bare = self.image("apps/bare", None, &ImageBuilder::new(15).build());
        Package::new("web", "1.2.3")
            .build(2)
            .chart(&self.upstream.url("/Stable"), "web", "1.2.3", None)
            .image(&image)
            .image(&list)
            .image(&long)
            .image(&bare)
            .requires("db", ">=1")
    }

    /// A chart in a registry, a package tree, and an index of indexes.
    fn db(&mut self) -> Package {
        let chart = self.in_registry.image();
        self.image("charts/db", Some("2.0.0_up1"), &chart);
        let tree = Image {
            ..Chart::new("tree", "1.0.0", "none").image()
        };
        let tree = self.image("trees/db", None, &tree);
        let inner = index(&[ImageBuilder::new(20).build(), ImageBuilder::new(21).build()]);
        let outer = index(&[inner, ImageBuilder::new(22).platform("linux/s390x").build()]);
        let image = self.image("apps/db", Some("2"), &outer);
        let charts = format!("oci://{}/charts", self.upstream.host());
        Package::new("db", "2.0.0")
            .chart(&charts, "db", "2.0.0+up1", None)
            .tree(&format!("oci://{tree}"), "migrations")
            .image(&image)
            .requires("old", "")
    }

    /// An image in a registry that knows referrers by tag only.
    fn old(&mut self) -> Package {
        let image = ImageBuilder::new(30).build();
        let sbom = artifact(&image.descriptor, SBOM, b"old");
        self.legacy.put_image("app", &["1"], &image);
        self.legacy.put_image("app", &[], &sbom);
        let tag = image.digest().to_string().replace(':', "-");
        self.legacy
            .put_image("app", &[&tag], &index(std::slice::from_ref(&sbom)));
        let place = format!("{}/app", element(&self.legacy.host()));
        self.content.push((place.clone(), image.content.clone()));
        self.content.push((place.clone(), sbom.content.clone()));
        let reference = format!("{}/app:1@{}", self.legacy.host(), image.digest());
        self.tags
            .push((place.clone(), "1".to_owned(), image.clone()));
        self.referrers.push((place, image, sbom));
        Package::new("old", "0.1.0").image(&reference)
    }

    /// `keygen`, `repo index`, and both files put upstream.
    fn publish(&self) {
        self.scratch.run(&["repo", "keygen", "release"]).ok();
        let call = ["repo", "index", "packages", "--sign-key", "release.key"];
        let run = self.scratch.run(&call).ok();
        let run = run.says("pinned web 1.2.3 at sha256:");
        run.says("3 packages, 3 versions, 2 charts pinned");
        for file in ["index.yaml", "index.yaml.sig"] {
            self.upstream
                .put_file(&format!("/repo/{file}"), self.scratch.read(file));
        }
    }

    fn create(&self, output: &str, flags: &[&str]) -> Run {
        let repo = self.upstream.url("/repo/index.yaml");
        let call = ["bundle", "create", "web", "-o", output, "--repo", &repo];
        let key = ["--public-key", "release.pub"];
        self.scratch.run(&[&call[..], &key, flags].concat())
    }

    fn import(&self, file: &str) -> Run {
        let call = ["bundle", "import", file, "--store", "mirror"];
        self.scratch
            .run(&[&call[..], &["--public-key", "release.pub"]].concat())
            .ok()
    }

    fn bytes(&self, file: &str) -> Vec<u8> {
        std::fs::read(self.scratch.path(file)).unwrap()
    }
}

#[test]
fn from_the_first_key_to_the_last_byte() {
    let site = Site::new();
    site.publish();
    let created = site.create("site.tar", &[]).ok();
    for line in ["web", "required by web 1.2.3", "required by db 2.0.0"] {
        assert!(created.stdout.contains(line), "{}", created.stdout);
    }
    site.create("again.tar", &[]).ok();
    assert!(
        site.bytes("site.tar") == site.bytes("again.tar"),
        "the same inputs gave different files"
    );

    inspect(&site);
    let verify = [
        "bundle",
        "verify",
        "site.tar",
        "--public-key",
        "release.pub",
    ];
    let verified = site.scratch.run(&verify).ok();
    assert!(verified.stdout.contains("is whole and trusted"));

    let first = site.import("site.tar");
    assert!(first.stdout.contains("as commit 1"), "{}", first.stdout);
    let second = site.import("site.tar");
    assert!(
        second.stdout.contains("nothing was changed"),
        "{}",
        second.stdout
    );

    let mirror = Mirror::start(&site.scratch, "mirror");
    everything_is_as_upstream(&site, &mirror);
    charts(&site, &mirror);
    repository_files(&site, &mirror);
    node_config(&site);

    // a mirror is as good a source as the upstream, which is gone now
    let Site {
        scratch,
        upstream,
        legacy,
        ..
    } = site;
    let repo = upstream.url("/repo/index.yaml");
    drop((upstream, legacy));
    let call = ["bundle", "create", "web", "-o", "second.tar", "--repo"];
    let through = [&repo, "--public-key", "release.pub", "--mirror"];
    scratch
        .run(&[&call[..], &through, &[&mirror.url("")]].concat())
        .ok();
    let read = |file| std::fs::read(scratch.path(file)).unwrap();
    assert!(
        read("site.tar") == read("second.tar"),
        "the bundle made through the mirror is another one"
    );
    let (code, last) = mirror.stop();
    assert_eq!(code, Some(0), "{last:?}");
}

fn inspect(site: &Site) {
    let table = site.scratch.run(&["bundle", "inspect", "site.tar"]).ok();
    let host = site.upstream.host();
    for part in [
        "1.2.3 build 2".to_owned(),
        format!("{host}/apps/web:1.2"),
        "linux/amd64,linux/arm64/v8".to_owned(),
        format!("{host}/apps/bare@sha256:"),
        format!("{host}/trees/db@sha256:"),
        "3 packages, 2 charts, 1 package tree, 6 images".to_owned(),
    ] {
        assert!(
            table.stdout.contains(&part),
            "no {part} in {}",
            table.stdout
        );
    }
    let call = ["bundle", "inspect", "site.tar", "-o", "json"];
    let json = site.scratch.run(&call).ok().json();
    assert_eq!(
        json["size"].as_u64().unwrap(),
        site.bytes("site.tar").len() as u64
    );
    assert_eq!(json["head"]["packages"][2]["name"], "web");
    // two lists of contents with a signature each, cosign's, and the one found by tag
    assert_eq!(json["head"]["referrers"].as_array().unwrap().len(), 6);
}

fn everything_is_as_upstream(site: &Site, mirror: &Mirror) {
    for (repository, content) in &site.content {
        for (digest, (media_type, bytes)) in &content.manifests {
            let path = format!("/v2/{repository}/manifests/{digest}");
            assert!(mirror.body(&path) == *bytes, "{path}");
            assert_eq!(
                mirror.get(&path).header("content-type"),
                Some(&**media_type)
            );
        }
        for (digest, bytes) in &content.blobs {
            let path = format!("/v2/{repository}/blobs/{digest}");
            assert!(mirror.body(&path) == *bytes, "{path}");
        }
    }
    for (repository, tag, image) in &site.tags {
        let path = format!("/v2/{repository}/manifests/{tag}");
        assert!(mirror.body(&path) == image.manifest(), "{path}");
        let listed = mirror.json(&format!("/v2/{repository}/tags/list"));
        let tags = listed["tags"].as_array().unwrap();
        assert!(tags.iter().any(|t| t == tag.as_str()), "{listed}");
    }
    for (repository, subject, referrer) in &site.referrers {
        let list = mirror.json(&format!("/v2/{repository}/referrers/{}", subject.digest()));
        let manifests = list["manifests"].as_array().unwrap();
        assert_eq!(manifests.len(), 1, "{list}");
        let digest = referrer.digest().to_string();
        assert_eq!(manifests[0]["digest"], *digest, "{list}");
    }
    let bare = mirror.json(&format!("/v2/{}/tags/list", site.at("apps/bare")));
    assert_eq!(bare["tags"].as_array().map_or(0, Vec::len), 0, "{bare}");
}

fn charts(site: &Site, mirror: &Mirror) {
    let host = element(&site.upstream.host());
    for (folder, chart) in [("Stable", &site.classic), ("charts", &site.in_registry)] {
        let index = mirror.body(&format!("/charts/{host}/{folder}/index.yaml"));
        let index = String::from_utf8(index).unwrap();
        assert!(index.contains(&chart.file_name()), "{index}");
        assert!(index.contains(&chart.digest().hex()), "{index}");
        let archive = mirror.body(&format!("/charts/{host}/{folder}/{}", chart.file_name()));
        assert!(archive == chart.archive, "{folder}");
    }
    // the classic one is a chart in a registry now, with its archive as the only layer
    let manifest = mirror.json(&format!("/v2/{host}/stable/web/manifests/1.2.3"));
    let digest = site.classic.digest().to_string();
    assert_eq!(manifest["layers"][0]["digest"], *digest);
}

fn repository_files(site: &Site, mirror: &Mirror) {
    let folder = format!("/repositories/{}/repo", element(&site.upstream.host()));
    for file in ["index.yaml", "index.yaml.sig"] {
        let served = mirror.body(&format!("{folder}/{file}"));
        assert!(served == site.bytes(file), "{file}");
    }
    let carried = mirror.json(&format!("{folder}/carried.json"));
    let url = site.upstream.url("/repo/index.yaml");
    assert_eq!(carried["repository"], *url);
    let packages = carried["packages"].as_object().unwrap();
    let names: Vec<&String> = packages.keys().collect();
    assert_eq!(names, ["db", "old", "web"]);
    assert_eq!(packages["web"][0]["version"], "1.2.3");
    assert_eq!(packages["web"][0]["build"], 2);
}

fn node_config(site: &Site) {
    let mirror = ["--mirror", "http://10.0.0.5:5000", "-o"];
    let from_store = ["--store", "mirror"];
    for (from, folder) in [(&from_store[..], "certs.d"), (&["site.tar"], "certs2.d")] {
        let call = [&["node-config", "containerd"], from, &mirror, &[folder]].concat();
        site.scratch.run(&call).ok();
        for host in [site.upstream.host(), site.legacy.host()] {
            let hosts = format!("{folder}/{}_/hosts.toml", element(&host));
            let hosts = site.scratch.read(&hosts);
            let server = format!("server = \"http://10.0.0.5:5000/v2/{}\"", element(&host));
            assert!(hosts.contains(&server), "{hosts}");
        }
        site.scratch.run(&call).ok().says("there already and right");
    }
    let call = [
        &["node-config", "talos"][..],
        &from_store,
        &mirror,
        &["talos"],
    ]
    .concat();
    site.scratch.run(&call).ok();
    let patch = site.scratch.read("talos/registry-mirrors.yaml");
    assert!(patch.contains(&site.upstream.host()), "{patch}");
}
