//! Why a bundle is not created.

use std::path::PathBuf;

use kubepkg_core::bundle::FormatError;
use kubepkg_core::bundle::verify::{ClosureError, PlacementError};
use kubepkg_core::chart::ChartError;
use kubepkg_core::descriptor::Platform;
use kubepkg_core::digest::Digest;
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::file::FileName;
use kubepkg_core::keys::KeyError;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::manifest::ManifestError;
use kubepkg_core::name::{NameError, PackageName};
use kubepkg_core::pins::PinError;
use kubepkg_core::reference::Reference;
use kubepkg_core::resolve::ResolveError;
use kubepkg_core::trust::{GivenError, TrustError};
use kubepkg_remote::RemoteError;

/// Why a bundle is not created. The output's name is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The output is there already.
    #[error("the output exists already")]
    Exists(PathBuf),
    /// The output's name is that of a folder.
    #[error("the output is a folder")]
    IsFolder(PathBuf),
    /// The folder of the output is not there.
    #[error("the folder of the output does not exist")]
    NoFolder(PathBuf),
    /// The output is being written by somebody else.
    #[error("the output is being written by another process")]
    Locked(PathBuf),
    /// A file of the output cannot be used.
    #[error("cannot {action}")]
    Io {
        /// What was tried, e.g. "create the file".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Keys and repositories do not fit together.
    #[error(transparent)]
    Given(#[from] GivenError),
    /// Another machine did not answer as it should.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// An index is not accepted.
    #[error("{source}")]
    Trust {
        /// The repository.
        url: CanonicalUrl,
        /// Why.
        source: Box<TrustError>,
    },
    /// `root.yaml` and its numbered copies do not agree.
    #[error("the root of trust is not consistent: {why}")]
    Root {
        /// The repository.
        url: CanonicalUrl,
        /// What is wrong.
        why: String,
    },
    /// The requests cannot be met.
    #[error(transparent)]
    Resolve(#[from] Box<ResolveError>),
    /// `--variant` names one that no chosen package has.
    #[error("no chosen package has a variant \"{name}\"")]
    NoVariant {
        /// What was asked for.
        name: String,
        /// The variants there are.
        known: Vec<String>,
    },
    /// A package of an index has a name no cluster takes.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A package pins something that cannot be carried.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Packages with charts or trees pin no images, and nobody said that they have none.
    #[error("{} pins no images; add them to the recipe", names(.0))]
    NoImages(Vec<PackageName>),
    /// `--no-images` names packages it cannot be meant for.
    #[error("--no-images {0}: {1}")]
    NeedlessNoImages(PackageName, &'static str),
    /// Images by tag only.
    #[error("{} named by tag only, so nothing signed says what they are: {}", count(.0.len()), list(.0))]
    Unpinned(Vec<Reference>),
    /// Two packages want one tag to be two images.
    #[error("two packages pin {tag} to different images: {first} and {second}")]
    TagTwice {
        /// The tag.
        tag: Box<Reference>,
        /// One digest and its packages.
        first: String,
        /// The other.
        second: String,
    },
    /// `--tag` decides about a tag nobody asked about.
    #[error("--tag {0}: no two chosen packages differ about this tag, or none pins that digest")]
    NeedlessTag(Box<Reference>),
    /// A chart is not the one that is pinned.
    #[error("chart {chart} is {found}, its package pins {pinned}")]
    ChartDigest {
        /// The chart.
        chart: String,
        /// What the package pins.
        pinned: Box<Digest>,
        /// What the repository has.
        found: Box<Digest>,
    },
    /// A chart that no package pins is not the one its repository lists.
    #[error("chart {chart} is {found}, the index of its repository says {listed}")]
    ChartListed {
        /// The chart.
        chart: String,
        /// What the index says.
        listed: Box<Digest>,
        /// What its address has.
        found: Box<Digest>,
    },
    /// An image has nothing for the platforms asked for.
    #[error("{reference} has nothing for the platforms asked for; it is for {}", platforms(.has))]
    NoPlatform {
        /// The image, or an index in it.
        reference: Box<Reference>,
        /// What it is for.
        has: Vec<Platform>,
    },
    /// Two files are to have one name.
    #[error("two files are to be called \"{name}\": {} and {}", .first.display(), .second.display())]
    FileTwice {
        /// The name.
        name: FileName,
        /// One file.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// What is to be carried as a file is none.
    #[error("this is no ordinary file, and only such can be carried")]
    NoFile(PathBuf),
    /// A file changed between the plan and the writing.
    #[error("the file was changed while it was carried into the bundle")]
    FileChanged(PathBuf),
    /// Of what a mirror was asked for, nothing can be had.
    #[error("nothing of what is wanted can be had: {}", .0.join("; "))]
    NothingLeft(Vec<String>),
    /// A chart cannot be read.
    #[error("chart {chart} cannot be carried")]
    Chart {
        /// The chart.
        chart: String,
        /// Why.
        source: ChartError,
    },
    /// What is signed beside a chart is not the chart.
    #[error(
        "the provenance file of chart {chart} is signed for other bytes: {url} names sha256 {}, \
         the archive is {archive}", .named.join(", ")
    )]
    Provenance {
        /// The chart.
        chart: String,
        /// Where the file is, redacted.
        url: String,
        /// The archive.
        archive: Box<Digest>,
        /// The digests it names, in hex.
        named: Vec<String>,
    },
    /// A manifest cannot be carried.
    #[error("{reference} cannot be carried")]
    Manifest {
        /// The manifest.
        reference: Box<Reference>,
        /// Why.
        source: ManifestError,
    },
    /// A manifest is not as its parent says.
    #[error("{reference} is not as the manifest above it says: {why}")]
    Descriptor {
        /// The manifest.
        reference: Box<Reference>,
        /// What differs.
        why: String,
    },
    /// A manifest that no bundle can hold: it nests too deep, names too much, or is not attached
    /// to what it is listed under.
    #[error("{reference}: {why}")]
    Unfit {
        /// Where.
        reference: Box<Reference>,
        /// Which rule it breaks.
        why: String,
    },
    /// Something attached to a manifest cannot be had or carried.
    #[error("a signature, attestation or SBOM attached to {of} cannot be carried")]
    Referrers {
        /// `host/path@digest` of the manifest.
        of: String,
        /// Why.
        source: Box<CreateError>,
    },
    /// Two different indexes are meant to be one repository.
    #[error("{first} and {second} both say that they are {url}, and they differ")]
    RepositoryTwice {
        /// The URL both name.
        url: CanonicalUrl,
        /// One place.
        first: CanonicalUrl,
        /// The other.
        second: CanonicalUrl,
    },
    /// The plan breaks a rule of the format, or the file cannot be written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A key cannot sign.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What was looked up does not fit together.
    #[error(transparent)]
    Closure(#[from] ClosureError),
    /// Content has no place in a mirror.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

fn platforms(has: &[Platform]) -> String {
    let texts: Vec<String> = has.iter().map(ToString::to_string).collect();
    match texts.is_empty() {
        true => "none that it names".to_owned(),
        false => texts.join(", "),
    }
}

fn names(packages: &[PackageName]) -> String {
    let names: Vec<&str> = packages.iter().map(PackageName::as_str).collect();
    match names.len() {
        1 => format!("package {}", names.join(", ")),
        _ => format!("each of the packages {}", names.join(", ")),
    }
}

fn count(n: usize) -> String {
    if n == 1 {
        "an image is".to_owned()
    } else {
        format!("{n} images are")
    }
}

fn list(references: &[Reference]) -> String {
    let texts: Vec<String> = references.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

impl Classify for CreateError {
    fn kind(&self) -> Kind {
        match self {
            CreateError::Exists(_)
            | CreateError::IsFolder(_)
            | CreateError::Locked(_)
            | CreateError::FileChanged(_)
            | CreateError::Key(_)
            | CreateError::Io { .. } => Kind::Failed,
            CreateError::NoFolder(_)
            | CreateError::NoPlatform { .. }
            | CreateError::NothingLeft(_) => Kind::NotFound,
            CreateError::Given(error) => error.kind(),
            CreateError::Remote(error) => error.kind(),
            CreateError::Trust { source, .. } => source.kind(),
            CreateError::Resolve(error) => error.kind(),
            CreateError::Format(error) => error.kind(),
            CreateError::Referrers { source, .. } => source.kind(),
            CreateError::NeedlessNoImages(..)
            | CreateError::NeedlessTag(_)
            | CreateError::FileTwice { .. }
            | CreateError::NoFile(_)
            | CreateError::RepositoryTwice { .. } => Kind::Usage,
            CreateError::NoVariant { .. } => Kind::NotFound,
            CreateError::NoImages(_) | CreateError::Unpinned(_) | CreateError::TagTwice { .. } => {
                Kind::Failed
            }
            _ => Kind::Refused,
        }
    }

    fn place(&self) -> Option<String> {
        match self {
            CreateError::Io { path, .. }
            | CreateError::Exists(path)
            | CreateError::IsFolder(path)
            | CreateError::NoFolder(path)
            | CreateError::NoFile(path)
            | CreateError::FileChanged(path)
            | CreateError::Locked(path) => Some(path.display().to_string()),
            CreateError::Remote(error) => error.place(),
            CreateError::Trust { url, .. } | CreateError::Root { url, .. } => Some(url.to_string()),
            CreateError::Referrers { source, .. } => source.place(),
            CreateError::Provenance { url, .. } => Some(url.clone()),
            CreateError::Format(error) => error.place(),
            _ => None,
        }
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            CreateError::Exists(_) => {
                "write to another file, or overwrite this one with --force".to_owned()
            }
            CreateError::IsFolder(path) => {
                format!("name a file in it: -o {}", path.join("site.tar").display())
            }
            CreateError::NoFolder(_) => "make the folder first".to_owned(),
            CreateError::Locked(_) => "wait until it is done".to_owned(),
            CreateError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                "the disk is full; free some space or write to another disk".to_owned()
            }
            CreateError::Given(error) => return error.hint(),
            CreateError::Remote(error) => return error.hint(),
            CreateError::Trust { source, .. } => return source.hint(),
            CreateError::Resolve(error) => return error.hint(),
            CreateError::Format(error) => return error.hint(),
            CreateError::Pin(error) => return error.hint(),
            CreateError::Placement(error) => return error.hint(),
            CreateError::Referrers { source, .. } => {
                let without = "to go on without it, leaving a hole that the bundle names, add \
                               --allow-missing-referrers";
                match source.hint() {
                    Some(hint) => format!("{hint}; {without}"),
                    None => without.to_owned(),
                }
            }
            CreateError::RepositoryTwice { .. } => "give one of them".to_owned(),
            CreateError::NoVariant { known, .. } => match known.as_slice() {
                [] => "none of them has variants; leave --variant out".to_owned(),
                known => format!("there is --variant {}", known.join(", --variant ")),
            },
            CreateError::NoImages(packages) => {
                let flags: Vec<String> = packages
                    .iter()
                    .map(|p| format!("--no-images {p}"))
                    .collect();
                format!("if they really run none, say so: {}", flags.join(" "))
            }
            CreateError::Unpinned(_) => {
                "pin them in the package, or carry what the tags point at now with \
                 --allow-unpinned-images; import then needs that flag too"
                    .to_owned()
            }
            CreateError::TagTwice { tag, .. } => {
                format!(
                    "say which one gets the tag: --tag {tag}=sha256:…; the other travels by digest"
                )
            }
            CreateError::Provenance { .. } => {
                "the archive or the file beside it was replaced; ask whoever publishes the chart"
                    .to_owned()
            }
            CreateError::NoPlatform { has, .. } => match has.first() {
                Some(platform) => format!(
                    "leave the image out, or carry what it has with --platform {platform} too"
                ),
                None => "leave the image out, or leave --platform out".to_owned(),
            },
            CreateError::FileChanged(_) => {
                "wait until whoever writes it is done, and run the same command again".to_owned()
            }
            CreateError::FileTwice { .. } => "give one of them another name".to_owned(),
            CreateError::NoFile(_) => {
                "pack a folder into an archive first; read a pipe into a file".to_owned()
            }
            CreateError::ChartDigest { .. } | CreateError::ChartListed { .. } => {
                "the repository has replaced a published chart; do not use it before you know why"
                    .to_owned()
            }
            _ => return None,
        };
        Some(text)
    }

    fn retry(&self) -> bool {
        match self {
            CreateError::Remote(error) => error.retry(),
            CreateError::Referrers { source, .. } => source.retry(),
            CreateError::Locked(_) | CreateError::FileChanged(_) => true,
            _ => false,
        }
    }
}
