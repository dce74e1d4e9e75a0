//! The page itself. Sections that hold lists say when they show a part only.

mod catalog;
mod state;

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::ReceiptIndex;
use kubepkg_core::time::Time;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::asked::Asked;
use super::command::Address;
use super::listing::Listing;
use super::packages::groups;
use super::words::{count, distance, minute, number, size};
use super::{Reader, STYLE};
use crate::http::Seen;
use crate::http::overview::SiteSeen;
use crate::wanted::WantedTable;

/// An index that expires within so many seconds is worth a warning: time enough to carry a
/// bundle.
const SOON: i64 = 14 * 86_400;

/// Below one part in so many, free space is worth a warning.
const LOW: u64 = 10;

/// Everything there is to show.
pub(super) struct Shown<'s> {
    pub seen: &'s Seen,
    pub wanted: &'s WantedTable,
    pub address: Address,
    /// Whose page it is.
    pub reader: &'s Reader,
    /// Whether they may read all that is here; what tells of all of it is shown only then.
    pub everything: bool,
    /// Whether there are settings for nodes.
    pub settings: bool,
    pub now: Time,
}

impl Shown<'_> {
    /// The indexes this reader may read.
    fn sites(&self) -> impl Iterator<Item = &SiteSeen> {
        let sites = self.seen.sites.iter().map(|site| &**site);
        sites.filter(|site| self.reader.reads_index(&site.url))
    }

    /// What was last said of an index.
    fn said(&self, site: &SiteSeen) -> Option<&ReceiptIndex> {
        let imports = &self.seen.facts.imports;
        imports.index(site.url.as_str(), &site.index?)
    }
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    Warning,
    Bad,
}

impl State {
    fn class(self) -> &'static str {
        match self {
            State::Good => "good",
            State::Warning => "warning",
            State::Bad => "bad",
        }
    }

    /// How an index stands that is accepted until then.
    fn of_expiry(until: Time, now: Time) -> State {
        match until.since(now) {
            ..=0 => State::Bad,
            left if left < SOON => State::Warning,
            _ => State::Good,
        }
    }
}

/// The whole page, or what was searched for.
pub(super) fn page(shown: &Shown<'_>, asked: &Asked) -> Markup {
    let packages = groups(shown.sites(), &asked.search);
    let readable = |name: &RepositoryName| shown.reader.reads(name);
    let listing = Listing::of(&shown.seen.names, readable, &asked.search, asked.page);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title {
                    @if !asked.search.is_empty() { (asked.search) " – " }
                    "kubepkg mirror " (shown.address.host())
                }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to content" }
                (head(shown, asked))
                main id="main" tabindex="-1" {
                    @if !shown.everything {
                        p.none { "This page shows what you may read." }
                    }
                    @if asked.is_whole() && shown.everything {
                        (summary(shown))
                        (problems(shown))
                    }
                    @if asked.page == 1 { (catalog::packages(&packages, asked)) }
                    (catalog::repositories(&listing, &shown.address, asked))
                    @if asked.is_whole() {
                        (state::indexes(shown))
                        @if shown.everything {
                            (state::imports(shown))
                            (state::misses(shown))
                        }
                        (state::nodes(shown))
                        @if shown.everything { (state::store(shown)) }
                    }
                }
                footer {
                    p {
                        "kubepkg " (env!("CARGO_PKG_VERSION")) ". For programs: "
                        a href="/v2/_catalog" { "repositories" } ", "
                        a href="/metrics" { "metrics" } ", "
                        a href="/healthz" { "health" } "."
                    }
                }
            }
        }
    }
}

fn head(shown: &Shown<'_>, asked: &Asked) -> Markup {
    html! {
        header {
            div.title {
                h1 { a href="/" { "kubepkg mirror" } }
                p { (shown.address.host()) }
            }
            search {
                form action="/" method="get" {
                    label for="q" { "Search packages, repositories, tags and digests" }
                    div.field {
                        input id="q" name="q" type="search" value=(asked.search) maxlength="500"
                            autocomplete="off" spellcheck="false";
                        button type="submit" { "Search" }
                    }
                }
            }
            @if asked.is_whole() {
                nav aria-label="Sections" {
                    ul {
                        @for (id, name) in [
                            ("packages", "Packages"),
                            ("repositories", "Images and charts"),
                            ("indexes", "Indexes"),
                            ("imports", "Imports"),
                            ("misses", "Not here"),
                            ("nodes", "Node settings"),
                            ("store", "Store"),
                        ] {
                            @let there = match id {
                                "nodes" => shown.settings,
                                "imports" | "misses" | "store" => shown.everything,
                                _ => true,
                            };
                            @if there {
                                li { a href={ "#" (id) } { (name) } }
                            }
                        }
                    }
                }
            } @else {
                p.back { a href="/" { "Back to the whole page" } }
            }
        }
    }
}

