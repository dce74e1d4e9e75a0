//! Settings for each registry host in containerd's form (`certs.d`), so that the same folder
//! serves the nodes and us: `<folder>/<host>/hosts.toml`, or a folder of certificates, and
//! `_default` for all other hosts.
//!
//! Differences, each on the safe side: `skip_verify` is not followed, for content from a host
//! that nobody recognised would be carried to a place where nothing can be checked again; name
//! its authority with `ca` instead. Files that cannot be read are an error.

mod file;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use kubepkg_core::location::redacted;
use kubepkg_core::reference::{DOCKER_HUB, canonical_host};
use url::Url;

use crate::error::{Fault, RemoteError, shown};
use crate::registry::DOCKER_HUB_API;
use crate::tls::{Certificates, Line};
use file::{File, Settings};

/// Largest file: real ones have some hundred bytes.
const MAX_FILE: u64 = 1 << 20;

/// Most folders that are looked at.
const MAX_FOLDERS: usize = 1_000;

/// The folder for every host without one of its own.
const DEFAULT: &str = "_default";

/// All settings of a folder.
#[derive(Default)]
pub(crate) struct HostSettings {
    hosts: BTreeMap<String, Servers>,
    default: Option<Servers>,
}

/// The servers for one host.
struct Servers {
    mirrors: Vec<Server>,
    /// The registry itself. In `_default` it has no address of its own unless the file gives
    /// one.
    origin: Server,
    /// The file that says so.
    file: PathBuf,
}

/// One server.
#[derive(Clone)]
pub(crate) struct Server {
    /// `scheme://host[:port]`; `None` for the registry itself where nothing is said.
    pub(crate) url: Option<Url>,
    /// Path of the API, without a slash at its end.
    pub(crate) base: String,
    /// Whether it may be asked for content by digest.
    pub(crate) pull: bool,
    /// Whether it may be asked what a tag points at.
    pub(crate) resolve: bool,
    /// Certificates and headers.
    pub(crate) line: Arc<Line>,
}

impl HostSettings {
    /// Reads `folder`. `own` are the certificates every registry is reached with where its
    /// file names no others; mirrors do not get to know who we are by them.
    pub(crate) fn load(folder: &Path, own: &Certificates) -> Result<HostSettings, RemoteError> {
        let wrong = |path: &Path, fault| RemoteError::new(path.display().to_string(), fault);
        let entries = std::fs::read_dir(folder).map_err(|e| wrong(folder, Fault::File(e)))?;
        let mut names = Vec::new();
        for entry in entries.take(MAX_FOLDERS) {
            let entry = entry.map_err(|e| wrong(folder, Fault::File(e)))?;
            if entry.path().is_dir() {
                names.push(entry.path());
            }
        }
        // `host_5000_` before `host:5000`, as containerd looks for them
        names.sort_by_key(|path| std::cmp::Reverse(path.file_name().map(ToOwned::to_owned)));
        let mut all = HostSettings::default();
        for path in names {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let (file, at) = read(&path)?;
            let servers =
                || Servers::new(&file, &path, &at, own).map_err(|fault| wrong(&at, fault));
            if name == DEFAULT {
                all.default = Some(servers()?);
            } else if let Some(host) = host_of_folder(name) {
                let servers = servers()?;
                all.hosts.entry(host).or_insert(servers);
            }
        }
        Ok(all)
    }

    fn of(&self, host: &str) -> Option<&Servers> {
        self.hosts.get(host).or(self.default.as_ref())
    }

    /// The servers to ask for content of `host`, the registry itself last.
    pub(crate) fn servers(&self, host: &str) -> Vec<Server> {
        let Some(servers) = self.of(host) else {
            return Vec::new();
        };
        let mut all = servers.mirrors.clone();
        all.push(servers.origin.clone());
        all
    }

    /// The registry `host` itself, and the file that says how it is reached.
    pub(crate) fn origin(&self, host: &str) -> Option<(&Server, &Path)> {
        let servers = self.of(host)?;
        Some((&servers.origin, &servers.file))
    }

    /// How `host` itself is reached, for what is no registry.
    pub(crate) fn line(&self, host: &str) -> Option<Arc<Line>> {
        let servers = self.hosts.get(host)?;
        Some(Arc::clone(&servers.origin.line))
    }

