//! The test of the test: a store that leaves out any one kind of sync loses something, and it
//! is found.
//!
//! For each sync of a kind the losses are tried that only this sync keeps from happening: of the
//! changes it made safe first one alone is lost, then all that is not safe in each of several
//! ways; right after it, at the next answer, then after each call in between and after every
//! later answer.

use kubepkg_test_support::can_trace;

use crate::loss::{ALONE, COLLECTED, DAMAGED, GROWING, PUSHED, lose, record};
use crate::model::{LOSSES, Loss, NOTHING_NEW};
use crate::random::Random;
use crate::recording::Recorded;
use crate::trace::Act;

/// Of the changes a sync made safe so many are lost alone: the newest ones, for what was placed
/// last is what the next step builds on.
const ALONE_LOST: usize = 6;

/// After so many calls the search goes on with answers only.
const NEXT: usize = 40;

/// Syncs that nothing depends on, each with the reason why it is there all the same.
const NEEDLESS: [(&str, &str); 3] = [
    (
        "nothing new of new/store",
        "the folders above what is published: a store made here has them safe from the beginning, \
         one that was copied without its empty folders has not",
    ),
    (
        "entries of new/store: reserve",
        "the same sync, the first time; who opens a store without reserve makes it",
    ),
    (
        "nothing new of new/store/blobs/sha256/XX",
        "damaged content that is set aside: the model takes a rename between folders for one \
         thing, and a file system where it is two would bring the damage back",
    ),
];

/// Moments at which a sync may be missed, as the number of events that had happened: first those
/// that show most.
fn moments(recorded: &Recorded, sync: usize) -> (Vec<usize>, Vec<usize>) {
    let answer = |event: &usize| match &recorded.events[*event].act {
        Act::Said(said) => said.contains("@ done"),
        _ => false,
    };
    let rest = sync + 1..recorded.events.len();
    let mut answers = rest.clone().filter(answer);
    let next = answers.next().unwrap_or(recorded.events.len() - 1);
    let between = rest.take(NEXT).take_while(|event| *event < next);
    let later = between.chain(answers).map(|event| event + 1);
    (vec![sync + 1, next + 1], later.collect())
}

/// What is lost when this kind of sync is left out, and after how many tries it was found.
fn found_without(recorded: &Recorded, kind: &str, random: &mut Random) -> (usize, Option<String>) {
    let left_out = |of: &str| of == kind;
    let mut tries = 0;
    let syncs = recorded.model.syncs_of(kind);
    let at_first = syncs.iter().map(|(sync, made_safe)| {
        let (first, _) = moments(recorded, *sync);
        (first, made_safe, ALONE_LOST)
    });
    let later = syncs.iter().map(|(sync, made_safe)| {
        let (_, later) = moments(recorded, *sync);
        (later, made_safe, 1)
    });
    for (moments, made_safe, alone) in at_first.chain(later) {
        let alone = made_safe.iter().take(alone);
        let alone = alone.flat_map(|event| [Loss::One(*event), Loss::Blank(*event)]);
        let losses: Vec<Loss> = alone.chain(LOSSES).collect();
        for moment in moments {
            for loss in &losses {
                tries += 1;
                if let Err(why) = lose(recorded, moment, *loss, random, &left_out) {
                    return (tries, Some(why));
                }
            }
        }
    }
    (tries, None)
}

/// Leaves out each kind of sync there is in these steps: some loss is found, or it is known why
/// not.
fn check_needless(steps: &[&str]) {
    if !can_trace() {
        return;
    }
    // the same chance each time: what is found today is found tomorrow
    let mut random = Random::new(1);
    let recorded = record(steps);
    let kinds = recorded.model.kinds();
    let mut needless = Vec::new();
    for kind in &kinds {
        let started = std::time::Instant::now();
        let known = NEEDLESS.iter().any(|(known, _)| known == kind);
        let (tries, found) = match known || kind.starts_with(NOTHING_NEW) {
            true => (0, None),
            false => found_without(&recorded, kind, &mut random),
        };
        let what = found.as_ref().and_then(|why| why.lines().next());
        let (what, took) = (what.unwrap_or("nothing"), started.elapsed());
        println!("without {kind}, {tries} losses, {took:?}: {what}");
        if found.is_none() {
            needless.push(kind.as_str());
        }
    }
    let known = NEEDLESS.iter().map(|(kind, _)| *kind);
    let mut known: Vec<&str> = known.filter(|kind| kinds.contains(*kind)).collect();
    known.sort_unstable();
    assert_eq!(needless, known, "syncs nothing depends on");
}

#[test]
fn without_any_one_kind_of_sync_something_is_lost() {
    check_needless(&ALONE);
}

#[test]
fn without_any_one_kind_of_sync_a_large_repository_loses_something() {
    check_needless(&GROWING);
}

#[test]
fn without_any_one_kind_of_sync_a_push_loses_something() {
    check_needless(&PUSHED);
}

#[test]
fn without_any_one_kind_of_sync_a_collection_takes_what_is_wanted() {
    check_needless(&COLLECTED);
}

#[test]
fn without_any_one_kind_of_sync_damage_comes_back() {
    check_needless(&DAMAGED);
}
