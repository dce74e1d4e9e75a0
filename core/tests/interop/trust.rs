//! `trust.jsonl`: which served files a client accepts, with plain keys and with a root.

use std::collections::BTreeMap;

use bytes::Bytes;
use kubepkg_core::Digest;
use kubepkg_core::index::LeftOutWhy;
use kubepkg_core::keys::PublicKey;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{
    Accepted, Anchor, Clock, Entry, KeySet, Memory, Offer, RootError, RootMemory, Roots, Seen,
    TrustError, Verdict, judge,
};
use serde_json::Value;

use crate::vectors::{lines, text, texts};

/// Without the index file there is nothing to judge: fetching it has failed before.
pub const NEED_FETCH: &str = "plain-missing-index";

/// Where this program says otherwise than the existing one, and why. All of them refuse what
/// that one accepts.
pub const STRICTER_HERE: [(&str, &str); 2] = [
    (
        "plain-expired-index",
        "the existing program looks at the expiry of an index only when there is a root; who \
         sets one means it",
    ),
    (
        "root-yaml-body-unsigned",
        "root.yaml must equal its numbered twin byte for byte: else readers that take the one \
         follow another root than those that take the other",
    ),
];

/// Refusals under another name than there: the outcome is the same.
pub const OTHER_CLASS: [(&str, &str); 1] = [(
    "root-yaml-behind-chain",
    "root.yaml is compared with root/1.yaml before the index's signatures are counted",
)];

const FILES: [(&str, &str); 7] = [
    ("index.yaml", include_str!("../data/index.yaml")),
    ("index.yaml.sig", include_str!("../data/index.yaml.sig")),
    ("root.yaml", include_str!("../data/root.yaml")),
    ("root/1.yaml", include_str!("../data/root/1.yaml")),
    ("root/2.yaml", include_str!("../data/root/2.yaml")),
    ("root/3.yaml", include_str!("../data/root/3.yaml")),
    ("root/4.yaml", include_str!("../data/root/4.yaml")),
];

/// What is served in this case.
fn served(case: &Value) -> BTreeMap<String, Bytes> {
    let mut files = BTreeMap::new();
    if case["base"] == "repo" {
        files.extend(FILES.map(|(name, text)| (name.to_owned(), Bytes::from(text))));
    }
    for (name, text) in case["files"].as_object().into_iter().flatten() {
        let text = text.as_str().expect("text").to_owned();
        files.insert(name.clone(), Bytes::from(text));
    }
    for name in case["without"].as_array().into_iter().flatten() {
        files.remove(name.as_str().expect("a name"));
    }
    files
}

fn keys(client: &Value, member: &str) -> Vec<PublicKey> {
    let pems = texts(client, member).into_iter();
    pems.map(|pem| PublicKey::from_pem(pem).expect("a key"))
        .collect()
}

/// Who the client trusts; `None` when no signatures could ever be enough.
fn anchor(client: &Value) -> Option<Anchor> {
    let roots = keys(client, "rootKeys");
    if !roots.is_empty() {
        let threshold = client["rootThreshold"].as_i64().unwrap_or(0).max(1);
        return Some(Anchor::Root(KeySet::new(roots, threshold).ok()?));
    }
    match (keys(client, "publicKeys"), client["allowUnsigned"] == true) {
        (keys, false) if keys.is_empty() => None,
        (_, true) => Some(Anchor::Unsigned),
        (keys, false) => Some(Anchor::any_of(keys)),
    }
}

/// What the client has on record, with our own memory of what it does not say.
fn memory(client: &Value, entry: &Entry, index: &Bytes) -> Option<Memory> {
    let long_ago: Time = "2026-01-01T00:00:00Z".parse().expect("a time");
    let recorded = client["recordedIndexGenerated"].as_str();
    let said = String::from_utf8_lossy(index);
    let root = client["recordedRootVersion"].as_u64().map(|version| {
        let version = u32::try_from(version).expect("a version");
        let digest: Digest = text(client, "recordedRootDigest")
            .parse()
            .expect("a digest");
        RootMemory {
            version,
            expires: long_ago,
            versions: [(version, digest)].into(),
            index_keys: Default::default(),
        }
    });
    if recorded.is_none() && root.is_none() {
        return None;
    }
    Some(Memory {
        entry: entry.id.clone(),
        url: entry.url.clone(),
        trust: Some(entry.clone()),
        accepted: Some(Accepted {
            // of one time there is one index
            index: match recorded.is_some_and(|time| said.contains(time)) {
                true => Digest::sha256(index),
                false => Digest::sha256("another one"),
            },
            quick: None,
            generated: recorded.map(|time| time.parse().expect("a time")),
            first_seen: long_ago,
            signed_by: Default::default(),
            signature: None,
            table: None,
            names_url: false,
            root,
            withdrawn: Seen::default(),
        }),
    })
}

