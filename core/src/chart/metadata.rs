//! What `Chart.yaml` says (Helm documentation, "The Chart.yaml File").

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ChartError;
use crate::api::go_json;
use crate::yaml::{Limits, go};

/// Metadata of a chart. The members stand in the order Helm writes them; empty ones are left
/// out, and members Helm does not know are passed over, as it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name of the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Home page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// Where the source is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Version of the chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// One sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Words to find it by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Who keeps it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// URL of a picture.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    /// `v1` or `v2`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Condition under which it is installed as a dependency.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Tags by which it is chosen as a dependency.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    /// Version of what it installs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// Whether it should no longer be used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Free-form facts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Which versions of Kubernetes it is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// Charts it includes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// `application` or `library`.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// Somebody who keeps a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Maintainer {
    /// Name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Mail address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    /// Home page.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// A chart that another one includes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// Name of the chart.
    pub name: String,
    /// Which versions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Where it is published.
    pub repository: String,
    /// Value that switches it on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Tags that switch it on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether it is switched on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// Values taken from it.
    #[serde(rename = "import-values", skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<serde_json::Value>,
    /// Its name within the including chart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

impl Metadata {
    /// Reads `Chart.yaml` as Helm does. Without `apiVersion` a chart is `v1`.
    pub(super) fn parse(bytes: &[u8]) -> Result<Metadata, ChartError> {
        let document = go::Document::read(bytes, &Limits::default())?;
        let mut metadata: Metadata = document.decode(document.root())?.value;
        metadata.tidy();
        let rule = |good: bool, why: &str| match good {
            true => Ok(()),
            false => Err(ChartError::Metadata(why.to_owned())),
        };
        rule(!metadata.name.is_empty(), "it has no name")?;
        rule(!metadata.version.is_empty(), "it has no version")?;
        let plain = !metadata.name.contains('/') && !matches!(metadata.name.as_str(), "." | "..");
        rule(plain, "its name is a path")?;
        if metadata.api_version.is_empty() {
            "v1".clone_into(&mut metadata.api_version);
        }
        Ok(metadata)
    }

    /// Helm does this to one-line texts of every chart it loads: line ends become spaces, what
    /// cannot be printed is dropped.
    fn tidy(&mut self) {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ]
        .into_iter()
        .chain(&mut self.sources)
        .chain(&mut self.keywords)
        .chain(
            self.maintainers
                .iter_mut()
                .flat_map(|m| [&mut m.name, &mut m.email, &mut m.url]),
        )
        .chain(self.dependencies.iter_mut().flat_map(|d| {
            [
                &mut d.name,
                &mut d.version,
                &mut d.repository,
                &mut d.condition,
            ]
            .into_iter()
            .chain(&mut d.tags)
        })) {
            *text = printable(text);
        }
    }

    /// The JSON that Helm puts into a registry as the config of this chart (Go's encoding).
    pub fn to_json(&self) -> Vec<u8> {
        go_json(self)
    }
}

fn printable(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e000}'..='\u{f8ff}')
    };
    text.chars()
        .filter_map(|c| match c {
            c if c.is_whitespace() => Some(' '),
            c if hidden(c) => None,
            c => Some(c),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(yaml: &str) -> String {
        String::from_utf8(Metadata::parse(yaml.as_bytes()).unwrap().to_json()).unwrap()
    }

    #[test]
    fn values_are_read_as_go_reads_them_and_written_in_helms_order() {
        let yaml = "version: 1.10\nname: web\ndeprecated: yes\nextra: {a: 1}\nhome: null\n\
                    annotations: {b: <x> & y, a: 1}\ntype: application\napiVersion: v2\n\
                    dependencies:\n- {name: db, import-values: [data, {parent: p, child: c}]}\n";
        assert_eq!(
            json(yaml),
            r#"{"name":"web","version":"1.1","apiVersion":"v2","deprecated":true,"annotations":{"a":"1","b":"\u003cx\u003e \u0026 y"},"dependencies":[{"name":"db","repository":"","import-values":["data",{"child":"c","parent":"p"}]}],"type":"application"}"#
        );
    }

    #[test]
    fn texts_of_one_line_are_tidied() {
        let yaml =
            "name: web\nversion: 1.0.0\ndescription: |\n  two\n  lines\nicon: \"a\\u200b\\x01b\"\n";
        assert_eq!(
            json(yaml),
            r#"{"name":"web","version":"1.0.0","description":"two lines ","icon":"ab","apiVersion":"v1"}"#
        );
    }

    #[test]
    fn a_chart_has_a_name_and_a_version() {
        for bad in [
            "",
            "name: web",
            "version: 1.0.0",
            "- 1",
            "name: [1]\nversion: 1",
            "\0",
        ] {
            assert!(Metadata::parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(Metadata::parse(b"name: ../web\nversion: 1.0.0").is_err());
    }
}
