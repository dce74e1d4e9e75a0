//! `images`: the container images that charts and manifests run.

mod answer;
mod fetch;
mod pin;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kubepkg_images::helm::{Helm, Options};
use kubepkg_images::inputs::read_text;
use kubepkg_images::{Inputs, Report, Rules, Search};

use crate::cli::{Jobs, Reach};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::units::count;
use crate::{interrupt, places};

/// Flags of `images`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = LONG)]
pub struct Arguments {
    /// Charts (folder or .tgz), recipes, manifests, folders of them; - for manifests on stdin
    #[arg(value_name = "CHART|DIR|FILE|-", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Form of the answer on stdout; images is the block for a package, pinned by digest; with
    /// json, errors are JSON on stderr too
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: Form,
    /// Render charts with the values in this file (repeatable)
    #[arg(short = 'f', long, value_name = "FILE")]
    pub values: Vec<PathBuf>,
    /// Render charts with this value (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Render charts with this value, which is text (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set_string: Vec<String>,
    /// Version of Kubernetes that charts are rendered for [default: Helm's]
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,
    /// API that the cluster is taken to have (repeatable)
    #[arg(long, value_name = "GROUP/VERSION")]
    pub api_version: Vec<String>,
    /// Namespace that charts are rendered for
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Name of the release that charts are rendered for
    #[arg(long, value_name = "NAME")]
    pub release_name: Option<String>,
    /// The Helm to use, 4.0.0 or newer [default: helm on PATH]
    #[arg(long, value_name = "FILE")]
    pub helm: Option<PathBuf>,
    /// Also render charts with each boolean value turned over, and each word that templates compare a value with, one at a time
    #[arg(long)]
    pub explore: bool,
    /// Fetch nothing that recipes and packages name, and leave tags in -o images
    #[arg(long)]
    pub offline: bool,
    /// How to reach others.
    #[command(flatten)]
    pub reach: Reach,
    /// How hard to work.
    #[command(flatten)]
    pub jobs: Jobs,
}

/// Forms the answer can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Table,
    /// For programs; only ever added to.
    Json,
    /// The `images:` block of a package.
    Images,
}

const EXAMPLE: &str = "Example:\n  kubepkg images web-1.2.0.tgz --set metrics.enabled=true";

const LONG: &str = "\
Shows which images are run, where each is named and how that is known: container (a container or \
image volume), listed (by a package), field (of a kind that is known, or called image), \
environment, argument, annotation (of the chart), text (a whole reference somewhere else). Below \
stand images that values name and nothing runs with these values, with what would include them.

Charts are rendered by the real Helm, in a private copy with a private home and without network: \
charts they include must be in them. Hooks, tests and definitions count. --explore renders once \
for each boolean value turned over, each API templates ask for and each word they compare a value with, on all processors, and tells images that only appear then. A document that \
cannot be read is told, and the exit code is 1.

Charts and files that a recipe or package names are fetched and compared with their digest; \
--offline leaves them out and says so. What is trusted: nothing in a chart; rendering is bounded in time, memory and size. What is written: \
a temporary folder, removed at the end. With -o images registries are asked what each tag points \
at now; --offline leaves that out. A second run gives the same, unless tags have moved.

Example:
  kubepkg images web-1.2.0.tgz --set metrics.enabled=true
  kubepkg images web-1.2.0.tgz manifests/ -o images
  kubepkg images web-1.2.0.tgz --explore";

/// Larger than any file of values, in bytes.
const MAX_VALUES: u64 = 16 * 1024 * 1024;

