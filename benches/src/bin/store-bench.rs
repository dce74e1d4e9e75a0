//! usage: store-bench fill DIR REPOSITORIES MANIFESTS BLOBS
//!        store-bench start DIR
//!        store-bench push DIR COUNT
//!        store-bench files DIR COUNT
//!        store-bench import FILES DIR
//!        store-bench memory MANIFESTS
//!
//! What `benches/store-start` and `benches/store-small` measure.
//!
//!   fill    makes a store in DIR with so many repositories of so many manifests and blobs, and a
//!           tag for every second manifest; prints nothing
//!   start   opens the store and asks for all names, as a server does; prints milliseconds for
//!           both, manifests, blobs, and MiB in memory
//!   push    opens the store and moves a tag of its largest repository COUNT times; prints the
//!           median and the longest in milliseconds
//!   files   makes a folder of COUNT files of 4 KiB in folders of 100, and syncs it
//!   import  takes such a folder into a new store, with one commit for all; prints seconds
//!   memory  prints bytes for each manifest, tag and blob in memory, of so many of each
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command of its own"
)]

use std::fs::{self, File};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{
    Batch, Body, Cause, Change, Committed, FileRange, ManifestEntry, Names, Store, TagEntry,
};
use kubepkg_core::time::Time;
use kubepkg_mirror::store::{FileStore, OpenMode, Staged};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes of a file of `files`.
const SIZE: usize = 4096;

/// Objects that are taken in at the same time.
const TOGETHER: usize = 4;

/// Repositories of one commit of `fill`.
const COMMIT: usize = 50;

/// Without a runtime a store does its work where it is asked.
fn now<F: Future>(future: F) -> Result<F::Output, Failure> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err("the store waits for a runtime".into()),
    }
}

fn commit(store: &FileStore, changes: Vec<Change>) -> Result<(), Failure> {
    let batch = Batch {
        at: Time::from_unix(1_790_000_000),
        cause: Cause::Push,
        changes,
    };
    let expected = now(store.sequence())??;
    match now(store.commit(expected, batch))?? {
        Committed::Done(_) => Ok(()),
        Committed::Conflict { .. } => Err("somebody else uses the store".into()),
    }
}

fn entry(size: u64) -> ManifestEntry {
    ManifestEntry {
        media_type: "application/vnd.oci.image.manifest.v1+json".into(),
        size,
        subject: None,
        artifact_type: Some("application/vnd.oci.image.config.v1+json".into()),
        annotations: Default::default(),
    }
}

fn repository(n: usize) -> Result<RepositoryName, Failure> {
    Ok(format!("registry.example.com/group{}/image{n}", n % 37).parse()?)
}

/// The changes that make repository `n`, of the given content.
fn filled(n: usize, manifests: &[Digest], blobs: &[Digest]) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    for (at, digest) in manifests.iter().enumerate() {
        changes.push(Change::Manifest {
            repository: repository(n)?,
            digest: *digest,
            new: Some(entry(8)),
        });
        if at % 2 == 0 {
            changes.push(Change::Tag {
                repository: repository(n)?,
                tag: format!("v1.{at}.0").parse()?,
                new: Some(TagEntry {
                    digest: *digest,
                    origin: None,
                }),
            });
        }
    }
    for digest in blobs {
        changes.push(Change::Blob {
            repository: repository(n)?,
            digest: *digest,
            new: Some(8),
        });
    }
    Ok(changes)
}

fn fill(dir: &Path, repositories: usize, manifests: usize, blobs: usize) -> Result<(), Failure> {
    let store = FileStore::open(dir, OpenMode::OpenOrCreate)?;
    // content is shared, names are not
    let mut digests = Vec::new();
    let mut staged = Vec::new();
    for n in 0..manifests + blobs {
        let bytes = Bytes::from(format!("{n:08}"));
        let digest = Digest::sha256(&bytes);
        staged.push(now(store.stage(digest, 8, Body::Bytes(bytes)))??);
        digests.push(digest);
    }
    now(store.publish(staged))??;
    let (manifests, blobs) = digests.split_at(manifests);
    for from in (0..repositories).step_by(COMMIT) {
        let mut changes = Vec::new();
        for n in from..repositories.min(from + COMMIT) {
            changes.extend(filled(n, manifests, blobs)?);
        }
        commit(&store, changes)?;
    }
    Ok(())
}

fn start(dir: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    let store = FileStore::open(dir, OpenMode::OpenOrCreate)?;
    let names = now(store.names())??;
    let milliseconds = began.elapsed().as_secs_f64() * 1e3;
    let of = |count: fn(&kubepkg_core::store::Repository) -> usize| {
        names.repositories.values().map(|r| count(r)).sum::<usize>()
    };
    println!(
        "{milliseconds:.0} {} {} {:.0}",
        of(|r| r.manifests.len()),
        of(|r| r.blobs.len()),
        resident()? / 1024.0 / 1024.0
    );
    Ok(())
}

