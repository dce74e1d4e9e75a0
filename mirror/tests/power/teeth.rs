//! The test of the test: a store that leaves out any one kind of sync loses something, and it
//! is found.

use crate::loss::{ALONE, DAMAGED, GROWING, PUSHED, lose, record};
use crate::model::LOSSES;
use crate::random::Random;
use crate::recording::{Recorded, can_trace};

/// How often power is lost before a kind of sync is taken to be unnecessary.
const TRIES: usize = 800;

/// Syncs that nothing depends on, each with the reason why it is there all the same.
const NEEDLESS: [(&str, &str); 1] = [(
    "entries of new/store",
    "a store made here has its folders safe from the beginning; one that was copied without its \
     empty folders has not",
)];

fn found_without(recorded: &Recorded, kind: &str, random: &mut Random) -> Option<String> {
    for number in 0..TRIES {
        let point = usize::try_from(random.below(recorded.model.events() as u64 + 1)).unwrap();
        let loss = LOSSES[number % LOSSES.len()];
        let left_out = |of: &str| of == kind;
        if let Err(why) = lose(recorded, point, loss, random, &left_out) {
            return Some(format!("after {} losses: {why}", number + 1));
        }
    }
    None
}

/// Leaves out each kind of sync there is in these steps; answers the kinds nothing depends on.
fn needless(what: &str, steps: &[&str]) -> Vec<String> {
    let mut random = Random::of_this_run(what);
    let recorded = record(steps);
    let mut needless = Vec::new();
    for kind in recorded.model.kinds() {
        match found_without(&recorded, &kind, &mut random) {
            Some(why) => println!("without {kind}: {}", why.lines().next().unwrap_or("")),
            None => {
                println!("without {kind}: nothing");
                needless.push(kind);
            }
        }
    }
    needless
}

fn check_needless(what: &str, steps: &[&str]) {
    if !can_trace() {
        return;
    }
    let expected: Vec<&str> = NEEDLESS.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        needless(what, steps),
        expected,
        "syncs nothing depends on, {what}"
    );
}

#[test]
fn without_any_one_kind_of_sync_something_is_lost() {
    check_needless("syncs left out", &ALONE);
}

#[test]
#[ignore = "takes minutes, and names kinds it finds no loss for; run with --ignored"]
fn without_any_one_kind_of_sync_a_large_repository_loses_something() {
    check_needless("syncs of a large repository left out", &GROWING);
}

#[test]
#[ignore = "takes minutes, and names kinds it finds no loss for; run with --ignored"]
fn without_any_one_kind_of_sync_a_push_loses_something() {
    check_needless("syncs of pushes left out", &PUSHED);
}

#[test]
#[ignore = "takes minutes, and names kinds it finds no loss for; run with --ignored"]
fn without_any_one_kind_of_sync_damage_comes_back() {
    check_needless("syncs of a repair left out", &DAMAGED);
}
