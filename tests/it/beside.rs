//! Bundles of what belongs to no package: images, charts and files somebody names. Made, carried
//! over and served; and never without somebody's word.

use kubepkg_core::descriptor::media_type;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::{Algorithm, Digest};
use kubepkg_test_support::image::{artifact, cosign_signature, cosign_tag, docker_list, index};
use kubepkg_test_support::{Chart, Content, Image, ImageBuilder, Upstream};

use crate::maker::Maker;
use crate::publisher::Publisher;
use crate::served::Mirror;

fn small(seed: u64) -> Image {
    ImageBuilder::new(seed).layers(1, 2_000).build()
}

// Complaints 11, 12, 13, 15 and 16: digest only, two digests of one repository, one path in two
// registries, tag and digest; and whoever asks by tag finds it.
#[test]
fn every_form_of_a_reference_arrives() {
    let maker = Maker::new();
    let other = Upstream::start();
    let images: Vec<Image> = (1..=5).map(small).collect();
    let web = maker.image("team/web", &["1", "2"], &images[0]);
    for image in &images[1..4] {
        maker.image("team/web", &[], image);
    }
    maker.image("team/web", &["3"], &images[3]);
    other.put_image("team/web", &["1"], &images[4]);
    let digest = |n: usize| images[n].digest().to_string();
    let by_tag = format!("{web}:1");
    let by_digest = format!("{web}@{}", digest(1));
    let second = format!("{web}@{}", digest(2));
    let both = format!("{web}:3@{}", digest(3));
    let elsewhere = format!("{}/team/web:1", other.host());
    let mut call = Vec::new();
    for reference in [&by_tag, &by_digest, &second, &both, &elsewhere] {
        call.extend(["--image", reference]);
    }
    maker.create(&call).ok().says("no package vouches");
    maker
        .import_on_its_word()
        .says("5 images belong to no package and are taken on the bundle's word");
    let mirror = maker.serve();
    let place = maker.place("team/web");
    let elsewhere = place.replace(
        &maker.upstream.host().replace(':', "_"),
        &other.host().replace(':', "_"),
    );
    for (path, image) in [
        (format!("{place}manifests/1"), 0),
        (format!("{place}manifests/3"), 3),
        (format!("{place}manifests/{}", digest(1)), 1),
        (format!("{place}manifests/{}", digest(2)), 2),
        (format!("{place}manifests/{}", digest(3)), 3),
        (format!("{elsewhere}manifests/1"), 4),
    ] {
        assert!(mirror.body(&path) == images[image].manifest(), "{path}");
    }
    // a tag that was not asked for is not there
    assert_eq!(mirror.get(&format!("{place}manifests/2")).status, 404);
    // a second run changes nothing
    maker.import(&["--allow-unpinned-images"]).ok();
    let second = maker.import(&["--allow-unpinned-images"]).ok();
    assert!(
        second.stdout.contains("nothing was changed"),
        "{}",
        second.stdout
    );
}

#[test]
fn each_manifest_of_a_single_image_is_asked_for_once() {
    let maker = Maker::new();
    let image = ImageBuilder::new(1).layers(5, 1_000).build();
    let web = maker.image("web", &["1"], &image);
    maker.create(&["--image", &format!("{web}:1")]).ok();
    assert_eq!(maker.upstream.count("/manifests/1"), 1);
    let by_digest = format!("/manifests/{}", image.digest());
    assert_eq!(maker.upstream.count(&by_digest), 0);
    // one manifest, the blobs, and the three places where something could be attached
    let blobs = maker.upstream.count("/blobs/");
    assert_eq!(blobs, image.blobs().len());
    let attached = maker.upstream.seen().len() - 1 - blobs;
    assert!(attached <= 5, "{:?}", maker.upstream.seen());
}

#[test]
fn a_tag_that_moved_is_told_and_the_digest_decides() {
    let maker = Maker::new();
    let (old, new) = (small(1), small(2));
    let web = maker.image("web", &[], &old);
    maker.image("web", &["1"], &new);
    let pinned = format!("{web}:1@{}", old.digest());
    maker
        .create(&["--image", &pinned])
        .ok()
        .says("has moved")
        .says(&new.digest().to_string());
    maker.import_on_its_word();
    let mirror = maker.serve();
    let path = format!("{}manifests/1", maker.place("web"));
    assert!(mirror.body(&path) == old.manifest());
    // a tag that is gone
    let gone = format!("{web}:0.9@{}", old.digest());
    maker
        .create(&["--image", &gone])
        .ok()
        .says("there is no tag");
}

