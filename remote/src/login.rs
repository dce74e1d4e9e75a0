//! `Authorization` headers, and users of web servers: Helm repositories and index files behind
//! a password (RFC 7617).

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use url::Url;

use crate::address::host_of;
use crate::client::{Client, Inner};
use crate::credentials::Known;
use crate::error::{Given, RemoteError};
use crate::http::{Ask, Way, Whole};

/// `Bearer …`.
pub(crate) fn bearer(token: &str) -> Option<HeaderValue> {
    sensitive(format!("Bearer {token}"))
}

/// `Basic …`.
pub(crate) fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    sensitive(format!("Basic {pair}"))
}

fn sensitive(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_maybe_shared(Bytes::from(text)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The web servers that asked for a password and took ours, as `scheme://host[:port]`: they
/// are shown it unasked from then on, which saves a request for each file.
#[derive(Default)]
pub(crate) struct LoggedIn(Mutex<HashSet<String>>);

impl LoggedIn {
    pub(crate) fn at(&self, origin: &str) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.contains(origin)
    }

    pub(crate) fn remember(&self, origin: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(origin);
    }
}

/// A file of a web server that may want to know who asks. Nothing is shown to a server that
/// did not ask, nor to one that a redirect led to.
pub(crate) struct Login<'c> {
    inner: &'c Inner,
    ask: Ask,
    /// Whether `ask` carries a password.
    shown: bool,
}

impl Client {
    /// Begins to ask for `url`.
    pub(crate) async fn login(&self, url: Url) -> Login<'_> {
        let inner = &*self.inner;
        let mut ask = Ask::get(url);
        let line = inner.settings.line(&host_of(&ask.url));
        ask.line = line.map_or(Way::Own, Way::Host);
        let mut login = Login {
            inner,
            ask,
            shown: false,
        };
        if inner.logged_in.at(&login.origin()) {
            login.show(&login.known().await);
        }
        login
    }

    /// GETs a file of a web server, with the user configured for it where the server asks for
    /// one.
    pub(crate) async fn get_logged_in(
        &self,
        place: &str,
        url: Url,
        limit: u64,
    ) -> Result<Whole, RemoteError> {
        let mut login = self.login(url).await;
        loop {
            match self.inner.http.get_asked(place, login.ask(), limit).await {
                Ok(whole) => {
                    login.accepted();
                    return Ok(whole);
                }
                Err(error) => login.refused(error).await?,
            }
        }
    }
}

impl Login<'_> {
    /// The request to send.
    pub(crate) fn ask(&self) -> &Ask {
        &self.ask
    }

    /// The same with one header more.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.ask.headers.insert(name, value);
        self
    }

    /// It was answered.
    pub(crate) fn accepted(&self) {
        if self.shown {
            self.inner.logged_in.remember(self.origin());
        }
    }

    /// It failed. Whether it is to be sent again, with a password; else the error.
    pub(crate) async fn refused(&mut self, error: RemoteError) -> Result<(), RemoteError> {
        if !error.is_login_wanted_by(&host_of(&self.ask.url)) {
            return Err(error);
        }
        if self.shown {
            return Err(error.with(Given::Own));
        }
        match self.known().await {
            Known::Unusable(why) => Err(error.with(Given::Unusable(why))),
            known if self.show(&known) => Ok(()),
            _ => Err(error),
        }
    }

    fn origin(&self) -> String {
        format!("{}://{}", self.ask.url.scheme(), host_of(&self.ask.url))
    }

    async fn known(&self) -> Known {
        let account = format!("{}{}", host_of(&self.ask.url), self.ask.url.path());
        self.inner.access.credentials.of(&account).await
    }

    fn show(&mut self, known: &Known) -> bool {
        if let Known::Password { user, password } = known
            && let Some(value) = basic(user, password)
        {
            self.ask.headers.insert(header::AUTHORIZATION, value);
            self.shown = true;
        }
        self.shown
    }
}
