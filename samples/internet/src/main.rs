//! Plays the connected side for the quickstart, on loopback: a registry with two images, a
//! Helm repository with two charts and a signed index of two packages, all served by the
//! mirror's own router under the names they would have on the internet.
//!
//! `kubepkg-internet --listen ADDRESS --dir FOLDER --binary KUBEPKG` fills `FOLDER/store`, writes
//! the keys to `FOLDER/keys` and serves until it is told to stop. The web image runs
//! `sample-web`, which cargo puts beside this program.

mod archive;
mod chart;
mod fill;
mod image;
mod rootfs;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kubepkg_core::chart::oci_form;
use kubepkg_core::digest::Digest;
use kubepkg_core::index::build::{self, Draft};
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::location::{CanonicalUrl, mirror_chart, mirror_image};
use kubepkg_core::reference::Reference;
use kubepkg_core::time::Time;
use kubepkg_mirror::http::Server;
use kubepkg_mirror::serve::serve;
use kubepkg_mirror::store::{FileStore, OpenMode};

use crate::archive::Entry;
use crate::fill::Filler;
use crate::image::{Image, Layer, image};

const INDEX_URL: &str = "https://packages.example.com/index.yaml";
const CHARTS_URL: &str = "https://packages.example.com/charts";
const MIRROR_IMAGE: &str = "registry.example.com/kubepkg/mirror:0.1.0";
const WEB_IMAGE: &str = "registry.example.com/samples/web:0.1.0";
const WEB_SERVER: &str = "sample-web";
const PAGE: &str = "<!doctype html><title>It works</title><p>This page crossed the air gap.</p>\n";

struct Arguments {
    listen: String,
    folder: PathBuf,
    binary: PathBuf,
}

fn arguments() -> Result<Arguments> {
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let value = words
            .next()
            .with_context(|| format!("{flag} needs a value"))?;
        given.insert(flag, value);
    }
    let mut take = |flag: &str| {
        given
            .remove(flag)
            .with_context(|| format!("{flag} is missing"))
    };
    let arguments = Arguments {
        listen: take("--listen")?,
        folder: take("--dir")?.into(),
        binary: take("--binary")?.into(),
    };
    match given.keys().next() {
        None => Ok(arguments),
        Some(flag) => bail!("{flag} is not known"),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = arguments()?;
    let store = arguments.folder.join("store");
    std::fs::create_dir_all(&store).with_context(|| store.display().to_string())?;
    let store = FileStore::open(&store, OpenMode::OpenOrCreate)?;
    fill(&store, &arguments).await?;
    let listener = tokio::net::TcpListener::bind(&arguments.listen)
        .await
        .context(arguments.listen)?;
    let mut out = std::io::stdout();
    writeln!(out, "listening on http://{}", listener.local_addr()?)?;
    out.flush()?;
    let stop = async {
        // without a handler there is nothing to wait for
        let _ = tokio::signal::ctrl_c().await;
    };
    serve(listener, Server::new(store), stop).await?;
    Ok(())
}

async fn fill(store: &FileStore, arguments: &Arguments) -> Result<()> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut filler = Filler::new(store);
    let mut images = BTreeMap::new();
    let web_server = std::env::current_exe()?.with_file_name(WEB_SERVER);
    // one layer for both images: a bundle and a store hold it once
    let base = Layer::pack(&rootfs::base(&[&arguments.binary, &web_server])?)?;
    let kubepkg = Layer::pack(&rootfs::program(&arguments.binary, "kubepkg")?)?;
    let web_server = Layer::pack(&rootfs::program(&web_server, WEB_SERVER)?)?;
    let page = BTreeMap::from([(
        "srv/web/index.html".to_owned(),
        Entry::File(0o644, PAGE.into()),
    )]);
    let web = [base.clone(), web_server, Layer::pack(&page)?];
    let web = image(&web, &["/usr/bin/sample-web", "/srv/web", "0.0.0.0:8080"])?;
    let mirror = image(&[base, kubepkg], &["/usr/bin/kubepkg"])?;
    add_image(&mut filler, &mut images, MIRROR_IMAGE, mirror).await?;
    add_image(&mut filler, &mut images, WEB_IMAGE, web).await?;

    let mut charts = BTreeMap::new();
    for name in ["kubepkg-mirror", "web"] {
        let archive = chart::pack(&samples.join("charts").join(name))?;
        charts.insert(name.to_owned(), Digest::sha256(&archive));
        let form = oci_form(&archive)?;
        let repository = mirror_chart(&CHARTS_URL.parse()?, name)?;
        let version = form.metadata.version.replace('+', "_").parse()?;
        filler
            .manifest(
                &repository,
                version,
                form.manifest,
                vec![form.config, archive],
            )
            .await?;
    }

    let draft = draft(&samples.join("packages"), &images, &charts)?;
    let now = Time::now();
    let index = draft.to_yaml(now, None)?;
    let signature = sign(&arguments.folder.join("keys"), &index)?;
    let url: CanonicalUrl = INDEX_URL.parse()?;
    let files = vec![
        ("index.yaml".to_owned(), index),
        ("index.yaml.sig".to_owned(), signature),
    ];
    filler.site(&url, files).await?;
    filler.commit(now).await
}

async fn add_image(
    filler: &mut Filler<'_, FileStore>,
    images: &mut BTreeMap<String, Reference>,
    name: &str,
    image: Image,
) -> Result<()> {
    let reference: Reference = name.parse()?;
    let tag = reference.tag().context("the image has a tag")?.clone();
    let digest = filler
        .manifest(&mirror_image(&reference)?, tag, image.manifest, image.blobs)
        .await?;
    images.insert(name.to_owned(), reference.pinned(digest));
    Ok(())
}

/// The packages in `folder`, with images and charts pinned.
fn draft(
    folder: &Path,
    images: &BTreeMap<String, Reference>,
    charts: &BTreeMap<String, Digest>,
) -> Result<Draft> {
    let mut found = Vec::new();
    for file in ["kubepkg-mirror.yaml", "web.yaml"] {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        found.extend(build::read_file(file, &text)?);
    }
    for found in &mut found {
        for image in &mut found.source.spec.images {
            if let Some(pinned) = images.get(image) {
                *image = pinned.to_string();
            }
        }
    }
    let mut draft = build::collect(found)?;
    for unpinned in draft.unpinned_charts() {
        let digest = charts
            .get(&unpinned.chart.name)
            .context(unpinned.chart.name.clone())?;
        draft.pin(&unpinned.chart, digest)?;
    }
    Ok(draft)
}

/// Signs with a new key; its public half goes to `folder`.
fn sign(folder: &Path, index: &[u8]) -> Result<Vec<u8>> {
    let key = PrivateKey::generate()?;
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("release.pub"), key.public()?.to_pem())?;
    Ok(Signatures::write_plain(&key.sign(index)).into_bytes())
}
