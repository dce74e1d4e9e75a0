//! The steps of a collection under a scheduler that tries many interleavings: two processes
//! push, mount and collect over one storage. The steps are the real ones; storage, lock and time
//! are small models whose every access is a point where another thread may go on.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Claim, Garbage};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::{Arc, Mutex, MutexGuard};
use shuttle::thread;

use super::ledger::{Ledger, Line};
use super::protocol::{self, Ground, Touched};

/// Grace, in the model's time.
const GRACE: u64 = 10;

/// Schedules that are tried.
const SCHEDULES: usize = 1000;

/// A rule of the protocol that the storage breaks, to see that the test notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// What is rescued stays on the list.
    RescueForgotten,
    /// Nobody is told that the list changed.
    NobodyTold,
    /// The grace is over at once.
    NoGrace,
}

/// What lies on the disk. Every access takes the mutex, which is where threads change.
struct Disk {
    counter: u64,
    list: Ledger,
    contents: BTreeSet<Digest>,
    /// Blobs of repositories.
    blobs: BTreeSet<(RepositoryName, Digest)>,
    /// Blobs that a manifest of the repository names.
    used: BTreeSet<(RepositoryName, Digest)>,
    /// What each commit touched.
    commits: Vec<(RepositoryName, Digest)>,
    served: u64,
    removed: usize,
}

struct World {
    disk: Mutex<Disk>,
    lock: Mutex<()>,
    broken: Broken,
}

/// One process: what it knows of the list, and as of which count.
struct Process {
    world: Arc<World>,
    known: Mutex<(u64, Ledger)>,
}

impl World {
    fn new(broken: Broken) -> Arc<World> {
        Arc::new(World {
            disk: Mutex::new(Disk {
                counter: 0,
                list: Ledger::default(),
                contents: BTreeSet::new(),
                blobs: BTreeSet::new(),
                used: BTreeSet::new(),
                commits: Vec::new(),
                served: 0,
                removed: 0,
            }),
            lock: Mutex::new(()),
            broken,
        })
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    fn told(&self) {
        if self.broken != Broken::NobodyTold {
            self.disk().counter += 1;
        }
    }
}

impl Ground for Process {
    type Held<'a> = MutexGuard<'a, ()>;
    type Error = std::convert::Infallible;

    fn hold(&self) -> Result<Self::Held<'_>, Self::Error> {
        Ok(self.world.lock.lock().unwrap())
    }

    fn ledger(&self, _: &Self::Held<'_>) -> Result<Arc<Ledger>, Self::Error> {
        Ok(Arc::new(self.world.disk().list.clone()))
    }

    fn add(&self, _: &Self::Held<'_>, lines: &[Line]) -> Result<(), Self::Error> {
        for line in lines {
            let rescued = matches!(line, Line::Rescued(_));
            if !(rescued && self.world.broken == Broken::RescueForgotten) {
                self.world.disk().list.apply(line);
            }
        }
        self.world.told();
        Ok(())
    }

    fn replace(&self, _: &Self::Held<'_>, ledger: &Ledger) -> Result<(), Self::Error> {
        self.world.disk().list = ledger.clone();
        self.world.told();
        Ok(())
    }

    fn leased(&self, _: &Self::Held<'_>) -> Result<Option<(u64, u64)>, Self::Error> {
        Ok(None)
    }

    fn served(&self) -> Result<(u64, u64), Self::Error> {
        let served = self.world.disk().served;
        Ok((served, served))
    }

    fn touched(&self, _: &Self::Held<'_>, sequence: u64) -> Result<Option<Touched>, Self::Error> {
        let mut touched = Touched::default();
        let disk = self.world.disk();
        for (name, digest) in &disk.commits[sequence as usize..] {
            touched.repositories.insert(name.clone());
            touched.contents.insert(*digest);
        }
        Ok(Some(touched))
    }

    fn take_names(&self, _: &Self::Held<'_>, names: &[Garbage]) -> Result<(), Self::Error> {
        for garbage in names {
            let Claim::Blob(name) = &garbage.claim else {
                unreachable!("the model has blobs only");
            };
            let named = (name.clone(), garbage.digest);
            let mut disk = self.world.disk();
            assert!(!disk.used.contains(&named), "a name that is used was taken");
            disk.blobs.remove(&named);
        }
        Ok(())
    }

    fn unlink(
        &self,
        _: &Self::Held<'_>,
        digests: &[Digest],
    ) -> Result<Vec<(Digest, u64)>, Self::Error> {
        let mut removed = Vec::new();
        for digest in digests {
            let mut disk = self.world.disk();
            let named = disk.blobs.iter().any(|(_, named)| named == digest);
            assert!(!named, "content that is named was removed");
            if disk.contents.remove(digest) {
                disk.removed += 1;
                removed.push((*digest, 1));
            }
        }
        Ok(removed)
    }
}

