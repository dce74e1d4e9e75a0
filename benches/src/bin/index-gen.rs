//! usage: index-gen [--packages N] [--versions M] [--generated RFC3339] --out DIR
//!
//! Writes `index.yaml`, `index.yaml.sig`, `release.key` and `release.pub` into DIR.
#![expect(clippy::print_stderr, reason = "a command of its own")]

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use kubepkg_bench::{Catalogue, key, write};
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::time::Time;

const USAGE: &str =
    "usage: index-gen [--packages N] [--versions M] [--generated RFC3339] --out DIR";

struct Asked {
    catalogue: Catalogue,
    generated: Time,
    out: PathBuf,
}

fn asked() -> Option<Asked> {
    let mut catalogue = Catalogue {
        packages: 10_000,
        versions: 20,
    };
    // A time of the past, the same in every run.
    let mut generated = Time::from_unix(1_790_000_000);
    let mut out = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let value = arguments.next()?;
        match flag.as_str() {
            "--packages" => catalogue.packages = value.parse().ok()?,
            "--versions" => catalogue.versions = value.parse().ok().filter(|n| *n > 0)?,
            "--generated" => generated = value.parse().ok()?,
            "--out" => out = Some(PathBuf::from(value)),
            _ => return None,
        }
    }
    Some(Asked {
        catalogue,
        generated,
        out: out?,
    })
}

fn run(asked: &Asked) -> Result<(), Box<dyn std::error::Error>> {
    fs::create_dir_all(&asked.out)?;
    let path = asked.out.join("index.yaml");
    let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(&path)?);
    write(&asked.catalogue, asked.generated, None, &mut file)?;
    file.flush()?;
    let text = fs::read(&path)?;
    let key = key::private()?;
    let signature = Signatures::write_plain(&key.sign(&text));
    fs::write(asked.out.join("index.yaml.sig"), signature)?;
    fs::write(asked.out.join("release.key"), key.to_pem()?)?;
    fs::write(asked.out.join("release.pub"), key.public()?.to_pem())?;
    eprintln!("{}: {:.1} MB", path.display(), text.len() as f64 / 1e6);
    Ok(())
}

fn main() -> ExitCode {
    let Some(asked) = asked() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("index-gen: {error}");
            ExitCode::FAILURE
        }
    }
}
