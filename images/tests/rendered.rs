//! What is found in real charts, as Helm rendered them.
#![expect(clippy::unwrap_used, reason = "what cannot be read is a failed test")]

use std::path::Path;

use kubepkg_images::{How, Rules, walk};

fn file(name: &str) -> String {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/charts");
    std::fs::read_to_string(charts.join(name)).unwrap()
}

#[track_caller]
fn holds(chart: &str) {
    let text = file(&format!("rendered/{chart}.yaml"));
    let findings = walk(chart, &text, &Rules::built_in());
    assert!(findings.unread.is_empty(), "{:?}", findings.unread);
    let possible: Vec<_> = findings
        .sightings
        .iter()
        .filter(|seen| seen.how == How::Possible)
        .collect();
    assert!(possible.is_empty(), "{possible:?}");
    let found = findings.sightings.iter();
    let mut found: Vec<String> = found
        .map(|seen| format!("{} {}", seen.how, seen.image))
        .collect();
    found.sort();
    found.dedup();
    let expected = file(&format!("expected/{chart}.images"));
    assert_eq!(found, expected.lines().collect::<Vec<_>>());
}

#[test]
fn cert_manager() {
    holds("cert-manager-v1.21.2");
}

#[test]
fn prometheus_and_the_charts_in_it() {
    holds("prometheus-29.27.0");
}
