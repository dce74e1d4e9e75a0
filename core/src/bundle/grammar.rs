//! The rules of a head that its types do not express: order, names, and that its parts agree.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::error::FormatError;
use super::format::{
    FEATURES, MAX_BLOBS, MAX_ENTRIES, MAX_EXTENSIONS, MAX_INDEX, MAX_INNER, MAX_MANIFESTS,
    MAX_REASON, MAX_REPOSITORIES, MAX_ROOT, MAX_ROOTS, MAX_SIGNATURE_FILE, MAX_WORD,
    SPARSE_INDEXES, UNPACKAGED_CONTENT,
};
use super::head::{
    ATTESTATION, Class, FORMAT, Head, HeadBlob, HeadChart, HeadFile, HeadImage, HeadReferrer,
    HeadRepository, Hole, REFERRERS,
};
use crate::carried;
use crate::descriptor::{Descriptor, Platform, media_type};
use crate::digest::Digest;
use crate::error::shown;
use crate::file;
use crate::manifest::MAX_MANIFEST;
use crate::name::{PackageName, Tag};
use crate::reference::Reference;
use crate::store::{is_folder, repository_files};

type Result<T = ()> = std::result::Result<T, FormatError>;

fn fail<T>(why: impl Into<String>) -> Result<T> {
    Err(FormatError::head(why))
}

/// Checks every rule of `head`.
pub(super) fn check(head: &Head) -> Result {
    if head.format != FORMAT {
        return Err(FormatError::Version(shown(&head.format)));
    }
    check_counts(head)?;
    check_inner(inner_entries(head))?;
    ascending(&head.requires, "required features", Ord::cmp, Clone::clone)?;
    check_features(&head.requires)?;
    check_repositories(head)?;
    let packages = check_packages(head)?;
    let blobs = check_blobs(head)?;
    let context = Context { packages, blobs };
    check_charts(head, &context)?;
    check_references(head, &context)?;
    check_sparse(head)?;
    check_unpackaged(head)?;
    check_referrers(head, &context)?;
    check_holes(head)?;
    check_extensions(head)
}

/// Refuses features that are not known here.
pub(super) fn check_features(requires: &[String]) -> Result {
    let unknown: Vec<String> = requires
        .iter()
        .filter(|name| !FEATURES.contains(&name.as_str()))
        .map(|name| format!("\"{}\"", shown(name)))
        .collect();
    if unknown.is_empty() {
        Ok(())
    } else {
        Err(FormatError::Features(unknown))
    }
}

/// What the parts of a head are compared with.
struct Context<'a> {
    packages: HashSet<&'a PackageName>,
    blobs: HashMap<&'a Digest, &'a HeadBlob>,
}

fn check_counts(head: &Head) -> Result {
    for (what, count, limit) in [
        ("repositories", head.repositories.len(), MAX_REPOSITORIES),
        ("packages", head.packages.len(), MAX_ENTRIES),
        ("charts", head.charts.len(), MAX_ENTRIES),
        ("trees", head.trees.len(), MAX_ENTRIES),
        ("images", head.images.len(), MAX_ENTRIES),
        ("referrers", head.referrers.len(), MAX_ENTRIES),
        ("holes", head.holes.len(), MAX_ENTRIES),
        ("blobs", head.blobs.len(), MAX_BLOBS),
        ("extensions", head.extensions.len(), MAX_EXTENSIONS),
    ] {
        if count > limit {
            return Err(FormatError::too_many(
                format!("the list \"{what}\" of the head"),
                count,
                limit,
            ));
        }
    }
    Ok(())
}

/// Entries of all lists within the entries of the head's own lists.
fn inner_entries(head: &Head) -> usize {
    let packages = head.packages.iter().map(|package| package.variants.len());
    let charts = head.charts.iter().map(|chart| chart.packages.len());
    let trees = head.trees.iter().map(|tree| tree.packages.len());
    let images = head.images.iter();
    let images = images.map(|image| image.packages.len() + image.platforms.len());
    packages.chain(charts).chain(trees).chain(images).sum()
}

/// Refuses more than [`MAX_INNER`] such entries.
pub(super) fn check_inner(count: usize) -> Result {
    if count > MAX_INNER {
        let what = "all lists of packages, variants and platforms in the head";
        return Err(FormatError::too_many(what, count, MAX_INNER));
    }
    Ok(())
}

