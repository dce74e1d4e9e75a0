//! How the server is known from outside: the one place that says under which address clients
//! reach it, whether with TLS, and which CA vouches for it.

use std::sync::Arc;

use kubepkg_core::reference::canonical_host;

use super::Asking;
use super::forwarded::Network;
use crate::tls::{Ca, Tls};

/// How the server is known from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Outside {
    /// What the server speaks TLS with.
    pub(super) tls: Option<Arc<Tls>>,
    /// The address clients use, where that is not the one they ask for (`https://host[:port]`).
    pub(super) url: Option<String>,
    /// Who runs it says that clients speak plain HTTP.
    pub(super) plain: bool,
    /// Whose word on the way of a request counts.
    pub(super) proxies: Vec<Network>,
}

impl Outside {
    /// Whether clients speak TLS; `None` where that is not known. Without TLS of its own a server
    /// may stand behind a proxy that speaks it: then a token's address with `http://` would have
    /// clients send their passwords past that proxy, readable. What a request says of its way here
    /// does not count, unless a trusted proxy says it.
    fn clients_speak_tls(&self, asking: &Asking) -> Option<bool> {
        if let Some(url) = &self.url {
            return Some(!url.starts_with("http://"));
        }
        match (&self.tls, asking.way.proxied) {
            (Some(_), _) => Some(true),
            (None, true) => asking.way.tls,
            (None, false) => self.plain.then_some(false),
        }
    }

    /// Address of the server, for this request; `None` where it is not known.
    pub(super) fn base(&self, asking: &Asking) -> Option<String> {
        let tls = self.clients_speak_tls(asking)?;
        let at = self.url(asking);
        Some(at.unwrap_or_else(|| format!("{}://localhost", scheme(tls))))
    }

    /// Address of the server as far as it is known, for this request; `None` where the request
    /// does not say one.
    pub(super) fn url(&self, asking: &Asking) -> Option<String> {
        if let Some(url) = &self.url {
            return Some(url.trim_end_matches('/').to_owned());
        }
        // what comes into a header or a command must not end it
        let host = asking
            .host()
            .filter(|host| canonical_host(host).is_some())?;
        Some(format!("{}://{host}", scheme(self.likely_tls(asking))))
    }

    fn likely_tls(&self, asking: &Asking) -> bool {
        self.clients_speak_tls(asking).unwrap_or(self.tls.is_some())
    }

    /// Whether clients speak TLS, as far as that is known, and `host[:port]` they reach the
    /// server at; `None` where the request does not say one.
    pub(super) fn reached(&self, asking: &Asking) -> (bool, Option<String>) {
        let host = match &self.url {
            Some(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                rest.split('/').next()
            }
            None => asking.host(),
        };
        (self.likely_tls(asking), host.and_then(canonical_host))
    }

    /// The CA that vouches for the server, where it is handed out.
    pub(super) fn ca(&self) -> Option<Arc<Ca>> {
        self.tls.as_ref().and_then(|tls| tls.ca())
    }
}

fn scheme(tls: bool) -> &'static str {
    match tls {
        true => "https",
        false => "http",
    }
}
