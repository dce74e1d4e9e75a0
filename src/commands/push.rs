//! `push`: a folder as a package tree in a registry.

mod published;

use std::fs::File;
use std::io::{BufWriter, IntoInnerError, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use kubepkg_core::progress::Progress as _;
use kubepkg_core::reference::is_host;
use kubepkg_core::tree::{Artifact, Packed, TreeError, artifact, pack};
use kubepkg_core::{Descriptor, Digest, Reference};
use kubepkg_remote::{Content, Registry};
use serde::Serialize;

use self::published::{Published, published};
use crate::cli::{Format, Jobs, Reach, Reporting};
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::progress::Meter;
use crate::units::{count, size};

/// Flags of `push`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = LONG)]
pub struct Arguments {
    /// The folder whose files are the package tree
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Where it goes: registry, path and tag
    #[arg(value_name = "REF")]
    pub reference: String,
    /// Write into the artifact where its files come from, e.g. the URL of a git repository
    #[arg(long, value_name = "URL", value_parser = annotation)]
    pub source: Option<String>,
    /// Write into the artifact which state of the source that is, e.g. main@sha1:1f2e3d
    #[arg(long, value_name = "TEXT", value_parser = annotation)]
    pub revision: Option<String>,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
    /// How to reach the registry.
    #[command(flatten)]
    pub reach: Reach,
}

const EXAMPLE: &str = "Example:\n  kubepkg push web registry.example.com/packages/web:1.0.0-1";

const LONG: &str = "\
Packs the files of DIR into one artifact and pushes it. The answer on stdout is the reference with the \
digest, to be written into a package as sourceRef.url with oci:// before it. The same files give the \
same artifact on every machine: files in the order of their paths, no times and no owners, mode 0755 \
for what its owner may run and 0644 for the rest. Folders without files are left out. Links, devices, \
names that are not UTF-8, and more than 512 MiB are refused. Flux reads the artifact too.

What is published does not change: where the tag is there already, its content is compared. The same \
files: nothing is sent, and the answer is the digest that is there. That holds too, and is said, where \
they were published without the modes of executables. Other files: refused. So a second \
run is safe, and one that was interrupted is simply run again.

Pushing goes to the registry itself, never to mirrors. Credentials are those that docker login and the \
like have kept, or --registry-config. Nothing is written on this machine but an archive without a name \
in the folder for temporary files, gone when the command ends.

Example:
  kubepkg push web registry.example.com/packages/web:1.0.0-1 --source https://git.example.com/web \\
    --revision main@sha1:1f2e3d";

/// Longest text of --source and --revision: a URL fits, and it stays a small part of a manifest.
const MAX_ANNOTATION: usize = 1024;

/// A tree is three requests of weight.
const JOBS: Jobs = Jobs {
    jobs: 4,
    per_host: Some(4),
};

/// What was pushed, or was there.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    /// With tag and digest.
    reference: String,
    digest: Digest,
    /// Digest of the archive before compression.
    content: Digest,
    layer: Layer,
    files: usize,
    bytes: u64,
    /// Whether this run has pushed it.
    pushed: bool,
}

#[derive(Debug, Serialize)]
struct Layer {
    digest: Digest,
    size: u64,
}

/// Pushes the tree.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let reference = destination(&arguments.reference)?;
    for (flag, text) in [
        ("--source", &arguments.source),
        ("--revision", &arguments.revision),
    ] {
        if text.as_deref().is_some_and(has_login) {
            let why = "there is a user or password in this URL, and everybody who can read the artifact \
                       would read it";
            let error = CommandError::usage(why).at(flag);
            return Err(error
                .hint("give the URL without what is before its @")
                .into());
        }
    }
    // an unfit folder is refused before anybody is asked
    let (packed, content) = packed(&arguments.folder)?;
    let artifact = artifact(
        &packed,
        arguments.source.as_deref(),
        arguments.revision.as_deref(),
    );
    let registry = arguments.reach.client(None, &JOBS)?.registry();
    let again = "run the same command again; what was published by then is found there";
    let answer = interrupt::run(printer, again, async {
        if let Some(there) = published(&registry, &reference, &packed).await? {
            return Ok(answer_of(&reference, &packed, &there));
        }
        push(&registry, &reference, &packed, content, &artifact, printer).await?;
        let now = Published {
            digest: artifact.descriptor.digest,
            layer: packed.layer.clone(),
            content: packed.content,
        };
        Ok(Answer {
            pushed: true,
            ..answer_of(&reference, &packed, &now)
        })
    })?;
    let what = format!(
        "{} ({}), content {}",
        count(answer.files, "file", "files"),
        size(answer.bytes),
        answer.content
    );
    printer.say(&match answer.pushed {
        true => format!("pushed {what}"),
        false if answer.content == packed.content => format!("already there: {what}"),
        false => format!("already there, published without the modes of executables: {what}"),
    });
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&answer),
        Format::Table => printer.answer(&answer.reference),
    }
}

fn answer_of(reference: &Reference, packed: &Packed, there: &Published) -> Answer {
    Answer {
        reference: reference.pinned(there.digest).to_string(),
        digest: there.digest,
        content: there.content,
        layer: Layer {
            digest: there.layer.digest,
            size: there.layer.size,
        },
        files: packed.files,
        bytes: packed.bytes,
        pushed: false,
    }
}

