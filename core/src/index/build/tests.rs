use super::*;
use crate::error::Classify;
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
        "0.yaml:6: spec: unknown member \"image\""
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

const NOW: &str = "2026-11-30T12:00:00Z";

fn published(texts: &[&str]) -> Index {
    let text = draft(texts).unwrap().to_yaml(time(NOW), None).unwrap();
    Index::read(&text).unwrap()
}

fn annotated(annotation: &str, list: &str, spec: &str) -> String {
    source("a", spec).replace(
        "  name: a\n",
        &format!("  name: a\n  annotations:\n    kubepkg.dev/{annotation}: '{list}'\n"),
    )
}

#[test]
fn a_merge_keeps_every_published_version_as_it_stands() {
    let signed = annotated(
        "signatures",
        r#"[{"keyid":"1","sig":"x"}]"#,
        "version: 1.0.0",
    );
    let approved = r#"[{"keyid":"2","sig":"y","time":"2026-11-30T12:00:00Z"}]"#;
    let approved = annotated("approvals", approved, "version: 1.1.0");
    let mut first = draft(&[&signed, &approved, &source("b", "version: 1.0.0")]).unwrap();
    let withdrawn = Withdrawn {
        since: time(NOW),
        reason: "loses data".to_owned(),
        replacement: Some("1.1.0".to_owned()),
        lifted: None,
    };
    assert_eq!(
        first
            .set_withdrawn("a", "v1.0.0", None, &withdrawn)
            .unwrap(),
        1
    );
    first.set_repository("https://example.org/index.yaml".parse().unwrap());
    let text = first.to_yaml(time(NOW), None).unwrap();
    let base = Index::read(&text).unwrap();

    let mut next = draft(&[&source("a", "version: 2.0.0")]).unwrap();
    let merged = next.merge(&base, &[]).unwrap();
    assert_eq!((merged.kept, merged.moved.len()), (3, 0));
    let index = Index::read(&next.to_yaml(time(NOW), None).unwrap()).unwrap();
    assert_eq!(index.repository, base.repository);
    assert_eq!(index.packages["b"], base.packages["b"]);
    let versions = &index.packages["a"].versions;
    assert_eq!(versions[0].version, "2.0.0");
    assert_eq!(versions[1..], base.packages["a"].versions);
    assert_eq!(versions[2].withdrawn.as_ref(), Some(&withdrawn));
    assert_eq!(versions[2].signatures.len(), 1);
    assert_eq!(versions[1].approvals.len(), 1);

    // Nothing new: the same text to the byte.
    assert_eq!(
        Draft::of(&base).unwrap().to_yaml(time(NOW), None).unwrap(),
        text
    );
}

#[test]
fn a_published_version_does_not_change() {
    let base = published(&[&source("a", "version: 1.0.0")]);
    let mut changed = draft(&[&source("a", "version: v1.0.0\nprovides: [x]")]).unwrap();
    let error = changed.merge(&base, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "0.yaml:1: a v1.0.0 is already published with different content; published versions \
         do not change"
    );
    assert_eq!(error.hint().as_deref(), Some("give it a new build number"));
    let mut rebuilt = draft(&[&source("a", "version: 1.0.0\nbuild: 1\nprovides: [x]")]).unwrap();
    assert_eq!(rebuilt.merge(&base, &[]).unwrap().kept, 1);
}