impl Process {
    fn new(world: &Arc<World>) -> Arc<Process> {
        Arc::new(Process {
            world: Arc::clone(world),
            known: Mutex::new((0, Ledger::default())),
        })
    }

    fn rescue(&self, digest: Digest) {
        let held = self.hold().unwrap();
        protocol::rescue(self, &held, [digest]).unwrap();
    }

    /// HEAD of a blob, as the server answers it. Answers when it was said to be here.
    fn head(&self, name: &RepositoryName, digest: Digest) -> Option<u64> {
        let asked = self.world.disk().served;
        let member = || {
            let disk = self.world.disk();
            disk.blobs.contains(&(name.clone(), digest))
        };
        let counter = self.world.disk().counter;
        let mut known = self.known.lock().unwrap();
        if known.0 != counter {
            let list = self.world.disk().list.clone();
            *known = (counter, list);
        }
        let condemned = known.1.has(&digest);
        drop(known);
        if condemned {
            self.rescue(digest);
        }
        member().then_some(asked)
    }

    /// Puts bytes in place, as `publish` does.
    fn publish(&self, digest: Digest) {
        let held = self.hold().unwrap();
        protocol::rescue(self, &held, [digest]).unwrap();
        self.world.disk().contents.insert(digest);
    }

    /// Makes a blob one of the repository, if its bytes are there.
    fn join(&self, name: &RepositoryName, digest: Digest) -> bool {
        let held = self.hold().unwrap();
        if !self.world.disk().contents.contains(&digest) {
            return false;
        }
        protocol::rescue(self, &held, [digest]).unwrap();
        let mut disk = self.world.disk();
        disk.blobs.insert((name.clone(), digest));
        disk.commits.push((name.clone(), digest));
        true
    }

    /// PUT of a manifest: its blob must be one of the repository.
    fn put_manifest(&self, name: &RepositoryName, digest: Digest) -> bool {
        let held = self.hold().unwrap();
        let named = (name.clone(), digest);
        if !self.world.disk().blobs.contains(&named) {
            return false;
        }
        protocol::rescue(self, &held, [digest]).unwrap();
        let mut disk = self.world.disk();
        assert!(
            disk.contents.contains(&digest),
            "a blob that is named has no bytes"
        );
        disk.used.insert(named);
        disk.commits.push((name.clone(), digest));
        true
    }

    /// A client that asks first and uploads only what is not there.
    fn push(&self, name: &RepositoryName, digest: Digest) {
        let confirmed = match self.head(name, digest) {
            Some(asked) => asked,
            None => loop {
                let asked = self.world.disk().served;
                self.publish(digest);
                if self.join(name, digest) {
                    break asked;
                }
            },
        };
        let done = self.put_manifest(name, digest);
        let later = self.world.disk().served;
        assert!(
            done || later >= confirmed + GRACE,
            "MANIFEST_BLOB_UNKNOWN for a blob confirmed within the grace"
        );
    }

    /// A client that mounts the blob from wherever it is.
    fn mount(&self, from: &RepositoryName, to: &RepositoryName, digest: Digest) {
        let confirmed = self.world.disk().served;
        if self.head(from, digest).is_some() && self.join(to, digest) {
            let done = self.put_manifest(to, digest);
            let later = self.world.disk().served;
            assert!(
                done || later >= confirmed + GRACE,
                "a mounted blob is unknown"
            );
        }
    }

