//! What a bundle holds, as shown by every verb that shows it.

use kubepkg_core::bundle::Head;
use kubepkg_core::bundle::head::{HeadImage, HeadPackage};
use kubepkg_core::digest::Digest;
use kubepkg_core::name::PackageName;

use crate::printer::table;
use crate::units::{count, size};

/// The whole summary: where the packages come from, packages, charts, trees, images, holes.
pub fn whole(head: &Head, id: &Digest, bytes: u64) -> String {
    let mut parts = vec![format!("bundle {id}, {}", size(bytes))];
    let urls: Vec<Vec<String>> = head
        .repositories
        .iter()
        .map(|repository| {
            vec![
                repository.url.to_string(),
                count(repository.files.len(), "file", "files"),
            ]
        })
        .collect();
    parts.push(table(&["REPOSITORY", "FILES"], &urls));
    parts.push(packages(head));
    if !head.charts.is_empty() {
        let rows: Vec<Vec<String>> = head
            .charts
            .iter()
            .map(|chart| {
                vec![
                    chart.name.clone(),
                    chart.version.clone(),
                    chart.repository.to_string(),
                    names(&chart.packages),
                ]
            })
            .collect();
        parts.push(table(&["CHART", "VERSION", "FROM", "PACKAGES"], &rows));
    }
    if !head.trees.is_empty() {
        let rows: Vec<Vec<String>> = head
            .trees
            .iter()
            .map(|tree| vec![tree.reference.to_string(), names(&tree.packages)])
            .collect();
        parts.push(table(&["TREE", "PACKAGES"], &rows));
    }
    if !head.images.is_empty() {
        let rows: Vec<Vec<String>> = head.images.iter().map(image).collect();
        parts.push(table(
            &["IMAGE", "PLATFORMS", "PINNED BY", "PACKAGES"],
            &rows,
        ));
    }
    parts.push(counts(head));
    parts.extend(without_images(head));
    parts.extend(
        head.holes
            .iter()
            .map(|hole| format!("missing: {} of {}: {}", hole.kind, hole.of, hole.why)),
    );
    parts.join("\n\n")
}

/// The packages as a table.
pub fn packages(head: &Head) -> String {
    let rows: Vec<Vec<String>> = head
        .packages
        .iter()
        .map(|package| {
            vec![
                package.name.to_string(),
                version(package),
                package.variants.join(","),
                package.repository.to_string(),
            ]
        })
        .collect();
    table(&["PACKAGE", "VERSION", "VARIANTS", "REPOSITORY"], &rows)
}

/// `4 packages, 2 charts, …` on one line.
pub fn counts(head: &Head) -> String {
    let mut parts = vec![
        count(head.packages.len(), "package", "packages"),
        count(head.charts.len(), "chart", "charts"),
        count(head.trees.len(), "package tree", "package trees"),
        count(head.images.len(), "image", "images"),
        count(
            head.referrers.len(),
            "signature or other referrer",
            "signatures and other referrers",
        ),
        count(head.blobs.len(), "blob", "blobs"),
    ];
    if !head.holes.is_empty() {
        parts.push(count(head.holes.len(), "hole", "holes"));
    }
    parts.join(", ")
}

fn without_images(head: &Head) -> Option<String> {
    let said: Vec<PackageName> = head
        .packages
        .iter()
        .filter(|package| package.no_images)
        .map(|package| package.name.clone())
        .collect();
    (!said.is_empty()).then(|| format!("said to have no images: {}", names(&said)))
}

/// Version and build of a package.
pub fn version(package: &HeadPackage) -> String {
    match package.build {
        0 => package.version.clone(),
        build => format!("{} build {build}", package.version),
    }
}

fn image(image: &HeadImage) -> Vec<String> {
    let shown = match (image.reference.tag(), image.untagged) {
        (Some(tag), false) => format!("{}:{tag}", image.reference.repository()),
        _ => image.reference.at(image.manifest.digest).to_string(),
    };
    let platforms: Vec<String> = image.platforms.iter().map(ToString::to_string).collect();
    vec![
        shown,
        if platforms.is_empty() {
            "-".to_owned()
        } else {
            platforms.join(",")
        },
        if image.pinned {
            "package".to_owned()
        } else {
            "bundle only".to_owned()
        },
        names(&image.packages),
    ]
}

fn names(packages: &[PackageName]) -> String {
    let names: Vec<&str> = packages.iter().map(PackageName::as_str).collect();
    names.join(",")
}
