//! Talos: a machine configuration patch with the registries' mirrors
//! (`talosctl patch machineconfig --patch @registry-mirrors.yaml`).
//!
//! The form under `machine.registries` is read by every Talos release; `skipFallback` (1.9 and
//! later) closes the way to the upstream. The mirrors take effect without a reboot.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{Error, Hosts, Mirror, OutFile};

/// Name of the file.
const FILE: &str = "registry-mirrors.yaml";

/// The patch for `hosts`.
pub fn files(mirror: &Mirror, hosts: &Hosts) -> Result<Vec<OutFile>, Error> {
    if hosts.hosts.is_empty() {
        return Err(Error::NoHosts);
    }
    let mut content = "# Written by kubepkg. What the mirror does not have fails; nothing is fetched elsewhere.\n\
         machine:\n  registries:\n    mirrors:\n"
        .to_owned();
    for host in &hosts.hosts {
        if host.contains('[') {
            return Err(Error::Host {
                host: host.clone(),
                why: "containerd, which Talos configures from this, has no folder name for an IPv6 address",
            });
        }
        let (name, url) = (quoted(host), quoted(&mirror.endpoint(host)?));
        content.push_str(&format!(
            "      {name}:\n        endpoints:\n          - {url}\n        overridePath: true\n        skipFallback: true\n"
        ));
    }
    if let Some(pem) = mirror.carried_ca() {
        let (host, ca) = (quoted(mirror.host()), quoted(&STANDARD.encode(pem)));
        content.push_str(&format!(
            "    config:\n      {host}:\n        tls:\n          ca: {ca}\n"
        ));
    }
    let path = FILE.to_owned();
    Ok(vec![OutFile { path, content }])
}

/// A YAML double-quoted string; JSON's is one.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_patch() {
        let mirror = Mirror::new("https://mirror.lan:5000").unwrap();
        let hosts = Hosts {
            hosts: ["docker.io", "r.example:8443"].map(str::to_owned).into(),
            ..Hosts::default()
        };
        let want = r#"# Written by kubepkg. What the mirror does not have fails; nothing is fetched elsewhere.
machine:
  registries:
    mirrors:
      "docker.io":
        endpoints:
          - "https://mirror.lan:5000/v2/docker.io"
        overridePath: true
        skipFallback: true
      "r.example:8443":
        endpoints:
          - "https://mirror.lan:5000/v2/r.example_8443"
        overridePath: true
        skipFallback: true
"#;
        let files = files(&mirror, &hosts).unwrap();
        assert_eq!(
            files,
            [OutFile {
                path: "registry-mirrors.yaml".to_owned(),
                content: want.to_owned()
            }]
        );
    }

    #[test]
    fn a_carried_ca_is_in_the_patch() {
        let mirror = Mirror::new("https://mirror.lan:5000/proxy").unwrap();
        let mirror = mirror.carry_ca("-----BEGIN CERTIFICATE-----\n").unwrap();
        let hosts = Hosts {
            hosts: ["docker.io".to_owned()].into(),
            ..Hosts::default()
        };
        let content = files(&mirror, &hosts).unwrap().remove(0).content;
        let want = "        skipFallback: true\n    config:\n      \"mirror.lan:5000\":\n        tls:\n          \
                    ca: \"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==\"\n";
        assert!(content.ends_with(want), "{content}");
    }

    #[test]
    fn nothing_to_write_and_hosts_without_a_form_are_said() {
        let mirror = Mirror::new("http://m").unwrap();
        let of = |hosts: &[&str]| Hosts {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            ..Hosts::default()
        };
        assert!(matches!(files(&mirror, &of(&[])), Err(Error::NoHosts)));
        let ipv6 = files(&mirror, &of(&["[::1]:5000"]));
        assert!(matches!(ipv6, Err(Error::Host { .. })));
    }
}
