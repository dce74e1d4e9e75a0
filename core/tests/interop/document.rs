//! `docs/interop.md` says what these tests say: its tables are made from their lists.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::bundle_cases::COUNTERPARTS;
use crate::listed::{NOT_RUN, RUN};
use crate::values::{DIFFERENT, TOO_DEEP};
use crate::{index, resolve, trust};

/// Reasons by case, and the file they belong to.
fn differences() -> Vec<(&'static str, &'static str, &'static str)> {
    let lists: [(&str, Vec<(&str, &str)>); 5] = [
        ("index.jsonl", index::STRICTER.to_vec()),
        ("resolve.jsonl", resolve::DIFFERENCES.to_vec()),
        ("trust.jsonl", trust::STRICTER_HERE.to_vec()),
        ("trust.jsonl", trust::OTHER_CLASS.to_vec()),
        ("values-yaml.jsonl", DIFFERENT.to_vec()),
    ];
    let in_file = |(file, list): (&'static str, Vec<_>)| {
        list.into_iter().map(move |(case, why)| (file, case, why))
    };
    lists.into_iter().flat_map(in_file).collect()
}

/// Cases that are passed over.
const PASSED_OVER: [(&str, &str, &str); 2] = [
    (
        "trust.jsonl",
        trust::NEED_FETCH,
        "without the file there is nothing to judge: fetching it has failed before",
    ),
    ("values-yaml.jsonl", TOO_DEEP.0, TOO_DEEP.1),
];

fn cases(file: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(file);
    match file.ends_with(".jsonl") {
        true => std::fs::read_to_string(path).unwrap().lines().count(),
        false => 1,
    }
}

/// What a table has no room for.
fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|")
}

fn tables() -> String {
    let mut out = String::new();
    let differences = differences();
    out += "## Files\n\n| File | Cases | Run | Other outcome here | By |\n|---|---|---|---|---|\n";
    for (file, test) in RUN {
        let name = file
            .trim_start_matches("interop/")
            .trim_start_matches("data/");
        let of = |file: &str| name == file;
        let all = cases(file);
        let over = PASSED_OVER.iter().filter(|(file, ..)| of(file)).count();
        let other = differences.iter().filter(|(file, ..)| of(file)).count();
        let test = Path::new("core/tests").join(test);
        let test = test.display().to_string().replace("tests/../", "");
        let _ = writeln!(
            out,
            "| {name} | {all} | {} | {other} | {test} |",
            all - over
        );
    }
    out += "\nNot run:\n\n| File | Why |\n|---|---|\n";
    for (file, why) in NOT_RUN {
        let _ = writeln!(out, "| {file} | {} |", cell(why));
    }
    for (file, case, why) in PASSED_OVER {
        let _ = writeln!(out, "| {file}: {case} | {} |", cell(why));
    }
    out += "\n## Cases with another outcome here\n\n| File | Case | Why |\n|---|---|---|\n";
    for (file, case, why) in differences {
        let _ = writeln!(out, "| {file} | {} | {} |", cell(case), cell(why));
    }
    out += "\n## Cases of bundle/cases.jsonl and their counterparts\n\n| Case | Test of our own format |\n|---|---|\n";
    for (case, file, test) in COUNTERPARTS {
        let _ = writeln!(out, "| {case} | `{test}` in {file} |");
    }
    out
}

const BEGIN: &str = "<!-- made by core/tests/interop/document.rs -->\n\n";

#[test]
fn the_document_says_what_the_tests_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/interop.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (intro, found) = text.split_once(BEGIN).expect("the mark before the tables");
    let wanted = tables();
    if found != wanted {
        // beside other files of tests, to be copied over
        let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("interop.md");
        std::fs::write(&made, format!("{intro}{BEGIN}{wanted}")).unwrap();
        panic!(
            "docs/interop.md is out of date: cp {} docs/",
            made.display()
        );
    }
}
