//! Commands that people copy: they work as they stand.

use kubepkg_core::name::RepositoryName;
use kubepkg_core::name::Tag;

/// What something is for those who pull it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// An image.
    Image,
    /// A chart.
    Chart,
    /// Anything else in a registry.
    Artifact,
}

impl What {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            What::Image => "image",
            What::Chart => "chart",
            What::Artifact => "artifact",
        }
    }
}

/// Where clients reach the mirror.
#[derive(Clone, Debug)]
pub(super) struct Address {
    host: String,
    tls: bool,
}

impl Address {
    /// As the client calls it; a word to be replaced where it does not say.
    pub(super) fn new(host: Option<String>, tls: bool) -> Address {
        Address {
            host: host.unwrap_or_else(|| "MIRROR".to_owned()),
            tls,
        }
    }

    /// The URL of the mirror, without a path.
    pub(super) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }

    /// `host[:port]`.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The command that pulls a tag. Names and tags have no characters a shell knows.
    pub(super) fn pull(&self, what: What, repository: &RepositoryName, tag: &Tag) -> String {
        let host = &self.host;
        // docker has a setting of its own for that
        let plain = if self.tls { "" } else { " --plain-http" };
        match what {
            What::Image => format!("docker pull {host}/{repository}:{tag}"),
            What::Chart => {
                // a registry knows no `+`, Helm writes it so
                let version = tag.as_str().replace('_', "+");
                format!("helm pull oci://{host}/{repository} --version {version}{plain}")
            }
            What::Artifact => format!("oras pull{plain} {host}/{repository}:{tag}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_mirror_as_it_was_asked() {
        let address = Address::new(Some("mirror.lan:5000".to_owned()), true);
        let name: RepositoryName = "docker.io/library/web".parse().unwrap();
        let tag: Tag = "1.0.0_up2".parse().unwrap();
        assert_eq!(
            address.pull(What::Image, &name, &tag),
            "docker pull mirror.lan:5000/docker.io/library/web:1.0.0_up2"
        );
        assert_eq!(
            address.pull(What::Chart, &name, &tag),
            "helm pull oci://mirror.lan:5000/docker.io/library/web --version 1.0.0+up2"
        );
        let plain = Address::new(None, false);
        assert_eq!((plain.host(), &*plain.url()), ("MIRROR", "http://MIRROR"));
        let command = plain.pull(What::Chart, &name, &tag);
        assert!(
            command.ends_with("--version 1.0.0+up2 --plain-http"),
            "{command}"
        );
    }
}
