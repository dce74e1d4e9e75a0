//! containerd: one `hosts.toml` per registry, in the folder `config_path` names (usually
//! `/etc/containerd/certs.d`).
//!
//! containerd takes a file it cannot read for no file, and pulls from the internet. So only
//! what every version since 1.6 reads is written: root keys *and* one `[host]` table, the
//! root's `server` being the mirror again, which is what closes the way to the upstream;
//! `override_path`, because the URL already is the whole API path; no capability but `pull`
//! and `resolve`. The files are read at every pull, nothing has to be restarted.

use std::fmt::Write as _;

use crate::mirror::CA_FILE;
use crate::{Error, Hosts, Mirror, OutFile};

/// Name of the file in each registry's folder.
const FILE: &str = "hosts.toml";

/// Folder for registries that have none of their own (containerd 1.7 and later).
const DEFAULT: &str = "_default";

/// Whether registries that are not named are sent to the mirror too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They keep the settings they have, by default their own address.
    #[default]
    AsTheyAre,
    /// They go to the mirror, which finds them by `ns`, and nowhere else.
    ToTheMirror,
}

/// The files for `hosts`, by their path below the `config_path` folder.
pub fn files(mirror: &Mirror, hosts: &Hosts, others: Others) -> Result<Vec<OutFile>, Error> {
    let mut files = Vec::new();
    for host in &hosts.hosts {
        let url = mirror.endpoint(host)?;
        files.push(OutFile {
            path: format!("{}/{FILE}", folder(host)?),
            content: hosts_toml(&url, mirror, true),
        });
    }
    if others == Others::ToTheMirror {
        files.push(OutFile {
            path: format!("{DEFAULT}/{FILE}"),
            content: hosts_toml(mirror.base(), mirror, false),
        });
    }
    if files.is_empty() {
        return Err(Error::NoHosts);
    }
    if let (Some(pem), true) = (mirror.carried_ca(), mirror.brings_ca()) {
        files.push(OutFile {
            path: CA_FILE.to_owned(),
            content: pem.to_owned(),
        });
    }
    Ok(files)
}

/// The folder containerd looks into first for `host[:port]`. It is legal on every file system,
/// unlike the one with a colon.
fn folder(host: &str) -> Result<String, Error> {
    if host.contains('[') {
        return Err(Error::Host {
            host: host.to_owned(),
            why: "containerd has no folder name for an IPv6 address without port, and versions before 2.0 cannot read one",
        });
    }
    Ok(match host.rsplit_once(':') {
        Some((name, port)) => format!("{name}_{port}_"),
        None => host.to_owned(),
    })
}

fn hosts_toml(url: &str, mirror: &Mirror, override_path: bool) -> String {
    let url = quoted(url);
    let keys = |indent: &str| {
        let mut keys = format!("{indent}capabilities = [\"pull\", \"resolve\"]\n");
        if override_path {
            // writing to a String cannot fail
            let _ = writeln!(keys, "{indent}override_path = true");
        }
        if let Some(ca) = mirror.ca() {
            let _ = writeln!(keys, "{indent}ca = {}", quoted(ca));
        }
        if let Some((certificate, key)) = mirror.client() {
            let (certificate, key) = (quoted(certificate), quoted(key));
            let _ = writeln!(keys, "{indent}client = [[{certificate}, {key}]]");
        }
        keys
    };
    format!(
        "# Written by kubepkg. What the mirror does not have fails; nothing is fetched elsewhere.\n\
         server = {url}\n{}\n[host.{url}]\n{}",
        keys(""),
        keys("  ")
    )
}

