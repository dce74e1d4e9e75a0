//! The stream reader and the general reader are one: whatever the first takes or refuses, the
//! second does, and finds the same.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::api::PackageSourceSpec;

/// Reads both ways. Gives whether the stream reader had an answer.
fn same(text: &[u8]) -> bool {
    let whole = Index::read_whole(text);
    let stream = match read(&Bytes::copy_from_slice(text)) {
        Ok(None) => return false,
        Ok(Some(index)) => Ok(index),
        Err(error) => Err(error),
    };
    let shown = String::from_utf8_lossy(text);
    match (stream, whole) {
        (Ok(stream), Ok(whole)) => {
            assert_eq!(stream, whole, "{shown}");
            for (package, other) in stream.packages.values().zip(whole.packages.values()) {
                for (version, other) in package.versions.iter().zip(&other.versions) {
                    assert_eq!(version.spec(), other.spec(), "{shown}");
                    assert_eq!(version.spec().digest(), version.digest, "{shown}");
                }
            }
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => panic!("only the general reader refuses: {error}\n{shown}"),
        (Err(error), Ok(_)) => panic!("only the stream reader refuses: {error}\n{shown}"),
    }
    true
}

fn lines(text: &'static str) -> impl Iterator<Item = Json> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
}

fn indented(text: &str, by: &str) -> String {
    let lines = text.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("{by}{line}\n"),
    });
    lines.collect()
}

/// Every recorded spec in an index, as it was written.
fn wrapped() -> Vec<String> {
    let mut texts = Vec::new();
    for case in lines(include_str!("../../../tests/interop/digests.jsonl")) {
        let Some(yaml) = case["yaml"].as_str() else {
            continue;
        };
        let digest = case["digest"].as_str().unwrap_or("sha256:00");
        // Entry and spec must agree, so a version with the right one and any other.
        for version in ["1.0.0", "1.2.3"] {
            texts.push(format!(
                "apiVersion: kubepkg.dev/v1alpha1\nkind: RepositoryIndex\npackages:\n  app:\n    \
                 versions:\n    - digest: {digest}\n      spec:\n{}      version: {version}\n",
                indented(yaml, "        ")
            ));
        }
    }
    texts
}

fn indexes() -> Vec<String> {
    let cases = lines(include_str!("../../../tests/interop/index.jsonl"));
    let mut texts: Vec<String> = cases
        .map(|case| case["index"].as_str().expect("a text").to_owned())
        .collect();
    texts.push(include_str!("../../../tests/data/index.yaml").to_owned());
    texts.push(written());
    texts
}

/// An index with every kind of scalar and nesting a tool writes.
fn written() -> String {
    let specs = [
        r#"{"version":"1.0.0","provides":["plain words that go on","it's","a: b"," x","on","1.10","- a",
            "two\nlines\n","\u00e9\u2028\ttab\"\\"],"images":["r.example.org/a:1@sha256:00"]}"#,
        r#"{"version":"1.0.1","build":7,"permissions":{"rules":[{"verbs":[]},{"verbs":null}]},
            "variants":[{"name":"d","requires":[{"package":"b","version":">=1 <2 || ^3"}],
            "components":[{"name":"c","chart":{"repository":"oci://h/c","name":"c","version":"1.20"}}]}]}"#,
        r#"{"version":"1.0.2","rollback":{"safe":true},"conflicts":["a text of several lines\n\n  indented\nend"]}"#,
    ];
    let versions = specs.map(|json| {
        let spec: PackageSourceSpec = serde_json::from_str(json).expect("a spec");
        serde_json::json!({
            "version": spec.version,
            "build": spec.build,
            "digest": spec.digest(),
            "signatures": [{"keyid": "a", "sig": "AAAA=="}],
            "withdrawn": {"since": "2026-11-30T12:00:00Z", "reason": "it broke: badly"},
            "approvals": [{"keyid": "b", "sig": "BBBB", "time": "2026-11-30T12:00:00Z"}],
            "spec": spec,
        })
    });
    let index = serde_json::json!({
        "kind": "RepositoryIndex",
        "generated": "2026-11-30T12:00:00Z",
        "repository": "https://example.org/index.yaml",
        "packages": {
            "app": {"description": "größe", "versions": versions},
            "none": {"versions": []},
            "web": {"versions": versions},
        },
    });
    crate::yaml::write::to_string(&index).expect("is written")
}

#[test]
fn what_tools_write_is_read_as_a_stream() {
    assert!(same(written().as_bytes()));
    assert!(same(include_bytes!("../../../tests/data/index.yaml")));
}

