//! # The format, version 1
//!
//! A bundle is one uncompressed POSIX tar (ustar headers, pax records where ustar is too
//! small). It carries chosen packages with everything they need: repository files, charts,
//! package trees, images, and what refers to them.
//!
//! ## Members
//!
//! In this order and no other, each exactly once:
//!
//! | Path | Content |
//! |---|---|
//! | `kubepkg/bundle.json` | the head |
//! | `kubepkg/signatures.json` | the signature slot, always [`SIGNATURE_SLOT`] bytes |
//! | `oci-layout`, `index.json` | computed from the head, so that tools see an OCI layout |
//! | `repositories/<folder>/<file>` | repository files as fetched, by (URL, path) |
//! | `extensions/<feature>/<file>` | files of optional features, by (feature, path) |
//! | `blobs/<algorithm>/<hex>` | manifests, configs, charts, trees, layers, as fetched, by (class, algorithm, hex) |
//!
//! After the last member follow two zero blocks and zeros to the next multiple of
//! [`ALIGNMENT`], and nothing more.
//!
//! ## Headers
//!
//! Typeflag `0`, mode 0644, ids and mtime 0, no user or group name, no prefix. A member may be
//! preceded by one pax header (typeflag `x`, named `././@PaxHeader`) with these records in this
//! order, each only when it is needed:
//!
//! 1. `path`: the name has more than 100 bytes (sha512 blobs). The ustar name then holds its
//!    first 100 bytes.
//! 2. `size`: the data has [`USTAR_SIZE`] bytes or more. The ustar size is then 0.
//! 3. `comment`: spaces, so that data of [`ALIGN_FROM`] bytes and more begins at a multiple of
//!    [`ALIGNMENT`]. It fills the pax data to a whole number of blocks; the least number that
//!    aligns is taken, and no comment where the data lies right without one.
//!
//! The head is the only member that is never aligned: it follows its header at byte 512.
//!
//! ## The head
//!
//! JSON without spaces between tokens, members of objects in byte order of their keys, then
//! spaces until its length is [`HEAD_REMAINDER`] modulo [`ALIGNMENT`]. The spaces belong to it.
//! What that gives: header (512) + head (3072) + header of the slot (512) is 0 modulo 4096, so the
//! slot's data begins at a multiple of 4096, and because the slot is four times 4096 long, the
//! header of `oci-layout` and with it all that follows begins at a multiple of 4096 too. A
//! signature added later moves nothing.
//!
//! The bundle id is the SHA-256 of the head's bytes. There is one way only to write a head: lists
//! are sorted and without doubles, and a reader writes what it read again and compares. Fields
//! are those of [`Head`](super::head::Head); unknown ones are allowed only below
//! `extensions.<feature>.fields`. A feature in `requires` must be known ([`FEATURES`]).
//!
//! ## The signature slot
//!
//! `{"signatures":[{"key":…,"signature":…}]}`, sorted by key id, followed by spaces. `key` is the
//! public key as a PEM text, `signature` the base64 of an ed25519 signature over the bytes
//! `{"type":"kubepkg.dev/bundle","head":"<bundle id>"}`. An entry that does not verify makes
//! the file refused, so that a slot can never hold anything else.
//!
//! ## `oci-layout` and `index.json`
//!
//! `index.json` lists, in this order:
//!
//! * each image of the head, with its whole reference (tag and digest) in
//!   `org.opencontainers.image.ref.name` and, when it has a tag, `host/path:tag` in
//!   `io.containerd.image.name`: the name under which a runtime will be asked for it. An image
//!   that is `sparse`, or a file, has its reference in `dev.kubepkg.reference` only: a runtime that imports
//!   it by name fails over what is not there;
//! * charts and trees, and then referrers, by digest. Charts and trees have their place in a
//!   mirror in `dev.kubepkg.reference`, not in the annotations above: a runtime that imports the
//!   file takes everything with such a name for an image and fails to unpack it. A referrer is
//!   listed once, however many things it is said to refer to, so that tools that follow
//!   `subject` through a layout find it.
//!
//! ## Repository files
//!
//! `<folder>` is [`CanonicalUrl::folder`](crate::location::CanonicalUrl::folder). Allowed are the
//! index (the last element of its URL), its signatures (the same with `.sig`), `root/1.yaml` to
//! `root/N.yaml` without gaps, and with these `root.yaml`, which is `root/N.yaml` byte for byte.
//!
//! ## Features
//!
//! Required, and known here ([`FEATURES`]):
//!
//! * `sparse-indexes`: of images for several platforms only those of the head's `platforms`
//!   travel, by the rule of [`crate::sparse`]; or an attestation its registry does not have is
//!   left out, as a hole of kind `attestation`. Images that lack something say `sparse`.
//! * `foreign-layers`: layers that may not be distributed are left where their manifests say
//!   they are. Those that are among the blobs travel all the same.
//! * `unpackaged-content`: images and charts that belong to no package, with an empty list of
//!   packages. No signed package vouches for them. An image with a `file` is that file, as
//!   [`crate::file`] makes it one.
//!
//! Reserved names: [`RESERVED_FEATURES`]. Blobs marked `assumed` belong to `assumed-blobs`, so a
//! head with one is refused until that feature is known.

