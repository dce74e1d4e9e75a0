//! A publisher who signs, and a site that imports.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kubepkg_core::Digest;
use kubepkg_core::bundle::Bundle;
use kubepkg_core::carried::Carried;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::progress::Silent;
use kubepkg_core::store::{Body, Names, Store};
use kubepkg_core::time::Time;
use kubepkg_core::trust::Given;
use kubepkg_importer::{ImportError, Imported, Options, Trusted, import};
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_test_support::{Forge, Image, ImageBuilder, Package, package};
use tempfile::TempDir;

pub const URL: &str = "https://packages.example.com/stable/index.yaml";

/// The clock of all imports here.
pub fn now() -> Time {
    Time::from_unix(1_800_000_000)
}

/// So many hours before the clock.
pub fn hours_ago(hours: i64) -> Time {
    now().plus(-hours * 3600)
}

/// A package and the image it pins.
#[derive(Clone)]
pub struct App {
    pub package: Package,
    pub reference: String,
    pub image: Image,
}

/// A package of this name and version, with an image of its own under `reference`.
pub fn app(name: &str, version: &str, reference: &str) -> App {
    let seed = Digest::sha256(format!("{name} {version}")).hex();
    let seed = u64::from_str_radix(&seed[..8], 16).unwrap();
    let image = ImageBuilder::new(seed).build();
    let pinned = format!("{reference}@{}", image.digest());
    App {
        package: Package::new(name, version).image(&pinned),
        reference: reference.to_owned(),
        image,
    }
}

impl App {
    pub fn digest(&self) -> Digest {
        self.image.digest()
    }
}

/// Who signs one repository.
pub struct Publisher {
    pub url: String,
    key: PrivateKey,
}

impl Publisher {
    pub fn new(url: &str) -> Publisher {
        Publisher {
            url: url.to_owned(),
            key: PrivateKey::generate().unwrap(),
        }
    }

    /// The same publisher, whose index is said to lie elsewhere.
    pub fn said_to_be_at(self, url: &str) -> Publisher {
        Publisher {
            url: url.to_owned(),
            ..self
        }
    }

    /// A bundle of `carried` with an index of `listed`.
    pub fn bundle(&self, generated: Time, listed: &[&App], carried: &[&App]) -> Forge {
        let index = Publisher::index(generated, listed);
        self.bundle_of(&index, carried)
    }

    /// An index of `listed`.
    pub fn index(generated: Time, listed: &[&App]) -> Vec<u8> {
        let listed: Vec<Package> = listed.iter().map(|app| app.package.clone()).collect();
        package::index(&listed, generated, None)
    }

    /// A bundle of `carried` with `index`, signed.
    pub fn bundle_of(&self, index: &[u8], carried: &[&App]) -> Forge {
        let mut forge = Forge::default();
        self.sign(&mut forge, index);
        for app in carried {
            forge.package(&self.url, &app.package);
            let name = &app.package.source().metadata.name;
            forge.image(&app.reference, &app.image, &[name]);
        }
        forge
    }

    /// Puts `index`, signed, into the bundle.
    pub fn sign(&self, forge: &mut Forge, index: &[u8]) {
        let signature = package::sign(index, &self.key);
        forge.repository(
            &self.url,
            &[
                ("index.yaml", index),
                ("index.yaml.sig", signature.as_bytes()),
            ],
        );
    }

    pub fn trusted(&self) -> Trusted {
        Trusted {
            given: Given {
                keys: vec![self.key.public().unwrap()],
                ..Given::default()
            },
            ..Trusted::default()
        }
    }
}

/// A folder with bundles and one store.
pub struct Site {
    folder: TempDir,
}

impl Site {
    pub fn new() -> Site {
        Site {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn store_folder(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The store, as another process would open it.
    pub fn store(&self) -> FileStore {
        FileStore::open(self.store_folder(), OpenMode::OpenOrCreate).unwrap()
    }

    /// The bundle as a file that is open.
    pub fn carry(&self, forge: &Forge) -> Bundle {
        let name = Digest::sha256(forge.encoded()).hex();
        let path = self.folder.path().join(name).with_extension("tar");
        forge.write(&path);
        Bundle::open(&path).unwrap()
    }

    pub async fn import(
        &self,
        publisher: &Publisher,
        forge: &Forge,
    ) -> Result<Imported, ImportError> {
        into(&self.store(), &self.carry(forge), &publisher.trusted()).await
    }

    pub async fn names(&self) -> Names {
        (*self.store().names().await.unwrap()).clone()
    }

    /// What the tag points at.
    pub async fn tag(&self, repository: &str, tag: &str) -> Option<Digest> {
        let names = self.names().await;
        let repository = names.repositories.get(repository)?;
        Some(repository.tags.get(tag)?.digest)
    }

    /// A file of the repository of `url` as the site publishes it.
    pub async fn published(&self, url: &str, file: &str) -> Option<Vec<u8>> {
        let url: CanonicalUrl = url.parse().unwrap();
        let site = self.store().site(&url.folder()).await.unwrap()?;
        self.content(&site.files.get(file)?.digest).await
    }

    /// Content by digest.
    pub async fn content(&self, digest: &Digest) -> Option<Vec<u8>> {
        use std::os::unix::fs::FileExt as _;
        match self.store().read(digest).await.unwrap()? {
            Body::Range(range) => {
                let mut bytes = vec![0; range.len as usize];
                range.file.read_exact_at(&mut bytes, range.offset).unwrap();
                Some(bytes)
            }
            _ => panic!("a file store reads files"),
        }
    }

    /// Names and versions in `carried.json`.
    pub async fn carried(&self, url: &str) -> Vec<String> {
        let bytes = self.published(url, "carried.json").await.unwrap();
        let carried = Carried::read(&bytes).unwrap();
        carried
            .packages
            .iter()
            .flat_map(|(name, list)| list.iter().map(move |v| format!("{name} {}", v.version)))
            .collect()
    }

    /// All files of the store that names live in, by path.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let root = self.store_folder();
        let mut open: Vec<PathBuf> = ["names", "sites", "trust", "commits"]
            .iter()
            .map(|part| root.join(part))
            .collect();
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    found.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        found
    }
}

/// Imports into any store.
pub async fn into<S: Store>(
    store: &S,
    bundle: &Bundle,
    trusted: &Trusted,
) -> Result<Imported, ImportError> {
    let options = Options {
        now: now(),
        jobs: Some(2),
    };
    import(bundle, store, trusted, options, &Silent).await
}
