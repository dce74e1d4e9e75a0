//! Runs a test of this binary in a process of its own, with faults in its system calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Names the store's folder to the process.
pub const ROOT: &str = "STORE_UNDER_TEST";

/// The folder this process was given, if it is one of those.
pub fn given_root() -> Option<std::path::PathBuf> {
    std::env::var_os(ROOT).map(Into::into)
}

/// A process that runs the ignored test `test` on the store at `root`.
pub fn process(test: &str, root: &Path) -> Command {
    with_test(Command::new(std::env::current_exe().unwrap()), test, root)
}

/// Runs `test` with a fault, given as for strace's `inject`.
pub fn run_with_fault(test: &str, root: &Path, fault: &str) -> ExitStatus {
    strace(test, root, &["-o", "/dev/null", "-e", fault])
}

/// The same with a fault only in calls about `path`.
pub fn run_with_fault_at(test: &str, root: &Path, path: &Path, fault: &str) -> ExitStatus {
    let path = path.to_str().unwrap();
    strace(test, root, &["-o", "/dev/null", "-P", path, "-e", fault])
}

/// How many times the thread that calls it most calls `call` in a good run of `test`: strace
/// counts for each thread.
pub fn count(test: &str, call: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    count_at(test, &folder.path().join("store"), call)
}

/// The same on the store at `root`.
pub fn count_at(test: &str, root: &Path, call: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let options = ["-o", log.to_str().unwrap(), "-e", &format!("trace={call}")];
    assert!(strace(test, root, &options).success());
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        if let Some((process, rest)) = line.split_once(' ')
            && rest.trim_start().starts_with(&format!("{call}("))
        {
            *counts.entry(process.to_owned()).or_insert(0) += 1;
        }
    }
    counts.into_values().max().unwrap_or(0)
}

fn strace(test: &str, root: &Path, options: &[&str]) -> ExitStatus {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq"]).args(options);
    strace.arg(std::env::current_exe().unwrap());
    let mut command = with_test(strace, test, root);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap()
}

fn with_test(mut command: Command, test: &str, root: &Path) -> Command {
    command
        .args([
            "--exact",
            test,
            "--ignored",
            "--test-threads=1",
            "--nocapture",
        ])
        .env(ROOT, root);
    command
}
