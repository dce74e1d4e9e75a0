//! `select.jsonl`: which version of a package is chosen out of which repository.

use kubepkg_core::select::Catalog;
use kubepkg_core::version::Constraint;
use serde_json::{Value, json};

use crate::resolve::sources;
use crate::vectors::{lines, text, texts};

fn selected(case: &Value) -> Result<Value, String> {
    let constraint =
        Constraint::parse_optional(text(case, "constraint")).map_err(|e| e.to_string())?;
    let refused: Vec<String> = texts(case, "refused")
        .into_iter()
        .map(str::to_owned)
        .collect();
    let mut catalog = Catalog::new(sources(case)).admitting(Box::new(move |name, listed| {
        let this = format!("{name} {} build {}", listed.version, listed.build);
        !refused.contains(&this)
    }));
    if let Some(only) = case["only"].as_str() {
        catalog = catalog.only(only);
    }
    let selection = catalog.select(text(case, "package"), constraint.as_ref());
    Ok(selection.map_or(Value::Null, |selection| {
        json!({
            "repository": selection.source.name,
            "version": selection.listed.version,
            "build": selection.listed.build,
        })
    }))
}

#[test]
fn versions_are_selected_as_a_cluster_selects_them() {
    let cases = lines("select.jsonl");
    for case in &cases {
        let name = text(case, "name");
        match selected(case) {
            Ok(found) => assert_eq!(found, case["selected"], "{name}"),
            Err(error) => assert!(case["error"].is_string(), "{name}: {error}"),
        }
    }
    assert_eq!(cases.len(), 17);
}
