//! What strace says, as changes of files.
//!
//! One log is one process with its threads. Written with `-f -ttt -y -xx`: times, the path of
//! every open file, and all text in hexadecimal, so that no byte of it can be taken for syntax.

use std::collections::BTreeMap;

/// The calls a log must have: those that change files, and those that say where in a file a
/// write goes.
pub const CALLS: &str = "trace=openat,open,creat,write,writev,pwrite64,pwritev,pwritev2,rename,\
    renameat,renameat2,link,linkat,mkdir,mkdirat,unlink,unlinkat,rmdir,ftruncate,truncate,\
    fallocate,fsync,fdatasync,syncfs,sync,copy_file_range,sendfile,splice,symlink,symlinkat,\
    lseek,dup,dup2,dup3,fcntl,ioctl";

/// Longer texts than any single call of these tests has.
pub const LONGEST: &str = "8388608";

type Path = String;

/// What a call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Opened to be written, created where it was missing, cut to nothing if `cut`.
    Create {
        path: Path,
        cut: bool,
    },
    /// Wrote; `None` is the end of the file.
    Write {
        path: Path,
        offset: Option<u64>,
        bytes: Vec<u8>,
    },
    /// Copied within the files of the model.
    Copy {
        from: Path,
        from_offset: u64,
        path: Path,
        offset: u64,
        length: u64,
    },
    SetLength {
        path: Path,
        length: u64,
    },
    /// Made it at least this long.
    Reserve {
        path: Path,
        length: u64,
    },
    MakeFolder(Path),
    Rename {
        from: Path,
        to: Path,
    },
    Link {
        from: Path,
        to: Path,
    },
    Remove(Path),
    Sync(Path),
    SyncAll,
    /// Said something to who runs the process.
    Said(String),
}

/// A call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Microseconds.
    pub began: u64,
    pub ended: u64,
    pub act: Act,
}

/// The changes in a log, by the time they ended.
pub fn parse(log: &str) -> Result<Vec<Event>, String> {
    let mut reader = Reader::default();
    for (at, line) in log.lines().enumerate() {
        reader
            .line(line)
            .map_err(|why| format!("line {}: {why}: {}", at + 1, shortened(line)))?;
    }
    reader.events.sort_by_key(|event| event.ended);
    Ok(reader.events)
}

fn shortened(line: &str) -> &str {
    &line[..line.len().min(300)]
}

#[derive(Default)]
struct Reader {
    /// Calls that began and did not end, by thread.
    open_calls: BTreeMap<String, (u64, String)>,
    /// Which position an open file has; duplicates share one.
    descriptors: BTreeMap<u64, usize>,
    positions: Vec<Position>,
    events: Vec<Event>,
}

