//! The values of a chart and all it includes, also of what is switched off: which images they
//! name, and what switches them on.

use kubepkg_core::chart::Dependency;
use kubepkg_core::yaml::go;
use serde_json::Value as Json;

use crate::chart::Chart;
use crate::documents::LIMITS;

/// All values, and what the charts in them say.
#[derive(Clone, Debug)]
pub struct Values {
    /// The values by their path from the chart that is rendered.
    pub all: Json,
    parts: Vec<Included>,
}

/// A chart and the place of its values.
#[derive(Clone, Debug)]
struct Included {
    at: Vec<String>,
    app_version: String,
    /// Values that switch it on, of which the first that is there decides.
    conditions: Vec<Vec<String>>,
    tags: Vec<String>,
}

impl Values {
    /// The values of `chart` as rendered (`effective`), with the defaults of what was not.
    pub fn of(chart: &Chart, effective: &Json) -> Values {
        let mut parts = Vec::new();
        let mut all = defaults(chart, &[], &mut parts);
        overlay(&mut all, effective);
        Values { all, parts }
    }

    /// The application version of the chart that the value at `path` belongs to.
    pub(crate) fn app_version(&self, path: &[String]) -> &str {
        let owner = self.parts.iter().filter(|part| path.starts_with(&part.at));
        owner
            .max_by_key(|part| part.at.len())
            .map_or("", |part| &part.app_version)
    }

    /// What has to be set so that the value at `path` counts: charts that are switched off, then
    /// switches beside the value and around it.
    pub fn switches_for(&self, path: &[String]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for part in &self.parts {
            if !part.at.is_empty() && path.starts_with(&part.at) {
                found.extend(self.off_switch(part).map(|switch| setting(&switch, true)));
            }
        }
        // the deepest map around the value is the value itself, where it is a map
        for length in (0..=path.len()).rev() {
            let Some(Json::Object(members)) = get(&self.all, &path[..length]) else {
                continue;
            };
            for name in SWITCHES {
                if members.get(*name) == Some(&Json::Bool(false)) {
                    let mut switch = path[..length].to_vec();
                    switch.push((*name).to_owned());
                    let setting = setting(&switch, true);
                    if !found.contains(&setting) {
                        found.push(setting);
                    }
                }
            }
        }
        found
    }

    /// The value that keeps a chart out; `None` for one that is in.
    fn off_switch(&self, part: &Included) -> Option<Vec<String>> {
        let decided = part
            .conditions
            .iter()
            .find_map(|path| match get(&self.all, path) {
                Some(Json::Bool(on)) => Some((path, *on)),
                _ => None,
            });
        if let Some((path, on)) = decided {
            return (!on).then(|| path.clone());
        }
        let tag = |tag: &String| vec!["tags".to_owned(), tag.clone()];
        let off = |name: &String| get(&self.all, &tag(name)) == Some(&Json::Bool(false));
        match part.tags.first() {
            Some(first) if part.tags.iter().all(off) => Some(tag(first)),
            _ => None,
        }
    }

    /// Whether the value at `path` belongs to a chart that is switched off.
    pub(crate) fn is_off(&self, path: &[String]) -> bool {
        self.parts.iter().any(|part| {
            !part.at.is_empty()
                && path.starts_with(&part.at)
                && self.off_switch(part).is_some_and(|switch| switch != path)
        })
    }

    /// The registry that images without one come from, as charts commonly say it.
    pub(crate) fn registry(&self, path: &[String]) -> Option<String> {
        let text = |at: &[String]| match get(&self.all, at) {
            Some(Json::String(text)) if !text.is_empty() && !text.contains("://") => {
                Some(text.clone())
            }
            _ => None,
        };
        for length in (0..path.len()).rev() {
            for names in REGISTRIES {
                let mut at = path[..length].to_vec();
                at.extend(names.iter().map(|name| (*name).to_owned()));
                let Some(registry) = text(&at) else {
                    continue;
                };
                let mut namespace = path[..length].to_vec();
                namespace.push("imageNamespace".to_owned());
                return Some(match text(&namespace) {
                    Some(namespace) => format!("{registry}/{namespace}"),
                    None => registry,
                });
            }
        }
        None
    }
}

/// Names of members that switch on what stands beside them.
const SWITCHES: &[&str] = &["enabled", "enable", "create", "install", "deploy", "use"];

/// Where charts say which registry is used.
const REGISTRIES: &[&[&str]] = &[
    &["global", "imageRegistry"],
    &["global", "image", "registry"],
    &["imageRegistry"],
    &["registry"],
    &["repo"],
];

/// The default values of a chart with those of the charts it includes, under their names.
fn defaults(chart: &Chart, at: &[String], parts: &mut Vec<Included>) -> Json {
    if at.is_empty() {
        parts.push(Included {
            at: Vec::new(),
            app_version: chart.metadata.app_version.clone(),
            conditions: Vec::new(),
            tags: Vec::new(),
        });
    }
    let mut all = match &chart.values {
        Json::Object(members) => Json::Object(members.clone()),
        _ => Json::Object(serde_json::Map::new()),
    };
    for (name, dependency, included) in inclusions(chart) {
        let mut inner = at.to_vec();
        inner.push(name.clone());
        let conditions = dependency.map_or("", |dependency| dependency.condition.as_str());
        let absolute = |path: &str| {
            let steps = path.trim().split('.').map(str::to_owned);
            at.iter().cloned().chain(steps).collect::<Vec<_>>()
        };
        parts.push(Included {
            at: inner.clone(),
            app_version: included.metadata.app_version.clone(),
            conditions: conditions
                .split(',')
                .filter(|c| !c.trim().is_empty())
                .map(absolute)
                .collect(),
            tags: dependency
                .map(|dependency| dependency.tags.clone())
                .unwrap_or_default(),
        });
        let mut below = defaults(included, &inner, parts);
        if let Json::Object(members) = &mut all {
            // what the chart says of an included one wins
            if let Some(own) = members.remove(&name) {
                overlay(&mut below, &own);
            }
            members.insert(name, below);
        }
    }
    all
}

