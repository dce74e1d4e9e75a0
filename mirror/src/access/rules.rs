//! Who may do what where: the first rule whose path fits a repository decides.

use std::collections::{BTreeMap, BTreeSet};

use kubepkg_core::reference::{DOCKER_HUB, canonical_host};
use kubepkg_core::yaml::{YamlError, strict};
use serde::Deserialize;

use super::passwords::check_name;

/// Longest file of rules, in bytes.
pub(super) const MAX_FILE: u64 = 1024 * 1024;

/// Most rules: all of them may be looked at for one request.
const MAX_RULES: usize = 1000;

const API_VERSION: &str = "kubepkg.dev/v1";
const KIND: &str = "MirrorAccess";

/// What somebody wants to do with a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read it.
    Pull,
    /// Add to it, and move its tags.
    Push,
    /// Take from it.
    Delete,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 3] = [Action::Pull, Action::Push, Action::Delete];

    /// As rules call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Pull => "pull",
            Action::Push => "push",
            Action::Delete => "delete",
        }
    }
}

/// Whether somebody may do something, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// They may.
    pub allowed: bool,
    /// The rule that says so; `None` where none does.
    pub rule: Option<Ruled>,
}

/// A rule that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruled {
    /// Where in the file it says who may: `rules[1].push`.
    pub place: String,
    /// Its path.
    pub path: String,
}

/// Everybody, with a login or without.
pub(super) const ANYONE: &str = "anyone";

/// Everybody with a login.
pub(super) const USERS: &str = "users";

/// Who may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Those {
    anyone: bool,
    users: bool,
    named: BTreeSet<String>,
}

impl Those {
    fn include(&self, user: Option<&str>) -> bool {
        match user {
            None => self.anyone,
            Some(user) => self.anyone || self.users || self.named.contains(user),
        }
    }
}

/// What somebody may do without a login where no rule says otherwise.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Anonymous {
    /// Read.
    #[default]
    Pull,
    /// Nothing.
    None,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    anonymous: Anonymous,
    #[serde(default)]
    groups: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    rules: Vec<FileRule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FileRule {
    path: String,
    pull: Option<Vec<String>>,
    push: Option<Vec<String>>,
    delete: Option<Vec<String>>,
}

/// The rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    anonymous: Anonymous,
    rules: Vec<Rule>,
    /// The groups.
    groups: BTreeSet<String>,
    /// Who is named as a user, and where first.
    named: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Elements; `*` is any one.
    path: Vec<String>,
    /// It ends with `**`: everything below counts.
    below: bool,
    pull: Option<Those>,
    push: Option<Those>,
    delete: Option<Those>,
}

/// Why rules do not count.
#[derive(Debug)]
pub enum RulesError {
    /// They do not read.
    Yaml(YamlError),
    /// They read, and mean nothing: where, and why.
    Meaning(String, String),
}