#[test]
fn nothing_comes_in_without_somebodys_word() {
    let maker = Maker::new();
    let web = maker.image("web", &["1"], &small(1));
    maker.create(&["--image", &format!("{web}:1")]).ok();
    maker.key("site");
    maker.key("other");
    let says = "belong to no package, so nobody vouches";
    // the flag for keys of repositories checks nothing here
    maker
        .import(&["--public-key", "site.pub"])
        .fails(2, "check nothing");
    let both = ["--public-key", "site.pub", "--allow-unpinned-images"];
    maker.import(&both).fails(2, "check nothing");
    maker.import(&[]).fails(2, "no key given");
    maker
        .import(&["--bundle-key", "site.pub"])
        .fails(3, "nobody has signed it");
    assert!(
        !maker.scratch.path("store").exists(),
        "a refused bundle made a store"
    );
    maker.import_on_its_word();
    // into a store that is there, without any word
    maker.import(&[]).fails(3, says);

    let sign = |key: &str| {
        maker
            .scratch
            .run(&["bundle", "sign", "site.tar", "--sign-key", key])
    };
    sign("site.key").ok();
    let before = std::fs::read(maker.scratch.path("site.tar")).unwrap();
    sign("site.key").ok();
    assert!(before == std::fs::read(maker.scratch.path("site.tar")).unwrap());
    maker
        .import(&["--bundle-key", "other.pub"])
        .fails(3, "signed by none of the keys given with --bundle-key");
    maker.import(&["--bundle-key", "site.pub"]).ok();
    let verify = |key: &str| {
        let call = ["bundle", "verify", "site.tar", "--bundle-key", key];
        maker.scratch.run(&call)
    };
    let verified = verify("site.pub").ok();
    assert!(
        verified.stdout.contains("signed by a key given for it"),
        "{}",
        verified.stdout
    );
    verify("other.pub").fails(3, "signed by none");
}

#[test]
fn a_bundle_is_signed_while_it_is_made() {
    let maker = Maker::new();
    let web = maker.image("web", &["1"], &small(1));
    maker.key("site");
    maker.key("other");
    let image = format!("{web}:1");
    let file = maker.scratch.path("site.tar");
    let flags = ["--image", &image, "--sign-key", "site.key"];
    let made = maker.create(&flags).ok();
    assert!(made.stdout.contains("signed by"), "{}", made.stdout);
    made.says("--bundle-key");
    let signed = std::fs::read(&file).unwrap();
    // the same bytes as signed afterwards
    maker.create(&["--image", &image]).ok();
    assert!(signed != std::fs::read(&file).unwrap());
    let call = ["bundle", "sign", "site.tar", "--sign-key", "site.key"];
    maker.scratch.run(&call).ok();
    assert!(signed == std::fs::read(&file).unwrap());
    std::fs::write(&file, signed).unwrap();
    maker
        .import(&["--bundle-key", "other.pub"])
        .fails(3, "signed by none of the keys given with --bundle-key");
    maker.import(&["--bundle-key", "site.pub"]).ok();
    // whoever cannot sign is told before anything is asked for
    let asked = maker.upstream.seen().len();
    maker
        .create(&["--image", &image, "--sign-key", "none.key"])
        .fails(4, "none.key");
    assert_eq!(maker.upstream.seen().len(), asked);
}

#[test]
fn a_slot_that_cannot_be_read_is_begun_anew_only_on_request() {
    let maker = Maker::new();
    let web = maker.image("web", &["1"], &small(1));
    maker.create(&["--image", &format!("{web}:1")]).ok();
    maker.key("site");
    let file = maker.scratch.path("site.tar");
    let mut bytes = std::fs::read(&file).unwrap();
    let slot = bytes
        .windows(14)
        .position(|w| w == b"{\"signatures\":")
        .unwrap();
    bytes[slot] = b'x';
    std::fs::write(&file, bytes).unwrap();
    let call = ["bundle", "sign", "site.tar", "--sign-key", "site.key"];
    maker.scratch.run(&call).fails(3, "signatures");
    maker.scratch.run(&[&call[..], &["--force"]].concat()).ok();
    maker.import(&["--bundle-key", "site.pub"]).ok();
    maker
        .scratch
        .run(&["bundle", "sign", "site.tar"])
        .fails(2, "no key to sign with");
}

