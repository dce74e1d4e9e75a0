//! `images` where no Helm is needed: manifests, recipes, what is said when there is none.

use std::os::unix::fs::PermissionsExt as _;

use kubepkg_core::Digest;
use kubepkg_test_support::ImageBuilder;

use crate::command::Scratch;
use crate::publisher::Publisher;

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - image: quay.io/a/web:1
        args: [--sidecar-image=quay.io/a/side:2]
";

#[test]
fn manifests_from_files_folders_and_stdin() {
    let scratch = Scratch::new();
    scratch.write("m/web.yaml", DEPLOYMENT);
    scratch.write(
        "m/deep/pod.json",
        r#"{"kind": "Pod", "spec": {"containers": [{"image": "nginx"}]}}"#,
    );
    let table = scratch.run(&["images", "m"]).ok().stdout;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(
        lines[1].starts_with("docker.io/library/nginx:latest  container  m/deep/pod.json: Pod"),
        "{table}"
    );
    assert!(
        lines[2].contains("argument")
            && lines[2].contains("Deployment web: spec.template.spec.containers[0].args[0]"),
        "{table}"
    );

    let block = scratch
        .run(&["images", "m", "-o", "images", "--offline"])
        .ok()
        .stdout;
    assert_eq!(
        block,
        "images:\n- docker.io/library/nginx:latest\n- quay.io/a/side:2\n- quay.io/a/web:1\n"
    );

    let mut command = scratch.command(&["images", "-", "-o", "json"]);
    command.stdin(std::fs::File::open(scratch.path("m/web.yaml")).unwrap());
    let json: serde_json::Value =
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!(json["images"][1]["image"], "quay.io/a/web:1");
    assert_eq!(json["images"][1]["places"][0]["source"], "standard input");
    scratch.run(&["images", "none.yaml"]).fails(4, "none.yaml");
}

#[test]
fn what_cannot_be_read_fails_after_the_answer() {
    let scratch = Scratch::new();
    scratch.write("web.yaml", format!("{DEPLOYMENT}---\nkind: Pod\nx: [\n"));
    let run = scratch.run(&["images", "web.yaml"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("quay.io/a/web:1"), "{}", run.stdout);
    run.says("web.yaml: line ").says("1 place cannot be read");
}

#[test]
fn what_a_recipe_names_is_fetched_and_compared() {
    let publisher = Publisher::new();
    let scratch = &publisher.scratch;
    publisher.upstream.put_file("/operator.yaml", DEPLOYMENT);
    let url = publisher.upstream.url("/operator.yaml");
    let recipe = |sha256: &str| {
        let text = format!(
            "apiVersion: kubepkg.dev/v1\nkind: Recipe\nspec:\n  sources:\n    up: {{url: '{url}', sha256: {sha256}}}\n    own: {{dir: m}}\n  package: {{images: ['quay.io/a/listed:3']}}\n"
        );
        scratch.write("r/recipe.yaml", text);
    };
    scratch.write(
        "r/m/pod.yaml",
        "kind: Pod\nspec: {containers: [{image: quay.io/a/own:1}]}\n",
    );
    recipe(&Digest::sha256(DEPLOYMENT.as_bytes()).hex());
    let run = scratch.run(&["images", "r"]).ok();
    for image in ["quay.io/a/listed:3", "quay.io/a/own:1", "quay.io/a/web:1"] {
        assert!(run.stdout.contains(image), "{image}: {}", run.stdout);
    }
    let run = scratch.run(&["images", "r", "--offline"]).ok();
    assert!(!run.stdout.contains("quay.io/a/web:1"), "{}", run.stdout);
    run.says(&format!("not looked into: {url}"));
    recipe(&Digest::sha256(b"other").hex());
    scratch.run(&["images", "r"]).fails(3, "has the digest");
}

#[test]
fn without_helm_it_is_said_what_to_install_and_where_it_was_looked_for() {
    let scratch = Scratch::new();
    scratch.write(
        "web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    );
    scratch.write("bin/other", "");
    let path = scratch.path("bin");
    let path = path.to_str().unwrap();
    scratch
        .run_with(&[("PATH", path)], &["images", "web"])
        .fails(4, &format!("looked for {path}/helm"))
        .says("install Helm 4.0.0 or newer");
    scratch
        .run(&["images", "web", "--helm", "no/helm"])
        .fails(4, "no/helm");
    // a program that is no Helm, and one that is too old
    for (said, why) in [
        ("hello", "it is no Helm"),
        ("v3.19.0", "it is v3.19.0, and 4.0.0 or newer is needed"),
    ] {
        let program = scratch.write("bin/helm", format!("#!/bin/sh\necho {said}\n"));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        scratch
            .run_with(&[("PATH", path)], &["images", "web"])
            .fails(1, why);
    }
    // manifests need none
    scratch.write("web.yaml", DEPLOYMENT);
    scratch.run(&["images", "web.yaml"]).ok();
}

#[test]
fn the_block_is_pinned_by_what_the_registry_says() {
    let publisher = Publisher::new();
    let image = ImageBuilder::new(1).layers(1, 100).build();
    let pinned = publisher.image("web", "1.0", &image);
    let (tagged, _) = pinned.split_once('@').unwrap();
    let scratch = &publisher.scratch;
    let pod = |image: &str| format!("kind: Pod\nspec: {{containers: [{{image: '{image}'}}]}}\n");
    scratch.write("pod.yaml", pod(tagged));
    let call = ["images", "pod.yaml", "-o", "images"];
    assert_eq!(
        scratch.run(&call).ok().stdout,
        format!("images:\n- {pinned}\n")
    );
    // what is pinned already is asked of nobody
    scratch.write("pod.yaml", pod("registry.invalid/a@sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"));
    scratch.run(&call).ok();
    scratch.write(
        "pod.yaml",
        pod(&format!("{}/none:1", publisher.upstream.host())),
    );
    scratch.run(&call).fails(4, "none:1");
}

/// A program that answers as Helm does, and says what it was given.
const FAKE: &str = r#"#!/bin/sh
case $1 in
version) echo v4.3.1 ;;
template)
    { /usr/bin/env; printf '%s\n' "$@"; } >"${0%/*}/seen"
    cat <<'END'
