//! The store that is served: in a folder, or in a bucket that other mirrors serve too.

use std::path::Path;
use std::sync::Arc;

use kubepkg_core::store::{Names, StoreError};
use kubepkg_mirror::bucket::{Bucket, BucketMode, BucketStore, Spool};
use kubepkg_mirror::store::{FileStore, OpenMode};

use super::super::{bucket_place, store_folder};
use super::Arguments;
use crate::error::CommandError;
use crate::printer::Printer;

/// An open store.
pub enum Opened {
    /// In a folder.
    Folder(FileStore),
    /// In a bucket, with the folder of uploads under way.
    Bucket(BucketStore, Spool),
}

impl Opened {
    /// All names.
    pub async fn names(&self) -> Result<Arc<Names>, StoreError> {
        match self {
            Opened::Folder(store) => store.names().await,
            Opened::Bucket(store, _) => store.names().await,
        }
    }

    /// Whether this process may change it.
    pub fn can_write(&self) -> bool {
        match self {
            Opened::Folder(store) => store.can_write(),
            Opened::Bucket(..) => true,
        }
    }
}

impl Arguments {
    /// The folder on this host: the store, or what lies beside a store in a bucket.
    pub fn folder(&self) -> &Path {
        self.local.as_deref().unwrap_or(&self.store)
    }
}

/// The bucket of the store; `None` where it lies in a folder.
pub fn place(arguments: &Arguments) -> anyhow::Result<Option<Bucket>> {
    let scrubs = arguments.keeping.scrub_rate.is_some_and(|rate| rate > 0);
    if scrubs && bucket_place::parse(&arguments.store)?.is_some() {
        let store = arguments.store.display();
        let hint = format!(
            "leave --scrub-rate out (scrubRate in the settings); now and then run: kubepkg mirror \
             check --store {store} --limit-rate 20MiB"
        );
        let refused = CommandError::usage("content in a bucket is not scrubbed while it is served");
        return Err(refused.at(store).hint(hint).into());
    }
    match (bucket_place::open(&arguments.store)?, &arguments.local) {
        (Some(_), None) => Err(
            CommandError::usage("a store in a bucket needs a folder besides")
                .at(arguments.store.display())
                .hint(
                    "add --local DIR, e.g. --local /var/lib/kubepkg-mirror: uploads under way lie \
                 there, users and the certificate; each mirror has its own",
                )
                .into(),
        ),
        (None, Some(local)) => Err(CommandError::usage("--local is for a store in a bucket")
            .at(local.display())
            .hint("leave it out: a store in a folder keeps everything there")
            .into()),
        (Some(_), _) if arguments.read_only => Err(CommandError::usage(
            "only a store in a folder can be served without writing it",
        )
        .at("--read-only")
        .hint("leave it out; a rule {path: \"**\", push: []} keeps everybody from pushing")
        .into()),
        (bucket, _) => Ok(bucket),
    }
}

/// Opens the store.
pub async fn or_folder(arguments: &Arguments, printer: &Printer) -> anyhow::Result<Opened> {
    let Some(bucket) = place(arguments)? else {
        if arguments.new_store {
            store_folder::check(&arguments.store)?;
            FileStore::open(&arguments.store, OpenMode::OpenOrCreate)?;
        } else {
            store_folder::must_exist(&arguments.store)?;
        }
        return Ok(Opened::Folder(super::open(arguments, printer)?));
    };
    let mode = match arguments.new_store {
        true => BucketMode::OpenOrCreate,
        false => BucketMode::Open,
    };
    let store = BucketStore::open(bucket, mode).await?;
    let spool = Spool::open(arguments.folder(), arguments.min_free * 10).await?;
    Ok(Opened::Bucket(store, spool))
}