#[test]
fn lists_of_images_are_read_with_their_lines() {
    let maker = Maker::new();
    let web = maker.image("web", &["1"], &small(1));
    let db = maker.image("db", &["2"], &small(2));
    let list = format!("# site\n{web}:1   # the web\n\n{db}:2\r\n");
    maker.scratch.write("images.txt", &list);
    maker.create(&["--images-from", "images.txt"]).ok();
    maker.import_on_its_word();
    let mirror = maker.serve();
    for (name, tag) in [("web", "1"), ("db", "2")] {
        mirror.body(&format!("{}manifests/{tag}", maker.place(name)));
    }
    let hauler = format!(
        "apiVersion: content.hauler.cattle.io/v1\nkind: Images\nmetadata: {{name: x}}\nspec:\n  \
         images:\n  - name: {web}:1\n    platform: linux/amd64\n  - name: {db}:2\n"
    );
    maker.scratch.write("hauler.yaml", hauler);
    let by_hauler = maker.create(&["--images-from", "hauler.yaml"]).ok();
    assert!(
        by_hauler.stdout.contains("2 images"),
        "{}",
        by_hauler.stdout
    );
    by_hauler.says("--platform chooses for the whole bundle");
    maker
        .scratch
        .write("bad.txt", format!("{web}:1\nthis is no image\n"));
    maker
        .create(&["--images-from", "bad.txt"])
        .fails(3, "line 2")
        .says("bad.txt");
    maker
        .create(&["--images-from", "none.txt"])
        .fails(4, "none.txt");
    let mut by_stdin = maker.scratch.command(&[
        "bundle",
        "create",
        "-o",
        "in.tar",
        "--no-progress",
        "--images-from",
        "-",
    ]);
    let mut child = by_stdin
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), list.as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let bytes = |name: &str| std::fs::read(maker.scratch.path(name)).unwrap();
    maker.create(&["--images-from", "images.txt"]).ok();
    assert!(
        bytes("in.tar") == bytes("site.tar"),
        "the same list gives the same file"
    );
}

#[test]
fn what_a_mirror_was_asked_for_in_vain_is_brought_by_the_next_bundle() {
    let maker = Maker::new();
    let web = maker.image("web", &["1"], &small(1));
    let db = maker.image("db", &["2"], &small(2));
    maker.create(&["--image", &format!("{web}:1")]).ok();
    maker.import_on_its_word();
    let mirror = maker.serve();
    let missing = format!("{}manifests/2", maker.place("db"));
    assert_eq!(mirror.get(&missing).status, 404);
    assert_eq!(
        mirror
            .get(&format!("{}manifests/9", maker.place("nowhere")))
            .status,
        404
    );
    let host = maker.upstream.host().replace(':', "_");
    assert_eq!(
        mirror
            .get(&format!("/v2/{host}/db/manifests/{}", small(2).digest()))
            .status,
        404
    );
    mirror.stop();
    let wanted = |flag: &[&str]| {
        let call = ["mirror", "wanted", "--store", "store"];
        maker.scratch.run(&[&call[..], flag].concat()).ok().stdout
    };
    for flag in [&["--references"][..], &["-o", "json"]] {
        let list = wanted(flag);
        assert!(list.contains(&format!("{db}:2")), "{list}");
        // anybody can ask a mirror for anything
        let list = match flag[0] {
            "-o" => list,
            _ => format!("{list}foo.bar_baz/x:1\nno.such.host.invalid/x:1\n"),
        };
        maker.scratch.write("wanted", list);
        maker
            .create(&["--wanted", "wanted"])
            .ok()
            .says("nowhere:9 is wanted and left out, for it cannot be had");
    }
    maker
        .scratch
        .write("odd", "foo.bar_baz/x:1\nno.such.host.invalid/x:1\n");
    maker
        .create(&["--wanted", "odd"])
        .fails(4, "nothing of what is wanted can be had")
        .says("left out of what is wanted: \"foo.bar_baz/x:1\"");
    maker.scratch.write("none", "");
    maker
        .create(&["--wanted", "none"])
        .fails(1, "nothing is wanted");
    maker.import_on_its_word();
    assert!(maker.serve().body(&missing) == small(2).manifest());
    assert!(!wanted(&["--references"]).contains("db:2"));
}

