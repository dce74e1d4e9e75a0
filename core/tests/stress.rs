//! Files made to hurt whoever reads them: long, deep, wide, and small ones that unfold into
//! large ones. Each reader answers, in time that grows with the file and with a short message.
//!
//! The bound in time is generous: it catches a quadratic loop, not a slow machine. The sizes
//! are smaller without optimisation, where reading is thirty times as slow.

use std::fmt::{Debug, Display};
use std::time::{Duration, Instant};

use kubepkg_core::api::PackageSource;
use kubepkg_core::index::build::{collect, read_file};
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::index::{Index, IndexError};
use kubepkg_core::lock::Lock;
use kubepkg_core::plan::installed;
use kubepkg_core::select::{Catalog, Source};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Memory, Root, parse_file};
use kubepkg_core::version::{Constraint, MAX_CONSTRAINT, MAX_VERSION, Version};
use kubepkg_core::yaml::strict;
use serde_json::Value;

/// What one reading may take.
const BOUND: Duration = Duration::from_secs(60);

const MIB: usize = 1024 * 1024;

/// Size of the long files.
const LONG: usize = if cfg!(debug_assertions) {
    MIB
} else {
    64 * MIB
};

/// Members of the wide files.
const MANY: usize = if cfg!(debug_assertions) {
    10_000
} else {
    500_000
};

/// Longest message about a bad file.
const MESSAGE: usize = 2_000;

fn in_time<T>(what: &str, read: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = read();
    let took = begun.elapsed();
    assert!(took < BOUND, "{what} took {took:?}");
    result
}

