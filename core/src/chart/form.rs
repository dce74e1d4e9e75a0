//! What a chart in a registry is made of. Import, the mirror's chart view and creation all ask
//! here, so that none of them takes a chart for one that another would not.

use serde_json::{Map, Value};

use super::{ChartError, oci_form_with, read};
use crate::descriptor::{Descriptor, media_type};
use crate::digest::Digest;
use crate::manifest::{Content, Manifest};

/// The media type of chart archives before Helm 3.8; Helm itself still reads it.
const LEGACY_CHART: &str = "application/tar+gzip";

/// Largest config of a chart. It is a `Chart.yaml` as JSON, a few KiB.
pub const MAX_CONFIG: u64 = 4 * 1024 * 1024;

/// The blobs of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts<'m> {
    /// `Chart.yaml` as JSON.
    pub config: &'m Descriptor,
    /// The archive.
    pub archive: &'m Descriptor,
    /// The provenance file.
    pub provenance: Option<&'m Descriptor>,
}

/// The parts of the chart that `manifest` carries: exactly one archive, at most one provenance
/// file and nothing else. With two archives one reader would take the first and another one
/// the last. The error says why it is no chart.
pub fn parts(manifest: &Manifest) -> Result<Parts<'_>, &'static str> {
    let Content::Image { config, layers } = &manifest.content else {
        return Err("it is an index of several manifests, not a chart");
    };
    if config.media_type != media_type::HELM_CONFIG {
        return Err("it is no chart: its config is not Helm's");
    }
    let (mut archive, mut provenance) = (None, None);
    for layer in layers {
        let (place, twice) = match layer.media_type.as_str() {
            media_type::HELM_CHART | LEGACY_CHART => {
                (&mut archive, "its manifest has more than one chart archive")
            }
            media_type::HELM_PROVENANCE => (
                &mut provenance,
                "its manifest has more than one provenance file",
            ),
            _ => return Err("its manifest has a layer that belongs to no chart"),
        };
        if place.replace(layer).is_some() {
            return Err(twice);
        }
    }
    Ok(Parts {
        config,
        archive: archive.ok_or("its manifest has no chart archive")?,
        provenance,
    })
}

/// The config of a chart in a registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the chart.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// All of it.
    pub metadata: Map<String, Value>,
}

impl Config {
    /// Reads the bytes of a config. The error says what is wrong with it.
    pub fn read(bytes: &[u8]) -> Result<Config, &'static str> {
        let Ok(metadata) = serde_json::from_slice::<Map<String, Value>>(bytes) else {
            return Err("its config is not a JSON object");
        };
        // Helm takes `Name` for `name`, and which of two counts depends on their order
        let spellings = |key: &str| {
            metadata
                .keys()
                .filter(|k| k.eq_ignore_ascii_case(key))
                .count()
        };
        let text = |key: &str| match (metadata.get(key).and_then(Value::as_str), spellings(key)) {
            (Some(text), 1) => Some(text.to_owned()),
            _ => None,
        };
        match (text("name"), text("version")) {
            (Some(name), Some(version)) => Ok(Config {
                name,
                version,
                metadata,
            }),
            _ => Err("its config has no name and version, or has them twice"),
        }
    }
}

/// A chart that came from a registry: its config is its own, and must at least say which chart
/// the archive is.
pub fn check_config(config: &[u8], archive: &[u8]) -> Result<(), ChartError> {
    let config = Config::read(config).map_err(|why| ChartError::Form(why.to_owned()))?;
    let inside = read(archive)?;
    if (&config.name, &config.version) == (&inside.name, &inside.version) {
        return Ok(());
    }
    let escaped = |name: &str, version: &str| crate::error::shown(&format!("{name} {version}"));
    Err(ChartError::Form(format!(
        "its config says {}, the Chart.yaml in its archive {}",
        escaped(&config.name, &config.version),
        escaped(&inside.name, &inside.version)
    )))
}

