//! The repositories a bundle is made from: their files as they came, and their indexes, judged.
//! [`load_index`] serves all who need an index and no bundle.

use std::sync::Arc;

use bytes::Bytes;
use kubepkg_core::bundle::head::{HeadFile, HeadRepository};
use kubepkg_core::digest::Digest;
use kubepkg_core::index::signature::MAX_SIGNATURE_FILE;
use kubepkg_core::index::{Index, MAX_INDEX};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::trust::{
    Anchor, CURRENT, Clock, Entry, Given, MAX_ROOT, MAX_ROOT_VERSION, Offer, Remembered, Roots,
    TrustError, Verdict, entry_id, first_root, numbered,
};
use kubepkg_core::yaml;
use kubepkg_remote::{Client, RemoteError};

use crate::CreateError;

/// A repository whose index is accepted.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Canonical URL of the index.
    pub url: CanonicalUrl,
    /// Its rank: the first one given has the highest.
    pub priority: i32,
    /// Its index.
    pub index: Arc<Index>,
    /// Its files, by path beside the index.
    pub files: Vec<(String, Bytes)>,
    /// What should be said about it.
    pub warnings: Vec<String>,
}

impl Loaded {
    /// This repository as the head lists it.
    pub fn head(&self) -> HeadRepository {
        let file = |(path, bytes): &(String, Bytes)| HeadFile {
            path: path.clone(),
            size: bytes.len() as u64,
            digest: Digest::sha256(bytes),
        };
        HeadRepository {
            url: self.url.clone(),
            priority: self.priority,
            files: self.files.iter().map(file).collect(),
        }
    }
}

/// Most times a repository is read anew because it changed while it was read.
const MAX_CHANGES: usize = 5;

/// Bytes of all roots of a repository together: a thousand of the size roots have. They are
/// fetched before anybody has vouched for one of them.
const MAX_CHAIN: usize = 32 * 1024 * 1024;

/// Where a repository is read, and what it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is called everywhere: in the head, in trust entries, in mirrors. A local file is
    /// called by the URL it says it is served at, where it says so.
    pub url: CanonicalUrl,
    /// Where its index is read.
    pub from: CanonicalUrl,
}

/// The places of `repositories`, each once. Only local files are read.
pub async fn places(
    client: &Client,
    repositories: &[CanonicalUrl],
) -> Result<Vec<Place>, CreateError> {
    let mut places: Vec<Place> = Vec::with_capacity(repositories.len());
    for from in repositories {
        let url = match from.scheme() {
            "file" => named(&client.fetch(from, MAX_INDEX).await?.bytes),
            _ => None,
        };
        let place = Place {
            url: url.unwrap_or_else(|| from.clone()),
            from: from.clone(),
        };
        let Some(known) = places.iter().find(|known| known.url == place.url) else {
            places.push(place);
            continue;
        };
        if known.from != place.from && !same(client, known, &place).await? {
            return Err(CreateError::RepositoryTwice {
                url: place.url,
                first: known.from.clone(),
                second: place.from,
            });
        }
    }
    Ok(places)
}

/// The URL an index says it is served at. Nobody has vouched for it here: the index is judged
/// as that of this URL, and then the signature covers the name too. What cannot be read is
/// refused there, with better words.
fn named(index: &Bytes) -> Option<CanonicalUrl> {
    Index::repository_of(index)
}

async fn same(client: &Client, a: &Place, b: &Place) -> Result<bool, CreateError> {
    let a = client.fetch(&a.from, MAX_INDEX).await?;
    let b = client.fetch(&b.from, MAX_INDEX).await?;
    Ok(a.bytes == b.bytes)
}

