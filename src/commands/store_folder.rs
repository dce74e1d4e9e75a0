//! The folder named by `--store`.

use std::path::Path;

use kubepkg_mirror::store::FileStore;

use crate::error::CommandError;

/// A store is a local folder; a URL would become a folder called `http:`.
pub fn check(folder: &Path) -> Result<(), CommandError> {
    if !folder.to_string_lossy().contains("://") {
        return Ok(());
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

#[cfg(test)]
mod tests {
    use super::*;
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
