//! Bytes of an index while they come in: unpacked where the server packed them, cut into
//! sections, and read section by section.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

use super::split::{Odd, Splitter};
use super::{HelmIndex, MAX_HELM_INDEX};

/// What gzip begins with. No YAML text does.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What became of an index.
pub(crate) enum Read {
    /// It was read.
    Index(HelmIndex),
    /// It has to be read as a whole.
    Odd,
}

/// Takes an index as it comes in.
pub(crate) struct Incoming {
    first: Vec<u8>,
    unpacking: Unpacking,
}

/// Whether the bytes are packed shows with the first two.
enum Unpacking {
    Unknown(Reading),
    Plain(Reading),
    Gzip(Box<MultiGzDecoder<Reading>>),
    Over,
}

/// The unpacked text.
struct Reading {
    length: u64,
    way: Way,
}

enum Way {
    Sections(Box<Sections>),
    Whole(Vec<u8>),
    Odd,
}

struct Sections {
    index: HelmIndex,
    splitter: Splitter<Take>,
    pending: std::sync::mpsc::Receiver<Vec<u8>>,
}

type Take = Box<dyn FnMut(&[u8]) -> Result<(), Odd> + Send>;

impl Incoming {
    /// Begins; with `whole` the text is kept to be read as a whole.
    pub(crate) fn new(whole: bool) -> Incoming {
        let way = match whole {
            true => Way::Whole(Vec::new()),
            false => Way::Sections(Box::new(Sections::new())),
        };
        Incoming {
            first: Vec::new(),
            unpacking: Unpacking::Unknown(Reading { length: 0, way }),
        }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.write(bytes)
            .map_err(|error| format!("it cannot be unpacked: {error}"))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.unpacking {
            Unpacking::Plain(reading) => reading.write_all(bytes),
            Unpacking::Gzip(decoder) => decoder.write_all(bytes),
            Unpacking::Over => Ok(()),
            Unpacking::Unknown(_) => {
                self.first.extend_from_slice(bytes);
                match self.first.len() < GZIP.len() {
                    true => Ok(()),
                    false => self.decide(),
                }
            }
        }
    }

    fn decide(&mut self) -> io::Result<()> {
        let Unpacking::Unknown(reading) = std::mem::replace(&mut self.unpacking, Unpacking::Over)
        else {
            return Ok(());
        };
        let first = std::mem::take(&mut self.first);
        self.unpacking = match first.starts_with(&GZIP) {
            true => Unpacking::Gzip(Box::new(MultiGzDecoder::new(reading))),
            false => Unpacking::Plain(reading),
        };
        self.write(&first)
    }

    /// All of it is there.
    pub(crate) fn finish(mut self) -> Result<Read, String> {
        let broken = |error: io::Error| format!("it cannot be unpacked: {error}");
        if matches!(self.unpacking, Unpacking::Unknown(_)) {
            self.decide().map_err(broken)?;
        }
        match self.unpacking {
            Unpacking::Plain(reading) | Unpacking::Unknown(reading) => reading.finish(),
            Unpacking::Gzip(decoder) => decoder.finish().map_err(broken)?.finish(),
            Unpacking::Over => Ok(Read::Odd),
        }
    }
}

impl Sections {
    fn new() -> Sections {
        let (found, pending) = std::sync::mpsc::channel();
        let take: Take = Box::new(move |section: &[u8]| {
            // the receiver lives as long as this does
            found.send(section.to_vec()).map_err(|_| Odd)
        });
        Sections {
            index: HelmIndex::default(),
            splitter: Splitter::new(take),
            pending,
        }
    }

    /// Reads the sections that are whole by now.
    fn read(&mut self) -> Result<(), Odd> {
        for section in self.pending.try_iter() {
            self.index.add_section(&section).map_err(|_| Odd)?;
        }
        Ok(())
    }
}

impl Reading {
    fn finish(self) -> Result<Read, String> {
        match self.way {
            Way::Odd => Ok(Read::Odd),
            Way::Whole(text) => HelmIndex::read(&text).map(Read::Index),
            Way::Sections(sections) => {
                let Sections {
                    mut index,
                    splitter,
                    pending,
                } = *sections;
                if splitter.finish().is_err() {
                    return Ok(Read::Odd);
                }
                for section in pending.try_iter() {
                    if index.add_section(&section).is_err() {
                        return Ok(Read::Odd);
                    }
                }
                Ok(Read::Index(index))
            }
        }
    }
}

impl Write for Reading {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.length += bytes.len() as u64;
        if self.length > MAX_HELM_INDEX {
            let why = format!("it is larger than the limit of {MAX_HELM_INDEX} bytes");
            return Err(io::Error::other(why));
        }
        match &mut self.way {
            Way::Odd => {}
            Way::Whole(text) => text.extend_from_slice(bytes),
            Way::Sections(sections) => {
                let read = sections.splitter.push(bytes).and_then(|()| sections.read());
                if read.is_err() {
                    self.way = Way::Odd;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn read(bytes: &[u8], whole: bool, step: usize) -> Result<Read, String> {
        let mut incoming = Incoming::new(whole);
        for chunk in bytes.chunks(step) {
            incoming.push(chunk)?;
        }
        incoming.finish()
    }

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn index(charts: usize) -> String {
        let mut text = "apiVersion: v1\nentries:\n".to_owned();
        for chart in 0..charts {
            let _ = writeln!(text, "  chart-{chart}:");
            for version in 0..3 {
                let _ = writeln!(
                    text,
                    "  - apiVersion: v2\n    description: |-\n      a: b\n\n      - c\n    name: \
                     chart-{chart}\n    urls:\n    - c-{version}.tgz\n    version: {version}.0.0"
                );
            }
        }
        text.push_str("generated: \"2026-01-01T00:00:00Z\"\n");
        text
    }

    #[test]
    fn in_pieces_packed_or_not_it_reads_as_a_whole() {
        let text = index(20);
        let want = HelmIndex::read(text.as_bytes()).unwrap();
        for bytes in [text.clone().into_bytes(), packed(text.as_bytes())] {
            for step in [1, 3, 1000] {
                for whole in [true, false] {
                    match read(&bytes, whole, step).unwrap() {
                        Read::Index(index) => assert_eq!(index, want),
                        Read::Odd => panic!("it is as tools write it"),
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_odd_is_said_and_what_is_broken_refused() {
        assert!(matches!(
            read(b"entries: {a: []}\n", false, 4),
            Ok(Read::Odd)
        ));
        assert!(matches!(
            read(b"entries: {a: []}\n", true, 4),
            Ok(Read::Index(_))
        ));
        let mut broken = packed(index(3).as_bytes());
        broken.truncate(broken.len() / 2);
        assert!(read(&broken, false, 9).is_err());
        // three bytes that unpack to far more than anybody reads
        assert!(read(b"\x1f\x8b\x08garbage", false, 9).is_err());
    }
}
