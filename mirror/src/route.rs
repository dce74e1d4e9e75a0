//! What a request to the registry API asks for, read from method, path and query alone.
//!
//! Repository names have any number of elements and may themselves contain `blobs` or
//! `manifests`, so a path is split from the right, at its last marker. Source: OCI
//! distribution specification, "Endpoints"; the shapes of a path are on the design page
//! "mirror", "Locations".

mod write;

use std::borrow::Cow;
use std::str::FromStr;

use http::{Method, StatusCode};
use kubepkg_core::Digest;
use kubepkg_core::digest::ParseDigestError;
use kubepkg_core::location::host_element;
use kubepkg_core::name::{NameError, RepositoryName, Tag};

pub use write::{Begin, MAX_TAGS, Write};

/// Most entries in one page of tags or repositories; the rest follows by `Link`.
pub const MAX_PAGE: usize = 10_000;

/// Longest path that is looked at: a name has at most 255 characters, a sha512 digest 135, and
/// each may be percent-encoded.
pub const MAX_PATH: usize = 4096;

/// Longest query that is looked at: [`MAX_TAGS`] of the longest tags fit.
pub const MAX_QUERY: usize = 8192;

/// A request to the registry API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v2/`: is this a registry?
    Base,
    /// `/v2/_catalog`: the repositories.
    Catalog(Page),
    /// Something in one repository.
    Repository(Place, Ask),
    /// A change of one repository.
    Write(Place, Write),
}

/// Which repository is meant. Where it may be looked for is said by [`crate::namespace`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name as the client wrote it, decoded; for answers and messages.
    pub asked: String,
    /// The name with a leading host in its mirror form (`host_port`, Docker Hub's one name).
    pub name: RepositoryName,
    /// The value of `ns`, as given.
    pub ns: Option<String>,
}

/// What is asked of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A blob.
    Blob(Digest),
    /// A manifest.
    Manifest(Target),
    /// The tags.
    Tags(Page),
    /// The manifests that are about `subject`.
    Referrers {
        /// What they are about.
        subject: Digest,
        /// Only those of this type.
        artifact_type: Option<String>,
        /// Only those after this one, in order of digests.
        last: Option<Digest>,
    },
    /// The state of an upload.
    Upload(String),
}

/// How a manifest is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// By tag.
    Tag(Tag),
    /// By digest.
    Digest(Digest),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tag(tag) => tag.fmt(f),
            Target::Digest(digest) => digest.fmt(f),
        }
    }
}

/// A part of a sorted list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// At most so many entries; `None` for as many as one answer may have.
    pub n: Option<usize>,
    /// Only entries after this one, which need not exist.
    pub last: Option<String>,
}

/// Why a request is not answered from the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The path does not belong to the registry API.
    #[error("the path is outside the registry API")]
    Elsewhere,
    /// Anything but GET and HEAD, where nobody may write.
    #[error(
        "{method} is not possible: this server is read-only; content enters it with `kubepkg bundle import`"
    )]
    ReadOnly {
        /// The method.
        method: String,
    },
    /// A method the endpoint does not have.
    #[error("{method} is not possible here; this path knows {allow}")]
    Method {
        /// The method.
        method: String,
        /// The methods it has.
        allow: &'static str,
    },
    /// A write in a form that only reads may have.
    #[error(
        "a push names where it goes in one way only: /v2/<host>/<path>/, without `ns`, without a host before /v2/ and without a second v2"
    )]
    WriteShape,
    /// The name of a tag that is to be written is not legal.
    #[error("{source}")]
    Tag {
        /// What is wrong with it.
        source: NameError,
    },
    /// More tags in one request than are taken.
    #[error("more than {MAX_TAGS} tags at once; push the same manifest again with the others")]
    TooManyTags,
    /// The query is too long.
    #[error("the query is longer than {MAX_QUERY} characters")]
    Query,
    /// The path is too long, or its percent-encoding is broken or no UTF-8.
    #[error("the path is too long or not correctly percent-encoded")]
    Encoding,
    /// A path of the registry API that no endpoint has.
    #[error("\"{path}\" is no endpoint of the registry API")]
    Unknown {
        /// The path, cut to a bounded length.
        path: String,
    },
    /// The repository name is not legal.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The digest is not legal.
    #[error("\"{text}\" is no digest: {source}")]
    Digest {
        /// The text, cut to a bounded length.
        text: String,
        /// What is wrong.
        source: ParseDigestError,
    },
    /// Neither a tag nor a digest, so it cannot exist.
    #[error("no manifest has this name: {source}")]
    Target {
        /// What is wrong with it as a tag.
        source: NameError,
    },
    /// `n` is not a number.
    #[error("n={n} is no number of entries: write a whole number, 0 or more")]
    Page {
        /// The text, cut to a bounded length.
        n: String,
    },
}

