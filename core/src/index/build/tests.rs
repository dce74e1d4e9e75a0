use super::*;
use crate::index::Index;

const DIGEST: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

fn source(name: &str, spec: &str) -> String {
    let spec = spec.trim().replace('\n', "\n  ");
    format!("kind: PackageSource\nmetadata:\n  name: {name}\nspec:\n  {spec}\n")
}

fn draft(texts: &[&str]) -> Result<Draft, BuildError> {
    let mut found = Vec::new();
    for (n, text) in texts.iter().enumerate() {
        found.extend(read_file(&format!("{n}.yaml"), text)?);
    }
    collect(found)
}

fn time(text: &str) -> Time {
    text.parse().unwrap()
}

fn refusal(name: &str, spec: &str) -> String {
    draft(&[&source(name, spec)]).unwrap_err().to_string()
}

#[test]
fn what_is_built_reads_back_with_the_same_digests() {
    let web = source(
        "web",
        "version: 1.2.0-rc.1\nvariants:\n- name: default\n  requires:\n  - {package: db, version: '>=1 <2'}\n  \
         components:\n  - name: web\n    chart: {repository: https://charts.example.org, name: web, version: \"1.20\"}",
    );
    let more = format!(
        "{}---\nkind: Recipe\nspec: {{a: &x 1, b: *x, a: 2}}\n---\n{}---\n{}",
        source("web", "version: 1.2.0\nbuild: 2"),
        source("web", "version: 1.2.0\nbuild: 10"),
        source("db", "version: v1.10.0")
    );
    let mut draft = draft(&[&web, &more]).unwrap();
    assert_eq!((draft.packages(), draft.versions()), (2, 4));

    let unpinned = draft.unpinned_charts();
    assert_eq!(unpinned.len(), 1);
    assert_eq!(unpinned[0].used_by, ["web 1.2.0-rc.1"]);
    let now = time("2026-11-30T12:00:00Z");
    assert!(matches!(
        draft.to_yaml(now, None),
        Err(BuildError::Unpinned { .. })
    ));
    let digest = DIGEST.parse().unwrap();
    assert_eq!(draft.pin(&unpinned[0].chart, &digest).unwrap(), 1);
    draft.set_repository("https://example.org/index.yaml".parse().unwrap());

    let text = draft.to_yaml(now, Some(now.plus(60))).unwrap();
    let index = Index::read(&text).unwrap();
    assert_eq!(index.generated, Some(now));
    assert_eq!(index.expires, Some(now.plus(60)));
    assert_eq!(
        index.repository.unwrap().as_str(),
        "https://example.org/index.yaml"
    );
    let versions: Vec<_> = index.packages["web"]
        .versions
        .iter()
        .map(|v| (v.version.as_str(), v.build))
        .collect();
    assert_eq!(versions, [("1.2.0", 10), ("1.2.0", 2), ("1.2.0-rc.1", 0)]);
    let chart = index.packages["web"].versions[2].spec().charts().next();
    let chart = chart.unwrap().chart;
    assert_eq!(
        (chart.version.as_str(), chart.digest.as_str()),
        ("1.20", DIGEST)
    );
}

/// The files and the index a run of the same rules in another language made of them.
#[test]
fn the_published_index_is_made_again_from_its_sources() {
    let mut found = Vec::new();
    for (file, text) in [
        (
            "app.yaml",
            include_str!("../../../tests/data/packages/app.yaml"),
        ),
        (
            "cdi.yaml",
            include_str!("../../../tests/data/packages/cdi.yaml"),
        ),
        (
            "free.yaml",
            include_str!("../../../tests/data/packages/free.yaml"),
        ),
        (
            "kubevirt-ui.yaml",
            include_str!("../../../tests/data/packages/kubevirt-ui.yaml"),
        ),
    ] {
        found.extend(read_file(file, text).unwrap());
    }
    let published = include_bytes!("../../../tests/data/index.yaml");
    let published = Index::read(published).unwrap();
    let draft = collect(found).unwrap();
    let text = draft
        .to_yaml(published.generated.unwrap(), published.expires)
        .unwrap();
    assert_eq!(Index::read(&text).unwrap(), published);
}

