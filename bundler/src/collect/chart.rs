//! One chart. From a registry it keeps its manifest; from a classic Helm repository it gets
//! one that is computed from the archive alone, so that every mirror shows the same digest.

use std::collections::BTreeSet;

use bytes::Bytes;
use kubepkg_core::bundle::head::{Class, HeadChart};
use kubepkg_core::chart::{check_config, oci_form_as};
use kubepkg_core::descriptor::{Descriptor, media_type};
use kubepkg_core::digest::{Algorithm, Digest};
use kubepkg_core::manifest::Manifest;
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::ChartPin;
use kubepkg_remote::{ChartFetched, Client, OciChart, Registry};

use super::{Collected, referrers};
use crate::CreateError;

/// Fetches the chart of `pin` and compares it with its digest.
pub async fn collect(
    client: &Client,
    registry: &Registry,
    pin: ChartPin,
    by: BTreeSet<PackageName>,
) -> Result<Collected, CreateError> {
    let fetched = client
        .chart(&pin.repository, &pin.name, &pin.version)
        .await?;
    let name = format!("{} {} of {}", pin.name, pin.version, pin.repository);
    if fetched.digest != pin.archive && !pin.archive.matches(&fetched.archive) {
        return Err(CreateError::ChartDigest {
            chart: name,
            pinned: Box::new(pin.archive),
            found: Box::new(fetched.digest),
        });
    }
    let mut collected = Collected::default();
    let manifest = match &fetched.oci {
        Some(oci) => {
            // the far side refuses it too, but only after it was carried there
            check_config(&oci.config, &fetched.archive).map_err(|source| CreateError::Chart {
                chart: name,
                source,
            })?;
            from_registry(registry, oci, &mut collected).await?
        }
        None => computed(&fetched, pin.archive.algorithm(), name, &mut collected)?,
    };
    collected.have(pin.archive, Class::Chart, fetched.archive);
    collected.charts.push(HeadChart {
        repository: pin.repository,
        name: pin.name,
        version: pin.version,
        archive: pin.archive,
        manifest,
        packages: by.into_iter().collect(),
    });
    Ok(collected)
}

async fn from_registry(
    registry: &Registry,
    oci: &OciChart,
    into: &mut Collected,
) -> Result<Descriptor, CreateError> {
    let manifest = Manifest::parse(&oci.manifest, Some(&oci.descriptor.media_type));
    let manifest = manifest.map_err(|source| CreateError::Manifest {
        reference: Box::new(oci.reference.clone()),
        source,
    })?;
    into.have(oci.descriptor.digest, Class::Manifest, oci.manifest.clone());
    for (n, blob) in manifest.blobs().into_iter().enumerate() {
        let class = if n == 0 { Class::Config } else { Class::Chart };
        into.want(&oci.reference, blob, class);
    }
    if let Some(config) = manifest.blobs().first() {
        into.have(config.digest, Class::Config, oci.config.clone());
    }
    referrers::collect(registry, &oci.reference, &oci.descriptor.digest, into).await;
    Ok(oci.descriptor.clone())
}

fn computed(
    fetched: &ChartFetched,
    algorithm: Algorithm,
    name: String,
    into: &mut Collected,
) -> Result<Descriptor, CreateError> {
    let form = oci_form_as(&fetched.archive, algorithm).map_err(|source| CreateError::Chart {
        chart: name,
        source,
    })?;
    let manifest = Bytes::from(form.manifest);
    let config = Bytes::from(form.config);
    let digest = Digest::sha256(&manifest);
    let descriptor = Descriptor::new(media_type::OCI_MANIFEST, digest, manifest.len() as u64);
    into.have(digest, Class::Manifest, manifest);
    into.have(Digest::sha256(&config), Class::Config, config);
    Ok(descriptor)
}
