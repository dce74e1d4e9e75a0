//! `mirror gc`: take away what nothing in a store needs any more.

use std::path::PathBuf;
use std::time::Duration;

use kubepkg_core::time::Time;
use kubepkg_mirror::keeper::{Asked, ask};
use kubepkg_mirror::store::{Amount, Collected, Collecting, FileStore, OpenMode, Reason};

use super::{bucket_place, some_store, store_folder};
use crate::cli::{Format, Reporting};
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::Printer;
use crate::units::{count, parse_duration_or_zero, size, span};

/// Flags of `mirror gc`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg mirror gc --store /srv/mirror --dry-run",
    after_long_help = "Finds content that no name leads to, and names that no tag, index, \
                       signature, import to go back to, upload or push needs. What one run finds \
                       is removed by a later one, when the store was served for the grace in \
                       between and nobody asked for it meanwhile. So nothing goes that a client \
                       was told is here and that it is about to use. A manifest that was pushed by \
                       its digest alone stays, because a Deployment may name it so; --untagged \
                       takes it too.\n\nIn a bucket it is the same, but the \
                       grace is counted by clocks, whether a mirror is served or not, and no mirror is \
                       asked to do it: give with --grace what the mirrors on it have as \
                       gcGrace.\n\nA running server does the same every 6 hours (mirror serve \
                       --gc-every), and one on a folder is asked to do it now. Without one, serving time stands \
                       still: --grace 0s, run twice, frees everything at once, and is safe when \
                       nobody pushes.\n\nExample:\n  kubepkg mirror gc --store /srv/mirror"
)]
pub struct Arguments {
    /// The mirror's store: a folder on this host, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET")]
    pub store: PathBuf,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Also take manifests that no tag leads to
    #[arg(long)]
    pub untagged: bool,
    /// How long what is found stays, in time the store is served [default: that of the running
    /// server, else 1h]; needed for a bucket, where all time counts
    #[arg(long, value_name = "TIME", value_parser = parse_duration_or_zero)]
    pub grace: Option<Duration>,
    /// Form of the answer.
    #[command(flatten)]
    pub reporting: Reporting,
}

/// Who collects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The server on the folder.
    Server,
    /// This command, in a folder, where only the time it is served counts.
    Folder,
    /// This command, in a bucket, where all time counts.
    Bucket,
}

/// Collects.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let again = "nothing is lost; run the same command again";
    let (collected, by) = interrupt::run(printer, again, collect(&arguments))?;
    match arguments.reporting.output {
        Format::Json => {
            let mut answer = serde_json::to_value(&collected)?;
            answer["served"] = (by == By::Server).into();
            printer.answer_json(&answer)?;
        }
        Format::Table => {
            printer.answer(&told(&collected, by))?;
            for line in what_next(&collected, by) {
                printer.say(&line);
            }
        }
    }
    for record in &collected.damaged_records {
        printer.warn(&format!(
            "what was imported before commit {record} stays: its record cannot be read; see \
             kubepkg mirror check --store {}",
            arguments.store.display()
        ));
    }
    for (repository, manifest) in &collected.unreadable {
        printer.warn(&format!(
            "nothing is collected in {repository}: its manifest {manifest} cannot be read; see \
             kubepkg mirror check --store {}",
            arguments.store.display()
        ));
    }
    Ok(())
}

/// Has the server collect, or does it where there is none. Says which.
async fn collect(arguments: &Arguments) -> anyhow::Result<(Collected, By)> {
    let mut collecting = Collecting::new(Time::now());
    collecting.dry_run = arguments.dry_run;
    collecting.untagged = arguments.untagged;
    if let Some(grace) = arguments.grace {
        collecting.grace = grace;
    }
    if let Some(bucket) = bucket_place::open(&arguments.store)? {
        // what the mirrors on it have as theirs is not said in the bucket, and a shorter one would
        // take what a push through them was told is here
        if arguments.grace.is_none() && !arguments.dry_run {
            return Err(CommandError::usage(
                "how long what is found stays in this bucket is not said",
            )
            .at(arguments.store.display())
            .hint("give --grace: what the mirrors on it have as gcGrace, 1h unless it was set")
            .into());
        }
        let store = some_store::in_bucket(bucket).await?;
        let collected = store.collect(collecting).await?;
        let busy = || {
            CommandError::failed("another mirror collects in this bucket")
                .at(arguments.store.display())
                .hint("wait until it is done; one that was killed holds it up for three minutes")
        };
        return Ok((collected.ok_or_else(busy)?, By::Bucket));
    }
    store_folder::must_be_found(&arguments.store)?;
    let asked = Asked {
        dry_run: arguments.dry_run,
        untagged: arguments.untagged,
        grace: arguments.grace.map(|grace| grace.as_secs()),
        keep_imports: None,
    };
    let folder = arguments.store.clone();
    let answer = tokio::task::spawn_blocking(move || ask(&folder, &asked)).await?;
    let answer = answer.map_err(|error| {
        CommandError::io("the server on this store did not collect", error)
            .at(arguments.store.display())
    })?;
    if let Some(collected) = answer {
        return Ok((collected, By::Server));
    }
    let store = FileStore::open(&arguments.store, OpenMode::Writable)?;
    Ok((store.collect(collecting).await?, By::Folder))
}

