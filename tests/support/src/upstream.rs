//! A server on loopback that plays the connected side: an OCI registry (read side), a classic
//! Helm repository, plain files; with faults on demand.

mod answer;
mod fault;
mod state;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;

use crate::chart::{Chart, helm_index};
use crate::image::Image;

pub use fault::Fault;
use state::State;
pub use state::{Login, Seen};

/// The server. It runs on a thread of its own, so that tests without a runtime can use it, and
/// stops when it is dropped.
pub struct Upstream {
    address: SocketAddr,
    desk: Shared,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

pub(crate) type Shared = Arc<Desk>;

/// What the server's thread and the test share.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Told of every request.
    asked: Condvar,
}

/// Longest wait for a request; only a test that fails waits as long.
const PATIENCE: Duration = Duration::from_secs(60);

impl Upstream {
    /// Starts an empty server on a free port.
    pub fn start() -> Upstream {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let desk = Shared::default();
        let app = Router::new()
            .fallback(answer::answer)
            .with_state(Arc::clone(&desk));
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    served = async { axum::serve(listener, app).await } => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Upstream {
            address,
            desk,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.desk.state.lock().unwrap()
    }

    /// `127.0.0.1:port`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// `http://127.0.0.1:port`, then `path`, which begins with `/`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Puts an image and everything below it into `repository`, with tags. A mirror's layout
    /// is had by naming repositories `<host>/<path>`.
    pub fn put_image(&self, repository: &str, tags: &[&str], image: &Image) {
        let mut state = self.state();
        let repository = state.repositories.entry(repository.to_owned()).or_default();
        repository.content.merge(&image.content);
        for tag in tags {
            repository.tags.insert((*tag).to_owned(), image.digest());
        }
    }

    /// Serves `content` at `path`, which begins with `/`.
    pub fn put_file(&self, path: &str, content: impl Into<Bytes>) {
        self.state().files.insert(path.to_owned(), content.into());
    }

    /// Serves a classic Helm repository below `path`: `<path>/index.yaml` and the archives.
    pub fn put_charts(&self, path: &str, charts: &[Chart]) {
        for chart in charts {
            self.put_file(
                &format!("{path}/{}", chart.file_name()),
                chart.archive.clone(),
            );
        }
        self.put_file(&format!("{path}/index.yaml"), helm_index(charts));
    }

    /// The next `times` requests whose path and query hold `part` end with `fault`.
    pub fn fault(&self, part: &str, fault: Fault, times: usize) {
        self.state()
            .faults
            .push(fault::Script::new(part, fault, times));
    }

    /// From now on only who logs in like this gets an answer.
    pub fn require(&self, login: Login) {
        self.state().login = Some(login);
    }

    /// Whether the referrers API is there; without it clients use the tag schema.
    pub fn referrers_api(&self, there: bool) {
        self.state().no_referrers_api = !there;
    }

    /// Everything that was asked so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// Waits until a path that holds `part` was asked for `times` times in all.
    pub fn wait_for(&self, part: &str, times: usize) {
        let absent = |state: &mut State| state.count(part) < times;
        let waited = self
            .desk
            .asked
            .wait_timeout_while(self.state(), PATIENCE, absent);
        assert!(!waited.unwrap().1.timed_out(), "nobody asked for {part}");
    }

    /// How often a path that holds `part` was asked for.
    pub fn count(&self, part: &str) -> usize {
        self.state().count(part)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // a server that failed has shown it in its answers
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::image::{ImageBuilder, artifact};

    /// Asks like the simplest client and gives status line, headers and body.
    fn ask(upstream: &Upstream, head: &str) -> (String, Vec<u8>) {
        let mut stream = std::net::TcpStream::connect(upstream.address).unwrap();
        let request = format!(
            "{head}\r\nHost: {}\r\nConnection: close\r\n\r\n",
            upstream.host()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // a cut body may show as a reset connection
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head.to_lowercase(), answer[end + 4..].to_vec())
    }

    #[test]
    fn a_registry_answers_by_tag_digest_and_range() {
        let upstream = Upstream::start();
        let image = ImageBuilder::new(1).build();
        let sbom = artifact(&image.descriptor, "application/spdx+json", b"{}");
        upstream.put_image("team/web", &["1"], &image);
        upstream.put_image("team/web", &[], &sbom);
        let (head, body) = ask(&upstream, "GET /v2/team/web/manifests/1 HTTP/1.1");
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains(&format!("docker-content-digest: {}", image.digest())));
        assert_eq!(body, image.manifest().to_vec());
        let blob = image.blobs()[0];
        let path = format!("GET /v2/team/web/blobs/{blob} HTTP/1.1");
        let (_, whole) = ask(&upstream, &path);
        assert!(blob.matches(&whole));
        let (head, rest) = ask(&upstream, &format!("{path}\r\nRange: bytes=10-"));
        assert!(head.starts_with("http/1.1 206"), "{head}");
        assert_eq!(rest, whole[10..]);
        let path = format!("GET /v2/team/web/referrers/{} HTTP/1.1", image.digest());
        let (_, list) = ask(&upstream, &path);
        assert!(
            String::from_utf8(list)
                .unwrap()
                .contains(&sbom.digest().to_string())
        );
        assert_eq!(upstream.count("/blobs/"), 2);
    }

    #[test]
    fn faults_come_as_often_as_scripted() {
        let upstream = Upstream::start();
        upstream.put_file("/file", "0123456789");
        upstream.fault("/file", Fault::TooMany(7), 1);
        upstream.fault("/file", Fault::CutBody, 1);
        upstream.fault("/file", Fault::WrongBytes, 1);
        let get = || ask(&upstream, "GET /file HTTP/1.1");
        let (head, _) = get();
        assert!(
            head.starts_with("http/1.1 429") && head.contains("retry-after: 7"),
            "{head}"
        );
        let (head, body) = get();
        assert!(head.contains("content-length: 10") && body.len() < 10);
        assert_ne!(get().1, b"0123456789");
        assert_eq!(get().1, b"0123456789");
    }

    #[test]
    fn a_login_is_asked_for() {
        let upstream = Upstream::start();
        upstream.put_file("/file", "x");
        upstream.require(Login::AnonymousToken);
        let (head, _) = ask(&upstream, "GET /file HTTP/1.1");
        assert!(
            head.starts_with("http/1.1 401") && head.contains("bearer realm="),
            "{head}"
        );
        let (_, token) = ask(&upstream, "GET /token HTTP/1.1");
        assert!(String::from_utf8(token).unwrap().contains("token"));
        let (head, _) = ask(
            &upstream,
            "GET /file HTTP/1.1\r\nAuthorization: Bearer a-token",
        );
        assert!(head.starts_with("http/1.1 200"), "{head}");
    }
}
