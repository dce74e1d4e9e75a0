//! `KUBEPKG_<FLAG>`: the one table of variables that stand in for flags.
//!
//! A variable becomes the default of its flag, so the flag on the command line always wins.
//! Lists are separated by commas in variables only: a comma in a flag belongs to the value.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

/// A variable and the flag it stands in for.
#[derive(Debug)]
pub struct Variable {
    /// `KUBEPKG_<FLAG>`.
    pub name: &'static str,
    /// The long form of the flag.
    pub flag: &'static str,
    /// A value it can have.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests set every variable"))]
    pub example: &'static str,
}

const fn variable(name: &'static str, flag: &'static str, example: &'static str) -> Variable {
    Variable {
        name,
        flag,
        example,
    }
}

/// Every variable there is. What is not here has none.
pub const VARIABLES: &[Variable] = &[
    variable("KUBEPKG_ACCESS", "access", "access.yaml"),
    variable(
        "KUBEPKG_API_VERSION",
        "api-version",
        "monitoring.coreos.com/v1",
    ),
    variable("KUBEPKG_BUNDLE_KEY", "bundle-key", "site.pub"),
    variable("KUBEPKG_CATCH_ALL", "catch-all", "true"),
    variable("KUBEPKG_CA_FILE", "ca-file", "ca.pem"),
    variable("KUBEPKG_CERT", "cert", "client.pem"),
    variable("KUBEPKG_CERT_KEY", "cert-key", "client.key"),
    variable("KUBEPKG_CLIENT_CA", "client-ca", "clients.pem"),
    variable("KUBEPKG_CLIENT_CERT", "client-cert", "/etc/node.crt"),
    variable("KUBEPKG_CLIENT_KEY", "client-key", "/etc/node.key"),
    variable("KUBEPKG_COLOR", "color", "never"),
    variable("KUBEPKG_CONFIG", "config", "mirror.yaml"),
    variable("KUBEPKG_ENCRYPT", "encrypt", "true"),
    variable("KUBEPKG_EXPIRES", "expires", "90d"),
    variable("KUBEPKG_EXPLORE", "explore", "true"),
    variable(
        "KUBEPKG_EXTERNAL_URL",
        "external-url",
        "https://mirror.example.com",
    ),
    variable("KUBEPKG_FOREIGN_LAYERS", "foreign-layers", "true"),
    variable("KUBEPKG_GC_EVERY", "gc-every", "6h"),
    variable("KUBEPKG_GC_GRACE", "gc-grace", "1h"),
    variable("KUBEPKG_HANDSHAKE_TIMEOUT", "handshake-timeout", "10s"),
    variable("KUBEPKG_HEADER_TIMEOUT", "header-timeout", "30s"),
    variable("KUBEPKG_HELM", "helm", "/usr/local/bin/helm"),
    variable("KUBEPKG_HOSTS_DIR", "hosts-dir", "/etc/containerd/certs.d"),
    variable("KUBEPKG_HTPASSWD", "htpasswd", "htpasswd"),
    variable("KUBEPKG_IDLE_TIMEOUT", "idle-timeout", "5m"),
    variable("KUBEPKG_INSTALLED", "installed", "installed.yaml"),
    variable("KUBEPKG_JOBS", "jobs", "4"),
    variable("KUBEPKG_KEEP_IMPORTS", "keep-imports", "3"),
    variable("KUBEPKG_KUBE_VERSION", "kube-version", "1.35.0"),
    variable("KUBEPKG_LIMIT_RATE", "limit-rate", "50MiB"),
    variable("KUBEPKG_LISTEN", "listen", "127.0.0.1:5000"),
    variable("KUBEPKG_LOCAL", "local", "/var/lib/kubepkg-mirror"),
    variable("KUBEPKG_LOGIN_FAILURES", "login-failures", "20"),
    variable("KUBEPKG_LOG_FORMAT", "log-format", "json"),
    variable("KUBEPKG_MAX_AGE", "max-age", "30d"),
    variable("KUBEPKG_MAX_CONNECTIONS", "max-connections", "4096"),
    variable("KUBEPKG_MIN_FREE", "min-free", "5"),
    variable("KUBEPKG_MIRROR", "mirror", "https://mirror.example.com"),
    variable("KUBEPKG_NAMESPACE", "namespace", "web"),
    variable("KUBEPKG_NODE_CA", "node-ca", "/etc/ca.pem"),
    variable("KUBEPKG_NO_PROGRESS", "no-progress", "true"),
    variable("KUBEPKG_OFFLINE", "offline", "true"),
    variable("KUBEPKG_OWN_NAME", "own-name", "mirror.example.com"),
    variable("KUBEPKG_PER_HOST", "per-host", "3"),
    variable(
        "KUBEPKG_PLAIN_HTTP",
        "plain-http",
        "registry.example.com:5000",
    ),
    variable("KUBEPKG_PLATFORM", "platform", "linux/amd64"),
    variable("KUBEPKG_PUBLIC_KEY", "public-key", "release.pub"),
    variable("KUBEPKG_QUIET", "quiet", "true"),
    variable("KUBEPKG_READ_ONLY", "read-only", "true"),
    variable("KUBEPKG_REGISTRY_CONFIG", "registry-config", "config.json"),
    variable("KUBEPKG_RELOAD_EVERY", "reload-every", "5s"),
    variable(
        "KUBEPKG_REPO",
        "repo",
        "https://packages.example.com/index.yaml",
    ),
    variable("KUBEPKG_REVISION", "revision", "main@sha1:1f2e3d"),
    variable("KUBEPKG_ROOT_KEY", "root-key", "root.pub"),
    variable("KUBEPKG_ROOT_THRESHOLD", "root-threshold", "2"),
    variable("KUBEPKG_SCRUB_RATE", "scrub-rate", "20MiB"),
    variable("KUBEPKG_SELF_SIGNED", "self-signed", "mirror.example.com"),
    variable("KUBEPKG_SIGN_KEY", "sign-key", "release.key"),
    variable("KUBEPKG_SIGN_KEY_ENV", "sign-key-env", "RELEASE_KEY"),
    variable("KUBEPKG_SOURCE", "source", "https://git.example.com/web"),
    variable("KUBEPKG_STOP_WITHIN", "stop-within", "18s"),
    variable("KUBEPKG_STORE", "store", "/srv/mirror"),
    variable("KUBEPKG_TLS_CA", "tls-ca", "ca.pem"),
    variable("KUBEPKG_TLS_CERT", "tls-cert", "mirror.crt"),
    variable("KUBEPKG_TLS_KEY", "tls-key", "mirror.key"),
    variable("KUBEPKG_TOKEN_KEY_FILE", "token-key-file", "token-key"),
    variable("KUBEPKG_TRUST", "trust", "trust.yaml"),
    variable("KUBEPKG_TRUSTED_PROXY", "trusted-proxy", "10.0.0.4"),
    variable(
        "KUBEPKG_URL",
        "url",
        "https://packages.example.com/index.yaml",
    ),
    variable("KUBEPKG_VARIANT", "variant", "default"),
    variable("KUBEPKG_VERBOSE", "verbose", "1"),
    variable("KUBEPKG_WITH_OPTIONAL", "with-optional", "true"),
];