/// The trust entries of `places`, as given, else as remembered. Keys and entries may be given
/// for the file that was named as well as for the URL it is called by.
///
/// # Errors
/// Keys that do not fit the places, and trust that is not the remembered one unless `change`
/// says that this is meant.
pub fn entries(
    given: &Given,
    places: &[Place],
    remembered: &Remembered,
    change: bool,
) -> Result<Vec<Entry>, CreateError> {
    let mut given = given.clone();
    let called = |url: &CanonicalUrl| {
        let place = places.iter().find(|place| place.from == *url)?;
        (place.url != *url).then(|| place.url.clone())
    };
    let by_url = given.by_url.iter_mut().chain(&mut given.root_by_url);
    for (url, _) in by_url {
        if let Some(called) = called(url) {
            *url = called;
        }
    }
    for entry in &mut given.entries {
        if let Some(called) = called(&entry.url) {
            // an id that somebody chose stays
            if entry.id == entry_id(&entry.url) {
                entry.id = entry_id(&called);
            }
            entry.url = called;
        }
    }
    let urls: Vec<CanonicalUrl> = places.iter().map(|place| place.url.clone()).collect();
    let entries = remembered.entries(&given, &urls)?;
    for entry in &entries {
        remembered
            .check_entry(entry, change)
            .map_err(|source| refused(&entry.url, source))?;
    }
    Ok(entries)
}

/// An index that is accepted, and the files it came with.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// What came out.
    pub verdict: Verdict,
    /// Its files, by path beside the index, sorted. Of a chain of roots only what was fetched.
    pub files: Vec<(String, Bytes)>,
}

/// How much of a chain of roots is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// All of it, as a bundle carries it.
    Whole,
    /// From the version accepted last on, where the entry trusts a root; else nothing.
    New,
}

/// Keeps tables of indexes, see [`Offer::table`]. What is kept is compared with what is
/// remembered before it is used, so it can lie in a cache. Losing one only costs time.
pub trait Tables: Sync {
    /// The table kept of the index with this digest.
    fn get(&self, index: &Digest) -> Option<Vec<u8>>;

    /// Keeps the table of the index with this digest.
    fn put(&self, index: &Digest, table: &[u8]);
}

/// How an index is loaded.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// How much of the chain of roots.
    pub chain: Chain,
    /// Where tables are kept, if they are.
    pub tables: Option<&'a dyn Tables>,
}

/// Fetches the index at `place` and judges it by `entry` and what is remembered. What is older
/// than what was accepted is refused. The caller takes the verdict into its memory
/// ([`Remembered::accept`]).
///
/// # Errors
/// See [`CreateError`].
pub async fn load_index(
    client: &Client,
    place: &Place,
    entry: &Entry,
    remembered: &Remembered,
    clock: Clock,
    how: How<'_>,
) -> Result<Accepted, CreateError> {
    let mut changes = 0;
    loop {
        match fetch_and_judge(client, place, entry, remembered, clock, how).await {
            Err(CreateError::Remote(error))
                if error.has_changed_meanwhile() && changes < MAX_CHANGES =>
            {
                changes += 1;
            }
            done => return done,
        }
    }
}

async fn fetch_and_judge(
    client: &Client,
    place: &Place,
    entry: &Entry,
    remembered: &Remembered,
    clock: Clock,
    how: How<'_>,
) -> Result<Accepted, CreateError> {
    let Place { url, from } = place;
    let How { chain, tables } = how;
    let index = client.fetch(from, MAX_INDEX).await?.bytes;
    let signature_name = format!("{}.sig", from.file_name());
    let signature = optional(client, from, &signature_name, MAX_SIGNATURE_FILE).await?;
    let first = match (chain, &entry.anchor) {
        (Chain::Whole, _) => Some(1),
        (Chain::New, Anchor::Root(_)) => {
            Some(first_root(entry, remembered.record(entry).as_deref()))
        }
        (Chain::New, _) => None,
    };
    let roots = match first {
        Some(first) => roots(client, from, first).await?,
        None => Roots::default(),
    };
    let table = tables.map(|tables| {
        let before = remembered.record(entry);
        let accepted = before.as_ref().and_then(|before| before.accepted.as_ref());
        let kept = accepted.and_then(|accepted| tables.get(&accepted.index));
        kept.unwrap_or_default()
    });
    let offer = Offer {
        index: &index,
        signature: signature.as_deref(),
        roots: Some(&roots),
        table: table.as_deref(),
    };
    let verdict = remembered
        .judge(entry, offer, clock)
        .and_then(|verdict| verdict.refuse_older(entry).map(|()| verdict))
        .map_err(|source| refused(url, source))?;
    if let (Some(tables), Some(table), Some(accepted)) =
        (tables, &verdict.table, &verdict.memory.accepted)
    {
        tables.put(&accepted.index, table);
    }
    let mut files = vec![(url.file_name().to_owned(), index)];
    // they travel under the names they have where the index is served
    let signature_name = format!("{}.sig", url.file_name());
    files.extend(signature.map(|bytes| (signature_name, bytes)));
    files.extend(roots.current.map(|bytes| (CURRENT.to_owned(), bytes)));
    let numbers = roots.numbered.into_iter();
    files.extend(numbers.map(|(number, bytes)| (numbered(number), bytes)));
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Accepted { verdict, files })
}