fn push(dir: &Path, count: usize) -> Result<(), Failure> {
    let store = FileStore::open(dir, OpenMode::OpenOrCreate)?;
    let names = now(store.names())??;
    let largest = names.repositories.iter().max_by_key(|(_, r)| r.entries());
    let (name, repository) = largest.ok_or("the store is empty")?;
    let (digest, _) = repository
        .manifests
        .first_key_value()
        .ok_or("no manifest")?;
    let mut times = Vec::new();
    for n in 0..count {
        let began = Instant::now();
        let new = Some(TagEntry {
            digest: *digest,
            origin: None,
        });
        let tag = format!("pushed-{n}").parse()?;
        commit(
            &store,
            vec![Change::Tag {
                repository: name.clone(),
                tag,
                new,
            }],
        )?;
        now(store.names())??;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{median:.2} {longest:.2}");
    Ok(())
}

fn files(dir: &Path, count: usize) -> Result<(), Failure> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for n in 0..count {
        let folder = dir.join((n / 100).to_string());
        fs::create_dir_all(&folder)?;
        let mut bytes = Vec::with_capacity(SIZE);
        while bytes.len() < SIZE {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        fs::write(folder.join(n.to_string()), bytes)?;
    }
    Ok(())
}

fn listed(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        for file in fs::read_dir(entry?.path())? {
            found.push(file?.path());
        }
    }
    found.sort();
    Ok(found)
}

/// What an import does: content is named by digests that are known before.
fn import(from: &Path, dir: &Path) -> Result<(), Failure> {
    let mut wanted = Vec::new();
    for path in listed(from)? {
        wanted.push((Digest::sha256(fs::read(&path)?), path));
    }
    let began = Instant::now();
    let store = FileStore::open(dir, OpenMode::OpenOrCreate)?;
    let next = AtomicUsize::new(0);
    let take = || -> Result<Vec<Staged>, Failure> {
        let mut staged = Vec::new();
        while let Some((digest, path)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let body = Body::Range(FileRange {
                file: Arc::new(File::open(path)?),
                offset: 0,
                len: SIZE as u64,
            });
            staged.push(now(store.stage(*digest, SIZE as u64, body))??);
        }
        Ok(staged)
    };
    let staged = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(take)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a thread has panicked")??);
        }
        Ok::<_, Failure>(all)
    })?;
    now(store.publish(staged))??;
    let name = repository(0)?;
    let changes = wanted.iter().map(|(digest, _)| Change::Blob {
        repository: name.clone(),
        digest: *digest,
        new: Some(SIZE as u64),
    });
    commit(&store, changes.collect())?;
    println!("{:.3}", began.elapsed().as_secs_f64());
    Ok(())
}

/// Bytes of this process in memory.
fn resident() -> Result<f64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no size in memory")?.parse::<f64>()? * 1024.0)
}

fn memory(count: usize) -> Result<(), Failure> {
    let mut names = Names::default();
    let mut measure = |what: &str, change: &dyn Fn(usize) -> Result<Change, Failure>| {
        let before = resident()?;
        for n in 0..count {
            names.apply(&change(n)?, 1);
        }
        println!("{what} {:.0}", (resident()? - before) / count as f64);
        Ok::<_, Failure>(())
    };
    let digest = |n: usize| Digest::sha256(n.to_string());
    measure("manifest", &|n| {
        Ok(Change::Manifest {
            repository: repository(n / 50)?,
            digest: digest(n),
            new: Some(entry(n as u64)),
        })
    })?;
    measure("tag", &|n| {
        Ok(Change::Tag {
            repository: repository(n / 50)?,
            tag: format!("v1.{n}.0").parse()?,
            new: Some(TagEntry {
                digest: digest(n),
                origin: None,
            }),
        })
    })?;
    measure("blob", &|n| {
        Ok(Change::Blob {
            repository: repository(n / 500)?,
            digest: digest(n),
            new: Some(n as u64),
        })
    })
}

fn run(words: &[&str]) -> Result<(), Failure> {
    match words {
        ["fill", dir, repositories, manifests, blobs] => fill(
            Path::new(dir),
            repositories.parse()?,
            manifests.parse()?,
            blobs.parse()?,
        ),
        ["start", dir] => start(Path::new(dir)),
        ["push", dir, count] => push(Path::new(dir), count.parse()?),
        ["files", dir, count] => files(Path::new(dir), count.parse()?),
        ["import", from, dir] => import(Path::new(from), Path::new(dir)),
        ["memory", count] => memory(count.parse()?),
        _ => Err("usage: store-bench fill|start|push|files|import|memory …".into()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("store-bench: {e}");
            ExitCode::FAILURE
        }
    }
}
