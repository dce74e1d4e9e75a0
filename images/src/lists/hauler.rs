//! Hauler's manifests: documents of kind `Images` and `Charts`.
//!
//! An image without a registry is Docker Hub's, or that of the registry the annotation
//! `hauler.dev/registry` of its document names; the registry then stands before the name as it
//! is, without `library/`. A platform of the image counts before the one of the annotation. Keys
//! and identities that Hauler would check signatures with are not used here, and noted.

use kubepkg_core::reference::{canonical_host, is_host};
use kubepkg_core::yaml::{Node, Value};

use super::document::Reader;
use super::looks::brief;

/// What the annotations of a document say of its images.
#[derive(Default)]
struct Annotated<'n> {
    registry: Option<&'n str>,
    platform: Option<&'n str>,
}

/// Members of an image with which Hauler checks its signature.
const SIGNATURE: [&str; 7] = [
    "key",
    "use-tlog-verify",
    "certificate-identity",
    "certificate-identity-regexp",
    "certificate-oidc-issuer",
    "certificate-oidc-issuer-regexp",
    "certificate-github-workflow-repository",
];

/// Members of an image or chart that say how to reach its server, which flags say here.
const REACHING: [&str; 9] = [
    "ca-file",
    "insecure-skip-tls-verify",
    "caFile",
    "certFile",
    "keyFile",
    "insecureSkipTLSVerify",
    "plainHTTP",
    "usernameEnv",
    "passwordEnv",
];

/// What else an image may have.
const IMAGE: [&str; 5] = ["name", "platform", "rewrite", "local", "exclude-extras"];

/// What else a chart may have.
const CHART: [&str; 12] = [
    "name",
    "repoURL",
    "version",
    "rewrite",
    "valuesFiles",
    "platform",
    "add-images",
    "add-dependencies",
    "exclude-extras",
    "verify",
    "keyring",
    "passCredentialsAll",
];

const NOT_CHECKED: &str = "the signature is not checked with the key or identity named here";
const NOTHING: &str = "the document names nothing";
const NOT_RENAMED: &str = "the name of rewrite is not taken; what is carried keeps its own";
const NOT_REACHED: &str = "how to reach the server is not taken from the list";

/// Reads one document.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node<'_>) {
    let version = reader.text(root, "apiVersion").unwrap_or_default();
    if !matches!(
        version,
        "content.hauler.cattle.io/v1" | "content.hauler.cattle.io/v1alpha1"
    ) {
        let what = format!("{} is not known", brief(version));
        let advice = "known of Hauler are content.hauler.cattle.io/v1 and v1alpha1";
        return reader.fault(root, what, advice);
    }
    let kind = reader.text(root, "kind").unwrap_or_default();
    let spec = reader.map(root, "spec");
    match (kind, spec) {
        ("Images", Some(spec)) => {
            let annotated = annotations(reader, root);
            for image in listed(reader, spec, "images") {
                read_image(reader, image, &annotated);
            }
        }
        ("Charts", Some(spec)) => {
            for chart in listed(reader, spec, "charts") {
                read_chart(reader, chart);
            }
        }
        ("Files", Some(spec)) => {
            for file in listed(reader, spec, "files") {
                let path = reader.text(file, "path").unwrap_or_default();
                let what = format!("the file {} is not carried from a list", brief(path));
                let advice = "fetch files first, give each with --file PATH=NAME, and take the \
                              document of kind Files out of the list";
                reader.fault(file, what, advice);
            }
        }
        ("Images" | "Charts" | "Files", None) => {
            reader.note(root, NOTHING);
        }
        ("ImageTxts", _) => {
            let advice = "fetch the lists it names and give each with --images-from";
            reader.fault(
                root,
                "kind ImageTxts names lists that lie elsewhere",
                advice,
            );
        }
        (kind, _) => {
            let what = format!("Hauler's kind {} is not known", brief(kind));
            reader.fault(
                root,
                what,
                "known of Hauler are the kinds Images and Charts",
            );
        }
    }
}

