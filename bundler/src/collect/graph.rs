//! One image or tree: from its reference down to every manifest, with the blobs they name and
//! what is attached to them.

use bytes::Bytes;
use kubepkg_core::bundle::format::MAX_BLOBS;
use kubepkg_core::bundle::head::Class;
use kubepkg_core::descriptor::{Descriptor, Platform};
use kubepkg_core::digest::Digest;
use kubepkg_core::manifest::{Content, MAX_MANIFEST, MAX_NESTING, Manifest};
use kubepkg_core::reference::Reference;
use kubepkg_remote::Registry;
use serde::Deserialize;

use super::{Collected, referrers};
use crate::CreateError;

/// Largest config that is looked into for its platform; larger ones are carried unread.
const MAX_CONFIG: u64 = MAX_MANIFEST;

/// Looks up `reference` and everything below and about it. Gives its descriptor and the
/// platforms it is for.
pub async fn collect(
    registry: &Registry,
    reference: &Reference,
    layers: Class,
    into: &mut Collected,
) -> Result<(Descriptor, Vec<Platform>), CreateError> {
    let manifests = walk(registry, reference, None, layers, into).await?;
    let Some((descriptor, root)) = manifests.first().cloned() else {
        return Ok((Descriptor::new("", Digest::sha256(b""), 0), Vec::new()));
    };
    for (manifest, _) in &manifests {
        referrers::collect(registry, reference, &manifest.digest, into).await;
    }
    let platforms = match &root.content {
        Content::Index(children) => children
            .iter()
            .filter_map(|child| child.platform.clone())
            .collect(),
        Content::Image { config, .. } => platform(registry, reference, config, into)
            .await?
            .into_iter()
            .collect(),
    };
    Ok((descriptor, known(platforms)))
}

/// Fetches the manifest of `reference` and all manifests below it. The first one in the answer
/// is the root. `expected` is what the manifest above says of it.
pub async fn walk(
    registry: &Registry,
    reference: &Reference,
    expected: Option<Descriptor>,
    layers: Class,
    into: &mut Collected,
) -> Result<Vec<(Descriptor, Manifest)>, CreateError> {
    let mut found: Vec<(Descriptor, Manifest)> = Vec::new();
    let mut open = vec![(reference.clone(), expected, 0)];
    while let Some((reference, expected, depth)) = open.pop() {
        if depth > MAX_NESTING {
            let why = format!("indexes nest deeper than {MAX_NESTING}");
            return Err(CreateError::Unfit {
                reference: Box::new(reference),
                why,
            });
        }
        if found
            .iter()
            .any(|(seen, _)| reference.digest() == Some(&seen.digest))
        {
            continue;
        }
        let raw = registry.manifest(&reference).await?;
        let descriptor = raw.descriptor();
        if let Some(expected) = &expected {
            same(&reference, expected, &descriptor)?;
        }
        let manifest = Manifest::parse(&raw.bytes, Some(&raw.media_type)).map_err(|source| {
            CreateError::Manifest {
                reference: Box::new(reference.clone()),
                source,
            }
        })?;
        name_blobs(&reference, &manifest, layers, into);
        // an index of indexes can name more than there is memory for
        if into.len() > MAX_BLOBS {
            let why = format!("there are more than {MAX_BLOBS} manifests and blobs below it");
            return Err(CreateError::Unfit {
                reference: Box::new(reference),
                why,
            });
        }
        for child in manifest.children() {
            open.push((reference.at(child.digest), Some(child.clone()), depth + 1));
        }
        into.have(raw.digest, Class::Manifest, raw.bytes);
        found.push((descriptor, manifest));
    }
    Ok(found)
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

fn name_blobs(reference: &Reference, manifest: &Manifest, class: Class, into: &mut Collected) {
    if let Content::Image { config, layers } = &manifest.content {
        into.want(reference, config, Class::Config);
        for layer in layers {
            into.want(reference, layer, class);
        }
    }
}

/// The platform an image's config names. The config is kept, so that it is fetched once.
async fn platform(
    registry: &Registry,
    reference: &Reference,
    config: &Descriptor,
    into: &mut Collected,
) -> Result<Option<Platform>, CreateError> {
    if config.size > MAX_CONFIG {
        return Ok(None);
    }
    let bytes: Bytes = registry.blob(reference, config, MAX_CONFIG).await?;
    into.have(config.digest, Class::Config, bytes.clone());
    #[derive(Deserialize)]
    struct Config {
        os: String,
        architecture: String,
        variant: Option<String>,
        #[serde(rename = "os.version")]
        os_version: Option<String>,
    }
    // a config that is something else (artifacts, WASM) has no platform
    let config: Option<Config> = serde_json::from_slice(&bytes).ok();
    Ok(config.map(|config| Platform {
        os: config.os,
        architecture: config.architecture,
        variant: config.variant.filter(|text| !text.is_empty()),
        os_version: config.os_version.filter(|text| !text.is_empty()),
    }))
}

/// Sorted, without doubles and without the `unknown/unknown` of attestations.
fn known(mut platforms: Vec<Platform>) -> Vec<Platform> {
    platforms.retain(|platform| {
        !platform.os.is_empty() && platform.os != "unknown" && !platform.architecture.is_empty()
    });
    platforms.sort();
    platforms.dedup();
    platforms
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_test_support::image::{index, platform};
    use kubepkg_test_support::{Image, ImageBuilder, Upstream};

    async fn look_up(upstream: &Upstream, image: &Image) -> Result<Collected, CreateError> {
        upstream.put_image("app", &[], image);
        let reference = format!("{}/app@{}", upstream.host(), image.digest());
        let client = kubepkg_remote::Client::new(kubepkg_remote::Options::default()).unwrap();
        let mut collected = Collected::default();
        let reference = reference.parse().unwrap();
        collect(&client.registry(), &reference, Class::Layer, &mut collected).await?;
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
        let found = known(texts.map(platform).to_vec());
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
