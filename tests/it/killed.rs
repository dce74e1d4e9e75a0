//! Two mirrors serve and fill one store and are killed at any moment. Clients keep what was
//! acknowledged to them: all of it is there afterwards, whichever mirror is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kubepkg_core::Digest;
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::command::Scratch;
use crate::served::Running;

/// Times a mirror is killed in a short run; `KPTEST_LONG` (minutes) goes on for as long.
const KILLS: usize = 24;

/// Clients, each with a repository of its own.
const CLIENTS: u64 = 3;

/// Longest wait for an answer; only a test that fails waits as long.
const PATIENCE: Duration = Duration::from_secs(60);

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Numbers that depend on a seed only (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The two mirrors, by address.
struct Mirrors {
    addresses: Mutex<[String; 2]>,
}

struct Answer {
    status: u16,
    location: Option<String>,
    body: Vec<u8>,
}

/// One request on a connection of its own. An error may mean that it was done all the same.
fn send(host: &str, method: &str, path: &str, kind: &str, body: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: {kind}\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.ok_or_else(cut)?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(':'));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let body = bytes[end + 4..].to_vec();
    let announced = header("content-length").and_then(|length| length.parse().ok());
    if announced.is_some_and(|length: usize| length != body.len()) {
        return Err(cut());
    }
    Ok(Answer {
        status: status.ok_or_else(cut)?,
        location: header("location"),
        body,
    })
}

impl Mirrors {
    fn some(&self, random: &mut Random) -> String {
        let addresses = self.addresses.lock().unwrap();
        addresses[usize::from(random.below(2) == 1)].clone()
    }

    /// Asks until a mirror answers: for what may be done twice.
    fn insist(&self, random: &mut Random, path: &str) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            match send(&self.some(random), "GET", path, "", b"") {
                Ok(answer) => return answer,
                Err(e) => assert!(Instant::now() < until, "{path}: {e}"),
            }
        }
    }
}

/// What was acknowledged to one client about its repository.
struct Client {
    repository: String,
    random: Random,
    /// What each tag may be: one thing, unless an answer did not come.
    tags: BTreeMap<String, Vec<Option<String>>>,
    bodies: BTreeMap<String, Vec<u8>>,
    made: u64,
    done: u64,
    in_doubt: u64,
}

impl Client {
    fn new(number: u64, seed: u64) -> Client {
        Client {
            repository: format!("team{number}/app"),
            random: Random(seed.wrapping_add(number * 7919)),
            tags: BTreeMap::new(),
            bodies: BTreeMap::new(),
            made: 0,
            done: 0,
            in_doubt: 0,
        }
    }

    fn path(&self, below: &str) -> String {
        format!("/v2/{}/{below}", self.repository)
    }

    /// Something that changes one tag. An answer that did not come leaves it in doubt, and a
    /// question does not always settle that: a record whose process was killed before it
    /// brought the names up is seen with the next commit. The next answer about it does.
    fn step(&mut self, mirrors: &Mirrors) {
        let tag = format!("t{}", self.random.below(4));
        let mut may_be = self.tags.remove(&tag).unwrap_or_else(|| vec![None]);
        let (after, answer) = match (&may_be[..], self.random.below(4)) {
            ([Some(_)], 0) => {
                let path = self.path(&format!("manifests/{tag}"));
                let host = mirrors.some(&mut self.random);
                let answer = send(&host, "DELETE", &path, "", b"");
                (None, answer.map(|answer| answer.status == 202))
            }
            _ => {
                let (digest, answer) = self.push(mirrors, &tag);
                (Some(digest), answer)
            }
        };
        match answer {
            Ok(true) => {
                self.done += 1;
                self.tags.insert(tag.clone(), vec![after]);
                if self.random.below(3) == 0 {
                    self.check_tag(mirrors, &tag);
                }
            }
            // not taken: the repository is as it was
            Ok(false) => panic!("{}:{tag} was refused", self.repository),
            Err(_) => {
                self.in_doubt += 1;
                may_be.push(after);
                self.tags.insert(tag.clone(), may_be);
                self.check_tag(mirrors, &tag);
            }
        }
    }

