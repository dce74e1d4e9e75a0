//! Who is trusted: keys, signatures, age, and what a store remembers.

use kubepkg_core::keys::PrivateKey;
use kubepkg_test_support::{Forge, ImageBuilder, Package, package};

use super::site::{Site, URL, honest, sign_into};

const KEY: &[&str] = &["--public-key", "release.pub"];
const OTHER_URL: &str = "https://other.example.com/index.yaml";
const DAY: i64 = 86_400;

#[test]
fn a_wrong_key_trusts_nothing() {
    let site = Site::new();
    let ids = [honest().key.public().unwrap().id().to_string()];
    site.scratch.write("site.tar", &honest().bytes);
    let stranger = ["--public-key", "stranger.pub"];
    let told = site.refuses_anew(&stranger, 3, "not signed by a key you trust");
    // a store that knows whom to trust does not change its mind by accident, nor on purpose
    site.refuses_import(&stranger, 3, "not the one that is stored")
        .hints("--change-trust");
    site.refuses_import(
        &[&stranger[..], &["--change-trust"]].concat(),
        3,
        "not signed by a key you trust",
    );
    assert!(!told.error.contains(&ids[0]), "the plain form names no key");
    told.at(URL).hints("which key signs now");
    // the file's own keys are never asked: signed anew by somebody else
    let stranger = PrivateKey::generate().unwrap();
    let mut forge = honest().forge.clone();
    sign_into(
        &mut forge,
        URL,
        &honest().index(honest().generated, None),
        &stranger,
    );
    site.refuses_by(
        &forge.bytes(),
        "not signed by a key you trust, or was changed after signing",
    )
    .at(URL);
}

#[test]
fn without_a_key_nothing_begins() {
    let site = Site::new();
    site.scratch.write("site.tar", &honest().bytes);
    site.refuses_anew(&[], 2, "no key given")
        .hints("--public-key");
    // a store that imported from there before knows whom to trust
    let import = ["bundle", "import", "site.tar", "--store", "store"];
    site.scratch.run(&import).ok();
}

#[test]
fn an_unsigned_index_needs_the_users_word() {
    let site = Site::new();
    let mut forge = honest().forge.clone();
    let index = honest().index(honest().generated, None);
    forge.repository(URL, &[("index.yaml", &index)]);
    site.refuses_by(&forge.bytes(), "not signed")
        .at(URL)
        .hints("--allow-unsigned");
    // who gives a key wants it to have signed
    site.refuses_file(&[KEY, &["--allow-unsigned"]].concat(), 3, "not signed");
    site.accepts_file(&["--allow-unsigned"], "warning: ");
    // a signature that is none
    forge.repository(
        URL,
        &[("index.yaml", &index), ("index.yaml.sig", b"hello\n")],
    );
    site.refuses_by(&forge.bytes(), "signature file")
        .at(URL)
        .hints("index.yaml.sig");
}

#[test]
fn an_image_by_tag_needs_the_users_word() {
    let site = Site::new();
    let honest = honest();
    let image = ImageBuilder::new(7).build();
    let tool = Package::new("tool", "1.0.0").image("registry.example.com/tool:1");
    let mut forge = Forge::default();
    // `repo index` takes no such package, so the index is one that another program made
    let pinned = Package::new("tool", "1.0.0")
        .image(&format!("registry.example.com/tool:1@{}", image.digest()));
    let index = package::index(std::slice::from_ref(&pinned), honest.generated, None);
    let index = String::from_utf8(index)
        .unwrap()
        .replace(&format!("@{}", image.digest()), "")
        .replace(
            &pinned.source().spec.digest().to_string(),
            &tool.source().spec.digest().to_string(),
        );
    // the same key signs here as for the repository the site knows, so this one names itself
    let index = format!("{index}repository: {OTHER_URL}\n");
    sign_into(&mut forge, OTHER_URL, index.as_bytes(), &honest.key);
    forge.package(OTHER_URL, &tool);
    forge.image("registry.example.com/tool:1", &image, &["tool"]);
    forge.head.images[0].pinned = false;
    site.refuses_by(&forge.bytes(), "image registry.example.com/tool:1 of tool")
        .why("pinned only by the bundle")
        .at("site.tar")
        .hints("--allow-unpinned-images");
    let flags = [KEY, &["--allow-unpinned-images"]].concat();
    site.accepts_file(&flags, "is taken on the bundle's word");
}

