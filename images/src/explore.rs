//! What else a chart can run: each boolean value turned over on its own, each API that its
//! templates ask for, and each word that they compare a value with.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubepkg_core::Reference;
use serde_json::Value as Json;

use crate::chart::Chart;
use crate::error::Error;
use crate::found::{Findings, How, Place};
use crate::helm::Extra;
use crate::values::{Values, dotted, get, inclusions, setting};

/// Renderings of one chart: some charts have a thousand switches, and each takes Helm a tenth
/// of a second.
pub const MAX_TRIES: usize = 400;

/// What exploring brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Images that were not there before, with the settings that bring each, and where.
    pub images: BTreeMap<Reference, Brought>,
    /// How many settings were tried.
    pub tried: usize,
    /// Settings with which the chart does not render, and Helm's words.
    pub failed: Vec<(Extra, String)>,
    /// Settings beyond [`MAX_TRIES`] that were not tried.
    pub left_out: usize,
}

/// What brings an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// The settings, each of which is enough.
    pub by: Vec<Extra>,
    /// How it is found then.
    pub how: How,
    /// Where it is found then.
    pub place: Place,
}

/// What can be tried with a chart, the most promising first: what is off and called a switch,
/// other things that are off, APIs, words, and what is on.
pub fn settings(chart: &Chart, values: &Values, known: &[String]) -> Vec<Extra> {
    let mut switches = Vec::new();
    collect(values, &values.all, &mut Vec::new(), &mut switches);
    let rank = |(path, on): &(Vec<String>, bool)| {
        let last = path.last().map_or("", String::as_str);
        match (on, last) {
            (false, "enabled" | "create" | "install" | "deploy") => 0,
            (false, _) => 1,
            (true, _) => 3,
        }
    };
    switches.sort_by_key(|switch| (rank(switch), switch.0.len()));
    let off = switches.iter().filter(|(_, on)| !on);
    let on = switches.iter().filter(|(_, on)| *on);
    let set = |(path, on): &(Vec<String>, bool)| Extra::Set(setting(path, !on));
    let apis = apis(chart).into_iter().filter(|api| !known.contains(api));
    let mut words = Vec::new();
    compared(chart, values, &[], &mut words);
    words.sort();
    words.dedup();
    off.map(set)
        .chain(apis.map(Extra::ApiVersion))
        .chain(words.into_iter().map(Extra::Set))
        .chain(on.map(set))
        .collect()
}

