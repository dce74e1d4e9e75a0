//! `docs/json.md` names every member of the answers.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::publisher::Publisher;
use crate::served::Mirror;

/// Objects of other descriptions, and counts whose members are kinds of content.
const ELSEWHERE: &[&str] = &["head", "counts"];

fn members(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                into.insert(name.clone());
                if !ELSEWHERE.contains(&name.as_str()) {
                    members(value, into);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| members(value, into)),
        _ => {}
    }
}

fn section(verb: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let heading = format!("\n## {verb}\n");
    let (_, rest) = page.split_once(&heading).unwrap();
    rest.split("\n## ").next().unwrap().to_owned()
}

#[test]
fn the_page_names_every_member_of_an_answer() {
    let (publisher, _) = Publisher::of_web();
    let repo = publisher.repo();
    let scratch = &publisher.scratch;
    let key = ["--public-key", "release.pub"];
    publisher.create(&["web"]).ok();
    scratch
        .run(&[&["repo", "add", "main", &repo][..], &key].concat())
        .ok();
    scratch.run(&["repo", "keygen", "ann"]).ok();
    let new = ["trust", "root", "new", "--root-key", "ann.pub"];
    scratch
        .run(&[&new[..], &["--index-key", "ann.pub", "-o", "r.yaml"]].concat())
        .ok();
    let host = publisher.upstream.host().replace(':', "_");
    let reference = format!("{host}/web:1.0");
    let wanted = [("mirror stat", &[reference.as_str(), "--store", "m"][..])];
    scratch.write(
        "pod.yaml",
        "kind: Pod\nspec: {containers: [{image: a}]}\n---\n{image: b}\n",
    );
    let registry = Mirror::start_with(scratch, "r", &["--anonymous-push", "--new-store"]);
    let pushed = format!("{}/team/web:1", registry.host);
    scratch.write("tree/file", "x");
    let answers: [(&str, &[&str]); 21] = [
        ("push", &["tree", &pushed]),
        ("images", &["pod.yaml"]),
        ("version", &[]),
        ("repo list", &[]),
        ("repo show", &["main"]),
        ("repo verify", &["main"]),
        ("search", &["web"]),
        ("trust show", &[]),
        ("trust show", &["r.yaml"]),
        ("bundle inspect", &["site.tar"]),
        (
            "bundle verify",
            &["site.tar", "--public-key", "release.pub"],
        ),
        (
            "bundle import",
            &["site.tar", "--store", "m", "--public-key", "release.pub"],
        ),
        ("trust show", &["--store", "m"]),
        ("mirror list", &["--store", "m"]),
        ("mirror stat", &["--store", "m"]),
        ("mirror check", &["--store", "m"]),
        ("mirror gc", &["--store", "m"]),
        ("mirror wanted", &["--store", "m"]),
        ("mirror user may", &["anyone", "web", "--store", "m"]),
        ("mirror backup", &["copy", "--store", "m"]),
        (
            "mirror prune",
            &["--store", "m", "--keep-imports", "1", "--dry-run"],
        ),
    ];
    for (verb, more) in answers.into_iter().chain(wanted) {
        let mut call: Vec<&str> = verb.split(' ').collect();
        call.extend(more);
        call.extend(["-o", "json"]);
        let mut answer = scratch.run(&call).ok().json();
        if verb == "bundle verify" {
            // they are those of the head
            answer["packages"] = Value::Null;
        }
        let mut there = BTreeSet::new();
        members(&answer, &mut there);
        let page = section(verb);
        let lacking: Vec<&String> = there
            .iter()
            .filter(|name| !page.contains(&format!("`{name}`")))
            .collect();
        assert!(lacking.is_empty(), "{verb} {more:?}: {lacking:?}");
    }
}
