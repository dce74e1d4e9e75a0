//! The answer for people, and the block for packages.

use kubepkg_core::Reference;
use kubepkg_core::yaml::write;
use kubepkg_images::{Entry, PossibleEntry, Report};
use serde_json::json;

use crate::printer::table;
use crate::units::count;

/// The tables, the surest first.
pub fn text(report: &Report) -> String {
    let mut parts = Vec::new();
    if !report.images.is_empty() {
        let rows: Vec<Vec<String>> = report.images.iter().map(row).collect();
        parts.push(table(&["IMAGE", "HOW", "WHERE"], &rows));
    }
    if !report.possible.is_empty() {
        let rows: Vec<Vec<String>> = report.possible.iter().map(possible_row).collect();
        parts.push(table(
            &["POSSIBLE IMAGE", "NAMED BY", "INCLUDED WITH"],
            &rows,
        ));
    }
    if let Some(tries) = &report.explored {
        let mut text = format!("{} tried", count(tries.tried, "setting", "settings"));
        if !tries.failed.is_empty() {
            text.push_str(&format!(
                ", of which {} not render (-o json says why)",
                count(tries.failed.len(), "does", "do")
            ));
        }
        if tries.left_out > 0 {
            text.push_str(&format!(", {} more not tried", tries.left_out));
        }
        parts.push(text);
    }
    parts.join("\n\n")
}

fn row(entry: &Entry) -> Vec<String> {
    let first = entry.places.first().map(|found| found.place.to_string());
    let more = match entry.places.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    vec![
        entry.image.to_string(),
        entry.how.to_string(),
        first.unwrap_or_default() + &more,
    ]
}

fn possible_row(entry: &PossibleEntry) -> Vec<String> {
    let image = match entry.version_assumed {
        true => format!("{} (version assumed)", entry.image),
        false => entry.image.to_string(),
    };
    let named = match (&entry.place, entry.value.as_str()) {
        (Some(place), _) => place.to_string(),
        (None, value) => format!("value {value}"),
    };
    let include = match entry.include.as_slice() {
        [] => "-".to_owned(),
        flags => flags.join(" "),
    };
    vec![image, named, include]
}

/// The `images:` block.
pub fn block(images: &[Reference]) -> anyhow::Result<String> {
    Ok(write::to_string(&json!({ "images": images }))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_yaml_a_package_takes() {
        let images = ["quay.io/a/b:1", "nginx"].map(|text| text.parse().unwrap());
        assert_eq!(
            block(&images).unwrap(),
            "images:\n- quay.io/a/b:1\n- docker.io/library/nginx:latest\n"
        );
        assert_eq!(block(&[]).unwrap(), "images: []\n");
    }
}