/// Longest head. 400 000 blobs take some 45 MiB; more than this is an attack on memory.
pub const MAX_HEAD: u64 = 64 * 1024 * 1024;

/// Most blobs. A site with 200 000 layers is ten times the largest known one.
pub const MAX_BLOBS: usize = 400_000;

/// Most entries of any other list of the head (images, referrers, holes …): each stands for
/// at least one blob or one failed look-up.
pub const MAX_ENTRIES: usize = 100_000;

/// Most entries of the lists within those lists, taken together: packages of an image, variants
/// of a package, platforms. Ten for each of 100 000 images; a head of three-byte names could
/// have twenty times as many and fill the memory with them.
pub const MAX_INNER: usize = 1_000_000;

/// Most bytes of manifests: a reader parses them all. 30 000 images for one platform, or 5 000
/// for six, have half of it.
pub const MAX_MANIFESTS: u64 = 512 * 1024 * 1024;

/// Most extensions: each may have [`MAX_EXTENSION_FIELDS`], and as values these take many times
/// the memory.
pub const MAX_EXTENSIONS: usize = 16;

/// Most repositories in one bundle; each is verified on its own.
pub const MAX_REPOSITORIES: usize = 1_000;

/// Longest path of a member: what common file systems take for one name, and far above need.
pub const MAX_NAME: usize = 255;

/// Largest index of a repository, and largest signature file: what their readers take.
pub use crate::index::{MAX_INDEX, signature::MAX_SIGNATURE_FILE};

/// Most roots in a repository's chain: a rotation every month for 80 years.
pub const MAX_ROOTS: usize = 1_000;

/// Largest root of trust.
pub const MAX_ROOT: u64 = 1024 * 1024;

/// Most bytes of JSON in all free fields of one extension.
pub const MAX_EXTENSION_FIELDS: usize = 1024 * 1024;

/// Longest version, variant, media type or similar word in the head.
pub const MAX_WORD: usize = 256;

/// Longest reason of a hole.
pub const MAX_REASON: usize = 4096;

/// Length of the signature slot: room for some 60 signatures, and a multiple of 4096.
pub const SIGNATURE_SLOT: u64 = 16_384;

/// Large data begins at multiples of this (the page and block size nearly everywhere), so that
/// reflinks, `copy_file_range`, direct I/O and serving in place work.
pub const ALIGNMENT: u64 = 4096;

/// Data from this size on is aligned. Below it the alignment would cost more than 3 %.
pub const ALIGN_FROM: u64 = 64 * 1024;

/// What remains of a head's length modulo [`ALIGNMENT`].
pub const HEAD_REMAINDER: u64 = 3072;

/// The unit of a tar file.
pub const BLOCK: u64 = 512;

/// The first size a ustar header cannot hold (11 octal digits).
pub const USTAR_SIZE: u64 = 8 * 1024 * 1024 * 1024;

/// Longest name a ustar header holds without prefix.
pub const USTAR_NAME: usize = 100;

/// Largest file: what the system's signed 64-bit offsets can address.
pub const MAX_FILE: u64 = i64::MAX as u64;

/// Depth of referrers: signature of an attestation of an image is two.
pub const MAX_REFERRER_DEPTH: usize = 3;

/// Most referrers of one subject in one repository.
pub const MAX_REFERRERS: usize = 64;

/// The required features this code knows.
pub const FEATURES: &[&str] = &[FOREIGN_LAYERS, SPARSE_INDEXES, UNPACKAGED_CONTENT];

/// Layers that may not be distributed are not carried.
pub const FOREIGN_LAYERS: &str = "foreign-layers";

/// Indexes of which not all manifests are carried.
pub use crate::sparse::FEATURE as SPARSE_INDEXES;

/// Images and charts that belong to no package.
pub const UNPACKAGED_CONTENT: &str = "unpackaged-content";

/// Names of features that are planned; nobody may use them for something else.
pub const RESERVED_FEATURES: &[&str] = &[
    "assumed-blobs",
    "chunk-hashes",
    "derived-blobs",
    "encrypted",
    "parity",
    "parts",
];

/// Path of the head.
pub const HEAD_PATH: &str = "kubepkg/bundle.json";

/// Path of the signature slot.
pub const SIGNATURES_PATH: &str = "kubepkg/signatures.json";

/// The first multiple of `unit` (a power of two) that is not below `value`.
pub(super) fn round_up(value: u64, unit: u64) -> Option<u64> {
    value.checked_add(unit - 1).map(|sum| sum & !(unit - 1))
}
