//! A scratch folder to run the command in, and what a run left behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A folder of its own with a home folder of its own. The environment of the test is not
/// passed on, so that nobody's settings change an outcome.
pub struct Scratch {
    root: TempDir,
}

/// What a run ended with.
pub struct Run {
    arguments: Vec<String>,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Scratch {
    pub fn new() -> Scratch {
        let root = tempfile::tempdir().unwrap();
        for folder in ["home", "work"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        Scratch { root }
    }

    /// The folder the command runs in.
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// A path in the folder the command runs in.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.work().join(name)
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Names in the folder the command runs in, hidden ones included.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.work())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The command, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubepkg"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.root.path().join("home"))
            .env("TZ", "UTC")
            .current_dir(self.work())
            .stdin(Stdio::null());
        command
    }

    /// Runs the command to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.finish(self.command(arguments))
    }

    /// Runs the command with these variables.
    pub fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        self.finish(command)
    }

    fn finish(&self, mut command: Command) -> Run {
        let arguments = command
            .get_args()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        Run {
            arguments,
            code: status.code().expect("the command ended by itself"),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }
}

impl Run {
    /// It did what was asked.
    #[track_caller]
    pub fn ok(self) -> Run {
        assert_eq!(self.code, 0, "{}", self.shown());
        self
    }

    /// It failed with this exit code, said so in this text, and answered nothing.
    #[track_caller]
    pub fn fails(self, code: i32, text: &str) -> Run {
        assert_eq!(self.code, code, "{}", self.shown());
        assert!(
            self.stderr.contains(text),
            "no {text:?} in {}",
            self.shown()
        );
        assert_eq!(self.stdout, "", "{}", self.shown());
        self
    }

    /// stderr holds this text.
    #[track_caller]
    pub fn says(self, text: &str) -> Run {
        assert!(
            self.stderr.contains(text),
            "no {text:?} in {}",
            self.shown()
        );
        self
    }

    /// stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.shown()))
    }

    /// stderr as the JSON form of an error.
    #[track_caller]
    pub fn json_error(&self) -> serde_json::Value {
        serde_json::from_str(&self.stderr).unwrap_or_else(|e| panic!("{e}: {}", self.shown()))
    }

    fn shown(&self) -> String {
        format!(
            "kubepkg {}\nexit {}\n--- stdout\n{}--- stderr\n{}",
            self.arguments.join(" "),
            self.code,
            self.stdout,
            self.stderr
        )
    }
}

/// Sends a signal by its name, `INT` or `TERM`.
pub fn signal(child: &std::process::Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// Waits until something is so that another process brings about.
#[track_caller]
pub fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !so() {
        assert!(std::time::Instant::now() < deadline, "no {what}");
        std::thread::yield_now();
    }
}
