//! Whatever the text: the search ends without a panic, and what it finds is an image.

use kubepkg_core::Reference;
use kubepkg_images::{Rules, walk};
use proptest::prelude::*;

/// What documents with images are made of.
const TOKENS: &[&str] = &[
    "kind: Secret\n",
    "kind: ConfigMap\n",
    "kind: List\n",
    "items:\n",
    "kind: CustomResourceDefinition\n",
    "apiVersion: kubevirt.io/v1\n",
    "kind: KubeVirt\n",
    "data:\n",
    "spec:\n",
    "containers:\n",
    "  ",
    "- ",
    "image: ",
    "quay.io/a/b:1",
    "nginx",
    "env:\n",
    "{name: X_IMAGE, value: ",
    "}",
    "args: [",
    "]",
    "--x-image=",
    ", ",
    "|\n",
    "repository: ",
    "tag: ",
    "digest: ",
    "sha256:",
    "---\n",
    "\n",
    "'",
    "\"",
    "a: &a ",
    "*a",
    "<<: ",
    "é",
    "\u{2028}",
    "# Source: x\n",
    "{",
    "[",
    "=",
    ":",
    "@",
    "/",
    "versions:\n",
    "schema:\n",
    "openAPIV3Schema:\n",
    "default: ",
];

fn made() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(TOKENS), 0..60).prop_map(|parts| parts.concat())
}

fn holds(text: &str) {
    let findings = walk("x", text, &Rules::built_in());
    for seen in findings.sightings {
        let again: Reference = seen.image.to_string().parse().expect("is a reference");
        assert_eq!(again, seen.image);
    }
}

proptest! {
    #[test]
    fn texts_made_of_what_documents_are_made_of(text in made()) {
        holds(&text);
    }

    #[test]
    fn any_text(text in "\\PC{0,200}") {
        holds(&text);
    }

    #[test]
    fn documents_within_documents(text in made(), levels in 0usize..8) {
        let mut text = text;
        for _ in 0..levels {
            text = format!("data:\n  x: |\n    {}", text.replace('\n', "\n    "));
        }
        holds(&text);
    }
}
