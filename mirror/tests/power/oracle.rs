//! What a store must say, from what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use kubepkg_core::Digest;
use kubepkg_core::store::Names;

use crate::steps::{Step, blob_of};
use crate::trace::{Act, Event};

/// All that was done, in order; one commit after the other.
pub struct History {
    /// Names after each commit; the first is the empty store.
    states: Vec<Names>,
    steps: BTreeMap<u64, Outcome>,
}

#[derive(Default)]
struct Outcome {
    /// The commit it made.
    commit: Option<u64>,
    /// The newest commit it told of.
    seen: u64,
    published: Vec<Digest>,
    damaged: Option<Digest>,
    repaired: bool,
}

/// What a store may say at one moment.
pub struct Expected<'a> {
    history: &'a History,
    /// The commits that were acknowledged.
    pub least: u64,
    /// Those that may be made as well, for somebody was about to.
    pub most: u64,
    /// Content that was acknowledged.
    pub content: BTreeSet<Digest>,
    /// Content the disk may have changed, and that nobody brought again.
    pub damaged: BTreeSet<Digest>,
    /// The part of it that may lie where it is asked for.
    pub wrong: BTreeSet<Digest>,
    /// Whether the store was opened at all.
    pub opened: bool,
}

impl Default for History {
    fn default() -> History {
        History {
            states: vec![Names::default()],
            steps: BTreeMap::new(),
        }
    }
}

impl History {
    /// Number of the newest commit.
    pub fn newest(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// The names now.
    pub fn names(&self) -> &Names {
        &self.states[self.states.len() - 1]
    }

    /// Step `id` was done, or has done its commit before it was killed.
    pub fn done(&mut self, id: u64, step: &Step) {
        let mut outcome = Outcome {
            seen: self.newest(),
            published: step.contents().iter().map(Digest::sha256).collect(),
            damaged: match step {
                Step::Damage(seed) => Some(Digest::sha256(blob_of(*seed))),
                _ => None,
            },
            repaired: *step == Step::Repair,
            ..Outcome::default()
        };
        if !step.changes().is_empty() {
            self.states.push(step.after(self.names()));
            outcome.commit = Some(self.newest());
        }
        self.steps.insert(id, outcome);
    }

    /// What must hold after these events.
    pub fn expected(&self, events: &[Event]) -> Expected<'_> {
        let mut expected = Expected {
            history: self,
            least: 0,
            most: 0,
            content: BTreeSet::new(),
            damaged: BTreeSet::new(),
            wrong: BTreeSet::new(),
            opened: false,
        };
        for event in events {
            let Act::Said(said) = &event.act else {
                continue;
            };
            for line in said.lines().filter_map(|line| line.strip_prefix("@ ")) {
                expected.said(line);
            }
        }
        expected
    }
}

impl Expected<'_> {
    fn said(&mut self, line: &str) {
        self.opened |= line == "ready";
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let id = rest.split(' ').next().and_then(|id| id.parse::<u64>().ok());
        let Some(step) = id.and_then(|id| self.history.steps.get(&id)) else {
            return;
        };
        let made = step.commit.unwrap_or(0);
        match word {
            "begin" => {
                self.most = self.most.max(made);
                self.damaged.extend(step.damaged);
                self.wrong.extend(step.damaged);
                self.content.retain(|digest| Some(*digest) != step.damaged);
            }
            "done" => {
                self.least = self.least.max(made).max(step.seen);
                self.most = self.most.max(self.least);
                self.content.extend(&step.published);
                if step.repaired {
                    self.wrong.clear();
                }
                for digest in &step.published {
                    self.damaged.remove(digest);
                    self.wrong.remove(digest);
                }
            }
            _ => {}
        }
    }

    /// Whether the names may be these.
    pub fn allows(&self, names: &Names) -> Result<(), String> {
        let number = names.sequence;
        let (least, most) = (self.least, self.most);
        if !(least..=most).contains(&number) {
            return Err(format!(
                "commit {number} is the newest, not {least} to {most}"
            ));
        }
        let should = &self.history.states[usize::try_from(number).unwrap()];
        if names == should {
            return Ok(());
        }
        let (mut is, mut must) = (format!("{names:?}"), format!("{should:?}"));
        is.truncate(600);
        must.truncate(600);
        Err(format!(
            "the names of commit {number} are\n  {is}\nand not\n  {must}"
        ))
    }
}
