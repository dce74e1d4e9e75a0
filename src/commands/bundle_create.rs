//! `bundle create`: chosen packages and everything they need, in one file.

mod beside;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use kubepkg_bundler::{Created, Options, create};
use kubepkg_core::descriptor::Platform;
use kubepkg_core::digest::Digest;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::lock::Lock;
use kubepkg_core::name::PackageName;
use kubepkg_core::reference::Reference;
use kubepkg_core::resolve::{Request, Variants};
use kubepkg_core::time::Time;
use kubepkg_core::trust::Remembered;

use crate::cache::Cache;
use crate::cli::{Force, Jobs, Reach, Sources, package_request};
use crate::error::CommandError;
use crate::interrupt;
use crate::printer::{Printer, table};
use crate::progress::Meter;
use crate::signing::SignKeys;
use crate::state::State;
use crate::summary;
use crate::units::{size, span};
use beside::Beside;

/// Flags of `bundle create`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLE,
    after_long_help = LONG
)]
pub struct Arguments {
    /// Packages, each with an optional variant and constraint: web, cert-manager@~1.21
    #[arg(value_name = "PACKAGE[:VARIANT][@CONSTRAINT]")]
    pub packages: Vec<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Carry the requirements of this variant only (repeatable)
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Take exactly the versions in this lock (`plan --lock`), or fail; without PACKAGE, all
    /// of them
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Carry optional requirements too
    #[arg(long)]
    pub with_optional: bool,
    /// Accept that this package pins no images, because it needs none (repeatable)
    #[arg(long, value_name = "PACKAGE")]
    pub no_images: Vec<PackageName>,
    /// Accept images named by tag only: carry what the tag points at now
    #[arg(long)]
    pub allow_unpinned_images: bool,
    /// Leave out signatures and other attachments that cannot be carried; the bundle names them
    #[arg(long)]
    pub allow_missing_referrers: bool,
    /// Carry images for this platform only (repeatable): linux/amd64. All that they are for when
    /// not given
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", value_parser = platform)]
    pub platform: Vec<Platform>,
    /// Carry layers too that may not be distributed (Windows), from where their images say
    #[arg(long)]
    pub foreign_layers: bool,
    /// What is carried without packages.
    #[command(flatten)]
    pub beside: Beside,
    /// Who signs the bundle.
    #[command(flatten)]
    pub keys: SignKeys,
    /// Which image gets a tag that two packages pin differently (repeatable)
    #[arg(long, value_name = "REF=DIGEST")]
    pub tag: Vec<TagChoice>,
    /// Fetch OCI content through this registry, which holds it under MIRROR/HOST/PATH
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
    /// Where packages come from.
    #[command(flatten)]
    pub sources: Sources,
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

const EXAMPLE: &str = "Example:\n  kubepkg bundle create web -o site.tar --repo \
                       https://packages.example.com/index.yaml --public-key release.pub";

const LONG: &str = "\
What is trusted: the indexes, when one of the given public keys signed them; all other content \
by the digests the indexes pin. Nothing vouches for what is named with --image, --images-from, \
--chart or --file: import takes it with --allow-unpinned-images, or when the bundle was signed \
(--sign-key, or `bundle sign` later) by a key given there with --bundle-key. What is written: FILE, which appears whole or not at all, a \
file beside it while the work goes on, and the memory of what was accepted \
(~/.local/state/kubepkg), so that an older index is refused next time. A second run with the same \
FILE needs --force; it needs no key for a repository that was used before. The index file of a repository that was made with `repo index --url URL` counts as the repository at URL.

Example:
  kubepkg bundle create web -o site.tar --repo https://packages.example.com/index.yaml \\
      --public-key release.pub
  kubepkg bundle create -o images.tar --images-from images.txt --platform linux/amd64 \\
      --sign-key site.key";

/// `REF=DIGEST`.
#[derive(Clone, Debug)]
pub struct TagChoice {
    tag: Reference,
    digest: Digest,
}

impl FromStr for TagChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tag, digest) = text.split_once('=').ok_or("write it as REF=sha256:…")?;
        let tag: Reference = tag.parse().map_err(|e| format!("{e}"))?;
        let digest = digest.parse().map_err(|e| format!("{e}"))?;
        match tag.digest() {
            None => Ok(TagChoice { tag, digest }),
            Some(_) => Err("the reference has a tag and no digest of its own".to_owned()),
        }
    }
}

/// Creates the bundle.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let state = State::of_user(printer);
    let remembered = state.read()?;
    let options = options(&arguments, remembered, printer)?;
    let signers = arguments.keys.read(printer)?;
    let keys: Vec<&PrivateKey> = signers.keys().map(|(_, key)| key).collect();
    let client = arguments
        .reach
        .client(arguments.mirror.as_deref(), &arguments.jobs)?;
    let tables = Cache::of_user();
    let meter = Meter::new(printer);
    let again = "nothing was left behind; run the same command to begin again";
    let began = Instant::now();
    let created = interrupt::run(printer, again, async {
        let tables = tables.as_ref().map(|tables| tables as _);
        Ok(create(&client, &options, &keys, tables, &meter).await?)
    })?;
    if !state.save(&options.remembered, &created.remembered)? {
        printer.warn(
            "another run has accepted something else of these repositories meanwhile, and that \
             is what stays remembered",
        );
    }
    for warning in &created.warnings {
        printer.warn(warning);
    }
    printer.say(&format!("packed in {}", span(began.elapsed())));
    let signed = match signers.is_empty() {
        true => String::new(),
        false => format!(", signed by {}", signers.ids()),
    };
    printer.answer(&format!(
        "wrote {} ({}), bundle {}{signed}\n\n{}\n\n{}",
        options.output.display(),
        size(created.size),
        created.id,
        what(&created),
        summary::counts(&created.head),
    ))
}

