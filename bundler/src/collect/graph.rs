//! One image or tree: from its reference down to every manifest, with the blobs they name and
//! what is attached to them.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use kubepkg_core::bundle::format::MAX_BLOBS;
use kubepkg_core::bundle::head::{ATTESTATION, Class};
use kubepkg_core::descriptor::{Descriptor, Platform, media_type};
use kubepkg_core::digest::Digest;
use kubepkg_core::manifest::{Content, MAX_MANIFEST, MAX_NESTING, Manifest};
use kubepkg_core::reference::Reference;
use kubepkg_core::sparse::{self, is_attestation};
use serde::Deserialize;

use super::{ABREAST, Collected, Scope, referrers};
use crate::CreateError;

/// Largest config that is looked into for its platform; larger ones are carried unread.
const MAX_CONFIG: u64 = MAX_MANIFEST;

/// What was found of an image or tree.
pub struct Found {
    /// Its manifest or index.
    pub manifest: Descriptor,
    /// The platforms it is for and that are carried.
    pub platforms: Vec<Platform>,
    /// Whether something that its index names is not carried.
    pub sparse: bool,
}

/// The manifests of an image or tree.
pub struct Walked {
    /// The root.
    root: (Descriptor, Manifest),
    /// Those below it that are carried.
    below: Vec<Descriptor>,
    /// Whether an index names others.
    sparse: bool,
}

impl Walked {
    /// The root and what it says.
    pub fn root(&self) -> &(Descriptor, Manifest) {
        &self.root
    }

    /// All that are carried.
    pub fn all(&self) -> impl Iterator<Item = &Descriptor> {
        std::iter::once(&self.root.0).chain(&self.below)
    }
}

/// Looks up `reference` and everything below and about it.
pub async fn collect(
    scope: &Scope<'_>,
    reference: &Reference,
    layers: Class,
    into: &mut Collected,
) -> Result<Found, CreateError> {
    // trees are carried whole
    let wanted = (layers == Class::Layer).then_some(scope.platforms);
    let walked = walk(scope, reference, layers, wanted, into).await?;
    let subjects = walked.all().map(|manifest| manifest.digest).collect();
    let (manifest, root) = walked.root;
    let ((), config) = tokio::join!(
        referrers::collect(scope, reference, subjects, into),
        config(scope, reference, &root),
    );
    let platforms = match &root.content {
        Content::Index(children) => {
            let kept = sparse::select(children, wanted.unwrap_or_default())
                .kept
                .into_iter();
            let kept = kept.filter_map(|child| child.platform.clone());
            kept.collect::<Vec<Platform>>()
        }
        Content::Image {
            config: descriptor, ..
        } => {
            // it is kept, so that it is fetched once
            let own = config?.and_then(|bytes| {
                into.have(descriptor.digest, Class::Config, bytes.clone());
                platform(&bytes)
            });
            if let Some(own) = own.as_ref().filter(|own| sparse::is_known(own))
                && let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty())
                && !wanted.iter().any(|one| sparse::serves(own, one))
            {
                return Err(no_platform(reference, std::iter::once(own)));
            }
            own.into_iter().collect()
        }
    };
    Ok(Found {
        manifest,
        platforms: sparse::known(platforms.into_iter()),
        sparse: walked.sparse,
    })
}

fn no_platform<'p>(reference: &Reference, has: impl Iterator<Item = &'p Platform>) -> CreateError {
    CreateError::NoPlatform {
        reference: Box::new(reference.clone()),
        has: sparse::known(has.cloned()),
    }
}

