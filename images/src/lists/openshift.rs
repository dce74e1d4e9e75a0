//! The configuration of oc-mirror: `additionalImages`, and the charts of Helm repositories.
//! Releases of OpenShift and catalogs of operators are worked out by oc-mirror itself, and noted.

use kubepkg_core::yaml::Node;

use super::document::Reader;
use super::looks::brief;

/// Reads one document.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) {
    let version = reader.text(root, "apiVersion").unwrap_or_default();
    if !matches!(
        version,
        "mirror.openshift.io/v1alpha2" | "mirror.openshift.io/v2alpha1"
    ) {
        let what = format!("{} is not known", brief(version));
        let advice = "known of oc-mirror are mirror.openshift.io/v1alpha2 and v2alpha1";
        return reader.fault(root, what, advice);
    }
    let Some(mirror) = reader.map(root, "mirror") else {
        return;
    };
    for image in reader.list(mirror, "additionalImages") {
        let line = reader.line(image);
        match reader.text(image, "name") {
            Some(name) => reader.gather.image(line, name, None),
            None if reader.member(image, "name").is_none() => {
                reader.fault(image, "the image has no name", "write name: and the image");
            }
            None => {}
        }
        if reader.says(image, "targetRepo") || reader.says(image, "targetTag") {
            reader.note(
                image,
                "the image keeps its own name, not the one of its target",
            );
        }
    }
    if let Some(helm) = reader.map(mirror, "helm") {
        for repository in reader.list(helm, "repositories") {
            read_repository(reader, repository);
        }
        for chart in reader.list(helm, "local") {
            let name = reader.text(chart, "name").unwrap_or_default();
            let what = format!(
                "the chart {} lies in a folder, and is not carried",
                brief(name)
            );
            reader.note(chart, what);
        }
    }
    for (member, what) in [
        ("platform", "releases of OpenShift are not worked out here"),
        ("operators", "catalogs of operators are not worked out here"),
        ("samples", "samples are not worked out here"),
        ("blockedImages", "blocked images are not left out"),
    ] {
        if reader.says(mirror, member)
            && let Some(node) = reader.member(mirror, member)
        {
            reader.note(node, what);
        }
    }
}

fn read_repository(reader: &mut Reader<'_>, repository: &Node<'_>) {
    let url = reader.text(repository, "url").unwrap_or_default();
    for chart in reader.list(repository, "charts") {
        let line = reader.line(chart);
        let name = reader.text(chart, "name").unwrap_or_default();
        match reader.member(chart, "version") {
            None => reader.gather.chart(line, url, name, None),
            Some(version) => {
                if let Some(version) = reader.as_text(version, "version") {
                    reader.gather.chart(line, url, name, Some(version));
                }
            }
        }
        reader.note(chart, "the images of the chart are not looked up here");
    }
}
