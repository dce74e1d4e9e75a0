//! The environment and the home directory: the only module that asks for them, besides the
//! flag table.

use std::path::PathBuf;

/// Docker's credentials file: `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`,
/// when there is one.
pub fn docker_config() -> Option<PathBuf> {
    let folder = folder_from("DOCKER_CONFIG")
        .or_else(|| folder_from("HOME").map(|home| home.join(".docker")))?;
    Some(folder.join("config.json")).filter(|file| file.exists())
}

fn folder_from(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