#[test]
fn charts_come_from_helm_repositories_and_registries() {
    let maker = Maker::new();
    let chart = Chart::new("web", "1.2.3+up1", "ghcr.io/a/web:1");
    maker
        .upstream
        .put_charts("/stable", std::slice::from_ref(&chart));
    maker.image(
        "oci/db",
        &["2.0.0"],
        &Chart::new("db", "2.0.0", "ghcr.io/a/db:1").image(),
    );
    let classic = format!("{}/web@1.2.3+up1", maker.upstream.url("/stable"));
    let oci = format!("oci://{}/oci/db:2.0.0", maker.upstream.host());
    maker.create(&["--chart", &classic, "--chart", &oci]).ok();
    maker
        .import_on_its_word()
        .says("2 charts belong to no package");
    let mirror = maker.serve();
    let charts = maker.place("stable").replace("/v2/", "/charts/");
    let archive = mirror.body(&format!("{charts}{}", chart.file_name()));
    assert!(archive == chart.archive);
    mirror.body(&format!("{}manifests/2.0.0", maker.place("oci/db")));
    // what the index says of the archive must hold
    let file = format!("/stable/{}", chart.file_name());
    maker
        .upstream
        .put_file(&file, Chart::new("web", "1.2.3+up1", "other/x:1").archive);
    maker
        .create(&["--chart", &classic])
        .fails(3, "the index of its repository says");
    let absent = format!("{}/web@9.9.9", maker.upstream.url("/stable"));
    maker
        .create(&["--chart", &absent])
        .fails(4, "has no version 9.9.9");
    maker.create(&["--chart", "web@1"]).fails(2, "--chart");
}

// Complaint 17: names that are no names of repositories.
#[test]
fn files_keep_their_names_and_bytes() {
    let maker = Maker::new();
    let names = [
        ".metadata",
        "libstdc++-12.rpm",
        "with space.iso",
        "ünïcode/日本語.txt",
        "bin/k3s",
        "BIN/K3S",
    ];
    let mut flags = Vec::new();
    for (n, name) in names.iter().enumerate() {
        maker
            .scratch
            .write(&format!("f{n}"), vec![n as u8; 100_000 * n]);
        flags.push(format!("f{n}={name}"));
    }
    let mut call = Vec::new();
    for flag in &flags {
        call.extend(["--file", flag]);
    }
    maker.create(&call).ok();
    let inspected = maker.scratch.run(&["bundle", "inspect", "site.tar"]).ok();
    assert!(
        inspected.stdout.contains("libstdc++-12.rpm"),
        "{}",
        inspected.stdout
    );
    maker
        .import_on_its_word()
        .says("6 files belong to no package");
    let mirror = maker.serve();
    let list = mirror.json("/files/");
    let listed = list["files"].as_array().unwrap();
    assert_eq!(listed.len(), names.len());
    for file in listed {
        let name = file["name"].as_str().unwrap();
        let n = names.iter().position(|known| *known == name).unwrap();
        let answer = mirror.get(file["path"].as_str().unwrap());
        assert_eq!(answer.status, 200, "{name}");
        assert!(answer.body == vec![n as u8; 100_000 * n], "{name}");
        assert_eq!(answer.header("content-disposition"), Some("attachment"));
        let digest = Digest::sha256(&answer.body).to_string();
        assert_eq!(file["digest"], digest.as_str());
    }
    assert_eq!(mirror.get("/files/none").status, 404);
    assert_eq!(mirror.get("/files/../bin/k3s").status, 404);

    // a newer one under the same name takes its place, and that is said
    maker.scratch.write("f4", "newer");
    maker.create(&["--file", "f4=bin/k3s"]).ok();
    maker
        .import_on_its_word()
        .says("belongs to no package and moves");
    assert_eq!(mirror.body("/files/bin/k3s"), b"newer");
    let two = ["--file", "f1=a", "--file", "f2=a"];
    maker
        .create(&two)
        .fails(2, "two files are to be called \"a\"");
    maker
        .create(&["--file", "none=a"])
        .fails(1, "read the file to carry");
    maker
        .create(&["--file", ".=a"])
        .fails(2, "no ordinary file");
    maker
        .create(&["--file", "f1=../a"])
        .fails(2, "no name for a carried file");
}

