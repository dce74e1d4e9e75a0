//! Redirects. They are followed here and not by the HTTP library: each hop takes its place in
//! the limits of its own host, and nothing that was meant for one host goes on to another.

use http::{Method, StatusCode, header};
use reqwest::Response;
use url::Url;

use crate::address::{PlainHosts, host_of};
use crate::body::Body;
use crate::http::Ask;

/// Redirects that are followed: registries need one or two, Go's clients stop at ten.
pub(crate) const MAX_REDIRECTS: usize = 10;

/// Where `response` to `ask` sends us. A form is sent once, to one place. What is uploaded goes
/// on to where a registry keeps it, when the redirect says that it is to be sent there again (307
/// and 308; the others turn a request into a GET).
pub(crate) fn target(ask: &Ask, response: &Response) -> Option<Url> {
    let moved = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let again = matches!(
        response.status(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    ) && !matches!(ask.body, Some(Body::Form(_)));
    if !moved || !(again || matches!(ask.method, Method::GET | Method::HEAD)) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?.to_str().ok()?;
    ask.url.join(location).ok()
}

/// `ask`, sent on to `next`. At another host, or another port, credentials stay behind, and so
/// do the settings of the first host.
pub(crate) fn hop(ask: &Ask, next: Url) -> Ask {
    let mut hop = ask.clone();
    if next.scheme() != ask.url.scheme() || host_of(&next) != host_of(&ask.url) {
        for secret in [
            header::AUTHORIZATION,
            header::PROXY_AUTHORIZATION,
            header::COOKIE,
        ] {
            hop.headers.remove(secret);
        }
        hop.line = crate::http::Way::Foreign;
    }
    hop.url = next;
    hop
}

/// Why a redirect to `next` is not followed after `previous` URLs were asked.
pub(crate) fn refusal(previous: &[Url], next: &Url, plain: &PlainHosts) -> Option<&'static str> {
    let from = previous.last().map(Url::scheme);
    if previous.len() > MAX_REDIRECTS {
        Some("there were too many before it")
    } else if !matches!(next.scheme(), "https" | "http") {
        Some("it leads away from HTTP")
    } else if from == Some("https") && next.scheme() == "http" {
        Some("it leads from HTTPS to plain HTTP")
    } else if !plain.allows_url(next) {
        Some("it leads to plain HTTP, which is not allowed for that host")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn redirects_never_lead_to_less_safety() {
        let plain = PlainHosts::default();
        let follows = |from: &str, to: &str| refusal(&[url(from)], &url(to), &plain).is_none();
        assert!(follows("https://a.example/", "https://b.example/"));
        assert!(follows("http://127.0.0.1:1/", "http://127.0.0.1:2/"));
        assert!(follows("http://127.0.0.1:1/", "https://b.example/"));
        assert!(!follows("https://a.example/", "http://a.example/"));
        assert!(!follows("https://a.example/", "http://127.0.0.1/"));
        assert!(!follows("http://127.0.0.1:1/", "http://b.example/"));
        assert!(!follows("https://a.example/", "file:///etc/passwd"));
        let many = vec![url("https://a.example/"); MAX_REDIRECTS + 1];
        assert!(refusal(&many, &url("https://a.example/"), &plain).is_some());
    }

    #[test]
    fn credentials_do_not_go_on_to_another_host_or_port() {
        let mut ask = Ask::get(url("https://a.example/x"));
        ask.headers
            .insert(header::AUTHORIZATION, "Basic eDp5".parse().unwrap());
        ask.headers
            .insert(header::RANGE, "bytes=1-2".parse().unwrap());
        for (next, kept) in [
            ("https://a.example/y", true),
            ("https://a.example:443/y", true),
            ("https://a.example:444/y", false),
            ("https://b.example/y", false),
            ("https://cdn.a.example/y", false),
        ] {
            let hop = hop(&ask, url(next));
            assert_eq!(
                hop.headers.contains_key(header::AUTHORIZATION),
                kept,
                "{next}"
            );
            assert!(hop.headers.contains_key(header::RANGE), "{next}");
        }
    }
}
