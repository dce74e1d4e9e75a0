//! Processes on a store, with everything they do to it written down.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::model::Model;
use crate::oracle::History;
use crate::steps::Step;
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

/// Whether processes can be traced here. Where not, the tests that need it say so; a build
/// server must have it.
pub fn can_trace() -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "true"]);
    strace.stdout(Stdio::null()).stderr(Stdio::null());
    let can = strace.status().is_ok_and(|status| status.success());
    if !can {
        println!("left out: strace is missing or may not trace");
        assert!(std::env::var_os("CI").is_none(), "strace must work here");
    }
    can
}

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
        Recording {
            folder,
            start: start.clone(),
            logs: Vec::new(),
            history,
            next: 1,
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
