//! Bundles made byte by byte: honest ones from packages in memory, and ones whose head lies.
//!
//! The product's own planner lays the file out, so that a forged bundle is structurally
//! perfect and only what it says is wrong. What the format itself forbids is put into the
//! bytes afterwards, with [`with_head`] and [`with_header`].

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use kubepkg_core::bundle::head::{
    Class, Head, HeadBlob, HeadChart, HeadFile, HeadImage, HeadPackage, HeadRepository,
};
use kubepkg_core::bundle::{Bundle, Layout, Signatures, write};
use kubepkg_core::chart::oci_form_with;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::manifest::{self, Manifest};
use kubepkg_core::name::PackageName;
use kubepkg_core::{Algorithm, Digest};

use crate::chart::Chart;
use crate::image::Image;
use crate::package::Package;

/// Bytes of a tar header.
const HEADER: usize = 512;

/// A bundle in the making.
#[derive(Clone, Debug, Default)]
pub struct Forge {
    /// What it says it holds.
    pub head: Head,
    /// Its payload by digest. What is missing here stays zeros in the file.
    pub content: BTreeMap<Digest, Vec<u8>>,
    /// Private keys, as PEM texts, of those who sign it.
    pub signers: Vec<String>,
}

impl Forge {
    /// Takes a bundle apart.
    pub fn of(path: &Path) -> Forge {
        let bundle = Bundle::open(path).unwrap();
        let payload = bundle.layout().payload().iter().map(|member| {
            let bytes = bundle.read_member(member.extent(), u64::MAX).unwrap();
            (member.digest.unwrap(), bytes)
        });
        Forge {
            head: Head::clone(bundle.head()),
            content: payload.collect(),
            signers: Vec::new(),
        }
    }

    /// Puts files of the repository at `url` in the place of those it has.
    pub fn repository(&mut self, url: &str, files: &[(&str, &[u8])]) {
        let url = url.parse().unwrap();
        let files = files
            .iter()
            .map(|(path, bytes)| HeadFile {
                path: (*path).to_owned(),
                size: bytes.len() as u64,
                digest: self.keep(bytes),
            })
            .collect();
        self.head.repositories.retain(|known| known.url != url);
        self.head.repositories.push(HeadRepository {
            url,
            priority: 0,
            files,
        });
    }

    /// Lists `package`, with all its variants.
    pub fn package(&mut self, url: &str, package: &Package) {
        let source = package.source();
        let variants = source.spec.variants.iter();
        self.head.packages.push(HeadPackage {
            name: source.metadata.name.parse().unwrap(),
            version: source.spec.version.clone(),
            build: source.spec.build.try_into().unwrap(),
            digest: source.spec.digest(),
            repository: url.parse().unwrap(),
            variants: variants.map(|variant| variant.name.clone()).collect(),
            no_images: false,
        });
    }

    /// Lists a chart of a classic repository, in the form `bundle create` gives it.
    pub fn chart(&mut self, repository: &str, chart: &Chart, packages: &[&str]) {
        self.signed_chart(repository, chart, None, packages);
    }

    /// The same with a provenance file. Gives the digest of the manifest.
    pub fn signed_chart(
        &mut self,
        repository: &str,
        chart: &Chart,
        provenance: Option<&[u8]>,
        packages: &[&str],
    ) -> Digest {
        let beside = provenance.map(|file| (self.blob(Class::Chart, file), file.len() as u64));
        let form = oci_form_with(&chart.archive, Algorithm::Sha256, beside).unwrap();
        let manifest = form.manifest_descriptor.digest;
        self.blob(Class::Manifest, &form.manifest);
        self.blob(Class::Config, &form.config);
        self.blob(Class::Chart, &chart.archive);
        self.head.charts.push(HeadChart {
            repository: repository.parse().unwrap(),
            name: chart.name.clone(),
            version: chart.version.clone(),
            archive: chart.digest(),
            manifest: form.manifest_descriptor,
            packages: names(packages),
        });
        manifest
    }

    /// Lists an image under `reference`, which has no digest, with everything below it.
    pub fn image(&mut self, reference: &str, image: &Image, packages: &[&str]) {
        for (kind, bytes) in image.content.manifests.values() {
            self.blob(Class::Manifest, bytes);
            let manifest = Manifest::parse(bytes, Some(kind)).unwrap();
            if let manifest::Content::Image { config, layers } = &manifest.content {
                self.blob(Class::Config, &image.content.blobs[&config.digest]);
                for layer in layers {
                    self.blob(Class::Layer, &image.content.blobs[&layer.digest]);
                }
            }
        }
        let manifest = &image.descriptor;
        let (kind, bytes) = &image.content.manifests[&manifest.digest];
        let root = Manifest::parse(bytes, Some(kind)).unwrap();
        let children = root.children().iter();
        let mut platforms: Vec<_> = children.filter_map(|c| c.platform.clone()).collect();
        platforms.retain(|platform| platform.os != "unknown");
        platforms.sort();
        platforms.dedup();
        self.head.images.push(HeadImage {
            reference: format!("{reference}@{}", manifest.digest).parse().unwrap(),
            manifest: kubepkg_core::Descriptor::new(
                manifest.media_type.clone(),
                manifest.digest,
                manifest.size,
            ),
            platforms,
            packages: names(packages),
            pinned: true,
            file: None,
            sparse: false,
            untagged: false,
        });
    }