impl RouteError {
    /// The status a client gets for it.
    pub fn status(&self) -> StatusCode {
        match self {
            RouteError::Elsewhere | RouteError::Unknown { .. } | RouteError::Target { .. } => {
                StatusCode::NOT_FOUND
            }
            RouteError::ReadOnly { .. } | RouteError::Method { .. } => {
                StatusCode::METHOD_NOT_ALLOWED
            }
            RouteError::TooManyTags | RouteError::Query => StatusCode::URI_TOO_LONG,
            RouteError::WriteShape
            | RouteError::Tag { .. }
            | RouteError::Encoding
            | RouteError::Name(_)
            | RouteError::Digest { .. }
            | RouteError::Page { .. } => StatusCode::BAD_REQUEST,
        }
    }
}

/// What `method` on `path` with `query` (both as on the wire) asks for.
pub fn parse(method: &Method, path: &str, query: &str) -> Result<Endpoint, RouteError> {
    if path.len() > MAX_PATH {
        return Err(RouteError::Encoding);
    }
    let decoded = decode(path).ok_or(RouteError::Encoding)?;
    let (prefix, rest) = below_v2(&decoded).ok_or(RouteError::Elsewhere)?;
    if query.len() > MAX_QUERY {
        return Err(RouteError::Query);
    }
    let reads = method == Method::GET || method == Method::HEAD;
    let query = Query(query);
    match (prefix, rest) {
        (_, "") | (None, "_catalog") if !reads => {
            return Err(RouteError::Method {
                method: shown(method.as_str()),
                allow: "GET, HEAD",
            });
        }
        (_, "") => return Ok(Endpoint::Base),
        (None, "_catalog") => return Ok(Endpoint::Catalog(query.page()?)),
        _ => {}
    }
    let (name, marker, tail) = split(rest).ok_or_else(|| RouteError::Unknown {
        path: shown(&decoded),
    })?;
    let place = place(prefix, name, query.get("ns"))?;
    if !reads {
        write::check_shape(prefix, &place)?;
        let write = write::parse(method, marker, tail, &query)?;
        return Ok(Endpoint::Write(place, write));
    }
    let ask = match marker {
        Marker::Blob => Ask::Blob(digest(tail)?),
        Marker::Manifest => Ask::Manifest(target(tail)?),
        Marker::Tags => Ask::Tags(query.page()?),
        Marker::Referrers => Ask::Referrers {
            subject: digest(tail)?,
            artifact_type: query.get("artifactType").filter(|text| !text.is_empty()),
            last: query.get("last").map(|text| digest(&text)).transpose()?,
        },
        Marker::Upload => Ask::Upload(shown(tail)),
    };
    Ok(Endpoint::Repository(place, ask))
}

/// Whether a path, as on the wire, is one of the registry API.
pub fn is_registry(path: &str) -> bool {
    let decoded = (path.len() <= MAX_PATH).then(|| decode(path)).flatten();
    decoded.is_some_and(|path| below_v2(&path).is_some())
}

/// The part of a decoded path below `/v2/`, with the host before `/v2/` where there is one.
fn below_v2(path: &str) -> Option<(Option<&str>, &str)> {
    let path = path.strip_prefix('/')?;
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    if first == "v2" {
        return Some((None, rest));
    }
    let (second, rest) = rest.split_once('/').unwrap_or((rest, ""));
    (second == "v2" && is_host_element(first)).then_some((Some(first), rest))
}

