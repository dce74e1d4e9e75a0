//! What a request wants to change. Writes know one shape of a path, `/v2/<host>/<path>/…`:
//! what is written must not depend on guesses about where it was meant to go.

use http::Method;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::{Algorithm, Digest};

use super::{Marker, Place, Query, RouteError, Target, digest, is_host_element, shown, target};

/// Most tags given to one manifest at once. The specification asks for ten.
pub const MAX_TAGS: usize = 50;

/// A change of one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Begin an upload.
    Begin(Begin),
    /// Add bytes to an upload.
    Append(String),
    /// End an upload: its bytes are those of the digest.
    Finish(String, Digest),
    /// Give an upload up.
    Cancel(String),
    /// Store a manifest under a tag, or under its digest and these tags.
    PutManifest(Target, Vec<Tag>),
    /// Take a tag away, or a manifest with all its tags.
    DeleteManifest(Target),
    /// Take a blob out of the repository.
    DeleteBlob(Digest),
}

/// The ways to begin an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The bytes come in later requests; their digest will be one of this algorithm.
    Session(Algorithm),
    /// The bytes are those of this request.
    Whole(Digest),
    /// The blob is in another repository already, in that one or in any.
    Mount {
        /// The blob.
        digest: Digest,
        /// The repository; `None` when the client names none or one that cannot exist.
        from: Option<RepositoryName>,
        /// Whether the client named one.
        named: bool,
    },
}

/// What may be done with the path of an endpoint, for `Allow`.
fn allowed(marker: Marker, tail: &str) -> &'static str {
    match (marker, tail) {
        (Marker::Upload, "") => "POST",
        (Marker::Upload, _) => "GET, HEAD, PATCH, PUT, DELETE",
        (Marker::Blob, _) => "GET, HEAD, DELETE",
        (Marker::Manifest, _) => "GET, HEAD, PUT, DELETE",
        (Marker::Referrers | Marker::Tags, _) => "GET, HEAD",
    }
}

/// What `method` wants of the path split into `marker` and `tail`.
pub(super) fn parse(
    method: &Method,
    marker: Marker,
    tail: &str,
    query: &Query<'_>,
) -> Result<Write, RouteError> {
    let upload = || shown(tail);
    Ok(match (method.as_str(), marker, tail) {
        ("POST", Marker::Upload, "") => Write::Begin(begin(query)?),
        ("PATCH", Marker::Upload, id) if !id.is_empty() => Write::Append(upload()),
        ("PUT", Marker::Upload, id) if !id.is_empty() => {
            let given = query.get("digest").unwrap_or_default();
            Write::Finish(upload(), digest(&given)?)
        }
        ("DELETE", Marker::Upload, id) if !id.is_empty() => Write::Cancel(upload()),
        ("PUT", Marker::Manifest, _) => put(tail, query)?,
        ("DELETE", Marker::Manifest, _) => Write::DeleteManifest(writable(tail)?),
        ("DELETE", Marker::Blob, _) => Write::DeleteBlob(digest(tail)?),
        _ => {
            return Err(RouteError::Method {
                method: shown(method.as_str()),
                allow: allowed(marker, tail),
            });
        }
    })
}

fn begin(query: &Query<'_>) -> Result<Begin, RouteError> {
    if let Some(blob) = query.get("mount") {
        let from = query.get("from").filter(|text| !text.is_empty());
        let named = from.is_some();
        let from = from.and_then(|name| super::place(None, &name, None).ok());
        return Ok(Begin::Mount {
            digest: digest(&blob)?,
            from: from.map(|place| place.name),
            named,
        });
    }
    if let Some(whole) = query.get("digest") {
        return Ok(Begin::Whole(digest(&whole)?));
    }
    let algorithm = match query.get("digest-algorithm") {
        None => Algorithm::Sha256,
        Some(text) => text.parse().map_err(|source| RouteError::Digest {
            text: shown(&text),
            source,
        })?,
    };
    Ok(Begin::Session(algorithm))
}

