//! Reading and writing YAML. The only module that names a YAML crate.
//!
//! One parser and one resolver, two policies:
//!
//! * [`go`] reads what others published (indexes, signatures, package specs) as the existing
//!   program does: sigs.k8s.io/yaml over goyaml v2, so YAML 1.1 scalars (`yes`, `0755`,
//!   `1_000`), merge keys, a number where text is wanted becomes text, member names without
//!   regard to case, unknown members reported. Digests come out the same only that way.
//!   For an index of hundreds of megabytes a faster reader goes over the part of YAML that
//!   tools write (`block`); it hands over what it does not know, and its trees go the same way.
//! * [`strict`] reads files people write for us: duplicate keys, unknown members, anchors,
//!   merge keys, tags, and unquoted scalars that Go would take for something else are errors
//!   with their line.
//!
//! [`write`](mod@write) produces block style with sorted keys and quotes every text that a YAML 1.1 or
//! 1.2 reader would take for something else.
//!
//! Where YAML 1.1 and 1.2 readers would see different documents (directives, raw NEL and
//! U+2028/2029 outside quotes, control characters), both readers refuse.

pub(crate) mod block;
mod de;
mod error;
pub mod go;
mod node;
pub(crate) mod scalar;
pub mod strict;
mod tree;
pub mod write;

pub use error::{Problem, YamlError};
pub(crate) use node::fold_eq;
pub use node::{Node, Value};
pub use tree::Limits;
