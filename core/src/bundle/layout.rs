//! The one planner: from the head alone to the place of every member and to every byte that is
//! not payload. Writer and reader both use it; nothing else knows where anything lies.

use std::borrow::Cow;
use std::ops::Range;

use super::error::FormatError;
use super::format::{
    ALIGNMENT, BLOCK, HEAD_PATH, MAX_FILE, MAX_NAME, SIGNATURE_SLOT, SIGNATURES_PATH, round_up,
};
use super::head::{Head, bundle_id};
use super::oci;
use super::tar::Header;
use crate::digest::Digest;
use crate::error::shown;
use crate::location::CanonicalUrl;

/// Some bytes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub size: u64,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberKind {
    /// The head.
    Head,
    /// The signature slot: the one member that may be written later.
    Signatures,
    /// `oci-layout`.
    OciLayout,
    /// `index.json`.
    Index,
    /// A repository file: payload.
    Repository,
    /// A file of an optional feature: payload.
    Extension,
    /// A blob: payload.
    Blob,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path.
    pub path: String,
    /// What it is.
    pub kind: MemberKind,
    /// Where its header begins (the pax header, where it has one).
    pub header_at: u64,
    /// Where its data begins.
    pub data_at: u64,
    /// Length of its data in bytes.
    pub size: u64,
    /// Digest of its data, for payload.
    pub digest: Option<Digest>,
}

impl Member {
    /// Where its data lies.
    pub fn extent(&self) -> Extent {
        Extent {
            offset: self.data_at,
            size: self.size,
        }
    }

    fn header(&self) -> Option<Header<'_>> {
        let align = self.kind != MemberKind::Head;
        Header::plan(&self.path, self.size, self.header_at, align)
    }
}

/// Which bytes a [`Piece`] is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Padding of the member before, and the header of this one.
    Header,
    /// The content of the head, of `oci-layout` or of `index.json`.
    Content,
    /// Padding of the last member and the end of the file.
    End,
}

/// Some bytes that follow from the head.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    /// Number of the member it belongs to; the number of members for the end.
    pub member: usize,
    /// What it is.
    pub part: Part,
    /// Where it begins in the file.
    pub offset: u64,
    /// The bytes.
    pub bytes: Cow<'a, [u8]>,
}

/// Where everything lies in a bundle.
#[derive(Clone, Debug)]
pub struct Layout {
    head_bytes: Vec<u8>,
    index: Vec<u8>,
    id: Digest,
    members: Vec<Member>,
    len: u64,
    /// Canonical URL of each repository and its files among the members, sorted by URL.
    repositories: Vec<(CanonicalUrl, Range<usize>)>,
    extensions: Range<usize>,
    blobs: Range<usize>,
    /// Numbers of the blobs' members, sorted by digest.
    by_digest: Vec<u32>,
}

/// Why a member has no place.
enum NoPlace {
    Name,
    Size,
}

#[derive(Default)]
struct Planner {
    at: u64,
    members: Vec<Member>,
}

impl Planner {
    fn add(
        &mut self,
        path: String,
        kind: MemberKind,
        size: u64,
        digest: Option<Digest>,
    ) -> Result<(), FormatError> {
        self.place(path, kind, size, digest)
            .map_err(|(path, why)| match why {
                NoPlace::Name => FormatError::too_long(
                    format!("the name of member {}", shown(&path)),
                    path.len() as u64,
                    MAX_NAME as u64,
                ),
                NoPlace::Size => FormatError::too_long(
                    format!("the file, with member {} of {size} bytes,", shown(&path)),
                    u64::MAX,
                    MAX_FILE,
                ),
            })
    }

