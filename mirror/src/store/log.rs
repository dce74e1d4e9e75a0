//! What was changed in a large repository since its base file was written: one line for each
//! commit that changed it, the line's digest behind it. A push to a repository of 10 000 tags
//! writes a line and not 10 000 tags.
//!
//! A line is written after the record of its commit is durable, so a last line that is cut short
//! is no loss: the record mends it. Every line says which commit its repository stood at before,
//! so that a base file and a log that do not belong together are noticed. Lines that the base
//! file has already are passed over: who compacts writes the base first.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use kubepkg_core::Digest;
use kubepkg_core::store::{Change, StoreError};
use serde::{Deserialize, Serialize};

use super::disk::{Disk, failed};
use super::sealed::damaged;

/// Manifests, tags and blobs up to which a repository is one file, written anew with each
/// change: a base file and a log are two files to read at start.
pub(super) const SMALL: usize = 1000;

/// One commit's changes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    /// The newest commit before this one that changed the repository.
    after: u64,
    commit: u64,
    changes: Cow<'a, [Change]>,
}

/// What a log says.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: Vec<Line<'static>>,
    /// Bytes up to the end of the last whole line.
    length: u64,
    /// Where the last whole line begins.
    last: u64,
    /// Number of a last line that is not whole.
    torn: Option<usize>,
}

/// How a repository of base file and log lies on the disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Form {
    /// Bytes of the base file, 0 where there is none.
    pub(super) base_length: u64,
    /// The newest commit in the base file.
    pub(super) base: u64,
    /// The newest commit in base file and log.
    pub(super) applied: u64,
    /// Bytes of the log up to the end of its last whole line; `None` where there is no log.
    pub(super) length: Option<u64>,
    /// The last line and where it begins, if it is newer than the base file.
    last: Option<(u64, Vec<u8>)>,
    /// Number of a last line that is not whole.
    pub(super) torn: Option<usize>,
}

/// A line to be written into a log.
#[derive(Debug)]
pub(super) struct Append {
    pub(super) path: PathBuf,
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
    /// Whether the log has to be made first.
    pub(super) new: bool,
}

/// What the log at `path` says, `None` where there is none.
pub(super) fn read(path: &Path) -> Result<Option<Log>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => parse(path, &bytes).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed("read", path)(e)),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Log, StoreError> {
    let mut log = Log::default();
    for (n, text) in bytes.split_inclusive(|b| *b == b'\n').enumerate() {
        let end = log.length + text.len() as u64;
        match line(text) {
            Ok(line) => {
                log.last = log.length;
                log.length = end;
                log.lines.push(line);
            }
            Err(_) if end == bytes.len() as u64 => log.torn = Some(n + 1),
            Err(why) => return Err(damaged(path, format!("line {} {why}", n + 1))),
        }
    }
    Ok(log)
}

fn line(text: &[u8]) -> Result<Line<'static>, String> {
    let changed = || "is cut short or was changed".to_owned();
    let text = text.strip_suffix(b"\n").ok_or_else(changed)?;
    let at = text.iter().rposition(|b| *b == b' ').ok_or_else(changed)?;
    let (value, seal) = (&text[..at], &text[at + 1..]);
    if seal != format!("\"{}\"", Digest::sha256(value)).as_bytes() {
        return Err(changed());
    }
    serde_json::from_slice(value).map_err(|e| format!("is not what this kubepkg writes: {e}"))
}

impl Log {
    /// Takes a base file that stands at commit `base` up to the end of this log: `apply` is told
    /// the changes and their commit. Answers how the two lie on the disk.
    pub(super) fn follow(
        self,
        path: &Path,
        base: u64,
        base_length: u64,
        mut apply: impl FnMut(&[Change], u64),
    ) -> Result<Form, StoreError> {
        let mut form = Form {
            base_length,
            base,
            applied: base,
            length: Some(self.length),
            last: None,
            torn: self.torn,
        };
        for (n, line) in self.lines.iter().enumerate() {
            if line.commit <= base {
                continue;
            }
            if line.after != form.applied || line.commit <= form.applied {
                let why = format!(
                    "line {} goes on from commit {}, and what is before it ends at commit {}",
                    n + 1,
                    line.after,
                    form.applied
                );
                return Err(damaged(path, why));
            }
            apply(&line.changes, line.commit);
            form.applied = line.commit;
        }
        if let Some(last) = self.lines.last().filter(|line| line.commit > base) {
            form.last = Some((self.last, encode(path, last)?));
        }
        Ok(form)
    }
}

fn encode(path: &Path, line: &Line<'_>) -> Result<Vec<u8>, StoreError> {
    let mut bytes = serde_json::to_vec(line)
        .map_err(io::Error::other)
        .map_err(failed("write", path))?;
    let seal = Digest::sha256(&bytes);
    bytes.extend_from_slice(format!(" \"{seal}\"\n").as_bytes());
    Ok(bytes)
}

impl Form {
    /// A base file of this length, as of commit `applied`, and no log.
    pub(super) fn of_base(length: u64, applied: u64) -> Form {
        Form {
            base_length: length,
            base: applied,
            applied,
            ..Form::default()
        }
    }