/// Variables that stand in for no flag, and are read where they are used.
pub const PLAIN: &[&str] = &[crate::passphrase::VARIABLE];

/// Flags without a variable: they weaken a check, overwrite, or say what a root or repository is
/// from then on, what a chart is rendered with or what goes into a bundle, and that must be seen in
/// the command that does it.
pub const WITHOUT: &[&str] = &[
    "allow-breaking",
    "allow-missing-referrers",
    "allow-tag-back",
    "allow-unpinned-images",
    "allow-unsigned",
    "allow-withdrawn",
    "anonymous-push",
    "approvals-key",
    "approvals-threshold",
    "approve",
    "as-of",
    "build",
    "change-trust",
    "chart",
    "check",
    "delegate",
    "delegate-key",
    "delegate-threshold",
    "dry-run",
    "file",
    "force",
    "from",
    "grace",
    "image",
    "images-from",
    "index",
    "index-key",
    "index-threshold",
    "insecure-http",
    "key",
    "key-env",
    "lift",
    "lock",
    "merge",
    "new-store",
    "no-anonymous-mount",
    "no-approvals",
    "no-images",
    "output",
    "password-file",
    "priority",
    "reason",
    "references",
    "release-name",
    "relocate",
    "remove",
    "repair",
    "replacement",
    "set",
    "set-string",
    "sparse-indexes",
    "tag",
    "to",
    "undelegate",
    "untagged",
    "values",
    "verify",
    "wanted",
    "yes",
];

/// What every variable begins with.
const PREFIX: &str = "KUBEPKG_";

/// Whether Kubernetes sets this variable in every pod, for a service named `kubepkg-…`.
fn is_of_a_service(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || name.ends_with("_PORT")
        || name.contains("_PORT_")
}

/// Whether a variable holds a private key, as `--sign-key-env` takes it.
fn is_key(value: &OsStr) -> bool {
    value
        .to_str()
        .is_some_and(|text| text.contains("PRIVATE KEY-----"))
}

