//! Changing the users of a mirror: one process after the other, and each change in one step.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::error::AccessError;
use super::passwords::{self, MAX_PASSWORD, Passwords, check_name};
use crate::changes::read_bounded;
use crate::owner;

/// Rounds of a new password, as a power of two: about a tenth of a second.
const NEW_COST: u32 = 10;

/// Fewer characters are found by trying.
const MIN_PASSWORD: usize = 8;

/// What is in the file.
const WHAT: &str = "the users of the mirror";

/// A file of users.
#[derive(Clone, Debug)]
pub struct Users(PathBuf);

impl Users {
    /// In this file, which need not be there.
    pub fn at(path: PathBuf) -> Users {
        Users(path)
    }

    /// The users there are, in order.
    pub fn list(&self) -> Result<Vec<String>, AccessError> {
        let passwords = self.parse(&self.text()?)?;
        Ok(passwords.users().map(str::to_owned).collect())
    }

    /// Adds a user, or gives one another password; answers whether there was one before.
    pub fn set(&self, name: &str, password: &str) -> Result<bool, AccessError> {
        check_name(name).map_err(AccessError::User)?;
        check_password(password).map_err(AccessError::User)?;
        let hash = bcrypt::hash(password, NEW_COST)
            .map_err(|error| AccessError::Random(error.to_string()))?;
        self.change(name, Some(&hash))
    }

    /// Takes a user away; answers whether there was one.
    pub fn remove(&self, name: &str) -> Result<bool, AccessError> {
        self.change(name, None)
    }

    /// Comments and the order of lines stay.
    fn change(&self, name: &str, hash: Option<&str>) -> Result<bool, AccessError> {
        // a link goes on pointing there: what it points to is replaced
        let file = match self.0.canonicalize() {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.0.is_symlink() => {
                self.0.clone()
            }
            Err(error) => return Err(AccessError::write(WHAT, &self.0)(error)),
        };
        let folder = match file.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let failed = || AccessError::write(WHAT, &self.0);
        let lock = fs::File::open(folder).map_err(failed())?;
        // given up when it is closed
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| failed()(error.into()))?;
        let text = self.text()?;
        self.parse(&text)?;
        let is_theirs = |line: &str| line.split_once(':').is_some_and(|(n, _)| n == name);
        let was_there = text.lines().any(is_theirs);
        let mut lines: Vec<String> = Vec::new();
        for line in text.lines() {
            match (is_theirs(line), hash) {
                (false, _) => lines.push(line.to_owned()),
                (true, Some(hash)) => lines.push(format!("{name}:{hash}")),
                (true, None) => {}
            }
        }
        match hash {
            Some(hash) if !was_there => lines.push(format!("{name}:{hash}")),
            None if !was_there => return Ok(false),
            _ => {}
        }
        let mut text = lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        self.write(&file, folder, &text)?;
        Ok(was_there)
    }

    fn text(&self) -> Result<String, AccessError> {
        match read_bounded(&self.0, passwords::MAX_FILE) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(AccessError::read(WHAT, &self.0)(error)),
        }
    }

    fn parse(&self, text: &str) -> Result<Passwords, AccessError> {
        Passwords::parse(text).map_err(|(line, why)| AccessError::Login {
            path: self.0.clone(),
            line,
            why,
        })
    }

    /// With the mode and owner the file had; a new one is its owner's alone, who is the owner of
    /// the folder.
    fn write(&self, file: &Path, folder: &Path, text: &str) -> Result<(), AccessError> {
        let failed = || AccessError::write(WHAT, &self.0);
        let before = fs::metadata(file).ok();
        let mode = before
            .as_ref()
            .map_or(0o600, |before| before.mode() & 0o777);
        let like = match before {
            Some(before) => before,
            None => fs::metadata(folder).map_err(failed())?,
        };
        let mut made = tempfile::Builder::new()
            .prefix(".tmp-")
            .tempfile_in(folder)
            .map_err(failed())?;
        made.write_all(text.as_bytes()).map_err(failed())?;
        owner::give(made.as_file(), like.uid(), like.gid()).map_err(failed())?;
        made.as_file()
            .set_permissions(fs::Permissions::from_mode(mode))
            .map_err(failed())?;
        made.as_file().sync_all().map_err(failed())?;
        made.persist(file).map_err(|e| failed()(e.error))?;
        let folder = fs::File::open(folder).map_err(failed())?;
        folder.sync_all().map_err(failed())
    }
}

fn check_password(password: &str) -> Result<(), String> {
    if password.chars().count() < MIN_PASSWORD {
        return Err(format!(
            "the password is shorter than {MIN_PASSWORD} characters"
        ));
    }
    if password.len() > MAX_PASSWORD {
        return Err(format!(
            "the password is longer than {MAX_PASSWORD} bytes, and the rest would not count"
        ));
    }
    match password.chars().any(char::is_control) {
        true => Err("the password holds control characters".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_and_go_and_the_rest_of_the_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("users");
        let users = Users::at(file.clone());
        assert!(users.list().unwrap().is_empty());
        assert!(!users.remove("alice").unwrap() && !file.exists());
        assert!(!users.set("alice", "long enough").unwrap());
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("# ours\n{text}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(!users.set("bob", "long enough").unwrap());
        assert!(users.set("alice", "another one").unwrap());
        assert_eq!(users.list().unwrap(), ["alice", "bob"]);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# ours\nalice:$2b$10$"), "{text}");
        let hash = text.lines().nth(1).unwrap().split_once(':').unwrap().1;
        assert!(bcrypt::verify("another one", hash).unwrap());
        assert!(users.remove("alice").unwrap());
        assert_eq!(users.list().unwrap(), ["bob"]);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (there, link) = (folder.path().join("there"), folder.path().join("users"));
        fs::create_dir(&there).unwrap();
        std::os::unix::fs::symlink("there/users", &link).unwrap();
        let users = Users::at(link.clone());
        // a link to nowhere may be one whose disk is not mounted
        assert!(users.set("alice", "long enough").is_err());
        fs::write(there.join("users"), "").unwrap();
        users.set("alice", "long enough").unwrap();
        assert!(link.is_symlink());
        let text = fs::read_to_string(there.join("users")).unwrap();
        assert!(text.starts_with("alice:"));
        assert_eq!(users.list().unwrap(), ["alice"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_would_not_work_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let users = Users::at(folder.path().join("users"));
        for (name, password) in [
            ("a:b", "long enough"),
            ("", "long enough"),
            ("alice", "short"),
            ("alice", &"x".repeat(73)),
            ("alice", "with\nnewline"),
        ] {
            assert!(users.set(name, password).is_err(), "{name} {password}");
        }
        fs::write(folder.path().join("users"), "alice:plain\n").unwrap();
        assert!(
            users.set("bob", "long enough").is_err(),
            "it is not ours to mend"
        );
    }
}
