//! What objects are called. Numbers have leading zeros, so that a list is in their order.

use kubepkg_core::{Algorithm, Digest};

/// Says that this is a store, and its version.
pub(super) const MARK: &str = "kubepkg-bucket.json";

/// Written to see whether that is possible.
pub(super) const PROBE: &str = "probe";

/// The commit records.
pub(super) const COMMITS: &str = "commits";

/// The text of large commits.
pub(super) const APART: &str = "apart";

/// All names as of one commit.
pub(super) const NAMES: &str = "names";

/// What must not be collected.
pub(super) const LEASES: &str = "leases";

/// The record of a commit.
pub(super) fn commit(number: u64) -> String {
    format!("{COMMITS}/{number:020}.json")
}

/// All names as of a commit.
pub(super) fn names(number: u64) -> String {
    format!("{NAMES}/{number:020}.json")
}

/// The text of a large commit, written after commit `after`.
pub(super) fn apart(after: u64, by: &str) -> String {
    format!("{APART}/{after:020}-{by}.json")
}

/// The number in the key of such a text.
pub(super) fn apart_after(key: &str) -> Option<u64> {
    let (_, name) = key.rsplit_once('/')?;
    let (digits, _) = name.split_once('-')?;
    let all = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    all.then(|| digits.parse().ok())?
}

/// A lease.
pub(super) fn lease(id: &str) -> String {
    format!("{LEASES}/{id}.json")
}

/// Content. `removed` is the commit that removed content with this digest last, 0 where none
/// did: what was removed comes back under another key ([`super`], "Collection").
pub(super) fn blob(digest: &Digest, removed: u64) -> String {
    let hex = digest.hex();
    let folder = folder(digest.algorithm(), &hex[..2]);
    match removed {
        0 => format!("{folder}/{hex}"),
        number => format!("{folder}/{hex}.{number}"),
    }
}

/// Where content lies.
pub(super) const BLOBS: &str = "blobs";

/// Where content lies whose hash begins with this byte.
pub(super) fn blobs(algorithm: Algorithm, first: u8) -> String {
    folder(algorithm, &format!("{first:02x}"))
}

fn folder(algorithm: Algorithm, first: &str) -> String {
    format!("blobs/{}/{first}", algorithm.as_str())
}

/// The digest and number in the key of content.
pub(super) fn blob_of(key: &str) -> Option<(Digest, u64)> {
    let mut parts = key.strip_prefix("blobs/")?.split('/');
    let (algorithm, first, name) = (parts.next()?, parts.next()?, parts.next()?);
    let (hex, removed) = match name.split_once('.') {
        Some((hex, number)) => (hex, number.parse().ok().filter(|number| *number > 0)?),
        None => (name, 0),
    };
    let digest: Digest = format!("{algorithm}:{hex}").parse().ok()?;
    (parts.next().is_none() && hex.starts_with(first) && blob(&digest, removed) == key)
        .then_some((digest, removed))
}

/// The number in a key like `commits/<n>.json`.
pub(super) fn number_of(key: &str) -> Option<u64> {
    let (_, name) = key.rsplit_once('/')?;
    let digits = name.strip_suffix(".json")?;
    let all = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    all.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_content_say_which_it_is() {
        for (digest, removed) in [
            (Digest::sha256(b"a"), 0),
            (Digest::sha256(b"a"), 12),
            (Digest::of(Algorithm::Sha512, b"b"), u64::MAX),
        ] {
            let key = blob(&digest, removed);
            assert_eq!(blob_of(&key), Some((digest, removed)), "{key}");
            let first = u8::from_str_radix(&digest.hex()[..2], 16).unwrap();
            assert!(key.starts_with(&blobs(digest.algorithm(), first)));
        }
        let key = blob(&Digest::sha256(b"a"), 0);
        for other in [
            format!("{key}.0"),
            format!("{key}.01"),
            format!("{key}/x"),
            format!("{key}.x"),
            key.replace("blobs", "commits"),
            key[..key.len() - 1].to_owned(),
        ] {
            assert_eq!(blob_of(&other), None, "{other}");
        }
    }

    #[test]
    fn numbers_lie_in_order() {
        assert_eq!(number_of(&commit(7)), Some(7));
        assert!(commit(9) < commit(10) && names(99) < names(100));
        assert_eq!(number_of(&commit(u64::MAX)), Some(u64::MAX));
        assert_eq!(apart_after(&apart(7, "ab")), Some(7));
        assert_eq!(number_of(&apart(7, "ab")), None);
        assert_eq!(apart_after(&commit(7)), None);
        for other in [
            "commits/7.json",
            "commits/",
            "x",
            "commits/-0000000000000000001.json",
        ] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
