//! Whether tests may look at and into the system calls of processes.

use std::process::{Command, Stdio};

/// Whether processes can be traced here. Where not, the tests that need it say so; a build
/// server must have it.
#[expect(clippy::print_stdout, reason = "a test says why it was left out")]
pub fn can_trace() -> bool {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "true"]);
    strace.stdout(Stdio::null()).stderr(Stdio::null());
    let can = strace.status().is_ok_and(|status| status.success());
    if !can {
        println!("left out: strace is missing or may not trace");
        assert!(std::env::var_os("CI").is_none(), "strace must work here");
    }
    can
}
