//! The trust file (`--trust FILE`): who is trusted for which repository, written by hand.

use serde::Deserialize;

use super::entry::{Anchor, Entry, entry_id, mark_shared_keys};
use super::keyset::{KeySet, KeySetError};
use super::known::KNOWN_ID;
use super::prefix::PrefixError;
use crate::descriptor::Platform;
use crate::error::{Classify, Kind, shown};
use crate::keys::{KeyError, PublicKey};
use crate::location::{CanonicalUrl, UrlError};
use crate::yaml::{YamlError, strict};

/// `apiVersion` of a trust file.
pub const TRUST_API_VERSION: &str = "kubepkg.dev/v1";

/// `kind` of a trust file.
pub const TRUST_KIND: &str = "Trust";

/// Longest id of an entry.
const MAX_ID: usize = 128;

/// A trust file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrustFileError {
    /// It does not read.
    #[error("the trust file does not read: {0}")]
    Yaml(#[from] YamlError),
    /// Another kind of file.
    #[error("this is no trust file: apiVersion and kind are \"{0}\" and \"{1}\"")]
    Kind(String, String),
    /// An entry's URL.
    #[error("entry {n}: {source}")]
    Url {
        /// Which entry, from 1.
        n: usize,
        /// What is wrong.
        source: UrlError,
    },
    /// An entry's id.
    #[error("entry {0}: \"{1}\" is no id: use lower case letters, digits, \".\", \"_\" and \"-\"")]
    Id(usize, String),
    /// Two entries for one thing.
    #[error("two entries have the same {what}: {value}")]
    Twice {
        /// `id` or `url`.
        what: &'static str,
        /// Its value.
        value: String,
    },
    /// Neither or both of `root` and `keys`.
    #[error("entry {0}: give either root or keys")]
    Anchor(String),
    /// A file with a key cannot be read.
    #[error("entry {entry}: cannot read the key file {file}: {why}")]
    KeyFile {
        /// The entry's URL.
        entry: String,
        /// The file.
        file: String,
        /// Why.
        why: String,
    },
    /// A key is none.
    #[error("entry {entry}: {of}: {source}")]
    Key {
        /// The entry's URL.
        entry: String,
        /// Which key.
        of: String,
        /// Why.
        source: KeyError,
    },
    /// A threshold that cannot be.
    #[error("entry {entry}: {of}: {source}")]
    KeySet {
        /// The entry's URL.
        entry: String,
        /// Whose.
        of: &'static str,
        /// Why.
        source: KeySetError,
    },
    /// A location.
    #[error("entry {entry}: {source}")]
    Location {
        /// The entry's URL.
        entry: String,
        /// Why.
        source: PrefixError,
    },
    /// A platform.
    #[error("entry {entry}: \"{platform}\" is no platform: write it like linux/amd64")]
    Platform {
        /// The entry's URL.
        entry: String,
        /// As written.
        platform: String,
    },
}

