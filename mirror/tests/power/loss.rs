//! Power is lost at any moment, in any way: the store is right.

use std::time::Instant;

use kubepkg_test_support::can_trace;

use crate::check::check;
use crate::model::{LOSSES, Loss};
use crate::random::{Random, long};
use crate::recording::{Recorded, Recording, STORE};
use crate::tree::Tree;
use crate::worker::Answer;

/// States that are made of one recording in a short run.
const STATES: usize = 250;

/// Calls at which a process is killed before the rest of a recording, with how often about it
/// makes them.
const KILLED_AT: [(&str, u64); 7] = [
    ("fsync", 30),
    ("renameat2", 35),
    ("rename", 25),
    ("mkdir", 60),
    ("syncfs", 5),
    ("unlink", 10),
    ("openat", 120),
];

/// What one process does that is not disturbed.
pub const ALONE: [&str; 14] = [
    "publish 1",
    "push a/b 1 2",
    "push a/b 2 1",
    "import 100",
    "tag a/b 1 1",
    "large 5",
    "untag a/b 2",
    "tag a/b 1 1",
    "delete a/b 2",
    "import 105",
    "distrust",
    "nosite",
    "push c latest 100",
    "import 100",
];

/// A repository that outgrows its one file, and a log that outgrows its base file.
pub const GROWING: [&str; 9] = [
    "tags big 1 1001",
    "push big x 2",
    "untag big x",
    "push big y 3",
    "tags big 2 500",
    "tags big 3 500",
    "push big z 2",
    "tags big 1 400",
    "untag big y",
];

/// What clients push.
pub const PUSHED: [&str; 5] = [
    "upload a/b 1",
    "part a/b 2",
    "put a/b 3",
    "put c 5",
    "upload a/b 4",
];

/// The disk damages content, a check sets it aside, and it is brought again.
pub const DAMAGED: [&str; 8] = [
    "push a 1 1",
    "publish 2",
    "damage 1",
    "damage 2",
    "repair",
    "push a 1 1",
    "publish 2",
    "look",
];

/// Images that lose their tags are condemned with their contents; some of it is wanted again, the
/// rest goes when its grace is over.
pub const COLLECTED: [&str; 25] = [
    "image a/b 1 1",
    "image a/b 2 2",
    "image c 1 4",
    "publish 3",
    "publish 5",
    "name d 3",
    "import 100",
    "import 105",
    "untag a/b 2",
    "untag c 1",
    "serve 10",
    "collect untagged",
    "tear",
    "rescue 5",
    "name d 3",
    "image c 1 4",
    "serve 3700",
    "collect",
    "publish 2",
    "untag c 1",
    "collect untagged",
    "image e x 4",
    "serve 7400",
    "collect",
    "collect",
];

/// The undisturbed work of one process.
pub fn record(steps: &[&str]) -> Recorded {
    let mut recording = Recording::new();
    let mut worker = recording.process(None);
    worker.ready();
    for step in steps {
        assert!(recording.step(&mut worker, step), "{step}");
    }
    worker.end();
    recording.finish()
}

pub fn record_alone() -> Recorded {
    record(&ALONE)
}

/// One loss of power: what is found afterwards must be as expected.
pub fn lose(
    recorded: &Recorded,
    point: usize,
    loss: Loss,
    random: &mut Random,
    left_out: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let tree = recorded.model.after_loss(point, loss, random, left_out);
    let expected = recorded.history.expected(&recorded.events[..point]);
    let folder = memory();
    let top = folder.path().join("top");
    tree.write_to(&top);
    check(&top.join(STORE), &expected)
        .map_err(|why| format!("{loss:?} is lost after event {point}: {why}"))
}

/// A folder in memory, where there is one: nothing has to survive here.
pub fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Loses power many times.
fn lose_often(recorded: &Recorded, random: &mut Random, states: usize) {
    for number in 0..states {
        let point = random.below(recorded.model.events() as u64 + 1);
        let loss = LOSSES[number % LOSSES.len()];
        let before = random.clone();
        let point = usize::try_from(point).unwrap();
        lose(recorded, point, loss, random, &|_| false)
            .unwrap_or_else(|why| panic!("{why}\n({before:?})"));
    }
}

#[test]
fn whatever_a_power_loss_takes_of_one_process_work_the_store_is_right() {
    lose_while("power lost with one process", &ALONE, STATES);
}

/// Loses power in the work of one process, again and again in a long run.
fn lose_while(what: &str, steps: &[&str], states: usize) {
    if !can_trace() {
        return;
    }
    let mut random = Random::of_this_run(what);
    let until = long().map(|long| Instant::now() + long);
    loop {
        lose_often(&record(steps), &mut random, states);
        if until.is_none_or(|until| until < Instant::now()) {
            break;
        }
    }
}