/// Checks that `list` is sorted and has no entry twice.
fn ascending<T>(
    list: &[T],
    what: &str,
    order: impl Fn(&T, &T) -> Ordering,
    name: impl Fn(&T) -> String,
) -> Result {
    for pair in list.windows(2) {
        match order(&pair[0], &pair[1]) {
            Ordering::Less => {}
            Ordering::Equal => {
                return fail(format!("{what}: {} is there twice", shown(&name(&pair[1]))));
            }
            Ordering::Greater => {
                return fail(format!(
                    "{what}: {} is out of order",
                    shown(&name(&pair[1]))
                ));
            }
        }
    }
    Ok(())
}

fn word(what: &str, text: &str) -> Result {
    if text.is_empty() || text.len() > MAX_WORD || text.chars().any(char::is_control) {
        return fail(format!(
            "{what} \"{}\" is empty, longer than {MAX_WORD} bytes or has control characters",
            shown(text)
        ));
    }
    Ok(())
}

/// Whether `text` can be one element of a member's path: no `..`, nothing a shell, a file
/// system or another tar could read in two ways.
fn is_path_element(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-+=@%~,".contains(&b);
    !matches!(text, "" | "." | "..") && text.bytes().all(legal)
}

fn check_path(what: &str, path: &str) -> Result {
    if path.split('/').all(is_path_element) {
        return Ok(());
    }
    fail(format!(
        "{what}: \"{}\" is no legal path: relative, elements of letters, digits and \
         '._-+=@%~,', no '..'",
        shown(path)
    ))
}

fn check_repositories(head: &Head) -> Result {
    ascending(
        &head.repositories,
        "repositories",
        |a, b| a.url.cmp(&b.url),
        |r| r.url.to_string(),
    )?;
    let mut folders = HashMap::new();
    for repository in &head.repositories {
        if let Some(other) = folders.insert(repository.url.folder(), &repository.url) {
            return fail(format!(
                "repositories {other} and {} have the same folder",
                repository.url
            ));
        }
        check_repository_files(repository)?;
    }
    Ok(())
}

fn check_repository_files(repository: &HeadRepository) -> Result {
    let url = repository.url.as_str();
    let index = repository.url.file_name();
    if !is_index_name(index) || !is_folder(&repository.url.folder()) {
        return fail(format!(
            "repository {url}: its URL does not end in the name of an index file"
        ));
    }
    let signature = format!("{index}.sig");
    check_files(url, &repository.files)?;
    let mut has_index = false;
    let mut top: Option<&HeadFile> = None;
    let mut roots: Vec<Option<&HeadFile>> = Vec::new();
    for file in &repository.files {
        let limit = if file.path == index {
            has_index = true;
            MAX_INDEX
        } else if file.path == signature {
            MAX_SIGNATURE_FILE
        } else if file.path == "root.yaml" {
            top = Some(file);
            MAX_ROOT
        } else if let Some(number) = root_number(&file.path) {
            if roots.len() < number {
                roots.resize(number, None);
            }
            roots[number - 1] = Some(file);
            MAX_ROOT
        } else {
            return fail(format!(
                "repository {url}: \"{}\" is no file of a repository",
                shown(&file.path)
            ));
        };
        if file.size > limit {
            return Err(FormatError::too_long(
                format!("{} of repository {url}", file.path),
                file.size,
                limit,
            ));
        }
    }
    // a mirror adds its own file beside them
    let paths = repository.files.iter().map(|file| file.path.as_str());
    if let Err((path, why)) = repository_files(paths.chain([carried::FILE])) {
        return fail(format!("repository {url}: \"{}\": {why}", shown(path)));
    }
    if !has_index {
        return fail(format!("repository {url}: {index} is missing"));
    }
    if let Some(gap) = roots.iter().position(Option::is_none) {
        return fail(format!(
            "repository {url}: root/{}.yaml is missing",
            gap + 1
        ));
    }
    let last = roots.last().copied().flatten();
    match (top, last) {
        (None, None) => Ok(()),
        (Some(top), Some(last)) if (top.size, top.digest) == (last.size, last.digest) => Ok(()),
        _ => fail(format!(
            "repository {url}: root.yaml must be the last of root/1.yaml, root/2.yaml … byte for byte"
        )),
    }
}

