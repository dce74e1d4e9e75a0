//! The environment and the home directory: the only module that asks for them, besides the
//! flag table.

use std::ffi::OsString;
use std::path::PathBuf;

/// The files with credentials of registries, as the tools of containers and Docker look for
/// them: `$REGISTRY_AUTH_FILE` alone where it is set, else
/// `$XDG_RUNTIME_DIR/containers/auth.json`, `$XDG_CONFIG_HOME/containers/auth.json` and
/// `$DOCKER_CONFIG/config.json` (`~/.docker/config.json`), those of them that there are.
pub fn registry_configs() -> Vec<PathBuf> {
    if let Some(file) = folder_from("REGISTRY_AUTH_FILE") {
        return vec![file];
    }
    let home = folder_from("HOME");
    let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let containers = |folder: Option<PathBuf>| Some(folder?.join("containers/auth.json"));
    let docker = folder_from("DOCKER_CONFIG").or_else(|| below_home(".docker"));
    let all = [
        containers(folder_from("XDG_RUNTIME_DIR")),
        containers(folder_from("XDG_CONFIG_HOME").or_else(|| below_home(".config"))),
        docker.map(|folder| folder.join("config.json")),
    ];
    all.into_iter()
        .flatten()
        .filter(|file| file.exists())
        .collect()
}

/// Helm's list of repositories, which holds the users of those with a password:
/// `$HELM_REPOSITORY_CONFIG`, `$HELM_CONFIG_HOME/repositories.yaml`, or
/// `$XDG_CONFIG_HOME/helm/repositories.yaml`, when there is one.
pub fn helm_config() -> Option<PathBuf> {
    let file = folder_from("HELM_REPOSITORY_CONFIG").or_else(|| {
        let folder = folder_from("HELM_CONFIG_HOME").or_else(|| {
            let base = folder_from("XDG_CONFIG_HOME")
                .or_else(|| Some(folder_from("HOME")?.join(".config")))?;
            Some(base.join("helm"))
        })?;
        Some(folder.join("repositories.yaml"))
    })?;
    Some(file).filter(|file| file.exists())
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

/// The usual variables that say where buckets are and who asks (`AWS_ACCESS_KEY_ID`, `AWS_REGION`,
/// `AWS_ENDPOINT_URL`, …), by their names.
pub fn s3() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty())
        .collect()
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
