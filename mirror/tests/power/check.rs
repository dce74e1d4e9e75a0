//! What holds in every store, whatever happened to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::store::{Names, Store, StoreError};
use kubepkg_mirror::source::Standing;
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::collecting::{GRACE, all_content, collect, named_by, serve};
use crate::oracle::Expected;
use crate::support::{blob, commit, manifest, noise, now, put, read_range, tag};

/// Opens the store, compares it with what is expected, and works on with it.
pub fn check(root: &Path, expected: &Expected<'_>) -> Result<(), String> {
    if root.join("kubepkg-store.json").exists() {
        let reading = FileStore::open(root, OpenMode::ReadOnly).map_err(said("reading"))?;
        check_state(&reading, expected).map_err(|why| format!("who only reads: {why}"))?;
    } else if expected.opened {
        return Err("the store has lost its marker".to_owned());
    }
    let store = FileStore::open(root, OpenMode::OpenOrCreate).map_err(said("opening"))?;
    check_state(&store, expected)?;
    check_sets(&store)?;
    check_content(root, &expected.wrong)?;
    check_rubbish(root, 1)?;
    if expected.collects() {
        check_collection(&store, expected)?;
    }
    go_on(&store)?;
    now(store.expire_uploads(Duration::ZERO)).map_err(said("expiring"))?;
    match files(&root.join("uploads")).as_slice() {
        [] => Ok(()),
        left => Err(format!("uploads that do not expire: {left:?}")),
    }
}

/// Collections go on where they were interrupted: what somebody was told is here is here, and
/// what nothing needs goes.
fn check_collection(store: &FileStore, expected: &Expected<'_>) -> Result<(), String> {
    // every grace that ever began is over
    serve(store.root(), 1_000_000);
    let one = || {
        collect(store, false, GRACE).map_err(said("collecting"))?;
        let names = now(store.names()).map_err(said("names"))?;
        check_named(store, &names, &expected.damaged)?;
        Ok::<_, String>(names)
    };
    let names = one()?;
    for digest in &expected.fresh {
        read(store, digest).map_err(|why| format!("told to be here, then collected: {why}"))?;
    }
    for (name, digest) in &expected.fresh_names {
        let repository = names.repositories.get(name);
        if !repository.is_some_and(|repository| repository.content().contains(digest)) {
            return Err(format!("{name}: {digest} was named and is taken at once"));
        }
    }
    serve(store.root(), 2_000_000);
    let names = one()?;
    check_only_named(store.root(), &names)
}

/// There is no content but what is named.
pub fn check_only_named(root: &Path, names: &Names) -> Result<(), String> {
    let mut left = all_content(root);
    for repository in names.repositories.values() {
        for digest in repository.content() {
            left.remove(&digest);
        }
    }
    let sites = names.sites.values().flat_map(|site| site.files.values());
    for file in sites {
        left.remove(&file.digest);
    }
    match left.first() {
        None => Ok(()),
        Some(digest) => Err(format!("{digest} is named by nothing and stays")),
    }
}

pub fn said(doing: &str) -> impl FnOnce(StoreError) -> String + use<> {
    let doing = doing.to_owned();
    move |e| format!("{doing}: {e:?}")
}

fn check_state(store: &FileStore, expected: &Expected<'_>) -> Result<(), String> {
    let names = now(store.names()).map_err(said("names"))?;
    expected.allows(&names)?;
    let newest = now(store.sequence()).map_err(said("sequence"))?;
    if newest != names.sequence {
        return Err(format!(
            "{newest} is the newest, names are of {}",
            names.sequence
        ));
    }
    for number in 1..=newest {
        let record = now(store.record(number)).map_err(said("record"))?;
        record.ok_or_else(|| format!("record {number} is missing"))?;
    }
    check_named(store, &names, &expected.damaged)?;
    for digest in &expected.condemned {
        if store.standing(digest) != Standing::Condemned {
            return Err(format!("{digest} was condemned and is not"));
        }
    }
    for digest in &expected.content {
        read(store, digest).map_err(|why| format!("acknowledged content: {why}"))?;
    }
    Ok(())
}