/// Whether an index may have this name: not one that belongs to another file beside it, in a
/// bundle or in a mirror, whatever the case of its letters.
fn is_index_name(name: &str) -> bool {
    let folded = name.to_ascii_lowercase();
    let taken = [carried::FILE, "root", "root.yaml"].contains(&folded.as_str());
    is_path_element(name) && !taken && !folded.ends_with(".sig")
}

/// `root/7.yaml` is 7.
fn root_number(path: &str) -> Option<usize> {
    let digits = path.strip_prefix("root/")?.strip_suffix(".yaml")?;
    let number: usize = digits.parse().ok()?;
    ((1..=MAX_ROOTS).contains(&number) && number.to_string() == digits).then_some(number)
}

fn check_files(of: &str, files: &[HeadFile]) -> Result {
    ascending(
        files,
        &format!("files of {of}"),
        |a, b| a.path.cmp(&b.path),
        |f| f.path.clone(),
    )?;
    files.iter().try_for_each(|file| check_path(of, &file.path))
}

fn check_packages(head: &Head) -> Result<HashSet<&PackageName>> {
    ascending(
        &head.packages,
        "packages",
        |a, b| a.name.cmp(&b.name),
        |p| p.name.to_string(),
    )?;
    for package in &head.packages {
        word("package version", &package.version)?;
        ascending(
            &package.variants,
            &format!("variants of package {}", package.name),
            Ord::cmp,
            Clone::clone,
        )?;
        for variant in &package.variants {
            word("variant", variant)?;
        }
        let known = head
            .repositories
            .binary_search_by(|r| r.url.cmp(&package.repository));
        if known.is_err() {
            return fail(format!(
                "package {} is from {}, which is no repository of this bundle",
                package.name, package.repository
            ));
        }
    }
    Ok(head.packages.iter().map(|package| &package.name).collect())
}

fn check_blobs(head: &Head) -> Result<HashMap<&Digest, &HeadBlob>> {
    ascending(&head.blobs, "blobs", HeadBlob::order, |b| {
        b.digest.to_string()
    })?;
    let mut blobs = HashMap::with_capacity(head.blobs.len());
    for blob in &head.blobs {
        if blobs.insert(&blob.digest, blob).is_some() {
            return fail(format!("blobs: {} is there twice", blob.digest));
        }
        if blob.class == Class::Manifest && blob.size > MAX_MANIFEST {
            return Err(FormatError::too_long(
                format!("manifest {}", blob.digest),
                blob.size,
                MAX_MANIFEST,
            ));
        }
        let may = blob.class == Class::Layer && head.requires.iter().any(|f| f == "assumed-blobs");
        if blob.assumed && !may {
            return fail(format!(
                "blobs: {} is assumed, which needs the feature \"assumed-blobs\" and is for layers only",
                blob.digest
            ));
        }
    }
    let manifests = head.blobs.iter().filter(|b| b.class == Class::Manifest);
    let total = manifests.fold(0u64, |sum, blob| sum.saturating_add(blob.size));
    if total > MAX_MANIFESTS {
        let what = "all manifests of the bundle";
        return Err(FormatError::too_long(what, total, MAX_MANIFESTS));
    }
    Ok(blobs)
}

impl Context<'_> {
    /// A descriptor of the head names a manifest of this bundle and holds nothing else.
    fn manifest(&self, of: &str, descriptor: &Descriptor) -> Result {
        let bare = Descriptor::new(
            descriptor.media_type.clone(),
            descriptor.digest,
            descriptor.size,
        );
        if *descriptor != bare {
            return fail(format!(
                "{of}: its descriptor may hold only mediaType, digest and size"
            ));
        }
        let kind = descriptor.media_type.as_str();
        if !media_type::is_index(kind) && !media_type::is_image_manifest(kind) {
            return fail(format!(
                "{of}: \"{}\" is no type of a manifest",
                shown(kind)
            ));
        }
        match self.blobs.get(&descriptor.digest) {
            None => fail(format!(
                "{of}: its manifest {} is not among the blobs",
                descriptor.digest
            )),
            Some(blob) if blob.class != Class::Manifest || blob.size != descriptor.size => {
                fail(format!(
                    "{of}: blob {} is not a manifest of {} bytes",
                    descriptor.digest, descriptor.size
                ))
            }
            Some(_) => Ok(()),
        }
    }

    fn pinned_by(&self, of: &str, packages: &[PackageName]) -> Result {
        ascending(
            packages,
            &format!("packages of {of}"),
            Ord::cmp,
            ToString::to_string,
        )?;
        match packages.iter().find(|name| !self.packages.contains(name)) {
            Some(name) => fail(format!("{of}: package {name} is not in the bundle")),
            None => Ok(()),
        }
    }
}

