//! One request under all rules: encryption, limits per host, retries, bounded bodies.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode, header};
use kubepkg_core::time::Time;
use reqwest::Response;
use url::Url;

use crate::address::{PlainHosts, host_of, is_loopback_url};
use crate::body::Body;
use crate::error::{Fault, Given, RemoteError, in_words, shown, shown_url};
use crate::hosts::{Hosts, Slot};
use crate::limit::Limit;
use crate::options::{Options, Wait};
use crate::retry::{Retry, Tries, is_transient};
use crate::tls::{Certificates, Line, Use};
use crate::{proxy, redirect};

/// How much of an error's body is looked at: registries answer with some hundred bytes.
const MAX_EXCERPT: usize = 8 << 10;

/// A redirect whose target was not asked for so long is asked for anew.
const STALE: Duration = Duration::from_secs(20);

/// How often a chain of redirects is begun anew because of a pause.
const BEGIN_ANEW: u32 = 3;

/// Sends requests.
pub(crate) struct Http {
    own: Line,
    /// For hosts that a redirect led to: they learn nothing of who we are.
    foreign: Line,
    plain: Arc<PlainHosts>,
    hosts: Hosts,
    retry: Retry,
    wait: Arc<dyn Wait>,
}

/// One request.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Body>,
    pub(crate) line: Way,
}

/// With which certificates and headers a host is asked.
#[derive(Clone, Default)]
pub(crate) enum Way {
    /// With those given for all.
    #[default]
    Own,
    /// With those given for this host.
    Host(Arc<Line>),
    /// As somebody nobody knows.
    Foreign,
}

impl Ask {
    pub(crate) fn get(url: Url) -> Ask {
        Ask {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: None,
            line: Way::Own,
        }
    }
}

/// An answer whose body was not read yet. It holds its place in the limits until dropped.
pub(crate) struct Answer {
    pub(crate) response: Response,
    slot: Slot,
}

/// A whole answer.
pub(crate) struct Whole {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

/// Why there is no answer, and how long the other side wants to be left alone.
struct Failed {
    fault: Fault,
    asked: Option<Duration>,
    /// Good answers the host had given when it refused because it has too much to do.
    busy: Option<u64>,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        Failed {
            fault,
            asked: None,
            busy: None,
        }
    }
}

