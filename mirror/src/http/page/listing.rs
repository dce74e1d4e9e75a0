//! Which repositories and tags a page shows: chosen from the names in memory.

use kubepkg_core::Digest;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{ManifestEntry, Names, Origin, Repository, TagEntry};
use kubepkg_core::version::Version;

use super::command::What;
use crate::wanted::is_signature_tag;

/// Repositories on one page.
pub(super) const ROWS: usize = 50;

/// Tags shown of one repository; a search finds the others.
pub(super) const TAGS: usize = 10;

/// Repositories with more tags are not sorted by version: that reads each of them.
const SORTED: usize = 2000;

/// The repositories of one page.
#[derive(Debug)]
pub(super) struct Listing<'n> {
    /// Those on this page, in order of their names.
    pub rows: Vec<Row<'n>>,
    /// This page, from 1 on.
    pub page: usize,
    /// How many pages there are, 1 at least.
    pub pages: usize,
    /// How many repositories there are on all of them.
    pub total: usize,
}

/// One repository.
#[derive(Debug)]
pub(super) struct Row<'n> {
    /// Its name.
    pub name: &'n RepositoryName,
    /// Some of its tags, newer versions first.
    pub tags: Vec<TagRow<'n>>,
    /// How many more there are.
    pub more: usize,
    /// Its manifests.
    pub manifests: usize,
    /// Its blobs.
    pub blobs: usize,
}

/// One tag.
#[derive(Debug)]
pub(super) struct TagRow<'n> {
    /// The tag.
    pub tag: &'n Tag,
    /// What it is.
    pub what: What,
    /// The package that brought it.
    pub origin: Option<&'n Origin>,
}

/// What is searched for.
enum Search<'s> {
    Everything,
    /// A part of a name, or of a tag.
    Part(&'s str),
    /// The end of a name, and the beginning of a tag.
    Tagged(&'s str, &'s str),
    /// A manifest or blob.
    Content(Digest),
}

