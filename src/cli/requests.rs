//! Packages asked for on the command line.

use kubepkg_core::resolve::Request;

use crate::error::CommandError;

/// A package that is asked for. An empty constraint is a variable that was empty, not a wish.
pub fn package_request(text: &str) -> anyhow::Result<Request> {
    if text.ends_with('@') {
        return Err(
            CommandError::usage(format!("\"{text}\" has no constraint after '@'"))
                .hint("leave the '@' out to take the newest version")
                .into(),
        );
    }
    Ok(text.parse()?)
}