---
# Source: web/templates/pod.yaml
kind: Pod
metadata: {name: web}
spec: {containers: [{image: quay.io/a/web:1}]}
---
# Source: web/templates/kubepkg-zz-values.yaml
{"kind": "KubepkgValues", "values": {"side":{"enabled":false,"image":{"repository":"quay.io/a/side","tag":"2"}}}}
END
    ;;
esac
"#;

#[test]
fn a_chart_is_rendered_with_nothing_of_the_users() {
    let scratch = Scratch::new();
    scratch.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\nannotations: {artifacthub.io/images: '[{name: x, image: quay.io/a/noted:1}]'}\n");
    let helm = scratch.write(
        "helm",
        FAKE.replace(
            "    ;;\nesac",
            "    echo 'Error: needs a password' >&2; exit 1 ;;\nesac",
        ),
    );
    std::fs::set_permissions(&helm, std::fs::Permissions::from_mode(0o755)).unwrap();
    scratch.write("v.yaml", "a: 1\n");
    let call = [
        "images",
        "web",
        "--helm",
        "./helm",
        "-f",
        "v.yaml",
        "--set",
        "b=2",
        "--kube-version",
        "1.30.0",
        "--namespace",
        "n",
    ];
    let users = [("HTTP_PROXY", "http://proxy.example.com"), ("SECRET", "s")];
    scratch
        .run_with(&users, &call)
        .fails(1, "does not render: needs a password")
        .says("give it the values it needs");
    let seen = scratch.read("seen");
    assert!(
        !seen.contains("SECRET") && !seen.contains("proxy.example.com"),
        "{seen}"
    );
    let home = scratch.path("../home").canonicalize().unwrap();
    assert!(
        seen.contains("HOME=") && !seen.contains(home.to_str().unwrap()),
        "{seen}"
    );
    for given in [
        "--set=b=2",
        "--kube-version=1.30.0",
        "--namespace=n",
        "--include-crds",
        "values-0.yaml",
    ] {
        assert!(seen.contains(given), "{given}: {seen}");
    }

    std::fs::write(&helm, FAKE).unwrap();
    let table = scratch.run(&call).ok().stdout;
    assert!(table.contains("quay.io/a/web:1    container   web/templates/pod.yaml: Pod web: spec.containers[0].image"), "{table}");
    assert!(table.contains("quay.io/a/noted:1"), "{table}");
    let possible = table.lines().last().unwrap();
    assert!(
        possible.starts_with("quay.io/a/side:2")
            && possible.ends_with("value side.image  --set side.enabled=true"),
        "{table}"
    );
    assert_eq!(scratch.names(), ["helm", "seen", "v.yaml", "web"]);

    scratch.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: ~1, repository: 'https://c.example.com'}]\n");
    scratch
        .run(&call)
        .fails(1, "db ~1")
        .says("helm dependency build web");
}
