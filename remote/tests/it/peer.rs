//! A second opinion: what `oci-client` pulls is what we pull.

use kubepkg_core::descriptor::media_type;
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::secrets::RegistryAuth;

use crate::server::{Server, blob, client, manifest, noise, serve_blob, serve_manifest, status};

#[tokio::test]
async fn another_client_gets_the_same() {
    let (bytes, descriptor) = manifest("x");
    let layer = noise(100_000);
    let layer_descriptor = blob(&layer);
    let (served, content, digest) = (bytes.clone(), layer.clone(), layer_descriptor.digest);
    let server = Server::start(move |seen| {
        if seen.path == format!("/v2/a/blobs/{digest}") {
            return serve_blob(seen, &content, usize::MAX);
        }
        match seen.path.as_str() {
            "/v2/" => status(200),
            "/v2/a/manifests/1" => serve_manifest(&served, media_type::OCI_MANIFEST),
            _ => status(404),
        }
    })
    .await;
    let registry = client().registry();
    let image = server.image("a:1");
    let ours = registry.manifest(&image).await.unwrap();
    let our_layer = registry.blob(&image, &layer_descriptor, 1 << 20).await;
    assert_eq!(ours.digest, descriptor.digest);

    let peer = oci_client::Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    });
    let reference: oci_client::Reference = format!("{}/a:1", server.host()).parse().unwrap();
    let (theirs, digest) = peer
        .pull_manifest_raw(
            &reference,
            &RegistryAuth::Anonymous,
            &[media_type::OCI_MANIFEST],
        )
        .await
        .unwrap();
    assert_eq!(theirs, ours.bytes);
    assert_eq!(digest, ours.digest.to_string());
    let mut their_layer = Vec::new();
    let wanted = layer_descriptor.digest.to_string();
    peer.pull_blob(&reference, wanted.as_str(), &mut their_layer)
        .await
        .unwrap();
    assert_eq!(their_layer, our_layer.unwrap());
}