#[test]
fn rules() {
    let chart = "{repository: https://c.example.org, name: a, version: \"1\"}";
    let component = |text: &str| {
        format!("version: 1.0.0\nvariants: [{{name: d, components: [{{name: a, {text}}}]}}]")
    };
    for (name, spec, want) in [
        ("\"\"", "version: 1.0.0".to_owned(), "no package name"),
        ("A_b", "version: 1.0.0".to_owned(), "no package name"),
        ("a", "version: \"1.2\"".to_owned(), "exact version"),
        ("a", "version: 1.0.0\nbuild: -1".to_owned(), "0 or more"),
        ("a", component(""), "either a path or a chart"),
        (
            "a",
            component(&format!("path: x, chart: {chart}")),
            "either a path or a chart",
        ),
        ("a", component("path: x"), "pinned by digest"),
        (
            "a",
            component(&format!("chart: {chart}, valuesFiles: [x]")),
            "no libraries",
        ),
        (
            "a",
            component("chart: {repository: ftp://x, name: a, version: \"1\"}"),
            "a repository",
        ),
        (
            "a",
            component("chart: {repository: oci://h/p, name: a}"),
            "a name and a version",
        ),
        (
            "a",
            component("chart: {repository: oci://h/p, name: a, version: \"1\", digest: sha256:1}"),
            "64 hex digits",
        ),
        (
            "a",
            component(&format!("chart: {chart}, install: {{upgradeCRDs: always}}")),
            "install.upgradeCRDs is always, not one of Skip",
        ),
        (
            "a",
            "version: 1.0.0\nimages: [\"nginx:1.27\"]".to_owned(),
            "not pinned by digest",
        ),
        (
            "a",
            "version: 1.0.0\nsourceRef: {kind: OCIArtifact}".to_owned(),
            "needs a url",
        ),
        (
            "a",
            "version: 1.0.0\nvariants: [{name: d}, {name: d}]".to_owned(),
            "shares it",
        ),
        (
            "a",
            "version: 1.0.0\nvariants: [{name: d, requires: [{}]}]".to_owned(),
            "either a package",
        ),
    ] {
        let error = refusal(name, &spec);
        assert!(error.contains(want), "{spec}: {error}");
        assert!(error.starts_with("0.yaml:1: "), "{error}");
    }
    let tree = format!(
        "version: 1.0.0\nsourceRef: {{kind: OCIArtifact, url: \"oci://h/t@{DIGEST}\"}}\n\
         variants: [{{name: d, components: [{{name: a, path: x}}]}}]"
    );
    assert!(draft(&[&source("a", &tree)]).is_ok());
}

#[test]
fn the_same_version_in_two_files_names_both() {
    let error = draft(&[
        &source("a", "version: 1.0.0"),
        &format!("---\n# x\n---\n{}", source("a", "version: v1.0.0")),
    ]);
    assert_eq!(
        error.unwrap_err().to_string(),
        "1.yaml:4: a v1.0.0 is also defined in 0.yaml:1"
    );
}

#[test]
fn what_go_would_read_otherwise_is_refused_with_its_line() {
    let error = |spec: &str| refusal("a", spec);
    assert_eq!(
        error("version: 1.10"),
        "0.yaml:5: spec.version: Go reads 1.10 as 1.1; write \"1.10\""
    );
    assert_eq!(
        error("version: 1.0.0\nprovides: [x, yes]"),
        "0.yaml:6: spec.provides[1]: Go reads yes as true; write \"yes\""
    );
    assert_eq!(
        error("version: 1.0.0\nversion: 1.0.0"),
        "0.yaml:6: \"version\" is given twice"
    );
    assert_eq!(
        error("version: 1.0.0\nimage: [x]"),
        "0.yaml:6: spec: there is no member \"image\""
    );
    assert_eq!(
        error("version: &v 1.0.0"),
        "0.yaml:5: anchors and aliases are not allowed in this file; write the values out"
    );
}

#[test]
fn delegated_signatures_move_into_the_entry() {
    let text = "kind: PackageSource\nmetadata:\n  name: a\n  annotations:\n    \
                kubepkg.dev/signatures: '[{\"keyid\":\"1\",\"sig\":\"x\"}]'\nspec: {version: 1.0.0}\n";
    let draft = draft(&[text]).unwrap();
    let text = draft.to_yaml(time("2026-11-30T12:00:00Z"), None).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("signatures:\n      - keyid: \"1\"\n        sig: x\n"),
        "{text}"
    );
}