/// The reference to push to. Registry and tag have to be said: what is meant by a short name
/// is not worth a guess when it is published.
fn destination(text: &str) -> anyhow::Result<Reference> {
    let wrong = |message: &str| {
        CommandError::usage(message)
            .at(kubepkg_core::error::shown(text))
            .hint("write it as registry.example.com/packages/web:1.0.0-1")
    };
    let bare = text.strip_prefix("oci://").unwrap_or(text);
    let Some((host, path)) = bare.split_once('/') else {
        return Err(wrong("this names no repository of a registry").into());
    };
    if !is_host(host) {
        return Err(wrong("this does not begin with the name of a registry").into());
    }
    let reference: Reference =
        bare.parse()
            .map_err(|error: kubepkg_core::reference::ParseReferenceError| {
                wrong(&error.why.to_string())
            })?;
    if reference.digest().is_some() {
        return Err(wrong("a digest is the answer of push; give a tag only").into());
    }
    if !path.rsplit('/').next().unwrap_or_default().contains(':') {
        return Err(wrong("this has no tag").into());
    }
    Ok(reference)
}

fn annotation(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > MAX_ANNOTATION || text.chars().any(char::is_control) {
        return Err(format!(
            "it has to be one line of at most {MAX_ANNOTATION} bytes"
        ));
    }
    Ok(text.to_owned())
}

/// Whether there is a URL in `text` that says who asks. The user of SSH alone is no secret, and
/// most such URLs have one (`git@`).
fn has_login(text: &str) -> bool {
    let mut parts = text.split("://");
    let mut before = parts.next().unwrap_or_default();
    for rest in parts {
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let ssh = before.to_ascii_lowercase().ends_with("ssh");
        if let Some((user, _)) = authority.rsplit_once('@')
            && (!ssh || user.contains(':'))
        {
            return true;
        }
        before = rest;
    }
    false
}

/// The packed folder, in a file that has no name and ends with this process.
fn packed(folder: &std::path::Path) -> anyhow::Result<(Packed, Content)> {
    let failed = |error| TreeError::Write(error);
    let mut out = BufWriter::new(tempfile::tempfile().map_err(failed)?);
    let packed = pack(folder, &mut out)?;
    out.flush().map_err(failed)?;
    let file: File = out.into_inner().map_err(IntoInnerError::into_error)?;
    let content = Content::File(Arc::new(file), packed.layer.size);
    Ok((packed, content))
}

async fn push(
    registry: &Registry,
    reference: &Reference,
    packed: &Packed,
    content: Content,
    artifact: &Artifact,
    printer: &Printer,
) -> anyhow::Result<()> {
    let meter = Arc::new(Sending(Meter::new(printer)));
    meter.0.begin("pushing", packed.layer.size);
    let blobs: [(&Descriptor, Content); 2] = [
        (&packed.layer, content),
        (
            &artifact.config_descriptor,
            Content::Bytes(artifact.config.into()),
        ),
    ];
    let progress: Arc<dyn kubepkg_remote::Progress> = meter.clone();
    for (blob, content) in blobs {
        registry
            .push_blob(reference, blob, &content, &progress)
            .await?;
    }
    meter.0.end();
    let kind = &artifact.descriptor.media_type;
    let bytes = artifact.manifest.clone().into();
    registry.push_manifest(reference, kind, bytes).await?;
    Ok(())
}

/// Bytes that are sent a second time count too, up to the total.
struct Sending(Meter);

impl kubepkg_remote::Progress for Sending {
    fn received(&self, bytes: u64) {
        self.0.advance(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_seen_in_a_url() {
        for text in [
            "https://token@git.example/web",
            "https://u:p@git.example/web",
            "git+https://u:p@git.example",
            "HTTPS://u@git.example?x",
            "https://a@b@git.example/",
            "ssh://git:secret@git.example/web",
            "see ssh://git@git.example/web and https://u:p@git.example/web",
        ] {
            assert!(has_login(text), "{text}");
        }
        for text in [
            "https://git.example/web@1?a=b@c#@",
            "https://git.example",
            "main@sha1:1f2e3d",
            "git@git.example:team/web",
            "ssh://git@git.example/web",
            "git+ssh://git@git.example/web",
            "",
        ] {
            assert!(!has_login(text), "{text}");
        }
    }

    #[test]
    fn registry_and_tag_have_to_be_said() {
        for (text, want) in [
            ("registry.example.com/a/b:1", "registry.example.com/a/b:1"),
            ("oci://localhost/a:1", "localhost/a:1"),
            ("h.example:5000/a:1.0.0-1", "h.example:5000/a:1.0.0-1"),
        ] {
            assert_eq!(destination(text).unwrap().to_string(), want);
        }
        let digest = Digest::sha256("x");
        for text in [
            "web:1",
            "team/web:1",
            "localhost:5000",
            "h.example/a",
            "h.example:5000/a",
            "h.example/A:1",
            "https://h.example/a:1",
            &format!("h.example/a:1@{digest}"),
            "",
        ] {
            assert!(destination(text).is_err(), "{text}");
        }
    }
}
