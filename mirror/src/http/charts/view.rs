//! Building the index of a classic chart repository from charts in a registry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use bytes::Bytes;
use kubepkg_core::chart;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::manifest::{Content, MAX_MANIFEST, Manifest};
use kubepkg_core::name::{RepositoryName, Tag};
use kubepkg_core::store::{ManifestEntry, Names, Repository, StoreError};
use kubepkg_core::{Algorithm, Descriptor, Digest};
use serde_json::{Map, Value, json};

use crate::http::content::read_all;
use crate::source::{Source, Standing};

/// A chart repository as it is served.
#[derive(Debug)]
pub struct View {
    /// What it was built from: each repository, and the charts found there.
    parts: BTreeMap<RepositoryName, (Arc<Repository>, Arc<[Chart]>)>,
    /// Archives of charts that are set aside as damaged: they are not here.
    pub left_out: BTreeSet<Digest>,
    /// `index.yaml`, written as JSON: every reader of YAML reads it, and no scalar can be
    /// misread.
    pub index: Bytes,
    /// Its digest.
    pub digest: Digest,
    /// Archives and provenance files by name.
    pub files: BTreeMap<String, Blob>,
}

/// A file of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Its `Content-Type`.
    pub media_type: &'static str,
}

/// One chart version.
#[derive(Debug)]
struct Chart {
    name: String,
    version: String,
    metadata: Map<String, Value>,
    archive: Descriptor,
    provenance: Option<Descriptor>,
}

/// The repositories right below `folder`, in order.
pub fn below<'n>(
    names: &'n Names,
    folder: &RepositoryName,
) -> impl Iterator<Item = (&'n RepositoryName, &'n Arc<Repository>)> {
    let prefix = format!("{folder}/");
    names
        .repositories
        .range::<str, _>((Included(prefix.as_str()), Unbounded))
        .map(move |(name, repository)| (name.as_str().strip_prefix(&prefix), name, repository))
        .map_while(|(rest, name, repository)| Some((rest?, name, repository)))
        .filter(|(rest, ..)| !rest.contains('/'))
        .map(|(_, name, repository)| (name, repository))
}

impl View {
    /// Whether nothing changed right below `folder` since this was built.
    pub fn is_of(&self, names: &Names, folder: &RepositoryName) -> bool {
        let mut below = below(names, folder);
        let same = self.parts.iter().all(|(name, (was, _))| {
            let now = below.next();
            now.is_some_and(|(other, is)| name == other && Arc::ptr_eq(was, is))
        });
        same && below.next().is_none()
    }

    /// The archives that are set aside as damaged now.
    pub fn damaged(&self, source: &dyn Source) -> BTreeSet<Digest> {
        damaged(
            source,
            self.parts.values().flat_map(|(_, charts)| &**charts),
        )
    }

    /// Lists the charts right below `folder`. Repositories that are as they were in `last` are
    /// not read again. `None` when there are no charts.
    pub fn build(
        source: &dyn Source,
        names: &Names,
        folder: &RepositoryName,
        last: Option<&View>,
    ) -> Result<Option<View>, StoreError> {
        let mut parts = BTreeMap::new();
        for (name, repository) in below(names, folder) {
            let known = last
                .and_then(|view| view.parts.get(name))
                .filter(|(was, _)| Arc::ptr_eq(was, repository));
            let charts = match known {
                Some((_, charts)) => Arc::clone(charts),
                None => charts(source, name, repository)?.into(),
            };
            parts.insert(name.clone(), (Arc::clone(repository), charts));
        }
        let found = || parts.values().flat_map(|(_, charts)| &**charts);
        if found().next().is_none() {
            return Ok(None);
        }
        let left_out = damaged(source, found());
        let whole = found().filter(|chart| !left_out.contains(&chart.archive.digest));
        let (index, files) = list(whole.collect());
        Ok(Some(View {
            left_out,
            digest: Digest::sha256(&index),
            index,
            files,
            parts,
        }))
    }
}

/// The archives among those of `charts` that are set aside as damaged.
fn damaged<'c>(source: &dyn Source, charts: impl Iterator<Item = &'c Chart>) -> BTreeSet<Digest> {
    let archives = charts.map(|chart| chart.archive.digest);
    archives
        .filter(|digest| source.standing(digest) == Standing::Quarantined)
        .collect()
}

/// The charts of one repository.
fn charts(
    source: &dyn Source,
    name: &RepositoryName,
    repository: &Repository,
) -> Result<Vec<Chart>, StoreError> {
    let mut charts = Vec::new();
    // Only tags are vouched for: what is attached to a chart comes from anybody, and could be a
    // chart of its own.
    for (tag, tagged) in &repository.tags {
        let digest = &tagged.digest;
        let Some(entry) = repository.manifests.get(digest).filter(|e| may_be_chart(e)) else {
            continue;
        };
        match chart(source, repository, digest, entry)? {
            Ok(Some(chart)) if is_tag_of(tag, &chart.version) => charts.push(chart),
            Ok(_) => {}
            Err(why) => tracing::warn!(%name, %digest, why, "chart not listed"),
        }
    }
    Ok(charts)
}

