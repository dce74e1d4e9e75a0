//! Charts, from Helm repositories (`https://`, `http://`, `file:///`) and registries
//! (`oci://`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, header};
use kubepkg_core::chart;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::location::{CanonicalUrl, redacted};
use kubepkg_core::manifest::Manifest;
use kubepkg_core::{Descriptor, Digest, Reference};
use tokio::sync::OnceCell;
use url::Url;

use crate::client::Client;
use crate::error::{Fault, RemoteError};
use crate::fetch::{Fetched, web_url};
use crate::helm::{HelmIndex, MAX_HELM_INDEX, Read};
use crate::provenance::Beside;

/// Largest chart archive: what the existing program accepts.
pub const MAX_CHART: u64 = 64 << 20;

/// One chart.
#[derive(Clone, Debug)]
pub struct ChartFetched {
    /// The repository it was asked of.
    pub repository: CanonicalUrl,
    /// Its name as asked for.
    pub name: String,
    /// Its version as the repository spells it (a leading `v` may differ from what was
    /// asked for).
    pub version: String,
    /// The archive, exactly as it came.
    pub archive: Bytes,
    /// Digest of the archive.
    pub digest: Digest,
    /// The digest its repository's index gives the archive, where it does. Nobody signs it.
    pub listed: Option<Digest>,
    /// Where the archive came from, redacted.
    pub url: String,
    /// What surrounds the archive in a registry; `None` from a Helm repository.
    pub oci: Option<OciChart>,
    /// Where the provenance file would be; `None` from a registry.
    pub(crate) provenance: Option<Beside>,
}

/// A chart's manifest and config in a registry.
#[derive(Clone, Debug)]
pub struct OciChart {
    /// The reference by tag.
    pub reference: Reference,
    /// Media type, digest and size of the manifest.
    pub descriptor: Descriptor,
    /// The manifest, exactly as it came.
    pub manifest: Bytes,
    /// The config, exactly as it came.
    pub config: Bytes,
}

/// Indexes of Helm repositories: many charts come from one, and some weigh 20 MiB.
pub(crate) type HelmIndexes =
    Mutex<BTreeMap<CanonicalUrl, Arc<OnceCell<Arc<(HelmIndex, String)>>>>>;

impl Client {
    /// Fetches version `version` of the chart `name` from `repository`.
    ///
    /// In a Helm repository the version is found by its exact text, else with or without a
    /// leading `v`. In a registry it is the tag, with `_` for `+`. The caller compares the
    /// digest with what it expects.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when there is no such chart or version; more than [`MAX_CHART`]
    /// or [`MAX_HELM_INDEX`] bytes; or what went wrong on the way.
    pub async fn chart(
        &self,
        repository: &CanonicalUrl,
        name: &str,
        version: &str,
    ) -> Result<ChartFetched, RemoteError> {
        match repository.scheme() {
            "oci" => self.oci_chart(repository, name, version).await,
            _ => self.helm_chart(repository, name, version).await,
        }
    }

    async fn helm_chart(
        &self,
        repository: &CanonicalUrl,
        name: &str,
        version: &str,
    ) -> Result<ChartFetched, RemoteError> {
        let loaded = self.helm_index(repository).await?;
        let (index, base) = &*loaded;
        let place = format!("chart {name} {version} of {repository}");
        let wrong = |fault| RemoteError::new(&*place, fault);
        let entry = index
            .find(name, version)
            .map_err(|why| wrong(Fault::NoChart(why)))?;
        let (fetched, address) = self.archive(&place, base, &entry.urls).await?;
        Ok(ChartFetched {
            repository: repository.clone(),
            name: name.to_owned(),
            version: entry.version.clone(),
            digest: Digest::sha256(&fetched.bytes),
            archive: fetched.bytes,
            listed: entry.digest,
            url: fetched.url,
            oci: None,
            provenance: Some(Beside::of_archive(&address)),
        })
    }