fn options(
    arguments: &Arguments,
    remembered: Remembered,
    printer: &Printer,
) -> anyhow::Result<Options> {
    if arguments.output.as_os_str() == "-" {
        return Err(CommandError::usage(
            "a bundle is filled in many places at once, so it needs a file",
        )
        .hint("give the name of a file with -o")
        .into());
    }
    if arguments.packages.is_empty() && arguments.lock.is_none() && arguments.beside.is_empty() {
        return Err(
            CommandError::usage("nothing is named that should be carried")
                .hint("name packages, or use --lock, --image, --images-from, --wanted, --chart or --file")
                .into(),
        );
    }
    let lock = arguments.lock.as_deref().map(read_lock).transpose()?;
    let mut requests: Vec<Request> = arguments
        .packages
        .iter()
        .map(|text| package_request(text))
        .collect::<anyhow::Result<_>>()?;
    if let (true, Some(lock)) = (requests.is_empty(), &lock) {
        for name in lock.packages.keys() {
            requests.push(package_request(name)?);
        }
    }
    let unpackaged = arguments
        .beside
        .read(arguments.platform.is_empty(), printer)?;
    let (repositories, given) = match requests.is_empty() {
        true if unpackaged.is_empty() => {
            return Err(
                CommandError::failed("nothing is wanted, so there is nothing to carry").into(),
            );
        }
        true => {
            no_packages(arguments, printer);
            Default::default()
        }
        false => {
            let chosen = arguments.sources.chosen(&remembered, printer)?;
            (chosen.repositories, chosen.given)
        }
    };
    Ok(Options {
        output: arguments.output.clone(),
        force: arguments.force.force,
        repositories,
        given,
        requests,
        variants: match arguments.variant.as_slice() {
            [] => Variants::All,
            names => Variants::Named(names.to_vec()),
        },
        with_optional: arguments.with_optional,
        lock,
        no_images: arguments.no_images.clone(),
        allow_unpinned_images: arguments.allow_unpinned_images,
        unpackaged,
        platforms: arguments.platform.clone(),
        foreign_layers: arguments.foreign_layers,
        allow_missing_referrers: arguments.allow_missing_referrers,
        tags: arguments
            .tag
            .iter()
            .map(|choice| (choice.tag.clone(), choice.digest))
            .collect(),
        jobs: usize::from(arguments.jobs.jobs),
        remembered,
        change_trust: arguments.sources.change_trust,
        max_age: arguments.sources.trust.max_age_seconds(),
        now: Time::now(),
    })
}

/// Without packages, what is said of them would have no effect.
fn no_packages(arguments: &Arguments, printer: &Printer) {
    let sources = &arguments.sources;
    let flags = [
        (!sources.repo.is_empty(), "--repo"),
        (!sources.trust.public_key.is_empty(), "--public-key"),
        (!sources.trust.root_key.is_empty(), "--root-key"),
        (sources.trust.trust_file.is_some(), "--trust"),
        (!arguments.variant.is_empty(), "--variant"),
        (!arguments.no_images.is_empty(), "--no-images"),
        (sources.trust.allow_unsigned, "--allow-unsigned"),
        (sources.trust.max_age.is_some(), "--max-age"),
        (sources.change_trust, "--change-trust"),
        (arguments.with_optional, "--with-optional"),
    ];
    for (_, flag) in flags.iter().filter(|(given, _)| *given) {
        printer.warn(&format!(
            "{flag} has no effect: it is about packages, and none is named"
        ));
    }
}

/// Names other tools have for processors, which no image has.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("x86_64", "amd64"),
    ("x64", "amd64"),
    ("aarch64", "arm64"),
    ("armhf", "arm/v7"),
    ("i386", "386"),
];

fn platform(text: &str) -> Result<Platform, String> {
    let platform: Platform = text.parse().map_err(|e| format!("{e}"))?;
    let other = OTHER_NAMES
        .iter()
        .find(|(other, _)| platform.architecture == *other);
    match other {
        Some((_, name)) => Err(format!("images call that {}/{name}", platform.os)),
        None => Ok(platform),
    }
}

/// Larger than any lock, in bytes.
const MAX_LOCK: u64 = 16 * 1024 * 1024;

fn read_lock(file: &Path) -> anyhow::Result<Lock> {
    use std::io::Read as _;
    let failed = |error| CommandError::io("cannot read the lock", error).at(file.display());
    let mut text = String::new();
    std::fs::File::open(file)
        .and_then(|open| open.take(MAX_LOCK + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_LOCK {
        return Err(CommandError::usage("this file is too large to be a lock")
            .at(file.display())
            .into());
    }
    Lock::read(&text).map_err(|error| {
        CommandError::usage(error.to_string())
            .at(file.display())
            .into()
    })
}

/// The packages with their reasons; without any, what else there is.
fn what(created: &Created) -> String {
    match created.packages.is_empty() {
        true => summary::content(&created.head),
        false => reasons(created),
    }
}

/// The packages, and why each is in the bundle.
fn reasons(created: &Created) -> String {
    let rows: Vec<Vec<String>> = created
        .packages
        .iter()
        .map(|chosen| {
            vec![
                chosen.head.name.to_string(),
                summary::version(&chosen.head),
                chosen.why.join("; "),
            ]
        })
        .collect();
    table(&["PACKAGE", "VERSION", "WHY"], &rows)
}
