//! Charts of an index: fetched to be pinned, or to be compared with their pins.

use kubepkg_core::digest::Digest;
use kubepkg_core::index::build::{Draft, DraftChart};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_remote::Client;
use tokio::task::JoinSet;

use crate::error::CommandError;
use crate::printer::Printer;

/// A chart, the digest it has where it is served, and its URL there.
struct Looked {
    used: DraftChart,
    digest: Digest,
    url: String,
}

/// Fetches `charts`, so many at once, and hands each to `then`.
async fn each(
    client: &Client,
    charts: Vec<DraftChart>,
    jobs: usize,
    doing: &str,
    then: &mut dyn FnMut(Looked) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let mut waiting = charts.into_iter();
    let mut running = JoinSet::new();
    let mut done = 0;
    loop {
        while running.len() < jobs {
            let Some(used) = waiting.next() else { break };
            let repository: CanonicalUrl = used.chart.repository.parse().map_err(|error| {
                CommandError::usage(format!("{error}")).at(used.used_by.join(", "))
            })?;
            let client = client.clone();
            running.spawn(async move {
                let chart = &used.chart;
                let fetched = client.chart(&repository, &chart.name, &chart.version).await;
                (used, fetched)
            });
        }
        let Some(ended) = running.join_next().await else {
            return Ok(done);
        };
        let (used, fetched) = ended?;
        let fetched = fetched.map_err(|error| {
            anyhow::Error::from(error).context(format!(
                "cannot {doing} a chart of {}",
                used.used_by.join(", ")
            ))
        })?;
        then(Looked {
            used,
            digest: fetched.digest,
            url: fetched.url.to_string(),
        })?;
        done += 1;
    }
}

/// Fetches charts that have no digest and pins them. Gives their number.
pub async fn pin(
    client: &Client,
    draft: &mut Draft,
    jobs: usize,
    printer: &Printer,
) -> anyhow::Result<usize> {
    let open = draft.unpinned_charts();
    let mut pin = |looked: Looked| {
        let chart = &looked.used.chart;
        draft.pin(chart, &looked.digest)?;
        printer.say(&format!(
            "pinned {} {} at {} (from {})",
            chart.name, chart.version, looked.digest, looked.url
        ));
        Ok(())
    };
    each(client, open, jobs, "pin", &mut pin).await
}

/// Fetches pinned charts and compares. Gives their number.
pub async fn verify(
    client: &Client,
    charts: Vec<DraftChart>,
    jobs: usize,
) -> anyhow::Result<usize> {
    let mut compare = |looked: Looked| {
        let chart = &looked.used.chart;
        if chart.digest == looked.digest.to_string() {
            return Ok(());
        }
        Err(CommandError::refused(format!(
            "chart {} {} is pinned at {} and has {} where it is served",
            chart.name, chart.version, chart.digest, looked.digest
        ))
        .at(format!(
            "{} ({})",
            looked.url,
            looked.used.used_by.join(", ")
        ))
        .hint("find out who changed a published chart; a new chart needs a new version")
        .into())
    };
    each(client, charts, jobs, "verify", &mut compare).await
}
