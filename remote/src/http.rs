//! One request under all rules: encryption, limits per host, retries, bounded bodies.

use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, header};
use kubepkg_core::time::Time;
use reqwest::Response;
use url::Url;

use crate::address::{PlainHosts, host_of, is_loopback_url};
use crate::error::{Fault, Given, RemoteError, in_words, shown_url};
use crate::hosts::{Hosts, Slot};
use crate::options::{Options, Wait};
use crate::retry::{Next, Retry, Tries, is_transient, retry_after};
use crate::tls::{Authorities, Built, RedirectRefused};

/// How much of an error's body is looked at: registries answer with some hundred bytes.
const MAX_EXCERPT: usize = 8 << 10;

/// Sends requests.
pub(crate) struct Http {
    authorities: Arc<Authorities>,
    /// For this machine itself; never uses a proxy.
    direct: OnceLock<Built>,
    /// For all others.
    others: OnceLock<Built>,
    plain: Arc<PlainHosts>,
    hosts: Hosts,
    retry: Retry,
    wait: Arc<dyn Wait>,
}

/// One request.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
}

impl Ask {
    pub(crate) fn get(url: Url) -> Ask {
        Ask {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
        }
    }
}

/// An answer whose body was not read yet. It holds its place in the limits until dropped.
pub(crate) struct Answer {
    pub(crate) response: Response,
    _slot: Slot,
}

/// A whole answer.
pub(crate) struct Whole {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Http {
    pub(crate) fn new(
        options: &Options,
        authorities: Arc<Authorities>,
        plain: Arc<PlainHosts>,
    ) -> Http {
        Http {
            authorities,
            direct: OnceLock::new(),
            others: OnceLock::new(),
            plain,
            hosts: Hosts::new(options.jobs, options.per_host),
            retry: options.retry,
            wait: Arc::clone(&options.wait),
        }
    }

    pub(crate) fn plain(&self) -> &PlainHosts {
        &self.plain
    }

    pub(crate) fn tries(&self) -> Tries {
        Tries::new(self.retry)
    }

    /// The client to ask `url` with. Refuses a URL that must not be asked, before anything
    /// is sent.
    fn client(&self, url: &Url) -> Result<&reqwest::Client, Fault> {
        if !self.plain.allows_url(url) {
            return Err(Fault::PlainHttp { host: host_of(url) });
        }
        let direct = is_loopback_url(url);
        let cell = if direct { &self.direct } else { &self.others };
        let built = match cell.get() {
            Some(built) => built,
            None => {
                let built = self.authorities.client(&self.plain, direct);
                let built = built.map_err(|e| Fault::CaFile(root_cause(&e)))?;
                cell.get_or_init(|| built)
            }
        };
        if url.scheme() == "https" && !built.any_authority {
            return Err(Fault::NoCertificates);
        }
        Ok(&built.client)
    }

    /// Sends `ask` until there is an answer that will not change by asking again. That is
    /// any status but those of [`is_transient`].
    pub(crate) async fn send(
        &self,
        place: &str,
        ask: &Ask,
        tries: &mut Tries,
    ) -> Result<Answer, RemoteError> {
        let client = self.client(&ask.url);
        let client = client.map_err(|fault| RemoteError::new(place, fault))?;
        let host = host_of(&ask.url);
        loop {
            if let Some(left) = self.hosts.pause_left(&host) {
                self.wait.wait(left).await;
            }
            let slot = self.hosts.slot(&host).await;
            let (fault, asked) = match once(client, ask).await {
                Ok(response) if is_transient(response.status().as_u16()) => {
                    let status = response.status().as_u16();
                    let asked = asked_pause(&response);
                    let message = excerpt(response).await;
                    (Fault::Status { status, message }, asked)
                }
                Ok(response) => {
                    return Ok(Answer {
                        response,
                        _slot: slot,
                    });
                }
                Err(fault) => (fault, None),
            };
            drop(slot);
            if let Some(asked) = asked.filter(|asked| *asked <= self.retry.patience) {
                self.hosts.pause(&host, asked);
            }
            self.again(place, fault, asked, tries).await?;
        }
    }

