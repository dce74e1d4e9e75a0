//! The URL an index says it is served at, before anything else of it is read.

use bytes::Bytes;

use super::Index;
use crate::location::CanonicalUrl;
use crate::yaml::go;

/// The member, as our writer and Go's put it: unquoted, at the start of a line.
const MEMBER: &[u8] = b"repository:";

/// Longer than the member with the longest URL; what is cut is no URL either.
const MAX_LINE: usize = 4096;

/// [`MEMBER`] after the line before it.
const LINE: &[u8] = b"\nrepository:";

impl Index {
    /// The URL that the index in `bytes` says it belongs to; `None` also where it cannot be
    /// read. Nobody has vouched for it yet: it tells under which URL the index wants to be
    /// judged, and the judgement compares it again.
    ///
    /// Where the member stands on a line of its own, the rest of the text is not parsed.
    pub fn repository_of(bytes: &Bytes) -> Option<CanonicalUrl> {
        if let Some(member) = line_of(bytes) {
            let node = go::parse(member).ok()?;
            return node.member("repository")?.text()?.parse().ok();
        }
        let begins = bytes.iter().find(|b| !b.is_ascii_whitespace());
        let lines = std::iter::once(0).chain(memchr::memchr_iter(b'\n', bytes).map(|at| at + 1));
        let mut unusual = lines.map(|start| &bytes[start..]);
        match begins == Some(&b'{') || unusual.any(is_another_spelling) {
            true => Index::read_shared(bytes.clone()).ok()?.repository,
            false => None,
        }
    }
}

/// The line that begins with the member.
fn line_of(bytes: &[u8]) -> Option<&[u8]> {
    let start = match bytes.starts_with(MEMBER) {
        true => 0,
        false => 1 + memchr::memmem::find(bytes, LINE)?,
    };
    let rest = &bytes[start..];
    let rest = &rest[..rest.len().min(MAX_LINE)];
    Some(&rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())])
}

/// Quoted, in other letters, or with a space before the colon.
fn is_another_spelling(line: &[u8]) -> bool {
    let name = line.strip_prefix(b"\"").or(line.strip_prefix(b"'"));
    let name = name.unwrap_or(line);
    let length = MEMBER.len() - 1;
    name.get(..length)
        .is_some_and(|name| name.eq_ignore_ascii_case(&MEMBER[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://packages.example.com/index.yaml";

    fn named(text: String) -> Option<String> {
        let url = Index::repository_of(&text.into())?;
        Some(url.as_str().to_owned())
    }

    #[test]
    fn the_member_is_found_however_it_is_written() {
        for text in [
            format!("kind: RepositoryIndex\npackages: {{}}\nrepository: {URL}\n"),
            format!("repository: \"{URL}\" # here\nkind: RepositoryIndex\n"),
            format!("kind: RepositoryIndex\nRepository: {URL}\n"),
            format!("\"repository\": {URL}\nkind: RepositoryIndex\n"),
            format!("{{kind: RepositoryIndex, repository: \"{URL}\"}}\n"),
        ] {
            assert_eq!(named(text.clone()).as_deref(), Some(URL), "{text}");
        }
    }

    #[test]
    fn a_repository_within_a_package_is_none_of_the_index() {
        for text in [
            format!("kind: RepositoryIndex\npackages:\n  a:\n    repository: {URL}\n"),
            "kind: RepositoryIndex\n".to_owned(),
            "repository: [".to_owned(),
            "\"repository".to_owned(),
            String::new(),
        ] {
            assert_eq!(named(text.clone()), None, "{text}");
        }
    }
}
