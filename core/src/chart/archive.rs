//! `Chart.yaml` out of a `.tgz`, with bounds on everything the archive claims.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType, PaxExtensions};

use super::{ChartError, MAX_ARCHIVE, MAX_CHART_YAML, MAX_FILES, MAX_UNPACKED};

/// Largest header that only carries a long name.
const MAX_NAME_HEADER: u64 = 64 * 1024;

/// Reads at most [`MAX_UNPACKED`] bytes, then fails.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        match self.left.checked_sub(got as u64) {
            Some(left) => {
                self.left = left;
                Ok(got)
            }
            None => Err(io::Error::other(Overrun)),
        }
    }
}

/// Marks the error of [`Bounded`].
#[derive(Debug, thiserror::Error)]
#[error("too much data")]
struct Overrun;

fn failed(error: io::Error) -> ChartError {
    // tar wraps errors; the marker is somewhere below
    let mut cause: Option<&(dyn std::error::Error + 'static)> =
        error.get_ref().map(|inner| inner as _);
    while let Some(inner) = cause {
        if inner.is::<Overrun>() {
            return ChartError::Unpacked;
        }
        cause = match inner.downcast_ref::<io::Error>() {
            Some(io) => io.get_ref().map(|inner| inner as _),
            None => inner.source(),
        };
    }
    ChartError::Archive(error.to_string())
}

/// The one `<chart>/Chart.yaml`. The archive is read to its end.
pub(super) fn chart_yaml(archive: &[u8]) -> Result<Vec<u8>, ChartError> {
    let size = archive.len() as u64;
    if size > MAX_ARCHIVE {
        return Err(ChartError::TooLarge(size));
    }
    let mut tar = Archive::new(Bounded {
        inner: MultiGzDecoder::new(archive),
        left: MAX_UNPACKED,
    });
    // raw: the library would read headers of long names into memory, whatever their size
    let entries = tar.entries().map_err(failed)?.raw(true);
    let mut found = None;
    let mut long_name = None;
    for (n, entry) in entries.enumerate() {
        if n >= MAX_FILES {
            return Err(ChartError::TooMany);
        }
        let mut entry = entry.map_err(failed)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => {
                let mut name = bytes(&mut entry, MAX_NAME_HEADER)?;
                while name.last() == Some(&0) {
                    name.pop();
                }
                long_name = Some(name);
                continue;
            }
            EntryType::XHeader => {
                let records = bytes(&mut entry, MAX_NAME_HEADER)?;
                long_name = pax_path(&records)?.or(long_name);
                continue;
            }
            EntryType::GNUSparse => {
                return Err(ChartError::Archive("it holds a sparse file".to_owned()));
            }
            _ => {}
        }
        let name = match long_name.take() {
            Some(name) => name,
            None => entry.path_bytes().into_owned(),
        };
        let regular = entry.header().entry_type().is_file();
        if regular && is_chart_yaml(&name) {
            if found.is_some() {
                return Err(ChartError::Twice);
            }
            found = Some(bytes(&mut entry, MAX_CHART_YAML)?);
        }
    }
    found.ok_or(ChartError::NoMetadata)
}

/// `<chart>/Chart.yaml`, not deeper: subcharts have theirs too.
fn is_chart_yaml(name: &[u8]) -> bool {
    name.strip_suffix(b"/Chart.yaml")
        .is_some_and(|folder| !folder.is_empty() && !folder.contains(&b'/'))
}

