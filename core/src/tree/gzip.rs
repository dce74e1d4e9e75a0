//! gzip whose bytes depend on nothing but its input and this program.
//!
//! `miniz_oxide` is named in one exact version and used directly: what `flate2` compresses with
//! is chosen by features that any other crate may turn on, and every compressor, and some
//! releases of one, give other bytes. The golden digest in `pack` notices.

use std::io::{self, Write};

use flate2::Crc;
use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};

/// RFC 1952, section 2.3: deflate, no name, no time, slowest compression, system unknown.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff];

/// Best compression: trees are small, and fetched more often than made.
const LEVEL: i32 = 9;

/// The compressor gets its input in pieces of this size, whoever writes how.
const PIECE: usize = 64 * 1024;

/// Writes what it is given to `out`, compressed.
pub(super) struct Gzip<W> {
    out: W,
    compressor: Box<CompressorOxide>,
    crc: Crc,
    piece: Vec<u8>,
}

impl<W: Write> Gzip<W> {
    pub(super) fn new(mut out: W) -> io::Result<Gzip<W>> {
        out.write_all(&HEADER)?;
        // negative: without the frame of zlib; 0: no special strategy
        let flags = create_comp_flags_from_zip_params(LEVEL, -15, 0);
        Ok(Gzip {
            out,
            compressor: Box::new(CompressorOxide::new(flags)),
            crc: Crc::new(),
            piece: Vec::with_capacity(PIECE),
        })
    }

    /// Takes the next bytes.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.crc.update(bytes);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE {
                self.compress(TDEFLFlush::None)?;
            }
        }
        Ok(())
    }

    /// Ends the stream.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.compress(TDEFLFlush::Finish)?;
        self.out.write_all(&self.crc.sum().to_le_bytes())?;
        self.out.write_all(&self.crc.amount().to_le_bytes())?;
        Ok(self.out)
    }

    fn compress(&mut self, flush: TDEFLFlush) -> io::Result<()> {
        let mut failed = None;
        let mut rest = &self.piece[..];
        loop {
            let (status, taken) =
                compress_to_output(&mut self.compressor, rest, flush, |compressed| {
                    match self.out.write_all(compressed) {
                        Ok(()) => true,
                        Err(error) => {
                            failed = Some(error);
                            false
                        }
                    }
                });
            rest = &rest[taken..];
            match (failed.take(), status) {
                (Some(error), _) => return Err(error),
                (None, TDEFLStatus::Done) => break,
                (None, TDEFLStatus::Okay) if rest.is_empty() && flush == TDEFLFlush::None => break,
                (None, TDEFLStatus::Okay) => {}
                (None, _) => return Err(io::Error::other("the compressor failed")),
            }
        }
        self.piece.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn packed(bytes: &[u8], step: usize) -> Vec<u8> {
        let mut gzip = Gzip::new(Vec::new()).unwrap();
        for part in bytes.chunks(step) {
            gzip.write(part).unwrap();
        }
        gzip.finish().unwrap()
    }

    #[test]
    fn how_it_is_written_shows_nowhere() {
        let mut bytes = b"kubepkg ".repeat(30_000);
        bytes.extend((0..200_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()));
        let one = packed(&bytes, bytes.len());
        assert_eq!(one, packed(&bytes, 1000));
        assert_eq!(one, packed(&bytes, PIECE));
        let mut again = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&one[..]);
        reader.read_to_end(&mut again).unwrap();
        assert!(again == bytes);
        assert_eq!(packed(b"", 1).len(), 20);
    }

    #[test]
    fn a_full_disk_is_told() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self
                    .0
                    .checked_sub(bytes.len())
                    .ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut gzip = Gzip::new(Full(100)).unwrap();
        let bytes: Vec<u8> = (0..50_000u32)
            .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        let written = gzip.write(&bytes).and_then(|()| gzip.finish().map(|_| ()));
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
