//! Tags into digests: what each tag points at now.

use std::sync::Arc;

use kubepkg_core::Reference;
use kubepkg_images::Report;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Arguments;
use crate::interrupt;
use crate::printer::Printer;

/// The images found, each with the digest its registry gives; those that have one stay.
pub fn all(
    arguments: &Arguments,
    report: &Report,
    printer: &Printer,
) -> anyhow::Result<Vec<Reference>> {
    let client = arguments.reach.client(None, &arguments.jobs)?;
    let slots = Arc::new(Semaphore::new(usize::from(arguments.jobs.jobs)));
    let again = "nothing was changed; run the same command again";
    interrupt::run(printer, again, async {
        let mut asked = JoinSet::new();
        let mut pinned = Vec::new();
        for image in report.references() {
            if image.digest().is_some() {
                pinned.push(image);
                continue;
            }
            let (registry, slots) = (client.registry(), Arc::clone(&slots));
            asked.spawn(async move {
                let slot = slots.acquire_owned().await;
                let found = registry.resolve(&image).await;
                drop(slot);
                found.map(|descriptor| image.pinned(descriptor.digest))
            });
        }
        let mut failed = Vec::new();
        while let Some(answer) = asked.join_next().await {
            match answer? {
                Ok(image) => pinned.push(image),
                Err(error) => failed.push(error),
            }
        }
        let mut failed = failed.into_iter();
        let Some(first) = failed.next() else {
            pinned.sort();
            return Ok(pinned);
        };
        for other in failed {
            printer.warn(&other.to_string());
        }
        Err(first.into())
    })
}
