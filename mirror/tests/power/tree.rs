//! Folders and files in memory.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    File(Content),
    Folder(BTreeMap<Vec<u8>, Tree>),
}

/// Bytes; what is behind them up to `length` is zero.
#[derive(Clone, Debug, Default)]
pub struct Content {
    bytes: Vec<u8>,
    length: u64,
}

impl PartialEq for Content {
    fn eq(&self, other: &Content) -> bool {
        let (short, long) = match self.bytes.len() < other.bytes.len() {
            true => (self, other),
            false => (other, self),
        };
        let at = short.bytes.len();
        self.length == other.length
            && long.bytes[..at] == short.bytes
            && long.bytes[at..].iter().all(|byte| *byte == 0)
    }
}

impl Eq for Content {}

impl Content {
    pub fn new(bytes: Vec<u8>) -> Content {
        let length = bytes.len() as u64;
        Content { bytes, length }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes over what is there, or behind it.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let at = usize::try_from(offset).unwrap();
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[at..end].copy_from_slice(bytes);
        self.length = self.length.max(end as u64);
    }

    pub fn set_length(&mut self, length: u64) {
        self.bytes.truncate(usize::try_from(length).unwrap());
        self.length = length;
    }

    /// A part of it.
    pub fn part(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut part = vec![0; length];
        let at = usize::try_from(offset).unwrap().min(self.bytes.len());
        let end = (at + length).min(self.bytes.len());
        part[..end - at].copy_from_slice(&self.bytes[at..end]);
        part
    }
}

impl Tree {
    /// What lies at `path`.
    pub fn read(path: &Path) -> Tree {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap().map(|entry| {
                let entry = entry.unwrap();
                (
                    entry.file_name().into_vec(),
                    Tree::read(&path.join(entry.file_name())),
                )
            });
            return Tree::Folder(entries.collect());
        }
        let mut content = Content::new(fs::read(path).unwrap());
        // room that was only reserved is no reason to carry megabytes about
        if content.bytes.iter().all(|byte| *byte == 0) {
            content.bytes.clear();
        }
        Tree::File(content)
    }

    /// Makes it at `path`, where nothing is.
    pub fn write_to(&self, path: &Path) {
        match self {
            Tree::File(content) => {
                fs::write(path, &content.bytes).unwrap();
                if content.length > content.bytes.len() as u64 {
                    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
                    file.set_len(content.length).unwrap();
                }
            }
            Tree::Folder(entries) => {
                fs::create_dir(path).unwrap();
                for (name, entry) in entries {
                    entry.write_to(&path.join(std::ffi::OsString::from_vec(name.clone())));
                }
            }
        }
    }

    /// Paths of everything below that differs, for a message.
    pub fn differences(&self, other: &Tree, at: &str, into: &mut Vec<String>) {
        match (self, other) {
            (Tree::Folder(a), Tree::Folder(b)) => {
                for name in a
                    .keys()
                    .chain(b.keys().filter(|name| !a.contains_key(*name)))
                {
                    let at = format!("{at}/{}", String::from_utf8_lossy(name));
                    match (a.get(name), b.get(name)) {
                        (Some(a), Some(b)) => a.differences(b, &at, into),
                        (Some(_), None) => into.push(format!("{at} is only in the first")),
                        _ => into.push(format!("{at} is only in the second")),
                    }
                }
            }
            (a, b) if a == b => {}
            (Tree::File(a), Tree::File(b)) => {
                into.push(format!("{at} differs: {} and {} bytes", a.length, b.length))
            }
            _ => into.push(format!("{at} is a file in one and a folder in the other")),
        }
    }
}

#[test]
fn trees_are_written_and_read_again() {
    let mut sparse = Content::new(b"ab".to_vec());
    sparse.set_length(10);
    sparse.write(5, b"x");
    let tree = Tree::Folder(BTreeMap::from([
        (b"f".to_vec(), Tree::File(sparse)),
        (b"d".to_vec(), Tree::Folder(BTreeMap::new())),
    ]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    tree.write_to(&path);
    assert_eq!(fs::read(path.join("f")).unwrap(), b"ab\0\0\0x\0\0\0\0");
    assert_eq!(Tree::read(&path), tree);
}