fn check_charts(head: &Head, context: &Context<'_>) -> Result {
    let name = |chart: &HeadChart| format!("{}/{} {}", chart.repository, chart.name, chart.version);
    ascending(&head.charts, "charts", HeadChart::order, name)?;
    for chart in &head.charts {
        let of = format!("chart {}", shown(&name(chart)));
        not_of_files(&of, chart.repository.host())?;
        word("chart name", &chart.name)?;
        if chart.name.contains('/') {
            return fail(format!("{of}: a chart's name has no '/'"));
        }
        word("chart version", &chart.version)?;
        if let Err(error) = chart.tag().parse::<Tag>() {
            return fail(format!("{of}: its version makes no tag: {error}"));
        }
        context.manifest(&of, &chart.manifest)?;
        context.pinned_by(&of, &chart.packages)?;
        if !context.blobs.contains_key(&chart.archive) {
            return fail(format!("{of}: its archive is not among the blobs"));
        }
    }
    Ok(())
}

fn check_references(head: &Head, context: &Context<'_>) -> Result {
    let pinned = |reference: &Reference, descriptor: &Descriptor| {
        if reference.digest() == Some(&descriptor.digest) {
            return Ok(());
        }
        fail(format!(
            "{reference} must name the digest of its manifest, {}",
            descriptor.digest
        ))
    };
    ascending(
        &head.trees,
        "trees",
        |a, b| a.reference.cmp(&b.reference),
        |t| t.reference.to_string(),
    )?;
    for tree in &head.trees {
        let of = format!("tree {}", tree.reference);
        not_of_files(&of, tree.reference.host())?;
        pinned(&tree.reference, &tree.manifest)?;
        context.manifest(&of, &tree.manifest)?;
        context.pinned_by(&of, &tree.packages)?;
    }
    ascending(
        &head.images,
        "images",
        |a, b| a.reference.cmp(&b.reference),
        |i| i.reference.to_string(),
    )?;
    for image in &head.images {
        let of = format!("image {}", image.reference);
        pinned(&image.reference, &image.manifest)?;
        context.manifest(&of, &image.manifest)?;
        context.pinned_by(&of, &image.packages)?;
        ascending(
            &image.platforms,
            &format!("platforms of {of}"),
            Ord::cmp,
            ToString::to_string,
        )?;
        image.platforms.iter().try_for_each(check_platform)?;
        check_file(image)?;
    }
    Ok(())
}

/// Nothing but files lies where files do.
fn not_of_files(of: &str, host: &str) -> Result {
    match host == file::HOST {
        false => Ok(()),
        true => fail(format!(
            "{of}: {host} is the place of files, and it is none"
        )),
    }
}

/// A file lies where its name says, and nothing else lies there.
fn check_file(image: &HeadImage) -> Result {
    let own = match &image.file {
        Some(name) => {
            let reference = name.reference().pinned(image.manifest.digest);
            image.reference == reference && image.is_unpackaged() && image.platforms.is_empty()
        }
        None => image.reference.host() != file::HOST,
    };
    match own {
        true => Ok(()),
        false => fail(format!(
            "image {} is no file as files are carried, and has the place of one",
            image.reference
        )),
    }
}

fn check_platform(platform: &Platform) -> Result {
    word("operating system", &platform.os)?;
    word("architecture", &platform.architecture)?;
    let more = [&platform.variant, &platform.os_version];
    let mut more = more.into_iter().flatten();
    more.try_for_each(|text| word("platform", text))
}

