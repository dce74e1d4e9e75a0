//! What taking content in costs. Run with `--ignored --nocapture`; it writes a few GB.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use kubepkg_core::Digest;
use kubepkg_core::store::{Body, FileRange, Store};
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::support::{commit, manifest, noise, now};

const MIB: usize = 1024 * 1024;

/// As many as an importer would have under way.
const TOGETHER: usize = 4;

/// CPU seconds of this process so far, in user mode and in the kernel.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: f64 = [fields[11], fields[12]]
        .iter()
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum();
    ticks / 100.0
}

/// Bytes this process caused to be written to disks.
fn written() -> f64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "));
    line.unwrap().parse().unwrap()
}

/// A local file of `count` parts.
fn payload(path: &Path, count: usize, size: usize) -> Vec<(Digest, FileRange)> {
    let mut file = File::create_new(path).unwrap();
    let mut parts = Vec::new();
    for part in 0..count {
        let bytes = noise(part as u64 + 1, size);
        file.write_all(&bytes).unwrap();
        parts.push(Digest::sha256(&bytes));
    }
    file.sync_all().unwrap();
    let file = Arc::new(File::open(path).unwrap());
    let range = |part: usize| FileRange {
        file: Arc::clone(&file),
        offset: (part * size) as u64,
        len: size as u64,
    };
    let ranges = (0..count).map(range);
    parts.into_iter().zip(ranges).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures; writes a few GB"]
async fn content_from_a_local_file() {
    for (count, size) in [(16, 64 * MIB), (1024, MIB), (10_000, 2000)] {
        let folder = tempfile::tempdir().unwrap();
        let parts = payload(&folder.path().join("payload"), count, size);
        let store = FileStore::open(folder.path().join("store"), OpenMode::OpenOrCreate).unwrap();
        let (began, cpu_before, written_before) = (Instant::now(), cpu(), written());
        let staged = stream::iter(parts)
            .map(|(digest, range)| store.stage(digest, range.len, Body::Range(range)))
            .buffer_unordered(TOGETHER)
            .try_collect::<Vec<_>>()
            .await
            .unwrap();
        let staging = began.elapsed();
        store.publish(staged).await.unwrap();
        let gb = (count * size) as f64 / 1e9;
        println!(
            "{count} x {size}: {:.2} s ({:.2} staging), {:.2} CPU s, {:.2} CPU s/GB, written {:.3}",
            began.elapsed().as_secs_f64(),
            staging.as_secs_f64(),
            cpu() - cpu_before,
            (cpu() - cpu_before) / gb,
            (written() - written_before) / 1e9 / gb,
        );
    }
}

#[test]
#[ignore = "measures"]
fn many_names() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::open(folder.path(), OpenMode::OpenOrCreate).unwrap();
    let bytes = Bytes::from_static(b"{}");
    let digest = now(crate::support::put(&store, &bytes)).unwrap();
    let changes = (0..10_000)
        .map(|n| manifest(&format!("docker.io/r{n}"), digest, 2))
        .collect();
    let began = Instant::now();
    now(commit(&store, changes)).unwrap();
    println!("10000 repositories: {:.2} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    now(store.names()).unwrap();
    println!("all names read: {:.2} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    for n in 0..50 {
        let tag = crate::support::tag("docker.io/r1", &format!("t{n}"), digest);
        now(commit(&store, vec![tag])).unwrap();
        now(store.names()).unwrap();
    }
    println!(
        "a tag pushed: {:.1} ms",
        began.elapsed().as_secs_f64() * 20.0
    );
}