#[test]
fn tags_of_packages_are_not_touched_and_win() {
    let (publisher, image) = Publisher::of_web();
    publisher.create(&["web"]).ok();
    let other = small(7);
    publisher.upstream.put_image("web", &["1.0"], &other);
    let reference = format!("{}/web:1.0", publisher.upstream.host());
    let scratch = &publisher.scratch;
    let beside = [
        "bundle",
        "create",
        "-o",
        "beside.tar",
        "--no-progress",
        "--image",
    ];
    scratch.run(&[&beside[..], &[&reference]].concat()).ok();
    let import = |file: &str, store: &str, flags: &[&str]| {
        let call = ["bundle", "import", file, "--store", store];
        scratch.run(&[&call[..], flags].concat())
    };
    let key = ["--public-key", "release.pub"];
    let word = ["--allow-unpinned-images"];
    let host = publisher.upstream.host().replace(':', "_");
    let path = format!("/v2/{host}/web/manifests/1.0");
    // the package first
    import("site.tar", "first", &key).ok();
    import("beside.tar", "first", &word)
        .ok()
        .says("is left alone");
    let mirror = Mirror::start(scratch, "first");
    assert!(mirror.body(&path) == image.manifest());
    mirror.body(&format!("/v2/{host}/web/manifests/{}", other.digest()));
    // and last
    import("beside.tar", "second", &word).ok();
    import("site.tar", "second", &key).ok();
    let mirror = Mirror::start(scratch, "second");
    assert!(mirror.body(&path) == image.manifest());
    // what was accepted of the repository is still known
    import("beside.tar", "second", &word).ok();
    import("site.tar", "second", &[]).ok();
}

#[test]
fn beside_packages_only_a_signature_of_the_bundle_lets_other_content_in() {
    let (publisher, _) = Publisher::of_web();
    let far = Upstream::start();
    far.put_image("far/away", &["1"], &small(3));
    let reference = format!("{}/far/away:1", far.host());
    publisher.create(&["web", "--image", &reference]).ok();
    let scratch = &publisher.scratch;
    let key = PrivateKey::generate().unwrap();
    scratch.write("site.key", key.to_pem().unwrap());
    scratch.write("site.pub", key.public().unwrap().to_pem());
    let import = |flags: &[&str]| {
        let call = [
            "bundle",
            "import",
            "site.tar",
            "--store",
            "store",
            "--public-key",
            "release.pub",
        ];
        scratch.run(&[&call[..], flags].concat())
    };
    import(&[]).fails(3, "belong to no package");
    // it is about the images of packages, and lets nothing else in
    import(&["--allow-unpinned-images"]).fails(3, "belong to no package");
    scratch
        .run(&["bundle", "sign", "site.tar", "--sign-key", "site.key"])
        .ok();
    import(&["--bundle-key", "site.pub"])
        .ok()
        .says("which signed the bundle, vouches");
}

#[test]
fn a_signing_that_was_interrupted_is_run_again() {
    let maker = Maker::new();
    let web = maker.image("web", &["1"], &small(1));
    maker.create(&["--image", &format!("{web}:1")]).ok();
    maker.key("ann");
    maker.key("bob");
    let sign = |key: &str| {
        maker
            .scratch
            .run(&["bundle", "sign", "site.tar", "--sign-key", key])
    };
    sign("ann.key").ok();
    let file = maker.scratch.path("site.tar");
    let whole = std::fs::read(&file).unwrap();
    let slot = whole
        .windows(14)
        .position(|w| w == b"{\"signatures\":")
        .unwrap();
    // power went while bob's was written: the old slot lies beside a torn one
    maker
        .scratch
        .write("site.tar.signatures", &whole[slot..slot + 16_384]);
    let mut torn = whole.clone();
    torn[slot + 100..slot + 200].fill(b'x');
    std::fs::write(&file, torn).unwrap();
    let signed = sign("bob.key").ok();
    assert_eq!(
        signed.stdout.lines().next().unwrap().matches(", ").count(),
        1,
        "{}",
        signed.stdout
    );
    assert!(!maker.scratch.path("site.tar.signatures").exists());
    for key in ["ann.pub", "bob.pub"] {
        maker
            .scratch
            .run(&["bundle", "verify", "site.tar", "--bundle-key", key])
            .ok();
    }
}

