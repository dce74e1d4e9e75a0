//! `digests.jsonl`: a spec as YAML text, its canonical JSON and its digest.

use base64::Engine as _;
use kubepkg_core::api::PackageSourceSpec;
use kubepkg_core::yaml::Limits;
use kubepkg_core::yaml::go::Document;
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    yaml: Option<String>,
    yaml_base64: Option<String>,
    strict_ok: bool,
    canonical: Option<String>,
    digest: Option<String>,
}

impl Case {
    fn text(&self) -> Vec<u8> {
        match (&self.yaml, &self.yaml_base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(text)) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .expect("base64"),
            (None, None) => panic!("{}: no text", self.name),
        }
    }
}

fn cases() -> Vec<Case> {
    let lines = include_str!("digests.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a case a line"))
        .collect()
}

#[test]
fn specs_have_the_digests_of_the_existing_program() {
    let cases = cases();
    assert_eq!(cases.len(), 130);
    for case in cases {
        let read = Document::read(&case.text(), &Limits::default())
            .and_then(|document| document.decode::<PackageSourceSpec>(document.root()))
            .map(|decoded| decoded.value);
        match (&case.canonical, read) {
            (Some(canonical), Ok(spec)) => {
                let json = String::from_utf8(spec.canonical_json()).unwrap();
                assert_eq!(json, *canonical, "{}", case.name);
                let digest = spec.digest().to_string();
                assert_eq!(Some(digest), case.digest, "{}", case.name);
            }
            (None, Err(_)) => {}
            (Some(_), Err(error)) => panic!("{}: {error}", case.name),
            (None, Ok(spec)) => panic!("{}: read as {spec:?}", case.name),
        }
    }
}

/// "Strict" here is Go's: keys given twice and unknown members are refused.
#[test]
fn what_strict_decoding_refuses() {
    for case in cases() {
        let read = Document::read_signed(&case.text(), &Limits::default())
            .and_then(|document| document.decode::<PackageSourceSpec>(document.root()));
        let strict = read.is_ok_and(|decoded| decoded.unknown.is_empty());
        assert_eq!(strict, case.strict_ok, "{}", case.name);
    }
}
