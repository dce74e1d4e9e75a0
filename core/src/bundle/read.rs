//! Opening a bundle: sizes, the head's grammar, and every byte that is not payload.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::FormatError;
use super::format::{BLOCK, HEAD_PATH, MAX_HEAD};
use super::head::{Head, bundle_id};
use super::layout::{Extent, Layout, Part, Piece};
use super::slot::Signatures;
use super::tar::{self, Header};
use crate::digest::Digest;
use crate::error::shown;
use crate::location::CanonicalUrl;

/// Bytes that are read and compared at once.
const COMPARED: usize = 256 * 1024;

const HEADER: usize = BLOCK as usize;

/// An open bundle whose structure is sound: every byte that is not payload follows from the
/// head, and the head has its one form. The payload was not looked at; see
/// [`verify`](super::verify).
#[derive(Clone, Debug)]
pub struct Bundle {
    file: Arc<File>,
    path: Option<PathBuf>,
    head: Arc<Head>,
    layout: Arc<Layout>,
    signatures: Signatures,
}

/// A head that was read without the rest of its file.
#[derive(Clone, Debug)]
pub struct OpenedHead {
    /// The head.
    pub head: Head,
    /// The bundle id.
    pub id: Digest,
    /// The layout it asks for, with the length the whole file must have.
    pub layout: Layout,
}

/// Reads the head from the start of a bundle, and nothing behind it. What the head says is
/// well-formed, but nothing is proved of the rest of the file.
pub fn open_head(mut reader: impl Read) -> Result<OpenedHead, FormatError> {
    let mut block = [0u8; HEADER];
    let got = fill(&mut reader, &mut block).map_err(FormatError::io("read the bundle", 0))?;
    let size = head_size(&block[..got])?;
    // the limit of the head was checked; still nothing is reserved that is not there
    let mut bytes = Vec::new();
    reader
        .take(size)
        .read_to_end(&mut bytes)
        .map_err(FormatError::io("read the bundle", BLOCK))?;
    let len = BLOCK + bytes.len() as u64;
    if (bytes.len() as u64) < size {
        return Err(FormatError::CutHead { len });
    }
    check_first_header(&block, size)?;
    let head = Head::decode(&bytes)?;
    let layout = Layout::plan(&head, &bytes)?;
    Ok(OpenedHead {
        head,
        id: bundle_id(&bytes),
        layout,
    })
}

/// Reads until `buffer` is full or the input ends.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match reader.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// The head's size as the first header claims it, judged before anything is read by it.
fn head_size(start: &[u8]) -> Result<u64, FormatError> {
    let Some(block) = start.first_chunk::<HEADER>() else {
        return Err(FormatError::NotABundle(format!(
            "it has only {} bytes",
            start.len()
        )));
    };
    let name = block[..100].split(|b| *b == 0).next().unwrap_or_default();
    if name != HEAD_PATH.as_bytes() {
        return Err(FormatError::NotABundle(match name {
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                "it is compressed, and a bundle is a plain tar".to_owned()
            }
            _ => format!(
                "its first member is \"{}\" and not {HEAD_PATH}",
                shown(&String::from_utf8_lossy(name))
            ),
        }));
    }
    let size = tar::claimed_size(block)
        .ok_or_else(|| FormatError::NotABundle("its first header has no size".to_owned()))?;
    if size > MAX_HEAD {
        return Err(FormatError::too_long(
            format!("the head ({HEAD_PATH})"),
            size,
            MAX_HEAD,
        ));
    }
    Ok(size)
}

fn check_first_header(block: &[u8; HEADER], size: u64) -> Result<(), FormatError> {
    let mut wanted = Vec::with_capacity(HEADER);
    if let Some(header) = Header::plan(HEAD_PATH, size, 0, false) {
        header.write(&mut wanted);
    }
    match differs(block, &wanted) {
        None => Ok(()),
        Some(at) => Err(FormatError::Frame {
            what: format!("the header of {HEAD_PATH}"),
            offset: at as u64,
        }),
    }
}

/// Where two texts of the same length first differ.
fn differs(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    Some(a.iter().zip(b).take_while(|(a, b)| a == b).count())
}

impl Bundle {
    /// Opens the bundle at `path`. Errors name the file.
    pub fn open(path: &Path) -> Result<Bundle, FormatError> {
        let opened = File::open(path).map_err(|source| FormatError::Io {
            action: "open the bundle",
            at: None,
            source,
        });
        match opened.and_then(Bundle::from_file) {
            Ok(bundle) => Ok(Bundle {
                path: Some(path.to_owned()),
                ..bundle
            }),
            Err(error) => Err(error.in_file(path)),
        }
    }

    /// Opens the bundle in `file`.
    pub fn from_file(file: File) -> Result<Bundle, FormatError> {
        let metadata = file.metadata().map_err(|source| FormatError::Io {
            action: "read the size of the bundle",
            at: None,
            source,
        })?;
        if !metadata.is_file() {
            return Err(FormatError::NotABundle("it is no regular file".to_owned()));
        }
        let len = metadata.len();
        let (head, layout) = read_head(&file, len)?;
        check_len(len, &layout)?;
        check_frame(&file, &layout)?;
        let slot = read_extent(&file, layout.signatures())?;
        let signatures = Signatures::decode(&slot, &layout.id())?;
        Ok(Bundle {
            file: Arc::new(file),
            path: None,
            head: Arc::new(head),
            layout: Arc::new(layout),
            signatures,
        })
    }