/// A chart of a classic repository, whose archive is pinned as `pin`: its manifest has one
/// form, computed from the archive and from digest and size of the provenance file it names, if
/// it names one, and `manifest` must be it.
pub fn check_computed(
    manifest: &Descriptor,
    archive: &[u8],
    pin: &Digest,
    provenance: Option<(Digest, u64)>,
) -> Result<(), ChartError> {
    let form = oci_form_with(archive, pin.algorithm(), provenance)?;
    if form.archive_descriptor.digest == *pin && form.manifest_descriptor == *manifest {
        return Ok(());
    }
    Err(ChartError::Form(format!(
        "its manifest is {}; what follows from its archive is {}",
        manifest.digest, form.manifest_descriptor.digest
    )))
}

#[cfg(test)]
mod tests {
    use super::super::archive::tests::tgz;
    use super::*;
    use crate::digest::Algorithm;
    use serde_json::json;

    fn manifest(config: &str, layers: &[&str]) -> Manifest {
        let blob = |kind: &str, n: usize| json!({"mediaType": kind, "digest": Digest::sha256(n.to_le_bytes()), "size": 8});
        let layers: Vec<Value> = layers.iter().enumerate().map(|(n, l)| blob(l, n)).collect();
        let bytes = json!({"schemaVersion": 2, "config": blob(config, 99), "layers": layers});
        Manifest::parse(bytes.to_string().as_bytes(), None).unwrap()
    }

    #[test]
    fn a_chart_has_one_archive_and_nothing_that_could_be_taken_for_it() {
        let (chart, prov) = (media_type::HELM_CHART, media_type::HELM_PROVENANCE);
        for good in [&[chart][..], &[chart, prov], &[prov, LEGACY_CHART]] {
            parts(&manifest(media_type::HELM_CONFIG, good)).unwrap();
        }
        for bad in [
            &[][..],
            &[prov],
            &[chart, chart],
            &[chart, LEGACY_CHART],
            &[chart, prov, prov],
            &[chart, "application/octet-stream"],
        ] {
            assert!(
                parts(&manifest(media_type::HELM_CONFIG, bad)).is_err(),
                "{bad:?}"
            );
        }
        assert!(parts(&manifest("application/json", &[chart])).is_err());
    }

    #[test]
    fn a_config_cannot_name_another_chart_than_its_archive() {
        let archive = tgz(&[("web/Chart.yaml", b"name: web\nversion: 1.0.0\n")]);
        check_config(br#"{"version":"1.0.0","name":"web","x":1}"#, &archive).unwrap();
        for bad in [
            &br#"{"version":"1.0.1","name":"web"}"#[..],
            br#"{"version":"1.0.0","name":"bank"}"#,
            br#"{"version":"1.0.0","name":"web","Name":"bank"}"#,
            br#"{"name":"web"}"#,
            b"[]",
        ] {
            assert!(check_config(bad, &archive).is_err());
        }
    }

    #[test]
    fn a_computed_manifest_is_that_of_the_archive_and_the_pin() {
        let archive = tgz(&[("web/Chart.yaml", b"name: web\nversion: 1.0.0\n")]);
        for algorithm in [Algorithm::Sha256, Algorithm::Sha512] {
            let pin = Digest::of(algorithm, &archive);
            let file = Some((Digest::sha256("signed"), 6));
            let (bare, signed) = (None, file);
            for provenance in [bare, signed] {
                let form = oci_form_with(&archive, algorithm, provenance).unwrap();
                let check = |manifest: &Descriptor, archive: &[u8], provenance| {
                    check_computed(manifest, archive, &pin, provenance)
                };
                check(&form.manifest_descriptor, &archive, provenance).unwrap();
                let mut other = form.manifest_descriptor.clone();
                other.digest = Digest::sha256("other");
                assert!(check(&other, &archive, provenance).is_err());
                let other = tgz(&[("web/Chart.yaml", b"name: web\nversion: 1.0.1\n")]);
                assert!(check(&form.manifest_descriptor, &other, provenance).is_err());
                // neither without what it names, nor with another file or size
                for wrong in [
                    if provenance.is_some() { bare } else { signed },
                    Some((Digest::sha256("other"), 6)),
                    Some((Digest::sha256("signed"), 7)),
                ] {
                    assert!(check(&form.manifest_descriptor, &archive, wrong).is_err());
                }
            }
        }
    }
}
