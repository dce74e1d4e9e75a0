//! A root of trust, shown.

use std::path::Path;

use kubepkg_core::keys::KeyId;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Delegation, KeySet, Root};
use serde_json::{Value, json};

use super::set_json;
use crate::cli::Format;
use crate::printer::{Printer, table};
use crate::root_files::{self, RootFile};
use crate::units::{count, local_time};

/// Shows the root in `file`.
pub fn show(file: &Path, read: &RootFile, format: Format, printer: &Printer) -> anyhow::Result<()> {
    let root = &read.root;
    let before = match root.version {
        1 => None,
        version => root_files::version_beside(file, version - 1)?,
    };
    let before = before.map(|file| file.root);
    let missing = root_files::missing(root, before.as_ref());
    if let Some(twin) = root_files::twin(file, root.version)?
        && std::fs::read(&twin).ok().as_deref() != Some(read.bytes.as_slice())
    {
        printer.warn(&format!(
            "{} is not the same file, byte for byte: whoever reads this repository refuses it",
            twin.display()
        ));
    }
    match format {
        Format::Json => printer.answer_json(&json!({
            "version": root.version,
            "digest": root.digest(),
            "expires": root.expires,
            "expired": root.expires < Time::now(),
            "roles": roles_json(root),
            "delegations": root.delegations.iter().map(delegation_json).collect::<Vec<_>>(),
            "signedBy": signers(root, before.as_ref()).iter().map(ToString::to_string).collect::<Vec<_>>(),
            "missing": missing,
        })),
        Format::Table => printer.answer(&text(root, before.as_ref(), &missing)),
    }
}

fn roles_json(root: &Root) -> Value {
    let mut roles = json!({ "root": set_json(&root.root), "index": set_json(&root.index) });
    if let Some(approvals) = &root.approvals {
        roles["approvals"] = set_json(approvals);
    }
    roles
}

fn delegation_json(delegation: &Delegation) -> Value {
    let mut value = set_json(&delegation.signers);
    value["name"] = delegation.name.clone().into();
    let packages: Vec<&str> = delegation.packages.iter().map(|p| p.as_str()).collect();
    value["packages"] = packages.into();
    value
}

/// The root keys, of this version and the one before, that signed.
fn signers(root: &Root, before: Option<&Root>) -> Vec<KeyId> {
    let mut ids = root.signed_by(&root.root);
    for id in before
        .map(|before| root.signed_by(&before.root))
        .unwrap_or_default()
    {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

fn text(root: &Root, before: Option<&Root>, missing: &[String]) -> String {
    let expired = if root.expires < Time::now() {
        " (expired)"
    } else {
        ""
    };
    let mut parts = vec![format!(
        "root version {}, valid until {}{expired}\ndigest {}, {}",
        root.version,
        local_time(root.expires),
        root.digest(),
        count(root.signature_count(), "signature", "signatures"),
    )];
    let mut rows = vec![row("root", "signs the next root", &root.root)];
    rows.push(row("index", "signs the index", &root.index));
    if let Some(set) = &root.approvals {
        rows.push(row("approvals", "approves versions", set));
    }
    for delegation in &root.delegations {
        let packages: Vec<&str> = delegation.packages.iter().map(|p| p.as_str()).collect();
        let what = format!("signs versions of {}", packages.join(", "));
        rows.push(row(&delegation.name, &what, &delegation.signers));
    }
    parts.push(table(&["ROLE", "MAY", "NEEDED", "KEYS"], &rows));
    let signed = signers(root, before);
    let keys: Vec<Vec<String>> = root
        .keys
        .keys()
        .map(|id| {
            let mark = if signed.contains(id) { "signed" } else { "-" };
            vec![id.to_string(), mark.to_owned()]
        })
        .collect();
    parts.push(table(&["KEY", "THIS ROOT"], &keys));
    match missing.is_empty() {
        true => parts.push("signed by enough of its keys".to_owned()),
        false => parts.extend(missing.iter().map(|line| format!("needs {line}"))),
    }
    parts.join("\n\n")
}

fn row(name: &str, may: &str, set: &KeySet) -> Vec<String> {
    let ids = set.ids();
    let short: Vec<String> = ids
        .iter()
        .map(|id| id.to_string()[..12].to_owned())
        .collect();
    vec![
        name.to_owned(),
        may.to_owned(),
        format!("{} of {}", set.threshold(), ids.len()),
        short.join(" "),
    ]
}