    /// The head.
    pub fn head(&self) -> &Arc<Head> {
        &self.head
    }

    /// The bundle id.
    pub fn id(&self) -> Digest {
        self.layout.id()
    }

    /// Where everything lies.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The open file.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Where it was opened, if by path.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Who signed the head. All these signatures verify; whether their keys are trusted is
    /// another question.
    pub fn signatures(&self) -> &Signatures {
        &self.signatures
    }

    /// Where the blob lies; `None` when the file does not carry it.
    pub fn blob(&self, digest: &Digest) -> Option<Extent> {
        self.layout.blob(digest)
    }

    /// The bytes of `extent`, when they are at most `limit`. Their digest is not checked.
    pub fn read_member(&self, extent: Extent, limit: u64) -> Result<Vec<u8>, FormatError> {
        if extent.size > limit {
            let what = format!("the member at byte {}", extent.offset);
            return Err(self.named(FormatError::too_long(what, extent.size, limit)));
        }
        read_extent(&self.file, extent).map_err(|error| self.named(error))
    }

    /// The whole blob, when it has at most `limit` bytes, checked against its digest.
    pub fn read_blob(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, FormatError> {
        let member = self.layout.blob_member(digest);
        let extent = member.map(|member| member.extent());
        let path = member.map_or_else(|| format!("blob {digest}"), |member| member.path.clone());
        self.read_checked(path, extent, digest, limit)
    }

    /// A whole repository file, when it has at most `limit` bytes, checked against its digest.
    pub fn read_repository_file(
        &self,
        url: &CanonicalUrl,
        path: &str,
        limit: u64,
    ) -> Result<Vec<u8>, FormatError> {
        let member = self.layout.repository_member(url, path);
        match member.and_then(|member| Some((member, member.digest?))) {
            Some((member, digest)) => {
                self.read_checked(member.path.clone(), Some(member.extent()), &digest, limit)
            }
            None => Err(self.named(FormatError::Absent(format!("{path} of {url}")))),
        }
    }

    fn read_checked(
        &self,
        member: String,
        extent: Option<Extent>,
        digest: &Digest,
        limit: u64,
    ) -> Result<Vec<u8>, FormatError> {
        let Some(extent) = extent else {
            return Err(self.named(FormatError::Absent(member)));
        };
        if extent.size > limit {
            return Err(self.named(FormatError::too_long(member, extent.size, limit)));
        }
        let bytes = self.read_member(extent, limit)?;
        let found = Digest::of(digest.algorithm(), &bytes);
        if found == *digest {
            return Ok(bytes);
        }
        Err(self.named(FormatError::Damaged(vec![super::Damage {
            member,
            offset: extent.offset,
            wanted: *digest,
            found,
        }])))
    }

    /// `error`, with the name of this file where it has one.
    pub(super) fn named(&self, error: FormatError) -> FormatError {
        match &self.path {
            Some(path) => error.in_file(path),
            None => error,
        }
    }
}

/// Reads and checks the head, given the length of the file.
fn read_head(file: &File, len: u64) -> Result<(Head, Layout), FormatError> {
    let mut block = [0u8; HEADER];
    let start = &mut block[..len.min(BLOCK) as usize];
    file.read_exact_at(start, 0)
        .map_err(FormatError::io("read the bundle", 0))?;
    let size = head_size(start)?;
    if len < BLOCK + size {
        return Err(FormatError::CutHead { len });
    }
    check_first_header(&block, size)?;
    let bytes = read_extent(
        file,
        Extent {
            offset: BLOCK,
            size,
        },
    )?;
    let head = Head::decode(&bytes)?;
    let layout = Layout::plan(&head, &bytes)?;
    Ok((head, layout))
}

fn check_len(len: u64, layout: &Layout) -> Result<(), FormatError> {
    let end = layout.len();
    match len.checked_sub(end) {
        Some(0) => Ok(()),
        Some(extra) => Err(FormatError::Trailing { end, extra }),
        None => Err(FormatError::Cut {
            len,
            missing: end - len,
        }),
    }
}

/// Compares every byte that follows from the head.
fn check_frame(file: &File, layout: &Layout) -> Result<(), FormatError> {
    let mut buffer = vec![0; COMPARED];
    for piece in layout.frame() {
        // the head's own bytes were read from this file a moment ago
        if piece.member == 0 && piece.part == Part::Content {
            continue;
        }
        compare(file, layout, &piece, &mut buffer)?;
    }
    Ok(())
}

fn compare(
    file: &File,
    layout: &Layout,
    piece: &Piece<'_>,
    buffer: &mut [u8],
) -> Result<(), FormatError> {
    let mut at = piece.offset;
    for wanted in piece.bytes.chunks(buffer.len()) {
        let found = &mut buffer[..wanted.len()];
        file.read_exact_at(found, at)
            .map_err(FormatError::io("read the bundle", at))?;
        if let Some(first) = differs(found, wanted) {
            let offset = at + first as u64;
            return Err(FormatError::Frame {
                what: layout.describe(piece, offset),
                offset,
            });
        }
        at += wanted.len() as u64;
    }
    Ok(())
}

fn read_extent(file: &File, extent: Extent) -> Result<Vec<u8>, FormatError> {
    // callers have compared the size with a limit and with the length of the file
    let mut bytes = vec![0; extent.size as usize];
    file.read_exact_at(&mut bytes, extent.offset)
        .map_err(FormatError::io("read the bundle", extent.offset))?;
    Ok(bytes)
}
