//! A folder as the one layer of its artifact.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::files::Folder;
use super::gzip::Gzip;
use super::tar::{BLOCK, END, PLAIN, header, padding};
use super::{MAX_TREE, TreeError};
use crate::descriptor::Descriptor;
use crate::digest::{Algorithm, Digest, Hasher};

/// What [`pack`] has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The tree's identity: the digest of the archive before compression.
    pub content: Digest,
    /// The identity it has where every file got the mode of plain ones, as in trees of the older
    /// program; `None` where no file is executable, so that it would be the same.
    pub without_modes: Option<Digest>,
    /// The compressed archive.
    pub layer: Descriptor,
    /// How many files are in it.
    pub files: usize,
    /// How many bytes these have.
    pub bytes: u64,
}

/// Packs the files of `folder` and writes the compressed archive to `out`.
///
/// # Errors
/// Something that is neither a file nor a folder; a name or size beyond the rules; a file that
/// changes meanwhile; or what the system says.
pub fn pack(folder: &Path, out: impl Write) -> Result<Packed, TreeError> {
    let open = Folder::open(folder)?;
    let files = open.list()?;
    let too_large = |path: PathBuf| TreeError::TooLarge {
        path,
        why: format!("the files are larger than {MAX_TREE} bytes in all"),
    };
    // before a byte is read
    let blocks = |size: u64| size.saturating_add(2 * BLOCK as u64);
    let total = files
        .iter()
        .fold(0u64, |sum, file| sum.saturating_add(blocks(file.size)));
    if total > MAX_TREE {
        return Err(too_large(folder.to_owned()));
    }
    let executables = files.iter().any(|file| file.mode != PLAIN);
    let mut archive = Archive::new(out, executables).map_err(TreeError::Write)?;
    let mut bytes = 0;
    for file in &files {
        let put = |archive: &mut Archive<_>, bytes: &[u8], plain: &[u8]| match archive
            .put(bytes, plain)
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(too_large(folder.to_owned())),
            Err(error) => Err(TreeError::Write(error)),
        };
        let first = header(&file.path, file.size, file.mode);
        put(&mut archive, &first, &header(&file.path, file.size, PLAIN))?;
        open.read(file, |part| put(&mut archive, part, part))?;
        let last = &[0; BLOCK][..padding(file.size)];
        put(&mut archive, last, last)?;
        bytes += file.size;
    }
    let (content, without_modes, layer) = archive.finish().map_err(TreeError::Write)?;
    Ok(Packed {
        content,
        without_modes,
        layer,
        files: files.len(),
        bytes,
    })
}

/// The archive on its way, hashed on both sides of the compressor.
struct Archive<W> {
    hasher: Hasher,
    /// Of the same archive with the mode of plain files only.
    plain: Option<Hasher>,
    size: u64,
    gzip: Gzip<Hashed<W>>,
}

impl<W: Write> Archive<W> {
    fn new(out: W, executables: bool) -> io::Result<Archive<W>> {
        let hashed = Hashed {
            out,
            hasher: Hasher::new(Algorithm::Sha256),
            size: 0,
        };
        Ok(Archive {
            hasher: Hasher::new(Algorithm::Sha256),
            plain: executables.then(|| Hasher::new(Algorithm::Sha256)),
            size: 0,
            gzip: Gzip::new(hashed)?,
        })
    }

    /// Adds these bytes, which are `plain` where all files are plain ones. `false` when that would
    /// be more than a tree may have.
    fn put(&mut self, bytes: &[u8], plain: &[u8]) -> io::Result<bool> {
        self.size = self.size.saturating_add(bytes.len() as u64);
        if self.size > MAX_TREE - END.len() as u64 {
            return Ok(false);
        }
        self.hasher.update(bytes);
        if let Some(hasher) = &mut self.plain {
            hasher.update(plain);
        }
        self.gzip.write(bytes)?;
        Ok(true)
    }

    fn finish(mut self) -> io::Result<(Digest, Option<Digest>, Descriptor)> {
        self.hasher.update(&END);
        let plain = self.plain.map(|mut hasher| {
            hasher.update(&END);
            hasher.finish()
        });
        self.gzip.write(&END)?;
        let mut hashed = self.gzip.finish()?;
        hashed.out.flush()?;
        let digest = hashed.hasher.finish();
        let layer = Descriptor::new(super::artifact::LAYER, digest, hashed.size);
        Ok((self.hasher.finish(), plain, layer))
    }
}

