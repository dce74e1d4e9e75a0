//! From flags to trust entries.

use super::entry::{Anchor, Entry, mark_shared_keys};
use super::keyset::{KeySet, KeySetError};
use crate::error::{Classify, Kind};
use crate::keys::PublicKey;
use crate::location::CanonicalUrl;

/// Whom the caller trusts: entries of a trust file, and keys, each for one repository or for
/// the only one there is.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Entries of a trust file. It may list more repositories than there are here.
    pub entries: Vec<Entry>,
    /// Keys of an index, given without a URL; they are meant for a single repository.
    pub keys: Vec<PublicKey>,
    /// Keys of an index, given for a repository.
    pub by_url: Vec<(CanonicalUrl, PublicKey)>,
    /// Keys that signed version 1 of a root, given without a URL.
    pub root_keys: Vec<PublicKey>,
    /// Keys that signed version 1 of a root, given for a repository.
    pub root_by_url: Vec<(CanonicalUrl, PublicKey)>,
    /// How many of the root keys must have signed; 1 when not given.
    pub root_threshold: Option<u32>,
    /// An index nobody signed is taken; a signature that is there must still hold.
    pub allow_unsigned: bool,
}

/// Why the keys given do not make entries for the repositories there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GivenError {
    /// No key was given for a repository.
    #[error("no key is given for {0}")]
    NoKey(CanonicalUrl),
    /// One bare key, and several repositories it could be meant for.
    #[error("there are {} repositories, so a key needs the URL of its own: {}", .0.len(), list(.0))]
    WhichRepository(Vec<CanonicalUrl>),
    /// A key was given for a repository that is not there.
    #[error("a key is given for {given}, which is not among the repositories: {}", list(.known))]
    UnknownRepository {
        /// The URL given.
        given: CanonicalUrl,
        /// The repositories there are.
        known: Vec<CanonicalUrl>,
    },
    /// A trust file and flags, or two kinds of keys, for one repository.
    #[error("{url} is given both {first} and {second}")]
    Both {
        /// The repository.
        url: CanonicalUrl,
        /// One.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The threshold of the root keys.
    #[error("the root keys of {url}: {source}")]
    RootThreshold {
        /// The repository.
        url: CanonicalUrl,
        /// Why.
        source: KeySetError,
    },
}

fn list(urls: &[CanonicalUrl]) -> String {
    let urls: Vec<&str> = urls.iter().map(CanonicalUrl::as_str).collect();
    urls.join(", ")
}

impl Classify for GivenError {
    fn kind(&self) -> Kind {
        Kind::Usage
    }

    fn hint(&self) -> Option<String> {
        let known = match self {
            GivenError::NoKey(url) => {
                return Some(format!(
                    "give the repository's public key, kept on this side, with --public-key \
                     {url}=release.pub"
                ));
            }
            GivenError::Both { .. } => {
                return Some("say in one place only whom to trust for it".to_owned());
            }
            GivenError::RootThreshold { .. } => {
                return Some(
                    "give --root-threshold N with N from 1 to the number of --root-key".to_owned(),
                );
            }
            GivenError::WhichRepository(known) | GivenError::UnknownRepository { known, .. } => {
                known
            }
        };
        let flags: Vec<String> = known
            .iter()
            .map(|url| format!("--public-key {url}=release.pub"))
            .collect();
        Some(format!(
            "give each key with its repository: {}",
            flags.join(" ")
        ))
    }
}

impl Given {
    /// Whether it names keys or entries.
    pub fn names_somebody(&self) -> bool {
        !(self.entries.is_empty()
            && self.keys.is_empty()
            && self.by_url.is_empty()
            && self.root_keys.is_empty()
            && self.root_by_url.is_empty())
    }

    /// The trust entry of each of `urls`, in their order.
    ///
    /// # Errors
    /// A repository without a key (unless unsigned ones are allowed), a bare key where there
    /// are several repositories, a key for a repository that is not there.
    pub fn entries(&self, urls: &[CanonicalUrl]) -> Result<Vec<Entry>, GivenError> {
        self.entries_or(urls, |_| None)
    }

    /// [`Given::entries`], with `stored` for the repositories nothing is given for.
    pub fn entries_or(
        &self,
        urls: &[CanonicalUrl],
        stored: impl Fn(&CanonicalUrl) -> Option<Entry>,
    ) -> Result<Vec<Entry>, GivenError> {
        let mut given = self.by_url.iter().chain(&self.root_by_url);
        if let Some((url, _)) = given.find(|(url, _)| !urls.contains(url)) {
            return Err(GivenError::UnknownRepository {
                given: url.clone(),
                known: urls.to_vec(),
            });
        }
        if !(self.keys.is_empty() && self.root_keys.is_empty()) && urls.len() > 1 {
            return Err(GivenError::WhichRepository(urls.to_vec()));
        }
        let entry = |url: &CanonicalUrl| match self.entry(url)? {
            Some(entry) => Ok(entry),
            None => match stored(url) {
                Some(entry) => Ok(entry),
                // who gave a key wants it to have signed
                None if self.allow_unsigned => Ok(Entry::new(url.clone(), Anchor::Unsigned)),
                None => Err(GivenError::NoKey(url.clone())),
            },
        };
        let mut entries = urls.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        mark_shared_keys(&mut entries);
        Ok(entries)
    }

