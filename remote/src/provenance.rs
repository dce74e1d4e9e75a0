//! Provenance files: what Helm's `package --sign` puts beside an archive of a classic
//! repository, as `<archive>.prov`.

use std::fmt;
use std::io;

use bytes::Bytes;
use kubepkg_core::chart::MAX_PROVENANCE;
use kubepkg_core::location::redacted;

use crate::charts::ChartFetched;
use crate::client::Client;
use crate::error::{Fault, RemoteError};

/// Where a provenance file would be. Its address may carry a secret in its query.
#[derive(Clone)]
pub(crate) struct Beside(String);

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redacted(&self.0))
    }
}

impl Beside {
    /// Beside the archive at `address`, with the same query.
    pub(crate) fn of_archive(address: &str) -> Beside {
        let (path, rest) = match address.find(['?', '#']).filter(|_| is_web(address)) {
            Some(at) => address.split_at(at),
            None => (address, ""),
        };
        Beside(format!("{path}.prov{rest}"))
    }
}

/// In the path of a local file every character stands for itself.
fn is_web(address: &str) -> bool {
    !address.starts_with("file://")
}

/// What lies beside an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Nothing.
    None,
    /// A file.
    File {
        /// Where, redacted.
        url: String,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Something that asking again would not change, from a server that gave the archive: web
    /// sites and object stores have many words for what they do not have.
    Withheld {
        /// Where, redacted.
        url: String,
        /// What the answer is.
        why: String,
    },
}

impl Client {
    /// Fetches the provenance file of a chart of a classic repository. In a registry it is part
    /// of the chart's manifest.
    ///
    /// # Errors
    /// What went wrong on the way, which may be gone another time. That there is no such file,
    /// or none of at most [`MAX_PROVENANCE`] bytes, is an answer.
    pub async fn provenance(&self, chart: &ChartFetched) -> Result<Provenance, RemoteError> {
        let Some(Beside(address)) = &chart.provenance else {
            return Ok(Provenance::None);
        };
        let url = redacted(address);
        match self.fetch_at(address, MAX_PROVENANCE).await {
            Ok(fetched) => Ok(Provenance::File {
                url,
                bytes: fetched.bytes,
            }),
            Err(error) if error.is_not_found() => Ok(Provenance::None),
            Err(error) => match withheld(error.fault()) {
                Some(why) => Ok(Provenance::Withheld { url, why }),
                None => Err(error),
            },
        }
    }
}

/// In words, where `fault` is an answer that stays as it is. A server in trouble may have the
/// file: nobody is told then that there is none.
fn withheld(fault: &Fault) -> Option<String> {
    match fault {
        Fault::Denied { status: 403, .. } => Some(format!(
            "{fault}; object stores say so of what does not exist, too"
        )),
        // 408 (and 429, which is a fault of its own) pass
        Fault::Status {
            status: 400..=499 | 501,
            ..
        } if fault.is_passing() => None,
        Fault::Denied { .. }
        | Fault::Status {
            status: 400..=499 | 501,
            ..
        }
        | Fault::Redirect { .. }
        | Fault::TooLarge { .. } => Some(fault.to_string()),
        Fault::File(error) if error.kind() == io::ErrorKind::IsADirectory => {
            Some("it is a folder".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_beside_its_archive() {
        for (archive, want) in [
            (
                "https://a.example/b-1.tgz",
                "https://a.example/b-1.tgz.prov",
            ),
            (
                "https://a.example/b-1.tgz?token=x.y",
                "https://a.example/b-1.tgz.prov?token=x.y",
            ),
            ("file:///srv/a?b/c#1.tgz", "file:///srv/a?b/c#1.tgz.prov"),
        ] {
            assert_eq!(Beside::of_archive(archive).0, want);
        }
        let secret = Beside::of_archive("https://a.example/b.tgz?token=secret");
        assert!(!format!("{secret:?}").contains("secret"));
    }
}
