//! Charts: packages pin only archives, so what surrounds an archive must follow from it. A
//! provenance file may be beside it: its own signature speaks for it.

use super::closure::Closure;
use super::fault::{ClosureError, Fault};
use crate::bundle::head::{Head, HeadChart};
use crate::chart::{MAX_ARCHIVE, MAX_CONFIG, check_computed, check_config};
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
        let checked = match chart.repository.scheme() {
            "oci" => check_config(&read(&blobs.config, MAX_CONFIG)?, &archive),
            // that the provenance file is there was seen when its manifest was walked
            _ => check_computed(&chart.manifest, &archive, &chart.archive, blobs.provenance),
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

pub(super) fn fault(chart: &HeadChart, why: &str) -> Fault {
    Fault::Chart {
        chart: format!("{} {}", chart.name, chart.version),
        archive: chart.archive,
        why: why.to_owned(),
    }
}
