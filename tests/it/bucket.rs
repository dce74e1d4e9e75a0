//! A store in a bucket, as far as that goes without a server: what is refused before one is asked.

use crate::command::Scratch;

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "key"),
    ("AWS_SECRET_ACCESS_KEY", "very secret"),
];

#[test]
fn a_store_in_a_bucket_needs_a_folder_besides_and_only_that_does() {
    let scratch = Scratch::new();
    let serve = ["mirror", "serve", "--listen", "127.0.0.1:0", "--store"];
    let with = |more: &[&str]| {
        let call: Vec<&str> = serve.iter().chain(more).copied().collect();
        scratch.run_with(&KEYS, &call)
    };
    with(&["s3://mirror/site"]).fails(2, "add --local DIR");
    with(&["folder", "--local", "other"]).fails(2, "--local is for a store in a bucket");
    with(&["s3://m/site", "--local", "other"]).fails(2, "s3://mirror/site-a");
    with(&["s3://mirror/../x", "--local", "other"]).fails(2, "names no place in a bucket");
    for made in ["s3:", "folder", "other"] {
        assert!(!scratch.path(made).exists(), "{made}");
    }
}

#[test]
fn who_asks_and_how_is_said_before_anybody_is_asked() {
    let scratch = Scratch::new();
    let check = [
        "mirror",
        "serve",
        "--check",
        "--store",
        "s3://mirror",
        "--local",
        "here",
    ];
    scratch.run(&check).fails(1, "AWS_ACCESS_KEY_ID");
    // port 1 of this machine: nothing is there, and nothing may be asked
    let plain = [KEYS[0], KEYS[1], ("AWS_ENDPOINT_URL", "http://127.0.0.1:1")];
    let said = scratch.run_with(&plain, &check).fails(1, "AWS_ALLOW_HTTP");
    assert!(!said.stderr.contains("very secret"));
}

#[test]
fn verbs_that_work_on_a_folder_say_so() {
    let scratch = Scratch::new();
    for verb in [
        &["mirror", "list", "--store", "s3://mirror"][..],
        &["mirror", "gc", "--store", "s3://mirror"],
        &["mirror", "backup", "--store", "s3://mirror", "copy"],
    ] {
        scratch.run(verb).fails(2, "not in a bucket");
    }
    let copy = ["mirror", "copy", "--from", "folder", "--to"];
    let to = |place: &str| scratch.run(&[&copy[..], &[place]].concat());
    to("s3://mirror").fails(4, "there is no store in this folder");
    scratch
        .run(&["mirror", "copy", "--from", "folder"])
        .fails(2, "--to");
    scratch
        .run(&["mirror", "copy", "--store", "x"])
        .fails(2, "<SOURCE>");
}