    /// The line that brings base file and log to commit `commit`. `None` when the base file is
    /// to be written anew: there is none, or the log would outgrow it.
    ///
    /// Where the line is there already and perhaps not durable, it is the same line in the same
    /// place: pages that were written again are worth a sync again.
    pub(super) fn append(
        &self,
        path: PathBuf,
        commit: u64,
        changes: &[Change],
    ) -> Result<Option<Append>, StoreError> {
        if self.base == commit || self.base_length == 0 {
            return Ok(None);
        }
        if let (true, Some((at, bytes))) = (self.applied == commit, &self.last) {
            return Ok(Some(Append {
                path,
                at: *at,
                bytes: bytes.clone(),
                new: false,
            }));
        }
        let line = Line {
            after: self.applied,
            commit,
            changes: Cow::Borrowed(changes),
        };
        let bytes = encode(&path, &line)?;
        let at = self.length.unwrap_or(0);
        let fits = at + bytes.len() as u64 <= self.base_length;
        Ok(fits.then_some(Append {
            path,
            at,
            bytes,
            new: self.length.is_none(),
        }))
    }

    /// What this is once `append` is written as commit `commit`.
    pub(super) fn after(&self, append: &Append, commit: u64) -> Form {
        Form {
            applied: commit,
            length: Some(append.at + append.bytes.len() as u64),
            last: Some((append.at, append.bytes.clone())),
            torn: None,
            ..self.clone()
        }
    }
}

impl Append {
    /// Writes the line, durably but for the entry of a new log in its folder. What stood behind
    /// its place was no whole line, or is this one.
    pub(super) fn write(&self, disk: &Disk) -> Result<(), StoreError> {
        let file = if self.new {
            disk.open_or_create(&self.path)?
        } else {
            File::options()
                .write(true)
                .open(&self.path)
                .map_err(failed("open", &self.path))?
        };
        let end = self.at + self.bytes.len() as u64;
        let write = || {
            let length = file.metadata()?.len();
            if length < self.at {
                return Err(io::Error::other("it is shorter than it was"));
            }
            if length > end {
                file.set_len(self.at)?;
            }
            file.write_all_at(&self.bytes, self.at)?;
            file.sync_data()
        };
        write().map_err(failed("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(n: u64) -> Change {
        Change::Blob {
            repository: "a".parse().unwrap(),
            digest: Digest::sha256(n.to_string()),
            new: Some(n),
        }
    }

    fn lines(numbers: &[(u64, u64)]) -> Vec<Vec<u8>> {
        let line = |(after, commit): &(u64, u64)| {
            let line = Line {
                after: *after,
                commit: *commit,
                changes: vec![change(*commit)].into(),
            };
            encode(Path::new("log"), &line).unwrap()
        };
        numbers.iter().map(line).collect()
    }

    fn follow(bytes: &[u8], base: u64) -> Result<(Form, Vec<u64>), StoreError> {
        let path = Path::new("log");
        let mut seen = Vec::new();
        let form = parse(path, bytes)?.follow(path, base, 1, |_, commit| seen.push(commit))?;
        Ok((form, seen))
    }

    #[test]
    fn a_log_goes_on_from_its_base() {
        let bytes = lines(&[(2, 5), (5, 9)]).concat();
        let (form, seen) = follow(&bytes, 2).unwrap();
        assert_eq!((form.applied, seen), (9, vec![5, 9]));
        // the base was written anew and the log is still there
        assert_eq!(follow(&bytes, 5).unwrap().1, [9]);
        assert!(follow(&bytes, 9).unwrap().1.is_empty());
        let error = follow(&bytes, 1).unwrap_err().to_string();
        assert!(error.contains("line 1 goes on from commit 2"), "{error}");
        let gap = lines(&[(2, 5), (7, 9)]).concat();
        let error = follow(&gap, 2).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn a_torn_end_is_left_out_and_a_damaged_middle_is_named() {
        let lines = lines(&[(2, 5), (5, 9)]);
        let bytes = lines.concat();
        let first = lines[0].len();
        for cut in first + 1..bytes.len() {
            let (form, seen) = follow(&bytes[..cut], 2).unwrap();
            assert_eq!((seen, form.torn), (vec![5], Some(2)), "cut at {cut}");
            assert_eq!(form.length, Some(first as u64));
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let followed = follow(&changed, 2);
            if at < first - 1 {
                let error = followed.unwrap_err().to_string();
                assert!(error.contains("line 1 "), "changed at {at}: {error}");
            } else if at >= first {
                assert_eq!(followed.unwrap().0.torn, Some(2), "changed at {at}");
            }
        }
    }

    #[test]
    fn a_line_that_is_there_is_written_again_in_its_place() {
        let bytes = lines(&[(2, 5)]).concat();
        let (mut form, _) = follow(&bytes, 2).unwrap();
        form.base_length = 10_000;
        let again = form.append("log".into(), 5, &[change(5)]).unwrap().unwrap();
        assert_eq!((again.at, &again.bytes), (0, &bytes));
        let next = form.append("log".into(), 6, &[change(6)]).unwrap().unwrap();
        assert_eq!(next.at, bytes.len() as u64);
        form.base_length = bytes.len() as u64;
        let outgrown = form.append("log".into(), 6, &[change(6)]).unwrap();
        assert!(outgrown.is_none());
    }
}
