//! Running Helm with bounds: time, memory, what it writes.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Seconds that one call may take. The largest charts take two; a loop in a template never ends.
pub const MAX_SECONDS: u64 = 60;

/// Bytes that a chart may render to. The largest ones, definitions included, come to 8 MiB.
pub const MAX_RENDERED: usize = 128 * 1024 * 1024;

/// Bytes of address space of the process. Helm takes 1.5 GiB of it and uses a tenth.
pub const MAX_MEMORY: u64 = 3 * 1024 * 1024 * 1024;

/// Bytes of an error that are looked at.
const MAX_MESSAGE: usize = 64 * 1024;

/// How a call ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Why a call did not end by itself.
#[derive(Debug, thiserror::Error)]
pub(super) enum Stopped {
    #[error("it did not end within {MAX_SECONDS} s")]
    TooLong,
    #[error("it wrote more than {MAX_RENDERED} bytes")]
    TooMuch,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Reads to the end, or to `limit`; whether there was more.
fn read(mut from: impl Read, limit: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    from.by_ref().take(limit as u64).read_to_end(&mut bytes)?;
    let more = bytes.len() == limit && from.read(&mut [0])? > 0;
    Ok((bytes, more))
}

/// Runs `command` to its end.
pub(super) fn run(command: Command) -> Result<Ended, Stopped> {
    run_within(command, Duration::from_secs(MAX_SECONDS), MAX_RENDERED)
}

fn run_within(mut command: Command, time: Duration, bytes: usize) -> Result<Ended, Stopped> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    bound_memory(&child);
    let (sender, receiver) = channel();
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("it has no output").into());
    };
    let to_err = sender.clone();
    std::thread::spawn(move || {
        // who waits has gone away when this fails
        let _ = sender.send((true, read(out, bytes)));
    });
    std::thread::spawn(move || {
        let mut err = err;
        let _ = to_err.send((false, read(&mut err, MAX_MESSAGE)));
        // a program that cannot write its words any more would end before its work is done
        let _ = io::copy(&mut err, &mut io::sink());
    });
    let deadline = Instant::now() + time;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok((true, Ok((_, true)))) => return Err(stop(child, Stopped::TooMuch)),
            Ok((true, Ok((text, false)))) => stdout = text,
            // of a flood of words the first ones do
            Ok((false, Ok((text, _)))) => stderr = text,
            Ok((_, Err(error))) => return Err(stop(child, error.into())),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(stop(child, Stopped::TooLong));
            }
        }
    }
    Ok(Ended {
        status: child.wait()?,
        stdout: text(stdout),
        stderr: text(stderr),
    })
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn stop(mut child: Child, why: Stopped) -> Stopped {
    // it has ended already when this fails
    let _ = child.kill();
    let _ = child.wait();
    why
}

/// A template can ask for any amount of memory.
#[cfg(target_os = "linux")]
fn bound_memory(child: &Child) {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let limit = Rlimit {
        current: Some(MAX_MEMORY),
        maximum: Some(MAX_MEMORY),
    };
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if pid.is_some() {
        // where this is not allowed, time and output are bounded all the same
        let _ = prlimit(pid, Resource::As, limit);
    }
}

#[cfg(not(target_os = "linux"))]
fn bound_memory(_: &Child) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, time: Duration, bytes: usize) -> Result<Ended, Stopped> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run_within(command, time, bytes)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn both_outputs_and_the_status_are_kept() {
        let ended = shell("echo out; echo err >&2; exit 3", LONG, 100).unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("out\n", "err\n")
        );
    }

    #[test]
    fn what_never_ends_is_ended() {
        let stopped = shell(
            "exec cat /dev/zero >/dev/null",
            Duration::from_millis(100),
            100,
        );
        assert!(matches!(stopped, Err(Stopped::TooLong)));
    }

    #[test]
    fn a_flood_is_ended() {
        let stopped = shell("exec cat /dev/zero", LONG, 1000);
        assert!(matches!(stopped, Err(Stopped::TooMuch)));
        let exact = shell("printf 1234", LONG, 4).unwrap();
        assert_eq!(exact.stdout, "1234");
        let words = shell("exec head -c 1000000 /dev/zero >&2", LONG, 10).unwrap();
        assert_eq!(words.stderr.len(), MAX_MESSAGE);
    }
}
