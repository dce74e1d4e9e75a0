//! The signature file of an index (`index.yaml.sig`), in both its forms.
//!
//! Signed are the exact bytes of the index. The file is either plain (the base64 text of one
//! signature) or a YAML list `signatures: [{keyid, sig}]`. Key ids in it are hints: any
//! trusted key that verifies any entry counts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::error::{Classify, Kind};
use crate::keys::{KeyId, PublicKey};
use crate::yaml::go::Document;
use crate::yaml::{Limits, YamlError, write};

/// Larger than any signature file: 64 entries of some 200 bytes.
pub const MAX_SIGNATURE_FILE: u64 = 64 * 1024;

/// More signers than any repository has.
pub const MAX_SIGNATURES: usize = 64;

/// Length of an ed25519 signature in bytes.
const SIGNATURE_LEN: usize = 64;

/// The signatures of one signature file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatures {
    entries: Vec<Entry>,
}

/// One signature and the id of the key it claims to be by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key id as written in the file; empty for the plain form.
    pub key_id: String,
    /// The signature.
    pub signature: [u8; SIGNATURE_LEN],
}

/// A signature file is of neither form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Over [`MAX_SIGNATURE_FILE`].
    #[error("the signature file is larger than {MAX_SIGNATURE_FILE} bytes")]
    TooLarge,
    /// Over [`MAX_SIGNATURES`].
    #[error("the signature file holds more than {MAX_SIGNATURES} signatures")]
    TooMany,
    /// Neither base64 nor the list form.
    #[error("the signature file is neither a base64 ed25519 signature nor a list of them")]
    Form(#[source] Option<YamlError>),
    /// No entry is a signature.
    #[error("the signature file holds no signature")]
    Empty,
}

impl Classify for SignatureError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    signatures: Vec<FileEntry>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct FileEntry {
    keyid: String,
    sig: String,
}

impl Signatures {
    /// Reads a signature file of either form. Entries of the list that are no signature are
    /// passed over, as another tool's may stand beside ours.
    pub fn parse(bytes: &[u8]) -> Result<Signatures, SignatureError> {
        if bytes.len() as u64 > MAX_SIGNATURE_FILE {
            return Err(SignatureError::TooLarge);
        }
        if let Some(signature) = str::from_utf8(bytes).ok().and_then(decode) {
            let key_id = String::new();
            return Ok(Signatures {
                entries: vec![Entry { key_id, signature }],
            });
        }
        let limits = Limits {
            bytes: MAX_SIGNATURE_FILE as usize,
            depth: 8,
            nodes: 1024,
            expansion: 0,
        };
        let form = |error| SignatureError::Form(Some(error));
        let document = Document::read_signed(bytes, &limits).map_err(form)?;
        if document.root().member("signatures").is_none() {
            return Err(SignatureError::Form(None));
        }
        let file = document
            .decode::<File>(document.root())
            .map_err(form)?
            .value;
        if file.signatures.len() > MAX_SIGNATURES {
            return Err(SignatureError::TooMany);
        }
        let entry = |entry: FileEntry| {
            decode(&entry.sig).map(|signature| Entry {
                key_id: entry.keyid,
                signature,
            })
        };
        let entries: Vec<Entry> = file.signatures.into_iter().filter_map(entry).collect();
        if entries.is_empty() {
            return Err(SignatureError::Empty);
        }
        Ok(Signatures { entries })
    }

    /// The entries, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Which of `keys` signed `message`: their ids, each once, in the order of `keys`.
    pub fn signed_by(&self, message: &[u8], keys: &[PublicKey]) -> Vec<KeyId> {
        let mut found = Vec::new();
        for key in keys {
            let signed = |entry: &Entry| key.verifies(message, &entry.signature);
            if !found.contains(&key.id()) && self.entries.iter().any(signed) {
                found.push(key.id());
            }
        }
        found
    }

    /// The plain form: what a repository with one key publishes.
    pub fn write_plain(signature: &[u8; SIGNATURE_LEN]) -> String {
        let mut text = STANDARD.encode(signature);
        text.push('\n');
        text
    }

    /// The list form, for several keys.
    pub fn write_list(signatures: &[(KeyId, [u8; SIGNATURE_LEN])]) -> String {
        let entry = |(id, signature): &(KeyId, [u8; SIGNATURE_LEN])| Entry {
            key_id: id.to_string(),
            signature: *signature,
        };
        let entries: Vec<Entry> = signatures.iter().map(entry).collect();
        Signatures::write_entries(&entries)
    }

