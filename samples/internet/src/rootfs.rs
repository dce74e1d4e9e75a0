//! The files a program needs to run in an image with nothing else in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::archive::Entry;

/// Where the system keeps the certificate authorities it trusts; the first that exists is taken.
const CA_FILES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// The user the program runs as; not root, and with no other right on any host.
pub const USER: u64 = 65532;

/// The libraries of `programs`, certificates, `/tmp` and the few files that libraries look for.
pub fn base(programs: &[&Path]) -> Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for program in programs {
        for library in libraries(program)? {
            let content = std::fs::read(&library).with_context(|| library.display().to_string())?;
            let path = library.to_string_lossy().trim_start_matches('/').to_owned();
            entries.insert(path, Entry::File(0o755, content));
        }
    }
    if let Some(ca) = CA_FILES.iter().find(|file| Path::new(file).is_file()) {
        let content = std::fs::read(ca).with_context(|| (*ca).to_owned())?;
        entries.insert(
            "etc/ssl/certs/ca-certificates.crt".to_owned(),
            Entry::File(0o644, content),
        );
    }
    let text = |text: String| Entry::File(0o644, text.into_bytes());
    entries.insert(
        "etc/passwd".to_owned(),
        text(format!("nonroot:x:{USER}:{USER}::/tmp:/sbin/nologin\n")),
    );
    entries.insert("etc/group".to_owned(), text(format!("nonroot:x:{USER}:\n")));
    entries.insert(
        "etc/hosts".to_owned(),
        text("127.0.0.1 localhost\n::1 localhost\n".to_owned()),
    );
    entries.insert("tmp".to_owned(), Entry::Folder(0o1777));
    Ok(entries)
}

/// The program itself, as `usr/bin/<name>`.
pub fn program(path: &Path, name: &str) -> Result<BTreeMap<String, Entry>> {
    let content = std::fs::read(path).with_context(|| path.display().to_string())?;
    Ok(BTreeMap::from([(
        format!("usr/bin/{name}"),
        Entry::File(0o755, content),
    )]))
}

/// The shared libraries the dynamic loader would open for `program`, the loader included; none
/// for a static program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new(program)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .with_context(|| program.display().to_string())?;
    if !output.status.success() {
        bail!(
            "{} does not run here: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(library).collect())
}

/// The file in a line such as `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld.so (0x…)`.
fn library(line: &str) -> Option<PathBuf> {
    let line = line
        .trim()
        .split_once("=> ")
        .map_or(line.trim(), |(_, path)| path);
    let path = line.split(" (").next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_loader() {
        let file = |line| library(line).map(|path| path.display().to_string());
        assert_eq!(
            file("\tlibc.so.6 => /lib/libc.so.6 (0x00007f)").as_deref(),
            Some("/lib/libc.so.6")
        );
        assert_eq!(
            file("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)").as_deref(),
            Some("/lib64/ld-linux-x86-64.so.2")
        );
        assert_eq!(file("\tlinux-vdso.so.1 (0x00007f)"), None);
    }
}
