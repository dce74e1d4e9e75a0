//! Depth-first search with backtracking over one version per package.
//!
//! Goals are met in order; a package's requirements go in front of the goals that were left.
//! A goal on a package that is chosen already only checks it. No recursion: the depth is
//! that of the requirements, and those come from others.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::needs::{Need, Scope};
use super::{Chosen, Clash, DeadEnd, Origin, Request, Resolution, ResolveError, Unmet, Variants};
use crate::select::{Catalog, Selection, shown_versions};

/// Goals met before the search is given up; the existing program stops there too.
pub const MAX_STEPS: usize = 10_000;

/// Versions compared with constraints, and goals set, before the search is given up. An
/// index with very many versions or requirements would otherwise make single steps long.
pub const MAX_EFFORT: usize = 20_000_000;

/// How many distinct reasons are kept.
const MAX_REASONS: usize = 4;

/// A version of a package that could be chosen.
struct Candidate<'c> {
    release: Selection<'c>,
    needs: Vec<Rc<Need>>,
}

/// The candidates of one package, newest first.
type Candidates<'c> = Rc<Vec<Rc<Candidate<'c>>>>;

/// A need in the list of goals left; the list is linked through `next`, so that backtracking
/// keeps what was left at an earlier point.
struct Goal {
    need: Rc<Need>,
    next: Option<usize>,
}

/// A package was chosen here, and other candidates are left.
struct Frame<'c> {
    package: String,
    left: std::vec::IntoIter<Rc<Candidate<'c>>>,
    /// The goals after this one.
    rest: Option<usize>,
    /// Lengths of `trail` and `goals` to go back to.
    trail: usize,
    goals: usize,
}

/// What is taken back when the search goes back.
enum Made {
    Need(String),
    Choice(String),
}

/// How the search goes on.
enum Next {
    Goal(Option<usize>),
    Candidate,
}

struct Search<'a, 'c> {
    catalog: &'c Catalog,
    scope: &'a Scope<'a>,
    known: BTreeMap<String, Candidates<'c>>,
    chosen: BTreeMap<String, Rc<Candidate<'c>>>,
    needs: BTreeMap<String, Vec<Rc<Need>>>,
    trail: Vec<Made>,
    goals: Vec<Goal>,
    frames: Vec<Frame<'c>>,
    reasons: Vec<DeadEnd>,
    steps: usize,
    effort: usize,
}

pub(super) fn search<'c>(
    catalog: &'c Catalog,
    requests: &[Request],
    scope: &Scope<'_>,
) -> Result<Resolution<'c>, ResolveError> {
    let mut search = Search {
        catalog,
        scope,
        known: BTreeMap::new(),
        chosen: BTreeMap::new(),
        needs: BTreeMap::new(),
        trail: Vec::new(),
        goals: Vec::new(),
        frames: Vec::new(),
        reasons: Vec::new(),
        steps: 0,
        effort: 0,
    };
    let wanted: Vec<_> = requests
        .iter()
        .map(|request| {
            Rc::new(Need {
                package: request.name.to_string(),
                constraint: Ok(request.constraint.clone()),
                by: Origin::Requested,
                optional: false,
            })
        })
        .collect();
    let mut at = search.in_front(&wanted, None);
    while let Some(goal) = at {
        search.steps += 1;
        if search.steps > MAX_STEPS || search.effort > MAX_EFFORT {
            return Err(ResolveError::Limit {
                steps: search.steps - 1,
                reasons: search.reasons,
            });
        }
        at = match search.meet(goal) {
            Ok(Next::Goal(next)) => next,
            Ok(Next::Candidate) => search.try_next()?,
            Err(reason) => {
                search.note(*reason);
                search.try_next()?
            }
        };
    }
    Ok(search.resolution())
}

