//! usage: image-gen LAYOUT NAME IMAGES LAYERS BYTES
//!
//! Adds images NAME0, NAME1, … to an OCI layout, for `benches/create`: each of so many layers of
//! so many bytes that nothing compresses, and a configuration of its own. Prints a line `name
//! digest` for each.
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command of its own"
)]

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use flate2::Compression;
use flate2::write::GzEncoder;
use kubepkg_bench::roll;
use kubepkg_core::Digest;
use kubepkg_core::descriptor::media_type;
use serde_json::{Value, json};

/// A block of a tar archive.
const BLOCK: usize = 512;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [layout, name, numbers @ ..] = &arguments[..] else {
        eprintln!("usage: image-gen LAYOUT NAME IMAGES LAYERS BYTES");
        return ExitCode::from(2);
    };
    let numbers: Vec<usize> = numbers.iter().filter_map(|n| n.parse().ok()).collect();
    let [images, layers, bytes] = numbers[..] else {
        eprintln!("usage: image-gen LAYOUT NAME IMAGES LAYERS BYTES");
        return ExitCode::from(2);
    };
    let layout = Path::new(layout);
    let mut added = Vec::new();
    for image in 0..images {
        let name = format!("{name}{image}");
        match write_image(layout, &name, image, layers, bytes) {
            Ok(descriptor) => {
                println!(
                    "{name} {}",
                    descriptor["digest"].as_str().unwrap_or_default()
                );
                added.push(descriptor);
            }
            Err(error) => {
                eprintln!("{}: {error}", layout.display());
                return ExitCode::FAILURE;
            }
        }
    }
    match list(layout, added) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", layout.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes all of an image; its descriptor with the name it has in the layout.
fn write_image(
    layout: &Path,
    name: &str,
    image: usize,
    layers: usize,
    bytes: usize,
) -> io::Result<Value> {
    let mut descriptors = Vec::new();
    let mut contents = Vec::new();
    for layer in 0..layers {
        let tar = archive(name, image, layer, bytes);
        contents.push(Digest::sha256(&tar).to_string());
        // Stored, not compressed: a gzip stream as registries have them, made in no time.
        let mut gzip = GzEncoder::new(Vec::with_capacity(tar.len()), Compression::none());
        gzip.write_all(&tar)?;
        let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
        descriptors.push(blob(layout, kind, &gzip.finish()?)?);
    }
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": {"name": name}},
        "rootfs": {"type": "layers", "diff_ids": contents},
    });
    let config = blob(
        layout,
        "application/vnd.oci.image.config.v1+json",
        &serde_json::to_vec(&config)?,
    )?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": media_type::OCI_MANIFEST,
        "config": config,
        "layers": descriptors,
    });
    let mut manifest = blob(
        layout,
        media_type::OCI_MANIFEST,
        &serde_json::to_vec(&manifest)?,
    )?;
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": name});
    Ok(manifest)
}

/// A tar archive with one file of random bytes.
fn archive(name: &str, image: usize, layer: usize, bytes: usize) -> Vec<u8> {
    let mut tar = vec![0; BLOCK];
    field(&mut tar, 0, "data");
    field(&mut tar, 100, "0000644");
    field(&mut tar, 108, "0000000");
    field(&mut tar, 116, "0000000");
    field(&mut tar, 124, &format!("{bytes:011o}"));
    field(&mut tar, 136, "00000000000");
    field(&mut tar, 148, "        ");
    field(&mut tar, 156, "0");
    field(&mut tar, 257, "ustar\u{0}00");
    let sum: u32 = tar.iter().copied().map(u32::from).sum();
    field(&mut tar, 148, &format!("{sum:06o}\u{0} "));
    // One number for the layer, and from there on a sequence that goes its own way.
    let mut state = roll(name, image, layer) | 1;
    let end = BLOCK + bytes;
    while tar.len() < end {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        tar.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    tar.truncate(end);
    tar.resize(end.next_multiple_of(BLOCK) + 2 * BLOCK, 0);
    tar
}

fn field(tar: &mut [u8], place: usize, text: &str) {
    tar[place..place + text.len()].copy_from_slice(text.as_bytes());
}

/// Writes a blob; its descriptor.
fn blob(layout: &Path, kind: &str, bytes: &[u8]) -> io::Result<Value> {
    let digest = Digest::sha256(bytes);
    let folder = layout.join("blobs/sha256");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(digest.hex()), bytes)?;
    Ok(json!({"mediaType": kind, "digest": digest.to_string(), "size": bytes.len()}))
}

/// Adds manifests to the layout's list.
fn list(layout: &Path, added: Vec<Value>) -> io::Result<()> {
    fs::write(
        layout.join("oci-layout"),
        br#"{"imageLayoutVersion":"1.0.0"}"#,
    )?;
    let file = layout.join("index.json");
    let mut manifests = match fs::read(&file) {
        Ok(text) => match serde_json::from_slice::<Value>(&text)?["manifests"].take() {
            Value::Array(manifests) => manifests,
            _ => Vec::new(),
        },
        Err(_) => Vec::new(),
    };
    manifests.extend(added);
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    fs::write(file, serde_json::to_vec(&index)?)
}
