//! Who is trusted for a repository of the configuration.

use std::path::Path;

use kubepkg_core::keys::PublicKey;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::trust::{Anchor, Entry, KeySet};
use serde::{Deserialize, Serialize};

use crate::cli::{bad_key, read_key_file};
use crate::error::CommandError;

/// Keys of the index, or of the root; or nobody's signature is wanted. A key is its PEM text
/// or the name of a file beside the configuration.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigTrust {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    threshold: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root: Option<RootKeys>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    allow_unsigned: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RootKeys {
    keys: Vec<String>,
    threshold: u32,
}

impl ConfigTrust {
    /// The form of an anchor, with the keys themselves in it: files may move.
    pub fn of(anchor: &Anchor) -> ConfigTrust {
        let pem = |keys: &KeySet| keys.keys().iter().map(PublicKey::to_pem).collect();
        let mut trust = ConfigTrust::default();
        match anchor {
            Anchor::Root(keys) => {
                trust.root = Some(RootKeys {
                    keys: pem(keys),
                    threshold: keys.threshold(),
                });
            }
            Anchor::Keys(keys) => {
                trust.keys = pem(keys);
                trust.threshold = (keys.threshold() > 1).then(|| keys.threshold());
            }
            Anchor::Unsigned => trust.allow_unsigned = true,
        }
        trust
    }

    /// The trust entry of the repository at `url`; key files lie in `folder`.
    pub fn entry(&self, url: &CanonicalUrl, folder: &Path) -> Result<Entry, CommandError> {
        let anchor = match (&self.root, self.keys.is_empty(), self.allow_unsigned) {
            (Some(root), true, false) if self.threshold.is_none() => {
                Anchor::Root(key_set(&root.keys, root.threshold, folder)?)
            }
            (None, false, false) => {
                Anchor::Keys(key_set(&self.keys, self.threshold.unwrap_or(1), folder)?)
            }
            (None, true, true) => Anchor::Unsigned,
            _ => {
                return Err(CommandError::usage(
                    "it is not clear who is trusted: give one of keys, root, allowUnsigned",
                ));
            }
        };
        Ok(Entry::new(url.clone(), anchor))
    }
}

fn key_set(keys: &[String], threshold: u32, folder: &Path) -> Result<KeySet, CommandError> {
    let keys: Vec<PublicKey> = keys
        .iter()
        .map(|key| public_key(key, folder))
        .collect::<Result<_, _>>()?;
    KeySet::new(keys, i64::from(threshold)).map_err(|error| CommandError::usage(error.to_string()))
}

fn public_key(text: &str, folder: &Path) -> Result<PublicKey, CommandError> {
    if text.contains("-----BEGIN") {
        return PublicKey::from_pem(text).map_err(|error| CommandError::usage(error.to_string()));
    }
    let file = folder.join(text);
    PublicKey::from_pem(&read_key_file(&file)?).map_err(|error| bad_key(&file, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::keys::PrivateKey;

    fn key() -> PublicKey {
        PrivateKey::generate().unwrap().public().unwrap()
    }

    #[test]
    fn what_an_anchor_is_written_as_is_that_anchor() {
        let url: CanonicalUrl = "https://a.example/index.yaml".parse().unwrap();
        let set = |threshold| KeySet::new([key(), key()], threshold).unwrap();
        for anchor in [
            Anchor::Root(set(2)),
            Anchor::Keys(set(1)),
            Anchor::Keys(set(2)),
            Anchor::Unsigned,
        ] {
            let trust = ConfigTrust::of(&anchor);
            let entry = trust.entry(&url, Path::new("/none")).unwrap();
            assert_eq!(entry.anchor, anchor);
        }
    }

    #[test]
    fn nobody_and_two_ways_at_once_are_refused() {
        let url: CanonicalUrl = "https://a.example/index.yaml".parse().unwrap();
        let mut both = ConfigTrust::of(&Anchor::Root(KeySet::new([key()], 1).unwrap()));
        both.allow_unsigned = true;
        let mut keys = ConfigTrust::of(&Anchor::Keys(KeySet::new([key()], 1).unwrap()));
        keys.allow_unsigned = true;
        for trust in [ConfigTrust::default(), both, keys] {
            assert!(trust.entry(&url, Path::new("/none")).is_err());
        }
    }
}
