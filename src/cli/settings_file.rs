//! `mirror serve --config FILE`: every flag of the verb under its own name in camel case.
//!
//! A value in the file becomes the default of its flag, as a variable's does, and comes after
//! it: flag, variable, file. So there is one list of settings, the flags, and one way to read
//! and judge each.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Command};
use kubepkg_core::yaml::strict;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::error::CommandError;

/// How a file of settings begins.
pub const API_VERSION: &str = "kubepkg.dev/v1";

/// See [`API_VERSION`].
pub const KIND: &str = "MirrorSettings";

/// Longest file, in bytes.
const MAX_FILE: u64 = 256 * 1024;

/// Most values of one setting.
const MAX_VALUES: usize = 1000;

/// The verb that has such a file.
const VERB: [&str; 2] = ["mirror", "serve"];

/// Flags of the verb that are no settings: they say where the settings are, or what is done
/// this once.
const NO_SETTINGS: [&str; 4] = ["config", "check", "new-store", "help"];

/// Flags of all verbs that are settings too.
const TALK: [&str; 3] = ["log-format", "quiet", "verbose"];

/// One value, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    values: Vec<String>,
    list: bool,
}

/// What a file says, by flag.
#[derive(Clone, Debug, Default)]
pub struct SettingsFile(BTreeMap<String, Vec<OsString>>);

impl SettingsFile {
    /// Reads the file that a command line names, if it names one.
    pub fn of_call(
        command: Command,
        arguments: &[OsString],
    ) -> Result<Option<SettingsFile>, CommandError> {
        let whole = command.clone();
        // what is wrong with the call is said when it is read in earnest
        let matches = command.ignore_errors(true).try_get_matches_from(arguments);
        let named = matches.ok().and_then(|matches| {
            let matches = matches.subcommand_matches(VERB[0])?;
            let matches = matches.subcommand_matches(VERB[1])?;
            matches.try_get_one::<PathBuf>("config").ok()?.cloned()
        });
        named
            .map(|file| SettingsFile::read(&file, &whole))
            .transpose()
    }

    fn read(file: &Path, whole: &Command) -> Result<SettingsFile, CommandError> {
        use std::io::Read as _;
        let failed = |error| CommandError::io("cannot read the settings", error).at(file.display());
        let mut text = String::new();
        std::fs::File::open(file)
            .and_then(|open| open.take(MAX_FILE + 1).read_to_string(&mut text))
            .map_err(failed)?;
        if text.len() as u64 > MAX_FILE {
            let message = "this file is too large to hold settings";
            return Err(CommandError::usage(message).at(file.display()));
        }
        let folder = file.parent().unwrap_or(Path::new(""));
        parse(&text, folder, whole).map_err(|error| error.under(file.display()))
    }

    /// `command` with the file's values as defaults of the flags.
    pub fn apply(&self, command: Command) -> Command {
        command
            .mut_args(|arg| self.apply_to(arg))
            .mut_subcommand(VERB[0], |mirror| {
                mirror.mut_subcommand(VERB[1], |serve| serve.mut_args(|arg| self.apply_to(arg)))
            })
    }

    /// What the file says, without these flags.
    pub fn without(mut self, flags: &BTreeSet<&str>) -> SettingsFile {
        self.0.retain(|flag, _| !flags.contains(flag.as_str()));
        self
    }

    fn apply_to(&self, arg: Arg) -> Arg {
        match arg.get_long().and_then(|flag| self.0.get(flag)) {
            Some(values) => arg.required(false).default_values(values.clone()),
            None => arg,
        }
    }
}

/// The settings of the verb: name in a file, and flag.
pub fn settings(command: &Command) -> Vec<(String, Arg)> {
    let Some(leaf) = leaf(command) else {
        return Vec::new();
    };
    let own = leaf.get_arguments().filter(|arg| {
        let long = arg.get_long();
        long.is_some_and(|long| !NO_SETTINGS.contains(&long) && !is_talk(arg))
    });
    let talk = command.get_arguments().filter(|arg| is_talk(arg));
    let named = |arg: &Arg| (key(arg.get_long().unwrap_or_default()), arg.clone());
    own.chain(talk).map(named).collect()
}

fn is_talk(arg: &Arg) -> bool {
    arg.get_long().is_some_and(|long| TALK.contains(&long))
}

fn leaf(command: &Command) -> Option<&Command> {
    command.find_subcommand(VERB[0])?.find_subcommand(VERB[1])
}

/// `min-free` is called `minFree` in a file.
pub fn key(flag: &str) -> String {
    let mut words = flag.split('-');
    let mut key = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        key.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        key.push_str(letters.as_str());
    }
    key
}