impl Classify for TrustFileError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }

    fn place(&self) -> Option<String> {
        match self {
            TrustFileError::Yaml(error) => error.place(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            TrustFileError::Kind(..) => {
                "begin the file with `apiVersion: kubepkg.dev/v1` and `kind: Trust`"
            }
            TrustFileError::Anchor(_) => {
                "write `root: {keys: [root.pub], threshold: 1}` for a repository with a root of \
                 trust, `keys: [release.pub]` for one with plain keys"
            }
            TrustFileError::KeyFile { .. } => {
                "give a key as its PEM text or as the name of a file beside the trust file"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    entries: Vec<FileEntry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileEntry {
    #[serde(default)]
    id: Option<String>,
    url: String,
    #[serde(default)]
    root: Option<FileKeys>,
    #[serde(default)]
    keys: Option<Vec<String>>,
    #[serde(default)]
    threshold: Option<u32>,
    #[serde(default)]
    locations: Vec<String>,
    #[serde(default)]
    platforms: Vec<String>,
    #[serde(default)]
    approvals: Option<FileKeys>,
    #[serde(default)]
    bundle_signers: Option<FileKeys>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileKeys {
    keys: Vec<String>,
    #[serde(default)]
    threshold: Option<u32>,
}

/// Reads a trust file. A key is given as its PEM text or as the name of a file, which `read`
/// turns into that file's text (or says why it cannot). A threshold that is not given is 1.
///
/// # Errors
/// See [`TrustFileError`].
pub fn parse_file(
    text: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Vec<Entry>, TrustFileError> {
    let file: File = strict::from_str(text)?;
    if file.api_version != TRUST_API_VERSION || file.kind != TRUST_KIND {
        return Err(TrustFileError::Kind(
            shown(&file.api_version),
            shown(&file.kind),
        ));
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(file.entries.len());
    for (n, entry) in file.entries.into_iter().enumerate() {
        let entry = Reader { read }.entry(n + 1, entry)?;
        let twice = |what, value: &str| TrustFileError::Twice {
            what,
            value: value.to_owned(),
        };
        if entries.iter().any(|known| known.url == entry.url) {
            return Err(twice("url", entry.url.as_str()));
        }
        if entries.iter().any(|known| known.id == entry.id) {
            return Err(twice("id", &entry.id));
        }
        entries.push(entry);
    }
    mark_shared_keys(&mut entries);
    Ok(entries)
}

struct Reader<'a> {
    read: &'a dyn Fn(&str) -> Result<String, String>,
}

impl Reader<'_> {
    fn entry(&self, n: usize, from: FileEntry) -> Result<Entry, TrustFileError> {
        let url: CanonicalUrl = match from.url.parse() {
            Ok(url) => url,
            Err(source) => return Err(TrustFileError::Url { n, source }),
        };
        let name = url.to_string();
        let anchor = match (from.root, from.keys) {
            (Some(root), None) if from.threshold.is_none() => {
                Anchor::Root(self.set(&name, "root", root)?)
            }
            (None, Some(keys)) => {
                let keys = FileKeys {
                    keys,
                    threshold: from.threshold,
                };
                Anchor::Keys(self.set(&name, "keys", keys)?)
            }
            _ => return Err(TrustFileError::Anchor(name)),
        };
        let optional = |of, keys: Option<FileKeys>| keys.map(|keys| self.set(&name, of, keys));
        let locations = from.locations.iter().map(|text| text.parse());
        let locations = locations.collect::<Result<Vec<_>, _>>();
        if let Some(platform) = from.platforms.iter().find(|text| !Platform::is_name(text)) {
            return Err(TrustFileError::Platform {
                entry: name,
                platform: shown(platform),
            });
        }
        Ok(Entry {
            id: match from.id {
                Some(id) if is_id(&id) => id,
                Some(id) => return Err(TrustFileError::Id(n, shown(&id))),
                None => entry_id(&url),
            },
            anchor,
            must_name_url: false,
            locations: locations.map_err(|source| TrustFileError::Location {
                entry: name.clone(),
                source,
            })?,
            platforms: from.platforms,
            approvals: optional("approvals", from.approvals).transpose()?,
            bundle_signers: optional("bundleSigners", from.bundle_signers).transpose()?,
            url,
        })
    }

    fn set(&self, entry: &str, of: &'static str, from: FileKeys) -> Result<KeySet, TrustFileError> {
        let keys = from.keys.iter().map(|key| self.key(entry, of, key));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let threshold = i64::from(from.threshold.unwrap_or(1));
        KeySet::new(keys, threshold).map_err(|source| TrustFileError::KeySet {
            entry: entry.to_owned(),
            of,
            source,
        })
    }

    fn key(&self, entry: &str, of: &str, text: &str) -> Result<PublicKey, TrustFileError> {
        let inline = text.contains("-----BEGIN");
        let pem = match inline {
            true => text.to_owned(),
            false => (self.read)(text).map_err(|why| TrustFileError::KeyFile {
                entry: entry.to_owned(),
                file: shown(text),
                why,
            })?,
        };
        PublicKey::from_pem(&pem).map_err(|source| TrustFileError::Key {
            entry: entry.to_owned(),
            of: match inline {
                true => of.to_owned(),
                false => shown(text),
            },
            source,
        })
    }
}

/// Stores make file names of ids, and the record over all repositories has one of its own.
fn is_id(id: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
    !id.is_empty()
        && id.len() <= MAX_ID
        && id != KNOWN_ID
        && !id.starts_with(['.', '-'])
        && id.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    fn pem() -> String {
        PrivateKey::generate().unwrap().public().unwrap().to_pem()
    }

    fn indented(pem: &str) -> String {
        pem.lines().map(|line| format!("      {line}\n")).collect()
    }

    fn parse(text: &str) -> Result<Vec<Entry>, TrustFileError> {
        let key = pem();
        parse_file(text, &|name| match name {
            "a.pub" => Ok(key.clone()),
            "b.pub" => Ok(pem()),
            _ => Err("it is not there".to_owned()),
        })
    }

    fn file(entries: &str) -> String {
        format!("apiVersion: kubepkg.dev/v1\nkind: Trust\nentries:\n{entries}")
    }

    #[test]
    fn entries_with_all_that_can_be_asked() {
        let text = file(&format!(
            "- id: main\n  url: https://a.example/index.yaml\n  root:\n    threshold: 2\n    \
             keys:\n    - b.pub\n    - |\n{}  locations: [oci://r.example/team]\n  platforms: \
             [linux/amd64]\n  approvals: {{keys: [b.pub]}}\n  bundleSigners: {{keys: [b.pub, b.pub], \
             threshold: 2}}\n- url: https://b.example/index.yaml\n  keys: [a.pub]\n",
            indented(&pem())
        ));
        let entries = parse(&text).unwrap();
        assert_eq!(entries[0].id, "main");
        assert!(matches!(&entries[0].anchor, Anchor::Root(keys) if keys.threshold() == 2));
        assert_eq!(entries[0].locations[0].to_string(), "r.example/team");
        assert_eq!(entries[0].bundle_signers.as_ref().unwrap().threshold(), 2);
        assert_eq!(entries[1].id, entry_id(&entries[1].url));
        assert!(matches!(&entries[1].anchor, Anchor::Keys(keys) if keys.threshold() == 1));
        for entry in &entries {
            let json = serde_json::to_value(entry).unwrap();
            let again: Entry = serde_json::from_value(json).unwrap();
            assert!(again.same_trust(entry));
        }
    }

    #[test]
    fn entries_that_share_a_key_need_indexes_that_name_themselves() {
        let text = file(
            "- {url: \"https://a.example/index.yaml\", keys: [a.pub]}\n\
             - {url: \"https://b.example/index.yaml\", root: {keys: [a.pub]}}\n",
        );
        assert!(
            parse(&text)
                .unwrap()
                .iter()
                .all(|entry| entry.must_name_url)
        );
    }

    #[test]
    fn what_is_not_meant_is_refused() {
        let url = "url: \"https://a.example/index.yaml\"";
        for entry in [
            format!("- {{{url}}}\n"),
            format!("- {{{url}, keys: [a.pub], root: {{keys: [a.pub]}}}}\n"),
            format!("- {{{url}, root: {{keys: [a.pub]}}, threshold: 2}}\n"),
            format!("- {{{url}, keys: [a.pub, a.pub], threshold: 2}}\n"),
            format!("- {{{url}, keys: [a.pub], threshold: 0}}\n"),
            format!("- {{{url}, keys: []}}\n"),
            format!("- {{{url}, keys: [none.pub]}}\n"),
            format!("- {{{url}, keys: [a.pub], unknown: 1}}\n"),
            format!("- {{{url}, keys: [a.pub], id: known-keys}}\n"),
            format!("- {{{url}, keys: [a.pub], id: ../x}}\n"),
            format!("- {{{url}, keys: [a.pub], platforms: [amd64]}}\n"),
            format!("- {{{url}, keys: [a.pub], locations: [\"\"]}}\n"),
            format!("- {{{url}, keys: [a.pub]}}\n- {{{url}, keys: [b.pub]}}\n"),
            "- {keys: [a.pub]}\n".to_owned(),
            "- {url: nonsense, keys: [a.pub]}\n".to_owned(),
        ] {
            assert!(parse(&file(&entry)).is_err(), "{entry}");
        }
        assert!(parse("kind: Trust\nentries: []\n").is_err());
    }
}