    /// Lets the pause before the next try pass, or returns the failure for good.
    pub(crate) async fn again(
        &self,
        place: &str,
        fault: Fault,
        asked: Option<Duration>,
        tries: &mut Tries,
    ) -> Result<(), RemoteError> {
        if !fault.is_passing() {
            return Err(RemoteError::new(place, fault));
        }
        match tries.failed(asked) {
            Next::After(pause) => {
                tracing::debug!(place, %fault, ?pause, "trying again");
                self.wait.wait(pause).await;
                Ok(())
            }
            Next::GiveUp => Err(RemoteError::new(place, fault)),
            Next::TooLong(asked) => Err(RemoteError::new(place, Fault::RateLimited(asked))),
        }
    }

    /// GETs a whole file of at most `limit` bytes.
    pub(crate) async fn get(
        &self,
        place: &str,
        url: Url,
        limit: u64,
    ) -> Result<Whole, RemoteError> {
        let ask = Ask::get(url);
        let mut tries = self.tries();
        loop {
            let answer = self.send(place, &ask, &mut tries).await?;
            if answer.response.status() != StatusCode::OK {
                return Err(answer.refusal(place).await);
            }
            match answer.whole(limit).await {
                Ok(whole) => return Ok(whole),
                Err(fault) => self.again(place, fault, None, &mut tries).await?,
            }
        }
    }
}

async fn once(client: &reqwest::Client, ask: &Ask) -> Result<Response, Fault> {
    client
        .request(ask.method.clone(), ask.url.clone())
        .headers(ask.headers.clone())
        .send()
        .await
        .map_err(fault_of)
}

impl Answer {
    /// The body, at most `limit` bytes of it.
    pub(crate) async fn whole(mut self, limit: u64) -> Result<Whole, Fault> {
        let too_large = || Fault::TooLarge { limit };
        let announced = self.response.content_length();
        if announced.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        loop {
            match self.response.chunk().await {
                Ok(Some(chunk)) if (body.len() + chunk.len()) as u64 > limit => {
                    return Err(too_large());
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(e) => {
                    return Err(Fault::Cut {
                        received: body.len() as u64,
                        expected: announced,
                        source: Some(e.without_url()),
                    });
                }
            }
        }
        Ok(Whole {
            url: self.response.url().clone(),
            headers: self.response.headers().clone(),
            bytes: body.freeze(),
        })
    }

    /// The error an answer stands for that is not a success; for files that are fetched
    /// without credentials.
    pub(crate) async fn refusal(self, place: &str) -> RemoteError {
        let status = self.response.status().as_u16();
        let host = host_of(self.response.url());
        let fault = match status {
            404 | 410 => Fault::NotFound,
            401 | 403 => Fault::Denied {
                status,
                host,
                given: Given::Never,
                message: excerpt(self.response).await,
            },
            _ => Fault::Status {
                status,
                message: excerpt(self.response).await,
            },
        };
        RemoteError::new(place, fault)
    }
}

/// The start of an error's body, where it is text for people or programs.
pub(crate) async fn excerpt(mut response: Response) -> String {
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    if !kind.contains("json") && !kind.starts_with("text/plain") {
        return String::new();
    }
    let mut text = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        text.extend_from_slice(&chunk);
        if text.len() >= MAX_EXCERPT {
            text.truncate(MAX_EXCERPT);
            break;
        }
    }
    in_words(&String::from_utf8_lossy(&text))
}

fn asked_pause(response: &Response) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    retry_after(value, Time::now())
}

/// What a failed request means.
pub(crate) fn fault_of(error: reqwest::Error) -> Fault {
    if let Some(refused) = chain(&error).find_map(|e| e.downcast_ref::<RedirectRefused>()) {
        return Fault::Redirect {
            to: refused.to.clone(),
            why: refused.why,
        };
    }
    // rustls reports a certificate it does not accept as invalid data.
    let tls = chain(&error)
        .filter_map(|e| e.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::InvalidData);
    if error.is_builder() {
        let url = error.url().map(shown_url).unwrap_or_default();
        return Fault::Url(format!(
            "\"{url}\" cannot be asked for: {}",
            root_cause(&error)
        ));
    }
    let error = error.without_url();
    if tls {
        Fault::Tls(error)
    } else {
        Fault::Network(error)
    }
}

/// `error` and all its causes. `io::Error` hides the error it was made of from `source()`.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        let inner = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

/// The lowest text in the chain of `error`.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    chain(error)
        .last()
        .map(|e| e.to_string())
        .unwrap_or_default()
}
