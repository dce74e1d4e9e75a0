//! What a server of buckets said, in words that may be shown. Its errors come with the address
//! that was asked, perhaps with a password in it, and with the body of the answer: that of a
//! refused key holds the key and what was signed. Of the address the place is shown, and of the
//! body its code alone.

use std::error::Error;
use std::fmt::Write as _;

use kubepkg_core::error::shown;
use kubepkg_core::location::redacted;

/// The code of a bucket that is not there.
const NO_BUCKET: &str = "NoSuchBucket";

/// Behind these words comes the status of an answer and, after a colon, its body.
const STATUS: &str = "status code: ";

/// Behind these words comes a body.
const RESPONSE: &str = "error response: ";

/// Longest code that is shown: they are single words.
const MOST_CODE: usize = 64;

/// The error and what caused it.
pub(super) fn said(error: &dyn Error) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = without_body(&error.to_string());
        // most of them repeat what caused them
        if !said.iter().any(|before| before.contains(&text)) {
            said.push(text);
        }
        next = error.source();
    }
    said.join(": ")
}

/// Whether the server says that there is no such bucket: then nobody knows what is in it.
pub(super) fn is_no_bucket(error: &dyn Error) -> bool {
    code(&error.to_string()) == Some(NO_BUCKET)
}

fn without_body(text: &str) -> String {
    let mut end = text.find('<').unwrap_or(text.len());
    if let Some((before, behind)) = text.split_once(STATUS) {
        let status = behind.split(": ").next().unwrap_or_default();
        end = end.min(before.len() + STATUS.len() + status.len());
    }
    if let Some((before, _)) = text.split_once(RESPONSE) {
        end = end.min(before.len() + RESPONSE.len());
    }
    let mut said = String::new();
    for word in text[..end].split_whitespace() {
        let space = if said.is_empty() { "" } else { " " };
        let _ = match word.contains("://") {
            true => write!(said, "{space}{}", redacted(word)),
            false => write!(said, "{space}{word}"),
        };
    }
    if let Some(code) = code(text) {
        let _ = write!(said, " ({code})");
    }
    shown(&said)
}

/// The code in the body of an answer.
fn code(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once("<Code>")?;
    let (code, _) = behind.split_once("</Code>")?;
    let word = !code.is_empty() && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
    (word && code.len() <= MOST_CODE).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Outer(&'static str, #[source] std::io::Error);

    #[test]
    fn of_an_answer_only_its_code_is_shown() {
        let text = "Error performing GET https://user:pass@s3.example/mirror/x?X-Amz-Signature=ab in \
            2ms - Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\
            <Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIAKEY</AWSAccessKeyId>\
            <StringToSign>AWS4-HMAC-SHA256</StringToSign></Error>";
        let shown = said(&std::io::Error::other(text));
        assert_eq!(
            shown,
            "Error performing GET https://s3.example/mirror/x in 2ms - Server returned non-2xx \
             status code: 403 Forbidden (SignatureDoesNotMatch)"
        );
        for (text, want) in [
            (
                "status code: 403 Forbidden: key AKIAKEY",
                "status code: 403 Forbidden",
            ),
            (
                "returned error response: AKIAKEY",
                "returned error response:",
            ),
            ("<html>AKIAKEY", ""),
            ("<Code>AKIA KEY</Code>", ""),
        ] {
            assert_eq!(said(&std::io::Error::other(text)), want);
        }
    }

    #[test]
    fn what_caused_it_is_said_once() {
        let cause = || std::io::Error::other("connection refused");
        let outer = Outer("Generic S3 error: connection refused", cause());
        assert_eq!(said(&outer), "Generic S3 error: connection refused");
        let outer = Outer("error sending request", cause());
        assert_eq!(said(&outer), "error sending request: connection refused");
    }

    #[test]
    fn a_bucket_that_is_not_there_is_told_from_an_object_that_is_not() {
        let text = |code: &str| {
            let body = format!("<Error><Code>{code}</Code></Error>");
            std::io::Error::other(format!("status code: 404 Not Found: {body}"))
        };
        assert!(is_no_bucket(&text("NoSuchBucket")));
        assert!(!is_no_bucket(&text("NoSuchKey")));
        assert!(!is_no_bucket(&std::io::Error::other("NoSuchBucket")));
    }
}