fn put(tail: &str, query: &Query<'_>) -> Result<Write, RouteError> {
    let target = writable(tail)?;
    let mut tags = Vec::new();
    // the specification knows them for digests only
    if matches!(target, Target::Digest(_)) {
        for text in query.all("tag") {
            if tags.len() == MAX_TAGS {
                return Err(RouteError::TooManyTags);
            }
            let tag: Tag = text.parse().map_err(|source| RouteError::Tag { source })?;
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
    }
    Ok(Write::PutManifest(target, tags))
}

/// A name that is to be written: one that cannot exist is the client's mistake.
fn writable(tail: &str) -> Result<Target, RouteError> {
    target(tail).map_err(|error| match error {
        RouteError::Target { source } => RouteError::Tag { source },
        other => other,
    })
}

/// Refuses the shapes of a path that only reads may have.
pub(super) fn check_shape(prefix: Option<&str>, place: &Place) -> Result<(), RouteError> {
    let mut elements = place.name.as_str().split('/');
    let doubled =
        elements.next().is_some_and(is_host_element) && elements.next().is_some_and(|e| e == "v2");
    match prefix.is_some() || doubled {
        true => Err(RouteError::WriteShape),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Endpoint, parse};
    use super::*;

    const D: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn ask(method: &Method, path: &str, query: &str) -> Result<Write, RouteError> {
        match parse(method, path, query)? {
            Endpoint::Write(place, write) => {
                assert_eq!(place.name.as_str(), "a/b");
                Ok(write)
            }
            other => panic!("{method} {path}: {other:?}"),
        }
    }

    fn status(method: &Method, path: &str, query: &str) -> u16 {
        ask(method, path, query).unwrap_err().status().as_u16()
    }

    #[test]
    fn every_write() {
        let d: Digest = D.parse().unwrap();
        let id = || "1".to_owned();
        let tag = |text: &str| text.parse::<Tag>().unwrap();
        let mount = |from: Option<&str>, named| {
            let from = from.map(|name| name.parse().unwrap());
            Write::Begin(Begin::Mount {
                digest: d,
                from,
                named,
            })
        };
        let begin = "/v2/a/b/blobs/uploads/";
        let one = "/v2/a/b/blobs/uploads/1";
        for (method, path, query, want) in [
            (
                Method::POST,
                begin,
                String::new(),
                Write::Begin(Begin::Session(Algorithm::Sha256)),
            ),
            (
                Method::POST,
                "/v2/a/b/blobs/uploads",
                "digest-algorithm=sha512".to_owned(),
                Write::Begin(Begin::Session(Algorithm::Sha512)),
            ),
            (
                Method::POST,
                begin,
                format!("digest={D}"),
                Write::Begin(Begin::Whole(d)),
            ),
            (
                Method::POST,
                begin,
                format!("mount={D}&from=c/d"),
                mount(Some("c/d"), true),
            ),
            (
                Method::POST,
                begin,
                format!("mount={D}&from=Example.org:5000/d"),
                mount(Some("example.org_5000/d"), true),
            ),
            (
                Method::POST,
                begin,
                format!("mount={D}"),
                mount(None, false),
            ),
            (
                Method::POST,
                begin,
                format!("mount={D}&from=No Name"),
                mount(None, true),
            ),
            (Method::PATCH, one, String::new(), Write::Append(id())),
            (
                Method::PUT,
                one,
                format!("_state=x&digest={D}"),
                Write::Finish(id(), d),
            ),
            (Method::DELETE, one, String::new(), Write::Cancel(id())),
            (
                Method::PUT,
                "/v2/a/b/manifests/v1",
                "tag=ignored".to_owned(),
                Write::PutManifest(Target::Tag(tag("v1")), vec![]),
            ),
            (
                Method::DELETE,
                "/v2/a/b/manifests/v1",
                String::new(),
                Write::DeleteManifest(Target::Tag(tag("v1"))),
            ),
        ] {
            assert_eq!(
                ask(&method, path, &query),
                Ok(want),
                "{method} {path}?{query}"
            );
        }
        let path = format!("/v2/a/b/manifests/{D}");
        assert_eq!(
            ask(&Method::PUT, &path, "tag=x&tag=y&tag=x"),
            Ok(Write::PutManifest(
                Target::Digest(d),
                vec![tag("x"), tag("y")]
            ))
        );
        let path = format!("/v2/a/b/blobs/{D}");
        assert_eq!(ask(&Method::DELETE, &path, ""), Ok(Write::DeleteBlob(d)));
    }

    #[test]
    fn bad_writes_say_what_is_wrong_with_them() {
        let manifest = format!("/v2/a/b/manifests/{D}");
        let tags = |n: usize| (0..n).map(|i| format!("tag=t{i}&")).collect::<String>();
        for (method, path, query, want) in [
            (Method::PUT, "/v2/a/b/blobs/uploads/1", "", 400),
            (
                Method::PUT,
                "/v2/a/b/blobs/uploads/1",
                "digest=sha256:x",
                400,
            ),
            (
                Method::PUT,
                "/v2/a/b/blobs/uploads/1",
                "digest=blake3:00",
                400,
            ),
            (
                Method::POST,
                "/v2/a/b/blobs/uploads/",
                "digest-algorithm=md5",
                400,
            ),
            (Method::POST, "/v2/a/b/blobs/uploads/", "mount=none", 400),
            (Method::POST, "/v2/a/b/blobs/uploads/1", "", 405),
            (Method::PUT, "/v2/a/b/blobs/uploads/", "", 405),
            (Method::PATCH, "/v2/a/b/blobs/uploads", "", 405),
            (Method::PUT, "/v2/a/b/manifests/.bad", "", 400),
            (Method::PUT, "/v2/a/b/manifests/sha256:bad", "", 400),
            (Method::PUT, &manifest, "tag=.bad", 400),
            (Method::DELETE, "/v2/a/b/manifests/.bad", "", 400),
            (Method::POST, &manifest, "", 405),
            (Method::PUT, "/v2/a/b/tags/list", "", 405),
            (Method::OPTIONS, "/v2/a/b/tags/list", "", 405),
        ] {
            assert_eq!(
                status(&method, path, query),
                want,
                "{method} {path}?{query}"
            );
        }
        assert!(ask(&Method::PUT, &manifest, &tags(MAX_TAGS)).is_ok());
        assert_eq!(status(&Method::PUT, &manifest, &tags(MAX_TAGS + 1)), 414);
        assert_eq!(status(&Method::PUT, &manifest, &tags(5000)), 414);
    }

    #[test]
    fn writes_know_one_shape() {
        for path in [
            "/docker.io/v2/library/x/blobs/uploads/",
            "/v2/docker.io/v2/library/x/blobs/uploads/",
        ] {
            assert_eq!(status(&Method::POST, path, ""), 400, "{path}");
        }
        // a repository may be called so where no host stands before it
        let parsed = parse(&Method::POST, "/v2/team/v2/x/blobs/uploads/", "");
        assert!(matches!(parsed, Ok(Endpoint::Write(..))));
    }

    proptest! {
        #[test]
        fn no_method_panics(
            method in "(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|BREW)",
            path in ".{0,80}",
            query in ".{0,60}",
        ) {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            for path in [path.clone(), format!("/v2/{path}"), format!("/v2/a/blobs/uploads/{path}")] {
                let parsed = parse(&method, &path, &query);
                let reads = method == Method::GET || method == Method::HEAD;
                let is_write = matches!(parsed, Ok(Endpoint::Write(..)));
                prop_assert!(!(reads && is_write));
            }
        }
    }
}
