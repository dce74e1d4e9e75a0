//! `/repositories/<host>/<path>/…`: the repository files a mirror was filled from, in the
//! folder their index has upstream.
//!
//! The files of one index (the index, its signature, roots, `carried.json`) change together, as
//! a set, when an import commits. Every answer comes from the set that is current when it is
//! asked for, and names it in the header `Kubepkg-Set`: the number of the commit that brought
//! the set, a decimal number that only grows. A reader of several files compares the numbers of
//! its answers: are they not all the same, it has fetched across an import and fetches all of
//! them again. One that reads the index and its signature only may simply check the signature
//! and ask again once when it does not fit. Older sets are not addressed by URL.

use axum::response::Response;
use http::header::{HeaderName, HeaderValue};
use kubepkg_core::location::{CanonicalUrl, host_element, mirror_repository, upstream_host};
use kubepkg_core::store::{Names, SiteEntry};

use super::auth;
use super::content::{Described, Freshness, opened};
use super::error::ApiError;
use super::{Asking, Shared};
use crate::access::Action;
use crate::route::decode;

const KUBEPKG_SET: HeaderName = HeaderName::from_static("kubepkg-set");

/// `GET|HEAD /repositories/<rest>`.
pub async fn answer(
    shared: &Shared,
    asking: &Asking,
    names: &Names,
    rest: &str,
) -> Result<Response, ApiError> {
    let absent = || ApiError::no_page(asking.path());
    let decoded = decode(rest).ok_or_else(absent)?;
    auth::demand(shared, asking, Action::Pull, &ruled(&decoded))?;
    let (folder, site, file) = find(names, &decoded).ok_or_else(absent)?;
    let stored = &site.files[&file];
    let described = Described {
        digest: stored.digest,
        size: stored.size,
        media_type: HeaderValue::from_static(media_type(&file)),
        freshness: Freshness::Revalidate,
    };
    let set = site.set;
    let (folder, site) = (folder.to_owned(), site.clone());
    let open = opened(&shared.source, move |source| {
        source.site_file(&folder, &site, &file)
    });
    let mut response = described
        .answer(asking, &shared.source, &shared.buffers, absent, open)
        .await?;
    response.headers_mut().insert(KUBEPKG_SET, set.into());
    Ok(response)
}

/// The path of an index as rules name it.
pub(super) fn ruled_index(url: &CanonicalUrl) -> String {
    let path = decode(url.path()).unwrap_or(url.path().into());
    ruled(&format!("{}{path}", url.host()))
}

/// The path as rules name it, which is as the store would name what lies there: all of one
/// spelling, so that no other one leads around a rule. An element of which that leaves nothing
/// counts as not there.
fn ruled(path: &str) -> String {
    let (host, below) = path.split_once('/').unwrap_or((path, ""));
    // a host may be given in its mirror form (`host_5000`)
    let upstream = host.parse().ok().and_then(|name| upstream_host(&name));
    let host = upstream.as_deref().unwrap_or(host);
    let Ok(first) = mirror_repository(host, "") else {
        return path.to_ascii_lowercase();
    };
    let mut name = first.to_string();
    for element in below.split('/').filter(|element| !element.is_empty()) {
        if let Ok(one) = mirror_repository(host, element) {
            name.push_str(&one.as_str()[first.as_str().len()..]);
        }
    }
    name
}

/// The site and file a path means. Where several indexes lie in one folder upstream, the file
/// is that of the first that has it, `index.yaml` before others and `https` before `http`.
fn find<'a>(names: &'a Names, path: &str) -> Option<(&'a str, &'a SiteEntry, String)> {
    let (host, path) = path.split_once('/')?;
    // a host in its mirror form (`host_5000`) has no second mapping
    let host = host_element(host).unwrap_or_else(|| host.to_owned());
    names
        .sites
        .iter()
        .filter(|(_, site)| host_element(site.url.host()).as_ref() == Some(&host))
        .filter_map(|(folder, site)| {
            let above = index_folder(&site.url);
            let file = path.strip_prefix(above.as_str())?;
            let has = site.files.contains_key(file);
            has.then_some((above.len(), folder.as_str(), site, file))
        })
        .max_by_key(|(depth, _, site, _)| {
            let index = site.url.file_name() == "index.yaml";
            (*depth, index, site.url.scheme() == "https")
        })
        .map(|(_, folder, site, file)| (folder, site, file.to_owned()))
}

