//! `/node-config/<kind>` of a served mirror: what `node-config` writes, made for the address the
//! mirror is asked under.

use kubepkg_mirror::http::{NoSettings, SettingsAsked, SettingsFile};
use kubepkg_node_config::containerd::Others;
use kubepkg_node_config::hosts::hosts_of_store;
use kubepkg_node_config::{Error, Hosts, Mirror, OutFile, containerd, talos};

/// The kinds there are, for messages.
const KINDS: &str = "containerd, talos and ca.crt";

/// What the query may say.
#[derive(Default)]
struct Wishes {
    mirror: Option<String>,
    node_ca: Option<String>,
    client_cert: Option<String>,
    client_key: Option<String>,
    others: Others,
}

/// The settings of the kind that is asked for.
pub fn page(asked: &SettingsAsked<'_>) -> Result<SettingsFile, NoSettings> {
    let wishes = wishes(asked.query)?;
    if asked.path == "ca.crt" {
        return ca(asked);
    }
    let make = match asked.path {
        "containerd" => certs_d,
        "talos" => patch,
        other => {
            let other = kubepkg_core::error::shown(other);
            return Err(NoSettings::Unknown(format!(
                "no settings of the kind \"{other}\"; there are {KINDS}"
            )));
        }
    };
    let Some(url) = wishes.mirror.as_deref().or(asked.url) else {
        let why = "the request does not say under which address nodes reach this mirror; add \
                   ?mirror=URL";
        return Err(NoSettings::Refused(why.to_owned()));
    };
    let mut mirror = Mirror::new(url).map_err(refused)?;
    if let Some(path) = &wishes.node_ca {
        mirror = mirror.with_ca(path).map_err(refused)?;
    }
    mirror = match (&wishes.client_cert, &wishes.client_key) {
        (Some(certificate), Some(key)) => mirror.with_client(certificate, key).map_err(refused)?,
        (None, None) => mirror,
        _ => {
            let why = "client-cert=PATH and client-key=PATH belong together";
            return Err(NoSettings::Refused(why.to_owned()));
        }
    };
    // an address of somebody else is vouched for by somebody else
    if let (Some(pem), true, None) = (asked.ca, mirror.has_tls(), &wishes.mirror) {
        mirror = mirror.carry_ca(pem).map_err(refused)?;
    }
    make(
        &mirror,
        &hosts_of_store(asked.names, asked.shown),
        wishes.others,
    )
}

/// The CA alone.
fn ca(asked: &SettingsAsked<'_>) -> Result<SettingsFile, NoSettings> {
    let Some(pem) = asked.ca else {
        let why = match asked.tls {
            true => "this mirror was not told which CA vouches for it (see --tls-ca)",
            false => "this mirror speaks plain HTTP, where no certificate is checked",
        };
        return Err(NoSettings::Unknown(why.to_owned()));
    };
    Ok(SettingsFile {
        media_type: "application/x-pem-file",
        file_name: "ca.crt",
        bytes: pem.as_bytes().to_owned(),
    })
}

/// containerd's folder as a tar archive, to be unpacked where `config_path` points.
fn certs_d(mirror: &Mirror, hosts: &Hosts, others: Others) -> Result<SettingsFile, NoSettings> {
    let files = containerd::files(mirror, hosts, others).map_err(refused)?;
    let bytes = archive(&files)
        .map_err(|e| NoSettings::Refused(format!("the archive cannot be made: {e}")))?;
    Ok(SettingsFile {
        media_type: "application/x-tar",
        file_name: "certs.d.tar",
        bytes,
    })
}

/// The patch for Talos.
fn patch(mirror: &Mirror, hosts: &Hosts, _: Others) -> Result<SettingsFile, NoSettings> {
    let files = talos::files(mirror, hosts).map_err(refused)?;
    let text: String = files.into_iter().map(|file| file.content).collect();
    Ok(SettingsFile {
        media_type: "application/yaml",
        file_name: "registry-mirrors.yaml",
        bytes: text.into_bytes(),
    })
}

/// The same files give the same bytes: no owner, no time.
fn archive(files: &[OutFile]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(file.content.len() as u64);
        header.set_mtime(0);
        archive.append_data(&mut header, &file.path, file.content.as_bytes())?;
    }
    archive.into_inner()
}

