//! `repo index`: a signed index of the package files in a folder.

mod base;
mod charts;
mod sources;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubepkg_core::index::Index;
use kubepkg_core::index::build::{Draft, Relocation};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::time::Time;
use kubepkg_remote::Client;

use self::base::Base;
use crate::cli::{Force, Jobs, Reach, Trust};
use crate::error::CommandError;
use crate::interrupt;
use crate::output::{self, exists};
use crate::printer::Printer;
use crate::root_files;
use crate::signing::{SignKeys, Signers};
use crate::units::{count, local_time, parse_duration};

/// Flags of `repo index`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg repo index packages/ --sign-key release.key -o index.yaml",
    after_long_help = "Reads every .yaml and .yml file below DIR (names that begin with a dot \
                       apart) and takes the PackageSource documents. Charts that name no digest \
                       are fetched and pinned in the index; the files themselves stay as they are. \
                       With --merge every published version stays as it was, with its \
                       signatures, approvals and withdrawal; give the key the published index is \
                       signed with, or whoever could change it decides what you sign. One that is \
                       older than what this command accepted before is refused. \
                       What is written: the index and, with --sign-key, the signature beside it \
                       (.sig); with --merge also the memory of what was accepted \
                       (~/.local/state/kubepkg). An index that exists is replaced only with --force. Say with --url where the \
                       index will be served: that URL is what a repository is known by, also \
                       to those who make bundles from the file.\n\nExample:\n  \
                       kubepkg repo index packages/ --sign-key release.key --expires 90d \\\n      \
                       --url https://packages.example.com/index.yaml --public-key release.pub \
                       \\\n      --merge https://packages.example.com/index.yaml"
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
    /// Published index to continue, URL or file: its versions are kept; one that is not there
    /// yet is no error
    #[arg(long, value_name = "URL|FILE")]
    pub merge: Option<String>,
    /// Move charts and trees of published versions from one registry path to another
    /// (repeatable); each chart must be there with its published digest
    #[arg(long, value_name = "oci://OLD=oci://NEW", requires = "merge")]
    pub relocate: Vec<Relocation>,
    /// Fetch charts that name a digest too, and compare
    #[arg(long)]
    pub verify: bool,
    /// Who must have signed the index that is continued.
    #[command(flatten)]
    pub trust: Trust,
    /// Let these flags take the place of who was trusted for the published index before
    #[arg(help_heading = "Trust", long)]
    pub change_trust: bool,
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
    let again = "nothing was written; run the same command again";
    let made = interrupt::run(printer, again, async {
        let before = merge(&client, &arguments, &mut draft, printer).await?;
        let jobs = usize::from(arguments.jobs.jobs);
        let pinned = charts::pin(&client, &mut draft, jobs, printer).await?;
        if arguments.verify {
            let compared = charts::verify(&client, draft.charts(), jobs).await?;
            let charts = count(compared, "chart has", "charts have");
            printer.say(&format!("verified: {charts} the digest that is pinned"));
        }
        Ok(Made { before, pinned })
    })?;
    let generated = output::later_than(made.before.generated, printer);
    let expires = arguments
        .expires
        .map(|span| generated.plus(i64::try_from(span.as_secs()).unwrap_or(i64::MAX)));
    if made.before.expires.is_some() && expires.is_none() {
        printer.warn(
            "the published index expires and this one does not: say how long it is valid with \
             --expires",
        );
    }
    let pinned = made.pinned;
    let text = draft.to_yaml(generated, expires)?;
    match target {
        Target::Stdout => printer.raw_answer(&text),
        Target::Files { index, signature } => {
            root_files::check_signers(&index, expires, &keys, printer)?;
            if arguments.merge.is_none() {
                warn_of_loss(&index, &text, printer);
            }
            keys.write_index(&index, &signature, &text)?;
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

/// Says which published versions are gone when the index at `file` is replaced by `text`. What
/// does not read there publishes nothing.
fn warn_of_loss(file: &Path, text: &[u8], printer: &Printer) {
    let old = std::fs::read(file).ok();
    let old = old.and_then(|bytes| Index::read(&bytes).ok());
    let (Some(old), Ok(new)) = (old, Index::read(text)) else {
        return;
    };
    let listed = |index: &Index| -> BTreeSet<(String, String, u32)> {
        let packages = index.packages.iter();
        let of = packages.flat_map(|(name, package)| {
            let versions = package.versions.iter();
            versions.map(|one| (name.clone(), one.version.clone(), one.build))
        });
        of.collect()
    };
    let lost = listed(&old).difference(&listed(&new)).count();
    if lost > 0 {
        printer.warn(&format!(
            "{} of the index that is replaced {} not in the new one, with what was said of {} \
             (withdrawals, approvals): publish it only if that is meant; --merge {} keeps them",
            count(lost, "version", "versions"),
            if lost == 1 { "is" } else { "are" },
            if lost == 1 { "it" } else { "them" },
            file.display()
        ));
    }
}

fn served_at(text: &str) -> Result<CanonicalUrl, CommandError> {
    text.parse()
        .map_err(|error| CommandError::usage(format!("{error}")).at("--url"))
}

/// What came out before the index is written.
struct Made {
    before: Before,
    pinned: usize,
}

/// The times of the index that is continued.
#[derive(Default)]
struct Before {
    generated: Option<Time>,
    expires: Option<Time>,
}

/// Takes over what is published.
async fn merge(
    client: &Client,
    arguments: &Arguments,
    draft: &mut Draft,
    printer: &Printer,
) -> anyhow::Result<Before> {
    let Some(text) = &arguments.merge else {
        return Ok(Before::default());
    };
    let trust = &arguments.trust;
    let change = arguments.change_trust;
    let base = base::load(client, text, trust, change, printer).await?;
    let Base::Found { index, checked } = base else {
        printer.say(&format!("{text} does not exist yet: starting a new index"));
        return Ok(Before::default());
    };
    if !checked {
        printer.warn(&format!(
            "nobody vouches for {text}: whoever could change it decides what you publish and sign \
             now. Give the key it is signed with: --public-key release.pub"
        ));
    }
    let merged = draft.merge(&index, &arguments.relocate)?;
    let published: usize = index.packages.values().map(|p| p.versions.len()).sum();
    printer.say(&format!(
        "continuing {text}: {} unchanged, {} only in the base",
        count(published - merged.kept, "version", "versions"),
        merged.kept
    ));
    let moved = merged.moved.len();
    if moved > 0 {
        let jobs = usize::from(arguments.jobs.jobs);
        charts::verify(client, merged.moved, jobs).await?;
        printer.say(&format!(
            "{} elsewhere, with the published digests",
            count(moved, "chart is", "charts are")
        ));
    }
    Ok(Before {
        generated: index.generated,
        expires: index.expires,
    })
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
