//! The API types that files and clusters hold: PackageSource, Package.
//!
//! Plain serde structs. The order of a struct's fields is the order of its JSON members, and
//! the digest of a spec is over that JSON ([`PackageSourceSpec::canonical_json`]), so fields
//! are only ever added where the existing program has them, and never moved.

mod canonical;
mod package;
mod source;
mod walk;

pub(crate) use canonical::go_json;
pub use package::{ComponentSettings, Package, PackageSpec, Upgrade};
pub use source::{
    Chart, Component, HealthCheckExpr, Install, Library, Metadata, PackageSource,
    PackageSourceSpec, Permissions, PolicyRule, ReadyWhen, Requirement, Rollback, SourceRef,
    Variant,
};
pub use walk::{ChartUse, Need, Needs};

/// The API group of all kinds.
pub const GROUP: &str = "kubepkg.dev";

/// Version of the cluster API that is stored.
pub const VERSION: &str = "v1";

/// `apiVersion` of a repository index: of the file format, whatever the cluster's version is.
pub const INDEX_API_VERSION: &str = "kubepkg.dev/v1alpha1";

/// Kind of a repository index.
pub const INDEX_KIND: &str = "RepositoryIndex";

/// Kind of a package as a repository offers it.
pub const PACKAGE_SOURCE_KIND: &str = "PackageSource";

/// Kind of a package as a user wants it installed.
pub const PACKAGE_KIND: &str = "Package";

/// Annotation with a one-line description of a package.
pub const DESCRIPTION_ANNOTATION: &str = "kubepkg.dev/description";

/// Annotation with the home page of a package.
pub const HOME_ANNOTATION: &str = "kubepkg.dev/home";

/// Annotation with signatures by delegated keys (a JSON list).
pub const SIGNATURES_ANNOTATION: &str = "kubepkg.dev/signatures";

/// Annotation with approvals (a JSON list).
pub const APPROVALS_ANNOTATION: &str = "kubepkg.dev/approvals";

/// `sourceRef.kind` of a package tree in an OCI registry.
pub const OCI_ARTIFACT: &str = "OCIArtifact";

/// For `skip_serializing_if`: Go's `omitempty`.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
