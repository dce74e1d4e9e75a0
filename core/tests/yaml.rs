//! Both YAML readers and the writer: against what Helm's YAML library makes of 345 texts, and
//! against arbitrary input.

use std::time::{Duration, Instant};

use base64::Engine as _;
use kubepkg_core::api::{PackageSource, PackageSourceSpec};
use kubepkg_core::index::Index;
use kubepkg_core::index::build::{collect, read_file};
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::yaml::go::{self, Document};
use kubepkg_core::yaml::{Limits, Problem, strict, write};
use proptest::prelude::*;
use serde_json::Value;

#[path = "interop/values.rs"]
mod values;
use values::{DIFFERENT, TOO_DEEP};

fn json(bytes: &[u8]) -> Option<Value> {
    let document = Document::read(bytes, &Limits::default()).ok()?;
    let value = document.decode::<Value>(document.root()).ok()?.value;
    Some(value)
}

/// Numbers compare by value: the vectors write 1.0 as 1.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|b| same(v, b)))
        }
        _ => a == b,
    }
}

#[test]
fn values_read_as_helm_reads_them() {
    let mut wrong = Vec::new();
    for line in include_str!("interop/values-yaml.jsonl").lines() {
        if line.starts_with(&format!(r#"{{"name":"{}""#, TOO_DEEP.0)) {
            continue;
        }
        let case: Value = serde_json::from_str(line).expect("a case a line");
        let name = case["name"].as_str().unwrap_or_default();
        let text = match case["yaml"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => base64::engine::general_purpose::STANDARD
                .decode(case["yaml_base64"].as_str().unwrap_or_default())
                .expect("base64"),
        };
        let want: Option<Value> = case["json_text"]
            .as_str()
            .map(|text| serde_json::from_str(text).expect("JSON"));
        let got = json(&text);
        let agree = match (&want, &got) {
            (Some(want), Some(got)) => same(want, got),
            (None, None) => true,
            _ => false,
        };
        let listed = DIFFERENT.iter().any(|(other, _)| *other == name);
        if agree == listed {
            wrong.push(format!("{name}: {want:?} but {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Texts that reach every corner of the readers, to be mutated.
const SEEDS: &[&str] = &[
    include_str!("data/index.yaml"),
    include_str!("data/packages/app.yaml"),
    include_str!("data/packages/cdi.yaml"),
    "signatures:\n- keyid: 12\n  sig: AAAA\n- {keyid: \"\", sig: \"A=\"}\n",
    "a: &a [1, 0x1F, .inf, ~]\nb: {<<: [{x: *a}, {y: yes}], ? z : |-\n  text\n}\n--- \n!!int \"1\"\n",
];

fn read_everything(bytes: &[u8]) {
    let _ = go::parse(bytes);
    let _ = json(bytes);
    let _ = Index::read(bytes);
    let _ = Signatures::parse(bytes);
    if let Ok(text) = str::from_utf8(bytes) {
        let _ = strict::from_str::<PackageSource>(text);
        let _ = strict::from_str::<Value>(text);
        let _ = read_file("file", text).and_then(collect);
    }
}

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..8);
    let tokens = prop::sample::select(&[
        "\n", "- ", ": ", "{", "}", "[", "]", "&a ", "*a", "<<: ", "? ", "|", ">", "\"", "'", "#",
        "!!", "%", "\t", "\u{85}", "\u{2028}", "\u{FEFF}", "---\n", "...", ", ", "\\", "~",
    ]);
    (prop::sample::select(SEEDS), edits, tokens).prop_map(|(seed, edits, token)| {
        let mut bytes = seed.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
                2 => bytes.insert(at, byte),
                _ => drop(bytes.splice(at..at, token.bytes())),
            }
            if bytes.is_empty() {
                break;
            }
        }
        bytes
    })
}

fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        any::<String>(),
        "[ -~\n]{0,24}",
        "[-+.0-9eExXobTZ:_ ]{1,12}",
        "(?i)(y|n|yes|no|on|off|true|false|null|~|<<|=|[.]inf|nan)",
        "[a-z]+[:#-]{0,2} ?[a-z#]*",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(text.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_everything(&bytes);
    }

    #[test]
    fn mutated_files_never_panic(bytes in mutated()) {
        read_everything(&bytes);
    }

    #[test]
    fn what_is_written_reads_back_the_same(value in any_json()) {
        let text = write::to_string(&value).expect("has a JSON form");
        let read = json(text.as_bytes());
        prop_assert!(read.as_ref().is_some_and(|read| same(read, &value)), "{text}\n{read:?}");
        // our own reader agrees, so nothing is left unquoted that it would not take
        let strict: Value = strict::from_str(&text).expect("is taken by the strict reader");
        prop_assert!(same(&strict, &value), "{text}");
    }
}

fn problem(bytes: &[u8]) -> Problem {
    let begin = Instant::now();
    let problem = *go::parse(bytes).expect_err("is refused").problem;
    // Far above what it takes, far below what the bomb would.
    assert!(begin.elapsed() < Duration::from_secs(20));
    problem
}

#[test]
fn bombs_are_refused() {
    use std::fmt::Write as _;
    let mut laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (previous, name) in ('a'..='y').zip('b'..) {
        let aliases = vec![format!("*{previous}"); 9].join(",");
        let _ = writeln!(laughs, "{name}: &{name} [{aliases}]");
    }
    assert_eq!(problem(laughs.as_bytes()), Problem::TooMuchExpansion);

    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), "*a,".repeat(1000));
    assert_eq!(problem(long.as_bytes()), Problem::TooMuchExpansion);

    let mut nested = "&a [".repeat(100) + &"x,".repeat(500_000);
    nested += &"]".repeat(100);
    assert_eq!(problem(nested.as_bytes()), Problem::TooMuchExpansion);

    let depth = Limits::default().depth;
    for open in ["[", "{a: ", "- ", "? ", "[{a: "] {
        let deep = problem(open.repeat(100_000).as_bytes());
        // "? ? x" has a map as a key, refused before it is deep
        let fine = matches!(deep, Problem::TooDeep(n) if n == depth) || deep == Problem::Key;
        assert!(fine, "{open}: {deep:?}");
    }
    let mut ladder = "a0: &a0 [x]\n".to_owned();
    for n in 1..=depth {
        let _ = writeln!(ladder, "a{n}: &a{n} [*a{}]", n - 1);
    }
    assert_eq!(problem(ladder.as_bytes()), Problem::TooDeep(depth));

    let limits = Limits {
        nodes: 1000,
        ..Limits::default()
    };
    let many = Document::read(b"[1,2,3,4]\n", &limits);
    assert!(many.is_ok());
    let list = format!("[{}]", "1,".repeat(2000));
    let many = Document::read(list.as_bytes(), &limits).expect_err("is refused");
    assert_eq!(*many.problem, Problem::TooManyNodes(1000));
}

