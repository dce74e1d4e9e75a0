//! What is known of kinds and registries: the table `rules.yaml`, read strictly.

use std::borrow::Cow;
use std::collections::HashMap;

use kubepkg_core::yaml::{Node, Value, YamlError, strict};
use serde::Deserialize;

/// The table that is compiled in.
const BUILT_IN: &str = include_str!("rules.yaml");

/// What is known of kinds and registries.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    registries: Vec<String>,
    placeholders: Vec<String>,
    kinds: HashMap<(String, String), Kind>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    registries: Vec<String>,
    placeholders: Vec<String>,
    kinds: Vec<KindEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KindEntry {
    kind: String,
    group: String,
    #[serde(default)]
    fields: Vec<String>,
    #[serde(default)]
    listed: Vec<String>,
    #[serde(default)]
    derived: Vec<DerivedEntry>,
    #[serde(default)]
    ignored: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DerivedEntry {
    image: String,
    #[serde(default)]
    unless: Option<String>,
}

/// What is known of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kind {
    /// Fields that hold an image.
    pub(crate) fields: Vec<Path>,
    /// Fields that list what a package runs.
    pub(crate) listed: Vec<Path>,
    /// Images put together from fields.
    pub(crate) derived: Vec<Derived>,
    /// Fields that hold no image that is run.
    pub(crate) ignored: Vec<Path>,
}

/// An image put together from fields.
#[derive(Clone, Debug)]
pub(crate) struct Derived {
    parts: Vec<Part>,
    unless: Option<Path>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Field(Path),
}

/// A way through a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    Every,
    Elements,
}

impl Path {
    fn parse(text: &str) -> Path {
        let mut steps = Vec::new();
        for part in text.split('.') {
            let name = part.trim_end_matches("[]");
            steps.push(match name {
                "*" => Step::Every,
                name => Step::Member(name.to_owned()),
            });
            steps.extend((0..(part.len() - name.len()) / 2).map(|_| Step::Elements));
        }
        Path(steps)
    }

    /// The values this leads to, each with its place.
    pub(crate) fn find<'n, 'a>(&self, root: &'n Node<'a>) -> Vec<(String, &'n Node<'a>)> {
        let mut there = vec![(String::new(), root)];
        for step in &self.0 {
            there = there
                .into_iter()
                .flat_map(|(place, node)| step.from(&place, node))
                .collect();
        }
        there
    }
}

impl Step {
    fn from<'n, 'a>(&self, place: &str, node: &'n Node<'a>) -> Vec<(String, &'n Node<'a>)> {
        match (self, &node.value) {
            (Step::Member(name), Value::Map(entries)) => entries
                .iter()
                .filter(|(key, _)| key == name)
                .map(|(key, child)| (member(place, key), child))
                .collect(),
            (Step::Every, Value::Map(entries)) => entries
                .iter()
                .map(|(key, child)| (member(place, key), child))
                .collect(),
            (Step::Elements, Value::List(items)) => items
                .iter()
                .enumerate()
                .map(|(n, child)| (element(place, n), child))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// The place of a member, e.g. `spec.image` or `data["config.yaml"]`.
pub(crate) fn member(place: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    match (plain, place) {
        (true, "") => key.to_owned(),
        // a document within a document begins
        (true, place) if place.ends_with(':') => format!("{place} {key}"),
        (true, place) => format!("{place}.{key}"),
        (false, place) => format!("{place}[\"{key}\"]"),
    }
}

/// The place of an element.
pub(crate) fn element(place: &str, n: usize) -> String {
    match place.ends_with(':') {
        true => format!("{place} [{n}]"),
        false => format!("{place}[{n}]"),
    }
}

impl Derived {
    fn parse(entry: &DerivedEntry) -> Derived {
        let mut parts = Vec::new();
        let mut rest = entry.image.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let (path, behind) = after.split_once('}').unwrap_or((after, ""));
            parts.push(Part::Text(before.to_owned()));
            parts.push(Part::Field(Path::parse(path)));
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        Derived {
            parts,
            unless: entry.unless.as_deref().map(Path::parse),
        }
    }

    /// The image of this document, with the place of the last field it is made of.
    pub(crate) fn of(&self, root: &Node<'_>) -> Option<(String, String)> {
        let given = |path: &Path| path.find(root).iter().any(|(_, node)| text(node).is_some());
        if self.unless.as_ref().is_some_and(given) {
            return None;
        }
        let mut image = String::new();
        let mut place = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => image.push_str(text),
                Part::Field(path) => {
                    let (found, node) = path.find(root).into_iter().next()?;
                    image.push_str(&text(node)?);
                    place = found;
                }
            }
        }
        Some((image, place))
    }
}

/// The text of a scalar that says something.
fn text<'n>(node: &'n Node<'_>) -> Option<Cow<'n, str>> {
    node.text().filter(|text| !text.trim().is_empty())
}

impl Rules {
    /// The table that is compiled in.
    pub fn built_in() -> Rules {
        // A test reads it, so that it can be read.
        Rules::read(BUILT_IN).unwrap_or_default()
    }

