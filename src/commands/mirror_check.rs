//! `mirror check`: whether everything in a store is as it should be.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use kubepkg_mirror::store::check::{CheckSettings, Checked, Fault, Finding, Sufferer};
use kubepkg_mirror::store::{FileStore, OpenMode};
use serde_json::{Value, json};

use super::{bucket_place, some_store, store_folder};
use crate::cli::{Format, Reporting};
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::{Printer, printable};
use crate::progress::Meter;
use crate::units::{count, parse_size, size, span};

/// Flags of `mirror check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror check --store /srv/mirror",
    after_long_help = "Reads every file of the store once and compares it with the digest it is \
                       named by, follows all names, and reads all records. It may run beside a \
                       server and pushes. Content is read around the page cache, so what nodes \
                       pull stays in memory. Each finding says the file, who suffers and what to \
                       do; the exit code is 1 when anything is wrong. Content that no name leads \
                       to is no fault: collection takes it.\n\nWithout --repair nothing is \
                       written. With it damaged content is moved to the folder quarantine/ and \
                       counts as not here: nodes get \"not found\" instead of wrong bytes, and a \
                       push or an import that carries it brings it back. Damaged files of names are \
                       made anew from the commit records, repository files from the content. \
                       Nothing is thrown away, and a second run finds what is still to be \
                       brought. In a bucket records and content are read from its server; --repair \
                       gives damaged content up, for all mirrors on it.\n\nExample:\n  kubepkg mirror check --store /srv/mirror --repair \
                       --limit-rate 50MiB"
)]
pub struct Arguments {
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Set damaged content aside and mend what can be mended
    #[arg(long)]
    pub repair: bool,
    /// How many threads hash [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: Option<u16>,
    /// Read at most so much in a second, e.g. 50MiB
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub limit_rate: Option<u64>,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Says to a thread that nobody waits for it any more.
pub struct StopOnDrop(pub Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let bucket = bucket_place::open(&arguments.store)?;
    if bucket.is_none() {
        store_folder::must_be_found(&arguments.store)?;
    }
    let mut settings = CheckSettings {
        rate: arguments.limit_rate,
        ..CheckSettings::default()
    };
    if let Some(jobs) = arguments.jobs {
        settings.jobs = usize::from(jobs);
    }
    let mode = match arguments.repair {
        true => OpenMode::OpenOrCreate,
        false => OpenMode::ReadOnly,
    };
    let began = Instant::now();
    let meter = Meter::new(printer);
    let stop = Arc::new(AtomicBool::new(false));
    let again = "nothing is lost; run the same command again";
    let checked = interrupt::run(printer, again, async {
        if let Some(bucket) = bucket {
            let store = some_store::in_bucket(bucket).await?;
            let mut checked = store.check(&settings, &meter).await?;
            if arguments.repair {
                store.give_up_found(&mut checked).await?;
            }
            return Ok(checked);
        }
        let _stop = StopOnDrop(Arc::clone(&stop));
        let folder = arguments.store.clone();
        let (stop, repair) = (Arc::clone(&stop), arguments.repair);
        let work = tokio::task::spawn_blocking(move || {
            let store = FileStore::open(folder, mode)?;
            let mut checked = store.check(&settings, &meter, &stop)?;
            if repair {
                store.repair(&mut checked)?;
            }
            anyhow::Ok(checked)
        });
        work.await?
    })?;
    match arguments.reporting.output {
        Format::Json => printer.answer_json(&as_json(&checked))?,
        Format::Table => {
            for finding in &checked.findings {
                let told = told(finding);
                printer.answer(&store_folder::typeable(&told, &arguments.store))?;
            }
            printer.say(&format!(
                "read {} in {} as of commit {} in {}; {}",
                size(checked.content.bytes),
                count(usize::try_from(checked.content.files)?, "file", "files"),
                checked.sequence,
                span(began.elapsed()),
                unreferenced(&checked),
            ));
        }
    }
    let open = checked
        .findings
        .iter()
        .filter(|finding| finding.is_open())
        .count();
    match open {
        0 => Ok(()),
        _ => Err(not_sound(&arguments, &checked, open).into()),
    }
}

fn not_sound(arguments: &Arguments, checked: &Checked, open: usize) -> CommandError {
    let what = format!(
        "{} not as it should be",
        count(open, "file is", "files are")
    );
    let error = CommandError::failed(what).at(arguments.store.display());
    let open = || checked.findings.iter().filter(|finding| finding.is_open());
    let aside = match arguments.repair {
        true => checked
            .findings
            .iter()
            .any(|finding| finding.repaired.is_some()),
        // nothing is left to mend
        false => open().all(|finding| finding.fault == Fault::Quarantined),
    };
    match (aside, arguments.repair) {
        (true, _) => error.hint(
            "push what was set aside again, or import a bundle that carries it; until then clients \
             are told that it is not here",
        ),
        (false, true) => error,
        (false, false) => error.hint(format!(
            "mend what can be mended: kubepkg mirror check --store {} --repair",
            arguments.store.display()
        )),
    }
}

fn unreferenced(checked: &Checked) -> String {
    match checked.unreferenced.files {
        0 => "every file is needed".to_owned(),
        n => format!(
            "{} in {} that no name leads to, which is no fault",
            size(checked.unreferenced.bytes),
            count(usize::try_from(n).unwrap_or(usize::MAX), "file", "files"),
        ),
    }
}

/// Tags shown of one repository.
const SHOWN: usize = 10;

fn told(finding: &Finding) -> String {
    let mut text = format!(
        "{}: {}\n  {}",
        finding.fault.as_str(),
        finding.path.display(),
        printable(&finding.detail)
    );
    for Sufferer { name, tags } in &finding.suffers {
        let tags = match tags.len() {
            0 => String::new(),
            n if n > SHOWN => format!(": {} and {} more", tags[..SHOWN].join(", "), n - SHOWN),
            _ => format!(": {}", tags.join(", ")),
        };
        text.push_str(&format!("\n  needed by {name}{tags}"));
    }
    match &finding.repaired {
        Some(repaired) => text.push_str(&format!("\n  repaired: {repaired}")),
        None => text.push_str(&format!("\n  to do: {}", finding.advice)),
    }
    text
}

fn as_json(checked: &Checked) -> Value {
    let finding = |finding: &Finding| {
        let suffers: Vec<Value> = finding
            .suffers
            .iter()
            .map(|s| json!({"name": s.name, "tags": s.tags}))
            .collect();
        json!({
            "fault": finding.fault.as_str(),
            "path": finding.path.display().to_string(),
            "digest": finding.digest,
            "detail": finding.detail,
            "suffers": suffers,
            "advice": finding.advice,
            "repaired": finding.repaired,
        })
    };
    let files = |count: &kubepkg_mirror::store::check::Count| json!({"files": count.files, "bytes": count.bytes});
    json!({
        "sequence": checked.sequence,
        "findings": checked.findings.iter().map(finding).collect::<Vec<_>>(),
        "content": files(&checked.content),
        "unreferenced": files(&checked.unreferenced),
        "repositories": checked.repositories,
        "manifests": checked.manifests,
        "sparse": checked.sparse,
    })
}