/// Fetches the manifest of `image` and all manifests below it that are carried: of an image those
/// of the platforms wanted, of everything else all (`wanted` is `None`). What stands at one level
/// is asked for at the same time.
pub async fn walk(
    scope: &Scope<'_>,
    image: &Reference,
    layers: Class,
    wanted: Option<&[Platform]>,
    into: &mut Collected,
) -> Result<Walked, CreateError> {
    let mut seen: HashSet<Digest> = HashSet::new();
    let mut root = None;
    let mut below = Vec::new();
    let mut sparse = false;
    let mut level: Vec<(Reference, Option<Descriptor>)> = vec![(image.clone(), None)];
    for depth in 0.. {
        level.retain(|(reference, _)| match reference.digest() {
            Some(digest) => seen.insert(*digest),
            None => true,
        });
        let Some((first, _)) = level.first() else {
            break;
        };
        if depth > MAX_NESTING {
            let why = format!("indexes nest deeper than {MAX_NESTING}");
            return Err(CreateError::Unfit {
                reference: Box::new(first.clone()),
                why,
            });
        }
        let ask = async |(reference, expected): (Reference, Option<Descriptor>)| {
            (scope.manifest(&reference).await, reference, expected)
        };
        let asked = std::mem::take(&mut level);
        let mut answers = std::pin::pin!(stream::iter(asked).map(ask).buffered(ABREAST));
        while let Some((raw, reference, expected)) = answers.next().await {
            let raw = match (raw, &expected) {
                (Err(error), Some(child))
                    if wanted.is_some() && error.is_not_found() && is_attestation(child) =>
                {
                    let hole = super::hole(ATTESTATION, reference.to_string(), &error);
                    into.holes.push(hole);
                    into.ghosts.push((image.clone(), child.digest));
                    continue;
                }
                (found, _) => found?,
            };
            let descriptor = raw.descriptor();
            if let Some(expected) = &expected {
                same(&reference, expected, &descriptor)?;
            }
            let manifest =
                Manifest::parse(&raw.bytes, Some(&raw.media_type)).map_err(|source| {
                    CreateError::Manifest {
                        reference: Box::new(reference.clone()),
                        source,
                    }
                })?;
            name_blobs(scope, &reference, &manifest, layers, into);
            // an index of indexes can name more than there is memory for
            if into.len() > MAX_BLOBS {
                let why = format!("there are more than {MAX_BLOBS} manifests and blobs below it");
                return Err(CreateError::Unfit {
                    reference: Box::new(reference),
                    why,
                });
            }
            let selection = sparse::select(manifest.children(), wanted.unwrap_or_default());
            if selection.is_empty() {
                return Err(no_platform(&reference, selection.platforms()));
            }
            sparse |= !selection.left_out.is_empty();
            for child in selection.kept {
                level.push((reference.at(child.digest), Some(child.clone())));
            }
            seen.insert(raw.digest);
            into.have(raw.digest, Class::Manifest, raw.bytes);
            match root {
                None => root = Some((descriptor, manifest)),
                Some(_) => below.push(descriptor),
            }
        }
    }
    // only an attestation, which a root is not, ends in nothing
    let root = root.unwrap_or_else(|| unreachable!("the first manifest was looked up"));
    Ok(Walked {
        root,
        below,
        sparse,
    })
}

/// What is fetched must be what the manifest above says: a bundle whose parts disagree would be
/// refused on the far side.
fn same(
    reference: &Reference,
    expected: &Descriptor,
    found: &Descriptor,
) -> Result<(), CreateError> {
    let why = if expected.size != found.size {
        format!("it has {} bytes, not {}", found.size, expected.size)
    } else if expected.media_type != found.media_type {
        format!("it is {}, not {}", found.media_type, expected.media_type)
    } else {
        return Ok(());
    };
    Err(CreateError::Descriptor {
        reference: Box::new(reference.clone()),
        why,
    })
}

fn name_blobs(
    scope: &Scope<'_>,
    reference: &Reference,
    manifest: &Manifest,
    class: Class,
    into: &mut Collected,
) {
    if let Content::Image { config, layers } = &manifest.content {
        into.want_of(reference, config, Class::Config);
        for layer in layers {
            if !scope.foreign_layers && media_type::is_foreign_layer(&layer.media_type) {
                into.foreign = true;
                continue;
            }
            into.want_of(reference, layer, class);
        }
    }
}

/// The config of an image, unless it is too large to be looked into.
async fn config(
    scope: &Scope<'_>,
    reference: &Reference,
    image: &Manifest,
) -> Result<Option<Bytes>, CreateError> {
    match &image.content {
        Content::Image { config, .. } if config.size <= MAX_CONFIG => {
            let bytes = scope.registry.blob(reference, config, MAX_CONFIG).await?;
            Ok(Some(bytes))
        }
        _ => Ok(None),
    }
}

