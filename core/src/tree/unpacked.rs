//! The identity of a tree that does not say it: the digest of its layer before compression.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;

use super::MAX_TREE;
use crate::digest::{Algorithm, Digest, Hasher};

/// Takes a compressed archive piece by piece and keeps nothing of it but its digest.
pub struct Unpacked {
    decoder: MultiGzDecoder<Counted>,
}

struct Counted {
    hasher: Hasher,
    left: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            let why = format!("it unpacks to more than {MAX_TREE} bytes");
            return Err(io::Error::other(why));
        };
        self.left = left;
        self.hasher.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Default for Unpacked {
    fn default() -> Unpacked {
        Unpacked {
            decoder: MultiGzDecoder::new(Counted {
                hasher: Hasher::new(Algorithm::Sha256),
                left: MAX_TREE,
            }),
        }
    }
}

impl Unpacked {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// They are no gzip, or unpack to more than [`MAX_TREE`].
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.decoder.write_all(bytes)
    }

    /// The digest, when that was all.
    ///
    /// # Errors
    /// The stream has not ended.
    pub fn finish(self) -> io::Result<Digest> {
        Ok(self.decoder.finish()?.hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pack::{pack, tests::sample};
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    #[test]
    fn however_it_was_compressed() {
        let folder = sample();
        let mut ours = Vec::new();
        let packed = pack(folder.path(), &mut ours).unwrap();
        let mut plain = Vec::new();
        io::copy(&mut flate2::read::GzDecoder::new(&ours[..]), &mut plain).unwrap();
        // two members, one after the other, are one stream
        let (first, second) = plain.split_at(1000);
        let mut theirs = Vec::new();
        for part in [first, second] {
            let mut encoder = GzEncoder::new(&mut theirs, Compression::fast());
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap();
        }
        assert_ne!(ours, theirs);
        for bytes in [ours, theirs] {
            let mut unpacked = Unpacked::default();
            bytes
                .chunks(77)
                .for_each(|part| unpacked.take(part).unwrap());
            assert_eq!(unpacked.finish().unwrap(), packed.content);
        }
    }

    #[test]
    fn what_is_no_archive_or_a_bomb_is_an_error() {
        let mut unpacked = Unpacked::default();
        let taken = unpacked.take(b"no gzip at all, but long enough to see that");
        assert!(taken.and_then(|()| unpacked.finish().map(|_| ())).is_err());

        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let zeros = vec![0; 1 << 20];
        for _ in 0..=MAX_TREE >> 20 {
            encoder.write_all(&zeros).unwrap();
        }
        let bomb = encoder.finish().unwrap();
        let mut unpacked = Unpacked::default();
        let error = bomb.chunks(4096).try_for_each(|part| unpacked.take(part));
        assert!(error.unwrap_err().to_string().contains("unpacks to more"));
    }
}