/// All that is named is here and right, but for what the disk has damaged.
pub fn check_named(
    store: &FileStore,
    names: &Names,
    damaged: &BTreeSet<Digest>,
) -> Result<(), String> {
    for (name, repository) in &names.repositories {
        let sound = |digest: &Digest| !damaged.contains(digest);
        for digest in repository.content().into_iter().filter(sound) {
            read(store, &digest).map_err(|why| format!("{name}: {why}"))?;
        }
        for manifest in repository.manifests.keys().filter(|digest| sound(digest)) {
            let range = store.blob_range(manifest).map_err(said("content"))?;
            let below = range.map_or_else(Vec::new, |range| named_by(&read_range(&range)));
            if let Some(lost) = below
                .iter()
                .find(|digest| !repository.blobs.contains_key(*digest))
            {
                return Err(format!(
                    "{name}: {manifest} needs {lost}, which is not named"
                ));
            }
        }
        for (tag, entry) in &repository.tags {
            if !repository.manifests.contains_key(&entry.digest) {
                return Err(format!("{name}:{tag} points at nothing"));
            }
        }
        let alone = now(store.repository(name)).map_err(said("repository"))?;
        if alone.as_ref() != Some(&**repository) {
            return Err(format!("{name} alone is not as among all names"));
        }
    }
    for (folder, entry) in &names.sites {
        for (path, file) in &entry.files {
            let range = store.site_file(folder, entry, path).map_err(said("site"))?;
            let range = range.ok_or_else(|| format!("{folder}: {path} is missing"))?;
            if !file.digest.matches(read_range(&range)) {
                return Err(format!("{folder}: {path} is wrong"));
            }
        }
    }
    Ok(())
}

fn read(store: &FileStore, digest: &Digest) -> Result<(), String> {
    let range = store.blob_range(digest).map_err(said("content"))?;
    let range = range.ok_or_else(|| format!("{digest} is missing"))?;
    if !digest.matches(read_range(&range)) {
        return Err(format!("{digest} is wrong"));
    }
    // names are read before: this is as of now
    match store.standing(digest) {
        Standing::Quarantined => Err(format!("{digest} is here and counts as damaged")),
        Standing::Sound | Standing::Condemned => Ok(()),
    }
}

/// The sets of repository files are plain files, whole, for who copies or reads them as such.
/// (A reader of the store would take what is missing from the content.)
pub fn check_sets(store: &FileStore) -> Result<(), String> {
    let names = now(store.names()).map_err(said("names"))?;
    for (folder, entry) in &names.sites {
        for (path, file) in &entry.files {
            let at = store.root().join("sites").join(folder);
            let at = at.join(entry.set.to_string()).join(path);
            let bytes = fs::read(&at).map_err(|e| format!("{}: {e}", at.display()))?;
            if !file.digest.matches(bytes) {
                return Err(format!("{} is wrong", at.display()));
            }
        }
    }
    Ok(())
}

/// Whatever can be asked for by digest has it, named or not, but for `wrong`.
pub fn check_content(root: &Path, wrong: &BTreeSet<Digest>) -> Result<(), String> {
    for algorithm in files(&root.join("blobs")) {
        for folder in files(&root.join("blobs").join(&algorithm)) {
            let folder = root.join("blobs").join(&algorithm).join(folder);
            for hex in files(&folder) {
                let digest = Digest::from_str(&format!("{algorithm}:{hex}"));
                let digest = digest.map_err(|e| format!("{hex} among the content: {e}"))?;
                if !wrong.contains(&digest) && !digest.matches(fs::read(folder.join(&hex)).unwrap())
                {
                    return Err(format!("{digest} is served and wrong"));
                }
            }
        }
    }
    Ok(())
}

/// So many processes have the store open and do nothing: there are no temporaries but the signs
/// of their lives, and no leases.
pub fn check_rubbish(root: &Path, living: usize) -> Result<(), String> {
    let mut temporary = files(root);
    temporary.retain(|name| name.starts_with(".tmp-"));
    let inside = temporary.iter().map(|name| files(&root.join(name)).len());
    let (folders, inside) = (temporary.len(), inside.sum::<usize>());
    let leases = files(&root.join("leases")).len();
    if (folders, inside, leases) == (living, living, 0) {
        return Ok(());
    }
    Err(format!(
        "{living} processes live, and there are {folders} folders of temporaries with {inside} \
         files, and {leases} leases"
    ))
}

/// Names in a folder, in order; none where there is none.
pub fn files(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// More commits work, and others see them.
pub fn go_on(store: &FileStore) -> Result<(), String> {
    let bytes = noise(0xabcdef, 50);
    let digest = now(put(store, &bytes)).map_err(said("publishing more"))?;
    let changes = vec![
        manifest("after", digest, bytes.len()),
        blob("after", digest, bytes.len()),
        tag("after", "all", digest),
    ];
    let number = now(commit(store, changes)).map_err(said("committing more"))?;
    let reading = FileStore::open(store.root(), OpenMode::ReadOnly).map_err(said("reading"))?;
    let names = now(reading.names()).map_err(said("names"))?;
    if names.sequence != number || !names.repositories.contains_key("after") {
        return Err("a further commit is not seen".to_owned());
    }
    read(&reading, &digest)
}