fn told(collected: &Collected, by: By) -> String {
    let (found, removed) = match collected.dry_run {
        true => ("would be condemned", "would be removed"),
        false => ("condemned", "removed"),
    };
    let mut lines = vec![
        format!("{removed}: {}", amount(&collected.removed)),
        format!("{found}: {}", amount(&collected.condemned)),
    ];
    for (reason, waiting) in &collected.waiting {
        let why = match reason {
            Reason::Grace => {
                let left = span(Duration::from_secs(waiting.seconds));
                match by {
                    By::Bucket => format!("for another {left}"),
                    By::Server | By::Folder => {
                        format!("until the store was served for another {left}")
                    }
                }
            }
            Reason::Lease => "until an import or push that began before is over".to_owned(),
            Reason::Changed => "because its repository changed meanwhile".to_owned(),
        };
        lines.push(format!("waiting: {}, {why}", amount(&waiting.amount)));
    }
    if collected.kept_for_imports.contents > 0 {
        lines.push(format!(
            "kept: {} that no name needs, to go back to one of the last imports",
            amount(&collected.kept_for_imports)
        ));
    }
    if collected.sets > 0 {
        let sets = many(collected.sets, "old set", "old sets");
        lines.push(format!("{removed}: {sets} of repository files"));
    }
    if collected.records > 0 {
        let records = many(collected.records, "old record", "old records");
        lines.push(format!("{removed}: {records} of commits"));
    }
    lines.join("\n")
}

fn amount(amount: &Amount) -> String {
    let files = many(amount.contents, "file", "files");
    match (amount.contents, amount.names) {
        (0, 0) => "nothing".to_owned(),
        (0, names) => many(names, "name", "names"),
        (_, 0) => format!("{} in {files}", size(amount.bytes)),
        (_, names) => format!(
            "{} in {files}, {}",
            size(amount.bytes),
            many(names, "name", "names")
        ),
    }
}

fn many(n: u64, one: &str, many: &str) -> String {
    count(usize::try_from(n).unwrap_or(usize::MAX), one, many)
}

/// When to come back.
fn what_next(collected: &Collected, by: By) -> Vec<String> {
    let left = collected.waiting.get(&Reason::Grace);
    let seconds = match collected.condemned {
        Amount {
            names: 0,
            contents: 0,
            ..
        } => left.map(|waiting| waiting.seconds),
        _ => Some(collected.grace),
    };
    let Some(seconds) = seconds else {
        return match collected.waiting.is_empty() {
            true => Vec::new(),
            false => vec!["run it again when that is over".to_owned()],
        };
    };
    let mut lines = Vec::new();
    if collected.dry_run {
        lines.push("nothing was changed".to_owned());
    } else if seconds == 0 {
        lines.push("run it again to free what is condemned".to_owned());
    } else {
        lines.push(format!(
            "run it again after {} to free what is condemned",
            span(Duration::from_secs(seconds))
        ));
    }
    if by == By::Folder && seconds > 0 {
        lines.push(
            "no server runs on this store, and only the time it is served counts; when nobody \
             pushes, --grace 0s frees at once, run twice"
                .to_owned(),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use kubepkg_mirror::store::Waiting;

    use super::*;

    #[test]
    fn only_in_a_folder_the_time_a_store_is_served_counts() {
        let amount = Amount {
            names: 0,
            contents: 1,
            bytes: 10,
        };
        let mut collected = Collected {
            grace: 3600,
            condemned: amount,
            ..Collected::default()
        };
        let waiting = Waiting {
            amount,
            seconds: 60,
        };
        collected.waiting.insert(Reason::Grace, waiting);
        for (by, serving) in [(By::Folder, true), (By::Server, true), (By::Bucket, false)] {
            assert_eq!(told(&collected, by).contains("served"), serving);
            let next = what_next(&collected, by).join(" ");
            assert_eq!(next.contains("no server runs"), by == By::Folder, "{next}");
        }
    }
}
