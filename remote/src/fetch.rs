//! One file by URL, bounded.

use std::io;
use std::path::Path;

use bytes::Bytes;
use kubepkg_core::location::{CanonicalUrl, redacted};
use tokio::io::AsyncReadExt;
use url::Url;

use crate::client::Client;
use crate::error::{Fault, RemoteError, shown_url};
use crate::http::Whole;

/// A file as it came.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its bytes, never decompressed or converted.
    pub bytes: Bytes,
    /// Where it came from in the end (after redirects, or from the mirror), redacted.
    pub url: String,
}

impl From<Whole> for Fetched {
    fn from(whole: Whole) -> Fetched {
        Fetched {
            bytes: whole.bytes,
            url: shown_url(&whole.url),
        }
    }
}

impl Client {
    /// Fetches the repository file `url` (`https://`, `http://` or `file:///`) of at most
    /// `limit` bytes.
    ///
    /// Where a kubepkg mirror is configured and holds the file's folder, it comes from
    /// there. The first file of a folder decides for the whole folder: fetch the index
    /// before its signature.
    ///
    /// # Errors
    /// [`Kind::NotFound`](kubepkg_core::Kind) when it does not exist;
    /// [`RemoteError::has_changed_meanwhile`] when a mirror has newer files of this folder than
    /// those fetched before, which have to be fetched again then; else what went wrong.
    pub async fn fetch(&self, url: &CanonicalUrl, limit: u64) -> Result<Fetched, RemoteError> {
        if let Some(mirror) = &self.inner.mirror
            && url.scheme() != "file"
            && let Some(found) = mirror.repository_file(&self.inner.http, url, limit).await?
        {
            return Ok(found);
        }
        self.fetch_at(url.as_str(), limit).await
    }

    /// Fetches from exactly this URL, which may carry a query.
    pub(crate) async fn fetch_at(&self, url: &str, limit: u64) -> Result<Fetched, RemoteError> {
        let place = redacted(url);
        // The path is taken as it is: file URLs are made from paths here, and a `%` in a
        // file name stands for itself.
        if let Some(path) = url.strip_prefix("file://") {
            return match read_file(Path::new(path), limit).await {
                Ok(bytes) => Ok(Fetched { bytes, url: place }),
                Err(fault) => Err(RemoteError::new(path, fault)),
            };
        }
        let parsed = web_url(url)?;
        let whole = self.get_logged_in(&place, parsed, limit).await?;
        Ok(whole.into())
    }
}

/// A URL that can be asked for over HTTP.
pub(crate) fn web_url(url: &str) -> Result<Url, RemoteError> {
    let wrong = |why| RemoteError::new(redacted(url), Fault::Url(why));
    match Url::parse(url) {
        Ok(parsed) if matches!(parsed.scheme(), "https" | "http") => Ok(parsed),
        Ok(parsed) => {
            let why = format!("a file cannot be fetched by {}://", parsed.scheme());
            Err(wrong(why))
        }
        Err(e) => Err(wrong(e.to_string())),
    }
}

async fn read_file(path: &Path, limit: u64) -> Result<Bytes, Fault> {
    let file = tokio::fs::File::open(path).await.map_err(Fault::File)?;
    if file.metadata().await.map_err(Fault::File)?.is_dir() {
        return Err(Fault::File(io::ErrorKind::IsADirectory.into()));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .await
        .map_err(Fault::File)?;
    if bytes.len() as u64 > limit {
        return Err(Fault::TooLarge { limit });
    }
    Ok(bytes.into())
}