/// The index of these charts, and their files by name.
fn list(mut charts: Vec<&Chart>) -> (Bytes, BTreeMap<String, Blob>) {
    // stable: of two the smaller tag stays first
    charts.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    charts.dedup_by(|b, a| a.name == b.name && a.version == b.version);
    let mut entries: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let mut files = BTreeMap::new();
    for chart in charts {
        let file = format!("{}-{}.tgz", chart.name, chart.version);
        let mut metadata = chart.metadata.clone();
        metadata.insert("urls".to_owned(), json!([file]));
        metadata.remove("digest");
        if chart.archive.digest.algorithm() == Algorithm::Sha256 {
            let hex = chart.archive.digest.hex();
            metadata.insert("digest".to_owned(), hex.into());
        }
        if let Some(provenance) = &chart.provenance {
            let blob = Blob {
                digest: provenance.digest,
                size: provenance.size,
                media_type: "application/pgp-signature",
            };
            files.insert(format!("{file}.prov"), blob);
        }
        let blob = Blob {
            digest: chart.archive.digest,
            size: chart.archive.size,
            media_type: "application/gzip",
        };
        files.insert(file, blob);
        let versions = entries.entry(&chart.name).or_default();
        versions.push(metadata.into());
    }
    let index = json!({"apiVersion": "v1", "entries": entries});
    let index = Bytes::from(format!("{index:#}\n"));
    (index, files)
}

/// A chart's manifest shows its config's type as its own; where none was recorded only the
/// manifest can tell.
fn may_be_chart(entry: &ManifestEntry) -> bool {
    entry.subject.is_none()
        && media_type::is_image_manifest(&entry.media_type)
        && entry
            .artifact_type
            .as_deref()
            .is_none_or(|own| own == media_type::HELM_CONFIG)
}

/// The chart a manifest carries; `Ok(None)` when it carries something else. The inner error
/// says why a chart cannot be listed.
fn chart(
    source: &dyn Source,
    repository: &Repository,
    digest: &Digest,
    entry: &ManifestEntry,
) -> Result<Result<Option<Chart>, &'static str>, StoreError> {
    let Some(bytes) = small(source, digest, entry.size, MAX_MANIFEST)? else {
        return Ok(Err("its manifest is not in the store"));
    };
    let Ok(manifest) = Manifest::parse(&bytes, Some(&entry.media_type)) else {
        return Ok(Err("its manifest cannot be read"));
    };
    let is_chart = matches!(&manifest.content, Content::Image { config, .. }
        if config.media_type == media_type::HELM_CONFIG);
    if !is_chart {
        return Ok(Ok(None));
    }
    let parts = match chart::parts(&manifest) {
        Ok(parts) => parts,
        Err(why) => return Ok(Err(why)),
    };
    let here = |blob: &Descriptor| repository.blobs.contains_key(&blob.digest);
    if !here(parts.archive) {
        return Ok(Err("its archive is not in its repository"));
    }
    if !here(parts.config) {
        return Ok(Err("its config is not in its repository"));
    }
    let config = small(
        source,
        &parts.config.digest,
        parts.config.size,
        chart::MAX_CONFIG,
    )?;
    let Some(config) = config else {
        return Ok(Err("its config is not in the store or too large"));
    };
    let chart::Config {
        name,
        version,
        metadata,
    } = match chart::Config::read(&config) {
        Ok(config) => config,
        Err(why) => return Ok(Err(why)),
    };
    if !is_part_of_file_name(&name) || !is_part_of_file_name(&version) {
        return Ok(Err("its name or version cannot be part of a file name"));
    }
    Ok(Ok(Some(Chart {
        name,
        version,
        archive: parts.archive.clone(),
        provenance: parts.provenance.filter(|blob| here(blob)).cloned(),
        metadata,
    })))
}

/// Whether a chart of `version` belongs under `tag`: a registry knows no `+`, and a package may
/// name a version with or without its leading `v`.
fn is_tag_of(tag: &Tag, version: &str) -> bool {
    let version = version.replace('+', "_");
    let bare = |text: &str| text.strip_prefix('v').unwrap_or(text).to_owned();
    bare(tag.as_str()) == bare(&version)
}

/// The bytes of small content, `None` when it is not here or not of this size.
fn small(
    source: &dyn Source,
    digest: &Digest,
    size: u64,
    limit: u64,
) -> Result<Option<Vec<u8>>, StoreError> {
    let range = source.blob(digest)?;
    let Some(range) = range.filter(|range| range.len == size && size <= limit) else {
        return Ok(None);
    };
    let bytes = read_all(&range).map_err(|source| StoreError::Source {
        digest: *digest,
        source,
    })?;
    Ok(digest.matches(&bytes).then_some(bytes))
}

/// It becomes part of a URL that stands in the index unescaped.
fn is_part_of_file_name(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b'+');
    (1..=250).contains(&text.len()) && text.bytes().all(legal)
}
