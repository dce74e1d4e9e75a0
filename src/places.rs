//! The environment and the home directory: the only module that asks for them, besides the
//! flag table.

use std::ffi::OsString;
use std::path::PathBuf;

/// Docker's credentials file: `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`,
/// when there is one.
pub fn docker_config() -> Option<PathBuf> {
    let folder = folder_from("DOCKER_CONFIG")
        .or_else(|| folder_from("HOME").map(|home| home.join(".docker")))?;
    Some(folder.join("config.json")).filter(|file| file.exists())
}

/// The folders that programs are looked for in.
pub fn programs() -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    // an empty element is the working directory, where a program is not looked for
    std::env::split_paths(&path)
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect()
}

/// `$XDG_CONFIG_HOME/kubepkg/config.yaml`: the command's own configuration.
pub fn config_file() -> Option<PathBuf> {
    xdg("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("config.yaml"))
}

/// `$XDG_STATE_HOME/kubepkg`: what the command has to remember.
pub fn state_folder() -> Option<PathBuf> {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// `$XDG_CACHE_HOME/kubepkg`: what is safe to delete.
pub fn cache_folder() -> Option<PathBuf> {
    xdg("XDG_CACHE_HOME", ".cache")
}

/// kubepkg's folder in one of the user's base folders. The XDG specification has relative
/// paths in these variables ignored.
fn xdg(variable: &str, below_home: &str) -> Option<PathBuf> {
    let base = folder_from(variable)
        .filter(|folder| folder.is_absolute())
        .or_else(|| Some(folder_from("HOME")?.join(below_home)))?;
    Some(base.join("kubepkg"))
}

/// The value of a variable the user named, or that has no flag; not when it is empty.
pub fn variable(name: &str) -> Option<OsString> {
    // names with '=' or NUL cannot be looked up
    if name.is_empty() || name.contains(['=', '\0']) {
        return None;
    }
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn folder_from(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}