    /// Blobs first, then the manifest under its tag. `Err`: an answer did not come.
    fn push(&mut self, mirrors: &Mirrors, tag: &str) -> (String, io::Result<bool>) {
        self.made += 1;
        // some of it is what was there before, also in other repositories
        let number = self.random.below(self.made * 2);
        let layer = vec![b'a' + (number % 23) as u8; 200 + number as usize % 4000];
        let config = format!("{{\"number\":{number},\"by\":\"{}\"}}", self.repository).into_bytes();
        let mut described = Vec::new();
        for (kind, blob) in [("config", &config), ("layer", &layer)] {
            let digest = Digest::sha256(blob).to_string();
            described.push(format!(
                "{{\"mediaType\":\"application/vnd.test.{kind}\",\"digest\":\"{digest}\",\"size\":{}}}",
                blob.len()
            ));
        }
        let manifest = format!(
            "{{\"schemaVersion\":2,\"mediaType\":\"{MANIFEST}\",\"config\":{},\"layers\":[{}]}}",
            described[0], described[1]
        );
        let digest = Digest::sha256(&manifest).to_string();
        for blob in [config, layer] {
            match self.push_blob(mirrors, &blob) {
                Ok(true) => {
                    let digest = Digest::sha256(&blob).to_string();
                    self.bodies.insert(digest, blob);
                }
                other => return (digest, other),
            }
        }
        let path = self.path(&format!("manifests/{tag}"));
        let host = mirrors.some(&mut self.random);
        let answer = send(&host, "PUT", &path, MANIFEST, manifest.as_bytes());
        let answer = answer.map(|answer| {
            let said = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, 201, "{path}: {said}");
            true
        });
        if answer.is_ok() {
            self.bodies.insert(digest.clone(), manifest.into_bytes());
        }
        (digest, answer)
    }

    fn push_blob(&mut self, mirrors: &Mirrors, blob: &[u8]) -> io::Result<bool> {
        let digest = Digest::sha256(blob);
        let kind = "application/octet-stream";
        let host = mirrors.some(&mut self.random);
        let whole = self.random.below(2) == 0;
        let begin = match whole {
            true => self.path(&format!("blobs/uploads/?digest={digest}")),
            false => self.path("blobs/uploads/"),
        };
        let first: &[u8] = if whole { blob } else { b"" };
        let answer = send(&host, "POST", &begin, kind, first)?;
        if whole {
            return Ok(answer.status == 201);
        }
        let mut place = answer.location.unwrap_or_default();
        let half = blob.len() / 2;
        let answer = send(&host, "PATCH", &place, kind, &blob[..half])?;
        place = answer.location.unwrap_or(place);
        let between = if place.contains('?') { '&' } else { '?' };
        place = format!("{place}{between}digest={digest}");
        Ok(send(&host, "PUT", &place, kind, &blob[half..])?.status == 201)
    }

    /// A tag is what was acknowledged, and all below it is there and right.
    fn check_tag(&mut self, mirrors: &Mirrors, tag: &str) {
        let path = self.path(&format!("manifests/{tag}"));
        let found = mirrors.insist(&mut self.random, &path);
        let is = (found.status == 200).then(|| Digest::sha256(&found.body).to_string());
        let may_be = self.tags.get_mut(tag).unwrap();
        assert!(may_be.contains(&is), "{path} is {is:?}, not {may_be:?}");
        if may_be.last() == Some(&is) {
            // what came before it is either under it or was never done
            *may_be = vec![is.clone()];
        }
        if is.is_none() {
            assert_eq!(found.status, 404, "{path}");
            return;
        }
        let manifest: serde_json::Value = serde_json::from_slice(&found.body).unwrap();
        for below in [&manifest["config"], &manifest["layers"][0]] {
            let digest = below["digest"].as_str().unwrap();
            let path = self.path(&format!("blobs/{digest}"));
            let blob = mirrors.insist(&mut self.random, &path);
            assert_eq!(blob.status, 200, "{path}, named by {tag}");
            assert_eq!(Digest::sha256(&blob.body).to_string(), digest, "{path}");
        }
    }

    fn check_all(&mut self, mirrors: &Mirrors) {
        let tags: Vec<String> = self.tags.keys().cloned().collect();
        for tag in tags {
            self.check_tag(mirrors, &tag);
        }
    }
}