    /// What is given for the repository at `url`.
    fn entry(&self, url: &CanonicalUrl) -> Result<Option<Entry>, GivenError> {
        let of = |by_url: &[(CanonicalUrl, PublicKey)], bare: &[PublicKey]| {
            let own = by_url.iter().filter(|(of, _)| of == url);
            let own = own.map(|(_, key)| key).chain(bare);
            own.cloned().collect::<Vec<PublicKey>>()
        };
        let keys = of(&self.by_url, &self.keys);
        let root_keys = of(&self.root_by_url, &self.root_keys);
        let listed = self.entries.iter().find(|entry| entry.url == *url);
        let both = |first, second| {
            Err(GivenError::Both {
                url: url.clone(),
                first,
                second,
            })
        };
        match (listed, keys.is_empty(), root_keys.is_empty()) {
            (Some(_), false, _) => both("in the trust file", "with --public-key"),
            (Some(_), _, false) => both("in the trust file", "with --root-key"),
            (None, false, false) => both("with --public-key", "with --root-key"),
            (Some(entry), true, true) => Ok(Some(entry.clone())),
            (None, true, true) => Ok(None),
            (None, false, true) => Ok(Some(Entry::new(url.clone(), Anchor::any_of(keys)))),
            (None, true, false) => {
                let threshold = i64::from(self.root_threshold.unwrap_or(1));
                let keys = KeySet::new(root_keys, threshold);
                let keys = keys.map_err(|source| GivenError::RootThreshold {
                    url: url.clone(),
                    source,
                })?;
                Ok(Some(Entry::new(url.clone(), Anchor::Root(keys))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    fn key() -> PublicKey {
        PrivateKey::generate().unwrap().public().unwrap()
    }

    fn urls() -> (CanonicalUrl, CanonicalUrl) {
        (
            "https://a.example.org/index.yaml".parse().unwrap(),
            "https://b.example.org/index.yaml".parse().unwrap(),
        )
    }

    #[test]
    fn one_bare_key_serves_one_repository_only() {
        let (a, b) = urls();
        let one = std::slice::from_ref(&a);
        let both = [a.clone(), b.clone()];
        for given in [
            Given {
                keys: vec![key()],
                ..Given::default()
            },
            Given {
                root_keys: vec![key()],
                ..Given::default()
            },
        ] {
            assert_eq!(given.entries(one).unwrap()[0].anchor.keys().len(), 1);
            assert!(matches!(
                given.entries(&both),
                Err(GivenError::WhichRepository(_))
            ));
        }
        let given = Given {
            by_url: vec![(a.clone(), key()), (b, key())],
            ..Given::default()
        };
        assert_eq!(given.entries(&both).unwrap().len(), 2);
        assert!(matches!(
            given.entries(one),
            Err(GivenError::UnknownRepository { .. })
        ));
    }

    #[test]
    fn no_key_is_no_trust() {
        let (a, _) = urls();
        assert_eq!(
            Given::default().entries(std::slice::from_ref(&a)),
            Err(GivenError::NoKey(a.clone()))
        );
        let unsigned = Given {
            allow_unsigned: true,
            ..Given::default()
        };
        assert_eq!(unsigned.entries(&[a]).unwrap()[0].anchor, Anchor::Unsigned);
    }

    #[test]
    fn a_stored_entry_serves_where_nothing_is_given_and_consent_does_not_weaken_it() {
        let (a, b) = urls();
        let stored = Entry::new(a.clone(), Anchor::any_of(vec![key()]));
        let given = Given {
            by_url: vec![(b.clone(), key())],
            allow_unsigned: true,
            ..Given::default()
        };
        let find = |url: &CanonicalUrl| (*url == a).then(|| stored.clone());
        let entries = given.entries_or(&[a.clone(), b.clone()], find).unwrap();
        assert!(entries[0].same_trust(&stored));
        assert_eq!(entries[1].url, b);
    }

    #[test]
    fn a_root_is_given_with_its_keys_and_threshold_and_nothing_beside_it() {
        let (a, b) = urls();
        let one = std::slice::from_ref(&a);
        let given = |threshold| Given {
            root_keys: vec![key(), key()],
            root_threshold: threshold,
            ..Given::default()
        };
        let entries = given(Some(2)).entries(one).unwrap();
        assert!(matches!(&entries[0].anchor, Anchor::Root(keys) if keys.threshold() == 2));
        for impossible in [0, 3] {
            assert!(matches!(
                given(Some(impossible)).entries(one),
                Err(GivenError::RootThreshold { .. })
            ));
        }
        let mut twice = given(None);
        twice.keys = vec![key()];
        assert!(matches!(twice.entries(one), Err(GivenError::Both { .. })));
        let mut twice = given(None);
        twice.entries = vec![Entry::new(a.clone(), Anchor::Unsigned)];
        assert!(matches!(twice.entries(one), Err(GivenError::Both { .. })));
        // a trust file may list what is not here
        let mut more = given(None);
        more.entries = vec![Entry::new(b, Anchor::Unsigned)];
        assert_eq!(more.entries(one).unwrap().len(), 1);
    }
}
