//! Everything in `samples/` is read here: what is shown to people has to hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use kubepkg_core::Digest;
use kubepkg_core::api::{Chart, PackageSource};
use kubepkg_core::chart::{self, Metadata, oci_form};
use kubepkg_core::index::build::{collect, read_file};
use kubepkg_core::reference::Reference;
use kubepkg_core::yaml::strict;

/// Where the packages of the samples say their charts are.
const CHARTS_URL: &str = "https://packages.example.com/charts";

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")
}

/// All files below `folder`, by their path in it.
fn files(folder: &Path) -> BTreeSet<String> {
    let below = |path: &Path| {
        path.strip_prefix(folder)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    walk(folder).iter().map(|path| below(path)).collect()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(walk(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// A package as `repo index` reads it, once its images are pinned.
fn package(file: &str) -> PackageSource {
    let text = std::fs::read_to_string(samples().join(file)).unwrap();
    let [found] = <[_; 1]>::try_from(read_file(file, &text).unwrap()).unwrap();
    let mut pinned = found.clone();
    for image in &mut pinned.source.spec.images {
        let reference: Reference = image.parse().unwrap();
        *image = reference.pinned(Digest::sha256(b"packed")).to_string();
    }
    collect(vec![pinned]).unwrap();
    found.source
}

fn packages() -> Vec<PackageSource> {
    let all = files(&samples());
    let names = all.iter().filter(|file| file.starts_with("packages/"));
    names.map(|file| package(file)).collect()
}

/// Folders in `samples/charts`.
fn charts() -> BTreeSet<String> {
    let all = files(&samples().join("charts"));
    let names = all.iter().map(|file| file.split('/').next().unwrap());
    names.map(str::to_owned).collect()
}

/// A chart's folder as the archive of the chart.
fn packed(name: &str) -> Vec<u8> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(encoder);
    for file in files(&samples().join("charts").join(name)) {
        let inside = format!("{name}/{file}");
        let place = samples().join("charts").join(&inside);
        archive.append_path_with_name(place, inside).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn metadata(name: &str) -> Metadata {
    chart::read(&packed(name)).unwrap()
}

fn values(name: &str) -> BTreeMap<String, serde_json::Value> {
    let path = samples().join("charts").join(name).join("values.yaml");
    strict::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn pinned_charts(package: &PackageSource) -> Vec<&Chart> {
    let components = package.spec.variants.iter().flat_map(|v| &v.components);
    components.filter_map(|c| c.chart.as_ref()).collect()
}

#[test]
fn no_file_is_unread() {
    for file in files(&samples()) {
        let parts: Vec<&str> = file.split('/').collect();
        let read = match parts.as_slice() {
            ["quickstart" | "installed.yaml"] | ["internet", "Cargo.toml"] => true,
            // in `service`
            ["mirror.yaml" | "mirror-access.yaml" | "kubepkg-mirror.service"] => true,
            ["kubernetes", "mirror.yaml" | "import.yaml"] => true,
            ["trust", "trust.yaml"] => true,
            // `monitoring.rs` here, and Prometheus itself in `tests/e2e/monitoring`
            [
                "monitoring",
                "prometheus.yml" | "alerts.yaml" | "alerts.test.yaml",
            ] => true,
            ["monitoring", "dashboard.json"] => true,
            ["trust", key] => named_in("trust/trust.yaml", key),
            ["packages", name] => name.ends_with(".yaml"),
            ["charts", _, "Chart.yaml" | "values.yaml"] => true,
            ["charts", _, "templates", name] => name.ends_with(".yaml") || *name == "NOTES.txt",
            // what cargo does not find its way to is not compiled
            ["internet", "src", inner @ ..] => compiled(inner),
            _ => false,
        };
        assert!(read, "samples/{file} is read by no test");
    }
}

fn named_in(file: &str, name: &str) -> bool {
    let text = std::fs::read_to_string(samples().join(file)).unwrap();
    text.contains(name)
}

#[test]
fn the_trust_file_is_one() {
    let scratch = crate::command::Scratch::new();
    let file = samples().join("trust/trust.yaml");
    let call = ["trust", "show", file.to_str().unwrap(), "-o", "json"];
    let shown = scratch.run(&call).ok().json();
    let entries = shown["entries"].as_array().unwrap();
    assert_eq!(entries[0]["id"], "main");
    assert_eq!(entries[0]["root"]["threshold"], 2);
    assert_eq!(entries[1]["keys"]["threshold"], 1);
}

#[test]
fn the_list_of_installed_packages_is_one() {
    let text = std::fs::read_to_string(samples().join("installed.yaml")).unwrap();
    let file = kubepkg_core::plan::installed::read(&text).unwrap();
    assert_eq!(file.state.packages.len(), 2);
    assert_eq!(file.sources.len(), 1);
}

/// Whether a source of `samples/internet/src` is a binary or a module of one.
fn compiled(path: &[&str]) -> bool {
    let text = |file: &str| std::fs::read_to_string(samples().join("internet").join(file)).unwrap();
    match path {
        [file] => {
            let module = file.trim_end_matches(".rs");
            *file == "main.rs" || text("src/main.rs").contains(&format!("\nmod {module};\n"))
        }
        ["bin", file] => text("Cargo.toml").contains(&format!("path = \"src/bin/{file}\"\n")),
        _ => false,
    }
}

#[test]
fn packages_read_as_repo_index_reads_them() {
    let packages = packages();
    let names: Vec<&str> = packages.iter().map(|p| p.metadata.name.as_str()).collect();
    assert_eq!(names, ["kubepkg-mirror", "web"]);
    for package in &packages {
        let path = format!("packages/{}.yaml", package.metadata.name);
        let text = std::fs::read_to_string(samples().join(path)).unwrap();
        assert!(text.starts_with("# Part of samples/quickstart"), "{text}");
        for image in &package.spec.images {
            let pinned = format!("#     - {image}@sha256:");
            assert!(text.contains(&pinned), "how {image} is pinned is not shown");
        }
    }
}

#[test]
fn charts_are_those_the_packages_name() {
    let mut named = BTreeSet::new();
    for package in packages() {
        for chart in pinned_charts(&package) {
            assert_eq!(chart.repository, CHARTS_URL);
            let there = metadata(&chart.name);
            assert_eq!((&there.name, &there.version), (&chart.name, &chart.version));
            named.insert(chart.name.clone());
            // the image the chart runs is the one the package carries
            let image = values(&chart.name)["image"].as_str().unwrap().to_owned();
            assert!(package.spec.images.contains(&image), "{image}");
        }
    }
    assert_eq!(charts(), named);
}

#[test]
fn charts_can_be_carried() {
    for name in charts() {
        let form = oci_form(&packed(&name)).unwrap();
        assert_eq!(form.metadata.name, name);
        assert_eq!(form.metadata.api_version, "v2");
    }
}

/// Every value a template uses has a default, and every default is used.
#[test]
fn templates_and_values_fit_together() {
    for name in charts() {
        let folder = samples().join("charts").join(&name);
        let mut used = BTreeSet::new();
        for path in walk(&folder.join("templates")) {
            let text = std::fs::read_to_string(&path).unwrap();
            for rest in text.split(".Values.").skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
                used.insert(rest[..end.unwrap_or(rest.len())].to_owned());
            }
            let counts = [text.matches("{{").count(), text.matches("}}").count()];
            assert_eq!(counts[0], counts[1], "{}", path.display());
        }
        let given: BTreeSet<String> = values(&name).into_keys().collect();
        assert_eq!(used, given, "{name}");
    }
}

#[test]
fn the_quickstart_is_a_script() {
    let script = samples().join("quickstart");
    let checked = Command::new("bash").arg("-n").arg(&script).output();
    let checked = checked.unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.is_empty(), "{said}");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = script.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "it can be started");
}
