//! Help that helps: every verb says what it is for and shows a call that works.

use std::path::Path;

use crate::command::Scratch;

/// Every verb that does something, as the words of its call.
fn verbs(scratch: &Scratch) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let help = help(scratch, &words);
        let below: Vec<&str> = help
            .lines()
            .skip_while(|line| *line != "Commands:")
            .skip(1)
            .take_while(|line| line.starts_with("  "))
            // a longer text is continued further in
            .filter(|line| !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        if below.is_empty() {
            found.push(words);
        } else {
            open.extend(below.into_iter().map(|word| {
                let mut longer = words.clone();
                longer.push(word.to_owned());
                longer
            }));
        }
    }
    found
}

fn help(scratch: &Scratch, words: &[String]) -> String {
    let mut call: Vec<&str> = words.iter().map(String::as_str).collect();
    call.push("--help");
    scratch.run(&call).ok().stdout
}

/// The calls of kubepkg in a text, continuation lines joined.
fn calls(text: &str) -> Vec<Vec<String>> {
    text.replace("\\\n", " ")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("kubepkg "))
        .map(|call| {
            let call = call.split(" #").next().unwrap();
            call.split_whitespace().map(str::to_owned).collect()
        })
        .collect()
}

/// A call is understood up to its last word: asking for help at its end succeeds.
#[track_caller]
fn understood(scratch: &Scratch, call: &[String]) {
    help(scratch, call);
}

#[test]
fn every_verb_says_what_it_is_for_and_shows_a_call() {
    let scratch = Scratch::new();
    let verbs = verbs(&scratch);
    assert!(verbs.len() >= 10, "{verbs:?}");
    for words in verbs {
        let help = help(&scratch, &words);
        let first = help.lines().next().unwrap();
        assert!(
            first.len() > 15 && !first.starts_with("Usage"),
            "{words:?}: {first}"
        );
        let example = help
            .split("Example:")
            .nth(1)
            .unwrap_or_else(|| panic!("{words:?}: no example"));
        let calls = calls(example);
        assert!(!calls.is_empty(), "{words:?}");
        assert_eq!(
            calls[0][..words.len()],
            words,
            "the example is of another verb"
        );
        for call in &calls {
            understood(&scratch, call);
        }
    }
}

#[test]
fn the_calls_in_the_readme_exist() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let calls = calls(&std::fs::read_to_string(readme).unwrap());
    assert!(calls.len() >= 5, "{calls:?}");
    let scratch = Scratch::new();
    for call in calls {
        understood(&scratch, &call);
    }
}

#[test]
fn flags_stand_under_their_own_heading() {
    let scratch = Scratch::new();
    for words in verbs(&scratch) {
        let help = help(&scratch, &words);
        let mut heading = "";
        for line in help.lines() {
            if line.ends_with(':') && !line.starts_with(' ') {
                heading = line;
            }
            let flag = line.trim_start();
            if flag.starts_with("--force") || flag.starts_with("-o, --output") {
                assert_eq!(heading, "Options:", "{words:?}: {line}");
            }
        }
    }
}
