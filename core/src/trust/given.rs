//! From keys on the command line to trust entries.

use super::entry::{Entry, mark_shared_keys};
use crate::error::{Classify, Kind};
use crate::keys::PublicKey;
use crate::location::CanonicalUrl;

/// Whom the caller trusts: keys, each for one repository or for the only one there is.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Keys given without a URL; they are meant for a single repository.
    pub keys: Vec<PublicKey>,
    /// Keys given for a repository.
    pub by_url: Vec<(CanonicalUrl, PublicKey)>,
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
    /// The trust entry of each of `urls`, in their order.
    ///
    /// # Errors
    /// A repository without a key (unless unsigned ones are allowed), a bare key where there
    /// are several repositories, a key for a repository that is not there.
    pub fn entries(&self, urls: &[CanonicalUrl]) -> Result<Vec<Entry>, GivenError> {
        if let Some((url, _)) = self.by_url.iter().find(|(url, _)| !urls.contains(url)) {
            return Err(GivenError::UnknownRepository {
                given: url.clone(),
                known: urls.to_vec(),
            });
        }
        if !self.keys.is_empty() && urls.len() > 1 {
            return Err(GivenError::WhichRepository(urls.to_vec()));
        }
        let mut entries = urls
            .iter()
            .map(|url| self.entry(url))
            .collect::<Result<Vec<_>, _>>()?;
        mark_shared_keys(&mut entries);
        Ok(entries)
    }

    fn entry(&self, url: &CanonicalUrl) -> Result<Entry, GivenError> {
        let own = self
            .by_url
            .iter()
            .filter(|(of, _)| of == url)
            .map(|(_, key)| key);
        let keys: Vec<PublicKey> = own.chain(&self.keys).cloned().collect();
        if keys.is_empty() && !self.allow_unsigned {
            return Err(GivenError::NoKey(url.clone()));
        }
        // who gave a key wants it to have signed
        let allow_unsigned = self.allow_unsigned && keys.is_empty();
        Ok(Entry::new(url.clone(), keys, allow_unsigned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    fn key() -> PublicKey {
        PrivateKey::generate().unwrap().public().unwrap()
    }

    #[test]
    fn one_bare_key_serves_one_repository_only() {
        let a: CanonicalUrl = "https://a.example.org/index.yaml".parse().unwrap();
        let b: CanonicalUrl = "https://b.example.org/index.yaml".parse().unwrap();
        let one = std::slice::from_ref(&a);
        let both = [a.clone(), b.clone()];
        let given = Given {
            keys: vec![key()],
            ..Given::default()
        };
        assert_eq!(given.entries(one).unwrap()[0].keys.len(), 1);
        assert!(matches!(
            given.entries(&both),
            Err(GivenError::WhichRepository(_))
        ));
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
        let a: CanonicalUrl = "https://a.example.org/index.yaml".parse().unwrap();
        assert_eq!(
            Given::default().entries(std::slice::from_ref(&a)),
            Err(GivenError::NoKey(a.clone()))
        );
        let unsigned = Given {
            allow_unsigned: true,
            ..Given::default()
        };
        assert!(unsigned.entries(&[a]).unwrap()[0].keys.is_empty());
    }
}