#[test]
fn long_texts_that_go_folds_are_read_as_a_stream() {
    let spec = PackageSourceSpec {
        version: "1.0.0".to_owned(),
        provides: vec![
            "plain words".to_owned(),
            "it's quoted: so".to_owned(),
            "with \" and  two".to_owned(),
        ],
        ..PackageSourceSpec::default()
    };
    let text = format!(
        "kind: RepositoryIndex\npackages:\n  app:\n    description: one two\n      three\n    versions:\n    \
         - digest: {}\n      spec:\n        provides:\n        - plain\n          words\n        - 'it''s\n          \
         quoted: so'\n        - \"with \\\" and\n          \\ two\"\n        version: 1.0.0\n      version: 1.0.0\n",
        spec.digest()
    );
    assert!(same(text.as_bytes()));
    let index = Index::read(text.as_bytes()).unwrap();
    assert_eq!(index.packages["app"].description, "one two three");
}

#[test]
fn recorded_specs_and_indexes_read_the_same_both_ways() {
    let texts = || wrapped().into_iter().chain(indexes());
    let answered = texts().filter(|text| same(text.as_bytes())).count();
    // Most are in flow style or have a corner of YAML in them; the rest must be tried.
    assert!(answered >= 50, "{answered} of {}", texts().count());
}

#[test]
fn line_ends_marks_and_markers_change_nothing() {
    for text in indexes().into_iter().chain(wrapped()) {
        same(text.replace('\n', "\r\n").as_bytes());
        same(format!("\u{FEFF}{text}").as_bytes());
        same(format!("---\n{text}...\n").as_bytes());
        same(format!("{text}---\nkind: x\n").as_bytes());
        same(format!("# first\n\n{text}  # last\n\n").as_bytes());
        same(text.trim_end().as_bytes());
        same(text.replace(": ", ":\t").as_bytes());
        same(text.replace("  ", " ").as_bytes());
        same(text.replace('\n', "\n\n").as_bytes());
        same(text.replace('\n', "\n    # so\n").as_bytes());
        same(text.replace('\n', " # so\n").as_bytes());
        same(text.replace('"', "'").as_bytes());
        same(text.replace('\'', "\"").as_bytes());
        same(text.replace("versions", "Versions").as_bytes());
        same(text.replace("spec:", "spec: &a").as_bytes());
    }
}

fn edited() -> impl Strategy<Value = Vec<u8>> {
    let texts: Vec<String> = indexes().into_iter().chain(wrapped()).collect();
    let tokens = &[
        "\n",
        "\n\n",
        " ",
        "  ",
        "\n  ",
        "\n        ",
        "- ",
        "-",
        ": ",
        ":",
        "#",
        " #",
        "'",
        "\"",
        "\\",
        "|\n",
        "|-\n",
        ">",
        "{}",
        "[]",
        "[",
        "}",
        "&a ",
        "*a",
        "!!str ",
        "<<: ",
        "? ",
        "---\n",
        "...\n",
        "\t",
        "\r\n",
        "~",
        "null",
        "yes",
        "0x1F",
        "1_000",
        "é",
        "\u{2028}",
        "\u{FEFF}",
        "\u{85}",
        "%",
        "@",
        "`",
        ",",
    ];
    let edits = prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            prop::sample::select(&tokens[..]),
            0..6_u8,
        ),
        1..5,
    );
    (prop::sample::select(texts), edits).prop_map(|(text, edits)| {
        let mut bytes = text.into_bytes();
        for (place, token, how) in edits {
            let at = place.index(bytes.len() + 1);
            let rest = bytes.len() - at;
            match how {
                0 => drop(bytes.splice(at..at, token.bytes())),
                1 => drop(bytes.splice(at..at + token.len().min(rest), token.bytes())),
                2 => drop(bytes.drain(at..at + rest.min(1))),
                3 => {
                    if let Some(b) = bytes.get_mut(at) {
                        *b ^= 1 << (token.len() % 8);
                    }
                }
                // A line goes, or comes again.
                _ => {
                    let begin = bytes[..at]
                        .iter()
                        .rposition(|b| *b == b'\n')
                        .map_or(0, |n| n + 1);
                    let end = bytes[at..].iter().position(|b| *b == b'\n');
                    let end = end.map_or(bytes.len(), |n| at + n + 1);
                    let line = bytes[begin..end].to_vec();
                    if how == 4 {
                        bytes.drain(begin..end);
                    } else {
                        bytes.splice(begin..begin, line);
                    }
                }
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn edits_read_the_same_both_ways(text in edited()) {
        same(&text);
    }
}
