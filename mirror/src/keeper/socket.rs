//! `gc.sock`: asks the process that keeps a store to collect. One line of JSON each way.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubepkg_core::store::StoreError;
use kubepkg_core::time::Time;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use super::Settings;
use crate::store::{Collected, Collecting, FileStore};

/// Name of the socket in the store's folder.
const NAME: &str = "gc.sock";

/// Longest question; ours are far shorter.
const LONGEST: u64 = 4096;

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Asked {
    /// Only say what would be done.
    pub dry_run: bool,
    /// Condemn manifests nobody tagged, too.
    pub untagged: bool,
    /// Seconds something stays condemned, where it is not what the server was told.
    pub grace: Option<u64>,
    /// Imports that can be gone back to, where it is not what the server was told.
    pub keep_imports: Option<usize>,
}

/// The answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Answer {
    Collected(Box<Collected>),
    Failed(String),
}

/// Path of the socket by which it is short enough for the system, however long that of the
/// store is; as long as the folder is open.
fn short(root: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd())).join(NAME)
}

/// Answers who asks, for ever.
pub(super) async fn answer(store: FileStore, settings: Settings) -> Result<(), StoreError> {
    let path = store.root().join(NAME);
    let failed = |action, source| StoreError::Io {
        action,
        path: path.clone(),
        source,
    };
    let root = File::open(store.root()).map_err(|e| failed("open", e))?;
    // only the process that keeps the store comes here, so what is there was left by a dead one
    match fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed("remove", e)),
        _ => {}
    }
    let listener = UnixListener::bind(short(&root)).map_err(|e| failed("listen on", e))?;
    store.dress(&path)?;
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot be asked to collect");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        // one after the other: so are collections
        if let Err(error) = one(&store, settings, stream).await {
            tracing::debug!(%error, "who asked for a collection went away");
        }
    }
}

async fn one(
    store: &FileStore,
    settings: Settings,
    stream: tokio::net::UnixStream,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(reader.take(LONGEST));
    let read = reader.read_line(&mut line);
    tokio::time::timeout(Duration::from_secs(5), read).await??;
    let answer = match serde_json::from_str::<Asked>(&line) {
        Err(error) => Answer::Failed(format!("the question is not understood: {error}")),
        Ok(asked) => {
            let collecting = Collecting {
                dry_run: asked.dry_run,
                untagged: asked.untagged,
                grace: asked.grace.map_or(settings.grace, Duration::from_secs),
                keep_imports: asked.keep_imports.unwrap_or(settings.keep_imports),
                at: Time::now(),
            };
            match store.collect(collecting).await {
                Ok(collected) => Answer::Collected(Box::new(collected)),
                Err(error) => Answer::Failed(whole(&error)),
            }
        }
    };
    let mut bytes = serde_json::to_vec(&answer)?;
    bytes.push(b'\n');
    writer.write_all(&bytes).await
}

/// An error with all its causes.
fn whole(error: &StoreError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Asks the process that serves the store at `root` to collect. `None` when none does. Waits
/// until it is done.
pub fn ask(root: &Path, asked: &Asked) -> io::Result<Option<Collected>> {
    let folder = File::open(root)?;
    let mut stream = match UnixStream::connect(short(&folder)) {
        Ok(stream) => stream,
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    let mut bytes = serde_json::to_vec(asked)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::other("the server ended before it was done"));
    }
    match serde_json::from_str(&line)? {
        Answer::Collected(collected) => Ok(Some(*collected)),
        Answer::Failed(why) => Err(io::Error::other(why)),
    }
}