/// Whether the first element of a path can only be a registry host: it has a dot or a port,
/// or is `localhost`.
pub fn is_host_element(element: &str) -> bool {
    let port = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    element == "localhost"
        || element.contains(['.', ':'])
        || element.rsplit_once('_').is_some_and(|(_, p)| port(p))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Upload,
    Blob,
    Manifest,
    Referrers,
    Tags,
}

/// Name, marker and what stands behind it, split at the last marker.
fn split(rest: &str) -> Option<(&str, Marker, &str)> {
    // where two begin at the same place the longer one, listed first, is meant
    const MARKERS: [(&str, Marker); 4] = [
        ("/blobs/uploads/", Marker::Upload),
        ("/blobs/", Marker::Blob),
        ("/manifests/", Marker::Manifest),
        ("/referrers/", Marker::Referrers),
    ];
    if let Some(name) = rest.strip_suffix("/tags/list") {
        return Some((name, Marker::Tags, ""));
    }
    if let Some(name) = rest.strip_suffix("/blobs/uploads") {
        return Some((name, Marker::Upload, ""));
    }
    let mut found: Option<(usize, &str, Marker)> = None;
    for (text, marker) in MARKERS {
        if let Some(at) = rest.rfind(text)
            && found.is_none_or(|(best, ..)| at > best)
        {
            found = Some((at, text, marker));
        }
    }
    let (at, text, marker) = found?;
    Some((&rest[..at], marker, &rest[at + text.len()..]))
}

fn place(prefix: Option<&str>, name: &str, ns: Option<String>) -> Result<Place, RouteError> {
    let asked = match prefix {
        Some(host) => format!("{host}/{name}"),
        None => name.to_owned(),
    };
    let (first, below) = match asked.split_once('/') {
        Some((first, below)) => (first, Some(below)),
        None => (asked.as_str(), None),
    };
    // `Example.ORG:5000` and Docker Hub's other names; anything else stays as it is
    let mapped = is_host_element(first)
        .then(|| host_element(first))
        .flatten()
        .map(|host| match below {
            Some(below) => format!("{host}/{below}"),
            None => host,
        });
    let name = RepositoryName::from_str(mapped.as_deref().unwrap_or(&asked))?;
    Ok(Place {
        asked,
        name,
        ns: ns.filter(|text| !text.is_empty()),
    })
}

fn digest(text: &str) -> Result<Digest, RouteError> {
    text.parse().map_err(|source| RouteError::Digest {
        text: shown(text),
        source,
    })
}

fn target(text: &str) -> Result<Target, RouteError> {
    if text.contains(':') {
        return Ok(Target::Digest(digest(text)?));
    }
    match text.parse() {
        Ok(tag) => Ok(Target::Tag(tag)),
        Err(source) => Err(RouteError::Target { source }),
    }
}

struct Query<'a>(&'a str);

impl Query<'_> {
    /// The first value of `key`.
    fn get(&self, key: &str) -> Option<String> {
        url::form_urlencoded::parse(self.0.as_bytes())
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.into_owned())
    }

    /// All values of `key`.
    fn all(&self, key: &str) -> Vec<String> {
        url::form_urlencoded::parse(self.0.as_bytes())
            .filter(|(name, _)| name == key)
            .map(|(_, value)| value.into_owned())
            .collect()
    }

    fn page(&self) -> Result<Page, RouteError> {
        let n = match self.get("n") {
            None => None,
            Some(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
                // more digits than fit are more entries than there are
                Some(text.parse().unwrap_or(MAX_PAGE))
            }
            Some(text) => return Err(RouteError::Page { n: shown(&text) }),
        };
        let last = self.get("last").filter(|text| !text.is_empty());
        Ok(Page { n, last })
    }
}

/// Undoes percent-encoding; `None` when it is broken or the result is no UTF-8.
pub(crate) fn decode(text: &str) -> Option<Cow<'_, str>> {
    let Some(first) = text.find('%') else {
        return Some(Cow::Borrowed(text));
    };
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(&text.as_bytes()[..first]);
    let mut bytes = text[first..].bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        out.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

