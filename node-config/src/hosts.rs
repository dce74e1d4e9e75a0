//! For which registries settings are written: those a store or a bundle holds something of that
//! nodes pull. Charts are fetched by Helm, which asks no node's settings; hosts of nothing but
//! charts are left out, and so is the place of files that are neither.

use std::collections::BTreeSet;

use kubepkg_core::bundle::head::Head;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::file;
use kubepkg_core::location::{mirror_repository, upstream_host};
use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{ManifestEntry, Names};

/// Registry hosts, sorted, and repositories for which none can be named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// `host[:port]` in canonical form.
    pub hosts: BTreeSet<String>,
    /// First elements of repositories that stand for no registry a node can be told about:
    /// names pushed without a host, and IPv6 addresses. To be mentioned, not an error.
    pub left_out: BTreeSet<String>,
}

impl Hosts {
    fn of(repositories: impl Iterator<Item = RepositoryName>) -> Hosts {
        let mut found = Hosts::default();
        for repository in repositories {
            let first = repository.as_str().split('/').next().unwrap_or_default();
            match upstream_host(&repository) {
                // no registry: other files, fetched by their own path
                Some(host) if host == file::HOST => continue,
                // the mirror's form of an IPv6 address cannot be turned back; a DNS name that
                // only begins like one has a dot
                Some(host) if !first.starts_with("ip6-") || first.contains('.') => {
                    found.hosts.insert(host)
                }
                _ => found.left_out.insert(first.to_owned()),
            };
        }
        found
    }
}

/// The registries whose images and trees are in a store, as far as repositories are `shown`.
pub fn hosts_of_store(names: &Names, shown: impl Fn(&RepositoryName) -> bool) -> Hosts {
    let is_chart = |entry: &ManifestEntry| {
        entry.artifact_type.as_deref() == Some(media_type::HELM_CONFIG) || entry.subject.is_some()
    };
    let filled = names
        .repositories
        .iter()
        .filter(|(_, repository)| !repository.manifests.values().all(is_chart))
        .filter(|(name, _)| shown(name));
    Hosts::of(filled.map(|(name, _)| name.clone()))
}

/// The registries whose images and trees are in a bundle, as they will be in a store it is imported into.
pub fn hosts_of_head(head: &Head) -> Hosts {
    let images = head.images.iter().map(|image| &image.reference);
    let trees = head.trees.iter().map(|tree| &tree.reference);
    let references = images
        .chain(trees)
        .map(|reference| mirror_repository(reference.host(), reference.path()));
    // a location without a place in a mirror is refused when the bundle is verified
    Hosts::of(references.filter_map(Result::ok))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubepkg_core::Digest;
    use kubepkg_core::descriptor::Descriptor;
    use kubepkg_core::store::Repository;

    use super::*;

    fn hosts(found: &Hosts) -> Vec<&str> {
        found.hosts.iter().map(String::as_str).collect()
    }

    #[test]
    fn of_a_store() {
        let mut names = Names::default();
        for name in [
            "docker.io/library/a",
            "docker.io/b",
            "registry.example.com_8443/c",
            "localhost_5000/d",
            "team/app",
            "ip6-0-1_5000/e",
            "ip6-only.example.com/f",
            "charts.example.com/g",
        ] {
            let mut repository = Repository::default();
            let entry = ManifestEntry {
                media_type: media_type::OCI_MANIFEST.into(),
                size: 1,
                subject: None,
                artifact_type: name
                    .starts_with("charts.")
                    .then(|| media_type::HELM_CONFIG.into()),
                annotations: Default::default(),
            };
            repository.manifests.insert(Digest::sha256(name), entry);
            names
                .repositories
                .insert(name.parse().unwrap(), Arc::new(repository));
        }
        let emptied = "quay.io/emptied".parse().unwrap();
        names.repositories.insert(emptied, Arc::default());
        let found = hosts_of_store(&names, |_| true);
        assert_eq!(
            hosts(&found),
            [
                "docker.io",
                "ip6-only.example.com",
                "localhost:5000",
                "registry.example.com:8443"
            ]
        );
        assert!(found.left_out.iter().eq(["ip6-0-1_5000", "team"]));
        let some = hosts_of_store(&names, |name| name.as_str().starts_with("docker.io/"));
        assert_eq!(hosts(&some), ["docker.io"]);
        assert!(some.left_out.is_empty());
    }

    #[test]
    fn of_a_bundle() {
        let digest = Digest::sha256(b"x");
        let manifest = serde_json::to_value(Descriptor::new(media_type::OCI_MANIFEST, digest, 1));
        let manifest = manifest.unwrap();
        let head = serde_json::json!({
            "format": "kubepkg.dev/bundle/v1", "repositories": [], "packages": [],
            "charts": [{"repository": "https://charts.example.com/stable", "name": "web",
                "version": "1", "archive": digest, "manifest": manifest, "packages": []}],
            "trees": [{"reference": format!("ghcr.io/o/t@{digest}"), "manifest": manifest,
                "packages": []}],
            "images": [
                {"reference": format!("nginx@{digest}"), "manifest": manifest, "platforms": [],
                    "packages": [], "pinned": true},
                {"reference": format!("r.example:5000/a@{digest}"), "manifest": manifest,
                    "platforms": [], "packages": [], "pinned": true},
            ],
            "referrers": [], "holes": [], "blobs": [],
        });
        let head: Head = serde_json::from_value(head).unwrap();
        let found = hosts_of_head(&head);
        assert_eq!(hosts(&found), ["docker.io", "ghcr.io", "r.example:5000"]);
    }
}
