//! One chart. From a registry it keeps its manifest; from a classic Helm repository it gets
//! one that is computed from the archive, and the provenance file where there is one, so that
//! every mirror shows the same digest.

use std::collections::BTreeSet;

use bytes::Bytes;
use kubepkg_core::bundle::head::{Class, HeadChart};
use kubepkg_core::chart::{self, Attested, MAX_PROVENANCE, attested, check_config, oci_form_with};
use kubepkg_core::descriptor::Descriptor;
use kubepkg_core::digest::Digest;
use kubepkg_core::manifest::Manifest;
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::ChartPin;
use kubepkg_remote::{ChartFetched, OciChart, Provenance};

use super::{Collected, Scope, referrers};
use crate::CreateError;
use crate::unpackaged::Chart;

/// Fetches the chart of `pin` and compares it with its digest.
pub async fn pinned(
    scope: &Scope<'_>,
    pin: ChartPin,
    by: BTreeSet<PackageName>,
) -> Result<Collected, CreateError> {
    let client = scope.client;
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
    carried(scope, fetched, pin, by).await
}

/// Fetches a chart that no package pins: it is what its repository has now, which must at least
/// agree with the index of that.
pub async fn further(scope: &Scope<'_>, chart: Chart) -> Result<Collected, CreateError> {
    let client = scope.client;
    let fetched = client
        .chart(&chart.repository, &chart.name, &chart.version)
        .await?;
    if let Some(listed) = fetched.listed.filter(|listed| *listed != fetched.digest) {
        return Err(CreateError::ChartListed {
            chart: format!("{} {} of {}", chart.name, chart.version, chart.repository),
            listed: Box::new(listed),
            found: Box::new(fetched.digest),
        });
    }
    let pin = ChartPin {
        repository: chart.repository,
        name: chart.name,
        version: fetched.version.clone(),
        archive: fetched.digest,
    };
    carried(scope, fetched, pin, BTreeSet::new()).await
}

async fn carried(
    scope: &Scope<'_>,
    fetched: ChartFetched,
    pin: ChartPin,
    by: BTreeSet<PackageName>,
) -> Result<Collected, CreateError> {
    let name = format!("{} {} of {}", pin.name, pin.version, pin.repository);
    let mut collected = Collected::default();
    let manifest = match &fetched.oci {
        Some(oci) => {
            // the far side refuses it too, but only after it was carried there
            check_config(&oci.config, &fetched.archive).map_err(|source| CreateError::Chart {
                chart: name.clone(),
                source,
            })?;
            signed(scope, oci, &fetched.archive, &name, &mut collected).await?;
            from_registry(scope, oci, &mut collected).await?
        }
        None => {
            let beside = scope.client.provenance(&fetched).await?;
            let signed = provenance(beside, &fetched, &name, &mut collected.notes)?;
            computed(&fetched, &pin, signed, name, &mut collected)?
        }
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

/// Looks at the provenance file in a chart's manifest, so that one for other bytes is refused
/// before it was carried to where it is refused too.
async fn signed(
    scope: &Scope<'_>,
    oci: &OciChart,
    archive: &[u8],
    name: &str,
    into: &mut Collected,
) -> Result<(), CreateError> {
    let manifest = Manifest::parse(&oci.manifest, Some(&oci.descriptor.media_type)).ok();
    let parts = manifest.as_ref().and_then(|m| chart::parts(m).ok());
    let Some(file) = parts.and_then(|parts| parts.provenance) else {
        return Ok(());
    };
    let registry = scope.client.registry();
    let bytes = registry.blob(&oci.reference, file, MAX_PROVENANCE).await?;
    let archive = Digest::sha256(archive);
    if let Attested::Other(named) = attested(&bytes, &archive.hex()) {
        let place = format!("{}@{}", oci.reference.repository(), file.digest);
        return Err(for_others(name, place, archive, named));
    }
    into.have(file.digest, Class::Chart, bytes);
    Ok(())
}

fn for_others(name: &str, url: String, archive: Digest, named: BTreeSet<String>) -> CreateError {
    CreateError::Provenance {
        chart: name.to_owned(),
        url,
        archive: Box::new(archive),
        named: named.into_iter().collect(),
    }
}

async fn from_registry(
    scope: &Scope<'_>,
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
        into.want_of(&oci.reference, blob, class);
    }
    if let Some(config) = manifest.blobs().first() {
        into.have(config.digest, Class::Config, oci.config.clone());
    }
    let subjects = vec![oci.descriptor.digest];
    referrers::collect(scope, &oci.reference, subjects, into).await;
    Ok(oci.descriptor.clone())
}

/// The provenance file to carry with the chart `name`. One that is signed for other bytes than
/// its archive would only fail where somebody trusts in it; one that is none is left out.
fn provenance(
    beside: Provenance,
    fetched: &ChartFetched,
    name: &str,
    notes: &mut Vec<String>,
) -> Result<Option<Bytes>, CreateError> {
    let (url, bytes) = match beside {
        Provenance::None => return Ok(None),
        Provenance::Withheld { url, why } => {
            notes.push(format!(
                "chart {name} is carried without a provenance file: {url}: {why}"
            ));
            return Ok(None);
        }
        Provenance::File { url, bytes } => (url, bytes),
    };
    // Helm knows sha256 only, whatever the package pins the archive by
    let archive = Digest::sha256(&fetched.archive);
    match attested(&bytes, &archive.hex()) {
        Attested::Archive => Ok(Some(bytes)),
        Attested::Other(named) => Err(for_others(name, url, archive, named)),
        Attested::Nothing => {
            notes.push(format!(
                "chart {name} is carried with a provenance file that names no digest of its \
                 archive: {url}"
            ));
            Ok(Some(bytes))
        }
        Attested::NotSigned => {
            notes.push(format!(
                "chart {name} is carried without a provenance file: what {url} gives is no \
                 signed text"
            ));
            Ok(None)
        }
    }
}

fn computed(
    fetched: &ChartFetched,
    pin: &ChartPin,
    provenance: Option<Bytes>,
    name: String,
    into: &mut Collected,
) -> Result<Descriptor, CreateError> {
    let signed = provenance.map(|bytes| (Digest::sha256(&bytes), bytes));
    let beside = signed.as_ref().map(|(d, bytes)| (*d, bytes.len() as u64));
    let form = oci_form_with(&fetched.archive, pin.archive.algorithm(), beside);
    let form = form.map_err(|source| CreateError::Chart {
        chart: name,
        source,
    })?;
    into.have(
        form.manifest_descriptor.digest,
        Class::Manifest,
        form.manifest.into(),
    );
    into.have(
        form.config_descriptor.digest,
        Class::Config,
        form.config.into(),
    );
    if let Some((digest, bytes)) = signed {
        into.have(digest, Class::Chart, bytes);
    }
    Ok(form.manifest_descriptor)
}
