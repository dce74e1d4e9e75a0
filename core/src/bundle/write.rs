//! Laying down a bundle: space first, then every byte that follows from the head. The payload
//! is put at its extents by the caller, in any order and from many threads.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::error::FormatError;
use super::layout::{Extent, Layout};
use super::read::Bundle;
use super::slot::Signatures;

/// Pieces of the frame that follow each other closely are written in one call of up to this
/// many bytes.
const JOINED: usize = 256 * 1024;

/// Makes `file` exactly `len` bytes long and reserves the space, so that a full disk is found
/// out now and not after an hour. Where the file system cannot reserve, the length is set.
pub fn allocate(file: &File, len: u64) -> Result<(), FormatError> {
    let failed = |source| FormatError::Io {
        action: "reserve space for the bundle",
        at: Some(len),
        source,
    };
    file.set_len(len).map_err(failed)?;
    reserve(file, len).map_err(failed)
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, len: u64) -> std::io::Result<()> {
    use rustix::io::Errno;
    loop {
        return match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len) {
            Err(Errno::INTR) => continue,
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _len: u64) -> std::io::Result<()> {
    Ok(())
}

/// Writes everything but payload: headers, padding, head, `oci-layout`, `index.json`, the end,
/// and the signature slot with `signatures`.
pub fn write_frame(
    file: &File,
    layout: &Layout,
    signatures: &Signatures,
) -> Result<(), FormatError> {
    put(file, layout.signatures(), &signatures.encode()?)?;
    let mut joined = Vec::new();
    let mut start = 0u64;
    for piece in layout.frame() {
        let follows = start + joined.len() as u64 == piece.offset;
        if !follows || joined.len() + piece.bytes.len() > JOINED {
            write_at(file, &joined, start)?;
            joined.clear();
            start = piece.offset;
        }
        if piece.bytes.len() > JOINED {
            write_at(file, &piece.bytes, piece.offset)?;
            start = piece.offset + piece.bytes.len() as u64;
        } else {
            joined.extend_from_slice(&piece.bytes);
        }
    }
    write_at(file, &joined, start)
}

/// Writes the whole content of one member.
pub fn put(file: &File, extent: Extent, bytes: &[u8]) -> Result<(), FormatError> {
    if bytes.len() as u64 != extent.size {
        return Err(FormatError::Io {
            action: "write a member of another size than planned",
            at: Some(extent.offset),
            source: std::io::ErrorKind::InvalidInput.into(),
        });
    }
    write_at(file, bytes, extent.offset)
}

fn write_at(file: &File, bytes: &[u8], at: u64) -> Result<(), FormatError> {
    file.write_all_at(bytes, at)
        .map_err(FormatError::io("write the bundle", at))
}

/// The structural self-check of a file that was just written: it is opened as any reader would
/// open it, every byte that is not payload is compared with a new plan, and it must be the
/// bundle that was planned. Payload is not read again.
pub fn check(file: File, layout: &Layout) -> Result<Bundle, FormatError> {
    let bundle = Bundle::from_file(file)?;
    if bundle.id() != layout.id() {
        return Err(FormatError::NotABundle(format!(
            "it was planned as {}, and reads as {}",
            layout.id(),
            bundle.id()
        )));
    }
    Ok(bundle)
}
