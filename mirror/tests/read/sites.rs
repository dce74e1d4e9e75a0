//! `/repositories/…`.

use super::fixture::Running;

const URL: &str = "https://packages.example.com:8443/Stable/index.yaml";
const AT: &str = "/repositories/packages.example.com_8443/Stable";

#[tokio::test]
async fn repository_files_with_their_tags() {
    let server = Running::start().await;
    let files: [(&str, &[u8]); 4] = [
        ("index.yaml", b"packages: {}\n"),
        ("index.yaml.sig", b"signature"),
        ("root/1.yaml", b"root: 1\n"),
        ("carried.json", b"{}"),
    ];
    server.store.site(URL, &files);
    for (file, bytes) in files {
        let target = format!("{AT}/{file}");
        let got = server.get(&target).await;
        assert_eq!((got.status, got.body.as_slice()), (200, bytes), "{file}");
        assert_eq!(got.header("kubepkg-set"), Some("7"));
        assert_eq!(got.header("cache-control"), Some("no-cache"));
        let etag = got.header("etag").unwrap();
        let again = server
            .send("GET", &target, &[("If-None-Match", etag)])
            .await;
        assert_eq!(again.status, 304);
        let head = server.head(&target).await;
        assert_eq!(head.lasting_headers(), got.lasting_headers());
    }
    assert_eq!(
        server
            .get(&format!("{AT}/index.yaml"))
            .await
            .header("content-type"),
        Some("application/yaml")
    );
    let upstream = "/repositories/packages.example.com:8443/Stable/index.yaml";
    assert_eq!(server.get(upstream).await.status, 200);
    for absent in [
        "/other",
        "/../index.yaml",
        "/",
        "/root/2.yaml",
        "/index.yaml/",
    ] {
        assert_eq!(
            server.get(&format!("{AT}{absent}")).await.status,
            404,
            "{absent}"
        );
    }
}

#[tokio::test]
async fn index_and_signature_change_in_one_step() {
    let server = Running::start().await;
    server.store.site(
        URL,
        &[("index.yaml", b"a"), ("index.yaml.sig", b"sig of a")],
    );
    server.store.site(
        URL,
        &[("index.yaml", b"b"), ("index.yaml.sig", b"sig of b")],
    );
    let index = server.get(&format!("{AT}/index.yaml")).await.body;
    let signature = server.get(&format!("{AT}/index.yaml.sig")).await.body;
    assert_eq!((index, signature), (b"b".to_vec(), b"sig of b".to_vec()));
    // a file that left the set is gone
    server.store.site(URL, &[("index.yaml", b"c")]);
    assert_eq!(
        server.get(&format!("{AT}/index.yaml.sig")).await.status,
        404
    );
}
