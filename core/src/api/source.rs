//! PackageSource: one version of a package as a repository offers it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::is_default;

/// A PackageSource object or document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PackageSource {
    /// `kubepkg.dev/<version>`.
    pub api_version: String,
    /// `PackageSource`.
    pub kind: String,
    /// Name and annotations.
    pub metadata: Metadata,
    /// What the package is.
    pub spec: PackageSourceSpec,
}

/// The part of an object's metadata that files carry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// The name of the package.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Labels.
    #[serde(skip_serializing_if = "is_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, see the constants in [`super`].
    #[serde(skip_serializing_if = "is_default")]
    pub annotations: BTreeMap<String, String>,
}

impl PackageSource {
    /// The name of the package.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The annotation `key`, empty when absent.
    pub fn annotation(&self, key: &str) -> &str {
        self.metadata
            .annotations
            .get(key)
            .map_or("", String::as_str)
    }
}

/// What one version of a package is: what it needs and provides, and its variants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PackageSourceSpec {
    /// Exact semantic version.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// Build of this version; signed, as the existing program takes any 32-bit integer.
    #[serde(skip_serializing_if = "is_default")]
    pub build: i32,
    /// Where the package tree lies that components with a path are taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<SourceRef>,
    /// Capabilities.
    #[serde(skip_serializing_if = "is_default")]
    pub provides: Vec<String>,
    /// Packages or capabilities that cannot be there at the same time.
    #[serde(skip_serializing_if = "is_default")]
    pub conflicts: Vec<String>,
    /// Custom resource definitions the package brings.
    #[serde(skip_serializing_if = "is_default")]
    pub crds: Vec<String>,
    /// What the package may do in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// Whether going back to it is safe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// The ways to install it.
    #[serde(skip_serializing_if = "is_default")]
    pub variants: Vec<Variant>,
    /// The container images it runs, pinned by digest.
    #[serde(skip_serializing_if = "is_default")]
    pub images: Vec<String>,
}

/// Where a package tree lies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SourceRef {
    /// `GitRepository`, `OCIRepository` or `OCIArtifact`.
    pub kind: String,
    /// Name of the object of that kind.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Namespace of that object.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
    /// Reference of an `OCIArtifact`: `oci://…@sha256:…`.
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    /// Folder within the tree.
    #[serde(skip_serializing_if = "is_default")]
    pub path: String,
}

/// What a package may do in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Permissions {
    /// Whether the rules hold in every namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub cluster_wide: bool,
    /// RBAC rules.
    #[serde(skip_serializing_if = "is_default")]
    pub rules: Vec<PolicyRule>,
}

/// An RBAC rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicyRule {
    /// Always written: `null` when absent, which is not the same as empty.
    pub verbs: Option<Vec<String>>,
    /// API groups.
    #[serde(skip_serializing_if = "is_default")]
    pub api_groups: Vec<String>,
    /// Resources.
    #[serde(skip_serializing_if = "is_default")]
    pub resources: Vec<String>,
    /// Names of resources.
    #[serde(skip_serializing_if = "is_default")]
    pub resource_names: Vec<String>,
    /// URLs that are no resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "is_default")]
    pub non_resource_urls: Vec<String>,
}

/// Whether going back to a version is safe.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rollback {
    /// The publisher says it is.
    #[serde(skip_serializing_if = "is_default")]
    pub safe: bool,
}

/// One way to install a package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Variant {
    /// Name; `default` is taken when nothing is asked for.
    pub name: String,
    /// Packages needed in any version.
    #[serde(skip_serializing_if = "is_default")]
    pub depends_on: Vec<String>,
    /// Packages and capabilities needed.
    #[serde(skip_serializing_if = "is_default")]
    pub requires: Vec<Requirement>,
    /// Library charts of the tree.
    #[serde(skip_serializing_if = "is_default")]
    pub libraries: Vec<Library>,
    /// What is installed, in order.
    #[serde(skip_serializing_if = "is_default")]
    pub components: Vec<Component>,
}

/// A package or a capability that is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Requirement {
    /// Name of a package.
    #[serde(skip_serializing_if = "is_default")]
    pub package: String,
    /// A capability, in place of a package.
    #[serde(skip_serializing_if = "is_default")]
    pub capability: String,
    /// Version constraint.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// Whether it may be left out.
    #[serde(skip_serializing_if = "is_default")]
    pub optional: bool,
    /// The variant the package must run; any when empty.
    #[serde(skip_serializing_if = "is_default")]
    pub variant: String,
    /// Values passed to the package: an object of Helm values per component.
    #[serde(skip_serializing_if = "is_default")]
    pub values: BTreeMap<String, serde_json::Value>,
}

/// A library chart within the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Library {
    /// Name; the last element of the path when empty.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Path within the tree.
    pub path: String,
}

/// One thing that is installed: a chart, or a chart within the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Component {
    /// Name.
    pub name: String,
    /// Path within the tree.
    #[serde(skip_serializing_if = "is_default")]
    pub path: String,
    /// A published chart, in place of a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
    /// How it is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<Install>,
    /// Libraries of the variant that this component uses.
    #[serde(skip_serializing_if = "is_default")]
    pub libraries: Vec<String>,
    /// Values files within the tree.
    #[serde(skip_serializing_if = "is_default")]
    pub values_files: Vec<String>,
}

/// A published chart.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Chart {
    /// URL of the chart repository: `https://`, `http://` or `oci://`.
    pub repository: String,
    /// Name of the chart.
    pub name: String,
    /// Version of the chart.
    pub version: String,
    /// `sha256:` digest of the archive; empty while not pinned.
    #[serde(skip_serializing_if = "is_default")]
    pub digest: String,
}

/// How a component is installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Install {
    /// Name of the Helm release.
    #[serde(skip_serializing_if = "is_default")]
    pub release_name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
    /// Whether the namespace must admit privileged pods.
    #[serde(skip_serializing_if = "is_default")]
    pub privileged: bool,
    /// Components to be installed before.
    #[serde(skip_serializing_if = "is_default")]
    pub depends_on: Vec<String>,
    /// `Skip`, `Create` or `CreateReplace`.
    #[serde(rename = "upgradeCRDs", skip_serializing_if = "is_default")]
    pub upgrade_crds: String,
    /// `poller` or `legacy`.
    #[serde(skip_serializing_if = "is_default")]
    pub wait_strategy: String,
    /// CEL expressions that tell whether it is well.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check_exprs: Vec<HealthCheckExpr>,
    /// `PreUpgrade` or empty.
    #[serde(skip_serializing_if = "is_default")]
    pub phase: String,
    /// Conditions of objects that tell whether it is ready.
    #[serde(skip_serializing_if = "is_default")]
    pub ready_when: Vec<ReadyWhen>,
}

/// CEL expressions over objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HealthCheckExpr {
    /// API version of the objects.
    pub api_version: String,
    /// Kind of the objects.
    pub kind: String,
    /// True when the object is as it should be.
    pub current: String,
    /// True while it is being changed.
    #[serde(skip_serializing_if = "is_default")]
    pub in_progress: String,
    /// True when it failed.
    #[serde(skip_serializing_if = "is_default")]
    pub failed: String,
}

/// A condition of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReadyWhen {
    /// API version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
    /// Type of the condition.
    pub condition: String,
    /// Status wanted; `True` when empty.
    #[serde(skip_serializing_if = "is_default")]
    pub status: String,
}
