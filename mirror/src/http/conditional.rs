//! Entity tags: `If-None-Match` and `If-Range` (RFC 9110, section 13).
//!
//! The tag of everything is its digest in quotes, a strong validator. Some clients send the
//! bare digest, which cannot mean anything else.

use http::HeaderMap;
use http::header::{IF_NONE_MATCH, IF_RANGE};
use kubepkg_core::Digest;

/// Whether the client already has the content: answer 304.
pub fn unchanged(headers: &HeaderMap, digest: &Digest) -> bool {
    if !headers.contains_key(IF_NONE_MATCH) {
        return false;
    }
    let digest = digest.to_string();
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || bare(tag.strip_prefix("W/").unwrap_or(tag)) == digest)
}

/// Whether a `Range` counts: there is no `If-Range`, or it names exactly this content. A date
/// never does, because no dates are given out.
pub fn range_counts(headers: &HeaderMap, digest: &Digest) -> bool {
    match headers.get(IF_RANGE) {
        None => true,
        Some(tag) => tag
            .to_str()
            .is_ok_and(|tag| bare(tag.trim()) == digest.to_string()),
    }
}

fn bare(tag: &str) -> &str {
    tag.strip_prefix('"')
        .and_then(|tag| tag.strip_suffix('"'))
        .unwrap_or(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&str], name: http::HeaderName) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(name.clone(), line.parse().unwrap());
        }
        headers
    }

    #[test]
    fn none_match_reads_every_form() {
        let digest = Digest::sha256(b"x");
        let strong = format!("\"{digest}\"");
        let weak = format!("W/{strong}");
        let list = format!("\"a\", {strong} ,\"b\"");
        let none = |lines: &[&str]| unchanged(&headers(lines, IF_NONE_MATCH), &digest);
        assert!(none(&[&strong]) && none(&[&weak]) && none(&[&list]) && none(&["*"]));
        assert!(none(&[&digest.to_string()]) && none(&["\"a\"", &strong]));
        assert!(!none(&[]) && !none(&["\"a\""]) && !none(&[""]));
    }

    #[test]
    fn if_range_wants_the_strong_tag() {
        let digest = Digest::sha256(b"x");
        let strong = format!("\"{digest}\"");
        let weak = format!("W/{strong}");
        let counts = |lines: &[&str]| range_counts(&headers(lines, IF_RANGE), &digest);
        assert!(counts(&[]) && counts(&[&strong]));
        assert!(!counts(&[&weak]) && !counts(&["Tue, 01 Dec 2026 00:00:00 GMT"]));
    }
}
