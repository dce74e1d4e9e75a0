//! A file of this host: hashed here, and read once more when the bundle is written.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use kubepkg_core::bundle::head::{Class, HeadImage};
use kubepkg_core::descriptor::{Descriptor, media_type};
use kubepkg_core::digest::{Algorithm, Digest, Hasher};
use kubepkg_core::file::{EMPTY_CONFIG, LAYER};

use super::{Collected, From, Source};
use crate::CreateError;
use crate::unpackaged::LooseFile;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Hashes `file` and makes it an artifact.
pub fn collect(file: &LooseFile) -> Result<Collected, CreateError> {
    let (content, size) = hashed(&file.path)?;
    let manifest = Bytes::from(file.name.manifest(&content, size));
    let digest = Digest::sha256(&manifest);
    let mut collected = Collected::default();
    collected.images.push(HeadImage {
        reference: file.name.reference().pinned(digest),
        manifest: Descriptor::new(media_type::OCI_MANIFEST, digest, manifest.len() as u64),
        platforms: Vec::new(),
        packages: Vec::new(),
        pinned: false,
        file: Some(file.name.clone()),
        sparse: false,
        untagged: false,
    });
    collected.have(digest, Class::Manifest, manifest);
    let config = Bytes::from_static(EMPTY_CONFIG);
    collected.have(Digest::sha256(EMPTY_CONFIG), Class::Config, config);
    collected.want(Source {
        from: From::File(file.path.clone()),
        blob: Descriptor::new(LAYER, content, size),
        class: Class::Layer,
    });
    Ok(collected)
}

/// Opens a file whose content is to be carried. Pipes and folders have none that stays.
pub fn open(path: &Path) -> Result<File, CreateError> {
    let failed = |source| CreateError::Io {
        action: "read the file to carry",
        path: path.to_owned(),
        source,
    };
    // looked at first: opening a pipe waits for whoever writes into it
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(CreateError::NoFile(path.to_owned()));
    }
    File::open(path).map_err(failed)
}

/// Reads all of `file` in pieces.
pub fn pieces(
    path: &Path,
    mut file: File,
    mut take: impl FnMut(&[u8]) -> Result<(), CreateError>,
) -> Result<(), CreateError> {
    let mut buffer = vec![0; PIECE];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => take(&buffer[..n])?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(CreateError::Io {
                    action: "read the file to carry",
                    path: path.to_owned(),
                    source,
                });
            }
        }
    }
}

fn hashed(path: &Path) -> Result<(Digest, u64), CreateError> {
    let file = open(path)?;
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let mut size = 0;
    pieces(path, file, |piece| {
        hasher.update(piece);
        size += piece.len() as u64;
        Ok(())
    })?;
    Ok((hasher.finish(), size))
}
