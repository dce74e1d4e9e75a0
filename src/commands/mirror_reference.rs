//! References to what is in a store, as the verbs on mirrors take them.

use kubepkg_core::name::RepositoryName;
use kubepkg_mirror::route::Target;
use kubepkg_mirror::wanted::Reference;

use crate::error::CommandError;

/// Reads `<host>/<path>:<tag>` or `<host>/<path>@<digest>`, with the host's port in the upstream's
/// spelling or the mirror's.
pub fn parse(text: &str) -> Result<Reference, String> {
    text.parse()
        .map_err(|error: kubepkg_core::name::NameError| {
            format!(
                "{error}; write <host>/<path>:<tag> or <host>/<path>@<digest>, e.g. \
             docker.io/library/busybox:1.36"
            )
        })
}

/// A repository, with or without a tag.
#[derive(Clone, Debug)]
pub struct Place {
    /// The repository.
    pub repository: RepositoryName,
    /// The tag.
    pub tag: Option<kubepkg_core::name::Tag>,
}

/// Reads `<host>/<path>` or `<host>/<path>:<tag>`.
pub fn parse_place(text: &str) -> Result<Place, String> {
    let tagged = text
        .rsplit('/')
        .next()
        .is_some_and(|last| last.contains(':'));
    // a lone host with a port is no repository
    if tagged || text.contains('@') {
        let reference = parse(text)?;
        return match reference.target {
            Target::Tag(tag) => Ok(Place {
                repository: reference.repository,
                tag: Some(tag),
            }),
            Target::Digest(_) => {
                Err("the digest stays the same; name a repository or a tag".to_owned())
            }
        };
    }
    let spelled = match text.split_once('/') {
        Some((host, path)) => format!("{}/{path}", host.replace(':', "_")),
        None => text.to_owned(),
    };
    Ok(Place {
        repository: spelled.parse().map_err(|error| format!("{error}"))?,
        tag: None,
    })
}

/// Which repositories a pattern means: `*` stands for any text, and a pattern without one also
/// for the repositories below it.
#[derive(Clone, Debug)]
pub struct Pattern(String);

impl Pattern {
    /// Of a text.
    pub fn new(text: &str) -> Pattern {
        let text = match text.split_once('/') {
            Some((host, path)) => format!("{}/{path}", host.replace(':', "_")),
            None => text.to_owned(),
        };
        Pattern(text.trim_end_matches('/').to_owned())
    }

    /// Whether it means this repository.
    pub fn matches(&self, name: &RepositoryName) -> bool {
        let name = name.as_str();
        if self.0.contains('*') {
            return glob(&self.0, name);
        }
        name.strip_prefix(&*self.0)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The error of a filter that means nothing here.
pub fn nothing_matches(pattern: &str) -> CommandError {
    CommandError::not_found(format!("no repository in this store is called {pattern}"))
        .hint("`kubepkg mirror list` without a pattern shows all of them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let meant =
            |pattern: &str, name: &str| Pattern::new(pattern).matches(&name.parse().unwrap());
        assert!(meant("docker.io", "docker.io/library/x"));
        assert!(meant("docker.io/library/x", "docker.io/library/x"));
        assert!(!meant("docker.io/lib", "docker.io/library/x"));
        assert!(meant("docker.io/lib*", "docker.io/library/x"));
        assert!(meant("*/x", "docker.io/library/x"));
        assert!(meant("*lib*y/*", "docker.io/library/x"));
        assert!(!meant("*/y", "docker.io/library/x"));
        assert!(!meant("docker.io/*/x/*", "docker.io/library/x"));
        assert!(meant("a.example:5000/x", "a.example_5000/x"));
    }

    #[test]
    fn places() {
        let place = parse_place("a.example:5000/x").unwrap();
        assert_eq!(place.repository.as_str(), "a.example_5000/x");
        assert!(place.tag.is_none());
        let place = parse_place("a.example:5000/x:1").unwrap();
        assert_eq!(place.tag.unwrap().as_str(), "1");
        assert!(parse_place("a.example/x@sha256:1").is_err());
    }
}
