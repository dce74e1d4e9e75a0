//! How a failure is told: its kind, what, where, why, and what to do; and the exit code.
//!
//! Source: design page "command", "Manners".

use std::error::Error;
use std::io::Write as _;

use kubepkg_core::error::{Classify, Kind};
use serde::Serialize;

use crate::error::CommandError;
use crate::interrupt::Interrupted;
use crate::printer::OutputClosed;

/// Exit code of a bug in kubepkg.
pub const BUG: u8 = 70;

/// Exit code after Ctrl-C or a request to terminate.
pub const INTERRUPTED: u8 = 130;

const fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Failed => 1,
        Kind::Usage => 2,
        Kind::Refused => 3,
        Kind::NotFound => 4,
        Kind::Remote => 5,
    }
}

/// A `dyn Error` cannot be asked whether it implements a trait, so the types that do are
/// listed. A test compares this list with the sources.
macro_rules! classified_types {
    ($($type:ty),* $(,)?) => {
        fn classified<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a dyn Classify> {
            $(
                if let Some(error) = error.downcast_ref::<$type>() {
                    return Some(error);
                }
            )*
            None
        }

        #[cfg(test)]
        const CLASSIFIED: &[&str] = &[$(stringify!($type)),*];
    };
}

classified_types![
    CommandError,
    kubepkg_bundler::CreateError,
    kubepkg_core::bundle::FormatError,
    kubepkg_core::bundle::verify::ClosureError,
    kubepkg_core::bundle::verify::PlacementError,
    kubepkg_core::chart::ChartError,
    kubepkg_core::index::IndexError,
    kubepkg_core::index::TableError,
    kubepkg_core::index::build::RelocationError,
    kubepkg_core::index::build::BuildError,
    kubepkg_core::index::build::RelocationError,
    kubepkg_core::index::signature::SignatureError,
    kubepkg_core::lock::LockError,
    kubepkg_core::manifest::ManifestError,
    kubepkg_core::pins::PinError,
    kubepkg_core::plan::installed::InstalledError,
    kubepkg_core::resolve::RequestError,
    kubepkg_core::resolve::ResolveError,
    kubepkg_core::select::SelectError,
    kubepkg_core::store::StoreError,
    kubepkg_core::tree::TreeError,
    kubepkg_core::trust::GivenError,
    kubepkg_core::trust::MemoryError,
    kubepkg_core::trust::RootError,
    kubepkg_core::trust::TrustError,
    kubepkg_core::trust::TrustFileError,
    kubepkg_core::yaml::YamlError,
    kubepkg_images::Error,
    kubepkg_images::lists::ListError,
    kubepkg_importer::ClaimError,
    kubepkg_importer::ImportError,
    kubepkg_importer::WantError,
    kubepkg_mirror::access::AccessError,
    kubepkg_mirror::bucket::MoveError,
    kubepkg_mirror::manage::ManageError,
    kubepkg_mirror::serve::ServeError,
    kubepkg_mirror::sink::SinkError,
    kubepkg_mirror::tls::TlsError,
    kubepkg_node_config::Error,
    kubepkg_remote::RemoteError,
];

/// A failure, ready to be shown.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The exit code.
    #[serde(skip)]
    pub exit: u8,
    /// The kind, as JSON names it.
    pub kind: &'static str,
    /// What went wrong, one line.
    pub message: String,
    /// File and offset, reference, or URL without secrets.
    #[serde(rename = "where")]
    pub place: Option<String>,
    /// What brought it about, outermost first.
    pub causes: Vec<String>,
    /// What the user can do.
    pub hint: Option<String>,
    /// Whether the same call may succeed later.
    pub retry: bool,
}

impl Report {
    /// Puts other words for what it says.
    pub fn reword(&mut self, reworded: impl Fn(&str) -> String) {
        let texts = self.causes.iter_mut().chain(&mut self.hint);
        for text in texts.chain([&mut self.message]) {
            *text = reworded(text);
        }
    }

