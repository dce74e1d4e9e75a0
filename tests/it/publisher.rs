//! The connected side: an upstream with a signed index, and a folder to make bundles in.

use kubepkg_core::keys::PrivateKey;
use kubepkg_core::time::Time;
use kubepkg_test_support::package::{index, sign};
use kubepkg_test_support::{Chart, Image, ImageBuilder, Package, Upstream};

use crate::command::{Run, Scratch};

/// The upstream of a publisher, and the folder of one who makes bundles from it.
pub struct Publisher {
    pub upstream: Upstream,
    pub scratch: Scratch,
    pub key: PrivateKey,
}

/// So many hours before now: when an index was made.
pub fn hours_ago(hours: i64) -> Time {
    Time::now().plus(-3600 * hours)
}

impl Publisher {
    /// An empty upstream, and `release.pub`, the key its indexes will be signed with.
    pub fn new() -> Publisher {
        let publisher = Publisher {
            upstream: Upstream::start(),
            scratch: Scratch::new(),
            key: PrivateKey::generate().unwrap(),
        };
        let public = publisher.key.public().unwrap().to_pem();
        publisher.scratch.write("release.pub", public);
        publisher
    }

    /// With `web 1.0.0`, which runs one image with one layer.
    pub fn of_web() -> (Publisher, Image) {
        let publisher = Publisher::new();
        let image = ImageBuilder::new(1).layers(1, 20_000).build();
        let web = publisher.image("web", "1.0", &image);
        publisher.publish(&[Package::new("web", "1.0.0").image(&web)]);
        (publisher, image)
    }

    /// URL of the index.
    pub fn repo(&self) -> String {
        self.upstream.url("/index.yaml")
    }

    /// Signs an index of `packages`, made ten hours ago, and serves both.
    pub fn publish(&self, packages: &[Package]) {
        self.publish_at(packages, hours_ago(10));
    }

    /// Signs an index of `packages`, made at `generated`, and serves both.
    pub fn publish_at(&self, packages: &[Package], generated: Time) {
        self.publish_text(&index(packages, generated, None));
    }

    /// Signs this text and serves both as the index.
    pub fn publish_text(&self, text: &[u8]) {
        self.upstream
            .put_file("/index.yaml.sig", sign(text, &self.key));
        self.upstream.put_file("/index.yaml", text.to_vec());
    }

    /// Puts an image there and gives its reference with tag and digest.
    pub fn image(&self, repository: &str, tag: &str, image: &Image) -> String {
        self.upstream.put_image(repository, &[tag], image);
        format!(
            "{}/{repository}:{tag}@{}",
            self.upstream.host(),
            image.digest()
        )
    }

    /// Serves a chart in the classic repository `/stable` and gives that repository's URL.
    pub fn chart(&self, chart: &Chart) -> String {
        self.upstream
            .put_charts("/stable", std::slice::from_ref(chart));
        self.upstream.url("/stable")
    }

    /// `bundle create <flags> -o site.tar`, with this repository and its key.
    pub fn create(&self, flags: &[&str]) -> Run {
        let repo = self.repo();
        let mut call = vec!["bundle", "create", "-o", "site.tar", "--repo", &repo];
        call.extend(["--public-key", "release.pub", "--no-progress"]);
        call.extend(flags);
        self.scratch.run(&call)
    }

    /// `bundle create <flags>` fails like this and leaves nothing behind.
    #[track_caller]
    pub fn refuses(&self, flags: &[&str], code: i32, text: &str) -> Run {
        let before = self.scratch.names();
        let run = self.create(flags).fails(code, text);
        assert_eq!(self.scratch.names(), before, "something was left behind");
        run
    }

    /// The head of `site.tar`.
    pub fn head(&self) -> serde_json::Value {
        let call = ["bundle", "inspect", "site.tar", "-o", "json"];
        self.scratch.run(&call).ok().json()["head"].clone()
    }

    /// Names of the packages in `site.tar`.
    pub fn carried(&self) -> Vec<String> {
        let head = self.head();
        let packages = head["packages"].as_array().unwrap();
        let name = |package: &serde_json::Value| package["name"].as_str().unwrap().to_owned();
        packages.iter().map(name).collect()
    }
}