/// The folder the index lies in, decoded, without leading and with trailing `/`.
fn index_folder(url: &CanonicalUrl) -> String {
    let path = decode(url.path()).unwrap_or(url.path().into());
    let path = path.strip_prefix('/').unwrap_or(&path);
    let cut = path.rfind('/').map_or(0, |at| at + 1);
    path[..cut].to_owned()
}

fn media_type(file: &str) -> &'static str {
    match file.rsplit_once('.') {
        Some((_, "yaml" | "yml")) => "application/yaml",
        Some((_, "json")) => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use kubepkg_core::Digest;
    use kubepkg_core::store::SiteFile;

    use super::*;

    fn names(urls: &[&str]) -> Names {
        let mut names = Names::default();
        for url in urls {
            let url: CanonicalUrl = url.parse().unwrap();
            let file = SiteFile {
                digest: Digest::sha256(url.as_str()),
                size: 1,
            };
            let own = url.file_name().to_owned();
            let files = [own.as_str(), "carried.json", "root/1.yaml"];
            let entry = SiteEntry {
                url: url.clone(),
                set: 1,
                files: files.map(|f| (f.to_owned(), file.clone())).into(),
            };
            names.sites.insert(url.folder(), entry);
        }
        names
    }

    fn url_of(names: &Names, path: &str) -> Option<String> {
        find(names, path).map(|(_, site, file)| format!("{} {file}", site.url))
    }

    #[test]
    fn files_lie_where_they_lie_upstream() {
        let names = names(&[
            "https://example.org:8443/Stable/index.yaml",
            "https://example.org/index.yaml",
            "https://example.org/a%20b/index.yaml",
        ]);
        for (path, want) in [
            (
                "example.org_8443/Stable/index.yaml",
                Some("https://example.org:8443/Stable/index.yaml index.yaml"),
            ),
            (
                "example.org:8443/Stable/root/1.yaml",
                Some("https://example.org:8443/Stable/index.yaml root/1.yaml"),
            ),
            (
                "example.org/index.yaml",
                Some("https://example.org/index.yaml index.yaml"),
            ),
            (
                "example.org/a b/carried.json",
                Some("https://example.org/a%20b/index.yaml carried.json"),
            ),
            ("example.org/Stable/index.yaml", None),
            ("example.org/index.yaml.sig", None),
            ("example.org/../index.yaml", None),
            ("example.org", None),
        ] {
            assert_eq!(url_of(&names, path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn rules_name_files_as_the_store_would() {
        for (path, want) in [
            (
                "Example.org:8443/A b/Index.yaml",
                "example.org_8443/a-b/index.yaml",
            ),
            (
                "example.org_8443/a b/index.yaml",
                "example.org_8443/a-b/index.yaml",
            ),
            (
                "index.docker.io/x//carried.json",
                "docker.io/x/carried.json",
            ),
            ("[::1]:80/a", "ip6-0-1_80/a"),
            (
                "example.org/__/a/index.yaml.sig",
                "example.org/a/index.yaml.sig",
            ),
            ("No Host/A", "no host/a"),
        ] {
            assert_eq!(ruled(path), want);
        }
        let url: CanonicalUrl = "https://example.org/a%20b/c.yaml".parse().unwrap();
        assert_eq!(ruled_index(&url), "example.org/a-b/c.yaml");
    }

    #[test]
    fn several_indexes_in_one_folder() {
        let names = names(&[
            "https://example.org/edge.yaml",
            "http://example.org/index.yaml",
            "https://example.org/index.yaml",
        ]);
        for (path, want) in [
            (
                "example.org/edge.yaml",
                "https://example.org/edge.yaml edge.yaml",
            ),
            (
                "example.org/carried.json",
                "https://example.org/index.yaml carried.json",
            ),
        ] {
            assert_eq!(url_of(&names, path).as_deref(), Some(want), "{path}");
        }
    }
}