/// The variables of this process that begin with `KUBEPKG_`.
#[derive(Debug, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// What this process was given.
    pub fn of_process() -> Environment {
        let ours = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            (name.starts_with(PREFIX) && !value.is_empty()).then_some((name, value))
        });
        Environment(ours.collect())
    }

    /// These variables and no others.
    #[cfg(test)]
    pub fn of(variables: &[(&str, &str)]) -> Environment {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), OsString::from(value)));
        Environment(owned.collect())
    }

    /// Whether this holds of the value of a variable that stands in for a flag.
    pub fn any(&self, holds: impl Fn(&OsStr) -> bool) -> bool {
        let mut values = VARIABLES.iter().filter_map(|v| self.0.get(v.name));
        values.any(|value| holds(value))
    }

    /// The variables that are set and have no effect, and why.
    pub fn unknown(&self) -> Vec<String> {
        let known = |name: &str| VARIABLES.iter().any(|v| v.name == name) || PLAIN.contains(&name);
        self.0
            .iter()
            .filter(|(name, value)| !known(name) && !is_of_a_service(name) && !is_key(value))
            .map(|(name, _)| {
                let flag = name.trim_start_matches(PREFIX).to_lowercase();
                let flag = flag.replace('_', "-");
                match WITHOUT.contains(&flag.as_str()) {
                    true => format!(
                        "{name} is set and has no effect: what --{flag} does must be seen in the \
                         command"
                    ),
                    false => format!("{name} is set and has no effect: there is no such variable"),
                }
            })
            .collect()
    }

    /// The known variables that are set.
    pub fn variables_set(&self) -> Vec<&'static str> {
        VARIABLES
            .iter()
            .map(|v| v.name)
            .filter(|name| self.0.contains_key(*name))
            .collect()
    }

    /// `command` and its subcommands with the variables as defaults of their flags.
    pub fn apply(&self, command: Command) -> Command {
        command
            .mut_args(|arg| self.apply_to(arg))
            .mut_subcommands(|subcommand| match subcommand.get_name() {
                // what a new root says holds from then on: it is seen in the command, and the
                // keys a user trusts do not become the keys of a root by accident
                "root" => subcommand,
                // it refuses the flag, which is for the verbs that read an index
                "add" => self.without(&["max-age"].into()).apply(subcommand),
                _ => self.apply(subcommand),
            })
    }

    /// Whether a variable stands in for this flag.
    pub fn has(&self, flag: &str) -> bool {
        let mut named = VARIABLES.iter().filter(|v| v.flag == flag);
        named.any(|v| self.0.contains_key(v.name))
    }

    /// These variables without those that stand in for one of `flags`.
    pub fn without(&self, flags: &BTreeSet<&str>) -> Environment {
        let named = |name: &str| {
            let mut all = VARIABLES.iter();
            all.any(|v| v.name == name && flags.contains(v.flag))
        };
        let rest = self.0.iter().filter(|(name, _)| !named(name));
        Environment(
            rest.map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }

    fn apply_to(&self, arg: Arg) -> Arg {
        let value = VARIABLES
            .iter()
            .find(|v| arg.get_long() == Some(v.flag))
            .and_then(|v| self.0.get(v.name));
        let Some(value) = value else {
            return arg;
        };
        // a flag that must be given has been given
        let arg = arg.required(false);
        match arg.get_action() {
            ArgAction::Append => arg.default_values(split(value)),
            ArgAction::SetTrue => arg.default_value(truth(value)),
            _ => arg.default_value(value),
        }
    }
}

/// Yes and no in the words people write into environments. Other words stay, to be refused.
fn truth(value: &OsStr) -> OsString {
    match value.to_str().map(str::to_ascii_lowercase).as_deref() {
        Some("1" | "yes" | "on" | "true") => "true".into(),
        Some("0" | "no" | "off" | "false") => "false".into(),
        _ => value.to_owned(),
    }
}

fn split(list: &OsStr) -> Vec<OsString> {
    match list.to_str() {
        Some(text) => text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(OsString::from)
            .collect(),
        // a path that is no text holds one value
        None => vec![list.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    fn flags(command: &Command, into: &mut BTreeSet<String>) {
        into.extend(
            command
                .get_arguments()
                .filter_map(|a| a.get_long())
                .map(str::to_owned),
        );
        for subcommand in command.get_subcommands() {
            flags(subcommand, into);
        }
    }

    #[test]
    fn the_table_names_every_flag_and_nothing_else() {
        let mut there = BTreeSet::new();
        flags(&crate::cli::Cli::command(), &mut there);
        let listed: BTreeSet<String> = VARIABLES
            .iter()
            .map(|v| v.flag)
            .chain(WITHOUT.iter().copied())
            .map(str::to_owned)
            .collect();
        assert_eq!(there, listed);
    }

    #[test]
    fn yes_and_no_have_many_words() {
        for (word, want) in [
            ("1", "true"),
            ("Yes", "true"),
            ("0", "false"),
            ("off", "false"),
        ] {
            assert_eq!(truth(OsStr::new(word)), want);
        }
        assert_eq!(truth(OsStr::new("maybe")), "maybe");
    }

    #[test]
    fn what_has_no_effect_is_known() {
        let environment = Environment::of(&[
            ("KUBEPKG_STORE", "x"),
            ("KUBEPKG_STROE", "x"),
            ("KUBEPKG_FORCE", "1"),
            ("KUBEPKG_MIRROR_PORT", "tcp://10.0.0.1:5000"),
            ("KUBEPKG_MIRROR_PORT_5000_TCP_ADDR", "10.0.0.1"),
            ("KUBEPKG_MIRROR_SERVICE_HOST", "10.0.0.1"),
        ]);
        let told = environment.unknown();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("--force") && told[1].contains("KUBEPKG_STROE"));
    }

    #[test]
    fn a_variable_is_named_after_its_flag() {
        for v in VARIABLES {
            let want = format!("KUBEPKG_{}", v.flag.to_uppercase().replace('-', "_"));
            assert_eq!(v.name, want);
        }
        assert!(VARIABLES.is_sorted_by_key(|v| v.name));
    }
}