impl<'s> Search<'s> {
    fn of(text: &'s str) -> Search<'s> {
        let digest = text.rsplit_once('@').map_or(text, |(_, digest)| digest);
        if text.is_empty() {
            Search::Everything
        } else if let Ok(digest) = digest.parse() {
            Search::Content(digest)
        } else if let Some((name, tag)) = text.rsplit_once(':')
            && !tag.contains('/')
        {
            Search::Tagged(name, tag)
        } else {
            Search::Part(text)
        }
    }

    /// Whether all tags of a repository are wanted, or only those that [`Search::finds`].
    fn finds_all(&self, name: &RepositoryName, repository: &Repository) -> bool {
        match self {
            Search::Everything => true,
            Search::Part(part) => name.as_str().contains(part),
            Search::Tagged(..) => false,
            Search::Content(digest) => repository.blobs.contains_key(digest),
        }
    }

    fn finds(&self, name: &RepositoryName, tag: &Tag, entry: &TagEntry) -> bool {
        match self {
            Search::Everything => true,
            Search::Part(part) => contains(tag.as_str(), part),
            Search::Tagged(end, beginning) => {
                let tag = tag.as_str().get(..beginning.len());
                name.as_str().ends_with(end)
                    && tag.is_some_and(|tag| tag.eq_ignore_ascii_case(beginning))
            }
            Search::Content(digest) => entry.digest == *digest,
        }
    }
}

/// Whether `text` has `part`, which is in small letters.
fn contains(text: &str, part: &str) -> bool {
    let mut at = text.as_bytes().windows(part.len().max(1));
    at.any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

impl<'n> Listing<'n> {
    /// The part `page` of what `search` finds among `readable` repositories; the last part where
    /// there are not so many.
    pub(super) fn of(
        names: &'n Names,
        readable: impl Fn(&RepositoryName) -> bool,
        search: &str,
        page: usize,
    ) -> Listing<'n> {
        let search = Search::of(search);
        let mut found = Vec::new();
        for (name, repository) in &names.repositories {
            if repository.is_empty() {
                continue;
            }
            if !readable(name) {
                continue;
            }
            let all = search.finds_all(name, repository);
            let mut tags = repository.tags.iter();
            let by_digest = match &search {
                Search::Content(digest) => repository.manifests.contains_key(digest),
                _ => false,
            };
            if all || by_digest || tags.any(|(tag, entry)| search.finds(name, tag, entry)) {
                found.push((name, &**repository, all));
            }
        }
        let (total, pages) = (found.len(), found.len().div_ceil(ROWS).max(1));
        let page = page.clamp(1, pages);
        let rows = found.into_iter().skip((page - 1) * ROWS).take(ROWS);
        let rows = rows.map(|(name, repository, all)| {
            Row::of(name, repository, |tag, entry| {
                all || search.finds(name, tag, entry)
            })
        });
        Listing {
            rows: rows.collect(),
            page,
            pages,
            total,
        }
    }
}

impl<'n> Row<'n> {
    fn of(
        name: &'n RepositoryName,
        repository: &'n Repository,
        wanted: impl Fn(&Tag, &TagEntry) -> bool,
    ) -> Row<'n> {
        // signatures belong to their images, and would stand before them
        let shown = |tag: &Tag| !is_signature_tag(tag.as_str());
        let tags = repository.tags.iter().rev();
        let mut tags: Vec<_> = tags
            .filter(|(tag, entry)| shown(tag) && wanted(tag, entry))
            .collect();
        let total = tags.len();
        if total <= SORTED {
            // versions before words, newer ones first; stable, so words stay in their order
            tags.sort_by_cached_key(|(tag, _)| {
                std::cmp::Reverse(Version::parse(tag.as_str()).ok())
            });
        }
        tags.truncate(TAGS);
        let rows = tags.into_iter().map(|(tag, entry)| TagRow {
            tag,
            what: repository
                .manifests
                .get(&entry.digest)
                .map_or(What::Artifact, what),
            origin: entry.origin.as_deref(),
        });
        Row {
            name,
            tags: rows.collect(),
            more: total.saturating_sub(TAGS),
            manifests: repository.manifests.len(),
            blobs: repository.blobs.len(),
        }
    }
}