#[test]
fn with_several_repositories_every_key_says_whose_it_is() {
    let site = Site::new();
    let honest = honest();
    let other = PrivateKey::generate().unwrap();
    site.scratch
        .write("other.pub", other.public().unwrap().to_pem());
    let image = ImageBuilder::new(8).build();
    let tool = Package::new("tool", "1.0.0")
        .image(&format!("registry.example.com/tool:1@{}", image.digest()));
    let mut forge = honest.forge.clone();
    let index = package::index(std::slice::from_ref(&tool), honest.generated, None);
    sign_into(&mut forge, OTHER_URL, &index, &other);
    forge.package(OTHER_URL, &tool);
    forge.image("registry.example.com/tool:1", &image, &["tool"]);
    let bytes = forge.bytes();

    site.refuses(&bytes, KEY, 2, "there are 2 repositories")
        .why(URL)
        .why(OTHER_URL)
        .hints("--public-key https://");
    let ours = format!("{URL}=release.pub");
    let theirs = format!("{OTHER_URL}=other.pub");
    site.refuses_file(&["--public-key", &ours], 2, "no key is given for")
        .why(OTHER_URL)
        .hints("--public-key");
    site.refuses_file(
        &[
            "--public-key",
            &ours,
            "--public-key",
            &format!("{OTHER_URL}=release.pub"),
        ],
        3,
        "not signed by a key you trust",
    )
    .at(OTHER_URL);
    site.accepts_file(&["--public-key", &ours, "--public-key", &theirs], "");
}

#[test]
fn a_key_for_another_repository_is_a_mistake() {
    let site = Site::new();
    let flags = ["--public-key", &format!("{OTHER_URL}=release.pub")];
    site.refuses(&honest().bytes, &flags, 2, OTHER_URL)
        .why("not among the repositories")
        .why(URL)
        .hints("--public-key https://");
}

#[test]
fn an_index_has_its_time() {
    let site = Site::new();
    let honest = honest();
    let now = honest.generated;
    let expired = honest.index(now.plus(-10 * DAY), Some(now.plus(-3 * DAY)));
    let file = honest.with_index(&expired).bytes();
    // for the filled store it is merely old, and the accepted index counts
    site.scratch.write("site.tar", &file);
    let verify = [&["bundle", "verify", "site.tar"], KEY].concat();
    site.scratch
        .run(&verify)
        .fails(3, "expired at")
        .says("3 days ago")
        .says(&format!("where: {URL}"))
        .says("hint: get a newer index");
    let import = [&["bundle", "import", "site.tar", "--store", "new"], KEY].concat();
    site.scratch.run(&import).fails(3, "expired at");

    let late = honest.index(now.plus(DAY), Some(now.plus(-10 * DAY - 3600)));
    site.refuses_by(&honest.with_index(&late).bytes(), "expired at")
        .at(URL);
    let future = honest.index(now.plus(3 * DAY), None);
    site.refuses_by(
        &honest.with_index(&future).bytes(),
        "more than a day ahead of this machine's clock",
    )
    .at(URL)
    .hints("clock");
}

#[test]
fn an_index_belongs_to_one_repository() {
    let site = Site::new();
    let honest = honest();
    let mut index = honest.index(honest.generated.plus(60), None);
    index.extend_from_slice(format!("repository: \"{OTHER_URL}\"\n").as_bytes());
    site.refuses_by(
        &honest.with_index(&index).bytes(),
        &format!("it is the index of {OTHER_URL}"),
    )
    .at(URL);
    // signed, and no index at all
    site.refuses_by(
        &honest.with_index(b"packages: [\n").bytes(),
        "signed but not valid",
    )
    .at(URL);
}

