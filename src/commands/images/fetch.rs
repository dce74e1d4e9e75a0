//! What recipes and packages are made of, fetched.

use kubepkg_core::Digest;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_images::inputs::{MAX_MANIFESTS, Wanted, read_text};
use kubepkg_images::{Chart, Inputs};
use kubepkg_remote::Client;

use super::Arguments;
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;

/// Fetches what `inputs` want and adds it to them; with `--offline` it is only named.
pub fn wanted(arguments: &Arguments, inputs: &mut Inputs, printer: &Printer) -> anyhow::Result<()> {
    let mut wanted = std::mem::take(&mut inputs.wanted);
    wanted.sort();
    wanted.dedup();
    if wanted.is_empty() {
        return Ok(());
    }
    if arguments.offline {
        inputs.outside.extend(wanted.iter().map(Wanted::outside));
        return Ok(());
    }
    let client = arguments.reach.client(None, &arguments.jobs)?;
    let again = "nothing was changed; run the same command again";
    interrupt::run(printer, again, async {
        for one in &wanted {
            match one {
                Wanted::Chart { .. } => inputs.charts.push(chart(&client, one).await?),
                // what lies in an archive is chosen by a path, which is for the build to know
                Wanted::File { url, .. } if is_archive(url) => inputs.outside.push(one.outside()),
                Wanted::File { url, .. } => {
                    let text = file(&client, one).await?;
                    inputs.add_text(url, text);
                }
            }
        }
        // what a fetched file names in turn
        let further = std::mem::take(&mut inputs.wanted);
        inputs.outside.extend(further.iter().map(Wanted::outside));
        Ok(())
    })
}

fn is_archive(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    [".tgz", ".tar.gz", ".zip"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// The canonical URL, of a scheme that leaves this machine: whoever wrote the recipe has no claim
/// on its files.
fn url(text: &str, source: &str) -> Result<CanonicalUrl, CommandError> {
    let wrong = |why: String| CommandError::usage(why).at(source);
    let url: CanonicalUrl = text.parse().map_err(|error| wrong(format!("{error}")))?;
    match url.scheme() {
        "file" => Err(wrong(format!(
            "a recipe or package cannot name the file {url}"
        ))),
        _ => Ok(url),
    }
}

/// What was fetched is what the recipe was written with.
fn compare(wanted: &Wanted, given: &str, got: Digest) -> Result<(), CommandError> {
    if given.is_empty() || given.trim_start_matches("sha256:") == got.hex() {
        return Ok(());
    }
    let message = format!(
        "{} has the digest {got}, and {given} is written there",
        wanted.what()
    );
    Err(CommandError::refused(message)
        .at(wanted.outside().source)
        .hint("find out who changed it; what is published does not change"))
}

async fn chart(client: &Client, wanted: &Wanted) -> anyhow::Result<Chart> {
    let Wanted::Chart {
        source,
        repository,
        name,
        version,
        digest,
    } = wanted
    else {
        anyhow::bail!("no chart is wanted");
    };
    let repository = url(repository, source)?;
    let fetched = client.chart(&repository, name, version).await?;
    compare(wanted, digest, fetched.digest)?;
    Ok(Chart::from_archive(&wanted.what(), &fetched.archive)?)
}

async fn file(client: &Client, wanted: &Wanted) -> anyhow::Result<String> {
    let Wanted::File {
        source,
        url: text,
        sha256,
    } = wanted
    else {
        anyhow::bail!("no file is wanted");
    };
    let fetched = client.fetch(&url(text, source)?, MAX_MANIFESTS).await?;
    compare(wanted, sha256, Digest::sha256(&fetched.bytes))?;
    Ok(read_text(text, fetched.bytes.as_ref())?)
}