    /// Reads a table.
    ///
    /// # Errors
    /// It is no such table.
    pub fn read(text: &str) -> Result<Rules, YamlError> {
        let file: File = strict::from_str(text)?;
        let paths = |texts: &[String]| texts.iter().map(|text| Path::parse(text)).collect();
        let kinds = file.kinds.iter().map(|entry| {
            let kind = Kind {
                fields: paths(&entry.fields),
                listed: paths(&entry.listed),
                derived: entry.derived.iter().map(Derived::parse).collect(),
                ignored: paths(&entry.ignored),
            };
            ((entry.group.clone(), entry.kind.clone()), kind)
        });
        Ok(Rules {
            kinds: kinds.collect(),
            registries: file.registries,
            placeholders: file.placeholders,
        })
    }

    /// What is known of this kind.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.kinds.get(&(group.to_owned(), kind.to_owned()))
    }

    /// Whether images come from this host.
    pub(crate) fn is_registry(&self, host: &str) -> bool {
        self.registries
            .iter()
            .any(|known| match known.strip_prefix('*') {
                Some(end) => host.ends_with(end),
                None => host == known,
            })
    }

    /// Whether this word only stands where an image will be.
    pub(crate) fn is_placeholder(&self, text: &str) -> bool {
        self.placeholders.iter().any(|word| word == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::yaml::go;

    #[test]
    fn the_built_in_table_is_sound() {
        let rules = Rules::read(BUILT_IN).unwrap();
        assert!(rules.kinds.len() > 50);
        let file: File = strict::from_str(BUILT_IN).unwrap();
        assert_eq!(file.kinds.len(), rules.kinds.len(), "a kind is given twice");
        for entry in &file.kinds {
            let says =
                entry.fields.len() + entry.listed.len() + entry.derived.len() + entry.ignored.len();
            assert!(says > 0, "{} says nothing", entry.kind);
            for derived in &entry.derived {
                let fields = derived.image.matches('{').count();
                assert!(
                    fields > 0 && fields == derived.image.matches('}').count(),
                    "{}",
                    derived.image
                );
            }
        }
        assert!(rules.is_registry("quay.io") && rules.is_registry("eu-docker.pkg.dev"));
        assert!(!rules.is_registry("pkg.dev.example.com"));
    }

    #[test]
    fn a_path_goes_through_lists_and_maps() {
        let root = go::parse(b"spec: {a: [{image: x}, {image: y}], b: {c: {image: z}}}").unwrap();
        let find = |path: &str| -> Vec<String> {
            Path::parse(path)
                .find(&root)
                .into_iter()
                .map(|(place, _)| place)
                .collect()
        };
        assert_eq!(
            find("spec.a[].image"),
            ["spec.a[0].image", "spec.a[1].image"]
        );
        assert_eq!(find("spec.b.*.image"), ["spec.b.c.image"]);
        assert!(find("spec.none.image").is_empty());
        assert_eq!(member("data", "a.yaml"), "data[\"a.yaml\"]");
    }

    #[test]
    fn a_derived_image_needs_all_its_fields() {
        let derived = Derived::parse(&DerivedEntry {
            image: "h/{spec.type}:{spec.version}".to_owned(),
            unless: Some("spec.image".to_owned()),
        });
        let of = |text: &str| {
            derived
                .of(&go::parse(text.as_bytes()).unwrap())
                .map(|(image, _)| image)
        };
        assert_eq!(
            of("spec: {type: a, version: 8.1.0}").as_deref(),
            Some("h/a:8.1.0")
        );
        assert_eq!(of("spec: {type: a}"), None);
        assert_eq!(of("spec: {type: a, version: 1, image: x}"), None);
    }
}
