//! Bearer tokens, got by `oci-client`, one for each repository.
//!
//! Two things about that crate shape this module. Its client panics when it is built on a
//! machine without certificate authorities, so it is built only when a registry asks for a
//! token and after a look whether it can be. And it does not hand on the status of a token
//! server that says no, so [`refusal`] judges by the text: what is no JSON comes from
//! something in between, or from a server in trouble, and is worth another try.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::HeaderValue;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciEnvelope, OciErrorCode};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};

use super::credentials::Known;
use super::endpoint::Endpoint;
use super::given;
use crate::error::{Fault, in_words, shown};
use crate::http::fault_of;
use crate::tls::{Authorities, CONNECT_TIMEOUT, IDLE_TIMEOUT, USER_AGENT};

/// The `Authorization` header that was accepted last for one repository.
pub(super) type TokenSlot = Arc<tokio::sync::Mutex<Option<HeaderValue>>>;

/// Tokens in use, and the clients that get new ones.
pub(super) struct Tokens {
    authorities: Arc<Authorities>,
    plain: OnceLock<Client>,
    secure: OnceLock<Client>,
    slots: Mutex<HashMap<String, TokenSlot>>,
}

impl Tokens {
    pub(super) fn new(authorities: Arc<Authorities>) -> Tokens {
        Tokens {
            authorities,
            plain: OnceLock::new(),
            secure: OnceLock::new(),
            slots: Mutex::default(),
        }
    }

    /// The place where the token for `key` is kept.
    pub(super) fn slot(&self, key: &str) -> TokenSlot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(key.to_owned()).or_default())
    }

    /// A new token for pulling from `at`; `None` when the registry wants none after all.
    pub(super) async fn get(
        &self,
        at: &Endpoint,
        place: &str,
        known: &Known,
    ) -> Result<Option<String>, Fault> {
        tracing::debug!(place, host = at.host, "asking for a token");
        let client = self.client(at.scheme == "http")?;
        // The tag plays no part: a token is for a repository.
        let repository =
            Reference::with_tag(at.host.clone(), at.repository.clone(), "latest".to_owned());
        let auth = match known {
            Known::Password { user, password } => {
                RegistryAuth::Basic(user.clone(), password.clone())
            }
            _ => RegistryAuth::Anonymous,
        };
        let operation = RegistryOperation::Pull;
        match client.auth(&repository, &auth, operation).await {
            Ok(token) => Ok(token),
            Err(OciDistributionError::AuthenticationFailure(text)) => {
                Err(refusal(&text, at, known))
            }
            Err(OciDistributionError::RequestError(error)) => Err(fault_of(error)),
            Err(other) => Err(Fault::Shape(format!(
                "the token server's answer is not understood: {}",
                shown(&other.to_string())
            ))),
        }
    }

    fn client(&self, plain: bool) -> Result<&Client, Fault> {
        let (cell, protocol) = match plain {
            true => (&self.plain, ClientProtocol::Http),
            false => (&self.secure, ClientProtocol::Https),
        };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        if !self.authorities.system() {
            return Err(Fault::NoSystemCertificates);
        }
        let own = self.authorities.own.iter().map(|pem| Certificate {
            encoding: CertificateEncoding::Pem,
            data: pem.clone(),
        });
        let config = ClientConfig {
            protocol,
            extra_root_certificates: own.collect(),
            user_agent: USER_AGENT,
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(IDLE_TIMEOUT),
            ..ClientConfig::default()
        };
        let client = Client::try_from(config).map_err(|e| Fault::CaFile(e.to_string()))?;
        Ok(cell.get_or_init(|| client))
    }
}

/// What a token server means that did not answer 200.
fn refusal(text: &str, at: &Endpoint, known: &Known) -> Fault {
    let envelope = serde_json::from_str::<OciEnvelope>(text);
    let limited = envelope.is_ok_and(|envelope| {
        let mut codes = envelope.errors.iter().map(|error| &error.code);
        codes.any(|code| *code == OciErrorCode::Toomanyrequests)
    });
    let json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let message = in_words(text);
    if json && !limited {
        // The registry itself did answer 401, else nobody would have asked for a token.
        return Fault::Denied {
            status: 401,
            host: at.host.clone(),
            given: given(known),
            message,
        };
    }
    Fault::Token(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PlainHosts;

    #[test]
    fn what_a_token_server_means() {
        let reference = "registry.example.com/a:1".parse().unwrap();
        let at = Endpoint::of(&reference, None, &PlainHosts::default()).unwrap();
        for (text, word) in [
            (
                r#"{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}"#,
                "slow",
            ),
            ("<html>502 Bad Gateway</html>", "Bad Gateway"),
            ("", ""),
        ] {
            let fault = refusal(text, &at, &Known::Nothing);
            assert!(fault.is_passing(), "{text}: {fault}");
            assert!(fault.to_string().contains(word), "{fault}");
        }
        for text in [
            r#"{"details":"incorrect username or password"}"#,
            r#"{"errors":[{"code":"DENIED","message":"denied"}]}"#,
        ] {
            let fault = refusal(text, &at, &Known::Nothing);
            assert!(matches!(fault, Fault::Denied { .. }), "{text}: {fault}");
        }
    }
}