#[derive(Clone, Copy)]
enum Position {
    At(u64),
    End,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (thread, rest) = line.split_once(' ').ok_or("no thread")?;
        let (time, rest) = rest.trim_start().split_once(' ').ok_or("no time")?;
        let time = microseconds(time)?;
        if rest.starts_with("+++") || rest.starts_with("---") {
            return Ok(()); // the end of a thread, or a signal
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            let begun = (time, begun.trim_end().to_owned());
            self.open_calls.insert(thread.to_owned(), begun);
            return Ok(());
        }
        let (began, whole) = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let (_, end) = resumed.split_once(" resumed>").ok_or("no call resumed")?;
                let begun = self.open_calls.remove(thread).ok_or("nothing began")?;
                (begun.0, format!("{} {}", begun.1, end.trim_start()))
            }
            None => (time, rest.to_owned()),
        };
        let (call, answer) = whole
            .rsplit_once(") = ")
            .or_else(|| {
                // strace pads short lines
                let (call, answer) = whole.rsplit_once(" = ")?;
                Some((call.trim_end().strip_suffix(')')?, answer))
            })
            .ok_or("no answer")?;
        if answer.starts_with(['-', '?']) {
            return Ok(()); // it failed, or its process was killed before it: nothing was changed
        }
        let (name, arguments) = call.split_once('(').ok_or("no call")?;
        let arguments = split(arguments);
        let act = self.act(name, &arguments, answer)?;
        self.events.extend(act.map(|act| Event {
            began,
            ended: time,
            act,
        }));
        Ok(())
    }

    fn act(&mut self, name: &str, given: &[&str], answer: &str) -> Result<Option<Act>, String> {
        let argument = |at: usize| given.get(at).copied().ok_or("an argument is missing");
        let count = || number(answer.split(['<', ' ']).next().unwrap_or_default());
        Ok(match name {
            "openat" | "open" | "creat" => {
                let at = usize::from(name == "openat");
                let flags = argument(at + 1)?;
                let position = match flags.contains("O_APPEND") {
                    true => Position::End,
                    false => Position::At(0),
                };
                self.positions.push(position);
                let descriptor = count()?;
                self.descriptors
                    .insert(descriptor, self.positions.len() - 1);
                let made = name == "creat" || flags.contains("O_CREAT");
                let cut = name == "creat" || flags.contains("O_TRUNC");
                (made || cut)
                    .then(|| path_of(answer).map(|path| Act::Create { path, cut }))
                    .transpose()?
            }
            "write" | "writev" => {
                let bytes = written(name, argument(1)?, count()?)?;
                let descriptor = descriptor(argument(0)?)?;
                if descriptor == 1 {
                    let said = String::from_utf8_lossy(&bytes).into_owned();
                    return Ok(Some(Act::Said(said)));
                }
                let path = path_of(argument(0)?)?;
                let position = self.descriptors.get(&descriptor).copied();
                let offset = match position.map(|at| self.positions[at]) {
                    Some(Position::At(offset)) => Some(offset),
                    _ => None,
                };
                if let (Some(at), Some(offset)) = (position, offset) {
                    self.positions[at] = Position::At(offset + bytes.len() as u64);
                }
                Some(Act::Write {
                    path,
                    offset,
                    bytes,
                })
            }
            "pwrite64" | "pwritev" | "pwritev2" => {
                let bytes = written(name, argument(1)?, count()?)?;
                let path = path_of(argument(0)?)?;
                let offset = Some(number(argument(3)?)?);
                Some(Act::Write {
                    path,
                    offset,
                    bytes,
                })
            }
            "copy_file_range" => {
                let (from, to) = (argument(0)?, argument(2)?);
                let length = count()?;
                let from_offset = self.copy_position(from, argument(1)?, length)?;
                let offset = self.copy_position(to, argument(3)?, length)?;
                Some(Act::Copy {
                    from: path_of(from)?,
                    from_offset,
                    path: path_of(to)?,
                    offset,
                    length,
                })
            }
            "ftruncate" | "truncate" => Some(Act::SetLength {
                path: path_of(argument(0)?)?,
                length: number(argument(1)?)?,
            }),
            "fallocate" => {
                let (path, mode) = (path_of(argument(0)?)?, argument(1)?);
                match mode {
                    "0" => Some(Act::Reserve {
                        path,
                        length: number(argument(2)?)? + number(argument(3)?)?,
                    }),
                    "FALLOC_FL_KEEP_SIZE" => None,
                    _ => return Err(format!("fallocate {mode} is not in the model")),
                }
            }
            "mkdir" => Some(Act::MakeFolder(path_of(argument(0)?)?)),
            "mkdirat" => Some(Act::MakeFolder(path_at(argument(0)?, argument(1)?)?)),
            "rename" => Some(Act::Rename {
                from: path_of(argument(0)?)?,
                to: path_of(argument(1)?)?,
            }),
            "renameat" | "renameat2" => {
                if given.get(4).is_some_and(|flags| flags.contains("EXCHANGE")) {
                    return Err("exchanging two files is not in the model".to_owned());
                }
                Some(Act::Rename {
                    from: path_at(argument(0)?, argument(1)?)?,
                    to: path_at(argument(2)?, argument(3)?)?,
                })
            }
            "link" => Some(Act::Link {
                from: path_of(argument(0)?)?,
                to: path_of(argument(1)?)?,
            }),
            "linkat" => Some(Act::Link {
                from: path_at(argument(0)?, argument(1)?)?,
                to: path_at(argument(2)?, argument(3)?)?,
            }),
            "unlink" | "rmdir" => Some(Act::Remove(path_of(argument(0)?)?)),
            "unlinkat" => Some(Act::Remove(path_at(argument(0)?, argument(1)?)?)),
            "fsync" | "fdatasync" => Some(Act::Sync(path_of(argument(0)?)?)),
            "syncfs" | "sync" => Some(Act::SyncAll),
            "lseek" => {
                let at = self.descriptors.get(&descriptor(argument(0)?)?);
                if let Some(at) = at
                    && matches!(self.positions[*at], Position::At(_))
                {
                    self.positions[*at] = Position::At(count()?);
                }
                None
            }
            "dup" | "dup2" | "dup3" => {
                self.duplicate(argument(0)?, count()?)?;
                None
            }
            "fcntl" if argument(1)?.starts_with("F_DUPFD") => {
                self.duplicate(argument(0)?, count()?)?;
                None
            }
            "fcntl" => None,
            "ioctl" if !argument(1)?.contains("FICLONE") => None,
            // to a socket or a pipe; a file would be noticed by the comparison at the end
            "sendfile" | "splice" => None,
            other => return Err(format!("{other} is not in the model")),
        })
    }

    fn duplicate(&mut self, of: &str, new: u64) -> Result<(), String> {
        if let Some(position) = self.descriptors.get(&descriptor(of)?).copied() {
            self.descriptors.insert(new, position);
        }
        Ok(())
    }

    /// Where one side of a copy begins: at the offset given, or at the file's own.
    fn copy_position(&mut self, file: &str, given: &str, length: u64) -> Result<u64, String> {
        if given != "NULL" {
            return number(
                given
                    .trim_matches(['[', ']'])
                    .split(' ')
                    .next()
                    .unwrap_or_default(),
            );
        }
        let at = self.descriptors.get(&descriptor(file)?).copied();
        let at = at.ok_or("a file nobody opened")?;
        match self.positions[at] {
            Position::At(offset) => {
                self.positions[at] = Position::At(offset + length);
                Ok(offset)
            }
            Position::End => Err("a copy to the end of a file is not in the model".to_owned()),
        }
    }
}

