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
        ca: None,
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
fn a_changed_ca_is_handed_out_and_one_that_cannot_be_used_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let one = made(&folder.path().join("one"), "one.lan");
    let two = made(&folder.path().join("two"), "two.lan");
    let (used, ca) = (folder.path().join("used.pem"), folder.path().join("ca.crt"));
    fs::copy(one.file(), &used).unwrap();
    fs::write(&ca, one.ca_pem().unwrap()).unwrap();
    let with_ca = TlsFiles {
        ca: Some(ca.clone()),
        ..files(&used, &used)
    };
    let tls = Tls::open(with_ca).unwrap();
    assert_eq!(tls.ca().unwrap().pem, one.ca_pem().unwrap());
    assert_eq!(tls.ca().unwrap().facts, one.ca().unwrap());

    // both are taken or neither
    fs::copy(two.file(), &used).unwrap();
    fs::copy(two.file(), &ca).unwrap();
    let error = tls.reload().unwrap_err();
    assert!(error.to_string().contains("a private key"), "{error}");
    assert!(tls.is_unread());
    assert_eq!(tls.ca().unwrap().pem, one.ca_pem().unwrap());
    assert!(tls.facts().names.contains(&"one.lan".to_owned()));
    fs::write(&ca, two.ca_pem().unwrap()).unwrap();
    tls.reload().unwrap();
    assert!(!tls.is_unread());
    assert_eq!(tls.ca().unwrap().pem, two.ca_pem().unwrap());

    let own = Tls::own(one, None).unwrap();
    assert!(own.ca().is_some());
}

/// A pair whose certificate holds between these years.
fn holding(path: &Path, from: i32, until: i32) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec![format!("y{until}.lan")]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let text = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
    fs::write(path, text).unwrap();
}

#[test]
fn a_certificate_that_holds_is_kept_over_one_that_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let used = folder.path().join("used.pem");
    holding(&used, 1970, 2999);
    let tls = Tls::open(files(&used, &used)).unwrap();
    for (from, until) in [(1970, 1971), (2998, 2999)] {
        holding(&used, from, until);
        let error = tls.reload().unwrap_err();
        assert!(error.to_string().contains("does not hold now"), "{error}");
        assert_eq!(tls.facts().names, ["y2999.lan"]);
        assert_eq!(tls.facts().from, Time::from_unix(0));
    }
    // where the one in use does not hold either there is nothing to keep
    holding(&used, 1970, 1971);
    let tls = Tls::open(files(&used, &used)).unwrap();
    holding(&used, 1970, 1972);
    assert_eq!(tls.reload().unwrap().names, ["y1972.lan"]);
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
