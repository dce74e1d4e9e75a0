//! What needs somebody, first on the page.

use maud::{Markup, html};

use super::{Shown, State};
use crate::http::page::words::{count, distance, size};

/// Below one part in so many, free space is worth a warning.
const LOW: u64 = 10;

/// Something that needs somebody.
type Problem = (State, Markup);

/// All of it; nothing when all is well.
pub(super) fn section(shown: &Shown<'_>) -> Markup {
    let mut found = of_server(shown);
    found.extend(of_store(shown));
    found.extend(of_indexes(shown));
    html! {
        @if !found.is_empty() {
            section.problems aria-labelledby="problems" {
                h2 id="problems" { "What needs attention" }
                ul {
                    @for (state, text) in &found {
                        li class=(state.class()) { (text) }
                    }
                }
            }
        }
    }
}

fn of_server(shown: &Shown<'_>) -> Vec<Problem> {
    let condition = shown.condition;
    let mut found = Vec::new();
    if let Some(certificate) = &condition.certificate {
        let (from, until) = (certificate.from, certificate.until);
        let state = State::of_expiry(until, shown.now);
        if from > shown.now {
            found.push((
                State::Bad,
                html! {
                    "The certificate does not hold yet, but " (distance(from, shown.now))
                    ": set the clock, or put another in its place."
                },
            ));
        } else if state != State::Good {
            let verb = if state == State::Bad { "ended" } else { "ends" };
            found.push((
                state,
                html! {
                    "The certificate " (verb) " " (distance(until, shown.now))
                    ": put a new one in its place, or nodes pull nothing."
                },
            ));
        }
    }
    for (what, _) in condition.settings.iter().filter(|(_, failed)| *failed) {
        found.push((
            State::Bad,
            html! {
                "The file of the " (what) " was changed and cannot be used, so the old goes on: the \
                log says why."
            },
        ));
    }
    if let Some(Err(why)) = &condition.writing {
        found.push((State::Bad, html! { "Nothing can be pushed: " (why) "." }));
    }
    found
}

fn of_store(shown: &Shown<'_>) -> Vec<Problem> {
    let facts = &shown.seen.facts;
    let mut found = Vec::new();
    if let Some(damaged) = facts.quarantined.filter(|damaged| *damaged > 0) {
        found.push((
            State::Bad,
            html! {
                (count(damaged, "piece", "pieces")) " of content were found damaged or missing and \
                are not served until they are brought again: "
                code { "kubepkg mirror check --store DIR" } " on its host says which."
            },
        ));
    }
    if facts.scrub_failures > 0 {
        found.push((
            State::Warning,
            html! {
                "Looking for damage failed " (count(facts.scrub_failures, "time", "times"))
                " since the mirror was started: the log says why."
            },
        ));
    }
    if let Some(disk) = facts.disk.filter(|disk| disk.free < disk.size / LOW) {
        found.push((
            State::Warning,
            html! {
                "The disk has " (size(disk.free)) " of " (size(disk.size)) " left: "
                code { "kubepkg mirror prune --store DIR" } " and " code { "kubepkg mirror gc --store DIR" }
                " free what is not needed."
            },
        ));
    }
    found
}

fn of_indexes(shown: &Shown<'_>) -> Vec<Problem> {
    let mut found = Vec::new();
    for site in shown.sites() {
        let said = shown.said(site);
        let Some(until) = said.and_then(|said| said.acceptable_until) else {
            continue;
        };
        let state = State::of_expiry(until, shown.now);
        let verb = match state {
            State::Good => continue,
            State::Warning => "expires",
            State::Bad => "expired",
        };
        found.push((
            state,
            html! {
                "The index " span.name { (site.url) } " " (verb) " "
                (distance(until, shown.now)) ": import a bundle made from a newer one."
            },
        ));
    }
    found
}