fn parse(text: &str, folder: &Path, whole: &Command) -> Result<SettingsFile, CommandError> {
    let members: BTreeMap<String, Setting> = strict::from_str(text).map_err(|error| {
        let place = error
            .line
            .map_or("settings".to_owned(), |line| format!("line {line}"));
        let member = match &*error.path {
            "" => String::new(),
            path => format!("{path}: "),
        };
        CommandError::usage(format!(
            "the settings do not read: {member}{}",
            error.problem
        ))
        .at(place)
    })?;
    let text_of = |key: &str| {
        let values = members.get(key).map(|setting| setting.values.join(""));
        values.unwrap_or_default()
    };
    let (version, kind) = (text_of("apiVersion"), text_of("kind"));
    if version != API_VERSION || kind != KIND {
        return Err(
            CommandError::usage("this file holds no settings of a mirror")
                .at("apiVersion, kind")
                .hint(format!(
                    "begin it with apiVersion: {API_VERSION} and kind: {KIND}"
                )),
        );
    }
    let known = settings(whole);
    let mut found = BTreeMap::new();
    for (name, setting) in &members {
        if matches!(name.as_str(), "apiVersion" | "kind") {
            continue;
        }
        let at = line_of(text, name);
        let (_, arg) = known
            .iter()
            .find(|(key, _)| key == name)
            .ok_or_else(|| unknown(name, &known).at(&at))?;
        let flag = arg.get_long().unwrap_or_default().to_owned();
        let values = judge(name, arg, setting, folder).map_err(|error| error.at(&at))?;
        found.insert(flag, values);
    }
    Ok(SettingsFile(found))
}

/// The values as the flag takes them.
fn judge(
    name: &str,
    arg: &Arg,
    setting: &Setting,
    folder: &Path,
) -> Result<Vec<OsString>, CommandError> {
    let wrong = |message: String| CommandError::usage(format!("{name}: {message}"));
    let many = matches!(arg.get_action(), ArgAction::Append);
    if setting.list && !many {
        return Err(wrong("one value is wanted, not a list".to_owned()));
    }
    if setting.values.is_empty() && !arg.get_default_values().is_empty() {
        return Err(wrong(
            "the list is empty; leave it out for the default".to_owned(),
        ));
    }
    if setting.values.len() > MAX_VALUES {
        return Err(wrong(format!("no more than {MAX_VALUES} values are taken")));
    }
    let is_path = arg.get_value_parser().type_id() == std::any::TypeId::of::<PathBuf>();
    setting
        .values
        .iter()
        .map(|value| {
            if matches!(arg.get_action(), ArgAction::SetTrue) {
                return match value.as_str() {
                    "true" | "false" => Ok(OsString::from(value)),
                    _ => Err(wrong("true or false is wanted".to_owned())),
                };
            }
            if matches!(arg.get_action(), ArgAction::Count) {
                return match value.parse::<u8>() {
                    Ok(_) => Ok(OsString::from(value)),
                    Err(_) => Err(wrong("a small number is wanted".to_owned())),
                };
            }
            // a place in a bucket is none in a folder
            if is_path && !value.is_empty() && !value.contains("://") {
                return Ok(folder.join(value).into_os_string());
            }
            try_value(arg.get_value_parser().clone(), value)
                .map_err(|why| wrong(format!("\"{}\": {why}", kubepkg_core::error::shown(value))))
        })
        .collect()
}

/// Whether a flag would take this value; in its words why not.
fn try_value(parser: ValueParser, value: &str) -> Result<OsString, String> {
    let mut argument = OsString::from("--value=");
    argument.push(value);
    let arg = Arg::new("value").long("value").value_parser(parser);
    let command = Command::new("settings").no_binary_name(true).arg(arg);
    match command.try_get_matches_from([argument]) {
        Ok(_) => Ok(OsString::from(value)),
        Err(error) => {
            let text = error.render().to_string();
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let first = lines.next().unwrap_or_default();
            let reason = first
                .split("': ")
                .nth(1)
                .or_else(|| first.split("' for").next());
            let possible = lines.find(|line| line.starts_with("[possible"));
            Err(match (first.split_once("<VALUE>': "), possible) {
                (Some((_, reason)), _) => reason.to_owned(),
                (None, Some(possible)) => format!("it is none of {possible}"),
                _ => reason.unwrap_or("it cannot be read").to_owned(),
            })
        }
    }
}

fn unknown(name: &str, known: &[(String, Arg)]) -> CommandError {
    let shown = kubepkg_core::error::shown(name);
    let error = CommandError::usage(format!("there is no setting \"{shown}\""));
    if NO_SETTINGS.iter().any(|flag| key(flag) == name) {
        return error.hint("it is a flag alone: what it does must be seen in the command");
    }
    match nearest(name, known.iter().map(|(key, _)| key.as_str())) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint("kubepkg mirror serve --help lists them; --min-free is minFree here"),
    }
}

