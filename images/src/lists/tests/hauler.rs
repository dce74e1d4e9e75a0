use super::super::Form;
use super::*;

const MANIFEST: &str = "\
# hauler store sync -f this
apiVersion: content.hauler.cattle.io/v1
kind: Images
metadata:
  name: images
  annotations:
    hauler.dev/registry: registry.example:5000
    hauler.dev/platform: linux/amd64
    hauler.dev/key: cosign.pub
spec:
  images:
    - name: busybox
    - name: busybox:stable
      platform: linux/arm/v7
    - name: gcr.io/distroless/base@sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a
      platform: \"\"
    - name: ghcr.io/a/signed:1
      certificate-identity-regexp: ^https://github.com/a/
      certificate-oidc-issuer: https://token.actions.githubusercontent.com
      rewrite: b/signed:1
---
apiVersion: content.hauler.cattle.io/v1alpha1
kind: Images
metadata:
  name: more
spec:
  images:
  - name: neuvector/scanner
---
apiVersion: content.hauler.cattle.io/v1
kind: Charts
metadata:
  name: charts
spec:
  charts:
    - name: rancher
      repoURL: https://releases.rancher.com/server-charts/stable/
      version: 2.8.4
      add-images: true
    - name: hauler-helm
      repoURL: oci://ghcr.io/hauler-dev
    - name: oci://ghcr.io/hauler-dev/other
      version: 1.0.4
    - name: rancher-cluster-templates-0.5.2.tgz
      repoURL: .
";

#[test]
fn images_and_charts_with_what_annotations_say() {
    let list = taken(MANIFEST);
    assert_eq!(list.form, Form::Hauler);
    let distroless = format!("gcr.io/distroless/base@{D}");
    assert_eq!(
        images(&list),
        [
            ("registry.example:5000/busybox", 12),
            ("registry.example:5000/busybox:stable", 13),
            (distroless.as_str(), 15),
            ("ghcr.io/a/signed:1", 17),
            ("neuvector/scanner", 28)
        ]
    );
    let platforms: Vec<_> = list.images.iter().map(|i| i.platform.as_deref()).collect();
    let amd = Some("linux/amd64");
    assert_eq!(platforms, [amd, Some("linux/arm/v7"), amd, amd, None]);
    assert_eq!(
        list.charts,
        [
            chart(
                "https://releases.rancher.com/server-charts/stable",
                "rancher",
                Some("2.8.4"),
                36
            ),
            chart("oci://ghcr.io/hauler-dev", "hauler-helm", None, 40),
            chart("oci://ghcr.io/hauler-dev", "other", Some("1.0.4"), 42)
        ]
    );
    assert_eq!(
        list.notes,
        [
            "lines 9, 17: the signature is not checked with the key or identity named here",
            "line 17: the name of rewrite is not taken; what is carried keeps its own",
            "line 36: the images of the chart are not looked up here",
            "line 44: the chart \"rancher-cluster-templates-0.5.2.tgz\" lies in a folder, and is \
             not carried"
        ]
    );
}

fn one(images: &str) -> String {
    format!("apiVersion: content.hauler.cattle.io/v1\nkind: Images\nspec:\n  images:\n{images}")
}

#[test]
fn what_is_not_known_is_noted() {
    let text = "apiVersion: content.hauler.cattle.io/v1\nkind: Images\nmetadata:\n  annotations:\n    \
                hauler.dev/other: x\n    hauler.dev/store: y\nspec:\n  images:\n  - {name: a, platforms: b}\n\
                ---\napiVersion: content.hauler.cattle.io/v1\nkind: Images\nspec:\n  image: [b]\n";
    assert_eq!(
        taken(text).notes,
        [
            "line 5: the annotation \"hauler.dev/other\" is not known",
            "line 9: the member \"platforms\" is not known, and passed over",
            "line 14: the member \"image\" is not known, and passed over",
            "line 14: the document names nothing"
        ]
    );
}

#[test]
fn the_same_image_for_two_platforms_is_two() {
    let list = taken(&one(
        "  - {name: nginx, platform: linux/amd64}\n  - {name: nginx, platform: linux/arm64}\n",
    ));
    assert_eq!(list.images.len(), 2);
}