/// Booleans, but for those of charts that are switched off: they change nothing alone.
fn collect(
    values: &Values,
    value: &Json,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, bool)>,
) {
    match value {
        Json::Bool(on) if !values.is_off(path) => found.push((path.clone(), *on)),
        Json::Object(members) => {
            for (key, value) in members {
                path.push(key.clone());
                collect(values, value, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// What stands before the name of an API in a template.
const ASKS: &[&str] = &["APIVersions.Has \"", "APIVersions.Has (\""];

/// The APIs that the templates ask for by name.
fn apis(chart: &Chart) -> Vec<String> {
    let mut found = Vec::new();
    for (_, text) in chart.templates() {
        for asks in ASKS {
            let names = text
                .split(asks)
                .skip(1)
                .filter_map(|rest| rest.split('"').next());
            found.extend(names.map(str::to_owned));
        }
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '/' | '-');
    found.retain(|name| !name.is_empty() && name.len() < 254 && name.chars().all(legal));
    found.sort();
    found.dedup();
    found
}

/// What stands before a comparison of a value in a template.
const COMPARES: &[&str] = &["eq .Values.", "eq $.Values.", "eq .root.Values."];

/// `path=word` for each word that the templates of `chart`, whose values stand at `at`, compare
/// a value with, where the value is another one now.
fn compared(chart: &Chart, values: &Values, at: &[String], found: &mut Vec<String>) {
    for (_, text) in chart.own_templates() {
        for compares in COMPARES {
            for rest in text.split(compares).skip(1) {
                let Some((path, word)) = comparison(rest) else {
                    continue;
                };
                let path: Vec<String> = at.iter().cloned().chain(path).collect();
                let other = match get(&values.all, &path) {
                    Some(Json::String(now)) => now != word,
                    Some(Json::Null) | None => true,
                    Some(_) => false,
                };
                if other && !values.is_off(&path) {
                    found.push(format!("{}={word}", dotted(&path)));
                }
            }
        }
    }
    for (name, _, included) in inclusions(chart) {
        let mut inner = at.to_vec();
        inner.push(name);
        compared(included, values, &inner, found);
    }
}

/// The path and the word of `path "word"`.
fn comparison(text: &str) -> Option<(Vec<String>, &str)> {
    let (path, rest) = text.split_once(' ')?;
    let word = rest.trim_start().strip_prefix('"')?.split('"').next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let legal = |text: &str| !text.is_empty() && text.chars().all(plain);
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    let is_word = word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.len() <= 64
        && !matches!(word, "true" | "false" | "null");
    (is_word && legal(word) && path.iter().all(|step| legal(step))).then_some((path, word))
}

/// Tries `settings`, as many at the same time as there are processors. `find` renders with one
/// of them and searches; `known` are the images that are there anyway.
pub fn explore(
    settings: &[Extra],
    known: impl Fn(&Reference) -> bool + Sync,
    find: impl Fn(&Extra) -> Result<Findings, Error> + Sync,
) -> Explored {
    let tried = &settings[..settings.len().min(MAX_TRIES)];
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers.min(tried.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(extra) = tried.get(at) else {
                        return;
                    };
                    let outcome = find(extra);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push((at, outcome));
                    }
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    outcomes.sort_by_key(|(at, _)| *at);
    let mut explored = Explored {
        tried: tried.len(),
        left_out: settings.len() - tried.len(),
        ..Explored::default()
    };
    for (at, outcome) in outcomes {
        match outcome {
            Ok(findings) => explored.add(&tried[at], findings, &known),
            Err(error) => explored.failed.push((tried[at].clone(), error.words())),
        }
    }
    explored
}

impl Explored {
    fn add(&mut self, extra: &Extra, findings: Findings, known: &impl Fn(&Reference) -> bool) {
        for seen in findings.sightings {
            if known(&seen.image) || seen.how == How::Possible {
                continue;
            }
            let brought = self.images.entry(seen.image).or_insert_with(|| Brought {
                by: Vec::new(),
                how: seen.how,
                place: seen.place,
            });
            if !brought.by.contains(extra) {
                brought.by.push(extra.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::Sighting;

    #[test]
    fn what_is_off_comes_first_and_apis_are_asked_for() {
        let files = [
            (
                "Chart.yaml",
                "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: '1', condition: db.enabled}]\n",
            ),
            (
                "values.yaml",
                "a: {used: true, deep: {enabled: false}}\nb: false\nkind: small\ndb: {enabled: false}\nlist: [true]\n",
            ),
            (
                "templates/x.yaml",
                "{{ if .Capabilities.APIVersions.Has \"x.example.com/v1\" }}{{ end }}{{ if eq .Values.kind \"small\" }}{{ else if eq .Values.kind \"large\" }}{{ end }}{{ eq .Values.a \"b c\" }}",
            ),
            (
                "charts/db/Chart.yaml",
                "apiVersion: v2\nname: db\nversion: 1.0.0\n",
            ),
            ("charts/db/values.yaml", "inner: {enabled: false}\n"),
        ];
        let chart = Chart::for_tests(&files).unwrap();
        let values = Values::of(&chart, &Json::Null);
        let flags: Vec<String> = settings(&chart, &values, &[])
            .iter()
            .map(Extra::flag)
            .collect();
        assert_eq!(
            flags,
            [
                "--set db.enabled=true",
                "--set a.deep.enabled=true",
                "--set b=true",
                "--api-version x.example.com/v1",
                "--set kind=large",
                "--set a.used=false",
            ]
        );
    }

    #[test]
    fn only_new_images_are_told_with_all_that_bring_them() {
        let image = |text: &str| text.parse::<Reference>().unwrap();
        let all: Vec<Extra> = (0..MAX_TRIES + 3)
            .map(|n| Extra::Set(format!("a{n}=true")))
            .collect();
        let explored = explore(
            &all,
            |known| *known == image("quay.io/a/old:1"),
            |extra| {
                let Extra::Set(pair) = extra else { panic!() };
                let seen = |text: &str| Sighting {
                    image: image(text),
                    how: How::Container,
                    place: Place::default(),
                };
                match pair.as_str() {
                    "a1=true" | "a2=true" => Ok(Findings {
                        sightings: vec![seen("quay.io/a/old:1"), seen("quay.io/a/new:1")],
                        unread: Vec::new(),
                    }),
                    "a3=true" => Err(Error::Render {
                        chart: "x".to_owned(),
                        message: "no".to_owned(),
                    }),
                    _ => Ok(Findings::default()),
                }
            },
        );
        assert_eq!((explored.tried, explored.left_out), (MAX_TRIES, 3));
        let by = &explored.images[&image("quay.io/a/new:1")].by;
        assert_eq!(by, &[all[1].clone(), all[2].clone()]);
        assert_eq!(explored.images.len(), 1);
        assert_eq!(
            explored.failed,
            [(all[3].clone(), "the chart does not render: no".to_owned())]
        );
    }
}
