//! One bundle, from requests to a file under its name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubepkg_core::bundle::head::HeadBlob;
use kubepkg_core::bundle::verify::{Closure, closure, outside, placements};
use kubepkg_core::bundle::{FormatError, Head, Layout, Signatures, write};
use kubepkg_core::descriptor::Platform;
use kubepkg_core::digest::Digest;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::lock::Lock;
use kubepkg_core::name::PackageName;
use kubepkg_core::pins::Pins;
use kubepkg_core::progress::Progress;
use kubepkg_core::reference::Reference;
use kubepkg_core::resolve::{Request, Variants};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Clock, Given, Remembered};
use kubepkg_remote::Client;

use crate::CreateError;
use crate::assemble::assemble;
use crate::choose::{Choice, Chosen, choose, pins, used};
use crate::collect::{Collected, Scope, collect};
use crate::fill::{fetch, put_small};
use crate::output::Output;
use crate::place::Target;
use crate::repositories::{self, Loaded, Tables};
use crate::tags;
use crate::unpackaged::Unpackaged;

/// What goes into a bundle, and how it is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file to write.
    pub output: PathBuf,
    /// Overwrite it.
    pub force: bool,
    /// Indexes, the one with the highest priority first. A local file (`file:///…`) that names
    /// the URL it is served at counts as the repository of that URL.
    pub repositories: Vec<CanonicalUrl>,
    /// Who is trusted for them.
    pub given: Given,
    /// What was accepted of them before.
    pub remembered: Remembered,
    /// What is given takes the place of the trust that is remembered.
    pub change_trust: bool,
    /// Largest age of an index in seconds.
    pub max_age: Option<i64>,
    /// The packages asked for.
    pub requests: Vec<Request>,
    /// Whose requirements travel along.
    pub variants: Variants,
    /// Optional requirements travel along too.
    pub with_optional: bool,
    /// The only versions that may be taken.
    pub lock: Option<Lock>,
    /// Packages that are known to run no images.
    pub no_images: Vec<PackageName>,
    /// Images by tag only are taken as their tag is now.
    pub allow_unpinned_images: bool,
    /// What is carried beside packages.
    pub unpackaged: Unpackaged,
    /// The platforms of which images are carried; empty: all.
    pub platforms: Vec<Platform>,
    /// Layers that may not be distributed are carried too.
    pub foreign_layers: bool,
    /// Referrers that cannot be had leave a hole that the head names, in place of an error.
    pub allow_missing_referrers: bool,
    /// Which digest gets a tag that two packages pin differently.
    pub tags: BTreeMap<Reference, Digest>,
    /// Things looked up or fetched at the same time.
    pub jobs: usize,
    /// The clock, read once for the whole run.
    pub now: Time,
}

/// A bundle that was written.
#[derive(Debug)]
pub struct Created {
    /// Its id.
    pub id: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Its head.
    pub head: Head,
    /// The packages, with the reason each is there.
    pub packages: Vec<Chosen>,
    /// What should be said.
    pub warnings: Vec<String>,
    /// What to remember of the repositories from now on.
    pub remembered: Remembered,
}

