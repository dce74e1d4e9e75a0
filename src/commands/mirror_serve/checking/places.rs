//! What would become of the store and of the folder beside a store in a bucket.

use kubepkg_core::store::StoreError;
use kubepkg_mirror::bucket::{Bucket, BucketMode, BucketStore, Spool};
use kubepkg_mirror::store::{FileStore, Looked, OpenMode};

use super::Said;
use crate::commands::mirror_serve::{Arguments, in_bucket, store_folder};
use crate::interrupt;
use crate::printer::Printer;
use crate::units::count;

const AGAIN: &str = "run the same command again";

pub(super) fn look(arguments: &Arguments, printer: &Printer, said: &mut Said) {
    let Some(bucket) = said.found("store", in_bucket::place(arguments)) else {
        return;
    };
    let found = match bucket {
        Some(bucket) => in_the_bucket(arguments, bucket, printer),
        None => in_the_folder(arguments, printer),
    };
    if let Some(what) = said.found("store", found) {
        said.row(
            "store",
            format_args!("{} ({what})", arguments.store.display()),
        );
    }
    if let Some(local) = &arguments.local {
        let looked = interrupt::run(printer, AGAIN, async { Ok(Spool::look(local).await?) });
        if let Some(looked) = said.found("local", looked) {
            let what = match looked {
                Looked::Make => "would be made",
                Looked::Use => "is there",
            };
            said.row("local", format_args!("{} ({what})", local.display()));
        }
    }
}

fn in_the_bucket(
    arguments: &Arguments,
    bucket: Bucket,
    printer: &Printer,
) -> anyhow::Result<String> {
    interrupt::run(printer, AGAIN, async {
        if arguments.new_store && !BucketStore::is_in(&bucket).await? {
            return Ok("a new one would be made".to_owned());
        }
        let store = BucketStore::open(bucket, BucketMode::Open).await?;
        Ok(held(store.names().await?.repositories.len()))
    })
}

fn in_the_folder(arguments: &Arguments, printer: &Printer) -> anyhow::Result<String> {
    let folder = &arguments.store;
    store_folder::check(folder)?;
    if arguments.new_store && !FileStore::is_at(folder)? {
        FileStore::look(folder, OpenMode::OpenOrCreate)?;
        return Ok("a new one would be made".to_owned());
    }
    store_folder::must_exist(folder)?;
    let held = interrupt::run(printer, AGAIN, async {
        let store = FileStore::open(folder, OpenMode::ReadOnly)?;
        Ok(held(store.names().await?.repositories.len()))
    })?;
    if arguments.read_only {
        return Ok(format!("{held}, only read"));
    }
    match FileStore::look(folder, OpenMode::Writable) {
        Ok(_) => Ok(held),
        Err(StoreError::Unusable { path, why }) => Err(StoreError::Unusable {
            path,
            why: format!(
                "{why}; or set readOnly, for else it is served for pulls alone and /readyz says no"
            ),
        }
        .into()),
        Err(error) => Err(error.into()),
    }
}

fn held(repositories: usize) -> String {
    count(repositories, "repository", "repositories")
}
