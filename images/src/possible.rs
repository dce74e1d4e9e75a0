//! Images that values name and no document runs.

use std::collections::BTreeSet;

use kubepkg_core::Reference;
use kubepkg_core::yaml::{Node, Value};

use crate::chart::Chart;
use crate::found::{How, Place};
use crate::plausible::{Expect, Verdict, judge};
use crate::rules::Rules;
use crate::salvage;
use crate::shape;
use crate::values::{Values, as_node, dotted};
use crate::walk::Walker;
use crate::words::{self, Named};

/// An image that values name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Possible {
    /// The image, as far as the values say it.
    pub image: Reference,
    /// Whether its version is only that of the chart's application, or none is known.
    pub version_assumed: bool,
    /// The path of the value, as `--set` takes it; empty where a template names it.
    pub value: String,
    /// The template and line that name it.
    pub place: Option<Place>,
    /// Settings under which it may be used; empty where no switch was found.
    pub switches: Vec<String>,
}

/// An image in the values, before it is compared with what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    path: Vec<String>,
    image: Reference,
    /// Whether the values say the registry.
    registry: bool,
    /// Whether the values say the version.
    version: bool,
}

/// The images that `values` name and that are not among those `found`.
pub fn possible(values: &Values, found: &BTreeSet<Reference>, rules: &Rules) -> Vec<Possible> {
    let Some(root) = as_node(&values.all) else {
        return Vec::new();
    };
    let mut candidates = Vec::new();
    let mut search = Search {
        values,
        rules,
        found: &mut candidates,
    };
    search.visit(&root, &mut Vec::new(), "");
    let mut possible: Vec<Possible> = candidates
        .into_iter()
        .filter(|candidate| !found.iter().any(|image| candidate.is(image)))
        .map(|candidate| Possible {
            version_assumed: !candidate.version,
            value: dotted(&candidate.path),
            place: None,
            switches: values.switches_for(&candidate.path),
            image: candidate.image,
        })
        .collect();
    possible.sort();
    possible.dedup();
    possible
}

/// The images that templates of `chart` name in so many words and that are not among those
/// `found`. What switches them on is written in the language of templates.
pub fn literals(chart: &Chart, found: &BTreeSet<Reference>, rules: &Rules) -> Vec<Possible> {
    let mut literals: Vec<Possible> = Vec::new();
    for (source, text) in chart.templates() {
        if source.ends_with(".txt") {
            continue;
        }
        for line in salvage::lines(&text) {
            let image = match judge(line.value, Expect::Named, rules) {
                Verdict::Image(image) | Verdict::Perhaps(image) => image,
                _ => continue,
            };
            if found.contains(&image) || literals.iter().any(|known| known.image == image) {
                continue;
            }
            literals.push(Possible {
                image,
                version_assumed: false,
                value: String::new(),
                place: Some(Place {
                    source: source.clone(),
                    object: String::new(),
                    path: format!("line {}", line.number),
                }),
                switches: Vec::new(),
            });
        }
    }
    literals
}

impl Candidate {
    /// Whether this is the image that was found: what the values leave open may be anything.
    fn is(&self, found: &Reference) -> bool {
        let same_place = match self.registry {
            true => found.host() == self.image.host() && found.path() == self.image.path(),
            false => ends_with(found.path(), written(&self.image)),
        };
        let same_version = match (found.digest(), self.image.digest()) {
            _ if !self.version => true,
            (Some(found), Some(own)) => found == own,
            _ => found.tag() == self.image.tag(),
        };
        same_place && same_version
    }
}

/// The path as it was written: Docker Hub's `library/` is filled in.
fn written(image: &Reference) -> &str {
    image
        .path()
        .strip_prefix("library/")
        .unwrap_or(image.path())
}

fn ends_with(path: &str, end: &str) -> bool {
    path == end
        || path
            .strip_suffix(end)
            .is_some_and(|rest| rest.ends_with('/'))
}

struct Search<'a> {
    values: &'a Values,
    rules: &'a Rules,
    found: &'a mut Vec<Candidate>,
}