impl Http {
    pub(crate) fn new(
        options: &Options,
        certificates: Certificates,
        plain: Arc<PlainHosts>,
    ) -> Http {
        Http {
            foreign: Line::new(certificates.unknown(), HeaderMap::new()),
            own: Line::new(certificates, HeaderMap::new()),
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

    /// Sends `ask` until there is an answer that will not change by asking again. That is
    /// any status but those of [`is_transient`].
    pub(crate) async fn send(
        &self,
        place: &str,
        ask: &Ask,
        tries: &mut Tries,
    ) -> Result<Answer, RemoteError> {
        loop {
            match self.follow(ask).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => self.another(place, failed, tries)?,
            }
        }
    }

    /// Sends `ask` once, and on to wherever it is redirected.
    async fn follow(&self, first: &Ask) -> Result<Answer, Failed> {
        let mut before = Vec::new();
        let mut ask = first.clone();
        let mut begun_anew = 0;
        loop {
            self.may_ask(&ask.url)?;
            let (slot, waited) = self.slot(&host_of(&ask.url)).await;
            // the addresses redirects lead to are good for minutes only
            if waited >= STALE && !before.is_empty() && begun_anew < BEGIN_ANEW {
                begun_anew += 1;
                before.clear();
                ask = first.clone();
                continue;
            }
            let answer = self.once(&ask, slot).await?;
            let Some(next) = redirect::target(&ask, &answer.response) else {
                return Ok(answer);
            };
            answer.slot.went_well();
            before.push(ask.url.clone());
            if let Some(why) = redirect::refusal(&before, &next, &self.plain) {
                let to = shown_url(&next);
                return Err(Fault::Redirect { to, why }.into());
            }
            ask = redirect::hop(&ask, next);
        }
    }

    fn may_ask(&self, url: &Url) -> Result<(), Fault> {
        match self.plain.allows_url(url) {
            true => Ok(()),
            false => Err(Fault::PlainHttp { host: host_of(url) }),
        }
    }

    /// Sends `ask` once. A failure that may pass is remembered of its host.
    async fn once(&self, ask: &Ask, slot: Slot) -> Result<Answer, Failed> {
        let line = match &ask.line {
            Way::Own => &self.own,
            Way::Host(line) => line,
            Way::Foreign => &self.foreign,
        };
        let built = line.client(Use {
            direct: is_loopback_url(&ask.url),
            upload: matches!(ask.body, Some(Body::Part(_))),
        })?;
        if ask.url.scheme() == "https" && !built.any_authority {
            return Err(Fault::NoCertificates.into());
        }
        let mut request = built
            .client
            .request(ask.method.clone(), ask.url.clone())
            .headers(line.headers.clone())
            .headers(ask.headers.clone());
        let mut sent = None;
        match &ask.body {
            None => {}
            Some(Body::Form(bytes)) => request = request.body(bytes.clone()),
            Some(Body::Part(part)) => {
                let (with, watched) = part.attach(request);
                (request, sent) = (with, Some(watched));
            }
        }
        let answered = match sent {
            Some(sent) => sent.answered(request.send()).await,
            None => Ok(request.send().await),
        };
        match answered.and_then(|answered| answered.map_err(|e| fault_of(e, &ask.url))) {
            Ok(response) if is_transient(response.status().as_u16()) => {
                let busy = matches!(response.status().as_u16(), 429 | 503);
                let refused = response.status() == StatusCode::TOO_MANY_REQUESTS;
                let limit = Limit::read(response.headers(), Time::now(), refused);
                let asked = limit.wait;
                slot.failed(&self.retry, asked, busy);
                let busy = busy.then(|| slot.answers());
                let fault = trouble(response, limit, self.retry.patience).await;
                Err(Failed { fault, asked, busy })
            }
            Ok(response) => Ok(Answer { response, slot }),
            Err(fault) => {
                if fault.is_passing() {
                    slot.failed(&self.retry, None, false);
                }
                Err(fault.into())
            }
        }
    }

    /// A place at `host`, when nobody has to wait for it any more. A host may ask for a pause
    /// while others queue for it, so that is looked at again when the queue is over.
    async fn slot(&self, host: &str) -> (Slot, Duration) {
        let mut waited: Option<Instant> = None;
        let mut paused = Duration::ZERO;
        loop {
            let slot = self.hosts.slot(host).await;
            match self.hosts.paused_until(host) {
                Some(until) if waited.is_none_or(|waited| waited < until) => {
                    drop(slot);
                    waited = Some(until);
                    let left = until.saturating_duration_since(Instant::now());
                    paused += left;
                    self.wait.wait(left).await;
                }
                _ => return (slot, paused),
            }
        }
    }

    /// Whether there is another try after `fault`; its pause is made by whoever asks the host
    /// next. Else the failure for good.
    fn another(&self, place: &str, failed: Failed, tries: &mut Tries) -> Result<(), RemoteError> {
        let Failed { fault, asked, busy } = failed;
        let patient = asked.is_none_or(|asked| asked <= self.retry.patience);
        let mut again = || match busy {
            Some(answers) => tries.again_when_busy(answers),
            None => tries.again(),
        };
        if fault.is_passing() && patient && again() {
            tracing::debug!(place, %fault, "trying again");
            return Ok(());
        }
        Err(RemoteError::new(place, fault))
    }

    /// What came of `answer` failed. Whether it is asked for again.
    pub(crate) fn again(
        &self,
        place: &str,
        answer: &Answer,
        fault: Fault,
        tries: &mut Tries,
    ) -> Result<(), RemoteError> {
        if fault.is_passing() {
            answer.slot.failed(&self.retry, None, false);
        }
        self.another(place, fault.into(), tries)
    }

    /// Whether several requests that are one thing are begun anew after `error`. The pause is
    /// made by whoever asks the host next.
    pub(crate) fn anew(&self, error: &RemoteError, tries: &mut Tries) -> bool {
        let patient = match error.fault() {
            Fault::RateLimited { limit, .. } => {
                limit.wait.is_none_or(|wait| wait <= self.retry.patience)
            }
            _ => true,
        };
        error.fault().is_passing() && patient && tries.again()
    }

    /// The whole answer to `ask`, at most `limit` bytes.
    pub(crate) async fn get_asked(
        &self,
        place: &str,
        ask: &Ask,
        limit: u64,
    ) -> Result<Whole, RemoteError> {
        let mut tries = self.tries();
        loop {
            let mut answer = self.send(place, ask, &mut tries).await?;
            if answer.response.status() != StatusCode::OK {
                return Err(answer.refusal(place).await);
            }
            match answer.whole(limit).await {
                Ok(whole) => return Ok(whole),
                Err(fault) => self.again(place, &answer, fault, &mut tries)?,
            }
        }
    }
}

/// What an answer means that may be another one in a moment.
async fn trouble(response: Response, limit: Limit, patience: Duration) -> Fault {
    let status = response.status().as_u16();
    let host = host_of(response.url());
    let message = excerpt(response).await;
    // a server that wants to be left alone for hours says with 503 what others say with 429
    let long = limit.wait.is_some_and(|wait| wait > patience);
    match status == StatusCode::TOO_MANY_REQUESTS.as_u16() || long {
        true => Fault::RateLimited {
            host,
            limit: Box::new(limit),
            message,
        },
        false => Fault::Status { status, message },
    }
}

impl Answer {
    /// The body was received as far as anybody wants it: its host does well.
    pub(crate) fn went_well(&self) {
        self.slot.went_well();
    }