    fn place(
        &mut self,
        path: String,
        kind: MemberKind,
        size: u64,
        digest: Option<Digest>,
    ) -> Result<(), (String, NoPlace)> {
        if path.len() > MAX_NAME {
            return Err((path, NoPlace::Name));
        }
        let header_at = self.at;
        let align = kind != MemberKind::Head;
        let place = || {
            let header = Header::plan(&path, size, header_at, align)?;
            let data_at = header_at.checked_add(header.len())?;
            let end = round_up(data_at.checked_add(size)?, BLOCK)?;
            (end <= MAX_FILE).then_some((data_at, end))
        };
        let Some((data_at, end)) = place() else {
            return Err((path, NoPlace::Size));
        };
        self.members.push(Member {
            path,
            kind,
            header_at,
            data_at,
            size,
            digest,
        });
        self.at = end;
        Ok(())
    }
}

impl Layout {
    /// Plans the file of `head`, whose bytes ([`Head::encode`]) are `head_bytes`.
    pub fn plan(head: &Head, head_bytes: &[u8]) -> Result<Layout, FormatError> {
        let index = oci::index(head)?;
        let mut planner = Planner::default();
        planner.add(
            HEAD_PATH.to_owned(),
            MemberKind::Head,
            head_bytes.len() as u64,
            None,
        )?;
        planner.add(
            SIGNATURES_PATH.to_owned(),
            MemberKind::Signatures,
            SIGNATURE_SLOT,
            None,
        )?;
        planner.add(
            "oci-layout".to_owned(),
            MemberKind::OciLayout,
            oci::OCI_LAYOUT.len() as u64,
            None,
        )?;
        planner.add(
            "index.json".to_owned(),
            MemberKind::Index,
            index.len() as u64,
            None,
        )?;
        let mut repositories = Vec::with_capacity(head.repositories.len());
        for repository in &head.repositories {
            let folder = repository.url.folder();
            let first = planner.members.len();
            for file in &repository.files {
                let path = format!("repositories/{folder}/{}", file.path);
                planner.add(path, MemberKind::Repository, file.size, Some(file.digest))?;
            }
            repositories.push((repository.url.clone(), first..planner.members.len()));
        }
        let first = planner.members.len();
        for (feature, extension) in &head.extensions {
            for file in &extension.files {
                let path = format!("extensions/{feature}/{}", file.path);
                planner.add(path, MemberKind::Extension, file.size, Some(file.digest))?;
            }
        }
        let extensions = first..planner.members.len();
        for blob in head.blobs.iter().filter(|blob| !blob.assumed) {
            planner.add(blob.path(), MemberKind::Blob, blob.size, Some(blob.digest))?;
        }
        let blobs = extensions.end..planner.members.len();
        let end = planner
            .at
            .checked_add(2 * BLOCK)
            .and_then(|end| round_up(end, ALIGNMENT))
            .filter(|end| *end <= MAX_FILE);
        let Some(len) = end else {
            return Err(FormatError::too_long("the file", u64::MAX, MAX_FILE));
        };
        // the limits of the head keep the number of members far below 2^32
        let mut by_digest: Vec<u32> = blobs.clone().map(|n| n as u32).collect();
        by_digest.sort_unstable_by_key(|n| planner.members[*n as usize].digest);
        Ok(Layout {
            head_bytes: head_bytes.to_vec(),
            index,
            id: bundle_id(head_bytes),
            members: planner.members,
            len,
            repositories,
            extensions,
            blobs,
            by_digest,
        })
    }

    /// All members in the order they lie in the file.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The members whose bytes a digest of the head covers: repository files, files of
    /// extensions, blobs.
    pub fn payload(&self) -> &[Member] {
        let first = self
            .members
            .iter()
            .position(|member| member.digest.is_some());
        &self.members[first.unwrap_or(self.members.len())..]
    }

    /// Length of the file in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a bundle is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The bundle id.
    pub fn id(&self) -> Digest {
        self.id
    }

    /// The head's bytes.
    pub fn head_bytes(&self) -> &[u8] {
        &self.head_bytes
    }

    /// Where the blob lies; `None` when the file does not carry it.
    pub fn blob(&self, digest: &Digest) -> Option<Extent> {
        self.blob_member(digest).map(Member::extent)
    }