    /// The archive at the first of `addresses` that has it, and where that was.
    async fn archive(
        &self,
        place: &str,
        base: &str,
        addresses: &[String],
    ) -> Result<(Fetched, String), RemoteError> {
        let mut failed = None;
        for address in addresses {
            let fetched = match resolve(base, address) {
                Ok(url) => match self.fetch_at(&url, MAX_CHART).await {
                    Ok(fetched) => Ok((fetched, url)),
                    Err(error) => Err(error),
                },
                Err(why) => Err(RemoteError::new(place, Fault::Shape(why))),
            };
            match fetched {
                Ok(fetched) => return Ok(fetched),
                Err(error) => {
                    tracing::debug!(place, %error, "asking the next address of the archive");
                    failed.get_or_insert(error);
                }
            }
        }
        let none = || RemoteError::new(place, Fault::Shape("it has no address".to_owned()));
        Err(failed.unwrap_or_else(none))
    }

    /// The index of `repository` and the URL that its addresses are relative to. Fetched
    /// once, by whoever comes first.
    async fn helm_index(
        &self,
        repository: &CanonicalUrl,
    ) -> Result<Arc<(HelmIndex, String)>, RemoteError> {
        let cell = {
            let mut indexes = self
                .inner
                .helm
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(indexes.entry(repository.clone()).or_default())
        };
        cell.get_or_try_init(|| self.load_helm_index(repository))
            .await
            .cloned()
    }

    async fn load_helm_index(
        &self,
        repository: &CanonicalUrl,
    ) -> Result<Arc<(HelmIndex, String)>, RemoteError> {
        if let Some(found) = self.mirrored_helm_index(repository).await? {
            return Ok(found);
        }
        let url = format!("{}/index.yaml", repository.as_str().trim_end_matches('/'));
        let index = match repository.scheme() {
            "file" => {
                let fetched = self.fetch_at(&url, MAX_HELM_INDEX).await?;
                let place = url.clone();
                read_index(place, move || HelmIndex::read(&fetched.bytes)).await?
            }
            _ => self.streamed_index(&url).await?,
        };
        Ok(Arc::new((index, url)))
    }

    /// The index at `url`, read while it comes in. Where it is not written as tools write it,
    /// it is fetched once more and read as a whole.
    async fn streamed_index(&self, url: &str) -> Result<HelmIndex, RemoteError> {
        let parsed = web_url(url)?;
        let place = redacted(url);
        let packed = HeaderValue::from_static("gzip");
        let login = self.login(parsed).await;
        let mut login = login.with(header::ACCEPT_ENCODING, packed);
        let mut whole = false;
        loop {
            let http = &self.inner.http;
            match http.receive_index(&place, login.ask(), whole).await {
                Ok(Read::Index(index)) => {
                    login.accepted();
                    return Ok(index);
                }
                Ok(Read::Odd) if whole => break,
                Ok(Read::Odd) => whole = true,
                Err(error) => login.refused(error).await?,
            }
        }
        let why = "it is no Helm index".to_owned();
        Err(RemoteError::new(place, Fault::Shape(why)))
    }

