//! What clients of the registry send, and the records its store keeps.

use std::str::FromStr;

use http::Method;
use kubepkg_core::store::{Names, Record};
use kubepkg_mirror::namespace::Own;
use kubepkg_mirror::route::{Ask, Endpoint, MAX_TAGS, Place, Write, parse};

/// Longest message about a request: what was asked is cut before it is repeated.
const MAX_MESSAGE: usize = 1024;

/// A request: `METHOD path?query`, as on the wire.
pub fn route(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    let Ok(method) = Method::from_str(method) else {
        return;
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match parse(&method, path, query) {
        Ok(Endpoint::Base | Endpoint::Catalog(_)) => assert!(reads(&method)),
        Ok(Endpoint::Repository(place, ask)) => {
            assert!(reads(&method));
            found_again(&place, &ask);
        }
        Ok(Endpoint::Write(place, write)) => {
            assert!(!reads(&method));
            assert!(place.ns.is_none(), "what is written has one place");
            if let Write::PutManifest(_, tags) = write {
                assert!(tags.len() <= MAX_TAGS);
            }
        }
        Err(error) => {
            assert!(error.status().is_client_error(), "{error}");
            assert!(error.to_string().len() < MAX_MESSAGE, "{error}");
        }
    }
}

fn reads(method: &Method) -> bool {
    method == Method::GET || method == Method::HEAD
}

/// What was understood, written plainly, is understood the same.
fn found_again(place: &Place, ask: &Ask) {
    let tail = match ask {
        Ask::Blob(digest) => format!("blobs/{digest}"),
        Ask::Manifest(target) => format!("manifests/{target}"),
        Ask::Tags(_) | Ask::Referrers { .. } | Ask::Upload(_) => return,
    };
    let path = format!("/v2/{}/{tail}", place.name);
    match parse(&Method::GET, &path, "") {
        Ok(Endpoint::Repository(again, asked)) => {
            assert_eq!((&again.name, &asked), (&place.name, ask), "{path}");
        }
        other => panic!("{path}: {other:?}"),
    }
    let candidates = place.candidates(Own {
        host: None,
        names: &[],
    });
    assert!(candidates.len() < 8, "a request looks in few places");
}

/// A commit record of a store: what it does to names can be undone.
pub fn record(data: &[u8]) {
    let Ok(mut record) = serde_json::from_slice::<Record>(data) else {
        return;
    };
    let text = serde_json::to_vec(&record).unwrap_or_default();
    assert_eq!(
        serde_json::from_slice::<Record>(&text).ok().as_ref(),
        Some(&record)
    );
    // as it would be on top of names that are empty: what stood there before is nothing
    record.number = 1;
    for recorded in &mut record.changes {
        recorded.old = serde_json::Value::Null;
    }
    let mut names = Names::default();
    names.apply_record(&record);
    assert_eq!(names.sequence, 1);
    if let Err(error) = names.undo_record(&record) {
        panic!("a record cannot be undone: {}", error.why);
    }
    assert_eq!(names, Names::default());
}
