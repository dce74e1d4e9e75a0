//! Who is let in to a repository that a request names in one of its ways.

use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::store::Change;
use kubepkg_mirror::access::{AccessFiles, Gate};
use kubepkg_mirror::serve::Limits;
use kubepkg_mirror::source::Standing;

use super::fixture::Running;

/// A server at which nobody may read `hidden`.
async fn hiding(hidden: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("access.yaml");
    let text = format!(
        "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n\
         rules: [{{path: {hidden}, pull: [], push: []}}]\n"
    );
    std::fs::write(&rules, text).unwrap();
    let files = AccessFiles {
        rules: Some(rules),
        ..AccessFiles::default()
    };
    // read once; nothing here changes them
    let gate = Arc::new(Gate::open(files, false, 0).unwrap());
    Running::with(Limits::default(), |server| server.gate(gate)).await
}

/// Whether something hidden is there is not to be told from any answer, in any spelling.
#[tokio::test]
async fn what_is_hidden_answers_as_what_is_not_here() {
    for (hidden, spellings) in [
        (
            "docker.io/library/x",
            &[
                "/v2/docker.io/library/x/",
                "/v2/docker.io/x/",
                "/v2/docker.io/v2/x/",
                "/docker.io/v2/x/",
            ][..],
        ),
        ("ghcr.io/a", &["/v2/ghcr.io/a/", "/v2/ghcr.io/v2/a/"]),
    ] {
        let server = hiding(hidden).await;
        let digest = Digest::sha256(b"secret");
        let asked = || {
            let below = ["tags/list", "manifests/v1", "blobs/", "referrers/"];
            spellings.iter().flat_map(move |spelling| {
                below.map(|below| match below.ends_with('/') {
                    true => format!("{spelling}{below}{digest}"),
                    false => format!("{spelling}{below}"),
                })
            })
        };
        let mut before = Vec::new();
        for target in asked() {
            let got = server.get(&target).await;
            assert_eq!((got.status, &*got.code()), (403, "DENIED"), "{target}");
            before.push((got.lasting_headers(), got.body));
        }
        server.store.blob_in(hidden, b"secret");
        for (target, before) in asked().zip(before) {
            let got = server.get(&target).await;
            assert_eq!((got.lasting_headers(), got.body), before, "{target}");
        }
        let got = server.get("/v2/docker.io/library/other/tags/list").await;
        assert_eq!(got.status, 404);
    }
}

#[tokio::test]
async fn what_comes_while_content_is_rescued_is_asked_about_as_well() {
    let (open, hidden) = ("ghcr.io/a", "ghcr.io/v2/a");
    let server = hiding(hidden).await;
    let digest = server.store.blob_in(open, b"bytes");
    let target = format!("/v2/{hidden}/blobs/{digest}");
    assert_eq!(server.get(&target).await.status, 200);

    // it goes before the other one
    *server.store.meanwhile.lock().unwrap() = vec![Change::Blob {
        repository: hidden.parse().unwrap(),
        digest,
        new: Some(5),
    }];
    let condemned = [(digest, Standing::Condemned)];
    *server.store.standings.lock().unwrap() = condemned.into();
    let got = server.get(&target).await;
    assert_eq!((got.status, &*got.code()), (403, "DENIED"));
    assert_eq!(*server.store.rescued.lock().unwrap(), [digest]);
}
