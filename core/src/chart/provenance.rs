//! The provenance file of a chart (`<archive>.prov`): a clear-signed text that names the digest
//! of the archive. Who signed it is for Helm to check; here only what it is about is read.

use std::collections::BTreeSet;

/// Largest provenance file. It holds a `Chart.yaml` of at most a mebibyte, a few lines more and
/// a signature.
pub const MAX_PROVENANCE: u64 = 2 * 1024 * 1024;

/// How an OpenPGP clear-signed text begins (RFC 9580, section 7).
const BEGIN: &str = "-----BEGIN PGP SIGNED MESSAGE-----";

/// Where the text ends and its signature begins.
const SIGNATURE: &str = "-----BEGIN PGP SIGNATURE-----";

/// Most digests of one file that are looked at; real ones name one.
const MAX_NAMED: usize = 64;

/// What a file beside an archive says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attested {
    /// It is signed for this archive.
    Archive,
    /// It is signed for other bytes: those with these sha256 digests, in hex.
    Other(BTreeSet<String>),
    /// It is a signed text that names no digest.
    Nothing,
    /// It is no signed text at all.
    NotSigned,
}

/// What `file` says of the archive whose sha256 digest is `hex`.
///
/// The names of files do not matter: a mirror may serve an archive by another one.
pub fn attested(file: &[u8], hex: &str) -> Attested {
    let text = String::from_utf8_lossy(file);
    let mut lines = text.lines().map(str::trim_end);
    if lines.find(|line| !line.is_empty()) != Some(BEGIN) {
        return Attested::NotSigned;
    }
    let mut signed = false;
    let mut files = false;
    let mut named = BTreeSet::new();
    for line in lines {
        if line == SIGNATURE {
            signed = true;
            break;
        }
        // the list is a member of the last document: `files:` and below it `name: sha256:…`
        if !line.starts_with([' ', '\t']) {
            files = line == "files:";
            continue;
        }
        let digest = line.rsplit_once("sha256:").map(|(_, digest)| digest);
        let digest = digest.map(|digest| digest.trim_matches(['"', '\'']).to_ascii_lowercase());
        if let Some(digest) = digest.filter(|digest| files && is_sha256(digest))
            && named.len() < MAX_NAMED
        {
            named.insert(digest);
        }
    }
    if !signed {
        Attested::NotSigned
    } else if named.contains(hex) {
        Attested::Archive
    } else if named.is_empty() {
        Attested::Nothing
    } else {
        Attested::Other(named)
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    /// As Helm writes it, with `list` as its list of files.
    fn signed(list: &str) -> String {
        format!(
            "{BEGIN}\nHash: SHA512\n\napiVersion: v2\nannotations:\n  other: sha256:{}\nname: web\n\
             version: 1.0.0\n\n...\n{list}\n{SIGNATURE}\n\nwsFc=\n=x\n-----END PGP SIGNATURE-----\n",
            "a".repeat(64)
        )
    }

    #[test]
    fn what_a_file_is_signed_for() {
        let ours = Digest::sha256("archive").hex().to_string();
        let other = Digest::sha256("other").hex().to_string();
        let line = |hex: &str| format!("files:\n  web-1.0.0.tgz: sha256:{hex}");
        let both = format!("{}\n  b.tgz: sha256:{ours}", line(&other));
        let quoted = format!("files:\r\n  web-1.0.0.tgz: \"sha256:{ours}\"\r");
        for list in [line(&ours), both, quoted, line(&ours.to_uppercase())] {
            let file = signed(&list);
            assert_eq!(
                attested(file.as_bytes(), &ours),
                Attested::Archive,
                "{list}"
            );
        }
        let only = BTreeSet::from([other.clone()]);
        assert_eq!(
            attested(signed(&line(&other)).as_bytes(), &ours),
            Attested::Other(only)
        );
        for list in [
            String::new(),
            "files: {}".to_owned(),
            "files:\n  web-1.0.0.tgz: sha256:1234".to_owned(),
            // below another member
            format!("sums:\n  web-1.0.0.tgz: sha256:{ours}"),
        ] {
            let file = signed(&list);
            assert_eq!(
                attested(file.as_bytes(), &ours),
                Attested::Nothing,
                "{list}"
            );
        }
    }

    #[test]
    fn a_page_that_says_there_is_nothing_is_no_provenance() {
        let ours = Digest::sha256("archive").hex().to_string();
        let whole = signed(&format!("files:\n  a.tgz: sha256:{ours}"));
        let (cut, _) = whole.split_once(SIGNATURE).unwrap();
        for file in [
            &b""[..],
            b"<html>not found</html>",
            b"\xff\xfe\0",
            &whole.as_bytes()[1..],
            cut.as_bytes(),
        ] {
            assert_eq!(attested(file, &ours), Attested::NotSigned);
        }
    }

    #[test]
    fn a_long_list_is_bounded() {
        let mut list = "files:".to_owned();
        for n in 0..1000u32 {
            list += &format!("\n  f{n}: sha256:{}", Digest::sha256(n.to_le_bytes()).hex());
        }
        let Attested::Other(named) = attested(signed(&list).as_bytes(), &"0".repeat(64)) else {
            panic!("it names others");
        };
        assert_eq!(named.len(), MAX_NAMED);
    }
}