/// The platform a config names; one that is something else (artifacts, WASM) has none.
fn platform(config: &[u8]) -> Option<Platform> {
    #[derive(Deserialize)]
    struct Config {
        os: String,
        architecture: String,
        variant: Option<String>,
        #[serde(rename = "os.version")]
        os_version: Option<String>,
    }
    let config: Config = serde_json::from_slice(config).ok()?;
    Some(Platform {
        os: config.os,
        architecture: config.architecture,
        variant: config.variant.filter(|text| !text.is_empty()),
        os_version: config.os_version.filter(|text| !text.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_test_support::image::{index, platform};
    use kubepkg_test_support::{Fault, Image, ImageBuilder, Upstream};
    use std::sync::Arc;

    async fn look_up(upstream: &Upstream, image: &Image) -> Result<Collected, CreateError> {
        upstream.put_image("app", &[], image);
        let reference = format!("{}/app@{}", upstream.host(), image.digest());
        let client = kubepkg_remote::Client::new(kubepkg_remote::Options::default()).unwrap();
        let scope = Scope {
            client: &client,
            registry: client.registry(),
            platforms: &[],
            foreign_layers: false,
            fetched: Default::default(),
        };
        let mut collected = Collected::default();
        let reference = reference.parse().unwrap();
        collect(&scope, &reference, Class::Layer, &mut collected).await?;
        Ok(collected)
    }

    #[tokio::test]
    async fn everything_below_is_found_once() {
        let upstream = Upstream::start();
        let shared = ImageBuilder::new(1).build();
        let inner = index(&[shared.clone(), ImageBuilder::new(2).build()]);
        let outer = index(&[inner, shared]);
        let found = look_up(&upstream, &outer).await.unwrap();
        let here: Vec<Digest> = found.here.keys().copied().collect();
        let want: Vec<Digest> = outer.content.manifests.keys().copied().collect();
        assert_eq!(here, want);
        let blobs: Vec<Digest> = found.sources.keys().copied().collect();
        assert_eq!(blobs, outer.blobs());
        for digest in want {
            let path = format!("/manifests/{digest}");
            assert_eq!(upstream.count(&path), 1, "{digest}");
        }
    }

    /// Waits until all of `paths` were asked for, none of which is ever answered.
    async fn asked_together(upstream: Upstream, image: &Image, paths: Vec<String>) {
        for path in &paths {
            upstream.fault(path, Fault::Silence, 1);
        }
        let upstream = Arc::new(upstream);
        let (at, paths_asked) = (Arc::clone(&upstream), paths.clone());
        let all_asked = tokio::task::spawn_blocking(move || {
            paths_asked.iter().for_each(|path| at.wait_for(path, 1));
        });
        tokio::select! {
            found = look_up(&upstream, image) => panic!("{:?}", found.map(|found| found.here)),
            asked = all_asked => asked.unwrap(),
        }
        for path in &paths {
            assert_eq!(upstream.count(path), 1, "{path}");
        }
    }

    #[tokio::test]
    async fn what_an_index_names_is_asked_for_together() {
        let images: Vec<Image> = (1..=4).map(|n| ImageBuilder::new(n).build()).collect();
        let path = |image: &Image| format!("/manifests/{}", image.digest());
        let paths = images.iter().map(path).collect();
        asked_together(Upstream::start(), &index(&images), paths).await;
    }

    #[tokio::test]
    async fn what_hangs_on_manifests_is_asked_for_together_and_with_the_config() {
        let images: Vec<Image> = (1..=4).map(|n| ImageBuilder::new(n).build()).collect();
        let path = |image: &Image| format!("/referrers/{}", image.digest());
        let paths = images.iter().map(path).collect();
        asked_together(Upstream::start(), &index(&images), paths).await;
        let config = images[0].manifest();
        let config = Manifest::parse(&config, None).unwrap();
        let config = format!("/blobs/{}", config.blobs()[0].digest);
        let paths = vec![path(&images[0]), config];
        asked_together(Upstream::start(), &images[0], paths).await;
    }

    #[tokio::test]
    async fn indexes_nest_to_a_limit() {
        let upstream = Upstream::start();
        let mut nested = ImageBuilder::new(1).build();
        for _ in 0..MAX_NESTING {
            nested = index(&[nested]);
        }
        look_up(&upstream, &nested).await.unwrap();
        let error = look_up(&upstream, &index(&[nested])).await.unwrap_err();
        assert!(matches!(error, CreateError::Unfit { .. }), "{error}");
    }

    #[test]
    fn attestations_are_for_no_platform() {
        let texts = [
            "linux/s390x",
            "unknown/unknown",
            "linux/amd64",
            "linux/s390x",
        ];
        let found = sparse::known(texts.map(platform).into_iter());
        let want = ["linux/amd64", "linux/s390x"].map(platform);
        assert_eq!(found, want);
    }

    #[test]
    fn a_manifest_is_as_its_parent_says() {
        let reference = "ghcr.io/a/b:1".parse().unwrap();
        let digest = Digest::sha256(b"x");
        let parent = Descriptor::new("a/b", digest, 1);
        assert!(same(&reference, &parent, &parent).is_ok());
        for other in [
            Descriptor::new("a/b", digest, 2),
            Descriptor::new("a/c", digest, 1),
        ] {
            assert!(matches!(
                same(&reference, &parent, &other),
                Err(CreateError::Descriptor { .. })
            ));
        }
    }
}