/// A reader of text, its answer reduced to whether it took the text.
type Reader = (&'static str, fn(&str) -> Result<(), String>);

fn told<T, E: Display + Debug>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// What a reader says of `text`: in time, and in few words.
fn answer(what: &str, read: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let answer = in_time(what, read);
    if let Err(message) = &answer {
        let start: String = message.chars().take(200).collect();
        assert!(
            message.len() < MESSAGE,
            "{what}: {} bytes: {start}",
            message.len()
        );
    }
    answer
}

/// Everything that reads text from outside.
const READERS: [Reader; 9] = [
    ("index", |text| told(Index::read(text.as_bytes()))),
    ("root", |text| told(Root::read(text.as_bytes()))),
    ("signatures", |text| {
        told(Signatures::parse(text.as_bytes()))
    }),
    ("trust file", |text| {
        told(parse_file(text, &|_| Err("there is none".to_owned())))
    }),
    ("lock", |text| told(Lock::read(text))),
    ("installed", |text| told(installed::read(text))),
    ("sources", |text| {
        told(read_file("file", text).and_then(collect))
    }),
    ("memory", |text| told(Memory::decode(text.as_bytes()))),
    ("any YAML", |text| told(strict::from_str::<Value>(text))),
];

/// What every reader refuses, in time.
fn all_refuse(what: &str, text: &str) {
    all_refuse_but(&[], what, text);
}

/// What every reader refuses, in time, but those that may take it: a string is some YAML, and
/// documents of other kinds may stand beside sources.
fn all_refuse_but(others: &[&str], what: &str, text: &str) {
    for (reader, read) in READERS {
        let label = format!("{reader}: {what}");
        let answer = answer(&label, || read(text));
        let may = others.contains(&reader);
        assert!(may || answer.is_err(), "{label} was taken");
    }
}

/// What every reader answers, in time, whatever it says.
fn all_answer(what: &str, text: &str) {
    for (reader, read) in READERS {
        let label = format!("{reader}: {what}");
        let _ = answer(&label, || read(text));
    }
}

fn index(packages: &str) -> String {
    format!("apiVersion: kubepkg.dev/v1alpha1\nkind: RepositoryIndex\npackages:\n{packages}")
}

/// An index with one package, whose spec is this text of one line each.
fn listed(spec: &str) -> String {
    let indented: String = spec.lines().map(|l| format!("        {l}\n")).collect();
    index(&format!(
        "  app:\n    versions:\n    - version: 1.0.0\n      digest: sha256:{}\n      spec:\n{indented}",
        "0".repeat(64)
    ))
}

#[test]
fn a_file_of_one_string_is_refused_in_a_short_message() {
    let long = "a".repeat(LONG);
    for (what, text) in [
        ("plain", long.clone()),
        ("quoted", format!("\"{long}\"")),
        ("not closed", format!("\"{long}")),
        ("a key", format!("{long}: 1\n")),
        ("the kind", format!("kind: {long}\n")),
        ("a block", format!("|\n  {long}\n")),
        ("blank", " ".repeat(LONG)),
        ("empty lines", format!("a:{}b", "\n".repeat(LONG))),
        ("a comment without a line end", format!("#{long}")),
        ("escapes", format!("\"{}\"", "\\n".repeat(LONG / 2))),
    ] {
        all_refuse_but(&["sources", "any YAML"], what, &text);
    }
}

#[test]
fn one_long_value_of_any_member_is_refused_in_a_short_message() {
    let long = "a".repeat(MIB);
    let trust = "apiVersion: kubepkg.dev/v1\nkind: Trust\nentries:\n- ";
    let lock = "apiVersion: kubepkg.dev/v1\nkind: Lock\npackages:\n";
    let installed = "apiVersion: kubepkg.dev/v1\nkind: Installed\n";
    let source = "kind: PackageSource\nmetadata: {name: a}\nspec: ";
    let url = "url: https://a.example.com/index.yaml\n  keys: [a.pub]\n  ";
    let mut long_winded = Vec::new();
    for (reader, text) in [
        ("trust file", format!("{trust}url: {long}\n")),
        (
            "trust file",
            format!("{trust}url: https://{long}\n  keys: []\n"),
        ),
        ("trust file", format!("{trust}{url}id: {long}\n")),
        (
            "trust file",
            format!("{trust}url: https://a.example.com/x\n  keys: [{long}]\n"),
        ),
        ("trust file", format!("{trust}{url}platforms: [{long}]\n")),
        (
            "trust file",
            format!("{trust}{url}locations: [\"{long}:\"]\n"),
        ),
        ("trust file", format!("{trust}{url}{long}: 1\n")),
        ("lock", format!("{lock}  {long}: {{}}\n")),
        (
            "lock",
            format!("{lock}  a: {{version: {long}, digest: {long}}}\n"),
        ),
        ("installed", format!("{installed}{long}: 1\n")),
        (
            "installed",
            format!("{installed}packages: [{{name: {long}, version: 1.0.0}}]\n"),
        ),
        (
            "installed",
            format!("{installed}packages: [{{name: a, version: {long}}}]\n"),
        ),
        ("sources", format!("{source}{{version: {long}}}\n")),
        (
            "sources",
            format!("{source}{{version: 1.0.0, {long}: 1}}\n"),
        ),
        (
            "sources",
            format!("kind: PackageSource\nmetadata: {{name: {long}}}\nspec: {{version: 1.0.0}}\n"),
        ),
        ("index", index(&format!("  {long}: {{versions: []}}\n"))),
        (
            "index",
            index(&format!("  a: {{versions: [{{version: {long}}}]}}\n")),
        ),
        ("index", listed(&format!("version: {long}"))),
        (
            "index",
            format!("kind: RepositoryIndex\nrepository: {long}\n"),
        ),
        (
            "index",
            format!("kind: RepositoryIndex\ngenerated: {long}\n"),
        ),
        ("root", format!("signed: {{version: 1, expires: {long}}}\n")),
        ("root", format!("signed: {{{long}: 1}}\n")),
        ("memory", format!("{{\"{long}\": 1}}")),
    ] {
        let (_, read) = READERS.iter().find(|(name, _)| *name == reader).unwrap();
        let start: String = text.chars().filter(|c| *c != 'a').take(120).collect();
        let label = format!("{reader}: {start}");
        let message = in_time(&label, || read(&text)).expect_err(&label);
        if message.len() > MESSAGE {
            let start: String = message.chars().take(80).collect();
            long_winded.push(format!("{label}\n  {start}"));
        }
    }
    assert!(long_winded.is_empty(), "{}", long_winded.join("\n"));
}

#[test]
fn an_index_with_one_long_string_in_a_spec_is_read() {
    let long = "a".repeat(LONG);
    let text = listed(&format!("version: 1.0.0\nimages:\n- {long}"));
    let read = in_time("a long image", || Index::read(text.as_bytes()));
    // only the digest is wrong
    assert!(matches!(read, Err(IndexError::Version { .. })));
    let text = index("  app:\n    description: ") + &long + "\n    versions: []\n";
    let read = in_time("a long description", || Index::read(text.as_bytes()));
    assert!(read.unwrap().packages.is_empty());
}

#[test]
fn aliases_that_unfold_without_end_are_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..30 {
        let alias = format!("*a{}", n - 1);
        bomb += &format!("a{n}: &a{n} [{}]\n", [alias.as_str(); 9].join(", "));
    }
    all_refuse("nine times nine", &bomb);
    // the same where the stream reader of indexes gets to see it
    let read = in_time("in a spec", || Index::read(listed(&bomb).as_bytes()));
    assert!(matches!(read, Err(IndexError::Yaml(_))), "{read:?}");
    // one long text, many times
    let many = "- *a\n".repeat(10_000);
    let text = format!("a: &a {}\nb:\n{many}", "x".repeat(MIB));
    all_refuse("a long text many times", &text);
    let text = listed(&format!(
        "version: &a {}\nprovides:\n{many}",
        "x".repeat(MIB)
    ));
    let read = in_time("in a spec", || Index::read(text.as_bytes()));
    assert!(read.is_err());
    // merge keys unfold too
    let mut merges = "m0: &m0 {a: 1, b: 2}\n".to_owned();
    for n in 1..40 {
        let alias = format!("*m{}", n - 1);
        merges += &format!(
            "m{n}: &m{n} {{<<: [{}], c{n}: 1}}\n",
            [alias.as_str(); 9].join(", ")
        );
    }
    all_answer("merge keys", &merges);
    all_refuse("an alias of itself", "a: &a [*a]\n");
}

