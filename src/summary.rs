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
    if !urls.is_empty() {
        parts.push(table(&["REPOSITORY", "FILES"], &urls));
        parts.push(packages(head));
    }
    parts.push(content(head));
    parts.push(counts(head));
    parts.extend(platforms(head));
    parts.extend(without_images(head));
    parts.extend(
        head.holes
            .iter()
            .map(|hole| format!("missing: {} of {}: {}", hole.kind, hole.of, hole.why)),
    );
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// Packages where there are some, else the rest.
pub fn short(head: &Head) -> String {
    match head.packages.is_empty() {
        true => content(head),
        false => packages(head),
    }
}

/// Charts, trees, images and files.
pub fn content(head: &Head) -> String {
    let charts = head.charts.iter().map(|chart| {
        vec![
            chart.name.clone(),
            chart.version.clone(),
            chart.repository.to_string(),
            names(&chart.packages),
        ]
    });
    let trees = head.trees.iter();
    let trees = trees.map(|tree| vec![tree.reference.to_string(), names(&tree.packages)]);
    let images = head.images.iter().filter(|image| image.file.is_none());
    let files = head.images.iter().filter_map(|image| image.file.as_ref());
    let files = files.map(|name| vec![name.to_string(), format!("/files/{}", name.escaped())]);
    let parts = [
        rows(&["CHART", "VERSION", "FROM", "PACKAGES"], charts),
        rows(&["TREE", "PACKAGES"], trees),
        rows(
            &["IMAGE", "PLATFORMS", "PINNED BY", "PACKAGES"],
            images.map(image),
        ),
        rows(&["FILE", "IN A MIRROR"], files),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("\n\n")
}

fn rows(titles: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Option<String> {
    let rows: Vec<Vec<String>> = rows.collect();
    (!rows.is_empty()).then(|| table(titles, &rows))
}

fn platforms(head: &Head) -> Option<String> {
    let named: Vec<String> = head.platforms.iter().map(ToString::to_string).collect();
    (!named.is_empty()).then(|| format!("made for {} only", named.join(", ")))
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
    let files = head.images.iter().filter(|image| image.file.is_some());
    let files = files.count();
    let images = head.images.len() - files;
    let mut parts = vec![
        count(head.packages.len(), "package", "packages"),
        count(head.charts.len(), "chart", "charts"),
        count(head.trees.len(), "package tree", "package trees"),
        count(images, "image", "images"),
        count(
            head.referrers.len(),
            "signature or other referrer",
            "signatures and other referrers",
        ),
        count(head.blobs.len(), "blob", "blobs"),
    ];
    if files > 0 {
        parts.push(count(files, "file", "files"));
    }
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
    match names.is_empty() {
        true => "-".to_owned(),
        false => names.join(","),
    }
}
