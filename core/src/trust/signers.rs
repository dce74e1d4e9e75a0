//! Versions that need more than the index's signature: those of delegated packages, and all
//! where approvals are wanted. Those that lack it are left out; the rest of the index works.

use super::statement::Named;
use super::{KeySet, Root};
use crate::index::signature::{Entry as Signature, decode};
use crate::index::{Index, IndexVersion, LeftOut, LeftOutWhy};

/// Signatures of one version that are looked at: each is checked with every key of a set.
const MAX_LOOKED_AT: usize = 64;

/// Moves out of `index` what delegations and approvals do not let through.
pub(super) fn leave_out(index: &mut Index, root: Option<&Root>, approvals: Option<&KeySet>) {
    let by_root = root.and_then(|root| root.approvals.as_ref());
    let approvers: Vec<&KeySet> = by_root.into_iter().chain(approvals).collect();
    let delegates = root.is_some_and(|root| !root.delegations.is_empty());
    if approvers.is_empty() && !delegates {
        return;
    }
    let left_out = &mut index.left_out;
    index.packages.retain(|name, package| {
        let delegation = root.and_then(|root| root.delegation(name));
        package.versions.retain(|version| {
            let delegated = delegation.and_then(|one| {
                let have = signers(name, version, &one.signers);
                let need = one.signers.threshold() as usize;
                (have < need).then(|| LeftOutWhy::Delegation {
                    name: one.name.clone(),
                    have,
                    need,
                })
            });
            let missing = || {
                approvers.iter().find_map(|set| {
                    let have = approvals_by(name, version, set);
                    let need = set.threshold() as usize;
                    (have < need).then_some(LeftOutWhy::Approvals { have, need })
                })
            };
            let Some(why) = delegated.or_else(missing) else {
                return true;
            };
            left_out.push(LeftOut {
                package: name.clone(),
                version: version.version.clone(),
                build: version.build,
                why,
            });
            false
        });
        !package.versions.is_empty()
    });
}

fn named<'v>(package: &'v str, version: &'v IndexVersion) -> Named<'v> {
    Named {
        package,
        version: &version.version,
        build: version.build,
        digest: &version.digest,
    }
}

/// How many keys of `set` signed this version.
fn signers(package: &str, version: &IndexVersion, set: &KeySet) -> usize {
    let entry = |written: &crate::index::VersionSignature| {
        Some(Signature {
            key_id: written.keyid.clone(),
            signature: decode(&written.sig)?,
        })
    };
    let written = version.signatures.iter().take(MAX_LOOKED_AT);
    let signatures: Vec<Signature> = written.filter_map(entry).collect();
    let message = named(package, version).version_statement();
    set.signed_by(&message, &signatures).len()
}

/// How many keys of `set` approved this version, each at the time it says.
fn approvals_by(package: &str, version: &IndexVersion, set: &KeySet) -> usize {
    let mut found = std::collections::BTreeSet::new();
    for written in version.approvals.iter().take(MAX_LOOKED_AT) {
        let Some(signature) = decode(&written.sig) else {
            continue;
        };
        let message = named(package, version).approval_statement(written.time);
        let signature = Signature {
            key_id: written.keyid.clone(),
            signature,
        };
        found.extend(set.signed_by(&message, std::slice::from_ref(&signature)));
    }
    found.len()
}