#[test]
fn files_are_refused_each_with_its_line() {
    let text = "apiVersion: content.hauler.cattle.io/v1\nkind: Files\nspec:\n  files:\n  \
                - path: https://get.rke2.io/install.sh\n    name: a.sh\n  - path: b.yaml\n";
    assert_eq!(
        faults(text),
        [
            "line 5: the file \"https://get.rke2.io/install.sh\" is not carried from a list",
            "line 7: the file \"b.yaml\" is not carried from a list"
        ]
    );
    let error = read(text.as_bytes(), "l").unwrap_err();
    assert!(error.faults[0].advice.contains("--file PATH=NAME"));
}

#[test]
fn what_cannot_be_taken_is_refused_with_its_line() {
    for (text, want) in [
        (one("  - nginx\n"), "line 5: the image has no name"),
        (one("  - name: 1.10\n"), "line 5: name is a number or a boolean for YAML"),
        (one("  - name: [a]\n"), "line 5: name is no text"),
        (one("  - name: \"\"\n"), "line 5: an image is wanted, and there is nothing"),
        (one("  - Name: nginx\n  - name: b\n"), "line 5: \"Name\" is not name"),
        (one("  - name: see the readme\n"), "is more than one word"),
        (one("  - {name: a, local: true}\n"), "\"a\" is taken from a Docker daemon"),
        (one("  - {name: a, platform: amd64}\n"), "\"amd64\" is no platform"),
        (one("  - name: a\n    name: b\n"), "line 6: \"name\" is given twice"),
        (one("    a: b\n"), "line 5: images is no list"),
        (
            "apiVersion: content.hauler.cattle.io/v2\nkind: Images\n".to_owned(),
            "line 1: \"content.hauler.cattle.io/v2\" is not known",
        ),
        (
            "apiVersion: content.hauler.cattle.io/v1\nkind: Gits\n".to_owned(),
            "line 1: Hauler's kind \"Gits\" is not known",
        ),
        (
            "apiVersion: content.hauler.cattle.io/v1\nkind: ImageTxts\n".to_owned(),
            "line 1: kind ImageTxts names lists that lie elsewhere",
        ),
        (
            "apiVersion: content.hauler.cattle.io/v1\nkind: Images\n".to_owned(),
            "the list names no image: line 1: the document names nothing",
        ),
        (
            "apiVersion: content.hauler.cattle.io/v1\nkind: Images\nmetadata:\n  annotations:\n    \
             hauler.dev/registry: registry.example/path\nspec: {images: [{name: quay.io/a}]}\n"
                .to_owned(),
            "line 5: \"registry.example/path\" is no registry",
        ),
    ] {
        let told = faults(&text);
        assert!(told.iter().any(|told| told.contains(want)), "{text}: {told:?}");
    }
    let charts = |chart: &str| {
        format!(
            "apiVersion: content.hauler.cattle.io/v1\nkind: Charts\nspec: {{charts: [{chart}]}}\n"
        )
    };
    for (chart, want) in [
        (
            "{name: a, repoURL: 'ftp://x/y'}",
            "\"ftp://x/y\" is no repository of charts",
        ),
        (
            "{name: a, repoURL: 'https://u:secret@x/y'}",
            "the URL of the repository holds an @",
        ),
        (
            "{name: a b, repoURL: 'https://x/y'}",
            "\"a b\" is no name of a chart",
        ),
        (
            "{name: ../a, repoURL: 'oci://x/y'}",
            "\"../a\" is no name of a chart",
        ),
        (
            "{name: a, repoURL: 'https://x', version: 1.10}",
            "version is a number",
        ),
        (
            "{name: a, repoURL: 'https://x', version: 1 2}",
            "\"1 2\" is no version of a chart",
        ),
        ("{name: a, repoURL: 'https://{{ .x }}'}", "is a template"),
        ("{repoURL: 'https://x'}", "the chart has no name"),
    ] {
        let told = fault(&charts(chart));
        assert!(
            told.starts_with("line 3: ") && told.contains(want),
            "{chart}: {told}"
        );
        assert!(!told.contains("secret"));
    }
}
