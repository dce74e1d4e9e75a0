//! The registry API against a registry that others wrote: Debian's `docker-registry`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use futures_util::TryStreamExt;
use kubepkg_core::descriptor::media_type;
use kubepkg_core::{Descriptor, Digest, Reference};
use kubepkg_remote::Registry;
use kubepkg_remote::registry::Referrer;

use crate::server::{blob, client, manifest, noise};

const OCI: &str = media_type::OCI_MANIFEST;

struct Daemon {
    child: Child,
    host: String,
    _folder: tempfile::TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it with an empty store; `None` when it is not installed.
fn start() -> Option<Daemon> {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
         http: {{addr: '127.0.0.1:0'}}\n",
        folder.path().join("store").display()
    );
    let path = folder.path().join("config.yml");
    std::fs::write(&path, config).unwrap();
    let mut child = Command::new("docker-registry")
        .arg("serve")
        .arg(&path)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    // It says which port it got.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let host = lines.find_map(|line| {
        let line = line.ok()?;
        let (_, rest) = line.split_once("listening on ")?;
        let end = rest.find(['"', ' ', ',']).unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    });
    // Nobody reads its log any more, and it must not be stopped by a full pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some(Daemon {
        child,
        host: host.expect("docker-registry ended before it listened"),
        _folder: folder,
    })
}

impl Daemon {
    fn image(&self, rest: &str) -> Reference {
        format!("{}/{rest}", self.host).parse().unwrap()
    }

    async fn push_blob(&self, bytes: &[u8]) {
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .unwrap();
        let url = format!("http://{}/v2/a/b/blobs/uploads/", self.host);
        let opened = http.post(url).send().await.unwrap();
        let at = opened.headers()["location"].to_str().unwrap();
        let mut url = opened.url().join(at).unwrap();
        let digest = Digest::sha256(bytes).to_string();
        url.query_pairs_mut().append_pair("digest", &digest);
        let done = http.put(url).body(bytes.to_vec()).send().await.unwrap();
        assert_eq!(done.status(), 201);
    }

    async fn push_manifest(&self, tag: &str, bytes: &[u8], kind: &str) {
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .unwrap();
        let url = format!("http://{}/v2/a/b/manifests/{tag}", self.host);
        let request = http.put(url).header("content-type", kind);
        let done = request.body(bytes.to_vec()).send().await.unwrap();
        assert_eq!(done.status(), 201, "{}", done.text().await.unwrap());
    }
}

#[tokio::test]
async fn a_registry_that_others_wrote() {
    let Some(daemon) = start() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "docker-registry is not installed, and this run must be complete"
        );
        eprintln!("not run: docker-registry is not installed");
        return;
    };
    let registry = client().registry();
    daemon.push_blob(b"{}").await;
    manifests(&daemon, &registry).await;
    blobs(&daemon, &registry).await;
    attached(&daemon, &registry).await;
}

async fn manifests(daemon: &Daemon, registry: &Registry) {
    let (bytes, descriptor) = manifest("image");
    daemon.push_manifest("1", &bytes, OCI).await;
    let by_tag = daemon.image("a/b:1");
    let got = registry.manifest(&by_tag).await.unwrap();
    assert_eq!(
        (&got.bytes[..], got.descriptor()),
        (&bytes[..], descriptor.clone())
    );
    assert_eq!(registry.resolve(&by_tag).await.unwrap(), descriptor);
    let by_digest = by_tag.at(descriptor.digest);
    assert_eq!(registry.manifest(&by_digest).await.unwrap(), got);
    assert_eq!(registry.resolve(&by_digest).await.unwrap(), descriptor);

    let index = index_of(&[descriptor]);
    daemon
        .push_manifest("all", &index, media_type::OCI_INDEX)
        .await;
    let got = registry.manifest(&daemon.image("a/b:all")).await.unwrap();
    assert_eq!(
        (&got.bytes[..], got.media_type.as_str()),
        (&index[..], media_type::OCI_INDEX)
    );

    let nowhere = [
        daemon.image("a/b:none"),
        daemon.image("no/such:1"),
        by_tag.at(Digest::sha256(b"none")),
    ];
    for reference in nowhere {
        assert!(
            registry
                .manifest(&reference)
                .await
                .unwrap_err()
                .is_not_found()
        );
        assert!(
            registry
                .resolve(&reference)
                .await
                .unwrap_err()
                .is_not_found()
        );
    }
}

async fn blobs(daemon: &Daemon, registry: &Registry) {
    let bytes = noise(3_000_000);
    daemon.push_blob(&bytes).await;
    let (image, descriptor) = (daemon.image("a/b:1"), blob(&bytes));
    let got = registry
        .download(&image, &descriptor, Vec::new(), &())
        .await;
    assert_eq!(got.unwrap(), bytes);
    // The same closed range that continues a download.
    let rest = registry
        .blob_stream(&image, &descriptor, 2_000_001)
        .await
        .unwrap();
    let rest: Vec<_> = rest.try_collect().await.unwrap();
    assert_eq!(rest.concat(), bytes[2_000_001..]);

    let none = registry
        .blob(&image, &blob(b"none"), 100)
        .await
        .unwrap_err();
    assert!(none.is_not_found(), "{none}");
    let mut longer = descriptor;
    longer.size += 1;
    let wrong = registry.download(&image, &longer, Vec::new(), &()).await;
    assert!(wrong.is_err());
}

async fn attached(daemon: &Daemon, registry: &Registry) {
    let (subject, other) = (manifest("image").1, manifest("sbom").1);
    let image = daemon.image("a/b:1");
    let found = registry.referrers(&image, &subject.digest).await.unwrap();
    assert_eq!(found, []);

    let tag = format!("sha256-{}", subject.digest.hex());
    daemon.push_manifest("x", &manifest("sbom").0, OCI).await;
    let index = index_of(std::slice::from_ref(&other));
    daemon
        .push_manifest(&tag, &index, media_type::OCI_INDEX)
        .await;
    let (signature, signed) = manifest("signature");
    daemon
        .push_manifest(&format!("{tag}.sig"), &signature, OCI)
        .await;
    let found = registry.referrers(&image, &subject.digest).await.unwrap();
    let by_tag = Referrer {
        manifest: signed,
        tag: Some(format!("{tag}.sig").parse().unwrap()),
    };
    let by_index = Referrer {
        manifest: other,
        tag: None,
    };
    assert_eq!(found, [by_index, by_tag]);
}

fn index_of(manifests: &[Descriptor]) -> Vec<u8> {
    let list = serde_json::to_string(manifests).unwrap();
    format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","manifests":{list}}}"#,
        media_type::OCI_INDEX
    )
    .into_bytes()
}