    /// The report of `error`.
    pub fn of(error: &anyhow::Error) -> Report {
        let mut report = Report {
            exit: exit_code(Kind::Failed),
            kind: Kind::Failed.as_str(),
            message: told(error.as_ref()),
            place: None,
            causes: Vec::new(),
            hint: None,
            retry: false,
        };
        let mut kind = None;
        let mut io_kind = None;
        for cause in error.chain() {
            if let Some(known) = classified(cause) {
                if kind.is_none() {
                    kind = Some(known.kind());
                    report.retry = known.retry();
                }
                report.place = report.place.or_else(|| known.place());
                report.hint = report.hint.or_else(|| known.hint());
            } else if let Some(io) = cause.downcast_ref::<std::io::Error>() {
                io_kind = Some(io.kind());
            }
        }
        for cause in error.chain().skip(1) {
            let text = told(cause);
            // many errors repeat their source in their own text
            let known = std::iter::once(&report.message)
                .chain(&report.causes)
                .any(|line| line.contains(&text));
            if !known {
                report.causes.push(text);
            }
        }
        if let Some(interrupted) = find::<Interrupted>(error) {
            report.exit = INTERRUPTED;
            report.kind = "interrupted";
            report.hint = Some(interrupted.again.clone());
            report.retry = true;
            return report;
        }
        if find::<tokio::task::JoinError>(error).is_some_and(tokio::task::JoinError::is_panic) {
            report.exit = BUG;
            report.kind = "bug";
            return report;
        }
        let kind = kind.unwrap_or(match io_kind {
            Some(std::io::ErrorKind::NotFound) => Kind::NotFound,
            _ => Kind::Failed,
        });
        if report.hint.is_none() && io_kind == Some(std::io::ErrorKind::StorageFull) {
            report.hint = Some("the disk is full; free some space and run this again".to_owned());
        }
        report.exit = exit_code(kind);
        report.kind = kind.as_str();
        report
    }

    /// A call that the command line parser refused.
    pub fn usage(message: String, hint: Option<String>) -> Report {
        Report {
            exit: exit_code(Kind::Usage),
            kind: Kind::Usage.as_str(),
            message,
            place: None,
            causes: Vec::new(),
            hint,
            retry: false,
        }
    }

    /// The lines for a person, without colours: label and text.
    pub fn lines(&self) -> Vec<(&'static str, &str)> {
        let mut lines = vec![("error", self.message.as_str())];
        lines.extend(self.place.iter().map(|place| ("where", place.as_str())));
        lines.extend(self.causes.iter().map(|c| ("caused by", c.as_str())));
        lines.extend(self.hint.iter().map(|hint| ("hint", hint.as_str())));
        lines
    }
}

/// The text of an error without its place, which has a line of its own. Errors name it all the
/// same, as `place: what` or `what: place`, for they go to a server's log too.
fn told(error: &(dyn Error + 'static)) -> String {
    let text = error.to_string();
    let Some(place) = classified(error).and_then(Classify::place) else {
        return text;
    };
    let before = text.strip_prefix(&format!("{place}: "));
    let behind = text.strip_suffix(&format!(": {place}"));
    match before.or(behind) {
        Some(what) => what.to_owned(),
        None => text.replacen(&format!(": {place}: "), ": ", 1),
    }
}

/// Whether this is only about the reader of our output having gone away.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    find::<OutputClosed>(error).is_some()
}

fn find<E: Error + 'static>(error: &anyhow::Error) -> Option<&E> {
    error.chain().find_map(|cause| cause.downcast_ref::<E>())
}

