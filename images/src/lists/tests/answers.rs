use super::super::Form;
use super::*;

#[test]
fn lists_in_yaml_and_json() {
    for text in [
        "- nginx\n- busybox:1 # the shell\n",
        "# ours\n---\n- 'nginx'\n- \"busybox:1\"\n",
        "[nginx, busybox:1]\n",
        "[\n\t\"nginx\",\n\t\"busybox:1\"\n]\n",
    ] {
        let list = taken(text);
        assert_eq!(list.form, Form::Strings);
        let named: Vec<_> = images(&list).iter().map(|(image, _)| *image).collect();
        assert_eq!(named, ["nginx", "busybox:1"], "{text}");
    }
    let text = format!("- &a busybox@{D}\n- *a\n- a:1\n");
    let list = taken(&text);
    assert_eq!(list.images.len(), 2);
    assert_eq!(
        list.notes,
        ["line 2: an image that is named before is taken once"]
    );
}

#[test]
fn answers_of_helm_images() {
    let json = r#"[
     {
          "kind": "Deployment",
          "name": "web",
          "image": [
               "quay.io/a/web:1",
               "busybox:1"
          ]
     },
     {
          "kind": "ConfigMap",
          "name": "none"
     }
]"#;
    let list = taken(json);
    assert_eq!(list.form, Form::HelmImages);
    assert_eq!(images(&list), [("quay.io/a/web:1", 6), ("busybox:1", 7)]);
    let yaml = "---\n- kind: ConfigMap\n- kind: Deployment\n  name: web\n  image:\n    - quay.io/a/web:1\n";
    assert_eq!(images(&taken(yaml)), [("quay.io/a/web:1", 6)]);
    assert_eq!(
        fault("- image: [nginx]\n  namespace: x\n"),
        "line 2: helm images writes no member \"namespace\""
    );
    assert_eq!(fault("- image: nginx\n"), "line 1: image is no list");
    assert_eq!(
        fault("- image: [nginx]\n- b\n"),
        "line 2: this is no object of helm images"
    );
    assert_eq!(
        fault("- name: nginx\n"),
        "line 1: this is a list of something else than images"
    );
}

#[test]
fn the_table_of_helm_images() {
    let text = "\
+------+-------------+------------------+
| Name |    Kind     |      Image       |
+------+-------------+------------------+
| web  | Deployment  | quay.io/a/web:1, |
|      |             |    busybox:1     |
+      +-------------+------------------+
|      | StatefulSet | quay.io/a/db:1   |
+------+-------------+                  +
| db   | Job         |                  |
+------+-------------+------------------+
";
    let list = taken(text);
    assert_eq!(list.form, Form::HelmImages);
    assert_eq!(
        images(&list),
        [
            ("quay.io/a/web:1", 4),
            ("busybox:1", 5),
            ("quay.io/a/db:1", 7)
        ]
    );
    let boxed = "┌──────┬──────┬───────┐\n│ Name │ Kind │ Image │\n├──────┼──────┼───────┤\n│ a    \
                 │ Pod  │ nginx │\n└──────┴──────┴───────┘\n";
    assert_eq!(images(&taken(boxed)), [("nginx", 4)]);
    for text in [
        "| a | b | nginx |\n",
        "| Name | Kind | Image |\nnginx\n",
        "|a|b|\n",
    ] {
        assert!(
            fault(text).contains("is no row of the table of helm images"),
            "{text}"
        );
    }
    assert_eq!(
        fault("| Name | Kind | Image |\n| a | Pod | see the readme |\n| b | Pod | A |\n"),
        "line 3: \"A\" is no image: the path must be lower-case elements joined by '/', at most \
         255 characters"
    );
    assert!(fault("\u{1b}[1mnginx\n").starts_with("line 1: a control character"));
}

#[test]
fn our_own_answers() {
    let list = taken("images:\n- quay.io/a/b:1\n- docker.io/library/nginx:latest\n");
    assert_eq!(list.form, Form::Kubepkg);
    assert_eq!(images(&list)[1], ("docker.io/library/nginx:latest", 3));
    let json = r#"{
  "images": [
    {"image": "docker.io/library/nginx:1", "how": "container", "places": []}
  ],
  "possible": [{"image": "docker.io/library/x:1"}],
  "unread": [], "failed": [{"chart": "c", "why": "w"}], "outside": [], "later": 1
}"#;
    let list = taken(json);
    assert_eq!(images(&list), [("docker.io/library/nginx:1", 3)]);
    assert_eq!(
        list.notes,
        [
            "line 5: images that may be run with other values are not taken",
            "line 6: charts did not render, so images may be missing"
        ]
    );
    // as the library writes it
    let report = crate::Report::default();
    let empty = serde_json::to_string_pretty(&report).unwrap();
    assert_eq!(fault(&empty), "the list names no image");
    assert_eq!(
        fault("images: [a]\nother: 1\n"),
        "line 1: a document without kind is no list of images"
    );
}

#[test]
fn a_configuration_of_oc_mirror() {
    let text = "\
kind: ImageSetConfiguration
apiVersion: mirror.openshift.io/v2alpha1
mirror:
  platform:
    channels:
    - name: stable-4.16
  operators:
  - catalog: registry.redhat.io/redhat/redhat-operator-index:v4.16
  additionalImages:
  - name: registry.redhat.io/ubi8/ubi:latest
  - name: quay.io/a/b:1
    targetTag: other
  helm:
    repositories:
    - name: podinfo
      url: https://stefanprodan.github.io/podinfo
      charts:
      - name: podinfo
        version: 5.0.0
    local:
    - name: mine
      path: mine.tgz
";
    let list = taken(text);
    assert_eq!(list.form, Form::OcMirror);
    assert_eq!(
        images(&list),
        [
            ("registry.redhat.io/ubi8/ubi:latest", 10),
            ("quay.io/a/b:1", 11)
        ]
    );
    assert_eq!(
        list.charts,
        [chart(
            "https://stefanprodan.github.io/podinfo",
            "podinfo",
            Some("5.0.0"),
            18
        )]
    );
    assert_eq!(
        list.notes,
        [
            "line 11: the image keeps its own name, not the one of its target",
            "line 18: the images of the chart are not looked up here",
            "line 21: the chart \"mine\" lies in a folder, and is not carried",
            "line 5: releases of OpenShift are not worked out here",
            "line 8: catalogs of operators are not worked out here"
        ]
    );
    let old = text.replace("v2alpha1", "v1alpha1");
    assert_eq!(
        fault(&old),
        "line 1: \"mirror.openshift.io/v1alpha1\" is not known"
    );
    let config = |mirror: &str| {
        format!("apiVersion: mirror.openshift.io/v1alpha2\nkind: ImageSetConfiguration\n{mirror}")
    };
    assert_eq!(
        fault(&config("mirror: {additionalImages: [a]}\n")),
        "line 3: the image has no name"
    );
    assert_eq!(fault(&config("mirror: 1\n")), "line 3: mirror is no map");
    assert_eq!(
        fault(&config("archiveSize: 4\n")),
        "the list names no image"
    );
}