// Complaint 39: what is attached travels, for the image and for what is attached to it.
#[test]
fn attachments_of_all_kinds_travel() {
    let maker = Maker::new();
    let image = small(1);
    let sbom = artifact(&image.descriptor, "application/spdx+json", b"sbom");
    let about = artifact(
        &sbom.descriptor,
        "application/vnd.example.sig",
        b"of the sbom",
    );
    let signature = cosign_signature(b"payload");
    let web = maker.image("web", &["1"], &image);
    maker.image("web", &[], &sbom);
    maker.image("web", &[], &about);
    maker.image("web", &[&cosign_tag(&image.digest(), "sig")], &signature);
    maker.create(&["--image", &format!("{web}:1")]).ok();
    maker.import_on_its_word();
    let mirror = maker.serve();
    let place = maker.place("web");
    let tag = cosign_tag(&image.digest(), "sig");
    assert!(mirror.body(&format!("{place}manifests/{tag}")) == signature.manifest());
    for (subject, referrer) in [(&image, &sbom), (&sbom, &about)] {
        let list = mirror.json(&format!("{place}referrers/{}", subject.digest()));
        assert_eq!(
            list["manifests"][0]["digest"],
            referrer.digest().to_string().as_str()
        );
    }
}

#[test]
fn what_is_wrong_with_a_reference_is_said() {
    let maker = Maker::new();
    for (reference, says) in [
        ("bücher.example/a:1", "xn--"),
        ("ghcr.io/A/b:1", "lower-case"),
        ("a b", "no image reference"),
        ("ghcr.io/a/b@sha256:12", "digest"),
    ] {
        maker.create(&["--image", reference]).fails(2, says);
    }
    let absent = format!("{}/none:1", maker.upstream.host());
    maker
        .create(&["--image", &absent])
        .fails(4, "does not exist there");
    maker.create(&[]).fails(2, "--image");
}

#[test]
fn a_package_and_an_image_beside_it_share_one_file() {
    let (publisher, image) = Publisher::of_web();
    let web = format!("{}/web:1.0@{}", publisher.upstream.host(), image.digest());
    // what a package pins stays the package's
    publisher.create(&["web", "--image", &web]).ok();
    let head = publisher.head();
    assert_eq!(head["images"].as_array().unwrap().len(), 1);
    assert_eq!(head["images"][0]["packages"][0], "web");
    assert!(head.get("requires").is_none(), "{head}");
}

#[test]
fn content_of_every_shape_arrives_as_it_is() {
    let maker = Maker::new();
    let mut shapes: Vec<(&str, Image)> = vec![
        ("docker", ImageBuilder::new(1).docker().build()),
        (
            "list",
            docker_list(&[ImageBuilder::new(2).docker().build()]),
        ),
        ("nested", index(&[index(&[small(3)]), small(4)])),
    ];
    let kinds = [
        ("zstd", "application/vnd.oci.image.layer.v1.tar+zstd"),
        ("estargz", "application/vnd.oci.image.layer.v1.tar+gzip"),
        ("helm", "application/vnd.wasm.content.layer.v1+wasm"),
        ("bare", ""),
    ];
    for (name, kind) in kinds {
        let mut content = Content::default();
        let empty = "application/vnd.oci.empty.v1+json";
        let config = content.add_blob(Algorithm::Sha256, empty, b"{}".to_vec());
        let mut layers = Vec::new();
        if !kind.is_empty() {
            let mut layer = content.add_blob(Algorithm::Sha256, kind, name.as_bytes().to_vec());
            let toc = Digest::sha256("toc").to_string();
            layer
                .annotations
                .insert("containerd.io/snapshot/stargz/toc.digest".to_owned(), toc);
            layers.push(layer);
        }
        let manifest = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": media_type::OCI_MANIFEST,
            "artifactType": "application/vnd.example.thing",
            "config": config,
            "layers": layers,
            "annotations": {"org.example": "kept"},
        });
        let kind = media_type::OCI_MANIFEST;
        let descriptor = content.add_manifest(Algorithm::Sha256, kind, &manifest);
        shapes.push((
            name,
            Image {
                descriptor,
                content,
            },
        ));
    }
    let mut call = Vec::new();
    for (name, image) in &shapes {
        call.push("--image".to_owned());
        call.push(format!("{}:1", maker.image(name, &["1"], image)));
    }
    maker
        .create(&call.iter().map(String::as_str).collect::<Vec<_>>())
        .ok();
    maker.import_on_its_word();
    let mirror = maker.serve();
    for (name, image) in &shapes {
        let place = maker.place(name);
        let answer = mirror.get(&format!("{place}manifests/1"));
        assert!(answer.body == image.manifest(), "{name}");
        let kind = image.descriptor.media_type.as_str();
        assert_eq!(answer.header("content-type"), Some(kind), "{name}");
        for blob in image.blobs() {
            let body = mirror.body(&format!("{place}blobs/{blob}"));
            assert!(body == image.content.blobs[&blob], "{name} {blob}");
        }
    }
}