    /// What an error says. Its place in the limits is free afterwards, so that whoever asks
    /// again because of it does not wait for a place that it holds itself.
    pub(crate) async fn words(self) -> String {
        let Answer { response, slot } = self;
        slot.went_well();
        let words = excerpt(response).await;
        drop(slot);
        words
    }

    /// The body, at most `limit` bytes of it.
    pub(crate) async fn whole(&mut self, limit: u64) -> Result<Whole, Fault> {
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
        self.went_well();
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
        let url = self.response.url().clone();
        let message = self.words().await;
        let fault = match status {
            401 | 403 => Fault::Denied {
                status,
                host: host_of(&url),
                given: Given::None,
                message,
            },
            _ => fault_of_status(status, &url, message),
        };
        RemoteError::new(place, fault)
    }
}

/// The start of an error's body, where it is text for people or programs.
async fn excerpt(mut response: Response) -> String {
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let page = kind.starts_with("text/html");
    if !page && !kind.contains("json") && !kind.starts_with("text/plain") {
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
    let text = String::from_utf8_lossy(&text);
    match page {
        true => shown(title(&text).unwrap_or_default()),
        false => in_words(&text),
    }
}

/// What a failed request means.
fn fault_of(error: reqwest::Error, url: &Url) -> Fault {
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
        return Fault::Tls(error);
    }
    match proxy::before(url).filter(|_| error.is_connect()) {
        Some(proxy) => Fault::Proxy {
            proxy,
            host: host_of(url),
            login: root_cause(&error).contains("proxy authorization required"),
            source: Some(error),
        },
        None => Fault::Network(error),
    }
}

/// What a status means that is no success, of an answer that came from `url`.
pub(crate) fn fault_of_status(status: u16, url: &Url, message: String) -> Fault {
    match (status, proxy::before(url)) {
        (404 | 410, _) => Fault::NotFound,
        (407, Some(proxy)) => Fault::Proxy {
            proxy,
            host: host_of(url),
            login: true,
            source: None,
        },
        _ => Fault::Status { status, message },
    }
}

/// The title of a page for people, which says what they are told: proxies and web servers answer
/// with such pages.
fn title(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("<title>")?;
    let (title, _) = rest.split_once("</title>")?;
    Some(title)
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