/// The charts in a chart, by the name their values stand under.
pub(crate) fn inclusions(chart: &Chart) -> Vec<(String, Option<&Dependency>, &Chart)> {
    let mut found = Vec::new();
    for dependency in &chart.metadata.dependencies {
        if let Some(included) = chart.included(dependency) {
            let name = match dependency.alias.as_str() {
                "" => dependency.name.clone(),
                alias => alias.to_owned(),
            };
            found.push((name, Some(dependency), included));
        }
    }
    for included in &chart.subcharts {
        let name = &included.metadata.name;
        if !chart
            .metadata
            .dependencies
            .iter()
            .any(|known| known.name == *name)
        {
            found.push((name.clone(), None, included));
        }
    }
    found
}

/// Puts `upper` over `lower`: maps are merged, everything else is replaced.
fn overlay(lower: &mut Json, upper: &Json) {
    match (lower, upper) {
        (Json::Object(lower), Json::Object(upper)) => {
            for (key, value) in upper {
                match lower.get_mut(key) {
                    Some(below) => overlay(below, value),
                    None => drop(lower.insert(key.clone(), value.clone())),
                }
            }
        }
        (_, Json::Null) => {}
        (lower, upper) => *lower = upper.clone(),
    }
}

/// The value at a path.
pub(crate) fn get<'v>(values: &'v Json, path: &[String]) -> Option<&'v Json> {
    path.iter()
        .try_fold(values, |value, key| value.get(key.as_str()))
}

/// A path as Helm's `--set` takes it.
pub(crate) fn dotted(path: &[String]) -> String {
    let escaped = |key: &String| {
        let mut text = String::new();
        for c in key.chars() {
            if matches!(c, '.' | ',' | '=' | '[' | ']' | '{' | '}' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        text
    };
    path.iter().map(escaped).collect::<Vec<_>>().join(".")
}

/// `path=true`.
pub(crate) fn setting(path: &[String], on: bool) -> String {
    format!("{}={on}", dotted(path))
}

/// The values as the tree that documents are read into.
pub(crate) fn as_node(values: &Json) -> Option<kubepkg_core::yaml::Node<'static>> {
    // JSON is YAML, but for a character that JSON leaves as it is
    let text = values.to_string().replace('\u{7f}', "\\u007f");
    go::parse_all(text.as_bytes(), &LIMITS)
        .ok()?
        .into_iter()
        .next()
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn path(dotted: &str) -> Vec<String> {
        dotted.split('.').map(str::to_owned).collect()
    }

    fn part(at: &str, conditions: &[&str], tags: &[&str]) -> Included {
        Included {
            at: path(at),
            app_version: format!("{at}-version"),
            conditions: conditions.iter().map(|c| path(c)).collect(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        }
    }

    #[test]
    fn switches_around_a_value_are_found() {
        let values = Values {
            all: json!({
                "side": {"enabled": false, "image": {"repository": "a/b"}},
                "db": {"enabled": false, "metrics": {"enabled": false, "image": "x:1"}},
                "on": {"enabled": true, "image": "x:1"},
                "mail": {"image": "x:1"},
                "tags": {"post": false},
            }),
            parts: vec![
                part("db", &["db.enabled"], &[]),
                part("mail", &["mail.none"], &["post"]),
            ],
        };
        let switches = |at: &str| values.switches_for(&path(at));
        assert_eq!(switches("side.image"), ["side.enabled=true"]);
        assert_eq!(
            switches("db.metrics.image"),
            ["db.enabled=true", "db.metrics.enabled=true"]
        );
        assert!(switches("on.image").is_empty());
        assert_eq!(switches("mail.image"), ["tags.post=true"]);
        assert!(values.is_off(&path("db.metrics.enabled")));
        assert!(!values.is_off(&path("db.enabled")) && !values.is_off(&path("side.enabled")));
        assert_eq!(values.app_version(&path("db.metrics.image")), "db-version");
    }

    #[test]
    fn what_was_rendered_wins_over_defaults_and_null_takes_nothing_away() {
        let mut values = json!({"a": {"b": 1, "c": 2}, "d": [1], "e": 5});
        overlay(
            &mut values,
            &json!({"a": {"b": 3}, "d": [], "e": null, "f": true}),
        );
        assert_eq!(
            values,
            json!({"a": {"b": 3, "c": 2}, "d": [], "e": 5, "f": true})
        );
    }

    #[test]
    fn a_path_is_written_as_helm_reads_it() {
        assert_eq!(
            setting(&["a.b".to_owned(), "c".to_owned()], false),
            "a\\.b.c=false"
        );
    }

    #[test]
    fn registries_are_found_where_charts_say_them() {
        let values = Values {
            all: json!({"imageRegistry": "quay.io", "imageNamespace": "jetstack", "sub": {"global": {"image": {"registry": "r.io"}}}}),
            parts: Vec::new(),
        };
        assert_eq!(
            values.registry(&path("webhook.image")).as_deref(),
            Some("quay.io/jetstack")
        );
        assert_eq!(values.registry(&path("sub.image")).as_deref(), Some("r.io"));
    }
}