/// Creates a bundle.
///
/// The same repository files, selection and options give the same bytes. It is signed with
/// `keys`. An interrupted run leaves nothing under the output's name.
///
/// # Errors
/// See [`CreateError`].
pub async fn create(
    client: &Client,
    options: &Options,
    keys: &[&PrivateKey],
    tables: Option<&dyn Tables>,
    progress: &dyn Progress,
) -> Result<Created, CreateError> {
    let places = repositories::places(client, &options.repositories).await?;
    let mut remembered = options.remembered.clone();
    let entries =
        repositories::entries(&options.given, &places, &remembered, options.change_trust)?;
    let clock = Clock {
        max_age: options.max_age,
        ..remembered.clock(options.now)
    };
    let output = Output::begin(&options.output, options.force)?;
    let repositories =
        repositories::load(client, &places, &entries, &mut remembered, clock, tables).await?;
    let mut choice = match options.requests.as_slice() {
        [] => Choice::default(),
        requests => choose(
            &repositories,
            requests,
            &options.variants,
            options.with_optional,
            options.lock.as_ref(),
        )?,
    };
    options.unpackaged.check()?;
    let pins = pins(&mut choice.packages, &options.no_images)?;
    refuse_unpinned(&pins, options.allow_unpinned_images)?;
    let registry = client.registry();
    let beside = &options.unpackaged;
    let mut found = tags::images(&registry, &pins, beside, options.jobs).await?;
    tags::decide(&mut found.images, &options.tags)?;
    let scope = Scope {
        client,
        registry,
        platforms: &options.platforms,
        foreign_layers: options.foreign_layers,
        fetched: found.fetched,
    };
    let holes = options.allow_missing_referrers;
    let collected = collect(&scope, &pins, &found.images, beside, holes, options.jobs).await?;

    if choice.packages.is_empty() && collected.is_empty() {
        return Err(CreateError::NothingLeft(
            found.notes.into_iter().chain(collected.notes).collect(),
        ));
    }
    let used = used(&repositories, &choice.packages);
    let packages = choice
        .packages
        .iter()
        .map(|chosen| chosen.head.clone())
        .collect();
    let head = assemble(&used, packages, &options.platforms, &collected);
    let closure = check_plan(&head, &collected)?;
    let head_bytes = head.encode()?;
    let layout = Layout::plan(&head, &head_bytes)?;
    let signatures = signatures(keys, &layout.id())?;

    let file = output.file();
    let in_output = |error: FormatError| error.in_file(output.partial());
    write::allocate(file, layout.len()).map_err(in_output)?;
    write::write_frame(file, &layout, &signatures).map_err(in_output)?;
    put_small(file, &layout, &used, &collected).map_err(in_output)?;
    fetch(
        &scope.registry,
        &Target::new(file, output.partial()),
        &layout,
        &collected,
        options.jobs,
        progress,
    )
    .await?;
    check_file(&output, &layout)?;
    output.finish()?;

    let mut warnings: Vec<String> = used
        .iter()
        .flat_map(|loaded: &&Loaded| loaded.warnings.clone())
        .collect();
    warnings.extend(choice.warnings);
    warnings.extend(collected.notes);
    warnings.extend(found.notes);
    warnings.extend(said(&head, &closure, !signatures.is_empty()));
    Ok(Created {
        id: layout.id(),
        size: layout.len(),
        head,
        packages: choice.packages,
        warnings,
        remembered,
    })
}

fn refuse_unpinned(pins: &Pins, allowed: bool) -> Result<(), CreateError> {
    if allowed || pins.unpinned.is_empty() {
        return Ok(());
    }
    Err(CreateError::Unpinned(
        pins.unpinned.keys().cloned().collect(),
    ))
}

/// Over the head, which names every byte that is still to come.
fn signatures(keys: &[&PrivateKey], id: &Digest) -> Result<Signatures, CreateError> {
    let mut signatures = Signatures::default();
    for key in keys {
        signatures.sign(key, id)?;
    }
    // there is room for so many; said before anything large is fetched
    signatures.encode()?;
    Ok(signatures)
}

/// The far side's own checks, before anything large is fetched.
fn check_plan(head: &Head, collected: &Collected) -> Result<Closure, CreateError> {
    let read = |blob: &HeadBlob| -> Result<Vec<u8>, CreateError> {
        match collected.here.get(&blob.digest) {
            Some((_, bytes)) => Ok(bytes.to_vec()),
            None => Err(FormatError::Absent(blob.path()).into()),
        }
    };
    let closure = closure(head, read)?;
    placements(head, &closure)?;
    Ok(closure)
}

/// Opens what was written as a reader would.
fn check_file(output: &Output, layout: &Layout) -> Result<(), CreateError> {
    let again = output
        .file()
        .try_clone()
        .map_err(|source| CreateError::Io {
            action: "read the file back",
            path: output.partial().to_owned(),
            source,
        })?;
    write::check(again, layout).map_err(|error| error.in_file(output.partial()))?;
    Ok(())
}

fn said(head: &Head, closure: &Closure, signed: bool) -> Vec<String> {
    let without = head.packages.iter().filter(|package| package.no_images);
    let without = without.map(|package| {
        format!(
            "package {} carries no images, as --no-images says",
            package.name
        )
    });
    let unpinned = head.images.iter();
    let unpinned = unpinned.filter(|image| !image.pinned && !image.is_unpackaged());
    let unpinned = unpinned.map(|image| {
        format!(
            "image {} is pinned by this bundle only; import needs --allow-unpinned-images",
            image.reference
        )
    });
    let holes = head.holes.iter();
    let holes = holes.map(|hole| format!("left out: {} of {}: {}", hole.kind, hole.of, hole.why));
    let beside = head.has_unpackaged().then(|| match signed {
        true => "no package vouches for some of this: import needs the public key of who signed \
                 the bundle (--bundle-key), or --allow-unpinned-images"
            .to_owned(),
        false => "no package vouches for some of this: import needs --allow-unpinned-images, or a \
                  signature of the bundle (`kubepkg bundle sign`) and its key (--bundle-key)"
            .to_owned(),
    });
    let said = without.chain(unpinned).chain(beside).chain(holes);
    said.chain(outside(head, closure)).collect()
}
