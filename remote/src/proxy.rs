//! Which HTTP proxy stands on the way to a server, for messages: requests find theirs by the same
//! rules themselves.

use std::sync::OnceLock;

use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use crate::address::is_loopback_url;

/// `host[:port]` of the proxy before `url`, without user and password.
pub(crate) fn before(url: &Url) -> Option<String> {
    static RULES: OnceLock<Matcher> = OnceLock::new();
    if is_loopback_url(url) {
        return None;
    }
    let target = url.as_str().parse().ok()?;
    let proxy = RULES.get_or_init(Matcher::from_system).intercept(&target)?;
    let at = proxy.uri();
    let host = at.host()?;
    Some(match at.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}
