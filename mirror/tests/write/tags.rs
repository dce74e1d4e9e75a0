//! A tag that moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kubepkg_core::Digest;

use super::fixture::Site;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tag_overwrite_is_atomic_for_readers() {
    let site = Arc::new(Site::start().await);
    let images = [site.image("a", "one").await, site.image("a", "two").await];
    site.put_manifest("a", "v1", &images[0]).await;
    let over = Arc::new(AtomicBool::new(false));
    let digests: Vec<String> = images
        .iter()
        .map(|image| Digest::sha256(image.to_string()).to_string())
        .collect();
    let readers: Vec<_> = (0..3)
        .map(|number| {
            let (site, over, digests) = (Arc::clone(&site), Arc::clone(&over), digests.clone());
            tokio::spawn(async move {
                let mut reads = 0;
                while !over.load(Ordering::SeqCst) || reads == 0 {
                    let method = if number == 0 { "HEAD" } else { "GET" };
                    let got = site.send(method, "/v2/a/manifests/v1", &[], b"").await;
                    assert_eq!(got.status, 200);
                    let digest = got.header("docker-content-digest").unwrap();
                    assert!(digests.iter().any(|known| known == digest));
                    if method == "GET" {
                        assert_eq!(Digest::sha256(&got.body).to_string(), digest);
                    }
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    for turn in 1..60 {
        let put = site.put_manifest("a", "v1", &images[turn % 2]).await;
        assert_eq!(put.status, 201);
        // who pushed sees its own change at once
        let head = site.head("/v2/a/manifests/v1").await;
        assert_eq!(
            head.header("docker-content-digest"),
            Some(&*digests[turn % 2])
        );
    }
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_push_different_tags_and_none_is_lost() {
    let site = Arc::new(Site::start().await);
    let image = site.image("a", "one").await;
    let pushes: Vec<_> = (0..16)
        .map(|number| {
            let (site, image) = (Arc::clone(&site), image.clone());
            tokio::spawn(async move {
                for turn in 0..4 {
                    let tag = format!("t{number}-{turn}");
                    let put = site.put_manifest("a", &tag, &image).await;
                    assert_eq!(put.status, 201);
                }
            })
        })
        .collect();
    for push in pushes {
        push.await.unwrap();
    }
    let tags = site.get("/v2/a/tags/list").await.json();
    assert_eq!(tags["tags"].as_array().unwrap().len(), 64);
}
