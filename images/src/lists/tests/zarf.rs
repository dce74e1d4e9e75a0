use super::super::Form;
use super::*;

#[test]
fn images_and_charts_of_all_components() {
    let text = "\
kind: ZarfPackageConfig
metadata:
  name: podinfo
  architecture: amd64
components:
  - name: podinfo
    required: true
    charts:
      - name: podinfo
        version: 6.4.0
        namespace: podinfo
        url: https://stefanprodan.github.io/podinfo
      - name: other
        repoName: podinfo
        version: 6.4.0
        url: https://stefanprodan.github.io/podinfo
      - name: from-oci
        version: 6.4.0
        url: oci://ghcr.io/stefanprodan/charts/podinfo
      - name: from-git
        version: 6.4.0
        url: https://github.com/stefanprodan/podinfo.git
        gitPath: charts/podinfo
      - name: here
        version: 0.1.0
        localPath: chart
    images:
      - ghcr.io/stefanprodan/podinfo:6.4.0
      # the signature
      - ghcr.io/stefanprodan/podinfo:sha256-57a654ace69ec02ba8973093b6a786faa15640575fbf0dbb603db55aca2ccec8.sig
  - name: arm
    only:
      flavor: upstream
      cluster:
        architecture: arm64
    images: [nginx]
    imageArchives:
      - path: images.tar
        images: [inside:1]
    repos: [https://github.com/a/b.git]
";
    let list = taken(text);
    assert_eq!(list.form, Form::Zarf);
    let amd = Some("linux/amd64".to_owned());
    let told: Vec<_> = list
        .images
        .iter()
        .map(|image| (image.line, image.platform.clone()))
        .collect();
    assert_eq!(
        told,
        [
            (28, amd.clone()),
            (30, amd),
            (36, Some("linux/arm64".to_owned()))
        ]
    );
    let helm = "https://stefanprodan.github.io/podinfo";
    let version = Some("6.4.0");
    assert_eq!(
        list.charts,
        [
            chart(helm, "podinfo", version, 9),
            chart(helm, "podinfo", version, 13),
            chart("oci://ghcr.io/stefanprodan/charts", "podinfo", version, 17)
        ]
    );
    assert_eq!(
        list.notes,
        [
            "line 20: the chart \"from-git\" lies in Git, and is not carried",
            "line 24: the chart \"here\" lies in a folder, and is not carried",
            "line 33: the component \"arm\" is for the flavor \"upstream\" alone, and is taken \
             all the same",
            "line 38: the images in archives are not carried",
            "line 40: repositories of Git are not carried"
        ]
    );
}

#[test]
fn the_newer_spelling() {
    let text = "\
apiVersion: zarf.dev/v1beta1
kind: ZarfPackageConfig
components:
- name: a
  target: {architecture: arm64}
  images:
  - name: nginx:1
  - {name: busybox, source: registry}
  charts:
  - name: x
    helmRepository: {name: podinfo, url: https://x.example, version: 6.4.0}
  - name: v
    oci: {url: oci://x.example/charts/podinfo, version: 6.4.0}
  - name: z
    git: {url: https://x.example/a.git}
  - name: w
    local: {path: w}
";
    let list = taken(text);
    assert_eq!(images(&list), [("nginx:1", 7), ("busybox", 8)]);
    assert_eq!(list.images[0].platform.as_deref(), Some("linux/arm64"));
    assert_eq!(
        list.charts,
        [
            chart("https://x.example", "podinfo", Some("6.4.0"), 10),
            chart("oci://x.example/charts", "podinfo", Some("6.4.0"), 12)
        ]
    );
    assert_eq!(list.notes.len(), 2);
}

#[test]
fn what_zarf_would_fill_in_is_refused_with_its_line() {
    let package =
        |component: &str| format!("kind: ZarfPackageConfig\ncomponents:\n- name: a\n{component}");
    for (component, want) in [
        (
            "  images:\n  - quay.io/a/b:###ZARF_PKG_TMPL_VERSION###\n",
            "line 5: \"quay.io/a/b:###ZARF_PKG_TMPL_VERSION###\" is a template of Zarf",
        ),
        (
            "  charts:\n  - {name: x, url: 'https://x', version: '###ZARF_PKG_TMPL_V###'}\n",
            "line 5: \"###ZARF_PKG_TMPL_V###\" is a template of Zarf",
        ),
        (
            "  import: {path: ../common}\n",
            "line 4: the component \"a\" is imported from elsewhere",
        ),
        (
            "  images:\n  - {name: x, source: daemon}\n",
            "line 5: \"x\" is taken from a \"daemon\"",
        ),
        (
            "  images:\n  -\n",
            "an image is wanted, and there is nothing",
        ),
        (
            "  charts:\n  - {name: x, version: 1.0.0}\n",
            "has neither url nor localPath",
        ),
        ("  images: nginx\n", "line 4: images is no list"),
        ("- nginx\n", "line 4: a component is no map"),
    ] {
        let told = faults(&package(component));
        assert!(
            told.iter().any(|told| told.contains(want)),
            "{component}: {told:?}"
        );
    }
    let error = read(package("  import: {path: x}\n").as_bytes(), "l").unwrap_err();
    assert!(
        error.faults[0]
            .advice
            .contains("zarf dev inspect definition")
    );
    assert_eq!(
        fault("apiVersion: zarf.dev/v9\nkind: ZarfPackageConfig\n"),
        "line 1: \"zarf.dev/v9\" is not known"
    );
}
