//! The index of a Helm repository, reduced to what finding an archive needs.

mod incoming;
mod receive;
mod split;

use std::collections::BTreeMap;

use kubepkg_core::Digest;
use kubepkg_core::version::Version;
use kubepkg_core::yaml::{Node, Value, go};

use crate::error::shown;

pub(crate) use incoming::Read;

/// Largest index of a Helm repository, unpacked: what the existing program accepts. The
/// largest public ones have some 20 MiB.
pub const MAX_HELM_INDEX: u64 = 256 << 20;

/// Most addresses of one archive that are tried.
const MAX_URLS: usize = 8;

/// One version of one chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HelmVersion {
    /// As the index spells it.
    pub(crate) version: String,
    /// The addresses of its archive, absolute or relative to the index; at least one.
    pub(crate) urls: Vec<String>,
    /// The SHA-256 of its archive, where the index gives one that reads.
    pub(crate) digest: Option<Digest>,
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
        let urls: Vec<String> = urls.iter().filter_map(text).take(MAX_URLS).collect();
        // `helm repo index` writes the bare digits, other tools with the algorithm
        let digest = node.member("digest").and_then(text);
        let digest = digest.and_then(|digest| {
            let digits = digest.strip_prefix("sha256:").unwrap_or(&digest);
            format!("sha256:{digits}").parse().ok()
        });
        Some(HelmVersion {
            digest,
            version: node.member("version").and_then(text)?,
            urls,
        })
        .filter(|version| !version.urls.is_empty())
    }
}

/// Charts by name, their versions in the order of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HelmIndex(BTreeMap<String, Vec<HelmVersion>>);

impl HelmIndex {
    /// Reads a whole `index.yaml` as Helm does. Entries without version or address are passed
    /// over, as Helm passes over them.
    pub(crate) fn read(bytes: &[u8]) -> Result<HelmIndex, String> {
        let root = go::parse(bytes).map_err(|e| format!("it is no Helm index: {e}"))?;
        let mut index = HelmIndex::default();
        match root.member("entries") {
            Some(entries) if entries.value != Value::Null => index.add(entries)?,
            Some(_) => {}
            None => return Err("it is no Helm index: it has no `entries`".to_owned()),
        }
        Ok(index)
    }

    /// Reads the section of one chart.
    fn add_section(&mut self, section: &[u8]) -> Result<(), String> {
        let section = go::parse(section).map_err(|e| e.to_string())?;
        self.add(&section)
    }

    fn add(&mut self, entries: &Node<'_>) -> Result<(), String> {
        let Value::Map(entries) = &entries.value else {
            return Err("it is no Helm index: its `entries` are no map".to_owned());
        };
        for (name, node) in entries {
            if let Value::List(versions) = &node.value {
                let versions = versions.iter().filter_map(HelmVersion::read).collect();
                self.0.insert(name.to_string(), versions);
            }
        }
        Ok(())
    }

    /// The entry for `version` of `name`; the error says what there is instead.
    pub(crate) fn find(&self, name: &str, version: &str) -> Result<&HelmVersion, String> {
        // Helm passes over what is no version, so nobody can install it
        if let Err(error) = Version::parse(version) {
            return Err(format!(
                "\"{}\" is no version Helm knows: {error}",
                shown(version)
            ));
        }
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
        let url = |version: &str| index.find("web", version).map(|e| e.urls[0].as_str());
        assert_eq!(url("1.0.0"), Ok("https://cdn.example.com/web.tgz?x=1"));
        assert_eq!(index.find("web", "1.0.0").unwrap().urls[1], "second");
        let four = index.find("web", "1.0.0.0").unwrap_err();
        assert!(
            four.contains("1.0.0.0") && four.contains("no version"),
            "{four}"
        );
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
