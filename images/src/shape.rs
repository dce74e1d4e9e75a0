//! Images written as a map: registry, repository, tag, digest.

use std::borrow::Cow;

use kubepkg_core::yaml::{Node, Value};

use crate::words::{self, Named};

/// Names of the registry, the first that is there counts.
const REGISTRY: &[&str] = &["registry", "imageRegistry", "hub"];

/// Names of the repository.
const REPOSITORY: &[&str] = &["repository", "repo", "imageRepository"];

/// Names of the tag.
const TAG: &[&str] = &["tag", "imageTag", "version"];

/// Names of the digest.
const DIGEST: &[&str] = &["digest", "sha", "sha256", "imageDigest"];

/// Members that show that something else is meant: a source, a chart.
const OTHERWISE: &[&str] = &[
    "branch",
    "revision",
    "chart",
    "chartVersion",
    "url",
    "commit",
    "targetRevision",
];

/// An image written as a map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) registry: String,
    pub(crate) repository: String,
    pub(crate) tag: String,
    pub(crate) digest: String,
    used: Vec<&'static str>,
}

/// The image that a map with these members is, where it is one; `name` is the member it
/// stands under.
pub(crate) fn of(entries: &[(Cow<'_, str>, Node<'_>)], name: &str) -> Option<Shape> {
    let mut used = Vec::new();
    let mut first = |names: &[&'static str]| -> Option<String> {
        names.iter().find_map(|name| {
            let (_, node) = entries.iter().find(|(key, _)| key == name)?;
            if matches!(node.value, Value::Map(_) | Value::List(_)) {
                return None;
            }
            used.push(*name);
            Some(node.text()?.trim().to_owned())
        })
    };
    let has = |names: &[&str]| entries.iter().any(|(key, _)| names.contains(&key.as_ref()));
    let image_like = words::field(name) != Named::Nothing;
    let registry = first(REGISTRY);
    let tag = match image_like {
        true => first(TAG),
        // a version beside a repository may be that of anything
        false => first(&TAG[..2]),
    };
    let digest = first(DIGEST);
    let versioned = tag.is_some() || digest.is_some();
    let repository = first(REPOSITORY)
        .filter(|text| !text.is_empty())
        .or_else(|| {
            let candidates: &[&'static str] = match (versioned, image_like) {
                (true, true) => &["image", "name"],
                (true, false) => &["image"],
                // {registry: "", name: controller, pullPolicy: …}
                (false, true) if has(&["pullPolicy", "registry", "repository"]) => {
                    &["image", "name"]
                }
                _ => &[],
            };
            first(candidates).filter(|text| !text.is_empty())
        })?;
    let other = !image_like && has(OTHERWISE);
    // what has neither version nor the name of an image is a repository of something else
    if other || !(versioned || image_like || has(&["pullPolicy", "imagePullPolicy"])) {
        return None;
    }
    Some(Shape {
        registry: registry.unwrap_or_default(),
        repository,
        tag: tag.unwrap_or_default(),
        digest: digest.unwrap_or_default(),
        used,
    })
}

impl Shape {
    /// The reference these members make.
    pub(crate) fn text(&self) -> String {
        let mut text = match self.registry.trim_end_matches('/') {
            "" => self.repository.clone(),
            registry => format!("{registry}/{}", self.repository),
        };
        if !self.tag.is_empty() {
            text = format!("{text}:{}", self.tag);
        }
        match self.digest.as_str() {
            "" => text,
            hex if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
                format!("{text}@sha256:{hex}")
            }
            digest => format!("{text}@{digest}"),
        }
    }

    /// Whether it says which version.
    pub(crate) fn has_version(&self) -> bool {
        !self.tag.is_empty() || !self.digest.is_empty()
    }

    /// Whether a member is a part of it.
    pub(crate) fn uses(&self, key: &str) -> bool {
        self.used.contains(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::yaml::go;

    fn text(yaml: &str, name: &str) -> Option<String> {
        let root = go::parse(yaml.as_bytes()).unwrap();
        let Value::Map(entries) = &root.value else {
            panic!("no map");
        };
        of(entries, name).map(|shape| shape.text())
    }

    #[test]
    fn maps_that_are_images() {
        let hex = "ab".repeat(32);
        for (yaml, name, want) in [
            (
                "{registry: quay.io, repository: a/b, tag: v1}",
                "image",
                "quay.io/a/b:v1".to_owned(),
            ),
            (
                "{repository: quay.io/a/b, tag: 1.27}",
                "server",
                "quay.io/a/b:1.27".to_owned(),
            ),
            (
                "{image: a/b, tag: v1, registry: q.io}",
                "image",
                "q.io/a/b:v1".to_owned(),
            ),
            (
                "{repo: gcr.io/a/b, tag: '2'}",
                "image",
                "gcr.io/a/b:2".to_owned(),
            ),
            ("{name: app, tag: v1}", "image", "app:v1".to_owned()),
            (
                "{repository: a/b, pullPolicy: Always}",
                "web",
                "a/b".to_owned(),
            ),
            (
                &format!("{{repository: a/b, tag: v1, sha: {hex}}}"),
                "image",
                format!("a/b:v1@sha256:{hex}"),
            ),
        ] {
            assert_eq!(text(yaml, name), Some(want), "{yaml}");
        }
    }

    #[test]
    fn maps_that_are_none() {
        for (yaml, name) in [
            ("{repository: a/b}", "git"),
            ("{repository: a/b, tag: v1, branch: main}", "source"),
            ("{repository: 'https://x', version: v1}", "chart"),
            ("{name: app, tag: v1}", "release"),
            ("{name: app}", "image"),
            ("{tag: v1}", "image"),
            ("{repository: '', tag: v1}", "image"),
        ] {
            assert_eq!(text(yaml, name), None, "{yaml}");
        }
    }
}