fn wishes(query: &str) -> Result<Wishes, NoSettings> {
    let mut wishes = Wishes::default();
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match (&*key, &*value) {
            ("mirror", _) => wishes.mirror = Some(value.into_owned()),
            ("node-ca", _) => wishes.node_ca = Some(value.into_owned()),
            ("client-cert", _) => wishes.client_cert = Some(value.into_owned()),
            ("client-key", _) => wishes.client_key = Some(value.into_owned()),
            ("catch-all", "true") => wishes.others = Others::ToTheMirror,
            ("catch-all", "false") => wishes.others = Others::AsTheyAre,
            // as containerd would send it
            ("ns", _) => {}
            _ => {
                let key = kubepkg_core::error::shown(&key);
                return Err(NoSettings::Refused(format!(
                    "\"{key}\" says nothing here; there are mirror=URL, node-ca=PATH, \
                     client-cert=PATH, client-key=PATH and catch-all=true"
                )));
            }
        }
    }
    Ok(wishes)
}

fn refused(error: Error) -> NoSettings {
    match error {
        Error::NoHosts => {
            NoSettings::Nothing("the mirror holds no images yet: import a bundle first".to_owned())
        }
        error => NoSettings::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use kubepkg_core::Digest;
    use kubepkg_core::store::{Change, ManifestEntry, Names};

    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        let change = Change::Manifest {
            repository: "docker.io/library/web".parse().unwrap(),
            digest: Digest::sha256(b"x"),
            new: Some(ManifestEntry {
                media_type: "application/vnd.oci.image.manifest.v1+json".into(),
                size: 1,
                subject: None,
                artifact_type: None,
                annotations: Default::default(),
            }),
        };
        names.apply(&change, 1);
        names
    }

    fn ask(path: &str, query: &str) -> Result<SettingsFile, NoSettings> {
        page(&SettingsAsked {
            names: &names(),
            shown: &|_| true,
            path,
            query,
            url: Some("http://mirror.lan:5000"),
            tls: false,
            ca: None,
        })
    }

    #[test]
    fn settings_name_the_address_the_mirror_is_asked_under() {
        let file = ask("containerd", "").unwrap();
        let mut archive = tar::Archive::new(&file.bytes[..]);
        let mut entries = archive.entries().unwrap();
        let mut entry = entries.next().unwrap().unwrap();
        assert_eq!(&*entry.path_bytes(), b"docker.io/hosts.toml");
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        assert!(text.contains("http://mirror.lan:5000/v2/docker.io"));
        assert!(entries.next().is_none());

        let client = "mirror=https://m&client-cert=/n.crt&client-key=/n.key";
        let text = ask("containerd", client).unwrap().bytes;
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(
            text.contains("client = [[\"/n.crt\", \"/n.key\"]]"),
            "{text}"
        );

        let file = ask("talos", "mirror=https://other.lan").unwrap();
        let text = String::from_utf8(file.bytes).unwrap();
        assert!(text.contains("https://other.lan/v2/docker.io"));
    }

    #[test]
    fn settings_carry_the_ca_where_nodes_do_not_know_it() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let names = names();
        let ask = |path, query| {
            let asked = SettingsAsked {
                names: &names,
                shown: &|_| true,
                path,
                query,
                url: Some("https://mirror.lan:5000"),
                tls: true,
                ca: Some(pem),
            };
            page(&asked).unwrap().bytes
        };
        assert_eq!(ask("ca.crt", ""), pem.as_bytes());
        let bytes = ask("containerd", "");
        let mut archive = tar::Archive::new(&bytes[..]);
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| String::from_utf8(entry.unwrap().path_bytes().into()).unwrap())
            .collect();
        assert_eq!(names, ["docker.io/hosts.toml", "kubepkg-mirror-ca.crt"]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("ca = \"/etc/containerd/certs.d/kubepkg-mirror-ca.crt\""));
        assert!(text.contains("https://mirror.lan:5000/v2/docker.io"));
        let patch = String::from_utf8(ask("talos", "")).unwrap();
        assert!(patch.contains("ca: \"LS0t"), "{patch}");
        let other = ask("talos", "mirror=https://other.lan");
        assert!(!String::from_utf8(other).unwrap().contains("LS0t"));
    }

    #[test]
    fn a_wish_that_cannot_be_met_is_refused_with_the_reason() {
        for (path, query, why) in [
            ("cri-o", "", "containerd, talos"),
            ("", "", "containerd, talos"),
            ("ca.crt", "", "plain HTTP"),
            ("containerd", "catchall=true", "catch-all=true"),
            ("containerd", "mirror=ftp://mirror.lan", "https://"),
            ("containerd", "node-ca=/ca.crt", "no certificate is checked"),
            ("containerd", "client-cert=/n.crt", "belong together"),
            (
                "containerd",
                "mirror=https://m&client-cert=/n.crt&client-key=n.key",
                "not absolute",
            ),
        ] {
            let (NoSettings::Unknown(text) | NoSettings::Nothing(text) | NoSettings::Refused(text)) =
                ask(path, query).unwrap_err();
            assert!(text.contains(why), "{path}?{query}: {text}");
        }
    }
}
