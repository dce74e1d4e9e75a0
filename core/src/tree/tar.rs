//! The headers of a tree's archive (POSIX pax). They are written here and not by a library, so
//! that no release of one can change them. Where the POSIX formats leave a choice, it is the one
//! of Go's `archive/tar`, with which trees were made before.
//!
//! Those trees say that they are pax. For Go that allows an extended header and asks for none: a
//! path that fits into a plain header has only that, and one that can be parted between name and
//! prefix is parted. With `Format: tar.FormatPAX` and with no format Go gives the same bytes for
//! every path, so nothing hangs on which of the two the older program chose.

/// Everything in an archive is a multiple of this.
pub(super) const BLOCK: usize = 512;

/// What a file that its owner may run gets as mode.
pub(super) const EXECUTABLE: u32 = 0o755;

/// What any other file gets.
pub(super) const PLAIN: u32 = 0o644;

/// The end of an archive: two blocks of zeros.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Bytes of a header's name, and of the folder that may stand before it.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// The header of a file, with the extended one before it where its path needs that.
pub(super) fn header(path: &str, size: u64, mode: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = [0; BLOCK];
    match split(path) {
        Some((prefix, name)) => {
            text(&mut block[..NAME], name);
            text(&mut block[345..345 + PREFIX], prefix);
        }
        None => {
            let record = record("path", path);
            out.extend(extended(path, record.len()));
            out.extend_from_slice(record.as_bytes());
            out.resize(out.len() + padding(record.len() as u64), 0);
            cut(&mut block[..NAME], &ascii(path));
        }
    }
    octal(&mut block[100..108], u64::from(mode));
    common(&mut block, size, b'0');
    // device numbers, which only devices have
    octal(&mut block[329..337], 0);
    octal(&mut block[337..345], 0);
    out.extend(summed(block));
    out
}

/// The path as prefix and name of a plain header; `None` when it does not fit.
fn split(path: &str) -> Option<(&str, &str)> {
    if !path.is_ascii() {
        return None;
    }
    if path.len() <= NAME {
        return Some(("", path));
    }
    let at = path[..path.len().min(PREFIX + 1)].rfind('/')?;
    let (prefix, name) = (&path[..at], &path[at + 1..]);
    (!prefix.is_empty() && !name.is_empty() && name.len() <= NAME).then_some((prefix, name))
}

/// How many zeros follow `size` bytes of content.
pub(super) fn padding(size: u64) -> usize {
    let block = BLOCK as u64;
    usize::try_from(size.next_multiple_of(block) - size).unwrap_or(0)
}

fn extended(path: &str, size: usize) -> [u8; BLOCK] {
    let name = match path.rsplit_once('/') {
        Some((folder, file)) => format!("{folder}/PaxHeaders.0/{file}"),
        None => format!("PaxHeaders.0/{path}"),
    };
    let name = ascii(&name);
    let name = name[..name.len().min(NAME)].trim_end_matches('/');
    let mut block = [0; BLOCK];
    text(&mut block[..NAME], name);
    octal(&mut block[100..108], 0);
    common(&mut block, size as u64, b'x');
    summed(block)
}

/// What all headers have: no owners, no time.
fn common(block: &mut [u8; BLOCK], size: u64, kind: u8) {
    octal(&mut block[108..116], 0);
    octal(&mut block[116..124], 0);
    octal(&mut block[124..136], size);
    octal(&mut block[136..148], 0);
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
}

fn summed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    // summed up with blanks in the place of the sum
    block[148..156].fill(b' ');
    let sum = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
    block[154] = 0;
    block
}

/// `<length> <key>=<value>\n`, where the length counts its own digits too.
fn record(key: &str, value: &str) -> String {
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len() + 1;
    while length.to_string().len() + rest.len() != length {
        length = length.to_string().len() + rest.len();
    }
    format!("{length}{rest}")
}

fn ascii(text: &str) -> String {
    text.chars().filter(char::is_ascii).collect()
}

