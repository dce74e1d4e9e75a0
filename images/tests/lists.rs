//! Whatever the text: reading a list ends without a panic, and what is taken are references.

use kubepkg_core::Reference;
use kubepkg_images::lists::{Form, read};
use proptest::prelude::*;

/// What lists are made of.
const TOKENS: &[&str] = &[
    "apiVersion: content.hauler.cattle.io/v1\n",
    "kind: Images\n",
    "kind: Charts\n",
    "kind: ZarfPackageConfig\n",
    "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\n",
    "mirror:\n",
    "additionalImages:\n",
    "metadata: {annotations: {hauler.dev/registry: r.example}}\n",
    "spec:\n",
    "components:\n",
    "images:\n",
    "charts:\n",
    "  ",
    "- ",
    "name: ",
    "image: ",
    "url: https://x.example\n",
    "version: 1.0.0\n",
    "platform: linux/amd64\n",
    "quay.io/a/b:1",
    "rancher/a:1 core,b:1\n",
    "nginx",
    "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    "| Name | Kind | Image |\n",
    "| ",
    " |\n",
    "+--+\n",
    "---\n",
    "\n",
    "\r\n",
    "\n",
    "'",
    "\"",
    "&a ",
    "*a",
    "<<: ",
    "é",
    "\u{2028}",
    "\u{FEFF}",
    "# x\n",
    " #",
    "{",
    "}",
    "[",
    "]",
    ",",
    "@",
    "/",
    ":",
];

fn made() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(TOKENS), 0..60)
        .prop_map(|parts| parts.concat().into_bytes())
}

fn legal() -> impl Strategy<Value = String> {
    "([a-z]{1,8}\\.example(:[1-9][0-9]{1,3})?/)?[a-z0-9]{1,6}(/[a-z0-9]{1,6}){0,2}(:[A-Za-z0-9]{1,6})?\
     (@sha256:[0-9a-f]{64})?"
}

fn holds(text: &[u8]) -> Result<(), TestCaseError> {
    match read(text, "list") {
        Ok(list) => {
            let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
            for image in &list.images {
                prop_assert!(image.reference.parse::<Reference>().is_ok(), "{:?}", image);
                prop_assert!((1..=lines).contains(&image.line), "{:?}", image);
            }
            prop_assert!(!list.images.is_empty() || !list.charts.is_empty());
        }
        Err(error) => {
            prop_assert!(!error.faults.is_empty());
            prop_assert!(error.to_string().len() < 16 * 1024);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..400)) {
        holds(&text)?;
    }

    #[test]
    fn any_lines_are_read_or_refused(text in "(\\PC{0,20}\n){0,8}") {
        holds(text.as_bytes())?;
    }

    #[test]
    fn what_looks_like_a_list_is_read_or_refused(text in made()) {
        holds(&text)?;
    }

    #[test]
    fn every_form_gives_back_what_was_written(written in prop::collection::vec(legal(), 1..20)) {
        let mut once: Vec<&str> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for text in &written {
            let reference: Reference = text.parse().unwrap();
            if seen.insert(reference) {
                once.push(text);
            }
        }
        let items = |before: &str| -> String {
            written.iter().map(|text| format!("{before}\"{text}\"\n")).collect()
        };
        let texts = [
            (Form::Plain, written.join("\n")),
            (Form::Plain, written.join("  # why\r\n")),
            (Form::Strings, items("- ")),
            (Form::Strings, serde_json::to_string(&written).unwrap()),
            (Form::Kubepkg, format!("images:\n{}", items("- "))),
            (
                Form::Hauler,
                format!(
                    "apiVersion: content.hauler.cattle.io/v1\nkind: Images\nspec:\n  images:\n{}",
                    items("  - name: ")
                ),
            ),
            (
                Form::Zarf,
                format!(
                    "kind: ZarfPackageConfig\ncomponents:\n- name: a\n  images:\n{}",
                    items("  - ")
                ),
            ),
        ];
        for (form, text) in texts {
            let list = read(text.as_bytes(), "list").unwrap();
            prop_assert_eq!(list.form, form);
            let read: Vec<&str> = list.images.iter().map(|i| i.reference.as_str()).collect();
            prop_assert_eq!(&read, &once);
        }
    }
}
