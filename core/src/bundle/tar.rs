//! Tar headers as the format wants them. Nothing here depends on a tar library, whose next
//! version could write other bytes.

use super::format::{ALIGN_FROM, ALIGNMENT, BLOCK, USTAR_NAME, USTAR_SIZE, round_up};

/// Name of a pax header; readers that know pax never show it.
const PAX_NAME: &[u8] = b"././@PaxHeader";

/// Bytes of a record `comment` besides its length and its value.
const COMMENT_FRAME: u64 = " comment=\n".len() as u64;

/// What stands before the data of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    path: &'a str,
    size: u64,
    /// Bytes of the records `path` and `size`.
    needed: u64,
    /// Bytes of the record `comment`, 0 for none.
    comment: u64,
    /// Bytes of pax data with its padding, 0 where there is no pax header.
    pax: u64,
}

impl<'a> Header<'a> {
    /// The header of a member whose header begins at `at` (a multiple of 512). `None` when the
    /// place of the data cannot be expressed.
    pub(super) fn plan(path: &'a str, size: u64, at: u64, align: bool) -> Option<Header<'a>> {
        let mut needed = 0;
        if path.len() > USTAR_NAME {
            needed += record_len("path", path.len() as u64);
        }
        if size >= USTAR_SIZE {
            needed += record_len("size", decimals(size));
        }
        let mut header = Header {
            path,
            size,
            needed,
            comment: 0,
            pax: 0,
        };
        let align = align && size >= ALIGN_FROM;
        let plain = at.checked_add(BLOCK)?;
        if needed == 0 && (!align || plain % ALIGNMENT == 0) {
            return Some(header);
        }
        let least = round_up(needed, BLOCK)?.max(BLOCK);
        header.pax = least;
        if align {
            let data = at.checked_add(2 * BLOCK)?.checked_add(least)?;
            header.pax += round_up(data, ALIGNMENT)? - data;
        }
        if needed == 0 || header.pax > least {
            header.comment = header.pax - needed;
        }
        Some(header)
    }

    /// Its length in bytes: the data begins that far behind it.
    pub(super) fn len(&self) -> u64 {
        match self.pax {
            0 => BLOCK,
            pax => 2 * BLOCK + pax,
        }
    }

    /// Appends its bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.pax > 0 {
            let length = self.needed + self.comment;
            block(PAX_NAME, length, b'x', out);
            let end = out.len() + self.pax as usize;
            if self.path.len() > USTAR_NAME {
                record("path", self.path, out);
            }
            if self.size >= USTAR_SIZE {
                record("size", &self.size.to_string(), out);
            }
            if self.comment > 0 {
                let spaces = self.comment - decimals(self.comment) - COMMENT_FRAME;
                let spaces = " ".repeat(spaces as usize);
                out.extend_from_slice(format!("{} comment={spaces}\n", self.comment).as_bytes());
            }
            out.resize(end, 0);
        }
        let cut = self.path.len().min(USTAR_NAME);
        let size = if self.size < USTAR_SIZE { self.size } else { 0 };
        block(&self.path.as_bytes()[..cut], size, b'0', out);
    }
}

fn decimals(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0)) + 1
}

/// Length of the pax record with this key and a value of `value` bytes; it counts itself.
fn record_len(key: &str, value: u64) -> u64 {
    let rest = key.len() as u64 + value + 3; // space, '=', line feed
    let mut total = rest + decimals(rest);
    if decimals(total) > decimals(rest) {
        total = rest + decimals(total);
    }
    total
}

fn record(key: &str, value: &str, out: &mut Vec<u8>) {
    let total = record_len(key, value.len() as u64);
    out.extend_from_slice(format!("{total} {key}={value}\n").as_bytes());
}

/// One ustar block.
fn block(name: &[u8], size: u64, kind: u8, out: &mut Vec<u8>) {
    let mut block = [0u8; BLOCK as usize];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name);
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    put(329, b"0000000\0");
    put(337, b"0000000\0");
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.extend_from_slice(&block);
}

/// The size a header block claims, by its octal digits. `None` when it is not of our form.
pub(super) fn claimed_size(block: &[u8; BLOCK as usize]) -> Option<u64> {
    let digits = block[124..136].strip_suffix(b"\0")?;
    digits.iter().try_fold(0u64, |sum, b| match b {
        b'0'..=b'7' => Some(sum * 8 + u64::from(b - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(path: &str, size: u64, at: u64) -> Vec<u8> {
        let header = Header::plan(path, size, at, true).unwrap();
        let mut out = Vec::new();
        header.write(&mut out);
        assert_eq!(out.len() as u64, header.len(), "{path} {size} {at}");
        out
    }

    #[test]
    fn large_data_is_aligned_wherever_the_header_begins() {
        for at in (0..3 * ALIGNMENT).step_by(BLOCK as usize) {
            for path in ["a".to_owned(), "b".repeat(141), "c".repeat(255)] {
                for size in [ALIGN_FROM, USTAR_SIZE, u64::MAX >> 2] {
                    let len = bytes(&path, size, at).len() as u64;
                    assert_eq!((at + len) % ALIGNMENT, 0, "{path} {size} {at}");
                    assert!(len <= ALIGNMENT + 3 * BLOCK);
                }
            }
        }
    }

    #[test]
    fn small_data_has_one_block_of_header() {
        assert_eq!(bytes("a", ALIGN_FROM - 1, 512).len(), 512);
        assert_eq!(bytes(&"a".repeat(100), 0, 512).len(), 512);
        assert_eq!(bytes(&"a".repeat(101), 0, 512).len(), 3 * 512);
    }

    #[test]
    fn records_count_themselves() {
        for value in 0..1200 {
            let mut out = Vec::new();
            record("comment", &" ".repeat(value), &mut out);
            let text = String::from_utf8(out).unwrap();
            let (length, _) = text.split_once(' ').unwrap();
            assert_eq!(length.parse::<usize>().unwrap(), text.len());
        }
    }

    #[test]
    fn a_header_gives_back_its_size() {
        let out = bytes("a", 12_345, 0);
        assert_eq!(claimed_size(out.first_chunk().unwrap()), Some(12_345));
        assert_eq!(claimed_size(&[b'x'; 512]), None);
    }
}