impl<'c> Search<'_, 'c> {
    /// Puts `needs` in front of the goals `rest`.
    fn in_front(&mut self, needs: &[Rc<Need>], rest: Option<usize>) -> Option<usize> {
        self.effort += needs.len();
        let mut next = rest;
        for need in needs.iter().rev() {
            self.goals.push(Goal {
                need: Rc::clone(need),
                next,
            });
            next = Some(self.goals.len() - 1);
        }
        next
    }

    /// Meets one goal, or says why it cannot be met as things are.
    fn meet(&mut self, at: usize) -> Result<Next, Box<DeadEnd>> {
        let goal = &self.goals[at];
        let (need, rest) = (Rc::clone(&goal.need), goal.next);
        let constraint = match &need.constraint {
            Ok(constraint) => constraint.as_ref(),
            Err(error) => {
                return Err(Box::new(DeadEnd::Constraint {
                    package: need.package.clone(),
                    by: need.by.clone(),
                    error: error.clone(),
                }));
            }
        };
        let wanted = self.needs.entry(need.package.clone()).or_default();
        wanted.push(Rc::clone(&need));
        self.trail.push(Made::Need(need.package.clone()));

        if let Some(chosen) = self.chosen.get(&need.package) {
            let release = &chosen.release;
            return if constraint.is_none_or(|c| c.matches(&release.version)) {
                Ok(Next::Goal(rest))
            } else {
                Err(Box::new(DeadEnd::Disagree {
                    package: need.package.clone(),
                    version: release.listed.version.clone(),
                    wants: wanted
                        .iter()
                        .filter(|other| !matches!(other.constraint, Ok(None)))
                        .map(|other| other.shown())
                        .collect(),
                }))
            };
        }
        let Some(supplier) = self.catalog.supplier(&need.package) else {
            return if need.optional {
                Ok(Next::Goal(rest))
            } else {
                Err(Box::new(DeadEnd::Missing {
                    package: need.package.clone(),
                    by: need.by.clone(),
                }))
            };
        };
        let all = self.candidates(&need.package);
        let wanted = &self.needs[&need.package];
        self.effort += all.len() * wanted.len();
        let fits = |candidate: &&Rc<Candidate<'_>>| {
            wanted.iter().all(|need| match &need.constraint {
                Ok(Some(constraint)) => constraint.matches(&candidate.release.version),
                _ => true,
            })
        };
        let fitting: Vec<_> = all.iter().filter(fits).cloned().collect();
        let Some(newest) = fitting.first() else {
            let releases: Vec<_> = all.iter().map(|c| c.release.clone()).collect();
            return Err(Box::new(DeadEnd::NoVersion {
                package: need.package.clone(),
                wants: wanted.iter().map(|need| need.shown()).collect(),
                source: supplier.name.clone(),
                has: shown_versions(&releases),
            }));
        };
        if *self.scope.variants != Variants::All {
            self.effort += self.chosen.len() * fitting.len();
        }
        let mut clash = None;
        let mut left = Vec::with_capacity(fitting.len());
        for candidate in &fitting {
            match self.clash(&need.package, candidate) {
                Some(with) => clash = clash.or(Some(with)),
                None => left.push(Rc::clone(candidate)),
            }
        }
        if let (true, Some(with)) = (left.is_empty(), clash) {
            return Err(Box::new(DeadEnd::Conflict {
                package: need.package.clone(),
                version: newest.release.listed.version.clone(),
                with,
            }));
        }
        self.frames.push(Frame {
            package: need.package.clone(),
            left: left.into_iter(),
            rest,
            trail: self.trail.len(),
            goals: self.goals.len(),
        });
        Ok(Next::Candidate)
    }

    /// Takes the next candidate of the newest choice that has one left.
    fn try_next(&mut self) -> Result<Option<usize>, ResolveError> {
        while let Some(frame) = self.frames.last_mut() {
            let (trail, goals) = (frame.trail, frame.goals);
            let next = frame
                .left
                .next()
                .map(|candidate| (candidate, frame.package.clone(), frame.rest));
            self.back_to(trail, goals);
            let Some((candidate, package, rest)) = next else {
                self.frames.pop();
                continue;
            };
            self.trail.push(Made::Choice(package.clone()));
            let at = self.in_front(&candidate.needs, rest);
            self.chosen.insert(package, candidate);
            return Ok(at);
        }
        Err(ResolveError::Unsatisfiable(std::mem::take(
            &mut self.reasons,
        )))
    }

    fn back_to(&mut self, trail: usize, goals: usize) {
        self.goals.truncate(goals);
        for made in self.trail.drain(trail..).rev() {
            match made {
                Made::Choice(package) => {
                    self.chosen.remove(&package);
                }
                Made::Need(package) => {
                    if let Some(needs) = self.needs.get_mut(&package) {
                        needs.pop();
                    }
                }
            }
        }
    }

    fn note(&mut self, reason: DeadEnd) {
        if self.reasons.len() < MAX_REASONS && !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// One candidate per version of `package`: its highest build.
    fn candidates(&mut self, package: &str) -> Candidates<'c> {
        if let Some(known) = self.known.get(package) {
            return Rc::clone(known);
        }
        let mut seen = BTreeSet::new();
        let candidates: Vec<_> = self
            .catalog
            .releases(package)
            .into_iter()
            .filter(|release| seen.insert(release.listed.version.as_str()))
            .map(|release| {
                let needs = self.scope.needs(package, &release);
                Rc::new(Candidate {
                    needs: needs.into_iter().map(Rc::new).collect(),
                    release,
                })
            })
            .collect();
        self.effort += candidates.len();
        let candidates = Rc::new(candidates);
        self.known
            .insert(package.to_owned(), Rc::clone(&candidates));
        candidates
    }

    /// The chosen package that `candidate` cannot live with, where that matters.
    fn clash(&self, package: &str, candidate: &Candidate<'_>) -> Option<String> {
        if *self.scope.variants == Variants::All {
            return None;
        }
        let candidate = (package, candidate);
        self.chosen
            .iter()
            .map(|(name, chosen)| (name.as_str(), chosen.as_ref()))
            .find(|other| excludes(candidate, *other) || excludes(*other, candidate))
            .map(|(name, _)| name.to_owned())
    }

    fn resolution(self) -> Resolution<'c> {
        let mut conflicts = Vec::new();
        let declaring = self
            .chosen
            .iter()
            .filter(|(_, package)| !package.release.listed.spec().conflicts.is_empty());
        for (name, package) in declaring {
            for (other_name, other) in &self.chosen {
                if excludes((name, package), (other_name, other)) {
                    conflicts.push(Clash {
                        package: name.clone(),
                        with: other_name.clone(),
                    });
                }
            }
        }
        let offered: BTreeSet<&str> = self
            .chosen
            .iter()
            .flat_map(|(name, package)| {
                let provides = &package.release.listed.spec().provides;
                provides.iter().map(String::as_str).chain([name.as_str()])
            })
            .collect();
        let capabilities: BTreeSet<Unmet> = self
            .chosen
            .iter()
            .flat_map(|(name, package)| self.scope.capabilities(name, &package.release))
            .filter(|unmet| !offered.contains(unmet.what.as_str()))
            .collect();
        let missing_optional: BTreeSet<Unmet> = self
            .needs
            .iter()
            .filter(|(package, _)| !self.chosen.contains_key(*package))
            .flat_map(|(package, needs)| {
                needs.iter().map(|need| Unmet {
                    what: package.clone(),
                    by: need.by.clone(),
                })
            })
            .collect();
        let packages = self
            .chosen
            .iter()
            .map(|(name, package)| {
                let mut why = Vec::new();
                for need in self.needs.get(name).into_iter().flatten() {
                    if !why.contains(&need.by) {
                        why.push(need.by.clone());
                    }
                }
                Chosen {
                    name: name.clone(),
                    source: package.release.source,
                    listed: package.release.listed,
                    version: package.release.version.clone(),
                    why,
                }
            })
            .collect();
        Resolution {
            packages,
            capabilities: capabilities.into_iter().collect(),
            missing_optional: missing_optional.into_iter().collect(),
            conflicts,
        }
    }
}

/// Whether `package` offers `capability`: it says so, or it is called so.
fn offers(name: &str, package: &Candidate<'_>, capability: &str) -> bool {
    let provides = &package.release.listed.spec().provides;
    name == capability || provides.iter().any(|offered| offered == capability)
}

/// Whether the first package declares a conflict with the second. A package may declare one
/// with what it offers itself: it means all others that offer it.
fn excludes(first: (&str, &Candidate<'_>), second: (&str, &Candidate<'_>)) -> bool {
    let conflicts = &first.1.release.listed.spec().conflicts;
    first.0 != second.0
        && conflicts
            .iter()
            .any(|conflict| offers(second.0, second.1, conflict))
}
