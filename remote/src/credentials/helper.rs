//! Programs that keep credentials: `docker-credential-<name> get`, the address of the server
//! on standard input, an answer in JSON on standard output (docker-credential-helpers,
//! "Development").

use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::Known;
use crate::error::shown;

/// Longest wait for a program: some ask the network, none should ask a person.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longest answer that is read: tokens have a few kilobytes.
const MAX_ANSWER: u64 = 256 << 10;

/// The user name by which a program says that its secret is an identity token.
const TOKEN_USER: &str = "<token>";

/// What programs say that know nothing of a server.
const NOT_FOUND: &str = "credentials not found";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// Whether `name` can only be the end of a program's name, and not a path or a flag.
pub(super) fn is_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !name.is_empty() && name.len() <= 64 && name.bytes().all(legal)
}

/// What the program `name` knows of `server`.
pub(super) async fn ask(name: &str, server: &str) -> Known {
    let program = format!("docker-credential-{name}");
    let unusable = |why: String| Known::Unusable(format!("{program} {why}"));
    let answer = match tokio::time::timeout(PATIENCE, run(&program, server)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
            return unusable("keeps them, and is not installed here".to_owned());
        }
        Ok(Err(error)) => return unusable(format!("cannot be asked: {error}")),
        Err(_) => return unusable(format!("does not answer within {} s", PATIENCE.as_secs())),
    };
    if !answer.done {
        let said = String::from_utf8_lossy(&answer.text);
        return match said.contains(NOT_FOUND) {
            true => Known::Nothing,
            false => unusable(format!("says: {}", shown(&said))),
        };
    }
    match serde_json::from_slice::<Answer>(&answer.text) {
        Ok(found) if found.secret.is_empty() => Known::Nothing,
        Ok(found) if found.username == TOKEN_USER => Known::Identity(found.secret),
        Ok(found) => Known::Password {
            user: found.username,
            password: found.secret,
        },
        // the text is not shown: it may be a secret
        Err(_) => unusable("gives an answer that is not understood".to_owned()),
    }
}

struct Ran {
    done: bool,
    text: Vec<u8>,
}

async fn run(program: &str, server: &str) -> std::io::Result<Ran> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read its input may answer all the same.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let mut text = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(MAX_ANSWER).read_to_end(&mut text).await?;
    }
    let status = child.wait().await?;
    Ok(Ran {
        done: status.success(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs() {
        for good in ["ecr-login", "desktop", "secretservice", "a.b_c"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "../x", "a b", "a/b", "x;y", "ü"] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        match ask("kubepkg-has-no-such", "registry.example.com").await {
            Known::Unusable(why) => assert!(why.contains("not installed"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}
