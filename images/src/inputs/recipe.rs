//! Recipes and packages: what they are made of.

use std::path::{Component, Path, PathBuf};

use kubepkg_core::yaml::{Node, Value};

use super::{Outside, Wanted};
use crate::documents::split;
use crate::error::Error;
use crate::walk::child;

/// What a recipe is made of.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Folders beside it.
    pub(super) folders: Vec<PathBuf>,
    /// What is published somewhere.
    pub(super) wanted: Vec<Wanted>,
    /// What cannot be had by its name alone.
    pub(super) outside: Vec<Outside>,
}

fn text<'n>(node: &'n Node<'_>, name: &str) -> Option<&'n str> {
    match child(node, name).map(|node| &node.value) {
        Some(Value::Text(text)) if !text.is_empty() => Some(text.as_ref()),
        _ => None,
    }
}

/// The documents of this kind in a text. One that cannot be read is told by the search.
fn of_kind(source: &str, given: &str, kind: &str) -> Vec<Node<'static>> {
    split(given)
        .iter()
        .filter_map(|document| document.read(source).ok())
        .flatten()
        .filter(|root| text(root, "kind") == Some(kind))
        .collect()
}

/// The sources of a recipe; `None` where this is none.
pub(super) fn sources(source: &str, given: &str) -> Result<Option<Sources>, Error> {
    // most texts are none, and need not be read twice for that
    if !given.contains("Recipe") {
        return Ok(None);
    }
    let recipes = of_kind(source, given, "Recipe");
    let mut found = Sources::default();
    for recipe in &recipes {
        let sources = child(recipe, "spec").and_then(|spec| child(spec, "sources"));
        let Some(Value::Map(entries)) = sources.map(|node| &node.value) else {
            continue;
        };
        for (name, entry) in entries {
            if let Some(folder) = text(entry, "dir") {
                let inside = Path::new(folder)
                    .components()
                    .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
                // the folder of the recipe itself would be read for ever
                let below = Path::new(folder)
                    .components()
                    .any(|part| matches!(part, Component::Normal(_)));
                if !inside || !below {
                    return Err(Error::File {
                        file: source.to_owned(),
                        why: format!("the folder of source {name} is none within the recipe's"),
                    });
                }
                found.folders.push(PathBuf::from(folder));
            } else if let Some(wanted) = published(source, entry) {
                found.wanted.push(wanted);
            } else if let Some(plugin) = text(entry, "plugin") {
                found.outside.push(Outside {
                    source: source.to_owned(),
                    what: format!("what the plugin {plugin} fetches"),
                    hint: "name what it fetches in the call".to_owned(),
                });
            }
        }
    }
    Ok((!recipes.is_empty()).then_some(found))
}

/// A chart or a file of manifests that a source names.
fn published(source: &str, entry: &Node<'_>) -> Option<Wanted> {
    if let Some(chart) = child(entry, "chart") {
        // both `chart: {name: …, repository: …}` and `chart: name` beside a repository
        return match &chart.value {
            Value::Map(_) => published_chart(source, chart, "name"),
            _ => published_chart(source, entry, "chart"),
        };
    }
    Some(Wanted::File {
        source: source.to_owned(),
        url: text(entry, "url")?.to_owned(),
        sha256: text(entry, "sha256").unwrap_or_default().to_owned(),
    })
}

fn published_chart(source: &str, chart: &Node<'_>, name: &str) -> Option<Wanted> {
    let version = child(chart, "version").and_then(Node::text);
    Some(Wanted::Chart {
        source: source.to_owned(),
        repository: text(chart, "repository")?.to_owned(),
        name: text(chart, name)?.to_owned(),
        version: version.unwrap_or_default().into_owned(),
        digest: text(chart, "digest").unwrap_or_default().to_owned(),
    })
}

fn items<'n, 'a>(node: Option<&'n Node<'a>>) -> &'n [Node<'a>] {
    match node.map(|node| &node.value) {
        Some(Value::List(items)) => items,
        _ => &[],
    }
}

/// The published charts that packages in a text are made of.
pub(super) fn charts_of(source: &str, given: &str) -> Vec<Wanted> {
    if !given.contains("PackageSource") {
        return Vec::new();
    }
    let mut found: Vec<Wanted> = Vec::new();
    for package in of_kind(source, given, "PackageSource") {
        let spec = child(&package, "spec");
        let variants = spec.and_then(|spec| child(spec, "variants"));
        for component in items(variants)
            .iter()
            .flat_map(|variant| items(child(variant, "components")))
        {
            let chart = child(component, "chart");
            found.extend(chart.and_then(|chart| published_chart(source, chart, "name")));
        }
    }
    found.sort();
    found.dedup();
    found
}
