//! `bundle sign`: sign a bundle's head, and with it every byte of the bundle.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use kubepkg_core::bundle::{Bundle, FormatError, OpenedHead, Signatures, open_head};

use crate::error::CommandError;
use crate::output::Pending;
use crate::printer::Printer;
use crate::signing::SignKeys;
use crate::summary;

/// Flags of `bundle sign`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubepkg bundle sign site.tar --sign-key site.key",
    after_long_help = "The signature is over the head, which names the digest of every byte. Look \
                       at it first (bundle inspect). What is written: the bundle's signature slot, \
                       in place; the bundle's id and all other bytes stay. While that is done the \
                       old signatures lie beside it (FILE.signatures): a run that was interrupted \
                       is simply run again. A second run with the \
                       same key changes nothing; other keys add their signatures. Import and \
                       verify take the public key with --bundle-key.\n\n\
                       Example:\n  kubepkg bundle sign site.tar --sign-key site.key"
)]
pub struct Arguments {
    /// The bundle
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Who signs.
    #[command(flatten)]
    pub keys: SignKeys,
    /// Begin with no signatures where those that are there cannot be read
    #[arg(long)]
    pub force: bool,
}

/// Signs the bundle.
pub fn run(arguments: Arguments, printer: &Printer) -> anyhow::Result<()> {
    let path = &arguments.file;
    if arguments.keys.is_empty() {
        return Err(CommandError::usage("no key to sign with")
            .hint("give --sign-key FILE; kubepkg repo keygen makes one")
            .into());
    }
    let signers = arguments.keys.read(printer)?;
    let slot = Slot::open(path)?;
    let bundle = match slot.bundle() {
        Err(error) if is_slot(&error) => {
            let before = match slot.kept() {
                Some(before) => before,
                None if arguments.force => {
                    printer.warn("the signatures that were there cannot be read and are gone");
                    Signatures::default()
                }
                None => return Err(error.into()),
            };
            slot.write(&before)?;
            slot.bundle()?
        }
        opened => opened?,
    };
    let mut signatures = bundle.signatures().clone();
    for (_, key) in signers.keys() {
        signatures
            .sign(key, &bundle.id())
            .map_err(|error| CommandError::failed(error.to_string()).at(path.display()))?;
    }
    if signatures != *bundle.signatures() {
        slot.replace(bundle.signatures(), &signatures)?;
    }
    let keys: Vec<String> = signatures.keys().map(|key| key.id().to_string()).collect();
    printer.answer(&format!(
        "{} is signed by {}\nbundle {}\n\n{}",
        path.display(),
        keys.join(", "),
        bundle.id(),
        summary::counts(bundle.head()),
    ))
}

fn is_slot(error: &FormatError) -> bool {
    match error {
        FormatError::Slot(_) => true,
        FormatError::InFile { source, .. } => is_slot(source),
        _ => false,
    }
}

/// The signature slot of a bundle that nobody else signs meanwhile.
struct Slot<'p> {
    path: &'p Path,
    /// Open, and locked, as long as this is here.
    file: File,
    opened: OpenedHead,
}

impl<'p> Slot<'p> {
    fn open(path: &'p Path) -> anyhow::Result<Slot<'p>> {
        let failed = |error| CommandError::io("cannot open the bundle", error).at(path.display());
        let options = OpenOptions::new().read(true).write(true).open(path);
        let file = options.map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(
                CommandError::failed("somebody else is signing or writing this bundle")
                    .at(path.display())
                    .hint("wait until it is done, and run the same command again")
                    .into(),
            );
        }
        let opened = open_head(&file).map_err(|error| error.in_file(path))?;
        Ok(Slot { path, file, opened })
    }

    /// The bundle, checked to its frame.
    fn bundle(&self) -> Result<Bundle, FormatError> {
        let file = self.file.try_clone().map_err(|source| FormatError::Io {
            action: "open the bundle",
            at: None,
            source,
        });
        let bundle = file.and_then(Bundle::from_file);
        bundle.map_err(|error| error.in_file(self.path))
    }

    /// Where the signatures lie while new ones are written over them.
    fn beside(&self) -> PathBuf {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".signatures");
        name.into()
    }

    /// The signatures that an interrupted run left beside the file.
    fn kept(&self) -> Option<Signatures> {
        let bytes = std::fs::read(self.beside()).ok()?;
        Signatures::decode(&bytes, &self.opened.layout.id()).ok()
    }

    /// Writes `new` in place of `old`, which lie beside the file until the disk has the new ones.
    fn replace(&self, old: &Signatures, new: &Signatures) -> anyhow::Result<()> {
        let beside = self.beside();
        let bytes = old.encode().map_err(|error| error.in_file(self.path))?;
        // what another run left there is not of this bundle, or the same
        Pending::write(&beside, &bytes, 0o644)?.replace()?;
        self.write(new)?;
        std::fs::remove_file(&beside).map_err(|error| {
            CommandError::io("cannot remove the old signatures", error).at(beside.display())
        })?;
        Ok(())
    }

    /// Writes the slot, and waits until the disk has it.
    fn write(&self, signatures: &Signatures) -> anyhow::Result<()> {
        let path = self.path;
        let failed =
            |error| CommandError::io("cannot write the signatures", error).at(path.display());
        let bytes = signatures.encode().map_err(|error| error.in_file(path))?;
        let at = self.opened.layout.signatures().offset;
        self.file.write_all_at(&bytes, at).map_err(failed)?;
        self.file.sync_all().map_err(failed)?;
        Ok(())
    }
}
