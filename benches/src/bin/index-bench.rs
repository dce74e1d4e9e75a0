//! usage: index-bench read|plan DIR
//!        index-bench first|again DIR CACHE
//!
//! What `benches/index` measures, on a folder that index-gen wrote. Time and memory of the
//! whole process are for the caller to take.
//!
//!   read    the index is read from disk, its signature and every digest checked, one package
//!           selected; prints the number of versions
//!   first   the same, and what a repeat needs is written to CACHE; prints nothing
//!   again   the same with the same index: with the memory and the table that were kept
//!   plan    the same as read, then the distribution is resolved five times; prints the number of
//!           packages and the median in milliseconds
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command of its own"
)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kubepkg_bench::DISTRIBUTION;
use kubepkg_core::index::Index;
use kubepkg_core::keys::PublicKey;
use kubepkg_core::resolve::state::State;
use kubepkg_core::resolve::{Install, install};
use kubepkg_core::select::{Catalog, Source};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Anchor, Clock, Entry, Memory, Offer, Verdict, judge};
use kubepkg_core::version::Constraint;

type Failure = Box<dyn std::error::Error>;

/// Where the index claims to be from.
const URL: &str = "https://packages.example.com/index.yaml";

/// Judges the index as create, import and the command do. `memory` and `table` are what an
/// earlier verdict said to keep.
fn judged(dir: &Path, memory: Option<&Memory>, table: Option<&[u8]>) -> Result<Verdict, Failure> {
    let index = Bytes::from(fs::read(dir.join("index.yaml"))?);
    let signature = fs::read(dir.join("index.yaml.sig"))?;
    let key = PublicKey::from_pem(&fs::read_to_string(dir.join("release.pub"))?)?;
    let entry = Entry::new(URL.parse()?, Anchor::any_of(vec![key]));
    let offer = Offer {
        index: &index,
        signature: Some(&signature),
        roots: None,
        table,
    };
    // A day after what index-gen says; an old index is warned of only.
    let clock = Clock::at(Time::from_unix(1_790_086_400));
    Ok(judge(&entry, offer, memory, clock)?)
}

fn read(dir: &Path) -> Result<Index, Failure> {
    Ok(judged(dir, None, None)?.index)
}

/// Reads the index and keeps what a repeat needs: the memory and the table.
fn first(dir: &Path, cache: &Path) -> Result<(), Failure> {
    let verdict = judged(dir, None, Some(&[]))?;
    fs::create_dir_all(cache)?;
    fs::write(cache.join("memory"), verdict.memory.to_value().to_string())?;
    fs::write(cache.join("table"), verdict.table.ok_or("no table")?)?;
    Ok(())
}

/// Reads it again with what was kept.
fn again(dir: &Path, cache: &Path) -> Result<Index, Failure> {
    let memory = Memory::decode(&fs::read(cache.join("memory"))?)?;
    let table = fs::read(cache.join("table"))?;
    let verdict = judged(dir, Some(&memory), Some(&table))?;
    match verdict.table {
        None => Ok(verdict.index),
        Some(_) => Err("the table was not used".into()),
    }
}

fn catalog(index: Index) -> Catalog {
    Catalog::new(vec![Source {
        name: URL.to_owned(),
        priority: 0,
        index: Arc::new(index),
    }])
}

fn select(index: Index) -> Result<(), Failure> {
    let versions: usize = index.packages.values().map(|p| p.versions.len()).sum();
    let catalog = catalog(index);
    let chosen = catalog.select(DISTRIBUTION, Some(&Constraint::parse(">=1")?))?;
    if chosen.listed.spec().version != chosen.listed.version {
        return Err("the wrong spec".into());
    }
    println!("{versions}");
    Ok(())
}

fn plan(dir: &Path) -> Result<(), Failure> {
    let catalog = catalog(read(dir)?);
    let requests = [DISTRIBUTION.parse()?];
    let state = State::default();
    let mut packages = 0;
    let mut times = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        packages = install(&catalog, &Install::new(&requests, &state))?
            .packages
            .len();
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    println!("{packages} {:.1}", times[times.len() / 2]);
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["read", dir] => read(Path::new(dir)).and_then(select),
        ["first", dir, cache] => first(Path::new(dir), Path::new(cache)),
        ["again", dir, cache] => again(Path::new(dir), Path::new(cache)).and_then(select),
        ["plan", dir] => plan(Path::new(dir)),
        _ => {
            eprintln!("usage: index-bench read|plan DIR, or first|again DIR CACHE");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("index-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