    /// The index of `repository` from a kubepkg mirror that has charts of it.
    async fn mirrored_helm_index(
        &self,
        repository: &CanonicalUrl,
    ) -> Result<Option<Arc<(HelmIndex, String)>>, RemoteError> {
        let Some(mirror) = &self.inner.mirror else {
            return Ok(None);
        };
        if repository.scheme() == "file" {
            return Ok(None);
        }
        let http = &self.inner.http;
        let url = mirror
            .beside(http, "charts", repository, "index.yaml")
            .await?;
        let Some(url) = url else {
            return Ok(None);
        };
        let place = format!("{repository} (through {})", mirror.shown());
        let ask = mirror.ask(url.clone());
        match http.get_asked(&place, &ask, MAX_HELM_INDEX).await {
            Ok(whole) => {
                let index = read_index(place, move || HelmIndex::read(&whole.bytes)).await?;
                Ok(Some(Arc::new((index, url.into()))))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn oci_chart(
        &self,
        repository: &CanonicalUrl,
        name: &str,
        version: &str,
    ) -> Result<ChartFetched, RemoteError> {
        let place = format!("chart {name} {version} of {repository}");
        let wrong = |fault| RemoteError::new(&*place, fault);
        let path = repository.path().trim_matches('/');
        let separator = if path.is_empty() { "" } else { "/" };
        // OCI tags know no `+`; Helm writes `_` for it.
        let tag = version.replace('+', "_");
        let text = format!("{}/{path}{separator}{name}:{tag}", repository.host());
        let reference: Reference = text.parse().map_err(|e| wrong(Fault::Reference(e)))?;
        let registry = self.registry();
        let manifest = registry.manifest(&reference).await.map_err(|error| {
            match error.kind() == Kind::NotFound {
                true => wrong(Fault::NoChart(format!("{reference} does not exist"))),
                false => error,
            }
        })?;
        let parsed = Manifest::parse(&manifest.bytes, Some(&manifest.media_type))
            .map_err(|e| wrong(Fault::Manifest(e)))?;
        let chart::Parts {
            config, archive, ..
        } = chart::parts(&parsed).map_err(|why| wrong(Fault::Shape(why.to_owned())))?;
        let descriptor = manifest.descriptor();
        let pinned = reference.pinned(descriptor.digest);
        let (config_bytes, archive_bytes) = tokio::try_join!(
            registry.blob(&pinned, config, chart::MAX_CONFIG),
            registry.blob(&pinned, archive, MAX_CHART),
        )?;
        Ok(ChartFetched {
            repository: repository.clone(),
            name: name.to_owned(),
            version: version.to_owned(),
            archive: archive_bytes,
            digest: archive.digest,
            url: format!("oci://{pinned}"),
            listed: None,
            oci: Some(OciChart {
                reference,
                descriptor,
                manifest: manifest.bytes,
                config: config_bytes,
            }),
            provenance: None,
        })
    }
}

/// Reads an index: with tens of thousands of versions that is seconds of work, which must not
/// hold up other downloads.
async fn read_index<T: Send + 'static>(
    place: String,
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, RemoteError> {
    let read = tokio::task::spawn_blocking(read).await;
    let why = match read {
        Ok(Ok(read)) => return Ok(read),
        Ok(Err(why)) => why,
        Err(panic) => panic.to_string(),
    };
    Err(RemoteError::new(place, Fault::Shape(why)))
}

/// The address of an archive that `index`, itself at `base`, gives as `address`.
fn resolve(base: &str, address: &str) -> Result<String, String> {
    let shown = || redacted(address);
    let absolute = match Url::parse(address) {
        Ok(url) => Some(url),
        Err(url::ParseError::RelativeUrlWithoutBase) => None,
        Err(e) => return Err(format!("its address \"{}\" is no URL: {e}", shown())),
    };
    match (absolute, base.strip_prefix("file://")) {
        (Some(url), _) if matches!(url.scheme(), "https" | "http") => Ok(url.into()),
        // Only who reads from this machine anyway may be led to its files.
        (Some(url), Some(_)) if url.scheme() == "file" => Ok(address.to_owned()),
        (Some(url), _) => Err(format!("its address is a {}:// URL", url.scheme())),
        (None, Some(_)) if address.starts_with('/') => Ok(format!("file://{address}")),
        (None, Some(_)) => {
            let folder = base.rfind('/').map_or(base, |at| &base[..=at]);
            Ok(format!("{folder}{address}"))
        }
        (None, None) => match Url::parse(base).and_then(|base| base.join(address)) {
            Ok(url) => Ok(url.into()),
            Err(e) => Err(format!("its address \"{}\" is no URL: {e}", shown())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_an_index() {
        let web = "https://example.com/charts/index.yaml";
        let local = "file:///srv/my charts/index.yaml";
        for (base, address, want) in [
            (web, "a-1.tgz", "https://example.com/charts/a-1.tgz"),
            (web, "/a-1.tgz", "https://example.com/a-1.tgz"),
            (
                web,
                "https://cdn.example/a.tgz?t=1",
                "https://cdn.example/a.tgz?t=1",
            ),
            (local, "a-1.tgz", "file:///srv/my charts/a-1.tgz"),
            (local, "/srv/a.tgz", "file:///srv/a.tgz"),
            (
                local,
                "https://cdn.example/a.tgz",
                "https://cdn.example/a.tgz",
            ),
        ] {
            assert_eq!(resolve(base, address).as_deref(), Ok(want));
        }
        for address in ["file:///etc/passwd", "oci://host/chart", "https://"] {
            assert!(resolve(web, address).is_err(), "{address}");
        }
    }
}
