//! A process that works on a store and does what it is told: one line in, lines out.
//!
//! It gets `<id> <step>` and says `@ begin <id>` before and `@ done <id> <number>` or
//! `@ failed <id> <why>` after; these lines are its acknowledgements.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::steps::Step;

/// Names the store's folder to the process.
const ROOT: &str = "STORE_UNDER_TEST";

#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn working_process() {
    let Some(root) = std::env::var_os(ROOT) else {
        return;
    };
    let mut out = std::io::stdout();
    // in one write each, so that a trace has them in one piece
    let mut say = |line: String| {
        out.write_all(format!("\n@ {line}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    };
    let store = match FileStore::open(root, OpenMode::OpenOrCreate) {
        Ok(store) => store,
        Err(e) => return say(format!("failed open {e:?}")),
    };
    say("ready".to_owned());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (id, step) = line.split_once(' ').unwrap();
        let step: Step = step.parse().unwrap();
        say(format!("begin {id}"));
        match step.perform(&store) {
            Ok(number) => say(format!("done {id} {number}")),
            Err(e) => say(format!("failed {id} {e:?}")),
        }
    }
}

/// Such a process.
pub struct Worker {
    child: Child,
    to: Option<ChildStdin>,
    from: Lines<BufReader<ChildStdout>>,
}

/// What a process said to a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Done(u64),
    Failed(String),
    /// It said nothing and is gone.
    Died,
}

impl Worker {
    /// Started by `wrapper`, a command that runs the command behind it; `None` starts it as it
    /// is.
    pub fn start(root: &Path, wrapper: Option<Command>) -> Worker {
        let program = std::env::current_exe().unwrap();
        let mut command = match wrapper {
            Some(mut wrapper) => {
                wrapper.arg(program);
                wrapper
            }
            None => Command::new(program),
        };
        command.args(["--exact", "worker::working_process", "--ignored"]);
        command.args(["--test-threads=1", "--nocapture"]);
        command.env(ROOT, root);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Worker {
            to: child.stdin.take(),
            child,
            from,
        }
    }

    /// Waits until it has opened the store.
    pub fn ready(&mut self) -> Answer {
        self.answer().1
    }

    /// Tells it what to do and does not wait.
    pub fn tell(&mut self, id: u64, step: &Step) {
        if let Some(to) = &mut self.to {
            // it may be gone; then its answer says so
            let _ = writeln!(to, "{id} {step}");
        }
    }

    /// What it says next, and to which step.
    pub fn answer(&mut self) -> (u64, Answer) {
        for line in self.from.by_ref() {
            let Ok(line) = line else { break };
            let Some(said) = line.strip_prefix("@ ") else {
                continue;
            };
            let mut words = said.split(' ');
            let word = words.next();
            let mut number = || words.next().and_then(|word| word.parse().ok());
            match word {
                Some("ready") => return (0, Answer::Done(0)),
                Some("done") => return (number().unwrap(), Answer::Done(number().unwrap())),
                Some("failed") => {
                    let id = number().unwrap_or(0);
                    return (id, Answer::Failed(said.to_owned()));
                }
                _ => {}
            }
        }
        (0, Answer::Died)
    }

    /// Does a step.
    pub fn perform(&mut self, id: u64, step: &Step) -> Answer {
        self.tell(id, step);
        self.answer().1
    }

    /// Lets it end, and waits until it has.
    pub fn end(mut self) -> ExitStatus {
        self.to = None;
        // it may still say something
        for _ in self.from.by_ref() {}
        self.child.wait().unwrap()
    }

    /// Ends it at once. What it said before can still be read.
    pub fn kill(&mut self) {
        self.to = None;
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
