//! Connections there is no room for: each would take descriptors that others need to be
//! answered. They are told so at once, which a client takes for a reason to come again; who is
//! left waiting in the system's queue learns nothing for minutes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// How many are answered at once; the others are only closed.
const ANSWERED: usize = 64;

/// How long one may take to read its answer.
const WITHIN: Duration = Duration::from_secs(2);

/// How often the log says it.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Error code of the OCI distribution specification.
const BODY: &str = r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"this mirror has as many connections as it can hold; try again later"}]}"#;

/// Turns connections away.
#[derive(Debug)]
pub(super) struct Crowd {
    answering: Arc<Semaphore>,
    refused: Mutex<Refused>,
}

#[derive(Debug, Default)]
struct Refused {
    /// Since it was said last.
    count: u64,
    said: Option<Instant>,
}

impl Crowd {
    pub(super) fn new() -> Crowd {
        Crowd {
            answering: Arc::new(Semaphore::new(ANSWERED)),
            refused: Mutex::default(),
        }
    }

    /// Answers 503, if there is time, and closes the connection. With TLS it is only closed: an
    /// answer in plain text would be taken for a server without TLS.
    pub(super) fn refuse(&self, mut stream: TcpStream, limit: usize, tls: bool) {
        if let Some(refused) = self.to_be_said(Instant::now()) {
            tracing::warn!(
                refused,
                limit,
                "connections are refused: there are as many as this server holds at once"
            );
        }
        if tls {
            return;
        }
        let Ok(permit) = Arc::clone(&self.answering).try_acquire_owned() else {
            return;
        };
        tokio::spawn(async move {
            let _permit = permit;
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nRetry-After: 5\r\nConnection: close\r\n\r\n{BODY}",
                BODY.len()
            );
            let told = async {
                stream.write_all(answer.as_bytes()).await?;
                stream.shutdown().await?;
                // closing with a request unread would take the answer away from the client
                while stream.read(&mut [0; 1024]).await? > 0 {}
                std::io::Result::Ok(())
            };
            // whoever does not listen has lost nothing
            let _ = tokio::time::timeout(WITHIN, told).await;
        });
    }

    /// Counts one; answers how many there were, when it is time to say so.
    fn to_be_said(&self, now: Instant) -> Option<u64> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.count += 1;
        let lately = |said: Instant| now.saturating_duration_since(said) < SAID_EVERY;
        if refused.said.is_some_and(lately) {
            return None;
        }
        refused.said = Some(now);
        Some(std::mem::take(&mut refused.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_it_once_a_minute_with_how_many_there_were() {
        let crowd = Crowd::new();
        let start = Instant::now();
        assert_eq!(crowd.to_be_said(start), Some(1));
        for _ in 0..5 {
            assert_eq!(crowd.to_be_said(start + SAID_EVERY / 2), None);
        }
        assert_eq!(crowd.to_be_said(start + SAID_EVERY), Some(6));
    }
}