fn refused(url: &CanonicalUrl, source: TrustError) -> CreateError {
    CreateError::Trust {
        url: url.clone(),
        source: Box::new(source),
    }
}

/// Loads the repositories at `places`, the one with the highest priority first, each judged by
/// its entry and by what is remembered, which takes in what is accepted.
pub async fn load(
    client: &Client,
    places: &[Place],
    entries: &[Entry],
    remembered: &mut Remembered,
    clock: Clock,
    tables: Option<&dyn Tables>,
) -> Result<Vec<Loaded>, CreateError> {
    let mut loaded = Vec::with_capacity(entries.len());
    for (n, (place, entry)) in places.iter().zip(entries).enumerate() {
        let priority = i32::try_from(entries.len() - n).unwrap_or(i32::MAX);
        let how = How {
            chain: Chain::Whole,
            tables,
        };
        let accepted = load_index(client, place, entry, remembered, clock, how).await?;
        remembered.accept(entry, &accepted.verdict);
        loaded.push(Loaded::of(place, priority, accepted));
    }
    Ok(loaded)
}

impl Loaded {
    fn of(place: &Place, priority: i32, accepted: Accepted) -> Loaded {
        let url = &place.url;
        let Accepted { verdict, files } = accepted;
        let mut warnings: Vec<String> = verdict.warnings.iter().map(ToString::to_string).collect();
        let left_out = verdict.index.left_out.len();
        if left_out > 0 {
            warnings.push(format!(
                "{url}: {left_out} versions cannot be chosen: they are made for another kubepkg, \
                 or lack signatures or approvals"
            ));
        }
        if url.scheme() == "file" {
            warnings.push(format!(
                "{url} does not say where it is served, so the bundle calls the repository by \
                 this path; made from another folder it is another repository, with no memory of \
                 older indexes. Make the index with `kubepkg repo index --url URL`"
            ));
        }
        Loaded {
            url: url.clone(),
            priority,
            index: Arc::new(verdict.index),
            files,
            warnings,
        }
    }
}

