//! What a look-up works with: where it asks, what is wanted, and what is known already.

use std::collections::HashMap;

use kubepkg_core::descriptor::Platform;
use kubepkg_core::digest::Digest;
use kubepkg_core::reference::Reference;
use kubepkg_remote::{Client, RawManifest, Registry, RemoteError};

/// Manifests that were fetched while tags were looked up, by repository and digest: they are
/// not asked for again, since every pull counts.
pub type Fetched = HashMap<(String, Digest), RawManifest>;

/// The surroundings of one look-up.
pub struct Scope<'a> {
    /// Web servers and chart repositories.
    pub client: &'a Client,
    /// Registries.
    pub registry: Registry,
    /// The platforms wanted; empty: all.
    pub platforms: &'a [Platform],
    /// Layers that may not be distributed are carried too.
    pub foreign_layers: bool,
    /// What is here already.
    pub fetched: Fetched,
}

impl Scope<'_> {
    /// The manifest behind `reference`.
    pub async fn manifest(&self, reference: &Reference) -> Result<RawManifest, RemoteError> {
        let digest = reference.digest().copied();
        let known = digest.and_then(|digest| self.fetched.get(&(reference.repository(), digest)));
        match known {
            Some(raw) => Ok(raw.clone()),
            None => self.registry.manifest(reference).await,
        }
    }
}