#[test]
fn what_ends_a_line_for_some_readers_only_is_refused() {
    for text in [
        "a: 1 # comment\u{85}b: 2\n",
        "a: 1 # comment\u{2028}b: 2\n",
        "a: x\u{2029}y\n",
        "a: |\n  x\u{2028}b: 2\n",
        "a: \"\u{1}\"\n",
        "%YAML 1.2\n---\na: yes\n",
    ] {
        assert!(go::parse(text.as_bytes()).is_err(), "{text:?}");
        assert!(strict::from_str::<Value>(text).is_err(), "{text:?}");
    }
    assert!(go::parse("a: \"x\u{2028}y\" # é\n".as_bytes()).is_ok());
}

/// An index of a megabyte, through everything from sources to checked versions.
#[test]
fn a_large_index_reads_and_is_written() {
    let mut text = String::new();
    for n in 0..400 {
        text += "---\nkind: PackageSource\nmetadata:\n  name: p";
        text += &format!(
            "{}\nspec:\n  version: 1.0.{n}\n  provides: [a, b, c]\n",
            n % 40
        );
        text += "  variants:\n";
        for variant in 0..8 {
            text += &format!(
                "  - name: v{variant}\n    requires:\n    - {{package: p1, version: '>=1 <2'}}\n    \
                 components:\n    - name: c\n      chart:\n        repository: https://charts.example.org\n        \
                 name: chart\n        version: 1.2.3\n        digest: sha256:{}\n",
                "ab".repeat(32)
            );
        }
    }
    let draft = collect(read_file("large.yaml", &text).expect("reads")).expect("is sound");
    let time = "2026-11-30T12:00:00Z".parse().expect("a time");
    let index = draft.to_yaml(time, None).expect("is pinned");
    assert!(index.len() > 1_000_000);
    let read = Index::read(&index).expect("reads");
    assert_eq!(read.packages.len(), 40);
    let specs = read.packages.values().flat_map(|package| &package.versions);
    assert!(
        specs
            .into_iter()
            .all(|v| v.digest == PackageSourceSpec::digest(v.spec()))
    );
}
