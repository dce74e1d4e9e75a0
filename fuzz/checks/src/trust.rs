//! Roots, trust files and what is remembered.

use kubepkg_core::trust::{Entry, Known, Memory, Root, parse_file};

/// A root.
pub fn root(data: &[u8]) {
    let Ok(root) = Root::read(data) else {
        return;
    };
    let text = root.to_yaml();
    match Root::read(text.as_bytes()) {
        Ok(again) => {
            assert_eq!(again.signed_bytes(), root.signed_bytes(), "{text}");
            assert_eq!(again.digest(), root.digest());
            assert_eq!(again.signature_count(), root.signature_count(), "{text}");
            assert_eq!(again.to_yaml(), text);
        }
        Err(error) => panic!("{error}\n{text}"),
    }
    for package in ["app", "team-a", "x"] {
        let _ = root.delegation(package);
    }
}

/// A trust file that names no other files.
pub fn trust_file(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let read = || parse_file(text, &|_| Err("there is none".to_owned()));
    let Ok(entries) = read() else {
        return;
    };
    let again = read().unwrap_or_default();
    let same = |(a, b): (&Entry, &Entry)| a.same_trust(b) && a.id == b.id;
    assert_eq!(entries.len(), again.len());
    assert!(entries.iter().zip(&again).all(same));
    for (n, entry) in entries.iter().enumerate() {
        assert!(entries[..n].iter().all(|other| other.id != entry.id));
        assert!(entries[..n].iter().all(|other| other.url != entry.url));
    }
}

/// The records that a store keeps of what it accepted.
pub fn memory(data: &[u8]) {
    if let Ok(memory) = Memory::decode(data) {
        assert_eq!(Memory::from_value(&memory.to_value()), Ok(memory));
    }
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(data)
        && let Ok(known) = Known::from_value(&value)
    {
        assert_eq!(Known::from_value(&known.to_value()), Ok(known));
    }
}