/// Says of a panic that it is a bug and how to report it. The exit code is for `main` to
/// give: a server outlives a panic in one request.
pub fn install_panic_hook() {
    std::panic::set_hook(Box::new(|panic| {
        let what = panic
            .payload()
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.payload().downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        let place = panic.location().map(ToString::to_string);
        // nothing can be done when stderr is gone too
        let _ = writeln!(
            std::io::stderr().lock(),
            "error: this is a bug in kubepkg: {what}\nwhere: {} (kubepkg {})\nhint: please report \
             these lines together with the command",
            place.as_deref().unwrap_or("unknown"),
            env!("CARGO_PKG_VERSION"),
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn report(error: impl Into<anyhow::Error>) -> Report {
        Report::of(&error.into())
    }

    #[test]
    fn the_first_error_that_knows_its_kind_decides() {
        let inner = kubepkg_core::manifest::ManifestError::TooLarge;
        let told = report(
            anyhow::Error::from(CommandError::usage("outer").because(inner)).context("context"),
        );
        assert_eq!((told.exit, told.kind), (2, "usage"));
        assert_eq!(told.message, "context");
        assert_eq!(told.causes.len(), 2);
    }

    #[test]
    fn place_and_hint_come_from_wherever_they_are_known() {
        let store = kubepkg_core::store::StoreError::Io {
            action: "write",
            path: "blobs/x".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        let told = report(anyhow::Error::from(store).context("import failed"));
        assert_eq!(told.place.as_deref(), Some("blobs/x"));
        assert!(told.hint.unwrap().contains("disk is full"));
        assert_eq!(told.exit, 1);
    }

    #[test]
    fn a_place_is_told_once() {
        let yaml = kubepkg_core::index::build::read_file("web.yaml", "kind: PackageSource\n- x");
        let told = report(yaml.unwrap_err());
        let place = told.place.clone().unwrap();
        assert!(place.starts_with("web.yaml:"), "{place}");
        assert!(!told.message.contains("web.yaml"), "{}", told.message);
        assert!(told.causes.is_empty(), "{:?}", told.causes);
        for (text, message) in [
            ("x.tar: no luck", "no luck"),
            ("cannot write: x.tar", "cannot write"),
            ("damaged: x.tar: cut", "damaged: cut"),
            ("x.tar is in the way", "x.tar is in the way"),
        ] {
            let told = report(CommandError::failed(text).at("x.tar"));
            assert_eq!(told.message, message);
            assert_eq!(told.place.as_deref(), Some("x.tar"));
        }
    }

    #[test]
    fn a_cause_that_was_already_told_is_not_repeated() {
        let io = std::io::Error::other("no luck");
        let told = report(CommandError::failed("cannot: no luck").because(io));
        assert!(told.causes.is_empty());
    }

    #[test]
    fn plain_system_errors_have_a_kind_too() {
        assert_eq!(
            report(std::io::Error::from(std::io::ErrorKind::NotFound)).exit,
            4
        );
        assert_eq!(report(std::io::Error::other("x")).exit, 1);
        assert_eq!(report(anyhow::anyhow!("x")).exit, 1);
    }

    #[test]
    fn interruption_and_closed_output_are_recognised() {
        let told = report(Interrupted {
            again: "run it again".into(),
        });
        assert_eq!((told.exit, told.kind), (130, "interrupted"));
        assert!(is_closed_output(&anyhow::Error::from(OutputClosed)));
    }

    #[test]
    fn json_has_the_promised_members() {
        let value = serde_json::to_value(report(CommandError::usage("x"))).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(
            keys,
            ["causes", "hint", "kind", "message", "retry", "where"]
        );
    }

    #[test]
    fn every_error_that_classifies_itself_is_in_the_list() {
        let mut missing = Vec::new();
        for folder in [
            "core",
            "remote",
            "bundler",
            "importer",
            "mirror",
            "node-config",
            "images",
        ] {
            let root = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(folder)
                .join("src");
            for file in walkdir::WalkDir::new(root) {
                let file = file.unwrap();
                if file.path().extension().is_none_or(|e| e != "rs") {
                    continue;
                }
                for line in std::fs::read_to_string(file.path()).unwrap().lines() {
                    let Some(rest) = line.strip_prefix("impl Classify for ") else {
                        continue;
                    };
                    let name = rest.trim_end_matches(['{', '}', ' ']);
                    let krate = folder.replace('-', "_");
                    let listed = |path: &&str| -> bool {
                        let path: String = path.split_whitespace().collect();
                        path.starts_with(&format!("kubepkg_{krate}::"))
                            && path.ends_with(&format!("::{name}"))
                    };
                    if !CLASSIFIED.iter().any(listed) {
                        missing.push(format!("{}: {name}", file.path().display()));
                    }
                }
            }
        }
        assert!(missing.is_empty(), "not in classified_types!: {missing:#?}");
    }
}
