//! Processes on a store, with everything they do to it written down.

use std::path::{Path, PathBuf};
use std::process::Command;

use kubepkg_core::store::{Cause, Store};
use kubepkg_mirror::source::Standing;
use kubepkg_mirror::store::{FileStore, OpenMode};
use tempfile::TempDir;

use crate::collecting::all_content;
use crate::model::Model;
use crate::oracle::History;
use crate::steps::Step;
use crate::support::now;
use crate::trace::{self, Event};
use crate::tree::Tree;
use crate::worker::{Answer, Worker};

/// A recording under way.
pub struct Recording {
    folder: TempDir,
    start: Tree,
    logs: Vec<PathBuf>,
    pub history: History,
    next: u64,
}

/// A finished one.
pub struct Recorded {
    pub model: Model,
    pub events: Vec<Event>,
    pub history: History,
}

/// Where the store lies below the folder that is recorded. It is made with the folder above it.
pub const STORE: &str = "new/store";

impl Recording {
    /// Of a folder with nothing in it.
    pub fn new() -> Recording {
        Recording::from(
            &Tree::Folder(std::collections::BTreeMap::new()),
            History::default(),
        )
    }

    /// Of a folder that is like this, and all of it safe.
    pub fn from(start: &Tree, history: History) -> Recording {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        start.write_to(&top);
        let (history, next) = history.go_on();
        Recording {
            folder,
            start: start.clone(),
            logs: Vec::new(),
            history,
            next,
        }
    }

    pub fn top(&self) -> PathBuf {
        self.folder.path().join("top")
    }

    pub fn root(&self) -> PathBuf {
        self.top().join(STORE)
    }

    /// Starts a process; `fault`, as for strace's `inject`, is what happens to it.
    pub fn process(&mut self, fault: Option<&str>) -> Worker {
        let log = self.folder.path().join(format!("log{}", self.logs.len()));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-ttt", "-y", "-xx"]);
        strace.args(["-s", trace::LONGEST, "-e", trace::CALLS, "-o"]);
        strace.arg(&log);
        match fault {
            Some(fault) => strace.args(["-e", &format!("inject={fault}")]),
            // quicker; strace 6.1 forgets to kill with it
            None => strace.arg("--seccomp-bpf"),
        };
        self.logs.push(log);
        Worker::start(&self.root(), Some(strace))
    }

    /// Lets a process do a step; answers whether it lived.
    pub fn step(&mut self, worker: &mut Worker, step: &str) -> bool {
        let step: Step = step.parse().unwrap();
        let id = self.next;
        self.next += 1;
        if matches!(step, Step::Collect { .. }) {
            return self.collection(worker, id, &step);
        }
        match worker.perform(id, &step) {
            Answer::Done(number) => {
                self.history.done(id, &step);
                assert_eq!(number, self.history.newest(), "{step}");
                true
            }
            Answer::Failed(why) => panic!("{step}: {why}"),
            Answer::Died => {
                // a commit that was made is found by who comes next
                if !step.changes().is_empty() && self.made(self.history.newest() + 1) {
                    self.history.done(id, &step);
                }
                false
            }
        }
    }

    /// What a collection did is seen in the store; whether it was right is checked there.
    fn collection(&mut self, worker: &mut Worker, id: u64, step: &Step) -> bool {
        let before = all_content(&self.root());
        let answer = worker.perform(id, step);
        let after = all_content(&self.root());
        let mut commits = Vec::new();
        let store = FileStore::open(self.root(), OpenMode::ReadOnly).unwrap();
        for number in self.history.newest() + 1.. {
            let Some(record) = now(store.record(number)).unwrap() else {
                break;
            };
            assert_eq!(record.cause, Cause::Collect, "commit {number}");
            let changes = record.changes.into_iter().map(|recorded| recorded.change);
            commits.push(changes.collect());
        }
        let removed = before.difference(&after).copied().collect();
        now(store.names()).unwrap();
        let condemned = after.into_iter();
        let condemned = condemned.filter(|digest| store.standing(digest) == Standing::Condemned);
        let condemned = condemned.collect();
        self.history.collected(id, commits, removed, condemned);
        match answer {
            Answer::Done(number) => assert_eq!(number, self.history.newest(), "{step}"),
            Answer::Failed(why) => panic!("{step}: {why}"),
            Answer::Died => return false,
        }
        true
    }

    /// Whether a record is there.
    fn made(&self, number: u64) -> bool {
        self.root().join(format!("commits/{number}.json")).exists()
    }

    /// All processes have ended: what they did.
    pub fn finish(self) -> Recorded {
        let mut events = Vec::new();
        for log in &self.logs {
            let log = std::fs::read_to_string(log).unwrap();
            events.extend(trace::parse(&log).unwrap());
        }
        events.sort_by_key(|event| event.ended);
        let top = self.top();
        let model = Model::new(path(&top), &self.start, &events).unwrap();
        check_sees_everything(&model, &top);
        Recorded {
            model,
            events,
            history: self.history,
        }
    }
}

/// A model that missed a change would be blind to what is wrong with it.
fn check_sees_everything(model: &Model, top: &Path) {
    let random = &mut crate::random::Random::new(0);
    let seen = model.after_loss(model.events(), crate::model::Loss::Nothing, random, &|_| {
        false
    });
    let mut differences = Vec::new();
    seen.differences(&Tree::read(top), "", &mut differences);
    assert_eq!(
        differences, [""; 0],
        "the model does not see all that was done"
    );
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