impl Rules {
    /// Reads rules. Whom they name need not be a user: [`Rules::doubts`] says who is none.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        let file: File = strict::from_str(text).map_err(RulesError::Yaml)?;
        let wrong = |place: &str, why: String| RulesError::Meaning(place.to_owned(), why);
        if file.api_version != API_VERSION || file.kind != KIND {
            let why = format!("begin it with apiVersion: {API_VERSION} and kind: {KIND}");
            return Err(wrong("apiVersion, kind", why));
        }
        if file.rules.len() > MAX_RULES {
            let why = format!("there are more than {MAX_RULES} rules");
            return Err(wrong("rules", why));
        }
        let mut named = BTreeMap::new();
        for (name, members) in &file.groups {
            let place = format!("groups.{name}");
            if [ANYONE, USERS].contains(&name.as_str()) {
                return Err(wrong(
                    &place,
                    format!("\"{name}\" has a meaning of its own"),
                ));
            }
            check_name(name).map_err(|why| wrong(&place, why))?;
            for member in members {
                check_name(member).map_err(|why| wrong(&place, why))?;
                if file.groups.contains_key(member) {
                    let why = format!("\"{member}\" is a group, and groups hold users");
                    return Err(wrong(&place, why));
                }
                named.entry(member.clone()).or_insert(place.clone());
            }
        }
        let mut those = |place: String, names: Option<Vec<String>>| {
            let Some(names) = names else {
                return Ok(None);
            };
            let mut those = Those::default();
            for name in names {
                match name.as_str() {
                    ANYONE => those.anyone = true,
                    USERS => those.users = true,
                    _ => match file.groups.get(&name) {
                        Some(members) => those.named.extend(members.iter().cloned()),
                        None => {
                            check_name(&name).map_err(|why| wrong(&place, why))?;
                            named.entry(name.clone()).or_insert(place.clone());
                            those.named.insert(name);
                        }
                    },
                }
            }
            Ok(Some(those))
        };
        let mut rules = Vec::with_capacity(file.rules.len());
        for (at, rule) in file.rules.into_iter().enumerate() {
            let place = |member: &str| format!("rules[{at}].{member}");
            let (path, below) = pattern(&rule.path).map_err(|why| wrong(&place("path"), why))?;
            rules.push(Rule {
                path,
                below,
                pull: those(place("pull"), rule.pull)?,
                push: those(place("push"), rule.push)?,
                delete: those(place("delete"), rule.delete)?,
            });
        }
        Ok(Rules {
            anonymous: file.anonymous,
            rules,
            groups: file.groups.into_keys().collect(),
            named,
        })
    }

    /// What is odd about these rules where the users are these, and where. Nobody may do
    /// anything by it: whoever is no user cannot log in, and a name that is a group's and a
    /// user's means the group.
    pub fn doubts(&self, is_user: &dyn Fn(&str) -> bool) -> Vec<(String, String)> {
        let strangers = self.named.iter().filter(|(name, _)| !is_user(name));
        let strangers = strangers.map(|(name, place)| {
            let why = format!(
                "\"{name}\" is neither a user nor a group, nor \"{ANYONE}\" or \"{USERS}\"; make the \
                 user (kubepkg mirror user add), or take the name out of the rules"
            );
            (place.clone(), why)
        });
        let twice = self.groups.iter().filter(|name| is_user(name));
        let twice = twice.map(|name| {
            let why = format!("\"{name}\" is a user too; give the group another name");
            (format!("groups.{name}"), why)
        });
        let mut doubts: Vec<(String, String)> = strangers.chain(twice).collect();
        doubts.sort_unstable();
        doubts
    }

    /// Whether `user` (`None`: without a login) may do this with `repository`. `open`: where no
    /// rule says otherwise everybody may write.
    pub fn allow(&self, user: Option<&str>, action: Action, repository: &str, open: bool) -> bool {
        match (self.ruling(action, repository), action) {
            (Some((_, _, those)), _) => those.include(user),
            (None, Action::Pull) => user.is_some() || self.anonymous == Anonymous::Pull,
            (None, Action::Push | Action::Delete) => user.is_some() || open,
        }
    }

    /// The same, and which rule says so.
    pub fn decide(
        &self,
        user: Option<&str>,
        action: Action,
        repository: &str,
        open: bool,
    ) -> Decision {
        let ruling = self.ruling(action, repository);
        Decision {
            allowed: self.allow(user, action, repository, open),
            rule: ruling.map(|(at, member, _)| Ruled {
                place: format!("rules[{at}].{}", member.as_str()),
                path: self.rules[at].path(),
            }),
        }
    }

    /// Who may do this with a repository, by the rule that is first to fit it: its number and
    /// the member that says so. `None` where it says nothing.
    fn ruling(&self, action: Action, repository: &str) -> Option<(usize, Action, &Those)> {
        let mut rules = self.rules.iter().enumerate();
        let (at, rule) = rules.find(|(_, rule)| rule.fits(repository))?;
        let push = || Some((Action::Push, rule.push.as_ref()?));
        let (member, those) = match action {
            Action::Pull => (Action::Pull, rule.pull.as_ref()?),
            Action::Push => push()?,
            Action::Delete => match &rule.delete {
                Some(those) => (Action::Delete, those),
                None => push()?,
            },
        };
        Some((at, member, those))
    }

    /// Whether anybody at all may write anywhere. `logins`: there are users; `open`: where no
    /// rule says otherwise everybody may write.
    pub fn let_write(&self, logins: bool, open: bool) -> bool {
        let lets = |those: Option<&Those>| match those {
            Some(those) => those.anyone || logins && (those.users || !those.named.is_empty()),
            None => logins || open,
        };
        for rule in &self.rules {
            let delete = rule.delete.as_ref().or(rule.push.as_ref());
            if lets(rule.push.as_ref()) || lets(delete) {
                return true;
            }
            if rule.below && rule.path.is_empty() {
                // no other one is ever asked
                return false;
            }
        }
        logins || open
    }

    /// Whether everybody may read everything.
    pub fn are_open(&self) -> bool {
        let anyone = |rule: &Rule| rule.pull.as_ref().is_none_or(|those| those.anyone);
        self.anonymous == Anonymous::Pull && self.rules.iter().all(anyone)
    }
}

