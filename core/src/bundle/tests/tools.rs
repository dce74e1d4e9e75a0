//! Other readers of tar see the same file.

use std::io::Read as _;
use std::process::{Command, Stdio};

use super::sample::Sample;

#[test]
fn the_tar_crate_reads_every_member() {
    for large in [0, 70_000] {
        let sample = Sample::new(large);
        let layout = sample.layout();
        let bytes = sample.bytes();
        let mut archive = ::tar::Archive::new(&bytes[..]);
        let mut seen = 0;
        for (entry, member) in archive.entries().unwrap().zip(layout.members()) {
            let mut entry = entry.unwrap();
            assert_eq!(entry.path().unwrap().to_str(), Some(member.path.as_str()));
            assert_eq!(entry.raw_file_position(), member.data_at);
            assert_eq!(entry.header().mode().unwrap(), 0o644);
            assert_eq!(entry.header().mtime().unwrap(), 0);
            assert_eq!(
                (entry.header().uid().unwrap(), entry.header().gid().unwrap()),
                (0, 0)
            );
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            assert_eq!(content.len() as u64, member.size);
            if let Some(digest) = member.digest {
                assert!(digest.matches(&content));
            }
            seen += 1;
        }
        assert_eq!(seen, layout.members().len());
    }
}

#[test]
fn index_json_names_images_and_lists_the_rest() {
    let sample = Sample::new(0);
    let bytes = sample.bytes();
    let layout = sample.layout();
    let member = &layout.members()[3];
    let at = member.data_at as usize;
    let index: serde_json::Value =
        serde_json::from_slice(&bytes[at..at + member.size as usize]).unwrap();
    let listed = index["manifests"].as_array().unwrap();
    let head = &sample.head;
    assert_eq!(listed.len(), 2 + 1 + 1 + 2);
    for (entry, image) in listed.iter().zip(&head.images) {
        let annotations = &entry["annotations"];
        assert_eq!(
            annotations["org.opencontainers.image.ref.name"],
            image.reference.to_string()
        );
        let name = &annotations["io.containerd.image.name"];
        match image.reference.tag() {
            Some(_) => assert_eq!(name, "registry.example.com/web/app:1"),
            None => assert!(name.is_null()),
        }
    }
    assert_eq!(
        listed[2]["annotations"]["dev.kubepkg.reference"],
        "charts.example.com/stable/web:1.0.0_up1"
    );
    for entry in &listed[2..] {
        assert!(entry["annotations"]["org.opencontainers.image.ref.name"].is_null());
        assert!(entry["annotations"]["io.containerd.image.name"].is_null());
    }
}

/// Paths that `program` lists, or nothing when this machine does not have it.
fn listing(program: &str, arguments: &[&str], file: &std::path::Path) -> Option<Vec<String>> {
    let output = Command::new(program)
        .args(arguments)
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn installed_tar_programs_list_the_same_members() {
    let sample = Sample::new(70_000);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.tar");
    std::fs::write(&path, sample.bytes()).unwrap();
    let layout = sample.layout();
    let members: Vec<&str> = layout.members().iter().map(|m| m.path.as_str()).collect();
    for (program, arguments) in [("tar", ["-tf"]), ("bsdtar", ["-tf"])] {
        if let Some(listed) = listing(program, &arguments, &path) {
            assert_eq!(listed, members, "{program}");
        }
    }
}
