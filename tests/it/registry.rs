//! The page on what the registry answers names tests that are there.

use std::path::Path;

#[test]
fn every_promise_of_the_registry_names_a_test_that_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/registry.md")).unwrap();
    let mut promises = 0;
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [promise, test] = cells[..] else {
            panic!("no promise and test: {line}");
        };
        if promise == "Promise" {
            continue;
        }
        let (file, name) = test.split_once(' ').unwrap();
        let file = match file.split_once('/').unwrap() {
            ("src", rest) => format!("mirror/src/{rest}"),
            (target, rest) => format!("mirror/tests/{target}/{rest}"),
        };
        let source = std::fs::read_to_string(root.join(&file)).expect(&file);
        assert!(
            source.contains(&format!("fn {name}(")),
            "{file} has no test {name}"
        );
        promises += 1;
    }
    assert!(promises > 30, "{promises}");
}
