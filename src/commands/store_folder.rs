//! The folder named by `--store`.

use std::path::Path;

use kubepkg_mirror::store::FileStore;

use crate::error::CommandError;

/// A store is a local folder; a URL would become a folder called `http:`.
pub fn check(folder: &Path) -> Result<(), CommandError> {
    if !folder.to_string_lossy().contains("://") {
        return Ok(());
    }
    if folder.starts_with("s3:/") {
        return Err(
            CommandError::usage("this verb works on a store in a folder, not in a bucket")
                .at(folder.display())
                .hint(
                    "a bucket is filled by `bundle import`, `mirror copy --from DIR --to` and \
                     pushes, and served by `mirror serve`; tags and manifests in it are removed \
                     through the registry",
                ),
        );
    }
    Err(CommandError::usage("--store takes a folder, not a URL")
        .at(folder.display())
        .hint(
            "name the folder of the mirror's store on this machine, e.g. --store /srv/mirror; a \
             server on that store sees what is imported at once",
        ))
}

/// Refuses a folder without a store, which is what the folder of an unmounted disk looks like.
pub fn must_exist(folder: &Path) -> anyhow::Result<()> {
    check(folder)?;
    if FileStore::is_at(folder)? {
        return Ok(());
    }
    Err(CommandError::failed("there is no store in this folder")
        .at(folder.display())
        .hint(format!(
            "is its disk mounted? A new store is made by the first import: kubepkg bundle import \
             FILE --store {}; or, for one filled by pushes, by `mirror serve --new-store`",
            folder.display()
        ))
        .into())
}

/// [`must_exist`] for a verb that asks what is in it: then it is what was not found.
pub fn must_be_found(folder: &Path) -> anyhow::Result<()> {
    check(folder)?;
    match FileStore::is_at(folder)? {
        true => Ok(()),
        false => Err(CommandError::not_found("there is no store in this folder")
            .at(folder.display())
            .hint("is its disk mounted?")
            .into()),
    }
}

/// What a library says with commands in it, so that they can be typed: each names the store. A
/// library does not know by which flag that was given.
pub fn typeable(text: &str, folder: &Path) -> String {
    const COMMAND: &str = "kubepkg mirror ";
    let mut typeable = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(COMMAND) {
        let after = at + COMMAND.len();
        let verb = rest[after..]
            .find(|c: char| !c.is_ascii_lowercase())
            .unwrap_or(rest.len() - after);
        typeable.push_str(&rest[..after + verb]);
        rest = &rest[after + verb..];
        if !rest.trim_start().starts_with("--store") {
            typeable.push_str(&format!(" --store {}", quoted(folder)));
        }
    }
    typeable + rest
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@,=".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_hints_name_the_store() {
        let hint = |text| typeable(text, Path::new("/srv/m 1"));
        assert_eq!(
            hint("run `kubepkg mirror check --repair`, or kubepkg mirror gc"),
            "run `kubepkg mirror check --store '/srv/m 1' --repair`, or kubepkg mirror gc --store \
             '/srv/m 1'"
        );
        for same in ["kubepkg mirror gc --store x", "kubepkg bundle import", ""] {
            assert_eq!(hint(same), same);
        }
        assert_eq!(
            typeable("`kubepkg mirror list a/b` shows", Path::new("m")),
            "`kubepkg mirror list --store m a/b` shows"
        );
    }
    use crate::report::Report;

    #[test]
    fn a_url_is_no_folder() {
        check(Path::new("/srv/mirror")).unwrap();
        check(Path::new("odd:name/x")).unwrap();
        let report = Report::of(&check(Path::new("http://mirror:5000")).unwrap_err().into());
        assert_eq!(report.exit, 2);
        assert!(report.hint.unwrap().contains("/srv/mirror"));
    }

    #[test]
    fn a_folder_without_a_store_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing")] {
            let report = Report::of(&must_exist(&path).unwrap_err());
            assert_eq!(report.exit, 1);
            assert!(report.hint.unwrap().contains("bundle import"));
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
