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
fn a_bucket_is_not_scrubbed_while_it_is_served() {
    let scratch = Scratch::new();
    let check = "mirror serve --check --store s3://mirror/a --local here --scrub-rate";
    let with = |rate| {
        let call: Vec<&str> = check.split(' ').chain([rate]).collect();
        scratch.run(&call)
    };
    let hint = "kubepkg mirror check --store s3://mirror/a --limit-rate";
    with("1MiB").fails(2, hint);
    with("0").fails(1, "AWS_ACCESS_KEY_ID");
}

#[test]
fn verbs_that_work_on_a_folder_say_so() {
    let scratch = Scratch::new();
    for (verb, hint) in [
        ("mirror backup --store s3://mirror copy", "first names/"),
        (
            "mirror backup --store folder s3://mirror",
            "mirror copy --from",
        ),
        ("mirror wanted --store s3://mirror", "/metrics"),
        ("mirror user list --store s3://mirror", "--local"),
    ] {
        let call: Vec<&str> = verb.split(' ').collect();
        let name = call[..2].join(" ");
        let said = scratch.run(&call).fails(2, hint);
        let refused = format!("{name} works on a store in a folder, not in a bucket");
        assert!(said.stderr.contains(&refused), "{verb}: {}", said.stderr);
    }
    // the others ask the bucket
    for verb in [
        "mirror list",
        "mirror stat",
        "mirror gc --dry-run",
        "mirror check",
        "mirror prune --keep-imports 3 --dry-run",
        "mirror tag a/b:1 2",
        "mirror rm a/b:1",
        "mirror copy a/b:1 a/c",
        "trust show",
        "trust reset x",
        "node-config talos --mirror https://m -o out",
    ] {
        let call: Vec<&str> = verb.split(' ').chain(["--store", "s3://mirror"]).collect();
        scratch.run(&call).fails(1, "AWS_ACCESS_KEY_ID");
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
