//! The index of a Helm repository, reduced to what finding an archive needs.

use std::collections::BTreeMap;

use kubepkg_core::yaml::{Node, Value, go};

use crate::error::shown;

/// Largest index of a Helm repository: what the existing program accepts. The largest public
/// ones have some 20 MiB.
pub const MAX_HELM_INDEX: u64 = 256 << 20;

/// One version of one chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HelmVersion {
    /// As the index spells it.
    pub(crate) version: String,
    /// The first address of its archive, absolute or relative to the index.
    pub(crate) url: String,
}

impl HelmVersion {
    fn read(node: &Node<'_>) -> Option<HelmVersion> {
        let text = |node: &Node<'_>| {
            node.text()
                .filter(|text| !text.is_empty())
                .map(String::from)
        };
        let Value::List(urls) = &node.member("urls")?.value else {
            return None;
        };
        Some(HelmVersion {
            version: node.member("version").and_then(text)?,
            url: urls.first().and_then(text)?,
        })
    }
}

/// Charts by name, their versions in the order of the index.
#[derive(Debug, Default)]
pub(crate) struct HelmIndex(BTreeMap<String, Vec<HelmVersion>>);

impl HelmIndex {
    /// Reads an `index.yaml` as Helm does. Entries without version or address are passed
    /// over, as Helm passes over them.
    pub(crate) fn read(bytes: &[u8]) -> Result<HelmIndex, String> {
        let root = go::parse(bytes).map_err(|e| format!("it is no Helm index: {e}"))?;
        let entries = match root.member("entries").map(|node| &node.value) {
            Some(Value::Map(entries)) => entries.as_slice(),
            Some(Value::Null) => &[],
            _ => return Err("it is no Helm index: it has no `entries`".to_owned()),
        };
        let charts = entries.iter().filter_map(|(name, node)| match &node.value {
            Value::List(versions) => {
                let versions = versions.iter().filter_map(HelmVersion::read).collect();
                Some((name.to_string(), versions))
            }
            _ => None,
        });
        Ok(HelmIndex(charts.collect()))
    }

    /// The entry for `version` of `name`; the error says what there is instead.
    pub(crate) fn find(&self, name: &str, version: &str) -> Result<&HelmVersion, String> {
        let Some(versions) = self.0.get(name) else {
            return Err(format!("the repository has no chart \"{}\"", shown(name)));
        };
        let exact = versions.iter().find(|entry| entry.version == version);
        let bare = |text: &str| text.strip_prefix('v').unwrap_or(text).to_owned();
        let found = exact.or_else(|| {
            let wanted = bare(version);
            versions.iter().find(|entry| bare(&entry.version) == wanted)
        });
        found.ok_or_else(|| {
            let some: Vec<String> = versions.iter().take(5).map(|e| shown(&e.version)).collect();
            format!(
                "the repository has no version {} of it, but for example {}",
                shown(version),
                some.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "\
apiVersion: v1
entries:
  web:
  - {name: web, version: v1.0.0, urls: [charts/web-v1.0.0.tgz], digest: abc}
  - {name: web, version: 1.0.0, urls: ['https://cdn.example.com/web.tgz?x=1', second]}
  - {name: web, version: 2, urls: [web-2.tgz]}
  - {name: web, version: 3.0.0}
  odd: text
";

    #[test]
    fn finds_the_exact_version_first() {
        let index = HelmIndex::read(INDEX.as_bytes()).unwrap();
        let url = |version: &str| index.find("web", version).map(|e| e.url.as_str());
        assert_eq!(url("1.0.0"), Ok("https://cdn.example.com/web.tgz?x=1"));
        assert_eq!(url("v1.0.0"), Ok("charts/web-v1.0.0.tgz"));
        assert_eq!(url("v2"), Ok("web-2.tgz"));
        assert!(url("3.0.0").unwrap_err().contains("v1.0.0"));
        assert!(index.find("nginx", "1").unwrap_err().contains("nginx"));
    }

    #[test]
    fn what_is_no_index() {
        for bad in ["", "[]", "<html></html>", "a: b", "entries: ["] {
            assert!(HelmIndex::read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(HelmIndex::read(b"entries: {}").is_ok());
    }
}