/// Hashes and counts what goes to `out`.
struct Hashed<W> {
    out: W,
    hasher: Hasher,
    size: u64,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A folder with a bit of everything.
    pub(in crate::tree) fn sample() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &[u8], mode: u32| {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        write(
            "Chart.yaml",
            b"apiVersion: v2\nname: web\nversion: 1.0.0\n",
            0o600,
        );
        write("templates/app.yaml", b"kind: ConfigMap\n", 0o664);
        write("bin/run.sh", b"#!/bin/sh\n", 0o700);
        write("empty", b"", 0o644);
        write("größe.txt", "ü\n".as_bytes(), 0o444);
        write(&format!("{}/deep", "long".repeat(30)), b"deep", 0o644);
        write(&format!("{}/deep", "long".repeat(40)), b"deeper", 0o644);
        // more than one piece of the compressor, with something to find in it
        let large: Vec<u8> = (0..40_000u32)
            .flat_map(|n| (n / 3).wrapping_mul(40_503).to_le_bytes())
            .collect();
        write("large.bin", &large, 0o644);
        scratch
    }

    #[test]
    fn the_same_files_give_the_same_bytes_on_every_machine() {
        // another digest here means that trees published before are not recognised any more; the
        // archive is byte for byte the one that Go writes of these files
        let folder = sample();
        let mut out = Vec::new();
        let packed = pack(folder.path(), &mut out).unwrap();
        assert_eq!(packed.content.to_string(), CONTENT);
        assert_eq!(packed.layer.digest.to_string(), LAYER);
        assert!(packed.layer.digest.matches(&out));
        assert_eq!(packed.layer.size, out.len() as u64);
        assert_eq!(packed.files, 8);
        let manifest = crate::tree::artifact(&packed, Some("https://git.example/a"), Some("main"));
        assert_eq!(manifest.descriptor.digest.to_string(), MANIFEST);
    }

    const CONTENT: &str = "sha256:1be2d664a9573604e039eb648476c71db6a6c0e8942113adeb97a14900988e45";
    const LAYER: &str = "sha256:4a11a55d62e1198a4dbf9937bbe136c1a5e3eb120b978ff73ae2da9f5f5cf971";
    const MANIFEST: &str =
        "sha256:0a44a881260e0b65157c4f1cb5a003832aea5fc6b340670189931d33b121d03d";

    #[test]
    fn long_names_are_cut_as_they_were_before() {
        // made of these files by Go, with `Format: tar.FormatPAX` as without
        const CONTENT: &str =
            "sha256:48a6dd544b00fd9ccb7c0be0d238da73c4ab714642246dded7030627df5aa2ef";
        let scratch = tempfile::tempdir().unwrap();
        let long = |letter: &str, count: usize| letter.repeat(count);
        for (path, content) in [
            (format!("{}/{}", long("a", 99), long("b", 101)), "one\n"),
            (format!("{}/ü/{}", long("c", 98), long("d", 40)), "two\n"),
            (
                format!("{}/ü/ö/{}", long("e", 97), long("f", 40)),
                "three\n",
            ),
            (format!("{}/{}", long("g", 99), long("h", 40)), "four\n"),
        ] {
            let path = scratch.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
        }
        let packed = pack(scratch.path(), io::sink()).unwrap();
        assert_eq!(packed.content.to_string(), CONTENT);
    }

    #[test]
    fn what_is_unpacked_is_what_was_there() {
        use std::io::Read as _;
        let folder = sample();
        let mut out = Vec::new();
        pack(folder.path(), &mut out).unwrap();
        let mut archive = ::tar::Archive::new(flate2::read::GzDecoder::new(&out[..]));
        let mut paths = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().into_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            assert!(bytes == std::fs::read(folder.path().join(&path)).unwrap());
            let want = if path.ends_with("run.sh") {
                0o755
            } else {
                0o644
            };
            assert_eq!(entry.header().mode().unwrap(), want, "{}", path.display());
            paths.push(path);
        }
        assert_eq!(paths.len(), 8);
        assert!(paths.is_sorted());
    }

    #[test]
    fn neither_times_nor_owners_nor_other_modes_show() {
        let (one, two) = (sample(), sample());
        let file = two.path().join("templates/app.yaml");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        std::fs::File::open(&file)
            .unwrap()
            .set_modified(time)
            .unwrap();
        let packed = |folder: &tempfile::TempDir| pack(folder.path(), io::sink()).unwrap();
        assert_eq!(packed(&one), packed(&two));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o740)).unwrap();
        assert_ne!(packed(&one).content, packed(&two).content);
    }

    #[test]
    fn it_is_known_how_the_tree_would_be_without_modes() {
        let folder = sample();
        let packed = |folder: &tempfile::TempDir| pack(folder.path(), io::sink()).unwrap();
        let with = packed(&folder);
        let program = folder.path().join("bin/run.sh");
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o644)).unwrap();
        let without = packed(&folder);
        assert_ne!(with.content, without.content);
        assert_eq!(with.without_modes, Some(without.content));
        assert_eq!(without.without_modes, None);
    }

    #[test]
    fn a_tree_that_nobody_would_unpack_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let sparse = std::fs::File::create(folder.path().join("large")).unwrap();
        sparse.set_len(MAX_TREE).unwrap();
        let error = pack(folder.path(), io::sink()).unwrap_err();
        assert!(matches!(error, TreeError::TooLarge { .. }), "{error}");
    }
}
