//! `node-config`: settings that make nodes pull from a mirror.

use std::fs::File;
use std::path::{Path, PathBuf};

use kubepkg_core::bundle::read::open_head;
use kubepkg_mirror::store::{FileStore, OpenMode};
use kubepkg_mirror::tls::{Own, ca_pem};
use kubepkg_node_config::containerd::Others;
use kubepkg_node_config::files::{Plan, apply};
use kubepkg_node_config::hosts::{hosts_of_head, hosts_of_store};
use kubepkg_node_config::{Hosts, Mirror, OutFile, containerd, talos};

use super::bucket_place;
use super::some_store::SomeStore;
use crate::cli::Force;
use crate::error::CommandError;
use crate::interrupt;
use crate::output;
use crate::printer::Printer;
use crate::units::count;

/// Flags that every kind of settings has.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// A bundle to take the registries from, in place of a store
    #[arg(value_name = "BUNDLE", conflicts_with = "store")]
    pub bundle: Option<PathBuf>,
    /// The mirror's store on this host
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// The mirror as the nodes reach it
    #[arg(long, value_name = "URL")]
    pub mirror: String,
    /// Carry this CA certificate (PEM) to the nodes; by default that of a store whose mirror made
    /// one for itself
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Folder to write into
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// Overwriting.
    #[command(flatten)]
    pub force: Force,
}

/// Flags of `node-config containerd`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg node-config containerd --store /srv/mirror --mirror \
                  http://10.0.0.5:5000 -o certs.d/",
    after_long_help = "Writes DIR/<registry>/hosts.toml for every registry the store (or the \
                       bundle) holds images of. What the mirror does not have then fails; \
                       nothing is fetched elsewhere. Copy DIR to each node, to the folder that \
                       config_path names in containerd's configuration, usually \
                       /etc/containerd/certs.d. Only what differs is written; other content \
                       needs --force, and folders of other registries are never touched. A second \
                       run changes nothing.\n\nExample:\n  kubepkg node-config containerd \
                       --store /srv/mirror --mirror http://10.0.0.5:5000 -o certs.d/"
)]
pub struct Containerd {
    /// What every kind has.
    #[command(flatten)]
    pub common: Common,
    /// Path on the nodes of the CA certificate that vouches for the mirror
    #[arg(long, value_name = "PATH")]
    pub node_ca: Option<String>,
    /// Path on the nodes of the certificate they show to a mirror that serves only clients with
    /// one (`--client-ca`)
    #[arg(long, value_name = "PATH", requires = "client_key")]
    pub client_cert: Option<String>,
    /// Path on the nodes of its private key
    #[arg(long, value_name = "PATH", requires = "client_cert")]
    pub client_key: Option<String>,
    /// Send registries that are not named to the mirror too
    #[arg(long)]
    pub catch_all: bool,
}

/// Flags of `node-config talos`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg node-config talos --store /srv/mirror --mirror \
                  http://10.0.0.5:5000 -o talos/",
    after_long_help = "Writes DIR/registry-mirrors.yaml, a machine configuration patch for every \
                       registry the store (or the bundle) holds images of. What the mirror does \
                       not have then fails; nothing is fetched elsewhere. Other content of that \
                       file needs --force. A second run changes nothing.\n\nExample:\n  kubepkg \
                       node-config talos --store /srv/mirror --mirror http://10.0.0.5:5000 -o \
                       talos/"
)]
pub struct Talos {
    /// What every kind has.
    #[command(flatten)]
    pub common: Common,
}

/// Writes containerd's settings.
pub fn run_containerd(arguments: Containerd, printer: &Printer) -> anyhow::Result<()> {
    let mut mirror = mirror(&arguments.common, printer)?;
    if let Some(path) = &arguments.node_ca {
        mirror = mirror.with_ca(path)?;
    }
    if let (Some(certificate), Some(key)) = (&arguments.client_cert, &arguments.client_key) {
        mirror = mirror.with_client(certificate, key)?;
    }
    let others = match arguments.catch_all {
        true => Others::ToTheMirror,
        false => Others::AsTheyAre,
    };
    let hosts = hosts(&arguments.common, printer)?;
    let files = containerd::files(&mirror, &hosts, others)?;
    write(&arguments.common, &files, printer)
}

/// Writes the patch for Talos.
pub fn run_talos(arguments: Talos, printer: &Printer) -> anyhow::Result<()> {
    let mirror = mirror(&arguments.common, printer)?;
    let hosts = hosts(&arguments.common, printer)?;
    let files = talos::files(&mirror, &hosts)?;
    write(&arguments.common, &files, printer)
}

/// The mirror, with the CA that goes with the settings.
fn mirror(arguments: &Common, printer: &Printer) -> anyhow::Result<Mirror> {
    let mirror = Mirror::new(&arguments.mirror)?;
    if let Some(file) = &arguments.ca_file {
        return Ok(mirror.carry_ca(&ca_pem(file)?)?);
    }
    let own = arguments
        .store
        .as_ref()
        .filter(|_| arguments.bundle.is_none());
    let own = own.map(|store| Own::ca_file(&FileStore::tls_folder(store)));
    match own {
        Some(file) if mirror.has_tls() && output::exists(&file)? => {
            printer.say(&format!("nodes get the CA in {}", file.display()));
            Ok(mirror.carry_ca(&ca_pem(&file)?)?)
        }
        _ => Ok(mirror),
    }
}

/// The registries to write settings for.
fn hosts(arguments: &Common, printer: &Printer) -> anyhow::Result<Hosts> {
    let hosts = match (&arguments.bundle, &arguments.store) {
        // the variable KUBEPKG_STORE may be set beside a bundle that was named
        (Some(bundle), _) => hosts_of_bundle(bundle)?,
        (None, Some(store)) => {
            let again = "nothing was written; run the same command again";
            if bucket_place::parse(store)?.is_none() && !output::exists(store)? {
                let missing = std::io::ErrorKind::NotFound.into();
                return Err(CommandError::io("there is no store here", missing)
                    .at(store.display())
                    .hint("bundle import makes one; or name a bundle in place of a store")
                    .into());
            }
            interrupt::run(printer, again, async {
                let store = SomeStore::open(store, OpenMode::ReadOnly).await?;
                Ok(hosts_of_store(&*store.names().await?, |_| true))
            })?
        }
        (None, None) => {
            return Err(
                CommandError::usage("no store or bundle to take the registries from")
                    .hint("add --store /srv/mirror, or name a bundle file")
                    .into(),
            );
        }
    };
    for name in &hosts.left_out {
        printer.warn(&format!(
            "{name} stands for no registry that nodes can be told about; it is left out"
        ));
    }
    Ok(hosts)
}

fn hosts_of_bundle(file: &Path) -> anyhow::Result<Hosts> {
    let opened = File::open(file)
        .map_err(|error| CommandError::io("cannot read the bundle", error).at(file.display()))?;
    let head = open_head(opened).map_err(|error| error.in_file(file))?;
    Ok(hosts_of_head(&head.head))
}

fn write(arguments: &Common, files: &[OutFile], printer: &Printer) -> anyhow::Result<()> {
    let Plan { write, same, .. } = apply(&arguments.output, files, arguments.force.force)?;
    for file in &write {
        printer.say(&format!(
            "wrote {}",
            arguments.output.join(&file.path).display()
        ));
    }
    if !same.is_empty() {
        let unchanged = count(same.len(), "file is", "files are");
        printer.say(&format!("{unchanged} there already and right"));
    }
    Ok(())
}