pub(crate) use kubepkg_core::error::shown;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const D: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn get(path: &str, query: &str) -> Result<Endpoint, RouteError> {
        parse(&Method::GET, path, query)
    }

    fn repository(path: &str, query: &str) -> (Place, Ask) {
        match get(path, query) {
            Ok(Endpoint::Repository(place, ask)) => (place, ask),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn the_base_has_four_spellings() {
        for path in ["/v2", "/v2/", "/docker.io/v2", "/docker.io/v2/"] {
            assert_eq!(get(path, "ns=docker.io"), Ok(Endpoint::Base), "{path}");
        }
    }

    #[test]
    fn every_endpoint() {
        let digest: Digest = D.parse().unwrap();
        for (path, want) in [
            (format!("/v2/a/b/blobs/{D}"), Ask::Blob(digest)),
            (
                format!("/v2/a/b/manifests/{D}"),
                Ask::Manifest(Target::Digest(digest)),
            ),
            (
                "/v2/a/b/manifests/v1".to_owned(),
                Ask::Manifest(Target::Tag("v1".parse().unwrap())),
            ),
            ("/v2/a/b/tags/list".to_owned(), Ask::Tags(Page::default())),
            (
                format!("/v2/a/b/referrers/{D}"),
                Ask::Referrers {
                    subject: digest,
                    artifact_type: None,
                    last: None,
                },
            ),
            (
                "/v2/a/b/blobs/uploads/1".to_owned(),
                Ask::Upload("1".to_owned()),
            ),
            (
                "/v2/a/b/blobs/uploads".to_owned(),
                Ask::Upload(String::new()),
            ),
        ] {
            let (place, ask) = repository(&path, "");
            assert_eq!((place.name.as_str(), ask), ("a/b", want), "{path}");
        }
        assert_eq!(
            get("/v2/_catalog", "n=2&last=x"),
            Ok(Endpoint::Catalog(Page {
                n: Some(2),
                last: Some("x".to_owned())
            }))
        );
    }

    #[test]
    fn a_name_may_hold_and_end_in_the_words_of_the_api() {
        for (path, name) in [
            ("/v2/x/manifests/manifests/v1", "x/manifests"),
            ("/v2/x/blobs/manifests/v1", "x/blobs"),
            ("/v2/x/blobs/uploads/manifests/v1", "x/blobs/uploads"),
            ("/v2/x/tags/list/manifests/v1", "x/tags/list"),
            ("/v2/x/referrers/tags/list", "x/referrers"),
            ("/v2/x/manifests/tags/list", "x/manifests"),
            ("/v2/v2/manifests/v2", "v2"),
        ] {
            assert_eq!(repository(path, "").0.name.as_str(), name, "{path}");
        }
    }

    #[test]
    fn hosts_in_a_path_get_their_mirror_form() {
        for (path, name) in [
            ("/v2/example.org:5000/a", "example.org_5000/a"),
            ("/v2/example.org%3A5000/a", "example.org_5000/a"),
            ("/v2/example.org%3a5000%2Fa", "example.org_5000/a"),
            ("/v2/example.org_5000/a", "example.org_5000/a"),
            ("/v2/Example.ORG/a", "example.org/a"),
            ("/v2/[::1]:5000/a", "ip6-0-1_5000/a"),
            ("/v2/registry-1.docker.io/library/a", "docker.io/library/a"),
            ("/example.org:5000/v2/a", "example.org_5000/a"),
            ("/example.org_5000/v2/a", "example.org_5000/a"),
            ("/localhost/v2/a/b", "localhost/a/b"),
            ("/v2/docker.io/v2/a/b", "docker.io/v2/a/b"),
        ] {
            let (place, _) = repository(&format!("{path}/manifests/v1"), "");
            assert_eq!(place.name.as_str(), name, "{path}");
        }
    }

    #[test]
    fn a_host_before_v2_needs_a_dot_a_port_or_localhost() {
        for path in [
            "/library/v2/a/manifests/v1",
            "/charts/v2/a/manifests/v1",
            "/a/b/v2/c/manifests/v1",
            "/",
            "/healthz",
            "/v20/a/manifests/v1",
        ] {
            assert_eq!(get(path, ""), Err(RouteError::Elsewhere), "{path}");
        }
    }

    #[test]
    fn namespaces_are_decoded_and_kept() {
        let (place, _) = repository("/v2/a/manifests/v1", "x=1&ns=reg.example%3A5000");
        assert_eq!(place.ns.as_deref(), Some("reg.example:5000"));
        assert_eq!(repository("/v2/a/manifests/v1", "ns=").0.ns, None);
    }

    #[test]
    fn bad_input_says_what_is_wrong_with_it() {
        let long = format!("/v2/{}/manifests/v1", "a/".repeat(3000));
        let deep = format!("/v2/{}b/manifests/v1", "a/".repeat(200));
        for (path, status) in [
            ("/v2/A/manifests/v1", 400),
            ("/v2//manifests/v1", 400),
            ("/v2/a/../b/manifests/v1", 400),
            ("/v2/a/%2e%2e/b/manifests/v1", 400),
            ("/v2/a%00/manifests/v1", 400),
            ("/v2/a%ff/manifests/v1", 400),
            ("/v2/a%4/manifests/v1", 400),
            ("/v2/a/manifests/sha256:bad", 400),
            ("/v2/a/manifests/.illegal", 404),
            ("/v2/a/manifests/", 404),
            ("/v2/a/manifests/x/y", 404),
            ("/v2/a/blobs/sha256:bad", 400),
            ("/v2/a/blobs/none", 400),
            ("/v2/a/referrers/sha256:bad", 400),
            ("/v2/a", 404),
            ("/v2/manifests/v1", 404),
            (&long, 400),
            (&deep, 400),
        ] {
            assert_eq!(get(path, "").unwrap_err().status(), status, "{path}");
        }
    }

    #[test]
    fn page_sizes() {
        let page = |query| match get("/v2/a/tags/list", query) {
            Ok(Endpoint::Repository(_, Ask::Tags(page))) => Ok(page.n),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.status().as_u16()),
        };
        assert_eq!(page("n=0"), Ok(Some(0)));
        assert_eq!(page("n=99999999999999999999999"), Ok(Some(MAX_PAGE)));
        for bad in ["n=-1", "n=x", "n=", "n=1.5"] {
            assert_eq!(page(bad), Err(400), "{bad}");
        }
    }

    #[test]
    fn base_and_catalogue_are_only_read() {
        for method in [Method::PUT, Method::POST, Method::PATCH, Method::DELETE] {
            for path in ["/v2/", "/v2", "/v2/_catalog"] {
                let error = parse(&method, path, "").unwrap_err();
                assert_eq!(error.status(), 405);
                assert!(error.to_string().contains("GET, HEAD"), "{error}");
            }
        }
    }

    fn element() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("blobs".to_owned()),
            Just("manifests".to_owned()),
            Just("uploads".to_owned()),
            Just("referrers".to_owned()),
            Just("tags".to_owned()),
            Just("list".to_owned()),
            Just("v2".to_owned()),
            "[a-z0-9]{1,6}",
            "[a-z0-9]{1,3}(\\.|_|__|--?)[a-z0-9]{1,3}",
        ]
    }

    fn name() -> impl Strategy<Value = String> {
        proptest::collection::vec(element(), 1..12).prop_map(|elements| elements.join("/"))
    }

    proptest! {
        #[test]
        fn any_name_comes_back(name in name(), tag in "[a-z0-9_][a-zA-Z0-9._-]{0,20}") {
            let asked = |path: String| match parse(&Method::HEAD, &path, "") {
                Ok(Endpoint::Repository(place, _)) => Some(place.asked),
                _ => None,
            };
            prop_assert_eq!(asked(format!("/v2/{name}/manifests/{tag}")), Some(name.clone()));
            prop_assert_eq!(asked(format!("/v2/{name}/manifests/{D}")), Some(name.clone()));
            prop_assert_eq!(asked(format!("/v2/{name}/blobs/{D}")), Some(name.clone()));
            prop_assert_eq!(asked(format!("/v2/{name}/referrers/{D}")), Some(name.clone()));
            prop_assert_eq!(asked(format!("/v2/{name}/tags/list")), Some(name.clone()));
            prop_assert_eq!(asked(format!("/example.org/v2/{name}/tags/list")), Some(format!("example.org/{name}")));
        }

        #[test]
        fn never_panics(path in ".{0,80}", query in ".{0,40}") {
            let _ = parse(&Method::GET, &path, &query);
            let _ = parse(&Method::GET, &format!("/v2/{path}"), &query);
        }
    }
}