    /// Lists a blob; the lowest class of its uses counts.
    pub fn blob(&mut self, class: Class, bytes: &[u8]) -> Digest {
        let digest = self.keep(bytes);
        match self.head.blobs.iter_mut().find(|b| b.digest == digest) {
            Some(blob) => blob.class = blob.class.min(class),
            None => self.head.blobs.push(HeadBlob {
                digest,
                size: bytes.len() as u64,
                class,
                assumed: false,
            }),
        }
        digest
    }

    /// Takes a blob off the list.
    pub fn drop_blob(&mut self, digest: &Digest) {
        self.head.blobs.retain(|blob| blob.digest != *digest);
    }

    /// Keeps bytes without listing them.
    fn keep(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::sha256(bytes);
        self.content.insert(digest, bytes.to_vec());
        digest
    }

    /// The head as it will be written.
    pub fn encoded(&self) -> Vec<u8> {
        self.sorted().encode().unwrap()
    }

    fn sorted(&self) -> Head {
        let mut head = self.head.clone();
        head.sort();
        head
    }

    /// Where everything will lie.
    pub fn layout(&self) -> Layout {
        Layout::plan(&self.sorted(), &self.encoded()).unwrap()
    }

    /// The first member as it will be written: the header of the head, and the head.
    pub fn beginning(&self) -> Vec<u8> {
        let layout = self.layout();
        let pieces = layout.frame().take(2);
        pieces.flat_map(|piece| piece.bytes.into_owned()).collect()
    }

    /// Writes the bundle, whatever it says.
    pub fn write(&self, path: &Path) {
        let layout = self.layout();
        let file = File::create(path).unwrap();
        write::allocate(&file, layout.len()).unwrap();
        let mut signatures = Signatures::default();
        for pem in &self.signers {
            let key = PrivateKey::from_pem(pem).unwrap();
            signatures.sign(&key, &layout.id()).unwrap();
        }
        write::write_frame(&file, &layout, &signatures).unwrap();
        for member in layout.payload() {
            if let Some(bytes) = self.content.get(&member.digest.unwrap()) {
                file.write_all_at(bytes, member.data_at).unwrap();
            }
        }
    }

    /// The bytes [`Forge::write`] writes.
    pub fn bytes(&self) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        self.write(file.path());
        std::fs::read(file.path()).unwrap()
    }
}

fn names(packages: &[&str]) -> Vec<PackageName> {
    packages.iter().map(|name| name.parse().unwrap()).collect()
}

/// `bundle` with another text as its head: filled with spaces as the format wants it, under a
/// header of its size. The body stays, wherever it now lies.
pub fn with_head(bundle: &[u8], text: &str) -> Vec<u8> {
    let old = octal(&bundle[124..135]);
    let mut head = text.trim_end().as_bytes().to_vec();
    while head.len() % 4096 != 3072 {
        head.push(b' ');
    }
    let mut header = bundle[..HEADER].to_vec();
    header[124..135].copy_from_slice(format!("{:011o}", head.len()).as_bytes());
    seal(&mut header);
    [&header, &head, &bundle[HEADER + old..]].concat()
}

/// The text of a bundle's head.
pub fn head_text(bundle: &[u8]) -> &str {
    let size = octal(&bundle[124..135]);
    std::str::from_utf8(&bundle[HEADER..HEADER + size])
        .unwrap()
        .trim_end()
}

/// `bundle` with the tar header at `at` changed and its checksum made right again.
pub fn with_header(bundle: &[u8], at: usize, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = bundle.to_vec();
    let header = &mut bytes[at..at + HEADER];
    change(header);
    seal(header);
    bytes
}

fn octal(digits: &[u8]) -> usize {
    usize::from_str_radix(std::str::from_utf8(digits).unwrap(), 8).unwrap()
}

fn seal(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageBuilder;

    fn sample() -> Forge {
        let mut forge = Forge::default();
        let url = "https://packages.example.com/index.yaml";
        forge.repository(url, &[("index.yaml", b"packages: {}\n")]);
        forge.package(url, &Package::new("web", "1.0.0"));
        let image = ImageBuilder::new(1).layers(1, 70_000).build();
        forge.image("registry.example.com/web:1", &image, &["web"]);
        let chart = Chart::new("web", "1.0.0", "x");
        forge.chart("https://charts.example.com", &chart, &["web"]);
        forge
    }

    #[test]
    fn what_is_written_is_a_bundle_and_comes_apart_again() {
        let forge = sample();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.tar");
        forge.write(&path);
        let again = Forge::of(&path);
        assert_eq!(again.head, forge.sorted());
        assert_eq!(again.bytes(), forge.bytes());
    }

    #[test]
    fn nothing_changed_is_the_same_file() {
        let bytes = sample().bytes();
        assert_eq!(with_head(&bytes, head_text(&bytes)), bytes);
        assert_eq!(with_header(&bytes, 0, |_| {}), bytes);
    }
}