/// What a spec lists. A document that lists nothing may have a slip of the pen in the name.
fn listed<'n, 'a>(reader: &mut Reader<'_>, spec: &'n Node<'a>, name: &str) -> &'n [Node<'a>] {
    reader.unknown(spec, &[&[name]]);
    let items = reader.list(spec, name);
    if items.is_empty() {
        reader.note(spec, NOTHING);
    }
    items
}

fn annotations<'n>(reader: &mut Reader<'_>, root: &'n Node<'_>) -> Annotated<'n> {
    let mut found = Annotated::default();
    let annotations = reader
        .map(root, "metadata")
        .and_then(|metadata| reader.map(metadata, "annotations"));
    let Some(Value::Map(entries)) = annotations.map(|node| &node.value) else {
        return found;
    };
    for (key, value) in entries {
        let Some(name) = key.strip_prefix("hauler.dev/") else {
            continue;
        };
        // what is empty says nothing for Hauler
        let empty = match &value.value {
            Value::Text(text) => text.trim().is_empty(),
            other => *other == Value::Null,
        };
        match name {
            _ if empty => {}
            "registry" => found.registry = registry(reader, value),
            "platform" => {
                let line = reader.line(value);
                let text = reader.as_text(value, "a platform").map(str::trim);
                found.platform = text.filter(|text| reader.gather.is_platform(line, text));
            }
            "rewrite" => reader.note(value, NOT_RENAMED),
            // where Hauler keeps things, how often it tries, and what it leaves out
            "store" | "retries" | "exclude-extras" => {}
            name if SIGNATURE.contains(&name) => reader.note(value, NOT_CHECKED),
            name if REACHING.contains(&name) => reader.note(value, NOT_REACHED),
            _ => reader.note(value, format!("the annotation {} is not known", brief(key))),
        }
    }
    found
}

fn registry<'n>(reader: &mut Reader<'_>, node: &'n Node<'_>) -> Option<&'n str> {
    let text = reader.as_text(node, "a registry")?.trim();
    if canonical_host(text).is_none() {
        let what = format!("{} is no registry", brief(text));
        reader.fault(node, what, "write the registry as HOST or HOST:PORT");
        return None;
    }
    Some(text)
}

fn read_image(reader: &mut Reader<'_>, image: &Node<'_>, annotated: &Annotated<'_>) {
    let Some(name) = reader.text(image, "name") else {
        if reader.member(image, "name").is_none() {
            reader.fault(image, "the image has no name", "write name: and the image");
        }
        return;
    };
    let line = reader.line(image);
    reader.unknown(image, &[&IMAGE, &SIGNATURE, &REACHING]);
    if reader.says(image, "local") {
        let what = format!("{} is taken from a Docker daemon", brief(name));
        let advice = "push it to a registry and name it there, without local: true";
        return reader.fault(image, what, advice);
    }
    let platform = match reader.text(image, "platform").map(str::trim) {
        Some("") | None => annotated.platform,
        Some(platform) if reader.gather.is_platform(line, platform) => Some(platform),
        Some(_) => return,
    };
    if SIGNATURE.iter().any(|member| reader.says(image, member)) {
        reader.note(image, NOT_CHECKED);
    }
    if REACHING.iter().any(|member| reader.says(image, member)) {
        reader.note(image, NOT_REACHED);
    }
    if reader.says(image, "rewrite") {
        reader.note(image, NOT_RENAMED);
    }
    let name = name.trim();
    let has_host = name
        .split_once('/')
        .is_some_and(|(first, _)| is_host(first));
    match annotated.registry {
        Some(registry) if !has_host && !name.is_empty() => {
            let name = format!("{registry}/{name}");
            reader.gather.image(line, &name, platform);
        }
        _ => reader.gather.image(line, name, platform),
    }
}

fn read_chart(reader: &mut Reader<'_>, chart: &Node<'_>) {
    let line = reader.line(chart);
    let Some(name) = reader.text(chart, "name") else {
        if reader.member(chart, "name").is_none() {
            reader.fault(chart, "the chart has no name", "write name: and the chart");
        }
        return;
    };
    reader.unknown(chart, &[&CHART, &REACHING]);
    let version = match reader.member(chart, "version") {
        None => None,
        Some(version) => match reader.as_text(version, "version") {
            Some(text) => Some(text),
            None => return,
        },
    };
    let repository = reader.text(chart, "repoURL").unwrap_or_default();
    if !repository.contains("://") && !name.contains("://") {
        let what = format!(
            "the chart {} lies in a folder, and is not carried",
            brief(name)
        );
        return reader.note(chart, what);
    }
    if reader.says(chart, "add-images") {
        reader.note(chart, "the images of the chart are not looked up here");
    }
    if reader.says(chart, "add-dependencies") {
        reader.note(chart, "the charts it depends on are not looked up here");
    }
    if reader.says(chart, "verify") {
        reader.note(chart, NOT_CHECKED);
    }
    if reader.says(chart, "rewrite") {
        reader.note(chart, NOT_RENAMED);
    }
    if REACHING.iter().any(|member| reader.says(chart, member)) {
        reader.note(chart, NOT_REACHED);
    }
    // the whole address in place of the name
    match name.rsplit_once('/') {
        Some((parent, last)) if repository.is_empty() && name.starts_with("oci://") => {
            reader.gather.chart(line, parent, last, version);
        }
        _ => reader.gather.chart(line, repository, name, version),
    }
}