fn bytes(entry: &mut Entry<'_, impl Read>, limit: u64) -> Result<Vec<u8>, ChartError> {
    let size = entry.header().entry_size().map_err(failed)?;
    if size > limit {
        return Err(ChartError::Archive(format!(
            "one of its entries has {size} bytes; at most {limit} are allowed there"
        )));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// The path in pax records. A size there would hide data from a reader that does not look.
fn pax_path(records: &[u8]) -> Result<Option<Vec<u8>>, ChartError> {
    let mut path = None;
    for record in PaxExtensions::new(records) {
        let record = record.map_err(failed)?;
        match record.key_bytes() {
            b"path" => path = Some(record.value_bytes().to_vec()),
            key if key == b"size" || key.starts_with(b"GNU.sparse") => {
                return Err(ChartError::Archive(
                    "an entry has its size in a pax header, which no chart needs".to_owned(),
                ));
            }
            _ => {}
        }
    }
    Ok(path)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    pub(in crate::chart) fn gz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    pub(crate) fn tgz(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *content).unwrap();
        }
        gz(&builder.into_inner().unwrap())
    }

    #[test]
    fn only_the_charts_own_metadata_counts() {
        let archive = tgz(&[
            ("web/charts/sub/Chart.yaml", b"sub"),
            ("Chart.yaml", b"beside"),
            ("web/Chart.yaml", b"own"),
            ("web/values.yaml", b""),
        ]);
        assert_eq!(chart_yaml(&archive).unwrap(), b"own");
    }

    #[test]
    fn a_long_name_is_read_as_other_readers_do() {
        let folder = "x".repeat(240);
        let archive = tgz(&[(&format!("{folder}/Chart.yaml"), b"own")]);
        assert_eq!(chart_yaml(&archive).unwrap(), b"own");
    }

    #[test]
    fn two_or_none_are_refused() {
        let twice = tgz(&[("web/Chart.yaml", b"1"), ("web/Chart.yaml", b"2")]);
        assert!(matches!(chart_yaml(&twice), Err(ChartError::Twice)));
        let none = tgz(&[("web/values.yaml", b"")]);
        assert!(matches!(chart_yaml(&none), Err(ChartError::NoMetadata)));
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        for bytes in [b"".as_slice(), b"hello", &gz(b"hello"), &gz(&[7; 2000])] {
            assert!(chart_yaml(bytes).is_err());
        }
        let mut cut = tgz(&[("web/Chart.yaml", &[b'x'; 5000])]);
        cut.truncate(cut.len() - 20);
        assert!(chart_yaml(&cut).is_err());
    }

    #[test]
    fn a_bomb_is_refused() {
        let mut header = tar::Header::new_ustar();
        header.set_path("web/zeros").unwrap();
        header.set_size(MAX_UNPACKED + 1);
        header.set_cksum();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(header.as_bytes()).unwrap();
        let zeros = vec![0; 1 << 20];
        for _ in 0..=MAX_UNPACKED >> 20 {
            encoder.write_all(&zeros).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        assert!(bomb.len() as u64 <= MAX_ARCHIVE);
        assert!(matches!(chart_yaml(&bomb), Err(ChartError::Unpacked)));
    }

    #[test]
    fn too_large_things_are_refused() {
        let large = vec![b' '; MAX_CHART_YAML as usize + 1];
        let archive = tgz(&[("web/Chart.yaml", &large)]);
        assert!(
            chart_yaml(&archive)
                .unwrap_err()
                .to_string()
                .contains("1048577")
        );
        let large = vec![0; MAX_ARCHIVE as usize + 1];
        assert!(matches!(chart_yaml(&large), Err(ChartError::TooLarge(_))));
        let many: Vec<(&str, &[u8])> = vec![("web/x", b""); MAX_FILES + 1];
        assert!(matches!(chart_yaml(&tgz(&many)), Err(ChartError::TooMany)));
    }

    #[test]
    fn a_size_in_a_pax_header_is_refused() {
        let mut builder = tar::Builder::new(Vec::new());
        builder
            .append_pax_extensions([("size", b"3".as_slice())])
            .unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(3);
        builder
            .append_data(&mut header, "web/Chart.yaml", b"own".as_slice())
            .unwrap();
        let archive = gz(&builder.into_inner().unwrap());
        assert!(matches!(chart_yaml(&archive), Err(ChartError::Archive(_))));
    }
}