/// What a manifest is. One of an image shows its config's type as its own.
fn what(entry: &ManifestEntry) -> What {
    match entry.artifact_type.as_deref() {
        Some(media_type::HELM_CONFIG) => What::Chart,
        None
        | Some(
            "application/vnd.oci.image.config.v1+json"
            | "application/vnd.docker.container.image.v1+json",
        ) => What::Image,
        Some(_) => What::Artifact,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kubepkg_core::store::Change;

    use super::*;

    fn put(names: &mut Names, name: &str, tag: &str, artifact_type: Option<&str>) -> Digest {
        let repository: RepositoryName = name.parse().unwrap();
        let digest = Digest::sha256(format!("{name}:{tag}"));
        let manifest = Change::Manifest {
            repository: repository.clone(),
            digest,
            new: Some(ManifestEntry {
                media_type: media_type::OCI_MANIFEST.into(),
                size: 500,
                subject: None,
                artifact_type: artifact_type.map(Into::into),
                annotations: Default::default(),
            }),
        };
        let tag = Change::Tag {
            repository,
            tag: tag.parse().unwrap(),
            new: Some(TagEntry {
                digest,
                origin: None,
            }),
        };
        names.repeat([&manifest, &tag], 1);
        digest
    }

    fn found(names: &Names, search: &str) -> Vec<String> {
        let listing = Listing::of(names, |_| true, search, 1);
        let row = |row: &Row<'_>| {
            let tags: Vec<&str> = row.tags.iter().map(|tag| tag.tag.as_str()).collect();
            format!("{} {}", row.name, tags.join(","))
        };
        listing.rows.iter().map(row).collect()
    }

    #[test]
    fn a_search_finds_names_tags_references_and_digests() {
        let mut names = Names::default();
        let web = put(&mut names, "docker.io/library/web", "1.9.0", None);
        for tag in ["1.10.0", "latest"] {
            put(&mut names, "docker.io/library/web", tag, None);
        }
        let signature = format!("sha256-{}.sig", web.hex());
        put(&mut names, "docker.io/library/web", &signature, None);
        put(&mut names, "quay.io/db", "1.9.0-RC1", None);
        let all = [
            "docker.io/library/web 1.10.0,1.9.0,latest",
            "quay.io/db 1.9.0-RC1",
        ];
        assert_eq!(found(&names, ""), all);
        assert_eq!(found(&names, "web"), all[..1]);
        assert_eq!(found(&names, "rc1"), all[1..]);
        assert_eq!(
            found(&names, "1.9"),
            ["docker.io/library/web 1.9.0", "quay.io/db 1.9.0-RC1"]
        );
        assert_eq!(
            found(&names, "library/web:1.1"),
            ["docker.io/library/web 1.10.0"]
        );
        assert_eq!(
            found(&names, &web.to_string()),
            ["docker.io/library/web 1.9.0"]
        );
        assert_eq!(
            found(&names, &format!("x@{web}")),
            ["docker.io/library/web 1.9.0"]
        );
        assert!(found(&names, "absent").is_empty() && found(&names, ":").len() == 2);
    }

    #[test]
    fn a_tag_is_what_its_manifest_says() {
        let mut names = Names::default();
        put(
            &mut names,
            "a.example/c",
            "1",
            Some(media_type::HELM_CONFIG),
        );
        put(
            &mut names,
            "a.example/i",
            "1",
            Some("application/vnd.oci.image.config.v1+json"),
        );
        put(&mut names, "a.example/l", "1", None);
        put(&mut names, "a.example/o", "1", Some("application/wasm"));
        let listing = Listing::of(&names, |_| true, "", 1);
        let kinds: Vec<What> = listing.rows.iter().map(|row| row.tags[0].what).collect();
        assert_eq!(
            kinds,
            [What::Chart, What::Image, What::Image, What::Artifact]
        );
    }

    #[test]
    fn pages_follow_each_other_and_end() {
        let mut names = Names::default();
        for n in 0..2 * ROWS + 1 {
            put(&mut names, &format!("a.example/r{n:04}"), "1", None);
        }
        for (asked, page, rows) in [(1, 1, ROWS), (2, 2, ROWS), (3, 3, 1), (9, 3, 1)] {
            let listing = Listing::of(&names, |_| true, "", asked);
            assert_eq!((listing.page, listing.rows.len()), (page, rows));
            assert_eq!((listing.pages, listing.total), (3, 2 * ROWS + 1));
        }
        let none = Listing::of(&names, |_| true, "nothing", 7);
        assert_eq!((none.page, none.pages, none.total), (1, 1, 0));
    }

    #[test]
    fn a_hundred_thousand_tags_are_searched_quickly_and_a_few_are_shown() {
        let mut names = Names::default();
        for n in 0..100_000 {
            put(
                &mut names,
                &format!("a.example/r{}", n % 1000),
                &format!("1.{n}.0"),
                None,
            );
        }
        let began = Instant::now();
        let listing = Listing::of(&names, |_| true, "99999", 1);
        // wide, for a build without optimisation on a busy machine
        assert!(began.elapsed().as_millis() < 2000, "{:?}", began.elapsed());
        assert_eq!((listing.total, listing.rows[0].tags.len()), (1, 1));
        let listing = Listing::of(&names, |_| true, "", 1);
        let row = &listing.rows[0];
        assert_eq!((row.tags.len(), row.more), (TAGS, 90));
        assert_eq!(row.tags[0].tag.as_str(), "1.99000.0");
    }
}
