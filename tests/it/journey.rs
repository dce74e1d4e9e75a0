//! The main job on loopback: index, create, inspect, verify, import, serve, node settings.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use kubepkg_test_support::image::{artifact, index};
use kubepkg_test_support::{Chart, Image, ImageBuilder, Package, Upstream};

use crate::command::{Scratch, signal};

const REPOSITORY: &str = "team/web";

/// An upstream with a chart, an image for two platforms and its SBOM; a signed index of a
/// package that pins them; the key to it.
struct World {
    scratch: Scratch,
    upstream: Upstream,
    image: Image,
}

impl World {
    fn new() -> World {
        let scratch = Scratch::new();
        let upstream = Upstream::start();
        let image = index(&[
            ImageBuilder::new(1).layers(2, 100_000).build(),
            ImageBuilder::new(2).platform("linux/arm64/v8").build(),
        ]);
        upstream.put_image(REPOSITORY, &["1"], &image);
        let sbom = artifact(
            &image.descriptor,
            "application/spdx+json",
            b"{\"spdxVersion\":\"x\"}",
        );
        upstream.put_image(REPOSITORY, &[], &sbom);
        let reference = format!("{}/{REPOSITORY}:1@{}", upstream.host(), image.digest());
        let chart = Chart::new("web", "1.0.0", &reference);
        upstream.put_charts("/charts", std::slice::from_ref(&chart));
        let package = Package::new("web", "1.0.0")
            .chart(&upstream.url("/charts"), "web", "1.0.0", None)
            .image(&reference);
        scratch.write("packages/web.yaml", package.to_yaml());
        scratch.run(&["repo", "keygen", "release"]).ok();
        scratch
            .run(&["repo", "index", "packages", "--sign-key", "release.key"])
            .ok();
        World {
            scratch,
            upstream,
            image,
        }
    }

    fn create(&self) {
        self.scratch
            .run(&[
                "bundle",
                "create",
                "web",
                "-o",
                "site.tar",
                "--repo",
                "index.yaml",
                "--public-key",
                "release.pub",
            ])
            .ok();
    }

    fn import(&self) {
        self.scratch
            .run(&[
                "bundle",
                "import",
                "site.tar",
                "--store",
                "store",
                "--public-key",
                "release.pub",
            ])
            .ok();
    }
}

/// A server on the store, and where it listens.
fn serve(scratch: &Scratch) -> (Child, String) {
    let mut child = scratch
        .command(&[
            "mirror",
            "serve",
            "--store",
            "store",
            "--listen",
            "127.0.0.1:0",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let address = line.trim().rsplit("http://").next().unwrap().to_owned();
    // keeps the pipe open and drained
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    (child, address)
}

fn get(address: &str, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head, answer[end + 4..].to_vec())
}

#[test]
fn from_a_signed_index_to_a_served_image() {
    let world = World::new();
    world.create();
    let host = world.upstream.host();
    let World {
        scratch,
        upstream,
        image,
    } = world;
    // the upstream is not needed any more
    drop(upstream);
    let run = scratch.run(&["bundle", "inspect", "site.tar"]).ok();
    assert!(run.stdout.contains("web"), "{}", run.stdout);
    assert!(
        scratch
            .run(&["bundle", "inspect", "site.tar", "-o", "json"])
            .ok()
            .json()
            .is_object()
    );
    scratch
        .run(&[
            "bundle",
            "verify",
            "site.tar",
            "--public-key",
            "release.pub",
        ])
        .ok();
    let world = World {
        scratch,
        upstream: Upstream::start(),
        image,
    };
    world.import();
    let again = world.scratch.run(&[
        "bundle",
        "import",
        "site.tar",
        "--store",
        "store",
        "--public-key",
        "release.pub",
        "-o",
        "json",
    ]);
    assert!(
        again.ok().json()["commit"].is_null(),
        "a second import does nothing"
    );

    let mirrored = host.replace(':', "_");
    let (mut server, address) = serve(&world.scratch);
    let path = format!(
        "/v2/{mirrored}/{REPOSITORY}/manifests/{}",
        world.image.digest()
    );
    let (head, body) = get(&address, &path);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, world.image.manifest().to_vec());
    signal(&server, "TERM");
    assert_eq!(
        server.wait().unwrap().code(),
        Some(0),
        "stopping a server is no failure"
    );

    let call = [
        "node-config",
        "containerd",
        "--store",
        "store",
        "--mirror",
        "http://10.0.0.5:5000",
        "-o",
        "certs.d",
    ];
    world.scratch.run(&call).ok().says("wrote certs.d/");
    world
        .scratch
        .run(&call)
        .ok()
        .says("there already and right");
    let bundle = [
        "node-config",
        "talos",
        "site.tar",
        "--mirror",
        "http://10.0.0.5:5000",
        "-o",
        "talos",
    ];
    world.scratch.run(&bundle).ok();
    assert!(
        world
            .scratch
            .read("talos/registry-mirrors.yaml")
            .contains(&host)
    );
}

#[test]
fn another_key_is_refused_and_nothing_changes() {
    let world = World::new();
    world.create();
    let scratch = &world.scratch;
    scratch.run(&["repo", "keygen", "other"]).ok();
    scratch
        .run(&["bundle", "verify", "site.tar", "--public-key", "other.pub"])
        .fails(3, "error:");
    scratch
        .run(&[
            "bundle",
            "import",
            "site.tar",
            "--store",
            "store",
            "--public-key",
            "other.pub",
        ])
        .fails(3, "error:");
    scratch
        .run(&[
            "node-config",
            "containerd",
            "--store",
            "store",
            "--mirror",
            "http://m:5000",
            "-o",
            "certs.d",
        ])
        .fails(4, "there is no store here");
    assert!(!scratch.path("certs.d").exists());
}

#[test]
fn a_server_says_at_once_what_keeps_it_from_serving() {
    let scratch = Scratch::new();
    scratch.write("store", "not a folder");
    scratch
        .run(&[
            "mirror",
            "serve",
            "--store",
            "store",
            "--listen",
            "127.0.0.1:0",
        ])
        .fails(1, "store");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    scratch
        .run(&["mirror", "serve", "--store", "fresh", "--listen", &address])
        .fails(1, "cannot listen")
        .says(&format!("where: {address}"));
    scratch
        .run(&["mirror", "serve", "--store", "fresh", "--listen", "here"])
        .fails(2, "--listen");
}