/// Finds images.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let options = Options {
        values: read_values(&arguments.values)?,
        set: arguments.set.clone(),
        set_string: arguments.set_string.clone(),
        kube_version: arguments.kube_version.clone(),
        api_versions: arguments.api_version.clone(),
        namespace: arguments.namespace.clone(),
        release_name: arguments.release_name.clone(),
    };
    let mut inputs = read_inputs(&arguments.inputs)?;
    fetch::wanted(&arguments, &mut inputs, printer)?;
    let helm = match inputs.charts.is_empty() {
        true => None,
        false => Some(Helm::find(arguments.helm.as_deref(), &places::programs())?),
    };
    // Outside the work, so that it is removed also when that is interrupted.
    let scratch = tempfile::Builder::new()
        .prefix("kubepkg-images.")
        .tempdir()
        .map_err(|error| CommandError::write("cannot make a temporary folder", error))?;
    let folder = scratch.path().to_owned();
    let explore = arguments.explore;
    let again = "nothing was changed; run the same command again";
    let (report, errors) = interrupt::run(printer, again, async move {
        let work = tokio::task::spawn_blocking(move || {
            let search = Search {
                rules: &Rules::built_in(),
                options: &options,
                explore,
                scratch: &folder,
            };
            search.run(inputs, helm.as_ref())
        });
        Ok(work.await??)
    })?;
    warn(&report, printer);
    let mut errors = errors.into_iter();
    match (errors.next(), errors.len()) {
        // there is nothing to show but the error
        (Some(error), 0) if report.images.is_empty() && report.possible.is_empty() => {
            return Err(error.into());
        }
        (first, more) => {
            answer(&arguments, &report, printer)?;
            match (first, more) {
                (Some(error), 0) => return Err(error.into()),
                (Some(_), _) => {
                    let failed = count(report.failed.len(), "chart does", "charts do");
                    return Err(CommandError::failed(format!("{failed} not render")).into());
                }
                (None, _) => {}
            }
        }
    }
    match report.unread.len() {
        0 => Ok(()),
        n => Err(CommandError::failed(format!(
            "{} be read, so images may be missing above",
            count(n, "place cannot", "places cannot")
        ))
        .hint("the warnings say which and why")
        .into()),
    }
}

fn answer(arguments: &Arguments, report: &Report, printer: &Printer) -> anyhow::Result<()> {
    match arguments.output {
        Form::Json => printer.answer_json(report),
        Form::Table => {
            if report.images.is_empty() {
                printer.say("no image was found");
            }
            match answer::text(report) {
                text if text.is_empty() => Ok(()),
                text => printer.answer(&text),
            }
        }
        Form::Images => {
            let images = match arguments.offline {
                true => report.references().into_iter().collect(),
                false => pin::all(arguments, report, printer)?,
            };
            if !report.possible.is_empty() {
                printer.say(&format!(
                    "not in this block: {} that may be run with other values (-o table shows them)",
                    count(report.possible.len(), "image", "images")
                ));
            }
            printer.answer(&answer::block(&images)?)
        }
    }
}

/// What the user must know besides the answer.
fn warn(report: &Report, printer: &Printer) {
    for outside in &report.outside {
        printer.warn(&format!(
            "{}: not looked into: {} ({})",
            outside.source, outside.what, outside.hint
        ));
    }
    for chart in &report.schemas_skipped {
        printer.warn(&format!(
            "{chart}: values are not checked, as their schema refers to something outside of the chart"
        ));
    }
    for unread in &report.unread {
        printer.warn(&format!(
            "{}: line {}: {}",
            unread.source, unread.line, unread.why
        ));
    }
    if report.failed.len() > 1 {
        for failed in &report.failed {
            printer.warn(&format!("{}: {}", failed.chart, failed.why));
        }
    }
}

fn read_inputs(paths: &[PathBuf]) -> anyhow::Result<Inputs> {
    let mut inputs = Inputs::default();
    for path in paths {
        if path == Path::new("-") {
            let text = read_text("standard input", std::io::stdin().lock())?;
            inputs.add_text("standard input", text);
        } else {
            inputs.add(path)?;
        }
    }
    Ok(inputs)
}

/// Values are read here: Helm would also fetch what looks like a URL.
fn read_values(paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, CommandError> {
    use std::io::Read as _;
    let read = |path: &PathBuf| {
        let failed = |error| CommandError::io("cannot read the values", error).at(path.display());
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MAX_VALUES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        match bytes.len() as u64 > MAX_VALUES {
            true => Err(
                CommandError::usage("this file is too large to be one of values")
                    .at(path.display()),
            ),
            false => Ok(bytes),
        }
    };
    paths.iter().map(read).collect()
}