#[test]
fn deep_files_do_not_use_up_the_stack() {
    let deep = 200_000;
    for (what, text) in [
        ("lists in flow style", "[".repeat(deep)),
        ("closed", "[".repeat(deep) + &"]".repeat(deep)),
        ("maps in flow style", "{a: ".repeat(deep)),
        ("maps as keys", "{? ".repeat(deep)),
        ("lists on one line", "- ".repeat(deep)),
        ("keys on one line", "? ".repeat(deep)),
        ("JSON", "{\"a\":".repeat(deep) + "1" + &"}".repeat(deep)),
        ("indented", {
            let lines = (0..2_000).map(|level| format!("{}a:\n", " ".repeat(level)));
            lines.collect()
        }),
        ("lists below lists", {
            let lines = (0..2_000).map(|level| format!("{}-\n", " ".repeat(level)));
            lines.collect()
        }),
    ] {
        all_refuse(what, &text);
        let read = in_time(what, || Index::read(listed(&text).as_bytes()));
        assert!(read.is_err(), "{what}");
    }
}

#[test]
fn wide_files_are_read_in_time_that_grows_with_them() {
    let lines = |line: fn(usize) -> String| (0..MANY).map(line).collect::<String>();
    for (what, text) in [
        ("keys", lines(|n| format!("k{n}: 1\n"))),
        ("the same key", lines(|_| "k: 1\n".to_owned())),
        ("elements", lines(|n| format!("- {n}\n"))),
        ("documents", lines(|n| format!("---\nk: {n}\n"))),
        ("anchors", lines(|n| format!("- &a{n} x\n"))),
        (
            "aliases",
            "- &a x\n".to_owned() + &lines(|_| "- *a\n".to_owned()),
        ),
        ("comments", lines(|_| "# x\n".to_owned())),
        ("tags", lines(|_| "- !!str x\n".to_owned())),
        (
            "keys of one line",
            format!("{{{}}}", lines(|n| format!("k{n}: 1, "))),
        ),
    ] {
        all_answer(what, &text);
    }
    let text = index(&lines(|n| format!("  p{n}:\n    versions: []\n")));
    let read = in_time("packages without versions", || Index::read(text.as_bytes()));
    assert!(read.unwrap().packages.is_empty());
    let unknown = lines(|n| format!("x{n}: 1\n"));
    let text = listed(&format!("version: 1.0.0\n{unknown}"));
    let read = in_time("members nobody knows", || Index::read(text.as_bytes()));
    assert_eq!(read.unwrap().left_out.len(), 1);
}