/// The name that is least unlike `name`, if it is near at all.
fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| -> Vec<char> {
        let letters = text.chars().filter(|c| c.is_alphanumeric()).take(64);
        letters.flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(name);
    names
        .map(|known| (distance(&wanted, &plain(known)), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len() / 3 + 1)
        .map(|(_, known)| known)
}

/// Letters to be changed, added or left out.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (to, y) in b.iter().enumerate() {
            let changed = corner + usize::from(x != y);
            corner = row[to + 1];
            row[to + 1] = changed.min(row[to] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

/// `line N`, where the member stands on a line of its own.
fn line_of(text: &str, name: &str) -> String {
    let is_it = |line: &str| {
        let line = line.trim_start_matches(['"', '\'']);
        let rest = line.strip_prefix(name).unwrap_or("-");
        rest.trim_start_matches(['"', '\''])
            .trim_start()
            .starts_with(':')
    };
    match text.lines().position(is_it) {
        Some(at) => format!("line {}", at + 1),
        None => name.to_owned(),
    }
}

impl<'de> Deserialize<'de> for Setting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Setting, D::Error> {
        struct One;

        impl<'de> Visitor<'de> for One {
            type Value = Setting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a whole number, true or false, or a list of these")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Setting, E> {
                Ok(one(text))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Setting, E> {
                Ok(one(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Setting, E> {
                Ok(one(value))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Setting, E> {
                Ok(one(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Setting, A::Error> {
                let mut values = Vec::new();
                while let Some(item) = items.next_element::<Setting>()? {
                    if item.list {
                        return Err(de::Error::custom("a list within a list means nothing here"));
                    }
                    values.extend(item.values);
                }
                Ok(Setting { values, list: true })
            }
        }

        deserializer.deserialize_any(One)
    }
}

fn one(value: impl fmt::Display) -> Setting {
    Setting {
        values: vec![value.to_string()],
        list: false,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::CommandFactory as _;

    use super::*;
    use crate::report::Report;

    fn read(text: &str) -> Result<SettingsFile, CommandError> {
        let head = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n");
        parse(
            &(head + text),
            Path::new("/etc/kubepkg"),
            &crate::cli::Cli::command(),
        )
    }

    fn said(text: &str) -> (String, String, String) {
        let report = Report::of(&read(text).unwrap_err().into());
        assert_eq!(report.exit, 2, "{text}");
        let (place, hint) = (report.place.unwrap(), report.hint.unwrap_or_default());
        (report.message, place, hint)
    }

    #[test]
    fn settings_are_flags_by_another_name() {
        let text = "store: /srv/mirror\nlisten: [\"10.0.0.5:5000\", \"127.0.0.1:5000\"]\n\
                    minFree: 5\ngcEvery: 12h\nanonymousPush: true\ntlsCert: mirror.crt\n\
                    ownName: mirror.lan\nverbose: 1\nlogFormat: json\n";
        let file = read(text).unwrap();
        let of = |flag: &str| file.0[flag].join(OsStr::new("|")).into_string().unwrap();
        assert_eq!(of("store"), "/srv/mirror");
        assert_eq!(of("listen"), "10.0.0.5:5000|127.0.0.1:5000");
        assert_eq!(
            (of("min-free"), of("gc-every")),
            ("5".to_owned(), "12h".to_owned())
        );
        assert_eq!(of("anonymous-push"), "true");
        assert_eq!(of("tls-cert"), "/etc/kubepkg/mirror.crt");
        assert_eq!(
            (of("own-name"), of("verbose")),
            ("mirror.lan".to_owned(), "1".to_owned())
        );
    }

    #[test]
    fn what_is_not_known_is_named_with_its_line_and_what_is_near() {
        let (message, place, hint) = said("store: x\nminfree: 3\n");
        assert!(message.contains("\"minfree\""), "{message}");
        assert_eq!((&*place, &*hint), ("line 4", "did you mean minFree?"));
        assert_eq!(said("min-free: 3\n").2, "did you mean minFree?");
        assert_eq!(said("tlsCrt: x\n").2, "did you mean tlsCert?");
        assert!(said("frobnicate: x\n").2.contains("--help"));
        assert!(said("newStore: true\n").2.contains("flag alone"));
    }

    #[test]
    fn a_value_no_flag_would_take_is_said_with_its_line() {
        for (text, why) in [
            ("minFree: 200\n", "200"),
            ("minFree: [1]\n", "one value"),
            ("gcEvery: often\n", "no duration"),
            ("listen: here\n", "socket address"),
            ("listen: []\n", "the list is empty"),
            ("anonymousPush: maybe\n", "true or false"),
            ("logFormat: xml\n", "none of"),
            ("verbose: much\n", "small number"),
        ] {
            let (message, place, _) = said(text);
            assert!(message.contains(why), "{message}");
            assert_eq!(place, "line 3", "{text}");
        }
        assert!(said("store: {a: b}\n").0.contains("do not read"));
        assert!(parse("kind: X\n", Path::new(""), &crate::cli::Cli::command()).is_err());
    }
}