fn summary(shown: &Shown<'_>) -> Markup {
    let (held, facts) = (&shown.seen.held, &shown.seen.facts);
    let packages = shown.seen.sites.iter().flat_map(|site| &site.carried);
    let packages: usize = packages.map(|carried| carried.packages.len()).sum();
    html! {
        section aria-labelledby="summary" {
            h2.hidden id="summary" { "Summary" }
            dl.cards {
                div { dt { "Packages" } dd { (number(packages as u64)) } }
                div { dt { "Repositories" } dd { (number(held.repositories)) } }
                div { dt { "Tags" } dd { (number(held.tags)) } }
                div { dt { "Content" } dd { (size(held.bytes)) } }
                @if let Some(disk) = facts.disk {
                    div { dt { "Free disk" } dd { (size(disk.free)) } }
                }
                div {
                    dt { "Last import" }
                    dd {
                        @match facts.imports.newest().next() {
                            Some(import) => (distance(import.at, shown.now)),
                            None => "none yet",
                        }
                    }
                }
            }
        }
    }
}

/// What needs somebody.
fn problems(shown: &Shown<'_>) -> Markup {
    let facts = &shown.seen.facts;
    let mut found: Vec<(State, Markup)> = Vec::new();
    if facts.quarantined > 0 {
        found.push((
            State::Bad,
            html! {
                (count(facts.quarantined, "piece", "pieces")) " of content were found damaged or missing and \
                are not served until they are brought again: "
                code { "kubepkg mirror check" } " says which."
            },
        ));
    }
    if let Some(disk) = facts.disk.filter(|disk| disk.free < disk.size / LOW) {
        found.push((
            State::Warning,
            html! {
                "The disk has " (size(disk.free)) " of " (size(disk.size)) " left: "
                code { "kubepkg mirror prune" } " and " code { "kubepkg mirror gc" }
                " free what is not needed."
            },
        ));
    }
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

/// A time, for people and for programs.
fn when(time: Time, now: Time) -> Markup {
    html! {
        time datetime=(time) { (minute(time)) } " (" (distance(time, now)) ")"
    }
}

/// A table that may be wider than the window; then it can be moved with the keyboard too.
fn wide(label: &str, table: &Markup) -> Markup {
    html! {
        div.wide role="region" aria-label=(label) tabindex="0" { (table) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kubepkg_core::Digest;
    use kubepkg_core::store::{Cause, Names, Receipt, Record};

    use super::*;
    use crate::access::Who;
    use crate::facts::Facts;

    #[test]
    fn what_others_wrote_is_text() {
        let evil = "</style><script>alert(1)</script>\"'&";
        let index = ReceiptIndex {
            entry: evil.to_owned(),
            url: evil.to_owned(),
            digest: Digest::sha256(b"x"),
            generated: None,
            signed_by: vec![evil.to_owned()],
            root: None,
            acceptable_until: None,
            left_out: 0,
        };
        let receipt = Receipt {
            bundle: evil.to_owned(),
            repositories: vec![index],
            counts: [(evil.to_owned(), 1)].into(),
            warnings: vec![evil.to_owned()],
            ..Receipt::default()
        };
        let mut facts = Facts::default();
        facts.imports.take(Record {
            number: 1,
            at: Time::from_unix(0),
            cause: Cause::Import(Box::new(receipt)),
            changes: Vec::new(),
        });
        let seen = Seen {
            names: Arc::new(Names::default()),
            facts: Arc::new(facts),
            held: Arc::default(),
            sites: Arc::default(),
        };
        let wanted = WantedTable::default();
        let reader = Reader {
            gate: None,
            who: Who::Nobody,
        };
        let shown = Shown {
            seen: &seen,
            wanted: &wanted,
            address: Address::new(None, true),
            reader: &reader,
            everything: true,
            settings: true,
            now: Time::from_unix(1_796_000_000),
        };
        let asked = Asked::read("");
        let html = page(&shown, &asked).into_string();
        assert!(!html.contains("<script") && !html.contains(evil), "{html}");
        let escaped = html
            .matches("&lt;script&gt;alert(1)&lt;/script&gt;")
            .count();
        // bundle, count, URL, key, warning
        assert_eq!(escaped, 5, "{html}");
        assert!(html.contains("https://MIRROR/node-config"), "{html}");
    }

    #[test]
    fn an_index_warns_before_it_expires() {
        let now = Time::from_unix(1_796_000_000);
        for (left, state) in [
            (-1, State::Bad),
            (0, State::Bad),
            (1, State::Warning),
            (SOON - 1, State::Warning),
            (SOON, State::Good),
        ] {
            assert_eq!(State::of_expiry(now.plus(left), now), state, "{left}");
        }
    }
}
