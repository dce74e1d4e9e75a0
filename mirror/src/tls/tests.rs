use std::fs;
use std::path::Path;

use kubepkg_core::error::Classify as _;

use super::*;

fn made(folder: &Path, host: &str) -> Own {
    let own = Own::new(folder.to_owned(), [host]).unwrap();
    own.renew(Time::now()).unwrap();
    own
}

fn files(certificate: &Path, key: &Path) -> TlsFiles {
    TlsFiles {
        certificate: certificate.to_owned(),
        key: key.to_owned(),
        client_ca: None,
    }
}

#[test]
fn a_broken_pair_leaves_the_old_one_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let one = made(&folder.path().join("one"), "one.lan");
    let two = made(&folder.path().join("two"), "two.lan");
    let used = folder.path().join("used.pem");
    fs::copy(one.file(), &used).unwrap();
    let tls = Tls::open(files(&used, &used)).unwrap();
    let before = tls.facts();
    assert!(before.names.contains(&"one.lan".to_owned()));

    fs::write(&used, "-----BEGIN CERTIFICATE-----\nbroken").unwrap();
    assert!(tls.reload().is_err());
    assert_eq!(tls.facts(), before);
    fs::copy(two.file(), &used).unwrap();
    assert!(tls.reload().unwrap().names.contains(&"two.lan".to_owned()));
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let one = made(&folder.path().join("one"), "one.lan").file();
    let two = made(&folder.path().join("two"), "two.lan").file();
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let text = fs::read_to_string(&one).unwrap();
    let sealed = at(
        "sealed",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    let certificate_alone = at("alone", text.split("-----BEGIN PRIVATE").next().unwrap());
    let empty = at("empty", "");
    for (certificate, key, place, why) in [
        (&one, &two, &two, "does not belong to the certificate"),
        (&empty, &one, &empty, "holds no certificate"),
        (&one, &empty, &empty, "holds no private key"),
        (
            &one,
            &certificate_alone,
            &certificate_alone,
            "no private key",
        ),
        (&one, &sealed, &sealed, "under a passphrase"),
    ] {
        let error = Tls::open(files(certificate, key)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.place(), Some(place.display().to_string()));
        assert!(error.hint().is_some());
    }
    let nothing = folder.path().join("nothing");
    let error = Tls::open(files(&nothing, &one)).unwrap_err();
    assert_eq!(error.kind(), kubepkg_core::error::Kind::NotFound);
    let mut with_clients = files(&one, &one);
    with_clients.client_ca = Some(empty);
    let error = Tls::open(with_clients).unwrap_err().to_string();
    assert!(error.contains("holds no certificate"), "{error}");
}