fn text(field: &mut [u8], text: &str) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
}

/// The first bytes of a name whose whole is in the extended header before it. A cut name that
/// ends with a slash would be a folder for readers of plain headers only: Go ends it before that.
fn cut(field: &mut [u8], name: &str) {
    text(field, name);
    let last = field.len() - 1;
    if name.len() > field.len() && field[last] == b'/' {
        let slashes = field[..last].iter().rev().take_while(|b| **b == b'/');
        let end = last - slashes.count();
        // what follows that byte stays, as Go leaves it
        field[end] = 0;
    }
}

/// Octal digits that fill the field up to the zero byte at its end. No tree is so large that
/// they do not fit.
fn octal(field: &mut [u8], value: u64) {
    let digits = format!("{value:0width$o}", width = field.len() - 1);
    text(field, &digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_itself() {
        assert_eq!(record("path", "a"), "9 path=a\n");
        assert_eq!(record("path", ""), "8 path=\n");
        for length in [80, 89, 90, 91, 92, 980, 989, 990, 991, 992] {
            let record = record("path", &"x".repeat(length));
            let (said, _) = record.split_once(' ').unwrap();
            assert_eq!(said.parse::<usize>().unwrap(), record.len());
        }
    }

    #[test]
    fn other_readers_agree() {
        let long = format!("{}/ü", "x".repeat(150));
        let split = format!("{}/{}", "x".repeat(155), "y".repeat(100));
        let file = format!("{split}y");
        for (path, mode) in [
            ("a", PLAIN),
            ("bin/run.sh", EXECUTABLE),
            (long.as_str(), PLAIN),
            (split.as_str(), PLAIN),
            (file.as_str(), EXECUTABLE),
            ("größe", PLAIN),
        ] {
            let mut archive = header(path, 3, mode);
            assert_eq!(archive.len() % BLOCK, 0);
            archive.extend_from_slice(b"abc");
            archive.resize(archive.len() + padding(3), 0);
            archive.extend_from_slice(&END);
            let mut reader = ::tar::Archive::new(&archive[..]);
            let mut entries = reader.entries().unwrap();
            let entry = entries.next().unwrap().unwrap();
            assert_eq!(entry.path_bytes(), path.as_bytes());
            let header = entry.header();
            assert_eq!((entry.size(), header.mode().unwrap()), (3, mode));
            assert_eq!((header.uid().unwrap(), header.mtime().unwrap()), (0, 0));
            assert!(entries.next().is_none());
        }
    }

    #[test]
    fn a_cut_name_does_not_end_as_that_of_a_folder() {
        let name = |path: &str| {
            let header = header(path, 0, PLAIN);
            header[header.len() - BLOCK..][..NAME].to_vec()
        };
        let x = |count: usize| "x".repeat(count);
        for (path, end) in [
            (format!("{}/{}", x(99), x(101)), &b"xxx\0"[..]),
            (format!("{}/ü/{}", x(98), x(40)), b"xx\0/"),
            (format!("{}/ü/ö/{}", x(97), x(40)), b"x\0//"),
            (format!("{}/{}", x(100), x(101)), b"xxxx"),
        ] {
            assert!(name(&path).ends_with(end), "{path}");
        }
    }

    #[test]
    fn what_fits_needs_no_extended_header() {
        assert_eq!(header(&"x".repeat(100), 0, PLAIN).len(), BLOCK);
        let folder =
            |prefix: usize, name: usize| format!("{}/{}", "x".repeat(prefix), "y".repeat(name));
        for (prefix, name, blocks) in [(1, 100, 1), (155, 100, 1), (156, 10, 3), (5, 101, 3)] {
            let header = header(&folder(prefix, name), 0, PLAIN);
            assert_eq!(header.len(), blocks * BLOCK, "{prefix} {name}");
        }
        assert_eq!(header(&"x".repeat(101), 0, PLAIN).len(), 3 * BLOCK);
        assert_eq!((padding(0), padding(1), padding(512)), (0, 511, 0));
    }
}
