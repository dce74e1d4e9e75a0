//! A store in a bucket, where `--store` is `s3://bucket/prefix`.

use std::path::Path;

use kubepkg_mirror::bucket::{Bucket, S3};

use crate::error::CommandError;
use crate::places;

/// How a place in a bucket begins.
const S3_PLACE: &str = "s3://";

/// Characters of a prefix at most; keys below it have 1024 with what is added.
const MOST_PREFIX: usize = 512;

/// The bucket and prefix a place names; `None` where it is a folder.
pub fn parse(place: &Path) -> Result<Option<S3>, CommandError> {
    let text = place.to_string_lossy();
    let Some(rest) = text.strip_prefix(S3_PLACE) else {
        return Ok(None);
    };
    let wrong = |why: &str| {
        let message = format!("this names no place in a bucket: {why}");
        Err(CommandError::usage(message)
            .at(&text)
            .hint("write it like s3://mirror or s3://mirror/site-a"))
    };
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let of_bucket = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
    if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(of_bucket) {
        return wrong("a bucket has 3 to 63 small letters, digits, dots and dashes");
    }
    let prefix = prefix.trim_end_matches('/');
    let of_prefix = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let is_element =
        |element: &str| !matches!(element, "" | "." | "..") && element.bytes().all(of_prefix);
    if prefix.len() > MOST_PREFIX || !prefix.is_empty() && !prefix.split('/').all(is_element) {
        return wrong("a prefix has letters, digits, dots, dashes and underscores between slashes");
    }
    Ok(Some(S3 {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        settings: places::s3(),
    }))
}

/// Refuses a place in a bucket for a verb that does not work there. `hint` says what does.
pub fn refuse(place: &Path, verb: &str, hint: &str) -> Result<(), CommandError> {
    match parse(place)? {
        None => Ok(()),
        Some(_) => {
            let what = format!("{verb} works on a store in a folder, not in a bucket");
            Err(CommandError::usage(what).at(place.display()).hint(hint))
        }
    }
}

/// The bucket a place names; `None` where it is a folder.
pub fn open(place: &Path) -> anyhow::Result<Option<Bucket>> {
    match parse(place)? {
        Some(s3) => Ok(Some(s3.open()?)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_buckets() {
        for (place, want) in [
            ("s3://mirror", Some(("mirror", ""))),
            ("s3://mirror/", Some(("mirror", ""))),
            ("s3://my.mirror-1/a/B_c/", Some(("my.mirror-1", "a/B_c"))),
            ("/srv/mirror", None),
            ("s3:/x", None),
        ] {
            let found = parse(Path::new(place)).unwrap();
            let found = found.as_ref().map(|s3| (&*s3.bucket, &*s3.prefix));
            assert_eq!(found, want, "{place}");
        }
        for wrong in [
            "s3://",
            "s3://ab",
            "s3://Mirror/a",
            "s3://mirror/a//b",
            "s3://mirror/../b",
        ] {
            assert!(parse(Path::new(wrong)).is_err(), "{wrong}");
        }
    }
}
