//! How the mirror is: freshness, imports, misses, its store.

use kubepkg_core::store::ReceiptPackage;
use maud::{Markup, html};

use super::{Shown, State, when, wide};
use crate::facts::Import;
use crate::http::page::words::{count, number, size};

/// Imports on the page.
const IMPORTS: usize = 10;

/// Packages named of an import.
const PACKAGES: usize = 20;

/// Misses on the page.
const MISSES: usize = 50;

/// Indexes, how fresh they are and until when clusters accept them.
pub(super) fn indexes(shown: &Shown<'_>) -> Markup {
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "Index" }
                    th scope="col" { "Made" }
                    th scope="col" { "Accepted until" }
                    th scope="col" { "Signed by" }
                }
            }
            tbody {
                @for site in shown.sites() {
                    @let said = shown.said(site);
                    tr {
                        th scope="row" { span.name { (site.url) } }
                        @if let Some(said) = said {
                            td {
                                @match said.generated {
                                    Some(time) => (when(time, shown.now)),
                                    None => span.none { "not said" },
                                }
                            }
                            td {
                                @match said.acceptable_until {
                                    Some(until) => span class=(State::of_expiry(until, shown.now).class()) {
                                        (when(until, shown.now))
                                    },
                                    None => "it does not expire",
                                }
                            }
                            td {
                                @if said.signed_by.is_empty() { span.bad { "nobody" } }
                                @for key in &said.signed_by { span.key { (key) } " " }
                                @if let Some(root) = said.root { "root " (root) }
                            }
                        } @else {
                            td.none colspan="3" { "no receipt tells" }
                        }
                    }
                }
            }
        }
    };
    html! {
        section aria-labelledby="indexes" {
            h2 id="indexes" { "Indexes" }
            @match shown.seen.sites.is_empty() {
                true => p.none { "No index is served." },
                false => (wide("Table of indexes", &table)),
            }
        }
    }
}

/// The last imports, with what their receipts say.
pub(super) fn imports(shown: &Shown<'_>) -> Markup {
    let imports = &shown.seen.facts.imports;
    let older = imports.count().saturating_sub(IMPORTS as u64);
    html! {
        section aria-labelledby="imports" {
            h2 id="imports" { "Imports" }
            @if imports.count() == 0 {
                p.none { "No bundle was imported yet." }
            }
            @for import in imports.newest().take(IMPORTS) { (import_of(import, shown)) }
            @if older > 0 {
                p.more {
                    (count(older, "older import", "older imports")) "; their receipts lie in "
                    code { "commits/" } " of the store."
                }
            }
        }
    }
}

fn import_of(import: &Import, shown: &Shown<'_>) -> Markup {
    let receipt = &import.receipt;
    let packages = receipt.packages.iter().take(PACKAGES);
    let more = import.packages.saturating_sub(PACKAGES) as u64;
    let version = |package: &ReceiptPackage| match package.build {
        0 => package.version.clone(),
        build => format!("{} build {build}", package.version),
    };
    html! {
        article {
            h3 { (when(import.at, shown.now)) }
            dl {
                dt { "Bundle" }
                dd { span.name { (receipt.bundle) } ", " (size(receipt.size)) ", of which " (size(receipt.new_bytes)) " were new" }
                dt { "Packages" }
                dd {
                    @if import.packages == 0 { span.none { "none" } }
                    @for (at, package) in packages.enumerate() {
                        @if at > 0 { ", " }
                        span.version { (package.name) " " (version(package)) }
                    }
                    @if more > 0 { span.more { " and " (number(more)) " more" } }
                }
                @if !receipt.counts.is_empty() {
                    dt { "Content" }
                    dd {
                        @for (at, (what, n)) in receipt.counts.iter().filter(|(_, n)| **n > 0).enumerate() {
                            @if at > 0 { ", " }
                            (what) " " (number(*n))
                        }
                    }
                }
                dt { "Judged by" }
                dd {
                    @for index in &receipt.repositories {
                        div {
                            span.name { (index.url) } ", "
                            @match index.signed_by.is_empty() {
                                true => span.bad { "not signed" }
                                false => {
                                    "signed by "
                                    @for key in &index.signed_by { span.key { (key) } " " }
                                }
                            }
                        }
                    }
                }
                @if let Some(time) = receipt.as_of {
                    dt { "As of" }
                    dd { (when(time, shown.now)) }
                }
                @if import.warnings > 0 {
                    dt { "Said" }
                    dd {
                        details {
                            summary { (count(import.warnings as u64, "remark", "remarks")) }
                            ul {
                                @for warning in &receipt.warnings { li { (warning) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What was asked for in vain.
pub(super) fn misses(shown: &Shown<'_>) -> Markup {
    let all: Vec<_> = shown.wanted.references().collect();
    let more = all.len().saturating_sub(MISSES) as u64;
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "Reference" }
                    th scope="col" { "Times" }
                    th scope="col" { "Last asked for" }
                    th scope="col" { "Clients" }
                }
            }
            tbody {
                @for misses in all.iter().rev().take(MISSES) {
                    tr {
                        th scope="row" { span.name { (misses.reference) } }
                        td.number { (number(misses.count)) }
                        td { (when(misses.last, shown.now)) }
                        td {
                            @for (at, client) in misses.clients.iter().enumerate() {
                                @if at > 0 { ", " }
                                (client)
                            }
                            @if misses.more_clients { " and others" }
                        }
                    }
                }
            }
        }
    };
    html! {
        section aria-labelledby="misses" {
            h2 id="misses" { "Asked for and not here" }
            @if all.is_empty() {
                p.none { "Everything that was asked for is here." }
            } @else {
                p {
                    "What the next bundle should bring. On the mirror's host "
                    code { "kubepkg mirror wanted --references --store DIR" } " writes the list."
                }
                (wide("Table of what is not here", &table))
            }
            @if more > 0 { p.more { (count(more, "more reference", "more references")) "." } }
        }
    }
}

/// The store: room, scrub, collection.
pub(super) fn store(shown: &Shown<'_>) -> Markup {
    let (facts, held) = (&shown.seen.facts, &shown.seen.held);
    html! {
        section aria-labelledby="store" {
            h2 id="store" { "Store" }
            dl {
                dt { "Content" }
                dd {
                    (size(held.bytes)) " in " (count(held.manifests, "manifest", "manifests"))
                    " and " (count(held.blobs, "blob", "blobs"))
                }
                @if let Some(disk) = facts.disk {
                    dt { "Disk" }
                    dd { (size(disk.free)) " of " (size(disk.size)) " are free" }
                }
                dt { "Damaged content" }
                dd {
                    @match facts.quarantined {
                        None => span.none { "not known" },
                        Some(0) => "none known",
                        Some(n) => span.bad { (count(n, "piece", "pieces")) " set aside" },
                    }
                }
                dt { "All content last read" }
                dd {
                    @match facts.scrub.as_ref().map(|scrub| scrub.finished) {
                        Some(Some(time)) => (when(time, shown.now)),
                        Some(None) => "not yet to the end",
                        None => span.none { "not known" },
                    }
                }
                dt { "Last collection" }
                dd {
                    @match facts.collected {
                        Some(time) => (when(time, shown.now)),
                        None => "none yet",
                    }
                }
                dt { "Uploads under way" }
                dd {
                    @match facts.uploads {
                        Some(uploads) => (number(uploads)),
                        None => span.none { "not known" },
                    }
                }
                dt { "Newest commit" }
                dd { (shown.seen.names.sequence) }
            }
        }
    }
}
