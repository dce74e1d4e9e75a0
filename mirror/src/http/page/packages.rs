//! Which packages a page shows.

use kubepkg_core::carried::CarriedVersion;
use kubepkg_core::name::PackageName;
use kubepkg_core::version::Version;

use crate::http::overview::SiteSeen;

/// Packages shown of all indexes together; a search finds the others.
pub(super) const PACKAGES: usize = 100;

/// Versions shown of one package.
pub(super) const VERSIONS: usize = 8;

/// The packages of one index.
#[derive(Debug)]
pub(super) struct Group<'s> {
    /// The index.
    pub site: &'s SiteSeen,
    /// Some of them.
    pub packages: Vec<PackageRow<'s>>,
    /// How many there are.
    pub total: usize,
}

/// One package.
#[derive(Debug)]
pub(super) struct PackageRow<'s> {
    /// Its name.
    pub name: &'s PackageName,
    /// Some of its versions, the newest first.
    pub versions: Vec<String>,
    /// How many more there are.
    pub more: usize,
}

/// The packages that `search` finds by name, or by name and version (`web@1.0`).
pub(super) fn groups<'s>(
    sites: impl IntoIterator<Item = &'s SiteSeen>,
    search: &str,
) -> Vec<Group<'s>> {
    let (part, version) = search.split_once('@').unwrap_or((search, ""));
    let mut room = PACKAGES;
    let mut groups = Vec::new();
    for site in sites {
        let packages = site.carried.iter().flat_map(|carried| &carried.packages);
        let found = packages.filter(|(name, versions)| {
            name.as_str().contains(part)
                && (version.is_empty() || versions.iter().any(|v| v.version.starts_with(version)))
        });
        let (mut rows, mut total) = (Vec::new(), 0);
        for (name, versions) in found {
            total += 1;
            if room > 0 {
                room -= 1;
                rows.push(row(name, versions, version));
            }
        }
        if total > 0 || search.is_empty() {
            groups.push(Group {
                site,
                packages: rows,
                total,
            });
        }
    }
    groups
}

fn row<'s>(name: &'s PackageName, versions: &[CarriedVersion], beginning: &str) -> PackageRow<'s> {
    let wanted = versions.iter().filter(|v| v.version.starts_with(beginning));
    let mut wanted: Vec<&CarriedVersion> = wanted.collect();
    wanted.sort_by_cached_key(|v| std::cmp::Reverse((Version::parse(&v.version).ok(), v.build)));
    let more = wanted.len().saturating_sub(VERSIONS);
    let shown = wanted.into_iter().take(VERSIONS).map(|v| match v.build {
        0 => v.version.clone(),
        build => format!("{} build {build}", v.version),
    });
    PackageRow {
        name,
        versions: shown.collect(),
        more,
    }
}

#[cfg(test)]
mod tests {
    use kubepkg_core::Digest;
    use kubepkg_core::carried::Carried;

    use super::*;

    fn site(packages: &[(&str, &[&str])]) -> SiteSeen {
        let url = "https://example.org/index.yaml".parse().unwrap();
        let mut carried = Carried::new(url);
        for (name, versions) in packages {
            for version in *versions {
                let version = CarriedVersion {
                    version: (*version).to_owned(),
                    build: 0,
                    digest: Digest::sha256(version),
                };
                carried.add(&name.parse().unwrap(), version);
            }
        }
        SiteSeen::carrying(carried)
    }

    #[test]
    fn newer_versions_come_first_and_a_search_narrows() {
        let site = site(&[("web", &["1.9.0", "1.10.0", "0.1.0"]), ("db", &["2.0.0"])]);
        let shown = |search: &str| {
            let groups = groups([&site], search);
            let rows = groups.iter().flat_map(|group| &group.packages);
            let row = |row: &PackageRow<'_>| format!("{} {}", row.name, row.versions.join(","));
            rows.map(row).collect::<Vec<_>>()
        };
        assert_eq!(shown(""), ["db 2.0.0", "web 1.10.0,1.9.0,0.1.0"]);
        assert_eq!(shown("we"), ["web 1.10.0,1.9.0,0.1.0"]);
        assert_eq!(shown("web@1.9"), ["web 1.9.0"]);
        assert!(shown("web@3").is_empty() && shown("absent").is_empty());
    }

    #[test]
    fn rows_have_an_end() {
        let names: Vec<String> = (0..PACKAGES + 5).map(|n| format!("p{n}")).collect();
        let versions: Vec<String> = (0..VERSIONS + 2).map(|n| format!("1.{n}.0")).collect();
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        let packages: Vec<_> = names.iter().map(|name| (&**name, &versions[..])).collect();
        let (first, second) = (site(&packages), site(&packages));
        let groups = groups([&first, &second], "");
        assert_eq!(
            (groups[0].packages.len(), groups[0].total),
            (PACKAGES, PACKAGES + 5)
        );
        assert_eq!(
            (groups[1].packages.len(), groups[1].total),
            (0, PACKAGES + 5)
        );
        let row = &groups[0].packages[0];
        assert_eq!((row.versions.len(), row.more), (VERSIONS, 2));
    }
}
