//! What one version of a package refers to: charts, tree, images, other packages.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Chart, OCI_ARTIFACT, PackageSourceSpec, Variant};

/// A chart and who uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChartUse<'a> {
    /// Name of the variant.
    pub variant: &'a str,
    /// Name of the component.
    pub component: &'a str,
    /// The chart.
    pub chart: &'a Chart,
}

/// What a requirement asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need<'a> {
    /// A package and a version constraint; an empty one accepts every version.
    Package {
        /// Name of the package.
        name: &'a str,
        /// The constraint as written.
        constraint: &'a str,
    },
    /// A capability, provided by some package or the cluster.
    Capability(&'a str),
}

/// One requirement of a variant. `dependsOn: [x]` is a requirement of package `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs<'a> {
    /// Name of the variant.
    pub variant: &'a str,
    /// What is needed.
    pub need: Need<'a>,
    /// Whether it may be left out.
    pub optional: bool,
    /// The variant of the needed package; any when empty.
    pub wanted_variant: &'a str,
    /// What is passed to components of the needed package.
    pub passed: &'a BTreeMap<String, Value>,
}

/// What is passed by those that pass nothing.
static NOTHING: BTreeMap<String, Value> = BTreeMap::new();

impl PackageSourceSpec {
    /// The charts of every variant, in order; one used twice comes twice.
    pub fn charts(&self) -> impl Iterator<Item = ChartUse<'_>> {
        self.variants.iter().flat_map(|variant| {
            variant.components.iter().filter_map(|component| {
                Some(ChartUse {
                    variant: &variant.name,
                    component: &component.name,
                    chart: component.chart.as_ref()?,
                })
            })
        })
    }

    /// Reference of the package tree, where some component is taken from it.
    pub fn tree(&self) -> Option<&str> {
        let source = self.source_ref.as_ref()?;
        (source.kind == OCI_ARTIFACT && self.uses_tree()).then_some(&source.url)
    }

    /// Whether a component or library of any variant lies in the package tree.
    pub fn uses_tree(&self) -> bool {
        self.variants.iter().any(|variant| {
            !variant.libraries.is_empty() || variant.components.iter().any(|c| !c.path.is_empty())
        })
    }

    /// The requirements of every variant, in order.
    pub fn needs(&self) -> impl Iterator<Item = Needs<'_>> {
        self.variants.iter().flat_map(Variant::needs)
    }

    /// The variant `name`.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

impl Variant {
    /// The requirements of this variant: `dependsOn`, then `requires`. A requirement of
    /// nothing is passed over.
    pub fn needs(&self) -> impl Iterator<Item = Needs<'_>> {
        let depends = self.depends_on.iter().map(|name| Needs {
            variant: &self.name,
            need: Need::Package {
                name,
                constraint: "",
            },
            optional: false,
            wanted_variant: "",
            passed: &NOTHING,
        });
        let requires = self.requires.iter().filter_map(|requirement| {
            let need = if !requirement.package.is_empty() {
                Need::Package {
                    name: &requirement.package,
                    constraint: &requirement.version,
                }
            } else if !requirement.capability.is_empty() {
                Need::Capability(&requirement.capability)
            } else {
                return None;
            };
            Some(Needs {
                variant: &self.name,
                need,
                optional: requirement.optional,
                wanted_variant: &requirement.variant,
                passed: &requirement.values,
            })
        });
        depends.chain(requires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Component, Requirement, SourceRef};

    #[test]
    fn depends_on_is_a_requirement_of_any_version() {
        let variant = Variant {
            name: "default".to_owned(),
            depends_on: vec!["net".to_owned()],
            requires: vec![
                Requirement {
                    package: "db".to_owned(),
                    version: "~1.2".to_owned(),
                    optional: true,
                    ..Default::default()
                },
                Requirement {
                    capability: "ingress".to_owned(),
                    ..Default::default()
                },
                Requirement::default(),
            ],
            ..Default::default()
        };
        let needs: Vec<_> = variant.needs().map(|n| (n.need, n.optional)).collect();
        let package = |name, constraint| Need::Package { name, constraint };
        assert_eq!(
            needs,
            [
                (package("net", ""), false),
                (package("db", "~1.2"), true),
                (Need::Capability("ingress"), false),
            ]
        );
    }

    #[test]
    fn a_requirement_carries_the_variant_and_the_values_it_asks_for() {
        let json = r#"{"name":"default","requires":[{"package":"db","version":"\u003e=1","variant":"ha","values":{"server":{"a":"\u003cb","z":1}}}]}"#;
        let variant: Variant = serde_json::from_str(json).unwrap();
        let need = variant.needs().next().unwrap();
        assert_eq!(need.wanted_variant, "ha");
        assert_eq!(need.passed["server"]["z"], 1);
        let written = crate::api::go_json(&variant);
        assert_eq!(String::from_utf8(written).unwrap(), json);
    }

    #[test]
    fn charts_of_every_variant_and_the_tree() {
        let chart = Chart {
            name: "web".to_owned(),
            ..Default::default()
        };
        let with = |component| Variant {
            components: vec![component],
            ..Default::default()
        };
        let charted = Component {
            chart: Some(chart.clone()),
            ..Default::default()
        };
        let mut spec = PackageSourceSpec {
            variants: vec![with(charted.clone()), with(charted)],
            source_ref: Some(SourceRef {
                kind: OCI_ARTIFACT.to_owned(),
                url: "oci://h/t".to_owned(),
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(spec.charts().filter(|c| *c.chart == chart).count(), 2);
        assert_eq!(spec.tree(), None, "no component lies in it");
        spec.variants.push(with(Component {
            path: "web".to_owned(),
            ..Default::default()
        }));
        assert_eq!(spec.tree(), Some("oci://h/t"));
    }
}