    /// The servers that are to be reached over plain HTTP: a file that says `http://` says
    /// that this is what is wanted there.
    pub(crate) fn plain(&self) -> impl Iterator<Item = &Url> {
        let all = self.hosts.values().chain(&self.default);
        let servers = all.flat_map(|servers| servers.mirrors.iter().chain([&servers.origin]));
        servers
            .filter_map(|server| server.url.as_ref())
            .filter(|url| url.scheme() == "http")
    }
}

impl Servers {
    fn new(file: &File, folder: &Path, at: &Path, own: &Certificates) -> Result<Servers, Fault> {
        let unknown = own.unknown();
        let mirrors = file
            .hosts
            .iter()
            .map(|(url, settings)| Server::new(Some(url), settings, folder, &unknown))
            .collect::<Result<_, _>>()?;
        let origin = Server::new(file.server.as_deref(), &file.own, folder, own)?;
        Ok(Servers {
            mirrors,
            origin,
            file: at.to_owned(),
        })
    }
}

impl Server {
    fn new(
        address: Option<&str>,
        settings: &Settings,
        folder: &Path,
        own: &Certificates,
    ) -> Result<Server, Fault> {
        let wrong = |why: String| Fault::HostSettings(why);
        let url = address.map(parse).transpose().map_err(wrong)?;
        let path = url.as_ref().map_or("", |url| url.path());
        let path = path.trim_end_matches('/');
        let base = match path {
            path if settings.override_path || path.ends_with("/v2") => path.to_owned(),
            path => format!("{path}/v2"),
        };
        let mut certificates = own.clone();
        for ca in &settings.ca {
            certificates
                .trust(&folder.join(ca))
                .map_err(|e| wrong(e.to_string()))?;
        }
        if let Some((certificate, key)) = settings.client.first() {
            let key = key.as_ref().map(|key| folder.join(key));
            certificates
                .show(&folder.join(certificate), key.as_deref())
                .map_err(|e| wrong(e.to_string()))?;
        }
        if settings.skip_verify {
            tracing::warn!(
                file = %folder.display(),
                "skip_verify is not followed; name the authority of the server with `ca`"
            );
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let name = HeaderName::try_from(name.as_str());
            let name = name.map_err(|_| wrong("a header has no legal name".to_owned()))?;
            let value = HeaderValue::try_from(value.as_str());
            let mut value =
                value.map_err(|_| wrong(format!("the value of the header {name} is not legal")))?;
            value.set_sensitive(true);
            headers.append(name, value);
        }
        Ok(Server {
            url,
            base,
            pull: settings.pull,
            resolve: settings.resolve,
            line: Arc::new(Line::new(certificates, headers)),
        })
    }
}

/// An address; without a scheme it is HTTPS.
fn parse(address: &str) -> Result<Url, String> {
    let text = match address.contains("://") {
        true => address.to_owned(),
        false => format!("https://{address}"),
    };
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "https" | "http") && url.has_host() => Ok(url),
        _ => Err(format!(
            "\"{}\" is no address of a server",
            shown(&redacted(address))
        )),
    }
}

/// What a folder says, and the file to name where it makes no sense.
fn read(folder: &Path) -> Result<(File, PathBuf), RemoteError> {
    let path = folder.join("hosts.toml");
    let wrong = |fault| RemoteError::new(path.display().to_string(), fault);
    let text = match std::fs::metadata(&path) {
        Ok(meta) if meta.len() > MAX_FILE => {
            return Err(wrong(Fault::TooLarge { limit: MAX_FILE }));
        }
        Ok(_) => std::fs::read_to_string(&path).map_err(|e| wrong(Fault::File(e)))?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok((certificates(folder)?, folder.to_owned()));
        }
        Err(e) => return Err(wrong(Fault::File(e))),
    };
    let file = File::read(&text).map_err(|why| wrong(Fault::HostSettings(why)))?;
    Ok((file, path))
}

