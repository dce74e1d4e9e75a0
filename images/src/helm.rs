//! The real Helm as a process: found, checked, and kept from everything but the chart.
//!
//! What it gets is a copy of the chart in a private folder, a private home, and no network: the
//! charts it includes must be in it, values come as files that were read here, DNS is off by
//! Helm's own default, and a values schema that would be fetched switches validation off.

mod process;
mod render;

use std::path::{Path, PathBuf};
use std::process::Command;

use kubepkg_core::version::Version;

use crate::error::Error;
use process::Ended;

pub use process::{MAX_MEMORY, MAX_RENDERED, MAX_SECONDS};
pub use render::{Extra, Options, Rendered, Renderer};

/// The oldest Helm that is used: what it renders is what Helm 4 installs.
pub const OLDEST: &str = "4.0.0";

/// Helm, ready to be used.
#[derive(Clone, Debug)]
pub struct Helm {
    program: PathBuf,
    /// Its version, e.g. `v4.3.1`.
    pub version: String,
}

impl Helm {
    /// Finds Helm: the `given` program, else the first `helm` in `folders` (those of PATH).
    ///
    /// # Errors
    /// There is none, it does not run, or is older than [`OLDEST`].
    pub fn find(given: Option<&Path>, folders: &[PathBuf]) -> Result<Helm, Error> {
        let candidates: Vec<PathBuf> = match given {
            Some(program) => vec![program.to_owned()],
            None => folders.iter().map(|folder| folder.join("helm")).collect(),
        };
        let Some(program) = candidates.iter().find(|path| is_program(path)) else {
            return Err(Error::NoHelm { looked: candidates });
        };
        let version = version_of(program)?;
        Ok(Helm {
            program: program.clone(),
            version,
        })
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// A call with nothing of the user's in its environment.
    fn command(&self, home: &Path) -> Command {
        let mut command = bare(&self.program);
        command
            .env("HOME", home)
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .env("KUBECONFIG", home.join("none"))
            .env("TMPDIR", home);
        // Nothing is to be asked for; should something be, it goes to a port nobody listens on.
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            command.env(name, "http://127.0.0.1:9");
        }
        command
    }
}

fn bare(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear();
    command
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The version a program says it is, when it can be used.
fn version_of(program: &Path) -> Result<String, Error> {
    let wrong = |why: String| Error::Helm {
        program: program.to_owned(),
        why,
    };
    let mut command = bare(program);
    command.args(["version", "--template", "{{.Version}}"]);
    let said = match process::run(command) {
        Ok(Ended { status, stdout, .. }) if status.success() => stdout,
        Ok(Ended { stderr, .. }) => {
            return Err(wrong(format!(
                "it does not say its version: {}",
                render::message(&stderr)
            )));
        }
        Err(stopped) => return Err(wrong(format!("it does not say its version: {stopped}"))),
    };
    let said = said.trim();
    let version = Version::parse(said.trim_start_matches('v'));
    let oldest = Version::parse(OLDEST);
    match (version, oldest) {
        (Ok(version), Ok(oldest)) if version >= oldest => Ok(said.to_owned()),
        (Ok(_), _) => Err(wrong(format!(
            "it is {said}, and {OLDEST} or newer is needed"
        ))),
        (Err(_), _) => Err(wrong(format!(
            "it is no Helm: asked for its version it said \"{}\"",
            kubepkg_core::error::shown(said)
        ))),
    }
}
