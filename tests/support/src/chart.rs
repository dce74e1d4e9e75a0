//! Small charts that Helm accepts.

use bytes::Bytes;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::{Algorithm, Digest};
use serde_json::json;

use crate::image::{Content, Image, append, gzip};

/// A chart archive.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Chart name.
    pub name: String,
    /// Chart version.
    pub version: String,
    /// The `.tgz`.
    pub archive: Bytes,
}

impl Chart {
    /// A chart with one Deployment of `image`.
    pub fn new(name: &str, version: &str, image: &str) -> Chart {
        let template = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  selector:\n    \
             matchLabels: {{app: {name}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n    \
             spec:\n      containers:\n        - name: main\n          image: {{{{ .Values.image }}}}\n"
        );
        let mut archive = tar::Builder::new(Vec::new());
        for (file, text) in [
            ("Chart.yaml", Chart::metadata(name, version)),
            ("values.yaml", format!("image: \"{image}\"\n")),
            ("templates/deployment.yaml", template),
        ] {
            append(&mut archive, &format!("{name}/{file}"), text.as_bytes());
        }
        Chart {
            name: name.to_owned(),
            version: version.to_owned(),
            archive: gzip(&archive.into_inner().unwrap()).into(),
        }
    }

    fn metadata(name: &str, version: &str) -> String {
        format!(
            "apiVersion: v2\nname: {name}\nversion: \"{version}\"\nappVersion: \"{version}\"\n\
             description: A chart for tests\ntype: application\n"
        )
    }

    /// Digest of the archive.
    pub fn digest(&self) -> Digest {
        Digest::sha256(&self.archive)
    }

    /// File name of the archive in a classic repository.
    pub fn file_name(&self) -> String {
        format!("{}-{}.tgz", self.name, self.version)
    }

    /// The chart as Helm pushes it into a registry.
    pub fn image(&self) -> Image {
        let mut content = Content::default();
        let config = json!({
            "apiVersion": "v2",
            "name": self.name,
            "version": self.version,
            "appVersion": self.version,
            "description": "A chart for tests",
            "type": "application",
        });
        let config = content.add_blob(
            Algorithm::Sha256,
            media_type::HELM_CONFIG,
            serde_json::to_vec(&config).unwrap(),
        );
        let layer = content.add_blob(
            Algorithm::Sha256,
            media_type::HELM_CHART,
            self.archive.to_vec(),
        );
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
        let descriptor =
            content.add_manifest(Algorithm::Sha256, media_type::OCI_MANIFEST, &manifest);
        Image {
            descriptor,
            content,
        }
    }
}

/// `index.yaml` of a classic repository that holds `charts` beside it.
pub fn helm_index(charts: &[Chart]) -> String {
    let mut names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut text = "apiVersion: v1\nentries:\n".to_owned();
    for name in names {
        text.push_str(&format!("  {name}:\n"));
        for chart in charts.iter().filter(|chart| chart.name == name) {
            text.push_str(&format!(
                "    - apiVersion: v2\n      name: {name}\n      version: \"{}\"\n      digest: {}\n      \
                 urls:\n        - {}\n",
                chart.version,
                chart.digest().hex(),
                chart.file_name()
            ));
        }
    }
    text.push_str("generated: \"2026-01-01T00:00:00Z\"\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_chart_holds_what_helm_looks_for() {
        let chart = Chart::new("web", "1.2.3", "registry.example.com/web:1");
        assert_eq!(
            chart.digest(),
            Chart::new("web", "1.2.3", "registry.example.com/web:1").digest()
        );
        let plain = flate2::read::GzDecoder::new(&chart.archive[..]);
        let mut archive = tar::Archive::new(plain);
        let mut paths = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            paths.push(entry.path().unwrap().display().to_string());
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            assert!(!text.is_empty());
        }
        assert_eq!(
            paths,
            [
                "web/Chart.yaml",
                "web/values.yaml",
                "web/templates/deployment.yaml"
            ]
        );
        assert!(helm_index(&[chart]).contains("web-1.2.3.tgz"));
    }
}