#[test]
fn power_lost_while_a_repository_grows_and_is_compacted_loses_nothing() {
    lose_while("power lost with a large repository", &GROWING, 60);
}

#[test]
fn power_lost_while_clients_push_loses_nothing_that_was_acknowledged() {
    lose_while("power lost with uploads", &PUSHED, 150);
}

#[test]
fn power_lost_while_damage_is_mended_brings_no_damage_back() {
    lose_while("power lost with damage", &DAMAGED, 150);
}

#[test]
fn power_lost_while_it_is_collected_loses_nothing_that_is_wanted() {
    lose_while("power lost with collections", &COLLECTED, 150);
}

/// A collection is killed when it has removed something, and that is brought again: what is noted
/// of its removal must not come back with the list of before and take it at once.
#[test]
fn what_is_brought_again_after_a_killed_collection_stays_when_power_is_lost() {
    if !can_trace() {
        return;
    }
    let mut random = Random::of_this_run("brought again after a killed collection");
    let before = [
        "image a 1 1",
        "publish 3",
        "untag a 1",
        "collect untagged",
        "serve 3700",
    ];
    let Recorded { model, history, .. } = record(&before);
    let whole = model.after_loss(model.events(), Loss::Nothing, &mut random, &|_| false);
    let mut missed = 0;
    // the calls after those of opening the store
    for when in 1..=5 {
        let mut recording = Recording::from(&whole, history.clone());
        let fault = format!("unlink:signal=KILL:when={when}");
        let mut first = recording.process(Some(&fault));
        first.ready();
        let lived = recording.step(&mut first, "collect");
        first.end();
        println!("killed at {fault}: {}", !lived);
        let mut second = recording.process(None);
        second.ready();
        for step in ["publish 3", "image b 1 1"] {
            assert!(recording.step(&mut second, step), "{step}");
        }
        second.end();
        let recorded = recording.finish();
        let end = recorded.model.events();
        for loss in LOSSES {
            lose(&recorded, end, loss, &mut random, &|_| false)
                .unwrap_or_else(|why| panic!("killed at {fault}: {why}"));
            let noted = |kind: &str| kind == "more data of new/store/condemned";
            missed += usize::from(lose(&recorded, end, loss, &mut random, &noted).is_err());
        }
    }
    assert!(missed > 0, "nothing depends on what is noted of removals");
}

fn some_fault(random: &mut Random) -> String {
    let (call, most) = random.one_of(&KILLED_AT);
    let when = 1 + random.below(*most);
    format!("{call}:signal=KILL:when={when}")
}

/// A process is killed, another goes on, then power is lost. What the first one did is in the
/// page cache and nowhere else.
fn killed_then_lost(random: &mut Random, fault: &str, neighbour: bool) {
    let mut recording = Recording::new();
    // one that lives all the time has not opened the store after the other was killed
    let mut other = neighbour.then(|| {
        let mut other = recording.process(None);
        other.ready();
        other
    });
    let steps = ["push a/b 1 2", "import 100", "push a/b 2 3", "import 105"];
    let mut first = recording.process(Some(fault));
    first.ready();
    let lived = steps.iter().all(|step| recording.step(&mut first, step));
    first.end();
    println!("killed at {fault}, neighbour: {neighbour}, survived: {lived}");
    if other.is_none() {
        // one that opens the store after it, and is killed while it clears up
        let fault = format!("unlink:signal=KILL:when={}", 1 + random.below(3));
        let mut clearing = recording.process(Some(&fault));
        clearing.ready();
        clearing.end();
    }
    let mut second = other.take().unwrap_or_else(|| {
        let mut second = recording.process(None);
        second.ready();
        second
    });
    recording.step(&mut second, "look");
    for step in steps.iter().chain(["tag a/b 1 3"].iter()) {
        assert!(recording.step(&mut second, step), "{step}, {lived}");
    }
    second.end();
    let recorded = recording.finish();
    lose_often(&recorded, random, 40);
}

/// Content and its folder were made by one who was killed before any of its syncs; who names it
/// makes all of it safe.
#[test]
fn content_a_killed_process_did_not_make_safe_is_made_safe_by_who_names_it() {
    if !can_trace() {
        return;
    }
    let mut random = Random::of_this_run("content of a killed process");
    for when in 3..=9 {
        let mut recording = Recording::new();
        let mut second = recording.process(None);
        second.ready();
        let mut first = recording.process(Some(&format!("fsync:signal=KILL:when={when}")));
        first.ready();
        let lived = recording.step(&mut first, "push a 1 2");
        first.end();
        assert!(!lived, "the push has more than {when} syncs");
        assert!(recording.step(&mut second, "push a 1 2"));
        second.end();
        let recorded = recording.finish();
        let end = recorded.model.events();
        for loss in LOSSES {
            lose(&recorded, end, loss, &mut random, &|_| false)
                .unwrap_or_else(|why| panic!("killed at sync {when}: {why}"));
        }
    }
}

