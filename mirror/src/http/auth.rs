//! Logins at the registry: who asks, whether they may, and what a client is told that may not.
//!
//! Registry clients are asked for tokens (Bearer): it is the one way in which all of them read
//! without a login and write with one. A name and password (Basic) are taken at any request as
//! well. They are asked for outside the registry API, where browsers, Helm and Prometheus know
//! nothing else, and where the server cannot know the address at which clients get tokens.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use http_body::Body as _;
use kubepkg_core::name::RepositoryName;
use serde_json::json;

use super::error::{ApiError, Code};
use super::{Asking, Shared, json_answer, push};
use crate::access::{Action, Credentials, NotThem, TOKEN_LIFE, Who};

/// Where tokens are asked for.
pub(super) const TOKEN_PATH: &str = "/token";

/// Asks for a name and a password.
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"kubepkg mirror\"");

/// Longest form a client sends to get a token.
const MAX_FORM: usize = 16 * 1024;

/// How long a client may take for it.
const FORM_WITHIN: Duration = Duration::from_secs(10);

/// Who asks.
pub(super) async fn identify(shared: &Shared, asking: &Asking) -> Result<Who, ApiError> {
    let Some(gate) = &shared.gate else {
        return Ok(Who::Nobody);
    };
    let credentials = Credentials::of(&asking.headers);
    if credentials == Credentials::None {
        return Ok(Who::Nobody);
    }
    if !gate.has_logins() {
        // a client that logs in everywhere is no reason to refuse it
        return Ok(Who::Nobody);
    }
    let who = gate.who(&credentials, asking.way.client).await;
    who.map_err(|why| not_them(shared, asking, &why))
}

/// What a client is told that is not who it says.
fn not_them(shared: &Shared, asking: &Asking, why: &NotThem) -> ApiError {
    let message = match why {
        NotThem::Wrong => "user or password are wrong",
        NotThem::Token => "the token is none of this mirror's, or is too old; log in again",
        NotThem::Unreadable => "the header Authorization holds no login",
        NotThem::Later(wait) => {
            let message = "there were too many wrong logins by this name or from this address, or \
                           there are too many at once; try again later";
            let status = StatusCode::TOO_MANY_REQUESTS;
            let seconds = wait.as_secs().max(1);
            return ApiError::new(
                status,
                Code::TooManyRequests,
                message.to_owned(),
                json!({"retryAfterSeconds": seconds}),
            )
            .with(RETRY_AFTER, Some(seconds.into()));
        }
    };
    unauthorized(shared, asking, message.to_owned(), "")
}

/// 401. `scope`: what a token is needed for.
fn unauthorized(shared: &Shared, asking: &Asking, message: String, scope: &str) -> ApiError {
    let refused = ApiError::new(
        StatusCode::UNAUTHORIZED,
        Code::Unauthorized,
        message,
        json!({"path": crate::route::shown(asking.path())}),
    );
    let base = match crate::route::is_registry(asking.path()) {
        true => shared.outside.base(asking),
        false => None,
    };
    let Some(base) = base else {
        return refused.with(WWW_AUTHENTICATE, Some(BASIC));
    };
    let service = base.split("://").last().unwrap_or_default();
    let scope = match scope {
        "" => String::new(),
        scope => format!(",scope=\"{scope}\""),
    };
    let challenge = format!("Bearer realm=\"{base}{TOKEN_PATH}\",service=\"{service}\"{scope}");
    refused.with(WWW_AUTHENTICATE, HeaderValue::try_from(challenge).ok())
}

/// Whether somebody who asks for nothing in particular has to log in: from this answer clients
/// learn how they could.
pub(super) fn at_the_door(shared: &Shared, asking: &Asking) -> Result<(), ApiError> {
    match &shared.gate {
        Some(gate)
            if gate.has_logins() && Credentials::of(&asking.headers) == Credentials::None =>
        {
            let message = match gate.is_open_for_reading() {
                true => "this mirror knows logins; reading needs none",
                false => "this mirror knows logins, and reading some of it needs one",
            };
            Err(unauthorized(shared, asking, message.to_owned(), ""))
        }
        _ => Ok(()),
    }
}

/// Refuses what somebody may not do with a repository, shown as `asked`.
pub(super) fn demand(
    shared: &Shared,
    asking: &Asking,
    action: Action,
    repository: &str,
) -> Result<(), ApiError> {
    let Some(gate) = &shared.gate else {
        return Ok(());
    };
    match gate.allows(&asking.who, action, repository) {
        true => Ok(()),
        false => Err(refused(shared, asking, action, repository)),
    }
}

