use super::super::Form;
use super::*;

#[test]
fn one_image_a_line_with_comments_and_what_editors_leave() {
    let text = "\u{FEFF}# our images\r\n\
                \r\n\
                nginx\r\n\
                busybox:1.36 \t # the shell\r\n\
                \u{a0}quay.io/a/b:v1\u{a0}\r\n\
                \t[::1]:5000/x:1#2\r\n";
    // no white space before it: no comment
    assert!(fault(text).starts_with("line 6: \"[::1]:5000/x:1#2\" is no image: "));
    let list = taken(&text.replace("#2", ""));
    assert_eq!(list.form, Form::Plain);
    assert_eq!(
        images(&list),
        [
            ("nginx", 3),
            ("busybox:1.36", 4),
            ("quay.io/a/b:v1", 5),
            ("[::1]:5000/x:1", 6)
        ]
    );
    assert!(list.notes.is_empty() && list.charts.is_empty());
    assert!(list.images.iter().all(|image| image.platform.is_none()));
}

#[test]
fn the_lists_of_k3s_and_rancher() {
    let k3s = "docker.io/rancher/klipper-helm:v0.9.3-build20241008\n\
               docker.io/rancher/mirrored-coredns-coredns:1.12.0\n";
    assert_eq!(taken(k3s).images.len(), 2);
    // no end of line at the end
    let rancher = "rancher/aks-operator:v1.10.0\nrancher/shell:v0.3.0";
    assert_eq!(
        images(&taken(rancher)),
        [
            ("rancher/aks-operator:v1.10.0", 1),
            ("rancher/shell:v0.3.0", 2)
        ]
    );
}

#[test]
fn digests_stay_as_they_are_written() {
    let text = format!(
        "busybox@{D}\nbusybox@{E}\nalpine:3.12.1@{D}\nregistry.example:5000/a/b@{D}\n\
         quay.io/a/b:1\ndocker.io/a/b:1\n"
    );
    let list = taken(&text);
    let written: Vec<&str> = text.lines().collect();
    let read: Vec<&str> = images(&list).iter().map(|(image, _)| *image).collect();
    assert_eq!(read, written);
}

#[test]
fn an_image_counts_once_however_it_is_spelt() {
    let list = taken("nginx\n# again\ndocker.io/library/nginx:latest\nnginx\nnginx:1\n");
    assert_eq!(images(&list), [("nginx", 1), ("nginx:1", 5)]);
    assert_eq!(
        list.notes,
        ["lines 3, 4: an image that is named before is taken once"]
    );
}

#[test]
fn the_word_behind_the_image_is_passed_over_in_ranchers_list_alone() {
    let text = "noiro/cnideploy:5.2.7.1.81c2369 system\n\
                rancher/backup-restore-operator:v5.0.2 rancher-backup:104.0.2+up5.0.2,rancher-backup:103.0.1+up4.0.1\n\
                rancher/hardened-etcd:v3.5.13-k3s1-build20240531 rke2All\n\
                dp.apps.rancher.io/containers/x:1 appco\n";
    let list = taken(text);
    assert_eq!(list.form, Form::RancherSources);
    assert_eq!(
        images(&list)[1],
        ("rancher/backup-restore-operator:v5.0.2", 2)
    );
    assert_eq!(list.images.len(), 4);
    // one line of another shape
    assert_eq!(
        fault(&format!("{text}rancher/shell:v0.3.0\n")),
        "line 5: \"rancher/shell:v0.3.0\" is no image and its sources"
    );
    // nobody else's list
    assert_eq!(
        faults("nginx:1 arm64\nbusybox:2 system\n"),
        [
            "line 1: \"nginx:1 arm64\" is more than one word",
            "line 2: \"busybox:2 system\" is more than one word"
        ]
    );
    // Rancher's list with digests is another one
    let digests = format!("docker.io/rancher/shell:v0.3.0 {D}\n");
    assert!(fault(&digests).ends_with("is more than one word"));
    let origins = "rancher/shell:v0.3.0 https://github.com/rancher/shell\n";
    assert!(fault(origins).starts_with("line 1: "), "{}", fault(origins));
    // a list that begins plain stays plain
    let late = "rancher/shell:v0.3.0\nrancher/shell:v0.4.0 core\n";
    assert_eq!(
        fault(late),
        "line 2: \"rancher/shell:v0.4.0 core\" is more than one word"
    );
}

#[test]
fn what_is_no_image_is_told_with_what_it_looks_like() {
    for (line, want) in [
        ("- nginx", "looks like an item of a YAML list"),
        ("\"nginx\"", "stands in quotes"),
        ("'nginx:1'", "stands in quotes"),
        ("“nginx”", "stands in quotes"),
        ("image: nginx", "looks like a line of YAML"),
        ("images:", "looks like a line of YAML"),
        ("see the readme", "is more than one word"),
        ("quay.io/a/b:1 quay.io/a/c:1", "looks like several images"),
        ("docker pull nginx", "is more than one word"),
        ("nginx,busybox", "looks like values between commas"),
        (
            "nginx=registry.example/nginx",
            "looks like a source and a destination",
        ),
        ("https://quay.io/a/b", "is a URL"),
        ("docker://quay.io/a/b", "is a place of a copying program"),
        ("docker-archive:x.tar", "is a place of a copying program"),
        ("{{ .Values.image }}", "is a template"),
        ("${IMAGE}", "is a template"),
        ("quay.io/a/b:###ZARF_PKG_TMPL_V###", "is a template of Zarf"),
        ("quay.io/a/b:", "is no image: "),
        ("quay.io/A/b", "is no image: the path must be lower-case"),
        (
            "bücher.example/a",
            "is no image: the host has letters outside ASCII",
        ),
        ("bu\u{200b}sybox", "is no image: the path must be"),
        ("busybox@sha256:12", "is no image: "),
        ("Done!", "is no image: "),
    ] {
        let told = fault(&format!("busybox\n{line}\n"));
        assert!(told.starts_with("line 2: "), "{line}: {told}");
        assert!(told.contains(want), "{line}: {told}");
    }
    let error = read(b"bu\xC3\xBCcher.example/a\n", "l").unwrap_err();
    assert!(error.faults[0].advice.contains("xn--"));
    // nothing of a login is repeated
    let told = fault("https://ann:secret@quay.io/a/b\n");
    assert_eq!(told, "line 1: this is a URL");
}

#[test]
fn every_place_is_told_in_one_run_up_to_a_bound() {
    use kubepkg_core::error::Classify;
    let error = read(b"a b\nnginx\nhttps://x\n", "images.txt").unwrap_err();
    assert_eq!(
        error.to_string(),
        "2 places of the list cannot be taken: line 1: \"a b\" is more than one word; \
         line 3: \"https://x\" is a URL: images.txt"
    );
    assert_eq!(error.place().as_deref(), Some("images.txt"));
    assert_eq!(
        error.hint().unwrap(),
        "write one image a line, and what is said of it behind a #; write the image alone, as a \
         registry has it: HOST/PATH:TAG"
    );
    let many = "a b\n".repeat(300);
    let error = read(many.as_bytes(), "l").unwrap_err();
    assert_eq!((error.faults.len(), error.more), (20, 280));
    assert!(error.to_string().ends_with("; and 280 more: l"), "{error}");
}
