//! Packages, and signed indexes of them.

use kubepkg_core::Digest;
use kubepkg_core::api::{
    Chart, Component, Metadata, OCI_ARTIFACT, PACKAGE_SOURCE_KIND, PackageSource,
    PackageSourceSpec, Requirement, SourceRef, Variant,
};
use kubepkg_core::index::build::{Found, collect};
use kubepkg_core::index::signature::Signatures;
use kubepkg_core::keys::PrivateKey;
use kubepkg_core::time::Time;
use kubepkg_core::yaml::write;

/// A package with one variant, `default`, until [`Package::variant`] begins another one.
#[derive(Clone, Debug)]
pub struct Package {
    source: PackageSource,
}

impl Package {
    /// A package that needs nothing.
    pub fn new(name: &str, version: &str) -> Package {
        let variant = Variant {
            name: "default".to_owned(),
            ..Variant::default()
        };
        Package {
            source: PackageSource {
                api_version: "kubepkg.dev/v1".to_owned(),
                kind: PACKAGE_SOURCE_KIND.to_owned(),
                metadata: Metadata {
                    name: name.to_owned(),
                    ..Metadata::default()
                },
                spec: PackageSourceSpec {
                    version: version.to_owned(),
                    variants: vec![variant],
                    ..PackageSourceSpec::default()
                },
            },
        }
    }

    fn last(&mut self) -> &mut Variant {
        self.source.spec.variants.last_mut().unwrap()
    }

    /// With this build.
    #[must_use]
    pub fn build(mut self, build: i32) -> Package {
        self.source.spec.build = build;
        self
    }

    /// Begins a variant; what is added next belongs to it.
    #[must_use]
    pub fn variant(mut self, name: &str) -> Package {
        self.source.spec.variants.push(Variant {
            name: name.to_owned(),
            ..Variant::default()
        });
        self
    }

    /// With a component from a chart, pinned where a digest is given.
    #[must_use]
    pub fn chart(
        mut self,
        repository: &str,
        name: &str,
        version: &str,
        digest: Option<Digest>,
    ) -> Package {
        let chart = Chart {
            repository: repository.to_owned(),
            name: name.to_owned(),
            version: version.to_owned(),
            digest: digest.map(|d| d.to_string()).unwrap_or_default(),
        };
        self.last().components.push(Component {
            name: name.to_owned(),
            chart: Some(chart),
            ..Component::default()
        });
        self
    }

    /// With a component `path` from a package tree, `oci://…@sha256:…`.
    #[must_use]
    pub fn tree(mut self, url: &str, path: &str) -> Package {
        self.source.spec.source_ref = Some(SourceRef {
            kind: OCI_ARTIFACT.to_owned(),
            url: url.to_owned(),
            ..SourceRef::default()
        });
        self.last().components.push(Component {
            name: path.to_owned(),
            path: path.to_owned(),
            ..Component::default()
        });
        self
    }

    /// With an image, `host/path[:tag]@sha256:…`.
    #[must_use]
    pub fn image(mut self, reference: &str) -> Package {
        self.source.spec.images.push(reference.to_owned());
        self
    }

    /// Requires another package; an empty constraint takes any version.
    #[must_use]
    pub fn requires(mut self, package: &str, constraint: &str) -> Package {
        self.last()
            .requires
            .push(requirement(package, constraint, false));
        self
    }

    /// Would like another package.
    #[must_use]
    pub fn wishes(mut self, package: &str, constraint: &str) -> Package {
        self.last()
            .requires
            .push(requirement(package, constraint, true));
        self
    }

    /// The PackageSource.
    pub fn source(&self) -> &PackageSource {
        &self.source
    }

    /// The PackageSource as a file.
    pub fn to_yaml(&self) -> String {
        write::to_string(&self.source).unwrap()
    }
}

fn requirement(package: &str, constraint: &str, optional: bool) -> Requirement {
    Requirement {
        package: package.to_owned(),
        version: constraint.to_owned(),
        optional,
        ..Requirement::default()
    }
}

/// The text of an index; every chart must be pinned.
pub fn index(packages: &[Package], generated: Time, expires: Option<Time>) -> Vec<u8> {
    let found = packages.iter().enumerate().map(|(number, package)| Found {
        file: format!("{number}.yaml"),
        line: 1,
        source: package.source.clone(),
    });
    let draft = collect(found.collect()).unwrap();
    draft.to_yaml(generated, expires).unwrap()
}

/// The signature file of an index, by one key.
pub fn sign(index: &[u8], key: &PrivateKey) -> String {
    Signatures::write_plain(&key.sign(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubepkg_core::index::Index;
    use kubepkg_core::index::build::read_file;

    #[test]
    fn an_index_reads_back_and_its_signature_holds() {
        let digest = Digest::sha256(b"x");
        let web = Package::new("web", "1.2.3")
            .build(2)
            .chart("https://charts.example.com", "web", "1.2.3", Some(digest))
            .image(&format!("registry.example.com/web:1@{digest}"))
            .requires("mirror", ">=1");
        let file = read_file("web.yaml", &web.to_yaml()).unwrap();
        assert_eq!(file[0].source, *web.source());
        let text = index(&[web], Time::from_unix(0), None);
        let read = Index::read(&text).unwrap();
        assert_eq!(read.packages["web"].versions[0].build, 2);
        let key = PrivateKey::generate().unwrap();
        let signatures = Signatures::parse(sign(&text, &key).as_bytes()).unwrap();
        assert_eq!(
            signatures.signed_by(&text, &[key.public().unwrap()]).len(),
            1
        );
    }
}