fn microseconds(time: &str) -> Result<u64, String> {
    let (seconds, rest) = time.split_once('.').ok_or("no time")?;
    Ok(number(seconds)? * 1_000_000 + number(rest)?)
}

fn number(text: &str) -> Result<u64, String> {
    let text = text.trim();
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

/// Splits arguments at commas outside brackets; texts have none.
fn split(arguments: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, byte) in arguments.bytes().enumerate() {
        match byte {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(arguments[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(arguments[from..].trim());
    parts
}

/// The number of an open file.
fn descriptor(argument: &str) -> Result<u64, String> {
    number(argument.split('<').next().unwrap_or_default())
}

/// The path of an open file, or one given as text.
fn path_of(argument: &str) -> Result<Path, String> {
    let bytes = match argument.split_once('<') {
        Some((_, path)) => {
            let (path, after) = path.split_once('>').ok_or("a path without end")?;
            let mut bytes = hexadecimal(path)?;
            if after.starts_with("(deleted)") {
                bytes.extend_from_slice(b" (deleted)");
            }
            bytes
        }
        None => text(argument)?,
    };
    String::from_utf8(bytes).map_err(|e| e.to_string())
}

/// A path below the folder `folder`.
fn path_at(folder: &str, path: &str) -> Result<Path, String> {
    let path = path_of(path)?;
    if path.starts_with('/') {
        return Ok(path);
    }
    Ok(format!("{}/{path}", path_of(folder)?))
}

fn text(argument: &str) -> Result<Vec<u8>, String> {
    let inner = argument
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    hexadecimal(inner.ok_or_else(|| format!("no whole text: {}", shortened(argument)))?)
}

/// `\x61\x62`
fn hexadecimal(text: &str) -> Result<Vec<u8>, String> {
    let bad = || format!("no hexadecimal text: {}", shortened(text));
    let chunks = text.as_bytes().chunks(4);
    let bytes = chunks.map(|chunk| {
        let digits = chunk.strip_prefix(b"\\x").ok_or_else(bad)?;
        let digits = str::from_utf8(digits).map_err(|_| bad())?;
        u8::from_str_radix(digits, 16).map_err(|_| bad())
    });
    bytes.collect()
}

/// The first `count` bytes of what was to be written.
fn written(call: &str, argument: &str, count: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    if call.contains('v') {
        for part in argument.split("iov_base=").skip(1) {
            let end = part.find(", iov_len").ok_or("a part without length")?;
            bytes.extend(text(&part[..end])?);
        }
    } else {
        bytes = text(argument)?;
    }
    let count = usize::try_from(count).map_err(|e| e.to_string())?;
    if bytes.len() < count {
        return Err(format!("{} of {count} bytes are in the log", bytes.len()));
    }
    bytes.truncate(count);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("\\x{byte:02x}")).collect()
    }

    #[test]
    fn calls_that_were_interrupted_by_other_threads_are_put_together() {
        let (file, folder) = (hex("/s/a"), hex("/s"));
        let log = format!(
            "7 10.000001 openat(AT_FDCWD<{folder}>, \"{file}\", O_RDWR|O_CREAT|O_EXCL, 0644) = 3<{file}>\n\
             7 10.000002 writev(3<{file}>, [{{iov_base=\"{}\", iov_len=2}}, {{iov_base=\"{}\", iov_len=1}}], 2) = 3\n\
             7 10.000003 fsync(3<{file}> <unfinished ...>\n\
             8 10.000004 rename(\"{file}\", \"{file}\") = -1 ENOENT (No such file or directory)\n\
             8 10.000005 write(1<{}>, \"{}\", 2) = 2\n\
             7 10.000009 <... fsync resumed>)    = 0\n\
             7 10.000010 write(3<{file}>(deleted), \"{}\", 9) = 1\n\
             7 10.000011 unlinkat(4<{folder}>, \"{}\", AT_REMOVEDIR) = 0\n\
             7 10.000012 fsync(4<{folder}>)   = ?\n\
             7 10.000012 +++ exited with 0 +++\n",
            hex("ab"),
            hex("c"),
            hex("pipe"),
            hex("hi"),
            hex("defghijkl"),
            hex("a"),
        );
        let events = parse(&log).unwrap();
        let write = |path: &str, offset, bytes: &[u8]| Act::Write {
            path: path.to_owned(),
            offset: Some(offset),
            bytes: bytes.to_vec(),
        };
        let acts: Vec<Act> = events.iter().map(|event| event.act.clone()).collect();
        let expected = [
            Act::Create {
                path: "/s/a".to_owned(),
                cut: false,
            },
            write("/s/a", 0, b"abc"),
            Act::Said("hi".to_owned()),
            Act::Sync("/s/a".to_owned()),
            write("/s/a (deleted)", 3, b"d"),
            Act::Remove("/s/a".to_owned()),
        ];
        assert_eq!(acts, expected);
        assert_eq!((events[3].began, events[3].ended), (10_000_003, 10_000_009));
    }

    #[test]
    fn a_call_the_model_does_not_know_is_no_silent_hole() {
        let log = "7 10.000001 symlink(\"\\x61\", \"\\x62\") = 0\n";
        assert!(parse(log).unwrap_err().contains("symlink"));
        let log = "7 10.000001 pwrite64(3<\\x61>, \"\\x61\"..., 9, 0) = 9\n";
        assert!(parse(log).is_err(), "cut text");
    }
}