#[test]
fn a_package_with_five_thousand_versions_is_read_and_selected_from() {
    let versions = 5_000;
    let source = |n: usize| {
        format!(
            "---\napiVersion: kubepkg.dev/v1\nkind: PackageSource\nmetadata:\n  name: app\nspec:\n  version: {}.{}.{}\n  variants:\n  - name: default\n    requires:\n    - package: base\n      version: \">=1\"\n",
            n / 100,
            n / 10 % 10,
            n % 10
        )
    };
    let text: String = (0..versions).map(source).collect();
    let draft = in_time("collecting", || read_file("file", &text).and_then(collect)).unwrap();
    let text = draft.to_yaml(Time::from_unix(0), None).unwrap();
    let index = in_time("reading", || Index::read(&text)).unwrap();
    assert_eq!(index.packages["app"].versions.len(), versions);
    let catalog = Catalog::new(vec![Source {
        name: "here".to_owned(),
        priority: 0,
        index: index.into(),
    }]);
    let least = Constraint::parse("<0.0.1").unwrap();
    in_time("selecting", || {
        for _ in 0..20 {
            let chosen = catalog.select("app", Some(&least)).unwrap();
            assert_eq!(chosen.listed.version, "0.0.0");
        }
    });
}

#[test]
fn the_longest_constraints_and_versions_cost_little() {
    let filled = |unit: &str, size: usize| unit.repeat(size / unit.len());
    let long: Vec<Version> = [
        format!("1.0.0-{}", "a".repeat(MAX_VERSION - 6)),
        format!("1.0.0-{}", "9".repeat(MAX_VERSION - 6)),
        format!("1.0.0-{}0", "a.".repeat((MAX_VERSION - 7) / 2)),
    ]
    .iter()
    .map(|text| Version::parse(text).unwrap())
    .collect();
    in_time("constraints", || {
        for unit in [
            "1||",
            ">=1,",
            "1.x ",
            "^1 - 2",
            "*",
            " ",
            "|",
            "=",
            "~>1-a.b.c||",
        ] {
            for size in [MAX_CONSTRAINT - 1, MAX_CONSTRAINT, MAX_CONSTRAINT + 1, LONG] {
                let text = filled(unit, size) + "1";
                if let Ok(constraint) = told_constraint(&text) {
                    for version in &long {
                        for _ in 0..50 {
                            let _ = constraint.matches(version);
                        }
                    }
                }
            }
        }
    });
    in_time("versions", || {
        for unit in ["1", "1.", "v", "-", "+", "0", "a", "1-1."] {
            let text = filled(unit, LONG);
            assert!(answer(unit, || told(Version::parse(&text))).is_err());
        }
    });
}

fn told_constraint(text: &str) -> Result<Constraint, String> {
    let constraint = Constraint::parse(text);
    answer("a constraint", || told(constraint.as_ref()))?;
    constraint.map_err(|error| error.to_string())
}

#[test]
fn a_strict_reader_of_packages_keeps_to_its_own_limits() {
    let doubled = "labels: {a: b}\n".repeat(MANY);
    let text = format!("kind: PackageSource\nmetadata:\n  name: x\n{doubled}");
    let read = in_time("doubled members", || {
        strict::from_str::<PackageSource>(&text)
    });
    told(read).unwrap_err();
}