    /// One collection, as [`super::run`] does it.
    fn collect(&self) {
        let grace = match self.world.broken {
            Broken::NoGrace => Duration::ZERO,
            _ => Duration::from_millis(GRACE),
        };
        let (sequence, mut garbage) = {
            let disk = self.world.disk();
            let orphans = disk.blobs.difference(&disk.used);
            let garbage: BTreeSet<Garbage> = orphans
                .map(|(name, digest)| Garbage {
                    digest: *digest,
                    claim: Claim::Blob(name.clone()),
                })
                .collect();
            (disk.commits.len() as u64, garbage)
        };
        let swept = protocol::sweep(self, sequence, garbage.clone(), grace).unwrap();
        for taken in &swept.names {
            garbage.remove(taken);
        }
        let (sequence, free, unwanted) = {
            let disk = self.world.disk();
            let bytes = |digest: &Digest| Garbage {
                digest: *digest,
                claim: Claim::Bytes,
            };
            let named: BTreeSet<Digest> = disk.blobs.iter().map(|(_, digest)| *digest).collect();
            let wanted: BTreeMap<Digest, ()> = disk
                .blobs
                .iter()
                .filter(|(name, digest)| {
                    let claim = Claim::Blob(name.clone());
                    let digest = *digest;
                    !garbage.contains(&Garbage { digest, claim })
                })
                .map(|(_, digest)| (*digest, ()))
                .collect();
            let free: BTreeSet<Garbage> = disk.contents.difference(&named).map(bytes).collect();
            let unwanted: BTreeSet<Garbage> = disk
                .contents
                .iter()
                .filter(|digest| !wanted.contains_key(*digest))
                .map(bytes)
                .collect();
            (disk.commits.len() as u64, free, unwanted)
        };
        let swept = protocol::sweep(self, sequence, free, grace).unwrap();
        garbage.extend(unwanted);
        for (digest, _) in &swept.contents {
            garbage.remove(&Garbage {
                digest: *digest,
                claim: Claim::Bytes,
            });
        }
        protocol::condemn(self, garbage).unwrap();
    }
}

/// A client comes at any time of a collection, not always at its beginning.
fn come_late() {
    for _ in 0..thread_rng().gen_range(0..60) {
        thread::yield_now();
    }
}

/// Everybody at once.
fn scenario(broken: Broken) {
    let world = World::new(broken);
    let (one, two) = (Process::new(&world), Process::new(&world));
    let names: [RepositoryName; 2] = ["a", "b"].map(|name| name.parse().unwrap());
    let orphan = Digest::sha256("pushed before, never named");
    let lost = Digest::sha256("bytes nobody names");
    one.publish(orphan);
    assert!(one.join(&names[0], orphan));
    one.publish(lost);
    one.collect();

    let mut threads = Vec::new();
    let mut spawn = |process: &Arc<Process>, work: Box<dyn FnOnce(&Process) + Send>| {
        let process = Arc::clone(process);
        threads.push(thread::spawn(move || work(&process)));
    };
    let [a, b] = names.clone();
    spawn(
        &one,
        Box::new(move |process| {
            come_late();
            process.push(&a, orphan);
        }),
    );
    let a = names[0].clone();
    if thread_rng().r#gen() {
        spawn(
            &two,
            Box::new(move |process| {
                come_late();
                process.mount(&a, &b, orphan);
            }),
        );
    }
    spawn(
        &two,
        Box::new(|process| {
            for _ in 0..3 {
                process.world.disk().served += GRACE / 2 + 1;
                process.collect();
            }
        }),
    );
    for thread in threads {
        thread.join().unwrap();
    }

    // whatever happened: what is used is there, and garbage goes in the end
    for _ in 0..3 {
        world.disk().served += GRACE;
        one.collect();
    }
    let disk = world.disk();
    for (_, digest) in &disk.used {
        assert!(disk.contents.contains(digest), "what is used is gone");
    }
    assert!(!disk.contents.contains(&lost), "garbage stays for ever");
    let used: BTreeSet<Digest> = disk.used.iter().map(|(_, digest)| *digest).collect();
    assert_eq!(disk.contents, used);
    assert!(disk.list.is_empty(), "the list does not end");
}

#[test]
fn a_push_confirmed_within_the_grace_never_fails() {
    shuttle::check_random(|| scenario(Broken::Nothing), SCHEDULES);
    shuttle::check_pct(|| scenario(Broken::Nothing), SCHEDULES, 3);
}

/// A client that asks, and comes with the manifest after two collections.
fn asked_before_collections(broken: Broken) {
    let world = World::new(broken);
    let process = Process::new(&world);
    let name: RepositoryName = "a".parse().unwrap();
    let blob = Digest::sha256("pushed before, never named");
    process.publish(blob);
    assert!(process.join(&name, blob));
    assert!(process.head(&name, blob).is_some());
    for _ in 0..2 {
        process.collect();
    }
    assert!(process.put_manifest(&name, blob), "it was confirmed");
}

#[test]
fn every_rule_is_needed() {
    let fails = |scenario: fn(Broken), broken, schedules| {
        let found = catch_unwind(AssertUnwindSafe(|| {
            shuttle::check_random(move || scenario(broken), schedules);
        }));
        found.is_err()
    };
    for broken in [Broken::RescueForgotten, Broken::NobodyTold] {
        assert!(
            fails(scenario, broken, 10 * SCHEDULES),
            "{broken:?} does not show"
        );
    }
    assert!(!fails(asked_before_collections, Broken::Nothing, 1));
    assert!(fails(asked_before_collections, Broken::NoGrace, 1));
}
