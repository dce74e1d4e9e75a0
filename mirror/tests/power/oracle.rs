//! What a store must say, from what was acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use kubepkg_core::Digest;
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Change, Names};

use crate::steps::{Step, blob_of};
use crate::trace::{Act, Event};

/// All that was done, in order; one commit after the other.
#[derive(Clone)]
pub struct History {
    /// Commits that were made and safe before all this.
    base: u64,
    /// Content that was acknowledged since the last collection.
    fresh: BTreeSet<Digest>,
    /// Names after each commit; the first is the empty store.
    states: Vec<Names>,
    steps: BTreeMap<u64, Outcome>,
}

#[derive(Clone, Default)]
struct Outcome {
    /// The commit it made.
    commit: Option<u64>,
    /// The newest commit it told of.
    seen: u64,
    published: Vec<Digest>,
    damaged: Option<Digest>,
    repaired: bool,
    /// What a collection removed.
    removed: Option<BTreeSet<Digest>>,
    /// What is condemned when it ends.
    condemned: BTreeSet<Digest>,
    /// Names it gave.
    given: Vec<(RepositoryName, Digest)>,
    /// Names it took away.
    taken: Vec<(RepositoryName, Digest)>,
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
    /// Content that was acknowledged since the last collection began: none that comes removes
    /// it, but the second one.
    pub fresh: BTreeSet<Digest>,
    /// Names that were given since then.
    pub fresh_names: BTreeSet<(RepositoryName, Digest)>,
    /// Content a collection has condemned, and nobody wanted since.
    pub condemned: BTreeSet<Digest>,
    /// Whether the store was opened at all.
    pub opened: bool,
}

impl Default for History {
    fn default() -> History {
        History {
            base: 0,
            fresh: BTreeSet::new(),
            states: vec![Names::default()],
            steps: BTreeMap::new(),
        }
    }
}

impl History {
    /// The same, when all of it is safe and the next step is the first of a recording. Answers
    /// the number of that step, too.
    pub fn go_on(mut self) -> (History, u64) {
        self.base = self.newest();
        let next = self.steps.last_key_value().map_or(0, |(id, _)| *id) + 1;
        (self, next)
    }

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
            published: step.confirmed(),
            given: names_in(&step.changes(), true),
            taken: names_in(&step.changes(), false),
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
        self.fresh.extend(&outcome.published);
        self.steps.insert(id, outcome);
    }

    /// A collection was done, or made these commits and removed this content before it was
    /// killed.
    pub fn collected(
        &mut self,
        id: u64,
        commits: Vec<Vec<Change>>,
        removed: BTreeSet<Digest>,
        condemned: BTreeSet<Digest>,
    ) {
        let fresh = removed.intersection(&self.fresh).next();
        assert_eq!(fresh, None, "removed by the first collection that saw it");
        self.fresh.clear();
        for changes in commits {
            let mut names = self.names().clone();
            names.sequence += 1;
            for change in &changes {
                names.apply(change, names.sequence);
            }
            self.states.push(names);
        }
        let outcome = Outcome {
            commit: Some(self.newest()),
            seen: self.newest(),
            removed: Some(removed),
            condemned,
            ..Outcome::default()
        };
        self.steps.insert(id, outcome);
    }

    /// Whether there was a collection.
    pub fn has_collections(&self) -> bool {
        self.steps.values().any(|step| step.removed.is_some())
    }

    /// What must hold after these events.
    pub fn expected(&self, events: &[Event]) -> Expected<'_> {
        let mut expected = Expected {
            history: self,
            least: self.base,
            most: self.base,
            content: BTreeSet::new(),
            damaged: BTreeSet::new(),
            wrong: BTreeSet::new(),
            fresh: BTreeSet::new(),
            fresh_names: BTreeSet::new(),
            condemned: BTreeSet::new(),
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

/// The names these changes give, or those they take away.
pub fn names_in(changes: &[Change], given: bool) -> Vec<(RepositoryName, Digest)> {
    let names = changes.iter().filter_map(|change| match change {
        Change::Manifest {
            repository,
            digest,
            new,
        } => (new.is_some() == given).then(|| (repository.clone(), *digest)),
        Change::Blob {
            repository,
            digest,
            new,
        } => (new.is_some() == given).then(|| (repository.clone(), *digest)),
        _ => None,
    });
    names.collect()
}

impl Expected<'_> {
    /// Whether collections are part of the history.
    pub fn collects(&self) -> bool {
        self.history.has_collections()
    }

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
                let given = step.given.iter().map(|(_, digest)| digest);
                for digest in given.chain(&step.published) {
                    self.condemned.remove(digest);
                }
                self.damaged.extend(step.damaged);
                self.wrong.extend(step.damaged);
                self.content.retain(|digest| Some(*digest) != step.damaged);
                for name in &step.taken {
                    self.fresh_names.remove(name);
                }
                if let Some(removed) = &step.removed {
                    self.content.retain(|digest| !removed.contains(digest));
                    self.fresh.clear();
                    self.fresh_names.clear();
                    self.condemned.clear();
                }
            }
            "done" => {
                self.least = self.least.max(made).max(step.seen);
                self.most = self.most.max(self.least);
                self.content.extend(&step.published);
                self.condemned.extend(&step.condemned);
                self.fresh.extend(&step.published);
                self.fresh_names.extend(step.given.iter().cloned());
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
