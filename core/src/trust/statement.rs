//! What is signed besides files: one version of a package by who answers for it, and by who
//! approves it. The type stands first in both, so that neither passes for the other.

use serde::Serialize;

use crate::Digest;
use crate::api::go_json;
use crate::time::Time;

/// A version of a package as others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Name of the package.
    pub package: &'a str,
    /// Version, as written.
    pub version: &'a str,
    /// Build, 0 where there is none.
    pub build: u32,
    /// Digest of the spec.
    pub digest: &'a Digest,
}

#[derive(Serialize)]
struct Form<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    package: &'a str,
    version: &'a str,
    build: u32,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Time>,
}

impl Named<'_> {
    /// The bytes a delegated key signs.
    pub fn version_statement(&self) -> Vec<u8> {
        self.statement("kubepkg.dev/package-version", None)
    }

    /// The bytes of an approval given at `time`.
    pub fn approval_statement(&self, time: Time) -> Vec<u8> {
        self.statement("kubepkg.dev/package-approval", Some(time))
    }

    fn statement(&self, kind: &'static str, time: Option<Time>) -> Vec<u8> {
        go_json(&Form {
            kind,
            package: self.package,
            version: self.version,
            build: self.build,
            digest: self.digest.to_string(),
            time,
        })
    }
}
