//! One `hosts.toml`, as containerd reads it (its documentation, "Registry Configuration").
//! What has no meaning here (`dial_timeout`, the capability `push`) is passed over.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use toml::Spanned;

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct File {
    /// The address of the registry itself, where the file gives one.
    pub(super) server: Option<String>,
    /// How it is reached.
    pub(super) own: Settings,
    /// Servers that are asked before it, in the order of the file.
    pub(super) hosts: Vec<(String, Settings)>,
}

/// How one server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Whether it is asked for content by digest.
    pub(super) pull: bool,
    /// Whether it is asked what a tag points at.
    pub(super) resolve: bool,
    /// Whether its path is the whole path of the API.
    pub(super) override_path: bool,
    /// Files of certificate authorities.
    pub(super) ca: Vec<String>,
    /// Certificates to show, with their keys where these are in another file.
    pub(super) client: Vec<(String, Option<String>)>,
    /// Headers to send.
    pub(super) headers: Vec<(String, String)>,
    /// Whether containerd does without checking the certificate. We never do.
    pub(super) skip_verify: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Wired::default().settings()
    }
}

#[derive(Deserialize)]
struct Wire {
    server: Option<String>,
    // positions give the order of the file, which a map does not keep
    #[serde(default)]
    host: HashMap<Spanned<String>, Wired>,
    #[serde(default)]
    ca: OneOrMany,
    #[serde(default)]
    client: Clients,
    #[serde(default)]
    header: BTreeMap<String, OneOrMany>,
    #[serde(default)]
    skip_verify: bool,
    #[serde(default)]
    override_path: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Wired {
    capabilities: Option<Vec<String>>,
    ca: OneOrMany,
    client: Clients,
    header: BTreeMap<String, OneOrMany>,
    skip_verify: bool,
    override_path: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> OneOrMany {
        OneOrMany::Many(Vec::new())
    }
}

impl OneOrMany {
    fn all(self) -> Vec<String> {
        match self {
            OneOrMany::One(one) => vec![one],
            OneOrMany::Many(many) => many,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Clients {
    Files(OneOrMany),
    Pairs(Vec<Vec<String>>),
}

impl Default for Clients {
    fn default() -> Clients {
        Clients::Pairs(Vec::new())
    }
}

impl Clients {
    fn all(self) -> Vec<(String, Option<String>)> {
        match self {
            Clients::Files(files) => files.all().into_iter().map(|file| (file, None)).collect(),
            Clients::Pairs(pairs) => pairs
                .into_iter()
                .filter_map(|pair| {
                    let mut pair = pair.into_iter();
                    let certificate = pair.next()?;
                    Some((certificate, pair.next().filter(|key| !key.is_empty())))
                })
                .collect(),
        }
    }
}

impl Wired {
    fn settings(self) -> Settings {
        let capability = |name: &str| match &self.capabilities {
            Some(named) => named.iter().any(|capability| capability == name),
            None => true,
        };
        Settings {
            pull: capability("pull"),
            resolve: capability("resolve"),
            override_path: self.override_path,
            ca: self.ca.all(),
            client: self.client.all(),
            headers: headers(self.header),
            skip_verify: self.skip_verify,
        }
    }
}

fn headers(wire: BTreeMap<String, OneOrMany>) -> Vec<(String, String)> {
    let all = wire.into_iter().flat_map(|(name, values)| {
        let values = values.all().into_iter();
        values.map(move |value| (name.clone(), value))
    });
    all.collect()
}

impl File {
    /// Reads a file. The error names no value: headers may be secrets.
    pub(super) fn read(text: &str) -> Result<File, String> {
        let wire: Wire = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            let line = line.map_or(String::new(), |line| format!(", line {line}"));
            let message = match error.message() {
                message if message.contains('`') || message.contains('"') => "not as expected",
                message => message,
            };
            format!("it is no hosts.toml{line}: {message}")
        })?;
        let mut hosts: Vec<(Spanned<String>, Wired)> = wire.host.into_iter().collect();
        hosts.sort_by_key(|(name, _)| name.span().start);
        Ok(File {
            server: wire.server.filter(|server| !server.is_empty()),
            own: Wired {
                capabilities: None,
                ca: wire.ca,
                client: wire.client,
                header: wire.header,
                skip_verify: wire.skip_verify,
                override_path: wire.override_path,
            }
            .settings(),
            hosts: hosts
                .into_iter()
                .map(|(name, wired)| (name.into_inner(), wired.settings()))
                .collect(),
        })
    }
}

fn line_of(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or(text);
    before.matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file() {
        let file = File::read(
            r#"
server = "https://registry-1.docker.io"
ca = "docker.crt"
[host."https://z.example/v2/docker.io"]
  capabilities = ["pull"]
  override_path = true
  ca = ["a.crt", "/b.crt"]
  client = [["c.cert", "c.key"], ["d.pem", ""]]
  [host."https://z.example/v2/docker.io".header]
    x-one = "1"
    x-two = ["2", "3"]
[host."https://a.example"]
  skip_verify = true
  dial_timeout = "3s"
  client = "e.pem"
"#,
        )
        .unwrap();
        assert_eq!(file.server.as_deref(), Some("https://registry-1.docker.io"));
        assert_eq!(file.own.ca, ["docker.crt"]);
        let names: Vec<&str> = file.hosts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["https://z.example/v2/docker.io", "https://a.example"]
        );
        let first = &file.hosts[0].1;
        assert!(first.pull && !first.resolve && first.override_path);
        assert_eq!(first.ca, ["a.crt", "/b.crt"]);
        assert_eq!(
            first.client,
            [
                ("c.cert".to_owned(), Some("c.key".to_owned())),
                ("d.pem".to_owned(), None)
            ]
        );
        assert_eq!(first.headers.len(), 3);
        let second = &file.hosts[1].1;
        assert!(second.pull && second.resolve && second.skip_verify);
        assert_eq!(second.client, [("e.pem".to_owned(), None)]);
    }

    #[test]
    fn nonsense_is_refused_without_giving_away_values() {
        for bad in [
            "server = 1",
            "[host]\nx = 1",
            "header = \"secret\"",
            "[header]\nauthorization = { secret = \"secret\" }",
            "server = \"secret",
        ] {
            let why = File::read(bad).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
        assert_eq!(File::read("").unwrap(), File::default());
    }
}