/// The folders above the store were made by one who was killed before it came to their sync.
#[test]
fn a_store_whose_creation_was_interrupted_loses_nothing_with_the_power() {
    if !can_trace() {
        return;
    }
    let mut random = Random::of_this_run("interrupted creation");
    for when in [1, 2, 5, 9, 10] {
        let mut recording = Recording::new();
        let mut first = recording.process(Some(&format!("mkdir:signal=KILL:when={when}")));
        assert_eq!(first.ready(), Answer::Died, "{when}");
        first.end();
        let mut second = recording.process(None);
        second.ready();
        assert!(recording.step(&mut second, "push a 1 2"));
        second.end();
        let recorded = recording.finish();
        let end = recorded.model.events();
        for loss in LOSSES {
            lose(&recorded, end, loss, &mut random, &|_| false)
                .unwrap_or_else(|why| panic!("killed at folder {when}: {why}"));
        }
    }
}

/// Kills and loses a few times, again and again in a long run.
fn kill_and_lose(what: &str, neighbour: bool) {
    if !can_trace() {
        return;
    }
    let mut random = Random::of_this_run(what);
    let until = long().map(|long| Instant::now() + long);
    let mut rounds = 0;
    while rounds < 6 || until.is_some_and(|until| Instant::now() < until) {
        let fault = some_fault(&mut random);
        killed_then_lost(&mut random, &fault, neighbour);
        rounds += 1;
    }
}

#[test]
fn who_goes_on_after_a_killed_process_loses_nothing_with_the_power() {
    kill_and_lose("killed, opened again, power lost", false);
}

#[test]
fn who_lives_beside_a_killed_process_loses_nothing_with_the_power() {
    kill_and_lose("killed beside another, power lost", true);
}

/// Coming up again is work too, and may be interrupted.
#[test]
fn power_lost_again_while_the_store_comes_up_loses_nothing() {
    if !can_trace() {
        return;
    }
    let mut random = Random::of_this_run("power lost while coming up");
    let first = record_alone();
    for _ in 0..4 {
        // after something was acknowledged, so that there is something to lose
        let events = first.model.events() as u64;
        let point = usize::try_from(events / 3 + random.below(events * 2 / 3)).unwrap();
        let found = first
            .model
            .after_loss(point, Loss::Some(50), &mut random, &|_| false);
        let expected = first.history.expected(&first.events[..point]);
        let mut recording = Recording::from(&found, crate::oracle::History::default());
        let mut worker = recording.process(None);
        worker.ready();
        worker.end();
        let second = recording.finish();
        for number in 0..30 {
            let point = random.below(second.model.events() as u64 + 1);
            let loss = LOSSES[number % LOSSES.len()];
            let point = usize::try_from(point).unwrap();
            let tree = second
                .model
                .after_loss(point, loss, &mut random, &|_| false);
            let folder = memory();
            let top = folder.path().join("top");
            tree.write_to(&top);
            check(&top.join(STORE), &expected)
                .unwrap_or_else(|why| panic!("{loss:?} lost at {point}: {why}"));
        }
    }
}

/// Archives and copies leave out empty folders.
#[test]
fn a_store_that_was_copied_without_its_empty_folders_loses_nothing_with_the_power() {
    if !can_trace() {
        return;
    }
    let mut random = Random::of_this_run("copied, power lost");
    let mut recording = Recording::new();
    let mut worker = recording.process(None);
    worker.ready();
    worker.end();
    let recorded = recording.finish();
    let events = recorded.model.events();
    let mut whole = recorded
        .model
        .after_loss(events, Loss::Nothing, &mut random, &|_| false);
    without_empty_folders(&mut whole);
    for steps in [["import 100", "push a 1 2"], ["distrust", "publish 1"]] {
        let mut recording = Recording::from(&whole, crate::oracle::History::default());
        let mut worker = recording.process(None);
        worker.ready();
        for step in steps {
            assert!(recording.step(&mut worker, step));
        }
        worker.end();
        lose_often(&recording.finish(), &mut random, 40);
    }
}

fn without_empty_folders(tree: &mut Tree) {
    if let Tree::Folder(entries) = tree {
        for entry in entries.values_mut() {
            without_empty_folders(entry);
        }
        entries.retain(|_, entry| !matches!(entry, Tree::Folder(below) if below.is_empty()));
    }
}
