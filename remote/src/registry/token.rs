//! Bearer tokens, one for each repository, from the token server a registry names.
//!
//! Sources: the distribution project's "Token Authentication" and "OAuth2 Token
//! Authentication", which Docker Hub and all others follow. The requests are sent like all
//! others: with the same limits, pauses and certificates.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::challenge::Challenge;
use super::endpoint::Endpoint;
use super::given;
use crate::address::host_of;
use crate::body::Body;
use crate::credentials::Known;
use crate::error::{Fault, RemoteError};
use crate::http::{Ask, Http, Way};
use crate::login::basic;
use crate::retry::Tries;

/// Who asks, for the logs of token servers.
const CLIENT: &str = "kubepkg";

/// Largest answer of a token server: tokens have a few kilobytes.
const MAX_ANSWER: u64 = 1 << 20;

/// The `Authorization` header that was accepted last for one repository.
pub(super) type TokenSlot = Arc<tokio::sync::Mutex<Option<HeaderValue>>>;

/// Tokens in use.
#[derive(Default)]
pub(super) struct Tokens {
    slots: Mutex<HashMap<String, TokenSlot>>,
}

impl Tokens {
    /// The place where the token for `key` is kept.
    pub(super) fn slot(&self, key: &str) -> TokenSlot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key.to_owned()).or_default())
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
}

/// A token for `at`, by the server that `challenge` names.
pub(super) async fn get(
    http: &Http,
    at: &Endpoint,
    place: &str,
    challenge: &Challenge,
    known: &Known,
    tries: &mut Tries,
) -> Result<String, RemoteError> {
    let wrong = |fault| RemoteError::new(place, fault);
    let realm = challenge.parameter("realm").unwrap_or_default();
    let realm: Url = realm.parse().map_err(|e| {
        let shown = crate::error::shown(realm);
        wrong(Fault::Shape(format!(
            "the registry names its token server \"{shown}\": {e}"
        )))
    })?;
    tracing::debug!(place, host = host_of(&realm), "asking for a token");
    let ask = question(at, realm, challenge, known);
    let mut tries_of_body = tries.clone();
    loop {
        let mut answer = http.send(place, &ask, tries).await?;
        let status = answer.response.status();
        if status != StatusCode::OK {
            let host = host_of(answer.response.url());
            let message = answer.words().await;
            return Err(match status.as_u16() {
                // 400 is what OAuth 2 answers to a token it does not know
                400 | 401 | 403 => at.denied(place, status.as_u16(), given(known), message),
                status => {
                    let message = format!("from the token server {host}: {message}");
                    wrong(Fault::Status { status, message })
                }
            });
        }
        let whole = match answer.whole(MAX_ANSWER).await {
            Ok(whole) => whole,
            Err(fault) => {
                http.again(place, &answer, fault, &mut tries_of_body)?;
                continue;
            }
        };
        // the text is not shown: it holds the token
        let read: Answer = serde_json::from_slice(&whole.bytes).map_err(|_| {
            let host = host_of(&ask.url);
            wrong(Fault::Shape(format!(
                "the token server {host} answers with no JSON of a token"
            )))
        })?;
        let token = match read.token.is_empty() {
            true => read.access_token,
            false => read.token,
        };
        return Ok(token);
    }
}

/// What the token is to be good for: `actions` on what the registry says it is about, which is
/// another repository than the one in the path where a mirror keeps it below a name of its own.
fn scope(asked: Option<&str>, repository: &str, actions: &str) -> String {
    let names = asked.unwrap_or_default().split(' ').filter_map(|scope| {
        let (name, _) = scope.strip_prefix("repository:")?.rsplit_once(':')?;
        (!name.is_empty()).then(|| format!("repository:{name}:{actions}"))
    });
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => format!("repository:{repository}:{actions}"),
        false => names.join(" "),
    }
}

/// The request for a token.
fn question(at: &Endpoint, realm: Url, challenge: &Challenge, known: &Known) -> Ask {
    let service = challenge.parameter("service");
    let scope = scope(challenge.parameter("scope"), &at.repository, at.actions());
    let mut ask = Ask::get(realm);
    // settings for the registry's host are for the registry's host
    if at.is_at(&ask.url) {
        ask.line = at.line.clone().map_or(Way::Own, Way::Host);
    }
    if let Known::Identity(token) = known {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token")
            .append_pair("service", service.unwrap_or_default())
            .append_pair("client_id", CLIENT)
            .append_pair("scope", &scope)
            .append_pair("refresh_token", token);
        ask.method = Method::POST;
        ask.body = Some(Body::Form(Bytes::from(form.finish())));
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        ask.headers.insert(header::CONTENT_TYPE, form);
        return ask;
    }
    {
        let mut query = ask.url.query_pairs_mut();
        if let Some(service) = service {
            query.append_pair("service", service);
        }
        query.append_pair("scope", &scope);
        query.append_pair("client_id", CLIENT);
    }
    if let Known::Password { user, password } = known
        && let Some(value) = basic(user, password)
    {
        ask.headers.insert(header::AUTHORIZATION, value);
    }
    ask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_what_the_registry_names_and_what_is_to_be_done() {
        for (asked, want) in [
            (None, "repository:a/b:pull"),
            (
                Some("repository:hub/a/b:pull,push"),
                "repository:hub/a/b:pull",
            ),
            (
                Some("repository:x:pull repository:y:*"),
                "repository:x:pull repository:y:pull",
            ),
            (Some("registry:catalog:*"), "repository:a/b:pull"),
        ] {
            assert_eq!(scope(asked, "a/b", "pull"), want, "{asked:?}");
        }
        // not more than is needed, and not less because a registry names one at a time
        for asked in [None, Some("repository:a/b:pull"), Some("repository:a/b:*")] {
            let want = "repository:a/b:pull,push";
            assert_eq!(scope(asked, "a/b", "pull,push"), want, "{asked:?}");
        }
    }
}
