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

/// The name under which people keep the mirror's CA, for the commands that need it.
pub(super) const CA_FILE: &str = "kubepkg-mirror-ca.crt";

/// Where clients reach the mirror.
#[derive(Clone, Debug)]
pub(super) struct Address {
    host: String,
    tls: bool,
    /// SHA-256 of the CA that is handed out: clients do not know it.
    ca: Option<String>,
}

impl Address {
    /// As the client calls it; a word to be replaced where it does not say.
    /// `ca`: SHA-256 of the CA that is handed out.
    pub(super) fn new(host: Option<String>, tls: bool, ca: Option<String>) -> Address {
        Address {
            host: host.unwrap_or_else(|| "MIRROR".to_owned()),
            tls,
            ca: ca.filter(|_| tls),
        }
    }

    /// SHA-256 of the CA clients have to know, where there is one.
    pub(super) fn ca(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    /// The command that asks for `path`, with more `options` of curl.
    pub(super) fn curl(&self, options: &str, path: &str) -> String {
        let ca = match self.ca {
            Some(_) => format!(" --cacert {CA_FILE}"),
            None => String::new(),
        };
        format!("curl -fsS{ca}{options} {}{path}", self.url())
    }

    /// The commands that bring the CA and show its SHA-256. What brings it cannot check it yet.
    pub(super) fn bring_ca(&self) -> String {
        format!(
            "curl -fsSk -o {CA_FILE} {}/node-config/ca.crt\n\
             openssl x509 -in {CA_FILE} -noout -fingerprint -sha256",
            self.url()
        )
    }

    /// The command that makes docker know the CA.
    pub(super) fn docker_ca(&self) -> String {
        let host = &self.host;
        format!("sudo install -D -m 644 {CA_FILE} /etc/docker/certs.d/{host}/ca.crt")
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
        // docker has settings of its own for both
        let how = match (self.tls, &self.ca) {
            (false, _) => " --plain-http".to_owned(),
            (true, Some(_)) => format!(" --ca-file {CA_FILE}"),
            (true, None) => String::new(),
        };
        match what {
            What::Image => format!("docker pull {host}/{repository}:{tag}"),
            What::Chart => {
                // a registry knows no `+`, Helm writes it so
                let version = tag.as_str().replace('_', "+");
                format!("helm pull oci://{host}/{repository} --version {version}{how}")
            }
            What::Artifact => format!("oras pull{how} {host}/{repository}:{tag}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_mirror_as_it_was_asked() {
        let address = Address::new(Some("mirror.lan:5000".to_owned()), true, None);
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
        let plain = Address::new(None, false, Some("AA:BB".to_owned()));
        assert_eq!((plain.host(), &*plain.url()), ("MIRROR", "http://MIRROR"));
        let command = plain.pull(What::Chart, &name, &tag);
        assert!(
            command.ends_with("--version 1.0.0+up2 --plain-http"),
            "{command}"
        );
        assert_eq!(
            (plain.ca(), &*plain.curl("", "/x")),
            (None, "curl -fsS http://MIRROR/x")
        );
    }

    #[test]
    fn commands_name_the_ca_clients_do_not_know() {
        let fingerprint = || Some("AA:BB".to_owned());
        let address = Address::new(Some("mirror.lan".to_owned()), true, fingerprint());
        let name: RepositoryName = "docker.io/library/web".parse().unwrap();
        let tag: Tag = "1.0".parse().unwrap();
        for (what, command) in [
            (
                What::Image,
                "docker pull mirror.lan/docker.io/library/web:1.0",
            ),
            (
                What::Chart,
                "helm pull oci://mirror.lan/docker.io/library/web --version 1.0 --ca-file \
                 kubepkg-mirror-ca.crt",
            ),
            (
                What::Artifact,
                "oras pull --ca-file kubepkg-mirror-ca.crt mirror.lan/docker.io/library/web:1.0",
            ),
        ] {
            assert_eq!(address.pull(what, &name, &tag), command);
        }
        assert_eq!(
            address.curl(" -o x", "/y"),
            "curl -fsS --cacert kubepkg-mirror-ca.crt -o x https://mirror.lan/y"
        );
        assert_eq!(address.ca(), Some("AA:BB"));
    }
}