/// What is left out of indexes needs the feature, and is of the kind that may be left out.
fn check_sparse(head: &Head) -> Result {
    let name = ToString::to_string;
    ascending(&head.platforms, "platforms", Ord::cmp, name)?;
    for platform in &head.platforms {
        check_platform(platform)?;
        if platform.os_version.is_some() {
            return fail(format!("platforms: {platform} has a version of its system"));
        }
    }
    let sparse = head.images.iter().find(|image| image.sparse);
    let hole = head.holes.iter().find(|hole| hole.kind == ATTESTATION);
    let what = if !head.platforms.is_empty() {
        "the list \"platforms\"".to_owned()
    } else if let Some(image) = sparse {
        format!("image {}, which is sparse,", image.reference)
    } else if let Some(hole) = hole {
        format!("the hole {ATTESTATION} of {},", shown(&hole.of))
    } else if head.requires(SPARSE_INDEXES) {
        return fail(format!(
            "nothing in it needs the feature \"{SPARSE_INDEXES}\""
        ));
    } else {
        return Ok(());
    };
    if head.requires(SPARSE_INDEXES) {
        return Ok(());
    }
    fail(format!("{what} needs the feature \"{SPARSE_INDEXES}\""))
}

/// Content without a package needs the feature, and nobody pins it.
fn check_unpackaged(head: &Head) -> Result {
    let image = head.images.iter().find(|image| image.is_unpackaged());
    if let Some(image) = image.filter(|image| image.pinned) {
        return fail(format!(
            "image {}: no package is said to pin it, and that it is pinned",
            image.reference
        ));
    }
    match (head.has_unpackaged(), head.requires(UNPACKAGED_CONTENT)) {
        (true, false) => fail(format!(
            "content that belongs to no package needs the feature \"{UNPACKAGED_CONTENT}\""
        )),
        (false, true) => fail(format!(
            "nothing in it needs the feature \"{UNPACKAGED_CONTENT}\""
        )),
        _ => Ok(()),
    }
}

fn check_referrers(head: &Head, context: &Context<'_>) -> Result {
    let name =
        |r: &HeadReferrer| format!("{} of {}@{}", r.manifest.digest, r.repository, r.subject);
    ascending(&head.referrers, "referrers", HeadReferrer::order, name)?;
    for referrer in &head.referrers {
        let of = format!("referrer {}", shown(&name(referrer)));
        let host = referrer.repository.split('/').next().unwrap_or_default();
        not_of_files(&of, host)?;
        check_upstream(&of, &referrer.repository, &referrer.subject)?;
        context.manifest(&of, &referrer.manifest)?;
    }
    Ok(())
}

/// `repository` is `host/path` in canonical form.
fn check_upstream(of: &str, repository: &str, digest: &Digest) -> Result {
    let text = format!("{repository}@{digest}");
    match text.parse::<Reference>() {
        Ok(reference) if reference.tag().is_none() && reference.to_string() == text => Ok(()),
        _ => fail(format!(
            "{of}: \"{}\" is no canonical host/path",
            shown(repository)
        )),
    }
}

fn check_holes(head: &Head) -> Result {
    let name = |hole: &Hole| format!("{} {}", hole.kind, hole.of);
    ascending(&head.holes, "holes", Ord::cmp, name)?;
    for hole in &head.holes {
        let of = format!("hole {}", shown(&name(hole)));
        // What runs is never a hole: a bundle says by "platforms" what was asked for.
        if hole.kind != REFERRERS && hole.kind != ATTESTATION {
            return fail(format!(
                "{of}: its kind is neither {REFERRERS} nor {ATTESTATION}"
            ));
        }
        match hole
            .of
            .split_once('@')
            .map(|(at, digest)| (at, digest.parse()))
        {
            Some((repository, Ok(digest))) => check_upstream(&of, repository, &digest)?,
            _ => return fail(format!("{of}: it must name host/path@digest")),
        }
        if hole.why.len() > MAX_REASON || hole.why.chars().any(char::is_control) {
            return fail(format!(
                "{of}: its reason is longer than {MAX_REASON} bytes or has control characters"
            ));
        }
    }
    Ok(())
}

fn check_extensions(head: &Head) -> Result {
    let mut files = 0usize;
    for (feature, extension) in &head.extensions {
        let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if feature.is_empty() || feature.len() > 63 || !feature.bytes().all(legal) {
            return fail(format!(
                "extension \"{}\": a name has lower-case letters, digits and '-', at most 63",
                shown(feature)
            ));
        }
        check_files(&format!("extension {feature}"), &extension.files)?;
        files += extension.files.len();
    }
    if files > MAX_ENTRIES {
        return Err(FormatError::too_many(
            "files of extensions",
            files,
            MAX_ENTRIES,
        ));
    }
    Ok(())
}