    /// The member of a blob.
    pub fn blob_member(&self, digest: &Digest) -> Option<&Member> {
        let wanted = Some(*digest);
        let at = self
            .by_digest
            .binary_search_by_key(&wanted, |n| self.members[*n as usize].digest)
            .ok()?;
        self.members.get(self.by_digest[at] as usize)
    }

    /// The members of all blobs that the file carries, in their order.
    pub fn blobs(&self) -> &[Member] {
        &self.members[self.blobs.clone()]
    }

    /// The members of the repository at `url`.
    pub fn repository(&self, url: &CanonicalUrl) -> &[Member] {
        match self.repositories.binary_search_by(|(at, _)| at.cmp(url)) {
            Ok(at) => &self.members[self.repositories[at].1.clone()],
            Err(_) => &[],
        }
    }

    /// Where the file `path` (beside the index) of the repository at `url` lies.
    pub fn repository_file(&self, url: &CanonicalUrl, path: &str) -> Option<Extent> {
        self.repository_member(url, path).map(Member::extent)
    }

    /// The member of a repository file.
    pub fn repository_member(&self, url: &CanonicalUrl, path: &str) -> Option<&Member> {
        let full = format!("repositories/{}/{path}", url.folder());
        let files = self.repository(url);
        let at = files.binary_search_by(|file| file.path.as_str().cmp(&full));
        files.get(at.ok()?)
    }

    /// Where a file of an optional feature lies.
    pub fn extension_file(&self, feature: &str, path: &str) -> Option<Extent> {
        let full = format!("extensions/{feature}/{path}");
        self.members[self.extensions.clone()]
            .iter()
            .find(|file| file.path == full)
            .map(Member::extent)
    }

    /// Where the signature slot lies.
    pub fn signatures(&self) -> Extent {
        self.members[1].extent()
    }

    /// Every byte that is neither payload nor signature slot, in the order of the file. The
    /// pieces are made one by one.
    pub fn frame(&self) -> impl Iterator<Item = Piece<'_>> {
        let members = self.members.iter().enumerate().flat_map(|(n, member)| {
            let before = n.checked_sub(1).map_or(0, |n| self.data_end(n));
            let mut bytes = vec![0; (member.header_at - before) as usize];
            if let Some(header) = member.header() {
                header.write(&mut bytes);
            }
            let header = Piece {
                member: n,
                part: Part::Header,
                offset: before,
                bytes: Cow::Owned(bytes),
            };
            let content = self.content(member.kind).map(|bytes| Piece {
                member: n,
                part: Part::Content,
                offset: member.data_at,
                bytes: Cow::Borrowed(bytes),
            });
            std::iter::once(header).chain(content)
        });
        let last = self.data_end(self.members.len() - 1);
        let end = Piece {
            member: self.members.len(),
            part: Part::End,
            offset: last,
            bytes: Cow::Owned(vec![0; (self.len - last) as usize]),
        };
        members.chain(std::iter::once(end))
    }

    /// In words, what `piece` is at the file's byte `offset`.
    pub fn describe(&self, piece: &Piece<'_>, offset: u64) -> String {
        let name = |n: usize| {
            self.members
                .get(n)
                .map_or("", |member| member.path.as_str())
        };
        match (piece.part, self.members.get(piece.member)) {
            (Part::Content, Some(member)) => format!("the content of {}", member.path),
            (Part::Header, Some(member)) if offset >= member.header_at => {
                format!("the header of {}", member.path)
            }
            (Part::Header, Some(_)) => format!("the padding after {}", name(piece.member - 1)),
            _ => "the end of the file".to_owned(),
        }
    }

    fn content(&self, kind: MemberKind) -> Option<&[u8]> {
        match kind {
            MemberKind::Head => Some(&self.head_bytes),
            MemberKind::OciLayout => Some(oci::OCI_LAYOUT),
            MemberKind::Index => Some(&self.index),
            _ => None,
        }
    }

    fn data_end(&self, member: usize) -> u64 {
        self.members[member].data_at + self.members[member].size
    }
}
