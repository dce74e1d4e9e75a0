//! Passphrases of private keys: asked on the terminal, or read from the file that
//! `KUBEPKG_KEY_PASSPHRASE_FILE` names. They are never flags: those show in process lists.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use kubepkg_core::keys::MAX_PASSPHRASE;
use zeroize::Zeroizing;

use crate::error::CommandError;
use crate::places;
use crate::printer::Printer;

/// The variable that names a file with a passphrase.
pub const VARIABLE: &str = "KUBEPKG_KEY_PASSPHRASE_FILE";

/// The passphrase that opens the key called `key`.
pub fn of_key(key: &str, printer: &Printer) -> Result<Zeroizing<String>, CommandError> {
    match file() {
        Some(file) => read(&file, printer),
        None => ask(&format!("passphrase of {key}: ")),
    }
}

/// The passphrase a new key is put under; asked twice, as nobody sees what is typed.
pub fn of_new_key(key: &str, printer: &Printer) -> Result<Zeroizing<String>, CommandError> {
    if let Some(file) = file() {
        return read(&file, printer);
    }
    let passphrase = ask(&format!("passphrase for {key}: "))?;
    if passphrase.is_empty() {
        return Err(CommandError::usage("an empty passphrase protects nothing")
            .hint("leave --encrypt out to write the key without one"));
    }
    if *passphrase != *ask("the same passphrase again: ")? {
        return Err(CommandError::usage("the two passphrases differ").hint("run it again"));
    }
    Ok(passphrase)
}

fn file() -> Option<PathBuf> {
    places::variable(VARIABLE).map(PathBuf::from)
}

/// Reads a passphrase; one line end after it is not part of it.
fn read(file: &Path, printer: &Printer) -> Result<Zeroizing<String>, CommandError> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |error| CommandError::io("cannot read the passphrase", error).at(file.display());
    let open = std::fs::File::open(file).map_err(failed)?;
    let mode = open.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        printer.warn(&format!(
            "others than its owner can read the passphrase in {}: chmod 600 {0}",
            file.display()
        ));
    }
    // room for a line end, and one byte more to see that there is more
    let limit = MAX_PASSPHRASE as u64 + 3;
    let mut text = Zeroizing::new(String::with_capacity(MAX_PASSPHRASE + 4));
    open.take(limit).read_to_string(&mut text).map_err(failed)?;
    let kept = text.strip_suffix('\n').unwrap_or(&text);
    let kept = kept.strip_suffix('\r').unwrap_or(kept);
    if kept.is_empty() || kept.len() > MAX_PASSPHRASE {
        let wrong = format!("a passphrase has 1 to {MAX_PASSPHRASE} bytes");
        return Err(CommandError::usage(wrong).at(file.display()));
    }
    Ok(Zeroizing::new(kept.to_owned()))
}

fn ask(prompt: &str) -> Result<Zeroizing<String>, CommandError> {
    rpassword::prompt_password(prompt)
        .map(Zeroizing::new)
        .map_err(|error| {
            CommandError::usage("a passphrase is needed, and there is no terminal to ask on")
                .because(error)
                .hint(format!("name a file that holds it: {VARIABLE}=FILE"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Talk;

    fn read_text(text: &[u8]) -> Result<String, CommandError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let printer = Printer::new(&Talk::default());
        read(file.path(), &printer).map(|passphrase| passphrase.to_string())
    }

    #[test]
    fn one_line_end_is_dropped_and_nothing_else() {
        for (text, want) in [
            (&b"word"[..], "word"),
            (b"word\n", "word"),
            (b"word\r\n", "word"),
            (b"word\n\n", "word\n"),
            (b" two words \n", " two words "),
        ] {
            assert_eq!(read_text(text).unwrap(), want);
        }
        let longest = "x".repeat(MAX_PASSPHRASE);
        assert_eq!(
            read_text(format!("{longest}\r\n").as_bytes()).unwrap(),
            longest
        );
        for bad in ["", "\n", &format!("{longest}x"), &format!("{longest}xyz\n")] {
            assert!(read_text(bad.as_bytes()).is_err());
        }
        assert!(read_text(b"\xff").is_err());
    }
}