#[test]
fn signatures_are_added_to_a_published_version() {
    let with = |list: &str| annotated("signatures", list, "version: 1.0.0");
    let base = published(&[&with(r#"[{"keyid":"1","sig":"x"}]"#)]);
    let more = with(r#"[{"keyid":"2","sig":"y"},{"keyid":"1","sig":"x"}]"#);
    let mut next = draft(&[&more]).unwrap();
    assert_eq!(next.merge(&base, &[]).unwrap().kept, 0);
    let index = Index::read(&next.to_yaml(time(NOW), None).unwrap()).unwrap();
    let signatures = &index.packages["a"].versions[0].signatures;
    let keys: Vec<&str> = signatures.iter().map(|s| s.keyid.as_str()).collect();
    assert_eq!(keys, ["1", "2"]);
}

#[test]
fn a_recipe_without_pins_is_what_it_was_published_as() {
    let chart = |digest: &str| {
        source(
            "a",
            &format!(
                "version: 1.0.0\nvariants: [{{name: d, components: [{{name: c, chart: {{repository: \
                 \"oci://old.example.org/c\", name: c, version: \"1.0\"{digest}}}}}]}}]"
            ),
        )
    };
    let base = published(&[&chart(&format!(", digest: \"{DIGEST}\""))]);
    let mut next = draft(&[&chart("")]).unwrap();
    next.merge(&base, &[]).unwrap();
    assert!(next.unpinned_charts().is_empty());

    let moves = ["oci://old.example.org=oci://new.example.org/x"
        .parse()
        .unwrap()];
    let mut moved = Draft::default();
    let merged = moved.merge(&base, &moves).unwrap();
    assert_eq!(
        merged.moved[0].chart.repository,
        "oci://new.example.org/x/c"
    );
    assert_eq!(merged.moved[0].chart.digest, DIGEST);
    let index = Index::read(&moved.to_yaml(time(NOW), None).unwrap()).unwrap();
    let version = &index.packages["a"].versions[0];
    assert_ne!(version.digest, base.packages["a"].versions[0].digest);
}

#[test]
fn what_others_signed_does_not_move() {
    let spec =
        format!("version: 1.0.0\nsourceRef: {{kind: OCIArtifact, url: \"oci://h/t@{DIGEST}\"}}");
    let moves = ["oci://h=oci://new".parse().unwrap()];
    for (annotation, list) in [
        ("signatures", r#"[{"keyid":"1","sig":"x"}]"#),
        (
            "approvals",
            r#"[{"keyid":"1","sig":"x","time":"2026-11-30T12:00:00Z"}]"#,
        ),
    ] {
        let base = published(&[&annotated(annotation, list, &spec)]);
        let error = Draft::default().merge(&base, &moves).unwrap_err();
        assert!(matches!(error, BuildError::Signed { .. }), "{error}");
    }
}

#[test]
fn versions_made_for_a_newer_program_are_not_lost() {
    let text = format!(
        "kind: RepositoryIndex\npackages: {{a: {{versions: [{{version: 1.0.0, digest: \"{DIGEST}\", \
         spec: {{version: 1.0.0, shiny: 1}}}}]}}}}"
    );
    let base = Index::read(text.as_bytes()).unwrap();
    let error = Draft::of(&base).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("1 versions made for a newer kubepkg, a 1.0.0"),
        "{error}"
    );
}

#[test]
fn a_withdrawal_is_made_and_lifted_for_one_build_or_all() {
    let base = published(&[
        &source("a", "version: 1.0.0"),
        &source("a", "version: 1.0.0\nbuild: 1"),
    ]);
    let mut draft = Draft::of(&base).unwrap();
    let withdrawn = Withdrawn {
        since: time(NOW),
        reason: "r".to_owned(),
        replacement: None,
        lifted: None,
    };
    let missing = draft
        .set_withdrawn("a", "1.0.1", None, &withdrawn)
        .unwrap_err();
    assert_eq!(missing.to_string(), "the index has no a 1.0.1");
    assert_eq!(
        draft.set_withdrawn("a", "1.0.0", None, &withdrawn).unwrap(),
        2
    );
    assert_eq!(
        draft
            .lift_withdrawal("a", "1.0.0", Some(1), time(NOW))
            .unwrap(),
        1
    );
    let error = draft
        .lift_withdrawal("a", "1.0.0", Some(1), time(NOW))
        .unwrap_err();
    assert_eq!(error.to_string(), "a 1.0.0 build 1 is not withdrawn");
    let index = Index::read(&draft.to_yaml(time(NOW), None).unwrap()).unwrap();
    let holds: Vec<bool> = index.packages["a"]
        .versions
        .iter()
        .map(|version| version.withdrawn.as_ref().is_some_and(Withdrawn::holds))
        .collect();
    assert_eq!(holds, [false, true], "builds 1 and 0");
}

#[test]
fn requirements_are_checked_before_they_are_published() {
    let requires =
        |text: &str| format!("version: 1.0.0\nvariants: [{{name: d, requires: [{{{text}}}]}}]");
    for (spec, want) in [
        (requires("package: b, version: \"1.2<3\""), "variant d"),
        (requires("capability: \"api:v1\""), "no known kind"),
        (requires("capability: \"kube:1\""), "no known kind"),
        (requires("capability: x, variant: small"), "to a capability"),
        (
            "version: 1.0.0\nprovides: [\"api:a/\"]".to_owned(),
            "no known kind",
        ),
    ] {
        let error = refusal("a", &spec);
        assert!(error.contains(want), "{spec}: {error}");
    }
    for fine in [
        requires("package: b, version: \">=1.2, <2\", variant: small, values: {c: {replicas: 2}}"),
        requires("capability: \"api:backup.example.com/v1\""),
    ] {
        assert!(draft(&[&source("a", &fine)]).is_ok(), "{fine}");
    }
}
