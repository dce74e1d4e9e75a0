//! How much a host is asked for at a time, as it sees it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use kubepkg_remote::{Client, PER_HOST};
use tokio::sync::Semaphore;

use crate::server::{Server, blob, noise, options, status};

/// Longest a test waits for requests that do not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests that are answered together, when so many are there.
struct Round {
    size: usize,
    arrived: AtomicUsize,
    /// Closed when the answers may go.
    gate: Semaphore,
}

impl Round {
    fn new(size: usize) -> Arc<Round> {
        Arc::new(Round {
            size,
            arrived: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        })
    }
}

/// Lets the answers of a round go when it is dropped.
struct Opens(Arc<Round>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.gate.close();
    }
}

/// Serves `bytes` to rounds of requests, one of each of these sizes after the other. The last
/// request of a round that is `refused` gets 429, and the others their answers when the client
/// has read that. The most requests that were under way in each round are put into `most`.
async fn in_rounds(
    bytes: Vec<u8>,
    sizes: &[usize],
    refused: usize,
    most: Arc<Vec<AtomicUsize>>,
) -> Server {
    let rounds: Vec<Arc<Round>> = sizes.iter().map(|size| Round::new(*size)).collect();
    let (asked, running) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    Server::start(move |_| {
        let place = asked.fetch_add(1, Ordering::SeqCst);
        let mut before = 0;
        let n = rounds.iter().position(|round| {
            before += round.size;
            place < before
        });
        let n = n.unwrap();
        let (round, running) = (Arc::clone(&rounds[n]), Arc::clone(&running));
        most[n].fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let full = round.arrived.fetch_add(1, Ordering::SeqCst) + 1 == round.size;
        if full && n == refused {
            running.fetch_sub(1, Ordering::SeqCst);
            // without an end, so that it ends when the client has seen enough
            let opens = Opens(round);
            let words = stream::repeat(Bytes::from_static(&[b'x'; 4096])).map(move |piece| {
                let _ = &opens;
                Ok::<_, io::Error>(piece)
            });
            let mut answer = status(429);
            *answer.body_mut() = Body::from_stream(words);
            let kind = "text/plain".parse().unwrap();
            answer.headers_mut().insert("content-type", kind);
            return answer;
        }
        if full {
            round.gate.close();
        }
        let body = bytes.clone();
        let answer = stream::once(async move {
            // an error is what a closed gate gives
            assert!(round.gate.acquire().await.is_err());
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, io::Error>(body)
        });
        Response::new(Body::from_stream(answer))
    })
    .await
}

/// Fetches a blob as often as it takes to fill rounds of `sizes`. The most requests under way
/// in each.
async fn fetch_in_rounds(sizes: &[usize], refused: usize) -> Vec<usize> {
    let bytes = noise(1000);
    let most: Arc<Vec<AtomicUsize>> = Arc::new(sizes.iter().map(|_| AtomicUsize::new(0)).collect());
    let server = in_rounds(bytes.clone(), sizes, refused, Arc::clone(&most)).await;
    let registry = Client::new(options().0).unwrap().registry();
    let (image, descriptor) = (server.image("a:1"), blob(&bytes));
    let asked: usize = sizes.iter().sum();
    // what is refused is asked for once more
    let wanted = asked - usize::from(refused < sizes.len());
    let pull = |_| registry.download(&image, &descriptor, Vec::new(), &());
    let all = futures_util::future::try_join_all((0..wanted).map(pull));
    let got = tokio::time::timeout(PATIENCE, all).await;
    let got = got.expect("so many are never under way at once").unwrap();
    assert!(got.iter().all(|got| *got == bytes));
    assert_eq!(server.seen().len(), asked);
    most.iter().map(|n| n.load(Ordering::SeqCst)).collect()
}

#[tokio::test]
async fn a_host_gets_twice_as_much_with_each_round_trip() {
    let sizes = [6, 12, 24, 48, 48, 48];
    assert_eq!((PER_HOST.first, PER_HOST.most), (6, 48));
    let most = fetch_in_rounds(&sizes, usize::MAX).await;
    assert_eq!(most[0], 6);
    assert!(most.iter().all(|n| *n <= 48), "{most:?}");
}

#[tokio::test]
async fn a_host_that_refuses_gets_half_and_no_more_from_then_on() {
    let most = fetch_in_rounds(&[6, 12, 24, 48, 24, 24, 24], 3).await;
    assert!(most[4..].iter().all(|n| *n <= 24), "{most:?}");
}
