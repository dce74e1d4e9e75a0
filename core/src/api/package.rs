//! Package: what a user wants installed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Metadata, is_default};

/// A Package object or document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Package {
    /// `kubepkg.dev/<version>`.
    pub api_version: String,
    /// `Package`.
    pub kind: String,
    /// Its name is the name of the package.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: PackageSpec,
}

/// What a user wants of a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PackageSpec {
    /// Variant; `default` when empty.
    #[serde(skip_serializing_if = "is_default")]
    pub variant: String,
    /// Version constraint.
    #[serde(skip_serializing_if = "is_default")]
    pub version: String,
    /// The only repository to take it from.
    #[serde(skip_serializing_if = "is_default")]
    pub repository: String,
    /// Requirements not to insist on.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore_dependencies: Vec<String>,
    /// Settings by component.
    #[serde(skip_serializing_if = "is_default")]
    pub components: BTreeMap<String, ComponentSettings>,
    /// How upgrades go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// Revisions to keep; 10 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// `Retain` or `Delete`.
    #[serde(skip_serializing_if = "is_default")]
    pub crd_policy: String,
}

/// A user's settings for one component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ComponentSettings {
    /// Whether it is installed; yes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Helm values, any JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<serde_json::Value>,
    /// Name of the Helm release.
    #[serde(skip_serializing_if = "is_default")]
    pub release_name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "is_default")]
    pub namespace: String,
}

/// How upgrades go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Upgrade {
    /// Whether a failed upgrade is rolled back; yes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub atomic: Option<bool>,
    /// Go duration; `10m` when empty.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: String,
}
