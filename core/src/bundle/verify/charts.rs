//! Charts: packages pin only archives, so what surrounds an archive must follow from it. A
//! provenance file may be beside it. Its own signature speaks for it, and Helm checks that; but
//! it has to be small, a signed text, and not signed for other bytes than the archive.

use super::closure::Closure;
use super::fault::{ClosureError, Fault};
use crate::bundle::head::{Head, HeadChart};
use crate::chart::{
    Attested, MAX_ARCHIVE, MAX_CONFIG, MAX_PROVENANCE, attested, check_computed, check_config,
};
use crate::digest::Digest;

/// Checks that manifest and config of every chart are those of its archive. `read` gives the
/// bytes of a blob, checked against its digest, or refuses one with more bytes than it is told.
/// All faults are collected; an error of `read` ends it at once.
pub fn charts<E: From<ClosureError>>(
    head: &Head,
    closure: &Closure,
    mut read: impl FnMut(&Digest, u64) -> Result<Vec<u8>, E>,
) -> Result<(), E> {
    let mut faults = Vec::new();
    for chart in &head.charts {
        let node = closure.manifests.get(&chart.manifest.digest);
        let Some(Ok(blobs)) = node.map(|node| &node.chart) else {
            faults.push(fault(chart, "it is not in the bundle"));
            continue;
        };
        let archive = read(&chart.archive, MAX_ARCHIVE)?;
        let pushed = chart.repository.scheme() == "oci";
        if let Some((file, size)) = blobs.provenance {
            // what it says is not asked of a file that nobody would read
            let why = match size <= MAX_PROVENANCE {
                true => wrong(&read(&file, MAX_PROVENANCE)?, &archive, pushed),
                false => Some(format!(
                    "its provenance file {file} is larger than {MAX_PROVENANCE} bytes"
                )),
            };
            faults.extend(why.map(|why| fault(chart, &why)));
        }
        let checked = match pushed {
            true => check_config(&read(&blobs.config, MAX_CONFIG)?, &archive),
            // that the provenance file is there was seen when its manifest was walked
            false => check_computed(&chart.manifest, &archive, &chart.archive, blobs.provenance),
        };
        if let Err(error) = checked {
            faults.push(fault(chart, &error.to_string()));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(E::from(ClosureError { faults }))
    }
}

/// What is wrong with the provenance file of `archive`. What somebody `pushed` to a registry is
/// carried as it is, also where it is no provenance file at all: that deceives nobody.
fn wrong(file: &[u8], archive: &[u8], pushed: bool) -> Option<String> {
    match attested(file, &Digest::sha256(archive).hex()) {
        Attested::Other(named) => Some(format!(
            "its provenance file is signed for other bytes: it names sha256 {}",
            named.into_iter().collect::<Vec<_>>().join(", ")
        )),
        Attested::NotSigned if !pushed => {
            Some("what it has as provenance file is no signed text".to_owned())
        }
        Attested::Archive | Attested::Nothing | Attested::NotSigned => None,
    }
}

pub(super) fn fault(chart: &HeadChart, why: &str) -> Fault {
    Fault::Chart {
        chart: format!("{} {}", chart.name, chart.version),
        archive: chart.archive,
        why: why.to_owned(),
    }
}