/// A folder without `hosts.toml`, in Docker's form: `*.crt` are authorities, `NAME.cert` and
/// `NAME.key` a certificate to show.
fn certificates(folder: &Path) -> Result<File, RemoteError> {
    let wrong = |e| RemoteError::new(folder.display().to_string(), Fault::File(e));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        names.extend(entry.map_err(wrong)?.file_name().into_string());
    }
    names.sort();
    let mut file = File::default();
    for name in &names {
        match name.rsplit_once('.') {
            Some((_, "crt")) => file.own.ca.push(name.clone()),
            Some((stem, "cert")) => {
                let key = format!("{stem}.key");
                let key = names.contains(&key).then_some(key);
                file.own.client.push((name.clone(), key));
            }
            _ => {}
        }
    }
    Ok(file)
}

/// The host a folder is for: `host`, `host:port`, or `host_port_` where names may hold no
/// colon.
fn host_of_folder(name: &str) -> Option<String> {
    let text = match name
        .strip_suffix('_')
        .and_then(|rest| rest.rsplit_once('_'))
    {
        Some((host, port)) => format!("{host}:{port}"),
        None => name.to_owned(),
    };
    canonical_host(&text)
}

/// The address of the registry `host` itself.
pub(crate) fn origin(host: &str) -> &str {
    match host {
        DOCKER_HUB => DOCKER_HUB_API,
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::host_of;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn load(files: &[(&str, &str)]) -> Result<HostSettings, RemoteError> {
        HostSettings::load(folder(files).path(), &Certificates::default())
    }

    fn addresses(settings: &HostSettings, host: &str) -> Vec<String> {
        let text = |server: Server| match server.url {
            Some(url) => format!("{}://{}{}", url.scheme(), host_of(&url), server.base),
            None => server.base,
        };
        settings.servers(host).into_iter().map(text).collect()
    }

    #[test]
    fn mirrors_come_first_and_the_registry_last() {
        let settings = load(&[
            (
                "docker.io/hosts.toml",
                "server = \"https://registry-1.docker.io\"\n\
                 [host.\"http://m.example:5000/v2/docker.io\"]\noverride_path = true\n\
                 [host.\"https://b.example/hub\"]\n[host.\"c.example\"]\n",
            ),
            ("quay.io_8443_/hosts.toml", "[host.\"https://m.example\"]\n"),
            (
                "quay.io:8443/hosts.toml",
                "[host.\"https://late.example\"]\n",
            ),
            ("_default/hosts.toml", "[host.\"https://d.example\"]\n"),
        ])
        .unwrap();
        assert_eq!(
            addresses(&settings, "docker.io"),
            [
                "http://m.example:5000/v2/docker.io",
                "https://b.example/hub/v2",
                "https://c.example/v2",
                "https://registry-1.docker.io/v2"
            ]
        );
        assert_eq!(
            addresses(&settings, "quay.io:8443"),
            ["https://m.example/v2", "/v2"]
        );
        assert_eq!(
            addresses(&settings, "other.example"),
            ["https://d.example/v2", "/v2"]
        );
        let plain: Vec<&str> = settings.plain().map(Url::as_str).collect();
        assert_eq!(plain, ["http://m.example:5000/v2/docker.io"]);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (files, word) in [
            (&[("a.example/hosts.toml", "server = [")][..], "hosts.toml"),
            (&[("a.example/hosts.toml", "ca = \"no.crt\"")], "no.crt"),
            (&[("a.example/x.crt", "nothing")], "x.crt"),
            (
                &[("a.example/hosts.toml", "server = \"ftp://u:secret@x\"")],
                "is no address",
            ),
            (
                &[("a.example/hosts.toml", "[header]\n\"a b\" = \"secret\"")],
                "legal name",
            ),
        ] {
            let Err(error) = load(files) else {
                panic!("{files:?} accepted");
            };
            let text = error.to_string();
            assert!(text.contains(word) && text.contains("a.example"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn folders_and_their_hosts() {
        for (name, host) in [
            ("docker.io", Some("docker.io")),
            ("a.example_5000_", Some("a.example:5000")),
            ("a.example:5000", Some("a.example:5000")),
            ("A.Example", Some("a.example")),
            ("no host", None),
        ] {
            assert_eq!(host_of_folder(name).as_deref(), host, "{name}");
        }
    }
}