#[test]
fn two_indexes_of_one_time_are_a_fork() {
    let site = Site::new();
    let honest = honest();
    let more = Package::new("more", "1.0.0");
    let packages = [honest.packages.clone(), vec![more]].concat();
    let index = package::index(&packages, honest.generated, None);
    site.scratch
        .write("site.tar", honest.with_index(&index).bytes());
    // alone it is fine: only who has seen the other can tell
    let verify = [&["bundle", "verify", "site.tar"], KEY].concat();
    site.scratch.run(&verify).ok();
    let accepted = kubepkg_core::Digest::sha256(honest.index(honest.generated, None));
    let offered = kubepkg_core::Digest::sha256(&index);
    site.refuses_import(KEY, 3, "two different indexes")
        .why(&accepted.to_string())
        .why(&offered.to_string())
        .at(URL)
        .hints("publisher has said which is genuine");
}

/// The one file that holds what the store accepted.
fn memory(site: &Site) -> std::path::PathBuf {
    let mut files = std::fs::read_dir(site.scratch.path("store/trust")).unwrap();
    files.next().unwrap().unwrap().path()
}

#[test]
fn a_damaged_memory_stops_everything() {
    let mut site = Site::new();
    site.scratch.write("site.tar", &honest().bytes);
    let file = memory(&site);
    let good = std::fs::read_to_string(&file).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    for bad in [
        "",
        "{",
        "null",
        &good.replace("firstSeen", "lastSeen"),
        // a record of another repository
        &good.replace("example.com/stable", "example.com/evil"),
    ] {
        std::fs::write(&file, bad).unwrap();
        site.remember();
        let told = site.refuses_import(KEY, 1, "damaged");
        assert!(
            told.place.contains(name) || told.place.contains(URL),
            "{bad}: {told:?}"
        );
        told.hints("backup");
    }
    std::fs::write(&file, good).unwrap();
    site.remember();
    let import = [&["bundle", "import", "site.tar", "--store", "store"], KEY].concat();
    site.scratch.run(&import).ok();
}

#[test]
fn an_older_bundle_is_judged_by_the_accepted_index() {
    let mut site = Site::new();
    let honest = honest();
    let before = honest.generated.plus(-DAY);
    // its packages are in the accepted index too: nothing to do, and it says so
    site.scratch.write(
        "site.tar",
        honest.with_index(&honest.index(before, None)).bytes(),
    );
    let import = [&["bundle", "import", "site.tar", "--store", "store"], KEY].concat();
    let run = site.scratch.run(&import).ok();
    let run = run.says("older than the one accepted before");
    assert!(run.stdout.contains("nothing was changed"), "{}", run.stdout);
    // a package the accepted index no longer lists does not come in
    let gone = Package::new("gone", "1.0.0");
    let packages = [honest.packages.clone(), vec![gone.clone()]].concat();
    let mut forge = honest.with_index(&package::index(&packages, before, None));
    forge.package(URL, &gone);
    site.scratch.write("site.tar", forge.bytes());
    site.refuses_import(KEY, 3, "gone 1.0.0")
        .why("is not in the signed index")
        .at(URL);
    // and none at all once the accepted index cannot be read
    let index = kubepkg_core::Digest::sha256(honest.index(honest.generated, None));
    let hex = index.hex();
    let blob = site
        .scratch
        .path(format!("store/blobs/sha256/{}/{hex}", &hex[..2]));
    std::fs::remove_file(blob).unwrap();
    site.remember();
    site.refuses_import(KEY, 1, "the index it is about is not in the store");
}

#[test]
fn a_folder_of_somebody_else_is_no_store() {
    let site = Site::new();
    site.scratch.write("site.tar", &honest().bytes);
    site.scratch.write("home/letter.txt", "dear");
    site.scratch.write("file", "dear");
    for store in ["home", "file"] {
        let import = [&["bundle", "import", "site.tar", "--store", store], KEY].concat();
        site.scratch
            .run(&import)
            .fails(1, "store")
            .says("cannot be used as a store")
            .says(&format!("where: {store}"));
    }
    assert_eq!(site.scratch.read("home/letter.txt"), "dear");
    assert_eq!(site.scratch.read("file"), "dear");
    let names = std::fs::read_dir(site.scratch.path("home"))
        .unwrap()
        .count();
    assert_eq!(names, 1);
}
