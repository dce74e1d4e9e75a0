//! Versions that a repository lists and that are not offered: how many, and why.

use super::{Catalog, SHOWN, Selection, Source, listed, shown_versions};
use crate::error::shown;
use crate::index::{LeftOut, LeftOutWhy, version_and_build};
use crate::version::Version;

/// A version that is not offered, and why, in words.
type Untaken = (String, String);

impl Catalog {
    /// The versions of `package` that its supplier has: `releases`, which may be taken, and
    /// why not the others.
    pub(crate) fn has(&self, package: &str, releases: &[Selection<'_>]) -> String {
        let has = shown_versions(releases);
        let untaken = self.untaken(package);
        if untaken.is_empty() {
            return has;
        }
        let count = untaken.len();
        let first = untaken.iter().take(SHOWN);
        let told: Vec<_> = first.map(|(v, why)| format!("{v} ({why})")).collect();
        let more = match count.saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{has}; {count} left out: {}{more}", told.join(", "))
    }

    /// All versions of `package` that are not offered, as they are listed.
    fn untaken(&self, package: &str) -> Vec<Untaken> {
        let Some(supplier) = self.supplier(package) else {
            return Vec::new();
        };
        let left_out = left_out(supplier, package).map(|left| {
            let version = version_and_build(&left.version, left.build);
            (version, why(&left.why))
        });
        let withdrawn = listed(supplier, package).filter_map(|release| {
            let statement = release.listed.withdrawn.as_ref();
            let statement = statement.filter(|statement| statement.holds())?;
            let version = version_and_build(&release.listed.version, release.listed.build);
            Some((version, format!("withdrawn: {}", shown(&statement.reason))))
        });
        left_out.chain(withdrawn).collect()
    }

    /// A version of `package` that `fits` and is not offered for lack of something.
    pub(crate) fn lacking(
        &self,
        package: &str,
        fits: impl Fn(&Version) -> bool,
    ) -> Option<&LeftOut> {
        left_out(self.supplier(package)?, package).find(|left| {
            let version = Version::parse_published(&left.version);
            version.is_ok_and(|version| fits(&version))
        })
    }
}

fn left_out<'c>(source: &'c Source, package: &str) -> impl Iterator<Item = &'c LeftOut> {
    let all = source.index.left_out.iter();
    all.filter(move |left| left.package == package)
}

fn why(why: &LeftOutWhy) -> String {
    match why {
        LeftOutWhy::Newer { unknown } => {
            let unknown: Vec<_> = unknown.iter().take(SHOWN).map(|name| shown(name)).collect();
            match unknown.is_empty() {
                true => "made for another kubepkg".to_owned(),
                false => format!("made for another kubepkg: {}", unknown.join(", ")),
            }
        }
        LeftOutWhy::Delegation { name, have, need } => {
            format!("delegation {}: {have} of {need} signatures", shown(name))
        }
        LeftOutWhy::Approvals { have, need } => format!("{have} of {need} approvals"),
    }
}

/// What gets a version taken that was left out.
pub(crate) fn advice(left: &LeftOut) -> String {
    match left.why {
        LeftOutWhy::Newer { .. } => format!(
            "{left} is made for another kubepkg; a newer one may take it (this is {})",
            env!("CARGO_PKG_VERSION")
        ),
        LeftOutWhy::Delegation { have, need, .. } => format!(
            "{left} lacks {}; those who answer for the package sign it with: kubepkg trust sign \
             FILE --key FILE.key",
            missing(have, need, "signature")
        ),
        LeftOutWhy::Approvals { have, need } => format!(
            "{left} lacks {}; whoever approves it signs with: kubepkg trust sign FILE --approve \
             --key FILE.key",
            missing(have, need, "approval")
        ),
    }
}

fn missing(have: usize, need: usize, what: &str) -> String {
    match need.saturating_sub(have) {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}
