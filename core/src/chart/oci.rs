//! The OCI form of a chart from a classic Helm repository.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ChartError, Metadata, read};
use crate::descriptor::{Descriptor, media_type};
use crate::digest::{Algorithm, Digest};
use crate::manifest::MAX_MANIFEST;

const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const CREATED: &str = "org.opencontainers.image.created";

/// A chart as a registry holds it: its blobs, of which the archive and the provenance file are
/// those that were given.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartForm {
    /// Bytes of the config.
    pub config: Vec<u8>,
    /// Bytes of the manifest.
    pub manifest: Vec<u8>,
    /// What `Chart.yaml` says.
    pub metadata: Metadata,
    /// Descriptor of the config.
    pub config_descriptor: Descriptor,
    /// Descriptor of the archive.
    pub archive_descriptor: Descriptor,
    /// Descriptor of the provenance file.
    pub provenance_descriptor: Option<Descriptor>,
    /// Descriptor of the manifest.
    pub manifest_descriptor: Descriptor,
}

/// An image manifest; the members stand in the order Helm's library writes them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    schema_version: u32,
    media_type: &'static str,
    config: &'a Descriptor,
    layers: Vec<&'a Descriptor>,
    annotations: BTreeMap<String, String>,
}

/// The OCI form of the chart in `archive`, with its sha256 digest as layer.
pub fn oci_form(archive: &[u8]) -> Result<ChartForm, ChartError> {
    oci_form_as(archive, Algorithm::Sha256)
}

/// [`oci_form`] for an archive that is pinned by a digest of `algorithm`.
pub fn oci_form_as(archive: &[u8], algorithm: Algorithm) -> Result<ChartForm, ChartError> {
    oci_form_with(archive, algorithm, None)
}

/// [`oci_form_as`] of a chart with a provenance file of this digest and size, if any.
///
/// The archive is the first layer. Helm sorts the two by digest and finds them by their media
/// types; other readers take the first layer for the chart.
pub fn oci_form_with(
    archive: &[u8],
    algorithm: Algorithm,
    provenance: Option<(Digest, u64)>,
) -> Result<ChartForm, ChartError> {
    let metadata = read(archive)?;
    let config = metadata.to_json();
    let config_descriptor = descriptor(media_type::HELM_CONFIG, Algorithm::Sha256, &config);
    let archive_descriptor = descriptor(media_type::HELM_CHART, algorithm, archive);
    let provenance_descriptor =
        provenance.map(|(digest, size)| Descriptor::new(media_type::HELM_PROVENANCE, digest, size));
    let layers = std::iter::once(&archive_descriptor).chain(&provenance_descriptor);
    let wire = Wire {
        schema_version: 2,
        media_type: media_type::OCI_MANIFEST,
        config: &config_descriptor,
        layers: layers.collect(),
        annotations: annotations(&metadata),
    };
    let manifest =
        serde_json::to_vec(&wire).map_err(|error| ChartError::Metadata(error.to_string()))?;
    if manifest.len() as u64 > MAX_MANIFEST {
        return Err(ChartError::Metadata(format!(
            "it makes a manifest of more than {MAX_MANIFEST} bytes"
        )));
    }
    let manifest_descriptor = descriptor(media_type::OCI_MANIFEST, Algorithm::Sha256, &manifest);
    Ok(ChartForm {
        config,
        manifest,
        metadata,
        config_descriptor,
        archive_descriptor,
        provenance_descriptor,
        manifest_descriptor,
    })
}

fn descriptor(kind: &str, algorithm: Algorithm, bytes: &[u8]) -> Descriptor {
    Descriptor::new(kind, Digest::of(algorithm, bytes), bytes.len() as u64)
}

/// Those Helm writes, without the time of a push. A chart's own annotations come before the
/// standard ones, except those that say which chart it is.
fn annotations(metadata: &Metadata) -> BTreeMap<String, String> {
    let mut annotations = metadata.annotations.clone();
    for key in [TITLE, VERSION, CREATED] {
        annotations.remove(key);
    }
    let source = metadata.sources.first().map_or("", String::as_str);
    for (key, text) in [
        (TITLE, metadata.name.as_str()),
        (VERSION, metadata.version.as_str()),
        (
            "org.opencontainers.image.description",
            metadata.description.as_str(),
        ),
        ("org.opencontainers.image.url", metadata.home.as_str()),
        ("org.opencontainers.image.source", source),
        ("org.opencontainers.image.authors", &authors(metadata)),
    ] {
        if !text.trim().is_empty() {
            annotations
                .entry(key.to_owned())
                .or_insert_with(|| text.to_owned());
        }
    }
    annotations
}