/// A file beside the index, `None` where there is none.
async fn optional(
    client: &Client,
    url: &CanonicalUrl,
    name: &str,
    limit: u64,
) -> Result<Option<Bytes>, CreateError> {
    let sibling: CanonicalUrl = url
        .sibling(name)
        .parse()
        .map_err(|error| CreateError::Root {
            url: url.clone(),
            why: format!("{name}: {error}"),
        })?;
    match client.fetch(&sibling, limit).await {
        Ok(fetched) => Ok(Some(fetched.bytes)),
        Err(error) if RemoteError::is_not_found(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The root of trust where there is one: `root.yaml` and every version from `first` up to it,
/// or that one alone where it is lower.
async fn roots(client: &Client, url: &CanonicalUrl, first: u32) -> Result<Roots, CreateError> {
    let wrong = |why: String| CreateError::Root {
        url: url.clone(),
        why,
    };
    let limit = MAX_ROOT as u64;
    let Some(current) = optional(client, url, CURRENT, limit).await? else {
        return Ok(Roots::default());
    };
    let version = root_version(&current).map_err(wrong)?;
    let mut roots = Roots::default();
    let mut bytes = 0;
    for number in first.min(version)..=version {
        let name = numbered(number);
        let root = optional(client, url, &name, limit).await?;
        let root = root.ok_or_else(|| {
            wrong(format!(
                "root.yaml is version {version}, and {name} is missing"
            ))
        })?;
        bytes += root.len();
        if bytes > MAX_CHAIN {
            return Err(wrong(format!(
                "the chain of roots is larger than {MAX_CHAIN} bytes"
            )));
        }
        if number == version && root != current {
            return Err(wrong(format!("root.yaml and {name} differ")));
        }
        roots.numbered.insert(number, root);
    }
    roots.current = Some(current);
    Ok(roots)
}

/// The number of a root of trust: `signed.version`. It only says which files there are, also
/// where nobody here judges them: then they travel for who does.
fn root_version(root: &[u8]) -> Result<u32, String> {
    #[derive(serde::Deserialize)]
    struct Root {
        signed: Signed,
    }
    #[derive(serde::Deserialize)]
    struct Signed {
        version: u64,
    }
    let read = || {
        let document = yaml::go::Document::read(root, &yaml::Limits::default())?;
        document.decode::<Root>(document.root())
    };
    let root = read().map_err(|error| format!("root.yaml: {error}"))?.value;
    match u32::try_from(root.signed.version) {
        Ok(version @ 1..=MAX_ROOT_VERSION) => Ok(version),
        _ => Err(format!(
            "root.yaml says it is version {}; 1 to {MAX_ROOT_VERSION} are possible",
            root.signed.version
        )),
    }
}

#[cfg(test)]
mod tests {
    use kubepkg_core::time::Time;

    use super::*;

    const SERVED: &str = "https://packages.example.com/web/index.yaml";

    fn client() -> Client {
        Client::new(kubepkg_remote::Options::default()).unwrap()
    }

    fn file(folder: &std::path::Path, name: &str, text: &str) -> CanonicalUrl {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        format!("file://{}", path.display()).parse().unwrap()
    }

    #[tokio::test]
    async fn a_local_index_is_called_by_the_url_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let index = kubepkg_test_support::package::index(&[], Time::from_unix(0), None);
        let index = String::from_utf8(index).unwrap();
        let text = format!("{index}repository: {SERVED}\n");
        let named = file(folder.path(), "a.yaml", &text);
        let copy = file(folder.path(), "b.yaml", &text);
        let nameless = file(folder.path(), "c.yaml", &index);
        let other = file(folder.path(), "d.yaml", &format!("{text}# more\n"));
        let given = [named.clone(), nameless.clone(), copy, named.clone()];
        let found = places(&client(), &given).await.unwrap();
        let url: CanonicalUrl = SERVED.parse().unwrap();
        let want = |url: &CanonicalUrl, from: &CanonicalUrl| Place {
            url: url.clone(),
            from: from.clone(),
        };
        assert_eq!(found, [want(&url, &named), want(&nameless, &nameless)]);
        // two different ones cannot both be it
        let error = places(&client(), &[named.clone(), other]).await;
        assert!(matches!(error, Err(CreateError::RepositoryTwice { .. })));
        // a key may name either
        let key = kubepkg_core::keys::PrivateKey::generate().unwrap();
        for by in [&url, &named] {
            let given = Given {
                by_url: vec![(by.clone(), key.public().unwrap())],
                ..Given::default()
            };
            let none = Remembered::default();
            let entries = entries(&given, &found[..1], &none, false).unwrap();
            assert_eq!((&entries[0].url, entries[0].anchor.keys().len()), (&url, 1));
        }
        // and so may an entry; its id follows, unless somebody chose that
        for (by, chosen) in [(&url, false), (&named, false), (&named, true)] {
            let mut entry = Entry::new(by.clone(), Anchor::any_of(vec![key.public().unwrap()]));
            let mut id = entry_id(&url);
            if chosen {
                "ours".clone_into(&mut id);
                entry.id.clone_from(&id);
            }
            let given = Given {
                entries: vec![entry],
                ..Given::default()
            };
            let none = Remembered::default();
            let entries = entries(&given, &found[..1], &none, false).unwrap();
            assert_eq!((&entries[0].url, &entries[0].id), (&url, &id));
            assert_eq!(entries[0].anchor.keys().len(), 1);
        }
    }

    #[test]
    fn the_version_of_a_root() {
        let root = |version: &str| format!("signed: {{version: {version}}}\nsignatures: []\n");
        assert_eq!(root_version(root("1").as_bytes()), Ok(1));
        let last = MAX_ROOT_VERSION.to_string();
        assert_eq!(root_version(root(&last).as_bytes()), Ok(MAX_ROOT_VERSION));
        for bad in ["0", "-1", "1.5", "\"1\"", "1001", "99999999999999999999"] {
            assert!(root_version(root(bad).as_bytes()).is_err(), "{bad}");
        }
        assert!(root_version(b"").is_err());
        assert!(root_version(b"signed: {}").is_err());
    }
}
