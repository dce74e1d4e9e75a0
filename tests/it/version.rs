//! `version`, and manners that every verb shares.

use std::io::Read as _;
use std::process::Stdio;

use crate::command::Scratch;

#[test]
fn names_the_formats() {
    let scratch = Scratch::new();
    let run = scratch.run(&["version", "-o", "json"]).ok();
    let answer = run.json();
    assert_eq!(answer["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        answer["formats"]["bundle"]["writes"],
        "kubepkg.dev/bundle/v1"
    );
    assert!(answer["features"].is_array());
    assert_eq!(run.stderr, "");
    let run = scratch.run(&["version"]).ok();
    assert!(run.stdout.starts_with("kubepkg "));
}

#[test]
fn a_closed_pipe_is_success() {
    let scratch = Scratch::new();
    for arguments in [&["version", "-o", "json"][..], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut child = scratch
            .command(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
        assert_eq!(stderr, "");
    }
}

#[test]
fn a_full_disk_under_stdout_is_a_failure() {
    let scratch = Scratch::new();
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = scratch.command(&["version"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("where: standard output"), "{stderr}");
}