impl Rule {
    /// The path as it was written.
    fn path(&self) -> String {
        let below = self.below.then_some("**");
        let elements: Vec<&str> = self.path.iter().map(String::as_str).chain(below).collect();
        elements.join("/")
    }

    fn fits(&self, repository: &str) -> bool {
        let mut elements = repository.split('/');
        for want in &self.path {
            match elements.next() {
                Some(element) if want == "*" || want == element => {}
                _ => return false,
            }
        }
        self.below || elements.next().is_none()
    }
}

fn pattern(path: &str) -> Result<(Vec<String>, bool), String> {
    let refuse = |why: &str| {
        let path = kubepkg_core::error::shown(path);
        Err(format!("\"{path}\" fits no repository: {why}"))
    };
    let mut elements: Vec<String> = path.split('/').map(str::to_owned).collect();
    let below = elements.last().is_some_and(|last| last == "**");
    if below {
        elements.pop();
    }
    for element in &elements {
        match element.as_str() {
            "*" => {}
            "" => return refuse("write it like docker.io/library/busybox or docker.io/**"),
            element if element.contains('*') => {
                return refuse("* stands for one whole element, ** for all below, at the end");
            }
            element
                if !element.bytes().all(|b| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b)
                }) =>
            {
                return refuse("names have lower case letters, digits and . _ - (a port is _5000)");
            }
            _ => {}
        }
    }
    let host = elements.first().and_then(|first| canonical_host(first));
    if let (Some(host), Some(first)) = (host, elements.first())
        && host != *first
    {
        return refuse(&format!("the mirror calls this host {host}"));
    }
    match &elements[..] {
        [host, one] if host == DOCKER_HUB && one != "*" && !below => {
            refuse(&format!("write it {host}/library/{one}"))
        }
        _ => Ok((elements, below)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: kubepkg.dev/v1\nkind: MirrorAccess\n";

    fn rules(text: &str) -> Rules {
        Rules::parse(&format!("{HEAD}{text}")).unwrap()
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = rules(
            "groups:\n  ci: [robot, bob]\nrules:\n\
             - {path: ghcr.io/secret/**, pull: [alice, ci], push: [alice]}\n\
             - {path: ghcr.io/*/open, push: [ci], delete: []}\n\
             - {path: ghcr.io/**, pull: [users], push: []}\n",
        );
        use Action::{Delete, Pull, Push};
        for (user, action, repository, want) in [
            (None, Pull, "ghcr.io/secret/a", false),
            (Some("alice"), Pull, "ghcr.io/secret/a/b", true),
            (Some("robot"), Pull, "ghcr.io/secret", true),
            (Some("eve"), Pull, "ghcr.io/secret/a", false),
            (Some("alice"), Push, "ghcr.io/secret/a", true),
            (Some("alice"), Delete, "ghcr.io/secret/a", true),
            (Some("bob"), Push, "ghcr.io/secret/a", false),
            (None, Pull, "ghcr.io/x/open", true),
            (Some("bob"), Push, "ghcr.io/x/open", true),
            (Some("bob"), Delete, "ghcr.io/x/open", false),
            (Some("bob"), Push, "ghcr.io/x/open/more", false),
            (None, Pull, "ghcr.io/other", false),
            (Some("eve"), Pull, "ghcr.io/other", true),
            (None, Pull, "docker.io/library/x", true),
            (None, Push, "docker.io/library/x", false),
            (Some("eve"), Push, "docker.io/library/x", true),
        ] {
            let got = rules.allow(user, action, repository, false);
            assert_eq!(got, want, "{user:?} {action:?} {repository}");
        }
        assert!(rules.allow(None, Push, "docker.io/library/x", true));
        assert!(!rules.allow(None, Push, "ghcr.io/other", true));
        assert!(!rules.are_open() && !rules.let_write(false, false));
    }

    #[test]
    fn the_rule_that_decides_is_named_as_it_stands_in_the_file() {
        let rules = rules(
            "rules:\n- {path: \"team/*\", push: [bob]}\n- {path: team/**, pull: [], delete: [bob]}\n",
        );
        for (action, repository, want) in [
            (Action::Push, "team/a", Some(("rules[0].push", "team/*"))),
            (Action::Delete, "team/a", Some(("rules[0].push", "team/*"))),
            (Action::Pull, "team/a", None),
            (Action::Pull, "team/a/b", Some(("rules[1].pull", "team/**"))),
            (
                Action::Delete,
                "team/a/b",
                Some(("rules[1].delete", "team/**")),
            ),
            (Action::Push, "team/a/b", None),
            (Action::Push, "a", None),
        ] {
            for user in [None, Some("bob")] {
                let decision = rules.decide(user, action, repository, false);
                let allowed = rules.allow(user, action, repository, false);
                assert_eq!(
                    decision.allowed, allowed,
                    "{user:?} {action:?} {repository}"
                );
                let rule = decision.rule.as_ref();
                let rule = rule.map(|rule| (rule.place.as_str(), rule.path.as_str()));
                assert_eq!(rule, want, "{action:?} {repository}");
            }
        }
    }

    #[test]
    fn without_rules_everybody_reads_and_users_write() {
        let default = Rules::default();
        assert!(default.allow(None, Action::Pull, "a", false));
        assert!(!default.allow(None, Action::Push, "a", false));
        assert!(default.allow(Some("a"), Action::Push, "a", false));
        assert!(default.are_open());
        let closed = rules("anonymous: none\n");
        assert!(!closed.allow(None, Action::Pull, "a", false));
        assert!(closed.allow(Some("a"), Action::Pull, "a", false));
        assert!(rules("rules:\n- {path: in/**, push: [anyone]}\n").let_write(false, false));
    }

    #[test]
    fn nobody_writes_where_a_rule_for_all_says_so() {
        use Action::{Delete, Pull, Push};
        let none = rules("rules:\n- {path: \"**\", push: []}\n");
        for user in [None, Some("alice")] {
            for repository in ["a", "docker.io/library/x", "a/b/c/d"] {
                assert!(none.allow(user, Pull, repository, true));
                assert!(!none.allow(user, Push, repository, true));
                assert!(!none.allow(user, Delete, repository, true));
            }
        }
        assert!(!none.let_write(true, true));
        // one before it counts, one behind it does not
        for (text, lets) in [
            (
                "- {path: a, push: [alice]}\n- {path: \"**\", push: []}\n",
                true,
            ),
            (
                "- {path: \"**\", push: []}\n- {path: a, push: [alice]}\n",
                false,
            ),
            ("- {path: \"**\", push: [], delete: [alice]}\n", true),
            ("- {path: \"**\", pull: [alice]}\n", true),
            ("- {path: a/**, push: []}\n", true),
        ] {
            let rules = rules(&format!("rules:\n{text}"));
            assert_eq!(rules.let_write(true, false), lets, "{text}");
        }
        // without quotes it is something else in YAML, and is refused
        let bare = format!("{HEAD}rules:\n- path: **\n  push: []\n");
        assert!(matches!(Rules::parse(&bare), Err(RulesError::Yaml(_))));
    }

    #[test]
    fn what_means_nothing_is_said_with_its_place() {
        for (text, want) in [
            ("rules:\n- {path: A/b}\n", "rules[0].path"),
            ("rules:\n- {path: \"\"}\n", "rules[0].path"),
            ("rules:\n- {path: \"a/**/b\"}\n", "rules[0].path"),
            ("rules:\n- {path: \"a*\"}\n", "rules[0].path"),
            ("rules:\n- {path: a, push: [\"b:b\"]}\n", "rules[0].push"),
            ("groups: {users: [alice]}\n", "groups.users"),
            ("groups: {g: [anyone]}\n", "groups.g"),
            ("groups: {g: [alice], h: [g]}\n", "groups.h"),
        ] {
            match Rules::parse(&format!("{HEAD}{text}")) {
                Err(RulesError::Meaning(place, _)) => assert_eq!(place, want, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let misspelt = format!("{HEAD}rules:\n- {{path: a, pul: []}}\n");
        let Err(RulesError::Yaml(error)) = Rules::parse(&misspelt) else {
            panic!("it was taken");
        };
        assert_eq!(error.line, Some(4));
        assert!(matches!(
            Rules::parse("apiVersion: v1\nkind: X\n"),
            Err(RulesError::Meaning(..))
        ));
    }

    #[test]
    fn a_path_nothing_is_stored_under_is_refused_with_the_one_that_is() {
        for (path, want) in [
            ("index.docker.io/**", "calls this host docker.io"),
            (
                "registry-1.docker.io/library/x",
                "calls this host docker.io",
            ),
            ("docker.io/busybox", "docker.io/library/busybox"),
        ] {
            match Rules::parse(&format!("{HEAD}rules:\n- {{path: {path}}}\n")) {
                Err(RulesError::Meaning(_, why)) => assert!(why.contains(want), "{why}"),
                other => panic!("{path}: {other:?}"),
            }
        }
        for path in [
            "docker.io/*",
            "docker.io/x/**",
            "docker.io/**",
            "\"*/x\"",
            "team/x",
        ] {
            rules(&format!("rules:\n- {{path: {path}}}\n"));
        }
    }

    #[test]
    fn who_is_no_user_is_said_and_may_do_nothing() {
        let rules = rules(
            "groups: {g: [alice, eve], bob: [alice]}\n\
             rules:\n- {path: a, push: [eva, g, bob]}\n- {path: b, push: [eva]}\n",
        );
        let is_user = |name: &str| ["alice", "bob"].contains(&name);
        let doubts = rules.doubts(&is_user);
        let places: Vec<&str> = doubts.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(places, ["groups.bob", "groups.g", "rules[0].push"]);
        assert!(doubts[2].1.contains("\"eva\"") && doubts[1].1.contains("\"eve\""));
        assert!(doubts[0].1.contains("\"bob\" is a user too"));
        assert!(rules.allow(Some("alice"), Action::Push, "a", false));
        assert!(!rules.allow(Some("bob"), Action::Push, "a", true));
        assert!(!rules.allow(None, Action::Push, "a", true));
    }
}