fn authors(metadata: &Metadata) -> String {
    let each = metadata
        .maintainers
        .iter()
        .map(|maintainer| match maintainer.email.as_str() {
            "" => maintainer.name.clone(),
            email => format!("{} ({email})", maintainer.name),
        });
    each.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::tgz;
    use super::*;
    use crate::manifest::Manifest;

    /// Real charts; the digests of the configs were computed with Helm 4's own loader and Go's
    /// encoder.
    const CHARTS: &[(&str, &str, &str, &[u8])] = &[
        (
            "alertmanager",
            "1.42.0",
            "bda4f6878d18e85f20d7212e34adb483b919bff87fefefe8845bc2f8f7e897c1",
            include_bytes!("../../../tests/charts/alertmanager-1.42.0.tgz"),
        ),
        (
            "cert-manager",
            "v1.21.2",
            "a768a746d3be108aeaa02ac82b7cf4eb0431370a275fa35cb09a1347a2f632c3",
            include_bytes!("../../../tests/charts/cert-manager-v1.21.2.tgz"),
        ),
        (
            "kube-state-metrics",
            "8.4.0",
            "609e64ba758da741b9acb2e253822521c2605228a41a39f89100ef92059f82ed",
            include_bytes!("../../../tests/charts/kube-state-metrics-8.4.0.tgz"),
        ),
        (
            "prometheus",
            "29.27.0",
            "e838b66fb5eadd36c9699eadaeff91f394a12910917e09f01b7299d34075db40",
            include_bytes!("../../../tests/charts/prometheus-29.27.0.tgz"),
        ),
        (
            "prometheus-node-exporter",
            "4.56.1",
            "63f48d92ec0163d6cd49e96d83f1d9ef1b70f4ec186e53e12ed524b08f605df5",
            include_bytes!("../../../tests/charts/prometheus-node-exporter-4.56.1.tgz"),
        ),
        (
            "prometheus-pushgateway",
            "3.8.0",
            "c77f1b1ac2c8a7b1c301d5c10a6294a9d7592ad0616387e52084f2e970dc3ddd",
            include_bytes!("../../../tests/charts/prometheus-pushgateway-3.8.0.tgz"),
        ),
    ];

    #[test]
    fn real_charts_have_the_config_helm_gives_them() {
        for (name, version, config, archive) in CHARTS {
            let form = oci_form(archive).unwrap();
            assert_eq!(
                (&*form.metadata.name, &*form.metadata.version),
                (*name, *version)
            );
            assert_eq!(form.config_descriptor.digest.hex(), *config, "{name}");
            assert!(form.config_descriptor.digest.matches(&form.config));
            assert!(form.manifest_descriptor.digest.matches(&form.manifest));
            let manifest = Manifest::parse(&form.manifest, Some(media_type::OCI_MANIFEST)).unwrap();
            let blobs = manifest.blobs();
            assert_eq!(blobs, [&form.config_descriptor, &form.archive_descriptor]);
            assert!(blobs[1].digest.matches(archive));
            assert_eq!(manifest.annotations[TITLE], *name);
            assert_eq!(manifest.annotations[VERSION], *version);
            assert!(!manifest.annotations.contains_key(CREATED));
            assert_eq!(form, oci_form(archive).unwrap());
        }
    }

    #[test]
    fn the_manifest_of_a_chart_never_changes() {
        // every mirror shows this digest; another one would be another chart to its users
        let form = oci_form(CHARTS[0].3).unwrap();
        assert_eq!(form.manifest_descriptor.digest.to_string(), GOLDEN);
    }

    const GOLDEN: &str = "sha256:dfd941300bdaa791ce22143b7d8c9f9c7c851714c2b44d97ee22fd8886460dda";

    #[test]
    fn a_provenance_file_is_the_second_layer_and_changes_nothing_else() {
        let archive = CHARTS[0].3;
        let file = (Digest::sha256("signed"), 6);
        let form = oci_form_with(archive, Algorithm::Sha256, Some(file)).unwrap();
        assert_eq!(
            form.manifest_descriptor.digest.to_string(),
            GOLDEN_WITH_PROVENANCE
        );
        let manifest = Manifest::parse(&form.manifest, Some(media_type::OCI_MANIFEST)).unwrap();
        let provenance = Descriptor::new(media_type::HELM_PROVENANCE, file.0, file.1);
        let blobs = manifest.blobs();
        assert_eq!(
            blobs,
            [
                &form.config_descriptor,
                &form.archive_descriptor,
                &provenance
            ]
        );
        let without = oci_form(archive).unwrap();
        let bare = Manifest::parse(&without.manifest, None).unwrap();
        assert_eq!(blobs[..2], bare.blobs());
        assert_eq!(manifest.annotations, bare.annotations);
    }

    const GOLDEN_WITH_PROVENANCE: &str =
        "sha256:314349d8a81334aaace8946d8e7ec3c0c681805c64f1e8d06b2a0e7f53bf7722";

    #[test]
    fn a_chart_cannot_claim_to_be_another_one() {
        let yaml = b"name: web\nversion: 1.0.0\nannotations:\n  org.opencontainers.image.title: bank\n  \
            org.opencontainers.image.created: now\n  org.opencontainers.image.url: https://own\nhome: https://other\n\
            maintainers: [{name: A, email: a@x}, {name: B}]\n";
        let form = oci_form(&tgz(&[("web/Chart.yaml", yaml)])).unwrap();
        let manifest = Manifest::parse(&form.manifest, None).unwrap();
        let want = [
            ("org.opencontainers.image.authors", "A (a@x), B"),
            (TITLE, "web"),
            ("org.opencontainers.image.url", "https://own"),
            (VERSION, "1.0.0"),
        ];
        let found: Vec<(&str, &str)> = manifest
            .annotations
            .iter()
            .map(|(key, text)| (key.as_str(), text.as_str()))
            .collect();
        assert_eq!(found, want);
    }
}
