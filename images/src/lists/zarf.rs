//! Zarf's definition of a package: the images and charts of its components.
//!
//! `zarf.yaml` as people write it may import components and hold templates. What those bring is
//! not in the file, so both are refused: Zarf writes them out. The file within a package that
//! was made has neither. All components count, the optional ones and all flavors too; which of
//! them are for one flavor is noted. An architecture becomes the platform of the images.

use kubepkg_core::yaml::{Node, Value};

use super::document::Reader;
use super::looks::{ZARF_RENDERED, brief};
use crate::walk::child;

/// Reads one document.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) {
    let version = reader.text(root, "apiVersion").unwrap_or_default();
    if !matches!(version, "" | "zarf.dev/v1alpha1" | "zarf.dev/v1beta1") {
        let what = format!("{} is not known", brief(version));
        let advice = "known of Zarf are zarf.dev/v1alpha1 and zarf.dev/v1beta1";
        return reader.fault(root, what, advice);
    }
    let architecture = reader
        .map(root, "metadata")
        .and_then(|metadata| architecture(reader, metadata));
    for component in reader.list(root, "components") {
        match component.value {
            Value::Map(_) => read_component(reader, component, architecture.as_deref()),
            _ => reader.fault(component, "a component is no map", "write a map there"),
        }
    }
}

/// The platform of an architecture. A package for several has a list of its own there.
fn architecture(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    let member = reader.member(node, "architecture")?;
    let text = reader.as_text(member, "architecture")?.trim();
    if matches!(text, "" | "multi") {
        return None;
    }
    let line = reader.line(member);
    let platform = format!("linux/{text}");
    reader
        .gather
        .is_platform(line, &platform)
        .then_some(platform)
}

fn read_component(reader: &mut Reader<'_>, component: &Node<'_>, package: Option<&str>) {
    let name = match child(component, "name").map(|node| &node.value) {
        Some(Value::Text(name)) => name.as_ref(),
        // it is for messages alone
        _ => "",
    };
    if reader.says(component, "import")
        && let Some(import) = reader.member(component, "import")
    {
        let what = format!("the component {} is imported from elsewhere", brief(name));
        reader.fault(import, what, ZARF_RENDERED);
    }
    // the older and the newer spelling
    let only = reader.map(component, "only");
    let target = reader.map(component, "target");
    let mut own = None;
    for place in [only, target].into_iter().flatten() {
        if let Some(flavor) = reader.text(place, "flavor").filter(|text| !text.is_empty()) {
            let what = format!(
                "the component {} is for the flavor {} alone, and is taken all the same",
                brief(name),
                brief(flavor)
            );
            reader.note(place, what);
        }
        own = own.or_else(|| architecture(reader, place));
    }
    if let Some(cluster) = only.and_then(|only| reader.map(only, "cluster")) {
        own = own.or_else(|| architecture(reader, cluster));
    }
    let platform = own.as_deref().or(package);
    for image in reader.list(component, "images") {
        read_image(reader, image, platform);
    }
    for chart in reader.list(component, "charts") {
        read_chart(reader, chart);
    }
    for (member, what) in [
        ("imageArchives", "the images in archives are not carried"),
        ("imageTars", "the images in archives are not carried"),
        ("repos", "repositories of Git are not carried"),
        ("repositories", "repositories of Git are not carried"),
        ("files", "files are not carried from a list"),
        ("dataInjections", "data to inject is not carried"),
        (
            "manifests",
            "manifests are not carried, nor are their images looked up",
        ),
    ] {
        if reader.says(component, member)
            && let Some(node) = reader.member(component, member)
        {
            reader.note(node, what);
        }
    }
}

/// A reference, or since v1beta1 a map with its name.
fn read_image(reader: &mut Reader<'_>, image: &Node<'_>, platform: Option<&str>) {
    let line = reader.line(image);
    let text = match &image.value {
        Value::Map(_) => {
            let source = reader.text(image, "source").unwrap_or_default();
            let name = reader.text(image, "name").unwrap_or_default();
            if !matches!(source, "" | "registry") {
                let what = format!("{} is taken from a {}", brief(name), brief(source));
                let advice = "push it to a registry and name it there";
                return reader.fault(image, what, advice);
            }
            Some(name)
        }
        _ => reader.as_text(image, "an image"),
    };
    if let Some(text) = text {
        reader.gather.image(line, text, platform);
    }
}

fn read_chart(reader: &mut Reader<'_>, chart: &Node<'_>) {
    let line = reader.line(chart);
    let name = reader.text(chart, "name").unwrap_or_default();
    if reader.says(chart, "localPath") || reader.says(chart, "local") {
        let what = format!(
            "the chart {} lies in a folder, and is not carried",
            brief(name)
        );
        return reader.note(chart, what);
    }
    if reader.says(chart, "gitPath") || reader.says(chart, "git") {
        let what = format!("the chart {} lies in Git, and is not carried", brief(name));
        return reader.note(chart, what);
    }
    // since v1beta1 there is a map for each kind of place
    let helm = reader.map(chart, "helmRepository");
    let oci = reader.map(chart, "oci");
    let place = helm.or(oci).unwrap_or(chart);
    let version = match reader.member(place, "version") {
        None => None,
        Some(version) => match reader.as_text(version, "version") {
            Some(text) => Some(text),
            None => return,
        },
    };
    let Some(url) = reader.text(place, "url").map(str::trim) else {
        let what = format!("the chart {} has neither url nor localPath", brief(name));
        return reader.fault(chart, what, "name the repository of the chart as url");
    };
    let url = url.trim_end_matches('/');
    if let Some(whole) = url.strip_prefix("oci://") {
        // here the address is the chart's, and its name is Zarf's own
        match whole.rsplit_once('/') {
            Some((parent, last)) => {
                let parent = format!("oci://{parent}");
                reader.gather.chart(line, &parent, last, version);
            }
            None => reader.gather.chart(line, url, name, version),
        }
        return;
    }
    let git = url
        .split('@')
        .next()
        .is_some_and(|url| url.ends_with(".git"));
    if git || url.ends_with(".git") {
        let what = format!("the chart {} lies in Git, and is not carried", brief(name));
        return reader.note(chart, what);
    }
    let known_as = if helm.is_some() { "name" } else { "repoName" };
    let there = reader.text(place, known_as).filter(|text| !text.is_empty());
    reader
        .gather
        .chart(line, url, there.unwrap_or(name), version);
}