    /// The list form of `entries`.
    pub fn write_entries(entries: &[Entry]) -> String {
        #[derive(Serialize)]
        struct List {
            signatures: Vec<FileEntry>,
        }
        let entry = |entry: &Entry| FileEntry {
            keyid: entry.key_id.clone(),
            sig: encode(&entry.signature),
        };
        let list = List {
            signatures: entries.iter().map(entry).collect(),
        };
        // Text and lists always have a JSON form.
        write::to_string(&list).unwrap_or_default()
    }
}

/// The base64 text of a signature.
pub(crate) fn encode(signature: &[u8; SIGNATURE_LEN]) -> String {
    STANDARD.encode(signature)
}

/// A signature in base64: standard alphabet, padded; line breaks are passed over.
pub(crate) fn decode(text: &str) -> Option<[u8; SIGNATURE_LEN]> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    STANDARD.decode(compact.trim()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    fn key() -> (PrivateKey, PublicKey) {
        let private = PrivateKey::generate().unwrap();
        let public = private.public().unwrap();
        (private, public)
    }

    #[test]
    fn plain_form_round_trip() {
        let (private, public) = key();
        let text = Signatures::write_plain(&private.sign(b"index"));
        let read = Signatures::parse(text.as_bytes()).unwrap();
        assert_eq!(
            read.signed_by(b"index", std::slice::from_ref(&public)),
            [public.id()]
        );
        assert!(read.signed_by(b"other", &[public]).is_empty());
    }

    #[test]
    fn list_form_names_every_key_that_signed_once() {
        let ((a, a_public), (b, b_public), (_, stranger)) = (key(), key(), key());
        let text = Signatures::write_list(&[
            (a_public.id(), a.sign(b"index")),
            (b_public.id(), b.sign(b"index")),
            (a_public.id(), a.sign(b"index")),
        ]);
        let read = Signatures::parse(text.as_bytes()).unwrap();
        assert_eq!(read.entries().len(), 3);
        let keys = [
            stranger,
            b_public.clone(),
            a_public.clone(),
            b_public.clone(),
        ];
        assert_eq!(
            read.signed_by(b"index", &keys),
            [b_public.id(), a_public.id()]
        );
    }

    #[test]
    fn a_key_id_is_only_a_hint() {
        let ((a, a_public), (_, b_public)) = (key(), key());
        let text = Signatures::write_list(&[(b_public.id(), a.sign(b"index"))]);
        let read = Signatures::parse(text.as_bytes()).unwrap();
        assert_eq!(
            read.signed_by(b"index", &[b_public, a_public.clone()]),
            [a_public.id()]
        );
    }

    #[test]
    fn broken_entries_do_not_hide_good_ones() {
        let (private, public) = key();
        let good = STANDARD.encode(private.sign(b"index"));
        let split = format!("{}\\r\\n{}", &good[..20], &good[20..]);
        let text =
            format!("signatures:\n- {{keyid: x, sig: AAAA}}\n- {{keyid: 1, sig: \"{split}\"}}\n");
        let read = Signatures::parse(text.as_bytes()).unwrap();
        assert_eq!(read.signed_by(b"index", &[public]).len(), 1);
    }

    #[test]
    fn other_texts_are_refused() {
        use SignatureError::{Empty, Form};
        let unpadded = STANDARD.encode([1; 64]).trim_end_matches('=').to_owned();
        let list = |sig: &str| format!("signatures:\n- {{keyid: a, sig: \"{sig}\"}}\n");
        let parse = |text: &str| Signatures::parse(text.as_bytes()).unwrap_err();
        assert!(matches!(parse(""), Form(None)));
        assert!(matches!(parse("hello\n"), Form(None)));
        assert!(matches!(parse("[[["), Form(Some(_))));
        assert!(matches!(parse("signatures: x"), Form(Some(_))));
        assert_eq!(parse("signatures: []\n"), Empty);
        assert_eq!(parse(&list(&unpadded)), Empty);
        assert_eq!(parse(&list(&format!("AA AA{unpadded}=="))), Empty);
        assert!(matches!(parse("signatures: []\nsignatures: []\n"), Form(_)));
        let many = format!("signatures: [{}]", "{sig: a},".repeat(MAX_SIGNATURES + 1));
        assert_eq!(parse(&many), SignatureError::TooMany);
        let large = " ".repeat(MAX_SIGNATURE_FILE as usize + 1);
        assert_eq!(parse(&large), SignatureError::TooLarge);
    }
}