/// A TOML basic string. JSON's escapes are among TOML's; DEL is refused before it gets here.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use toml::{Table, toml};

    use super::*;

    fn hosts(hosts: &[&str]) -> Hosts {
        Hosts {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ..Hosts::default()
        }
    }

    fn emit(mirror: &Mirror, names: &[&str], others: Others) -> Vec<(String, Table)> {
        let files = files(mirror, &hosts(names), others).unwrap();
        let parsed = |file: OutFile| (file.path, file.content.parse::<Table>().unwrap());
        files.into_iter().map(parsed).collect()
    }

    #[test]
    fn one_file_for_each_registry_that_never_reaches_the_internet() {
        let mirror = Mirror::new("http://10.0.0.5:5000").unwrap();
        let want = |element: &str| {
            let url = format!("http://10.0.0.5:5000/v2/{element}");
            let mut host = Table::new();
            let keys = toml! { capabilities = ["pull", "resolve"]
            override_path = true };
            host.insert(url.clone(), keys.clone().into());
            let mut file = keys;
            file.insert("server".to_owned(), url.into());
            file.insert("host".to_owned(), host.into());
            file
        };
        assert_eq!(
            emit(&mirror, &["docker.io", "r.example:8443"], Others::AsTheyAre),
            [
                ("docker.io/hosts.toml".to_owned(), want("docker.io")),
                (
                    "r.example_8443_/hosts.toml".to_owned(),
                    want("r.example_8443")
                ),
            ]
        );
    }

    #[test]
    fn the_ca_stands_at_the_root_and_in_the_table() {
        let mirror = Mirror::new("https://mirror.lan").unwrap();
        let mirror = mirror.with_ca("/etc/a \"b\"\\c.crt").unwrap();
        for (_, file) in emit(&mirror, &["quay.io"], Others::ToTheMirror) {
            let host = file["host"].as_table().unwrap();
            let url = file["server"].as_str().unwrap();
            assert_eq!(host.len(), 1);
            for keys in [&file, host[url].as_table().unwrap()] {
                assert_eq!(keys["ca"].as_str(), Some("/etc/a \"b\"\\c.crt"));
            }
        }
    }

    #[test]
    fn a_client_certificate_stands_at_the_root_and_in_the_table() {
        let mirror = Mirror::new("https://mirror.lan").unwrap();
        let mirror = mirror.with_client("/etc/n.crt", "/etc/n.key").unwrap();
        for (_, file) in emit(&mirror, &["quay.io"], Others::ToTheMirror) {
            let host = file["host"].as_table().unwrap();
            let url = file["server"].as_str().unwrap();
            for keys in [&file, host[url].as_table().unwrap()] {
                let pairs = keys["client"].as_array().unwrap();
                let pair = pairs[0].as_array().unwrap();
                let pair: Vec<&str> = pair.iter().map(|path| path.as_str().unwrap()).collect();
                assert_eq!(
                    (pairs.len(), &*pair),
                    (1, &["/etc/n.crt", "/etc/n.key"][..])
                );
            }
        }
    }

    #[test]
    fn a_carried_ca_lies_where_the_settings_look_for_it() {
        let pem = "-----BEGIN CERTIFICATE-----\n";
        let mirror = Mirror::new("https://mirror.lan").unwrap();
        let carried = mirror.carry_ca(pem).unwrap();
        let written = files(&carried, &hosts(&["quay.io"]), Others::AsTheyAre).unwrap();
        let [toml, ca] = &written[..] else {
            panic!("{written:?}");
        };
        assert_eq!((&*ca.path, &*ca.content), ("kubepkg-mirror-ca.crt", pem));
        let toml: Table = toml.content.parse().unwrap();
        let path = toml["ca"].as_str().unwrap();
        assert_eq!(path, "/etc/containerd/certs.d/kubepkg-mirror-ca.crt");
        // nodes that have it already are told where
        let there = carried.with_ca("/etc/ca.crt").unwrap();
        let written = files(&there, &hosts(&["quay.io"]), Others::AsTheyAre).unwrap();
        assert_eq!(written.len(), 1);
    }

    #[test]
    fn other_registries_go_to_the_mirror_without_a_prefix() {
        let mirror = Mirror::new("https://mirror.lan:5000").unwrap();
        let files = emit(&mirror, &["quay.io"], Others::ToTheMirror);
        let (path, file) = &files[1];
        assert_eq!(path, "_default/hosts.toml");
        assert_eq!(file["server"].as_str(), Some("https://mirror.lan:5000"));
        assert_eq!(file.get("override_path"), None);
        let host = file["host"].as_table().unwrap();
        assert!(host.contains_key("https://mirror.lan:5000"));
    }

    #[test]
    fn the_exact_file() {
        let mirror = Mirror::new("https://mirror.lan:5000").unwrap();
        let mirror = mirror.with_ca("/etc/containerd/kubepkg/ca.crt").unwrap();
        let files = files(&mirror, &hosts(&["docker.io"]), Others::AsTheyAre).unwrap();
        assert_eq!(
            files[0].content,
            "# Written by kubepkg. What the mirror does not have fails; nothing is fetched elsewhere.\n\
             server = \"https://mirror.lan:5000/v2/docker.io\"\n\
             capabilities = [\"pull\", \"resolve\"]\n\
             override_path = true\n\
             ca = \"/etc/containerd/kubepkg/ca.crt\"\n\
             \n\
             [host.\"https://mirror.lan:5000/v2/docker.io\"]\n  \
               capabilities = [\"pull\", \"resolve\"]\n  \
               override_path = true\n  \
               ca = \"/etc/containerd/kubepkg/ca.crt\"\n"
        );
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let mirror = Mirror::new("http://m").unwrap();
        for host in ["[::1]:5000", "[::1]", "no host", "a/b"] {
            let error = files(&mirror, &hosts(&[host]), Others::AsTheyAre).unwrap_err();
            assert!(matches!(error, Error::Host { .. }), "{host}: {error}");
        }
        let none = files(&mirror, &hosts(&[]), Others::AsTheyAre).unwrap_err();
        assert!(matches!(none, Error::NoHosts));
    }
}