fn accepted(case: &Value) -> Result<Verdict, Option<TrustError>> {
    let files = served(case);
    let client = &case["client"];
    let url = "https://packages.example.org/index.yaml".parse();
    let entry = Entry::new(url.expect("a URL"), anchor(client).ok_or(None)?);
    let numbered = files.iter().filter_map(|(name, bytes)| {
        let number = name.strip_prefix("root/")?.strip_suffix(".yaml")?;
        Some((number.parse().ok()?, bytes.clone()))
    });
    let roots = Roots {
        current: files.get("root.yaml").cloned(),
        numbered: numbered.collect(),
    };
    let index = &files["index.yaml"];
    let memory = memory(client, &entry, index);
    let offer = Offer {
        index,
        signature: files.get("index.yaml.sig").map(|bytes| &bytes[..]),
        roots: Some(&roots),
        table: None,
    };
    let now: Time = text(case, "now").parse().expect("a time");
    let verdict = judge(&entry, offer, memory.as_ref(), Clock::at(now))?;
    verdict.refuse_older(&entry)?;
    Ok(verdict)
}

/// The kind of refusal, as the cases name it.
fn class(error: &TrustError) -> &'static str {
    match error {
        TrustError::NoRoot { .. } | TrustError::RootMissing { .. } => "fetch",
        TrustError::RootNumber { .. } => "chain",
        TrustError::Expired { .. } | TrustError::RootExpired { .. } => "expired",
        TrustError::Index { .. } => "invalid",
        TrustError::Root { source, .. } => match **source {
            RootError::Newer { .. } => "newer",
            _ => "signature",
        },
        TrustError::RootTwin { .. } => "twin",
        _ => "signature",
    }
}

fn versions(verdict: &Verdict) -> Value {
    let packages = verdict.index.packages.iter().map(|(name, package)| {
        let versions = package.versions.iter();
        let versions = versions.map(|v| format!("{} build {}", v.version, v.build));
        (name.clone(), versions.collect::<Value>())
    });
    Value::Object(packages.collect())
}

fn untrusted(verdict: &Verdict) -> Vec<String> {
    let left = verdict.index.left_out.iter();
    let left = left.filter_map(|left| match &left.why {
        LeftOutWhy::Delegation { name, have, need } => Some(format!(
            "{} {} build {} (delegation {name}: {have} of {need} signatures)",
            left.package, left.version, left.build
        )),
        _ => None,
    });
    let mut left: Vec<String> = left.collect();
    left.sort();
    left
}

fn listed(table: &[(&str, &str)], name: &str) -> bool {
    table
        .iter()
        .any(|(listed, reason)| *listed == name && !reason.is_empty())
}

#[test]
fn indexes_are_accepted_and_refused_as_the_existing_program_does() {
    let mut run = 0;
    let mut different = 0;
    for case in lines("trust.jsonl") {
        let name = text(&case, "name");
        if name == NEED_FETCH {
            continue;
        }
        let stricter = listed(&STRICTER_HERE, name);
        different += usize::from(stricter || listed(&OTHER_CLASS, name));
        match accepted(&case) {
            Ok(verdict) => {
                assert!(case["ok"] == true && !stricter, "{name} was accepted");
                assert_eq!(versions(&verdict), case["versions"], "{name}");
                let root = verdict.root.as_ref().map(|root| u64::from(root.version));
                assert_eq!(root, case["rootVersion"].as_u64(), "{name}");
                let digest = verdict.root.as_ref().map(|root| root.digest().to_string());
                assert_eq!(digest.as_deref(), case["rootDigest"].as_str(), "{name}");
                assert_eq!(untrusted(&verdict), texts(&case, "untrusted"), "{name}");
            }
            Err(error) => {
                assert!(case["ok"] == false || stricter, "{name}: {error:?}");
                if let (Some(error), Some(class_there)) = (&error, case["class"].as_str())
                    && !listed(&OTHER_CLASS, name)
                {
                    assert_eq!(class(error), class_there, "{name}: {error}");
                }
            }
        }
        run += 1;
    }
    assert_eq!(run + 1, 71);
    assert_eq!(different, STRICTER_HERE.len() + OTHER_CLASS.len());
}
