//! No secret in any error or log line: credentials of every kind against servers that refuse,
//! break and repeat what they are told.

use std::io::Write as _;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use axum::response::IntoResponse;
use kubepkg_core::error::Classify;
use kubepkg_remote::{Client, RemoteError};

use crate::server::{Server, options, status};

/// What must not be seen anywhere. `c2VjcmV0` is what base64 makes of it.
const SECRETS: [&str; 3] = ["s3cr3t", "dTpzM2NyM3Q", "czNjcjN0"];

/// Everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn all_of(error: &RemoteError) -> String {
    let mut text = format!(
        "{error}\n{error:?}\n{:?}\n{:?}",
        error.hint(),
        error.place()
    );
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!("\n{error}\n{error:?}"));
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn no_secret_is_printed() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let mut said = String::new();
    for code in [400, 401, 403, 404, 429, 500, 301] {
        for kind in [
            "Basic realm=\"x\"",
            "Bearer realm=\"REALM/token\",service=\"s\"",
        ] {
            let own: Arc<std::sync::OnceLock<String>> = Arc::default();
            let address = Arc::clone(&own);
            let server = Server::start(move |seen| {
                let realm = address.get().map_or("", String::as_str);
                if seen.header("authorization").is_empty() && !seen.path.starts_with("/token") {
                    let headers = [("www-authenticate", kind.replace("REALM", realm))];
                    return (StatusCode::UNAUTHORIZED, headers).into_response();
                }
                if seen.path.starts_with("/token") && code == 404 {
                    return r#"{"token":"s3cr3t"#.into_response();
                }
                let mut response = status(code);
                let headers = response.headers_mut();
                headers.insert("location", "http://u:s3cr3t@127.0.0.1:1/".parse().unwrap());
                response
            })
            .await;
            own.set(server.url("")).unwrap();
            let host = server.host();
            for entry in [
                r#""auth":"dTpzM2NyM3Q=""#,
                r#""registrytoken":"s3cr3t""#,
                r#""identitytoken":"s3cr3t""#,
            ] {
                let mut config = tempfile::NamedTempFile::new().unwrap();
                write!(config, r#"{{"auths":{{"{host}":{{{entry}}}}}}}"#).unwrap();
                let (mut options, _) = options();
                options.registry_configs = vec![config.path().to_owned()];
                let client = Client::new(options).unwrap();
                let image = server.image("a/b:1");
                let error = client.registry().manifest(&image).await.unwrap_err();
                said.push_str(&all_of(&error));
                let url = server.url("/index.yaml").parse().unwrap();
                let error = client.fetch(&url, 100).await.unwrap_err();
                said.push_str(&all_of(&error));
            }
        }
    }
    said.push_str(&String::from_utf8_lossy(&log.0.lock().unwrap()));
    assert!(said.contains("asking for a token"), "logs are there");
    for secret in SECRETS {
        let at = said.find(secret);
        assert!(at.is_none(), "{}", &said[at.unwrap().saturating_sub(300)..]);
    }
}