impl Search<'_> {
    fn visit(&mut self, node: &Node<'_>, path: &mut Vec<String>, name: &str) {
        match &node.value {
            Value::Map(entries) => {
                let shape = shape::of(entries, name);
                if let Some(shape) = &shape {
                    self.shape(shape, path);
                }
                for (key, value) in entries {
                    let taken = shape.as_ref().is_some_and(|shape| shape.uses(key));
                    if taken && matches!(value.value, Value::Text(_)) {
                        continue;
                    }
                    path.push(key.to_string());
                    self.visit(value, path, key);
                    path.pop();
                }
            }
            Value::List(_) => self.list(node, path, name),
            Value::Text(text) => self.text(text, path, name),
            _ => {}
        }
    }

    /// Lists have no paths that switches could stand at: one for all elements.
    fn list(&mut self, list: &Node<'_>, path: &[String], name: &str) {
        let mut walker = Walker::of_source("", self.rules);
        walker.at_best = How::Possible;
        walker.member(name, list, "");
        for seen in walker.into_findings().sightings {
            self.add(path, seen.image, true, true);
        }
    }

    fn text(&mut self, text: &str, path: &[String], name: &str) {
        let named = words::field(name);
        let expect = match named {
            Named::Nothing => Expect::Anything,
            _ => Expect::Named,
        };
        match judge(text, expect, self.rules) {
            Verdict::Image(image) => {
                let last = text.rsplit('/').next().unwrap_or_default();
                let version = last.contains([':', '@']);
                self.add(path, image, text.contains('/'), version);
            }
            Verdict::Perhaps(image) if named == Named::Image => {
                self.add(path, image, text.contains('/'), false);
            }
            _ => {}
        }
    }

    fn shape(&mut self, shape: &shape::Shape, path: &[String]) {
        let mut shape = shape.clone();
        let version = shape.has_version();
        if !version {
            shape.tag = self.values.app_version(path).to_owned();
        }
        let hosted = |text: &str| {
            let first = text.split('/').next().unwrap_or_default();
            text.contains('/') && (first.contains(['.', ':']) || first == "localhost")
        };
        if shape.registry.is_empty() && !hosted(&shape.repository) {
            shape.registry = self.values.registry(path).unwrap_or_default();
        }
        let registry = !shape.registry.is_empty() || hosted(&shape.repository);
        let mut judged = judge(&shape.text(), Expect::Image, self.rules);
        if !matches!(judged, Verdict::Image(_)) && !version {
            // an application's version need not be a tag
            shape.tag.clear();
            judged = judge(&shape.text(), Expect::Image, self.rules);
        }
        if let Verdict::Image(image) = judged {
            self.add(path, image, registry, version);
        }
    }

    fn add(&mut self, path: &[String], image: Reference, registry: bool, version: bool) {
        self.found.push(Candidate {
            path: path.to_vec(),
            image,
            registry,
            version,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What values name beside these images, as `image value switches`.
    fn told(values: &str, found: &[&str]) -> Vec<String> {
        let metadata = "apiVersion: v2\nname: web\nversion: 1.0.0\nappVersion: v9.1\n";
        let files = [("Chart.yaml", metadata), ("values.yaml", values)];
        let chart = Chart::for_tests(&files).unwrap();
        let values = Values::of(&chart, &serde_json::Value::Null);
        let found = found.iter().map(|text| text.parse().unwrap()).collect();
        possible(&values, &found, &Rules::built_in())
            .into_iter()
            .map(|one| {
                let assumed = if one.version_assumed { "?" } else { "" };
                format!(
                    "{}{assumed} {} {}",
                    one.image,
                    one.value,
                    one.switches.join(" ")
                )
            })
            .collect()
    }

    #[test]
    fn what_is_found_is_no_longer_possible() {
        let values = "
image: {registry: quay.io, repository: a/web, tag: ''}
side: {enabled: false, image: {repository: quay.io/a/side, tag: 1.2.0}}
plain: {image: 'quay.io/a/plain:3'}
cron: {image: {image: a/cron, tag: v1, digest: ''}}
";
        assert_eq!(
            told(
                values,
                &[
                    "quay.io/a/web:v8",
                    "quay.io/a/plain:3",
                    "r.example.com/a/cron:v1"
                ]
            ),
            ["quay.io/a/side:1.2.0 side.image side.enabled=true"]
        );
        // another version of it is another image
        assert_eq!(
            told("i: {image: 'quay.io/a/b:1'}", &["quay.io/a/b:2"]),
            ["quay.io/a/b:1 i.image "]
        );
    }

    #[test]
    fn shapes_are_completed_as_charts_do() {
        let values = "
imageRegistry: quay.io
imageNamespace: jetstack
webhook: {image: {repository: '', name: webhook, pullPolicy: Always}}
extra: {containers: [{image: 'quay.io/a/extra:1'}], args: ['--x-image=quay.io/a/arg:1']}
controller: quay.io/a/kept:v1
url: https://quay.io/a/no:1
note: see quay.io/a/no:1
git: {repository: a/b, branch: main}
proxy: {imageRegistry: mirror.example.com, repo: a/proxy, tag: 2}
";
        assert_eq!(
            told(values, &[]),
            [
                "mirror.example.com/a/proxy:2 proxy ",
                "quay.io/a/arg:1 extra.args ",
                "quay.io/a/extra:1 extra.containers ",
                "quay.io/a/kept:v1 controller ",
                "quay.io/jetstack/webhook:v9.1? webhook.image ",
            ]
        );
    }

    #[test]
    fn templates_name_images_in_so_many_words() {
        let template = "\
{{- if .Values.shell }}
image: ubuntu:latest
{{- end }}
# image: quay.io/a/old:1
{{/* image: busybox */}}
image: busybox
image: \"{{ .Values.image }}:{{ .Values.tag }}\"
image: a/db:pg12-{{ .Values.version }}
imagePullPolicy: Always
";
        let files = [
            ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            ("templates/a.yaml", template),
            ("templates/NOTES.txt", "image: quay.io/a/notes:1"),
        ];
        let chart = Chart::for_tests(&files).unwrap();
        let found = ["docker.io/library/ubuntu:latest".parse().unwrap()].into();
        let told: Vec<String> = literals(&chart, &found, &Rules::built_in())
            .into_iter()
            .map(|one| format!("{} {}", one.image, one.place.unwrap()))
            .collect();
        assert_eq!(
            told,
            ["docker.io/library/busybox:latest web/templates/a.yaml: line 6"]
        );
    }
}
