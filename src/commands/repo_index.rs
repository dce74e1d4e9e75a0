//! `repo index`: a signed index of the package files in a folder.

mod sources;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubepkg_core::index::build::Draft;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::time::Time;
use kubepkg_remote::Client;
use tokio::task::JoinSet;

use crate::cli::{Force, Jobs, Reach};
use crate::error::CommandError;
use crate::interrupt;
use crate::output::{self, Pending, exists};
use crate::printer::Printer;
use crate::signing::{SignKeys, Signers};
use crate::units::{count, local_time, parse_duration};

/// Flags of `repo index`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo index packages/ --sign-key release.key -o index.yaml",
    after_long_help = "Reads every .yaml and .yml file below DIR (names that begin with a dot \
                       apart) and takes the PackageSource documents. Charts that name no digest \
                       are fetched and pinned in the index; the files themselves stay as they are. \
                       What is written: the index and, with --sign-key, the signature beside it \
                       (.sig). An index that exists is replaced only with --force. Say with --url where the \
                       index will be served: that URL is what a repository is known by, also \
                       to those who make bundles from the file.\n\nExample:\n  \
                       kubepkg repo index packages/ --sign-key release.key --expires 90d \\\n      \
                       --url https://packages.example.com/index.yaml"
)]
pub struct Arguments {
    /// Folder with package files
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The index to write; - for stdout, unsigned
    #[arg(short, long, value_name = "FILE", default_value = "index.yaml")]
    pub output: PathBuf,
    /// Who signs.
    #[command(flatten)]
    pub sign: SignKeys,
    /// How long the index is valid, e.g. 90d or 12h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub expires: Option<Duration>,
    /// URL the index will be served at; it is written into the index, which then counts for no
    /// other
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Fetch charts through this registry, which holds them under MIRROR/HOST/PATH
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
    /// How to reach others.
    #[command(flatten)]
    pub reach: Reach,
    /// How hard to work.
    #[command(flatten)]
    pub jobs: Jobs,
    /// Overwriting.
    #[command(flatten)]
    pub force: Force,
}

/// Where the index goes.
enum Target {
    Stdout,
    Files { index: PathBuf, signature: PathBuf },
}

/// Makes the index.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    // everything that can be refused is refused before a chart is fetched
    let target = target(&arguments)?;
    let keys = arguments.sign.read(printer)?;
    let client = arguments
        .reach
        .client(arguments.mirror.as_deref(), &arguments.jobs)?;
    let mut draft = sources::collect(&arguments.folder)?;
    if let Some(url) = &arguments.url {
        draft.set_repository(served_at(url)?);
    }
    let jobs = usize::from(arguments.jobs.jobs);
    let again = "nothing was written; run the same command again";
    let pinned = interrupt::run(printer, again, pin(&client, &mut draft, jobs, printer))?;
    let generated = Time::now();
    let expires = arguments
        .expires
        .map(|span| generated.plus(i64::try_from(span.as_secs()).unwrap_or(i64::MAX)));
    let text = draft.to_yaml(generated, expires)?;
    match target {
        Target::Stdout => printer.raw_answer(&text),
        Target::Files { index, signature } => {
            write(&index, &signature, &text, &keys)?;
            tell(&index, &signature, &draft, pinned, &keys, printer);
            if let Some(time) = expires {
                printer.say(&format!("valid until {}", local_time(time)));
            }
            if arguments.url.is_none() {
                printer.say(
                    "note: the index does not say where it is served; --url URL makes it the \
                     same repository for everybody",
                );
            }
            Ok(())
        }
    }
}

fn target(arguments: &Arguments) -> Result<Target, CommandError> {
    if arguments.output.as_os_str() == "-" {
        if arguments.sign.is_empty() {
            return Ok(Target::Stdout);
        }
        return Err(
            CommandError::usage("a signature needs a file beside the index")
                .hint("give the index a name with -o"),
        );
    }
    let index = arguments.output.clone();
    let mut name = OsString::from(&index);
    name.push(".sig");
    let signature = PathBuf::from(name);
    if !arguments.force.force {
        output::refuse_existing(&index)?;
    }
    if exists(&signature)? {
        if arguments.sign.is_empty() {
            return Err(CommandError::failed(
                "the signature that is there would not fit the new index",
            )
            .at(signature.display())
            .hint("sign with --sign-key, or remove the old signature first"));
        }
        if !arguments.force.force {
            output::refuse_existing(&signature)?;
        }
    }
    Ok(Target::Files { index, signature })
}

fn served_at(text: &str) -> Result<CanonicalUrl, CommandError> {
    text.parse()
        .map_err(|error| CommandError::usage(format!("{error}")).at("--url"))
}

/// Fetches charts that have no digest and pins them. Gives their number.
async fn pin(
    client: &Client,
    draft: &mut Draft,
    jobs: usize,
    printer: &Printer,
) -> anyhow::Result<usize> {
    let mut waiting = draft.unpinned_charts().into_iter();
    let mut running = JoinSet::new();
    let mut pinned = 0;
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
        let Some(done) = running.join_next().await else {
            return Ok(pinned);
        };
        let (used, fetched) = done?;
        let fetched = fetched.map_err(|error| {
            anyhow::Error::from(error)
                .context(format!("cannot pin a chart of {}", used.used_by.join(", ")))
        })?;
        draft.pin(&used.chart, &fetched.digest)?;
        pinned += 1;
        printer.say(&format!(
            "pinned {} {} at {} (from {})",
            used.chart.name, used.chart.version, fetched.digest, fetched.url
        ));
    }
}

/// Writes both files whole, and gives them their names one right after the other: the
/// signature first, so that whoever reads the new index finds its signature.
fn write(index: &Path, signature: &Path, text: &[u8], keys: &Signers) -> Result<(), CommandError> {
    let pending_index = Pending::write(index, text, 0o644)?;
    if let Some(signatures) = keys.signature_file(text) {
        Pending::write(signature, signatures.as_bytes(), 0o644)?.replace()?;
    }
    pending_index.replace()
}

fn tell(
    index: &Path,
    signature: &Path,
    draft: &Draft,
    pinned: usize,
    keys: &Signers,
    printer: &Printer,
) {
    let mut line = format!(
        "wrote {}: {}, {}",
        index.display(),
        count(draft.packages(), "package", "packages"),
        count(draft.versions(), "version", "versions"),
    );
    if pinned > 0 {
        line.push_str(&format!(", {} pinned", count(pinned, "chart", "charts")));
    }
    printer.say(&line);
    if keys.is_empty() {
        printer.warn("the index is not signed; who uses it must say --allow-unsigned");
    } else {
        printer.say(&format!(
            "signed {} with key {}",
            signature.display(),
            keys.ids()
        ));
    }
}
