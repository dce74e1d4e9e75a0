//! The files of a chart, from a folder or an archive, with bounds on everything.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use kubepkg_core::chart::{ChartError, MAX_ARCHIVE};
use walkdir::WalkDir;

use crate::error::Error;

/// Bytes of all files of a chart: Helm's own limit.
pub const MAX_TREE: u64 = 100 * 1024 * 1024;

/// Bytes of one file of a chart, of the archives in it too.
pub const MAX_FILE: u64 = 32 * 1024 * 1024;

/// Files of a chart: large ones with all that they include have some 1 000.
pub const MAX_FILES: usize = 20_000;

/// Files by their path below the chart, with `/` between elements.
type Files = BTreeMap<String, Vec<u8>>;

/// Collects files and counts what they weigh.
struct Collector<'a> {
    origin: &'a str,
    files: Files,
    bytes: u64,
}

impl<'a> Collector<'a> {
    fn new(origin: &'a str) -> Collector<'a> {
        Collector {
            origin,
            files: Files::new(),
            bytes: 0,
        }
    }

    fn refuse(&self, file: &str, why: String) -> Error {
        Error::File {
            file: format!("{}/{file}", self.origin),
            why,
        }
    }

    fn add(&mut self, path: String, from: &mut dyn Read) -> Result<(), Error> {
        let mut content = Vec::new();
        let read = from.take(MAX_FILE + 1).read_to_end(&mut content);
        read.map_err(|error| self.refuse(&path, format!("cannot read it: {error}")))?;
        if content.len() as u64 > MAX_FILE {
            let why = format!("this file of the chart has more than {MAX_FILE} bytes");
            return Err(self.refuse(&path, why));
        }
        self.bytes += content.len() as u64;
        if self.bytes > MAX_TREE || self.files.len() >= MAX_FILES {
            let why = format!("the chart has more than {MAX_FILES} files or {MAX_TREE} bytes");
            return Err(self.refuse(&path, why));
        }
        self.files.insert(path, content);
        Ok(())
    }
}

/// `path` as a path below the chart; `None` where it leads out.
fn inner(path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(parts.join("/"))
}

/// The files of a folder. Links are followed within it only.
pub(super) fn folder(root: &Path) -> Result<Files, Error> {
    let origin = root.display().to_string();
    let mut found = Collector::new(&origin);
    let home = root.canonicalize().map_err(Error::io("read", root))?;
    for entry in WalkDir::new(root).follow_links(true).sort_by_file_name() {
        let entry = entry.map_err(|error| {
            let path = error.path().unwrap_or(root).to_owned();
            let source = error
                .into_io_error()
                .unwrap_or_else(|| io::Error::other("its links go round in a circle"));
            Error::io("read", path)(source)
        })?;
        let below = entry.path().strip_prefix(root).unwrap_or(entry.path());
        if entry.path_is_symlink() {
            let target = entry
                .path()
                .canonicalize()
                .map_err(Error::io("read", entry.path()))?;
            if !target.starts_with(&home) {
                let why = "this link leads out of the chart".to_owned();
                return Err(found.refuse(&below.display().to_string(), why));
            }
        }
        if !entry.file_type().is_file() {
            continue;
        }
        // what is no text is nothing Helm would take either
        let Some(path) = inner(below) else {
            continue;
        };
        let mut file =
            std::fs::File::open(entry.path()).map_err(Error::io("read", entry.path()))?;
        found.add(path, &mut file)?;
    }
    Ok(found.files)
}

/// The files of an archive on disk.
pub(super) fn archive_file(path: &Path) -> Result<Files, Error> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_ARCHIVE + 1).read_to_end(&mut bytes))
        .map_err(Error::io("read", path))?;
    archive(&path.display().to_string(), &bytes)
}

/// The files of an archive, below the one folder that they lie in.
pub(super) fn archive(origin: &str, bytes: &[u8]) -> Result<Files, Error> {
    let refuse = |source| Error::Chart {
        chart: origin.to_owned(),
        source,
    };
    if bytes.len() as u64 > MAX_ARCHIVE {
        return Err(refuse(ChartError::TooLarge(bytes.len() as u64)));
    }
    let unreadable = |error: io::Error| refuse(ChartError::Archive(error.to_string()));
    let mut found = Collector::new(origin);
    // Twice the limit: what is passed over counts too, and headers.
    let plain = MultiGzDecoder::new(bytes).take(2 * MAX_TREE);
    let mut tar = tar::Archive::new(plain);
    for entry in tar.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path: PathBuf = entry.path().map_err(unreadable)?.into_owned();
        let Some(path) = inner(&path) else {
            let why = "this path leads out of the chart".to_owned();
            return Err(found.refuse(&path.display().to_string(), why));
        };
        // beside the folder of the chart lies nothing of it
        if let Some((_, below)) = path.split_once('/') {
            found.add(below.to_owned(), &mut entry)?;
        }
    }
    Ok(found.files)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn tgz(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            // raw: the library refuses to write the paths that are tried here
            header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&builder.into_inner().unwrap()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn an_archive_is_read_below_its_folder() {
        let files = archive(
            "x.tgz",
            &tgz(&[
                ("web/Chart.yaml", b"a"),
                ("web/templates/b.yaml", b"b"),
                ("beside", b"c"),
            ]),
        );
        let files = files.unwrap();
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(paths, ["Chart.yaml", "templates/b.yaml"]);
    }

    #[test]
    fn an_archive_that_leads_out_or_weighs_too_much_is_refused() {
        for path in ["web/../../x", "/etc/x"] {
            let error = archive("x.tgz", &tgz(&[(path, b"")])).unwrap_err();
            assert!(error.to_string().contains("leads out"), "{path}: {error}");
        }
        let large = vec![0; usize::try_from(MAX_FILE).unwrap() + 1];
        let error = archive("x.tgz", &tgz(&[("web/zeros", &large)])).unwrap_err();
        assert!(error.to_string().contains("more than"), "{error}");
        assert!(archive("x.tgz", b"hello").is_err());
    }

    #[test]
    fn a_folder_is_read_and_links_stay_within() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("web");
        std::fs::create_dir_all(root.join("templates")).unwrap();
        std::fs::write(root.join("Chart.yaml"), "a").unwrap();
        std::os::unix::fs::symlink("../Chart.yaml", root.join("templates/b.yaml")).unwrap();
        let files = folder(&root).unwrap();
        assert_eq!(files["templates/b.yaml"], b"a");
        std::fs::write(home.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("c")).unwrap();
        let error = folder(&root).unwrap_err();
        assert!(error.to_string().contains("leads out"), "{error}");
    }
}