fn serve(scratch: &Scratch) -> (Running, String) {
    let call = ["mirror", "serve", "--store", "store", "--anonymous-push"];
    let process = Running::start(scratch, &[&call[..], &["--listen", "127.0.0.1:0"]].concat());
    let line = process.line("http://");
    let (_, host) = line.split_once("http://").unwrap();
    let host = host.to_owned();
    (process, host)
}

#[test]
fn two_mirrors_killed_at_any_moment_lose_nothing_that_was_acknowledged() {
    let seed = match std::env::var("KPTEST_SEED") {
        Ok(given) => given.parse().unwrap(),
        Err(_) => u64::from(std::process::id()) * 1_000_003,
    };
    println!("KPTEST_SEED={seed}");
    let long = std::env::var("KPTEST_LONG").ok();
    let minutes = long.map_or(0, |minutes| minutes.parse::<u64>().unwrap());
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let scratch = Scratch::new();
    drop(FileStore::open(scratch.path("store"), OpenMode::OpenOrCreate).unwrap());
    let (mut running, addresses): (Vec<Running>, Vec<String>) =
        (0..2).map(|_| serve(&scratch)).unzip();
    let mirrors = Mirrors {
        addresses: Mutex::new(addresses.try_into().unwrap()),
    };
    let ended = AtomicBool::new(false);
    let mut random = Random(seed);
    let mut clients = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (mirrors, ended) = (&mirrors, &ended);
                scope.spawn(move || {
                    let mut client = Client::new(number, seed);
                    while !ended.load(Ordering::Relaxed) {
                        client.step(mirrors);
                    }
                    client
                })
            })
            .collect();
        let mut kills = 0;
        while kills < KILLS || Instant::now() < until {
            thread::sleep(Duration::from_micros(random.below(250_000)));
            if clients.iter().any(|client| client.is_finished()) {
                break; // it says why
            }
            let whom = usize::from(random.below(2) == 1);
            // the old one is killed as it is replaced; the other one goes on meanwhile
            drop(running.remove(whom));
            let (process, address) = serve(&scratch);
            running.insert(whom, process);
            mirrors.addresses.lock().unwrap()[whom] = address;
            kills += 1;
        }
        ended.store(true, Ordering::Relaxed);
        let joined = clients.into_iter().map(|client| client.join().unwrap());
        joined.collect::<Vec<Client>>()
    });
    for client in &mut clients {
        client.check_all(&mirrors);
        println!(
            "{}: {} done, {} in doubt",
            client.repository, client.done, client.in_doubt
        );
        assert!(client.done > 0);
    }
    drop(running);
    let (last, address) = serve(&scratch);
    *mirrors.addresses.lock().unwrap() = [address.clone(), address];
    for client in &mut clients {
        client.check_all(&mirrors);
    }
    check_folder(&scratch);
    drop(last);
}

/// One mirror runs and does nothing: it has left no rubbish of those that were killed.
fn check_folder(scratch: &Scratch) {
    let names = |folder: &str| -> BTreeSet<String> {
        let Ok(entries) = scratch.path("store").join(folder).read_dir() else {
            return BTreeSet::new();
        };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    };
    let mut temporary = names("");
    temporary.retain(|name| name.starts_with(".tmp-"));
    assert_eq!(temporary.len(), 1, "{temporary:?}");
    assert_eq!(names("leases"), BTreeSet::new());
    for prefix in names("blobs/sha256") {
        for hex in names(&format!("blobs/sha256/{prefix}")) {
            let path = scratch.path("store/blobs/sha256").join(&prefix).join(&hex);
            let bytes = std::fs::read(path).unwrap();
            assert_eq!(Digest::sha256(bytes).to_string(), format!("sha256:{hex}"));
        }
    }
}
