//! Moving charts and trees of published versions to another registry path.

use std::str::FromStr;

use crate::api::{OCI_ARTIFACT, PackageSourceSpec};
use crate::error::{Classify, Kind};
use crate::location::redacted;

/// A path of a registry, and the one that takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    from: String,
    to: String,
}

/// A text names no move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no move from one registry path to another")]
pub struct RelocationError(String);

impl Classify for RelocationError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some("write oci://old.example.com/path=oci://new.example.com/path".to_owned())
    }
}

impl FromStr for Relocation {
    type Err = RelocationError;

    fn from_str(text: &str) -> Result<Relocation, RelocationError> {
        let path = |text: &str| {
            let text = text.trim_end_matches('/');
            let rest = text.strip_prefix("oci://")?;
            let clean = !rest.is_empty()
                && !rest.starts_with('/')
                && !rest.contains(['=', '@', '?', '#', ' ']);
            clean.then(|| text.to_owned())
        };
        let parts = text.split_once('=');
        let both = parts.and_then(|(from, to)| Some((path(from)?, path(to)?)));
        match both {
            Some((from, to)) if from != to => Ok(Relocation { from, to }),
            _ => Err(RelocationError(redacted(text))),
        }
    }
}

impl Relocation {
    /// The old path.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// The new path.
    pub fn to(&self) -> &str {
        &self.to
    }

    /// Whether `url` lies below the new path.
    pub(super) fn leads_to(&self, url: &str) -> bool {
        below(url, &self.to).is_some()
    }
}

/// What of `url` lies behind `path`, if `url` is that path or one below it, with whatever
/// tag or digest.
fn below<'u>(url: &'u str, path: &str) -> Option<&'u str> {
    let rest = url.strip_prefix(path)?;
    let is_host = !path["oci://".len()..].contains('/');
    match rest.chars().next() {
        None | Some('/') => Some(rest),
        // Behind a host it is a port.
        Some(':') if is_host => None,
        Some(':' | '@') => Some(rest),
        _ => None,
    }
}

/// Moves what `spec` refers to; of several moves the longest old path counts. Gives whether
/// anything moved.
pub(super) fn apply(spec: &mut PackageSourceSpec, moves: &[Relocation]) -> bool {
    let mut moved = false;
    let mut relocate = |url: &mut String| {
        let fits = |to: &&Relocation| below(url, &to.from).is_some();
        let longest = moves.iter().filter(fits).max_by_key(|to| to.from.len());
        if let Some((to, rest)) = longest.and_then(|to| Some((to, below(url, &to.from)?))) {
            *url = format!("{}{rest}", to.to);
            moved = true;
        }
    };
    if let Some(source) = &mut spec.source_ref
        && source.kind == OCI_ARTIFACT
    {
        relocate(&mut source.url);
    }
    let components = spec.variants.iter_mut().flat_map(|v| &mut v.components);
    for chart in components.filter_map(|component| component.chart.as_mut()) {
        relocate(&mut chart.repository);
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_moves_whole_and_its_neighbours_stay() {
        let paths = |text: &str| text.parse::<Relocation>().unwrap();
        let moves = [
            paths("oci://old.example.com/a/=oci://new.example.com/b"),
            paths("oci://old.example.com/a/deep=oci://deep.example.com"),
            paths("oci://host=oci://other"),
        ];
        for (from, to) in [
            ("oci://old.example.com/a", "oci://new.example.com/b"),
            ("oci://old.example.com/a/x:1", "oci://new.example.com/b/x:1"),
            (
                "oci://old.example.com/a@sha256:0",
                "oci://new.example.com/b@sha256:0",
            ),
            ("oci://old.example.com/a/deep/x", "oci://deep.example.com/x"),
            ("oci://host/x", "oci://other/x"),
            ("oci://old.example.com/ab", ""),
            ("oci://host:5000/x", ""),
            ("https://old.example.com/a", ""),
        ] {
            let mut spec = PackageSourceSpec {
                source_ref: Some(crate::api::SourceRef {
                    kind: OCI_ARTIFACT.to_owned(),
                    url: from.to_owned(),
                    ..Default::default()
                }),
                ..PackageSourceSpec::default()
            };
            assert_eq!(apply(&mut spec, &moves), !to.is_empty(), "{from}");
            let want = if to.is_empty() { from } else { to };
            assert_eq!(spec.source_ref.unwrap().url, want);
        }
    }

    #[test]
    fn what_is_no_move() {
        for text in [
            "",
            "a=b",
            "oci://a",
            "oci://a=https://b",
            "oci://a=oci://",
            "oci://a=oci://a/",
            "oci://a=oci://b=c",
        ] {
            assert!(text.parse::<Relocation>().is_err(), "{text}");
        }
    }
}
