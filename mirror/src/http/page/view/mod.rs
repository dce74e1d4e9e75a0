//! The page itself. Sections that hold lists say when they show a part only.

mod catalog;
mod problems;
mod reach;
mod state;

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::ReceiptIndex;
use kubepkg_core::time::Time;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::STYLE;
use super::asked::Asked;
use super::command::Address;
use super::listing::Listing;
use super::packages::groups;
use super::words::{distance, minute, number, size};
use crate::http::overview::SiteSeen;
use crate::http::reader::Reader;
use crate::http::{Condition, Seen};
use crate::wanted::WantedTable;

/// What expires within so many seconds is worth a warning: time enough to carry a bundle, or to
/// ask for a certificate.
const SOON: i64 = 14 * 86_400;

/// Everything there is to show.
pub(super) struct Shown<'s> {
    pub seen: &'s Seen,
    pub wanted: &'s WantedTable,
    pub address: Address,
    /// Whose page it is.
    pub reader: &'s Reader,
    /// Whether they may read all that is here; what tells of all of it is shown only then.
    pub everything: bool,
    /// How the server itself stands.
    pub condition: &'s Condition,
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

    /// How something stands that counts until then: an index, a certificate.
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
                        (problems::section(shown))
                    }
                    @if asked.page == 1 { (catalog::packages(&packages, asked)) }
                    (catalog::repositories(&listing, &shown.address, asked))
                    @if asked.is_whole() {
                        (state::indexes(shown))
                        @if shown.everything {
                            (state::imports(shown))
                            (state::misses(shown))
                        }
                        (reach::section(shown))
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
    fn what_ends_a_mirror_stands_first() {
        let now = Time::from_unix(1_796_000_000);
        let certificate = |from: i64, until: i64| {
            Some(Arc::new(crate::tls::Facts {
                subject: String::new(),
                from: now.plus(from),
                until: now.plus(until),
                names: Vec::new(),
                fingerprint: String::new(),
            }))
        };
        let with = |condition: Condition, facts: Facts| {
            let seen = Seen {
                names: Arc::new(Names::default()),
                facts: Arc::new(facts),
                held: Arc::default(),
                sites: Arc::default(),
            };
            let reader = Reader {
                gate: None,
                who: Who::Nobody,
            };
            let shown = Shown {
                seen: &seen,
                wanted: &WantedTable::default(),
                address: Address::new(None, true, None),
                reader: &reader,
                everything: true,
                condition: &condition,
                settings: true,
                now,
            };
            page(&shown, &Asked::read("")).into_string()
        };
        let holds = |from, until| Condition {
            certificate: certificate(from, until),
            ..Condition::default()
        };
        let day = 86_400;
        for (condition, said) in [
            (holds(-day, SOON), None),
            (holds(-day, 2 * day), Some("ends in 2 days")),
            (holds(-2 * day, -day), Some("ended 24 hours ago")),
            (holds(day, SOON * 2), Some("does not hold yet")),
            (
                Condition {
                    settings: vec![("certificate", false), ("rules", true)],
                    ..Condition::default()
                },
                Some("The file of the rules was changed"),
            ),
            (
                Condition {
                    writing: Some(Err("no space".to_owned())),
                    ..Condition::default()
                },
                Some("Nothing can be pushed: no space."),
            ),
        ] {
            let html = with(condition, Facts::default());
            assert_eq!(html.contains("id=\"problems\""), said.is_some(), "{said:?}");
            assert!(html.contains(said.unwrap_or_default()), "{said:?}\n{html}");
        }
        let facts = Facts {
            scrub_failures: 2,
            ..Facts::default()
        };
        let html = with(Condition::default(), facts);
        assert!(html.contains("Looking for damage failed 2 times"), "{html}");
    }

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
            address: Address::new(None, true, None),
            reader: &reader,
            everything: true,
            condition: &Condition::default(),
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