/// What somebody is told who may not do this with a repository.
pub(super) fn refused(
    shared: &Shared,
    asking: &Asking,
    action: Action,
    repository: &str,
) -> ApiError {
    let (doing, may, actions) = match action {
        Action::Pull => ("reading", "read", "pull"),
        Action::Push => ("pushing to", "push to", "pull,push"),
        Action::Delete => ("deleting from", "delete from", "pull,push,delete"),
    };
    let shown = crate::route::shown(repository);
    if login_helps(shared, asking) {
        // the path of a file need not be a name, and must not end what it stands in
        let scope = match repository.parse::<RepositoryName>() {
            Ok(name) => format!("repository:{name}:{actions}"),
            Err(_) => String::new(),
        };
        let message = format!("{doing} {shown} needs a login");
        return unauthorized(shared, asking, message, &scope);
    }
    let user = asking.who.user().unwrap_or("nobody");
    let message = format!("{user} may not {may} {shown}; the rules of this mirror say who");
    forbidden(message, json!({"name": shown, "action": may}))
}

/// Whether who may not do something could log in and be somebody who may: then that is what it
/// is told (401), and else that it may not (403).
fn login_helps(shared: &Shared, asking: &Asking) -> bool {
    let has_logins = shared.gate.as_ref().is_some_and(|gate| gate.has_logins());
    has_logins && asking.who.user().is_none()
}

/// 403.
fn forbidden(message: String, detail: serde_json::Value) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, Code::Denied, message, detail)
}

/// Whether everybody may read everything, so that nobody need be asked.
pub(super) fn reads_are_open(shared: &Shared) -> bool {
    shared
        .gate
        .as_ref()
        .is_none_or(|gate| gate.is_open_for_reading())
}

/// Asks who shows no login for one, where not everybody may read everything. For what tells of
/// the mirror as a whole.
pub(super) fn demand_somebody(shared: &Shared, asking: &Asking) -> Result<(), ApiError> {
    if reads_are_open(shared) || asking.who.user().is_some() {
        return Ok(());
    }
    if login_helps(shared, asking) {
        let message = "not everybody may read from this mirror: log in".to_owned();
        return Err(unauthorized(shared, asking, message, ""));
    }
    let message = "not everybody may read from this mirror, and it has no users who could log in";
    let detail = json!({"path": crate::route::shown(asking.path())});
    Err(forbidden(message.to_owned(), detail))
}

/// Whether this client may read a repository.
pub(super) fn may_read(shared: &Shared, asking: &Asking, repository: &RepositoryName) -> bool {
    reads_are_open(shared)
        || shared
            .gate
            .as_ref()
            .is_none_or(|gate| gate.allows(&asking.who, Action::Pull, repository.as_str()))
}

/// `GET|POST /token`: a token for who shows a password, or for nobody in particular.
pub(super) async fn token(shared: &Shared, asking: &Asking, body: Body) -> Response {
    let Some(gate) = shared.gate.as_ref().filter(|gate| gate.has_logins()) else {
        let absent = ApiError::no_page(asking.path());
        return push::turned_away(absent, asking, body)
            .await
            .into_response();
    };
    let credentials = match asking.method {
        Method::GET => Credentials::of(&asking.headers),
        Method::POST => match of_form(asking, body).await {
            Some(credentials) => credentials,
            None => {
                let message =
                    "a token is asked for with grant_type=password, username and password";
                return ApiError::new(
                    StatusCode::BAD_REQUEST,
                    Code::Unsupported,
                    message.to_owned(),
                    json!({"path": TOKEN_PATH}),
                )
                .into_response();
            }
        },
        _ => {
            let error = ApiError::read_only(asking);
            return push::turned_away(error, asking, body).await.into_response();
        }
    };
    if let Credentials::Token(_) = credentials {
        // else one that was stolen would last for ever
        let message = "a token is given for a name and a password, not for another token";
        let error = unauthorized(shared, asking, message.to_owned(), "");
        return error.into_response();
    }
    let token = match gate.token(&credentials, asking.way.client).await {
        Ok(token) => token,
        Err(why) => return not_them(shared, asking, &why).into_response(),
    };
    let mut response = json_answer(
        asking,
        &json!({
            "token": token,
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": TOKEN_LIFE.as_secs(),
            "issued_at": kubepkg_core::time::Time::now().to_string(),
        }),
    );
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

/// What a form of OAuth 2 shows; nothing when it is none.
async fn of_form(asking: &Asking, body: Body) -> Option<Credentials> {
    let bytes = tokio::time::timeout(FORM_WITHIN, read(body)).await.ok()??;
    let field = |name: &str| {
        let mut fields = url::form_urlencoded::parse(&bytes);
        fields.find(|(key, _)| key == name).map(|(_, value)| value)
    };
    match field("grant_type").as_deref() {
        Some("password") => Some(Credentials::password(
            &field("username")?,
            &field("password")?,
        )),
        None => Some(Credentials::of(&asking.headers)),
        Some(_) => None,
    }
}

async fn read(mut body: Body) -> Option<zeroize::Zeroizing<Vec<u8>>> {
    let mut bytes = zeroize::Zeroizing::new(Vec::new());
    loop {
        let frame = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx));
        let Some(frame) = frame.await else {
            return Some(bytes);
        };
        if let Ok(data) = frame.ok()?.into_data() {
            if bytes.len() + data.len() > MAX_FORM {
                return None;
            }
            bytes.extend_from_slice(&data);
        }
    }
}
