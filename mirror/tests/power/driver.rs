//! Two processes do random things to one store and are killed at any moment, again and again.
//!
//! Commits are numbered, so their records are one order of everything that happened. The parent
//! keeps what was acknowledged, and what was under way when its process was killed: that may
//! have happened or not. Everything else in the records is wrong.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kubepkg_test_support::can_trace;

use crate::collecting::GRACE;
use crate::known::{Known, check_no_rubbish_stays};
use crate::loss::memory;
use crate::random::{Random, long};
use crate::steps::Step;
use crate::worker::{Answer, Worker};

/// Kills in one short run on a file system in memory, where most happens between them.
const IN_MEMORY: usize = 150;

/// And on the disk of the machine, where syncs take their time.
const ON_DISK: usize = 60;

/// After so many kills a new store is begun.
const ONE_STORE: usize = 25;

/// Steps that are told at once, at most.
const QUEUE: u64 = 6;

/// Rounds a process that is killed by its own tracer is given for that.
const PATIENCE: usize = 6;

/// Calls at which some processes are killed, and about how often they make them.
const CALLS: [(&str, u64); 6] = [
    ("fsync", 40),
    ("renameat2", 20),
    ("rename", 20),
    ("mkdir", 40),
    ("pwrite64", 10),
    ("unlink", 20),
];

/// A step, the `number`th one of this store.
fn some_step(random: &mut Random, number: u64) -> Step {
    let repository = (*random.one_of(&["a", "a/b", "docker.io/library/r0"])).to_owned();
    let seed = random.below(40);
    let tag = format!("t{}", random.below(4));
    match random.below(30) {
        20..=22 => Step::Image {
            repository: (*random.one_of(&["i", "i/j"])).to_owned(),
            tag,
            seed: random.below(12),
        },
        23 => Step::Untag {
            repository: "i".to_owned(),
            tag,
        },
        24..=25 => Step::Collect {
            untagged: random.below(2) == 0,
        },
        // every grace that began before is over
        26 => Step::Serve(number * GRACE.as_secs()),
        27 => Step::Repair,
        28 => Step::Part { repository, seed },
        29 => Step::Upload {
            repository: "u".to_owned(),
            seed,
        },
        0 => Step::Look,
        1..=2 => Step::Publish(seed),
        3..=4 => Step::Import(random.below(6) * 10),
        5 => Step::Large(random.below(2)),
        6..=9 => Step::Tag {
            repository,
            tag,
            seed,
        },
        10 => Step::Untag { repository, tag },
        11..=12 => Step::Push {
            repository: "e".to_owned(),
            tag: format!("e{seed}"),
            seed,
        },
        13..=14 => Step::Erase {
            repository: "e".to_owned(),
            seed,
        },
        15 => Step::Distrust,
        16 => Step::NoSite,
        _ => Step::Push {
            repository,
            tag,
            seed,
        },
    }
}

/// A process, what it was told, and whether it is killed by its own tracer.
struct Busy {
    worker: Worker,
    told: Vec<(u64, Step)>,
    traced: bool,
    opened: bool,
    rounds: usize,
    killed: bool,
}

impl Busy {
    fn start(root: &Path, random: &mut Random, tracing: bool) -> Busy {
        let traced = tracing && random.below(4) == 0;
        let wrapper = traced.then(|| {
            let (call, most) = random.one_of(&CALLS);
            let when = 1 + random.below(*most);
            let mut strace = Command::new("strace");
            strace.args(["-f", "-qq", "-o", "/dev/null"]);
            strace.args(["-e", &format!("trace={call}")]);
            strace.args(["-e", &format!("inject={call}:signal=KILL:when={when}")]);
            strace
        });
        Busy {
            worker: Worker::start(root, wrapper),
            told: Vec::new(),
            traced,
            opened: false,
            rounds: 0,
            killed: false,
        }
    }

    /// Reads the answers to all it was told. Whether it lives.
    fn settle(&mut self, known: &mut Known) -> Result<bool, String> {
        self.rounds += 1;
        if !self.opened {
            match self.worker.ready() {
                Answer::Done(_) => self.opened = true,
                Answer::Died => return Ok(false),
                Answer::Failed(why) => return Err(why),
            }
        }
        for (id, step) in std::mem::take(&mut self.told) {
            let (answered, answer) = self.worker.answer();
            known.answered(&step, &answer)?;
            if answer == Answer::Died {
                // what it did not come to is not done
                return Ok(false);
            }
            if id != answered {
                return Err(format!("{answered} was answered instead of {id}"));
            }
        }
        // it may have answered everything before
        Ok(!self.killed)
    }
}

/// One store and its kills. Answers how many there were.
fn one_store(root: &Path, random: &mut Random, tracing: bool) -> Result<usize, String> {
    let mut known = Known::default();
    let mut next = 1;
    let mut kills = 0;
    let mut busy: Vec<Option<Busy>> = vec![None, None];
    while kills < ONE_STORE {
        for place in &mut busy {
            let process = place.get_or_insert_with(|| Busy::start(root, random, tracing));
            for _ in 0..=random.below(QUEUE) {
                let step = some_step(random, next);
                known.told(&step);
                process.worker.tell(next, &step);
                process.told.push((next, step));
                next += 1;
            }
        }
        // one, both or none are killed, at once or when they are nearly through
        let longest = *random.one_of(&[300, 5_000, 60_000]);
        let wait = Duration::from_micros(random.below(longest));
        let whom = random.below(8);
        std::thread::sleep(wait);
        for (at, place) in busy.iter_mut().enumerate() {
            let Some(process) = place else { continue };
            let chosen = whom == 7 || whom % 3 == at as u64;
            if chosen && !process.traced {
                process.worker.kill();
                process.killed = true;
            }
        }
        for place in &mut busy {
            if let Some(process) = place
                && !process.settle(&mut known)?
            {
                kills += 1;
                *place = None;
            }
        }
        // a tracer that waits for a call that does not come would wait for ever
        for place in &mut busy {
            if place
                .as_ref()
                .is_some_and(|process| process.traced && process.rounds == PATIENCE)
                && let Some(process) = place.take()
            {
                process.worker.end();
            }
        }
        let living = busy.iter().flatten().count();
        known.check(root, living)?;
    }
    for process in busy.into_iter().flatten() {
        process.worker.end();
    }
    known.check(root, 0)?;
    check_no_rubbish_stays(root)?;
    Ok(kills)
}

fn kill_often(what: &str, folder: impl Fn() -> tempfile::TempDir, kills: usize) {
    let tracing = can_trace();
    let mut random = Random::of_this_run(what);
    let until = long().map(|long| Instant::now() + long);
    let mut done = 0;
    while done < kills || until.is_some_and(|until| Instant::now() < until) {
        let folder = folder();
        let root = folder.path().join("store");
        match one_store(&root, &mut random, tracing) {
            Ok(kills) => done += kills,
            Err(why) => {
                let kept = folder.keep();
                panic!("{why}\nthe store is kept: {}", kept.display());
            }
        }
    }
    println!("{done} kills");
}

#[test]
fn processes_killed_at_any_moment_lose_nothing_that_was_acknowledged() {
    kill_often("killed in memory", memory, IN_MEMORY);
}

#[test]
fn processes_killed_at_any_moment_on_a_disk_lose_nothing_that_was_acknowledged() {
    kill_often(
        "killed on the disk",
        || tempfile::tempdir().unwrap(),
        ON_DISK,
    );
}
