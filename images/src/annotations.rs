//! What a chart itself says of its images.

use std::collections::BTreeMap;

use crate::found::{Findings, How};
use crate::rules::Rules;
use crate::walk::Walker;

/// Annotations of a chart that list images, as YAML in a text.
const LISTS: &[&str] = &["artifacthub.io/images", "helm.sh/images", "images"];

/// The images in the annotations of a `Chart.yaml`, which is `source`.
pub fn annotations(
    source: &str,
    annotations: &BTreeMap<String, String>,
    rules: &Rules,
) -> Findings {
    let mut walker = Walker::of_source(source, rules);
    walker.at_best = How::Annotation;
    for name in LISTS {
        if let Some(text) = annotations.get(*name) {
            walker.text(text, &format!("annotations[\"{name}\"]"), name);
        }
    }
    walker.into_findings()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_images_are_read() {
        let texts = [
            (
                "artifacthub.io/images",
                "- name: web\n  image: quay.io/a/web:1\n- name: side\n  image: quay.io/a/side:2\n  whitelisted: true\n",
            ),
            (
                "images",
                "- {name: x, image: 'docker.io/a/x:3'}\n- {name: y, image: '{{ .x }}'}\n",
            ),
            ("artifacthub.io/links", "- url: https://quay.io/a/no:1\n"),
        ];
        let texts = texts.map(|(key, text)| (key.to_owned(), text.to_owned()));
        let found = annotations(
            "Chart.yaml",
            &texts.into_iter().collect(),
            &Rules::built_in(),
        );
        let images: Vec<String> = found
            .sightings
            .iter()
            .map(|s| format!("{} {}", s.how, s.image))
            .collect();
        assert_eq!(
            images,
            [
                "annotation quay.io/a/web:1",
                "annotation quay.io/a/side:2",
                "annotation docker.io/a/x:3"
            ]
        );
        assert!(found.unread.is_empty());
    }
}
