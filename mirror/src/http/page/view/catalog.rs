//! What is here: packages by their index, images and charts by their host.

use maud::{Markup, html};

use super::wide;
use crate::http::page::asked::Asked;
use crate::http::page::command::Address;
use crate::http::page::listing::{Listing, ROWS, Row};
use crate::http::page::packages::Group;
use crate::http::page::words::{count, number};

/// Packages, by the index they come from.
pub(super) fn packages(groups: &[Group<'_>], asked: &Asked) -> Markup {
    html! {
        section aria-labelledby="packages" {
            h2 id="packages" { "Packages" }
            @if groups.is_empty() {
                p.none {
                    @match asked.search.is_empty() {
                        true => { "No packages yet: " code { "kubepkg bundle import" } " brings them." }
                        false => { "No package has this in its name." }
                    }
                }
            }
            @for group in groups { (group_of(group)) }
        }
    }
}

fn group_of(group: &Group<'_>) -> Markup {
    let url = &group.site.url;
    let table = html! {
        table {
            thead { tr { th scope="col" { "Package" } th scope="col" { "Versions here" } } }
            tbody {
                @for package in &group.packages {
                    tr {
                        th scope="row" { (package.name) }
                        td {
                            @for (at, version) in package.versions.iter().enumerate() {
                                @if at > 0 { ", " }
                                span.version { (version) }
                            }
                            @if package.more > 0 {
                                span.more { " and " (number(package.more as u64)) " older" }
                            }
                        }
                    }
                }
            }
        }
    };
    let hidden = group.total - group.packages.len();
    html! {
        h3 { span.name { (url) } }
        @if group.site.carried.is_none() {
            p.none { "The list of packages that are here cannot be read." }
        } @else if group.total == 0 {
            p.none { "No package of this index is here." }
        }
        @if !group.packages.is_empty() {
            (wide(&format!("Packages of {url}"), &table))
        }
        @if hidden > 0 {
            p.more { (count(hidden as u64, "more package", "more packages")) "; search to find them." }
        }
    }
}

/// Repositories, by the host they come from.
pub(super) fn repositories(listing: &Listing<'_>, address: &Address, asked: &Asked) -> Markup {
    html! {
        section aria-labelledby="repositories" {
            h2 id="repositories" { "Images and charts" }
            @if listing.total == 0 {
                p.none {
                    @match asked.search.is_empty() {
                        true => "Nothing is here yet.",
                        false => "No repository, tag or digest has this in it.",
                    }
                }
            } @else {
                p.count {
                    (count(listing.total as u64, "repository", "repositories"))
                    @if listing.pages > 1 {
                        ", page " (number(listing.page as u64)) " of " (number(listing.pages as u64))
                        ", " (ROWS) " on each"
                    }
                    ". A click on a command selects all of it."
                }
            }
            @for rows in listing.rows.chunk_by(|a, b| host(a) == host(b)) { (hosted(rows, address)) }
            @if listing.pages > 1 { (turns(listing, asked)) }
        }
    }
}

/// The first element of a name: the upstream's host, where there is one.
fn host<'r>(row: &Row<'r>) -> &'r str {
    let name = row.name.as_str();
    name.split('/').next().unwrap_or(name)
}

fn hosted(rows: &[Row<'_>], address: &Address) -> Markup {
    let host = rows.first().map_or("", host);
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "Repository" }
                    th scope="col" { "Tag" }
                    th scope="col" { "Brought by" }
                    th scope="col" { "Pull it from here" }
                }
            }
            @for row in rows { tbody { (row_of(row, address)) } }
        }
    };
    html! {
        h3 { span.name { (host) } }
        (wide(&format!("Repositories of {host}"), &table))
    }
}

fn row_of(row: &Row<'_>, address: &Address) -> Markup {
    let lines = row.tags.len() + usize::from(row.more > 0);
    html! {
        @if row.tags.is_empty() {
            tr {
                th scope="row" { span.name { (row.name) } }
                td.none colspan="3" {
                    "no tags; " (count(row.manifests as u64, "manifest", "manifests"))
                    " and " (count(row.blobs as u64, "blob", "blobs"))
                }
            }
        }
        @for (at, tag) in row.tags.iter().enumerate() {
            tr {
                @if at == 0 {
                    th scope="rowgroup" rowspan=(lines) { span.name { (row.name) } }
                }
                td { span.name { (tag.tag) } " " span.kind { (tag.what.as_str()) } }
                td {
                    @match tag.origin {
                        Some(origin) => { (origin.package) " " (origin.version) }
                        None => span.none { "a push" }
                    }
                }
                td { code.copy { (address.pull(tag.what, row.name, tag.tag)) } }
            }
        }
        @if row.more > 0 {
            tr { td.more colspan="3" { (count(row.more as u64, "more tag", "more tags")) "; search to find them" } }
        }
    }
}

/// The way to the other pages.
fn turns(listing: &Listing<'_>, asked: &Asked) -> Markup {
    let (page, last) = (listing.page, listing.pages);
    html! {
        nav.pages aria-label="Pages of repositories" {
            ul {
                @if page > 1 {
                    li { a href=(asked.at(1)) { "First" } }
                    li { a href=(asked.at(page - 1)) rel="prev" { "Previous" } }
                }
                li { span aria-current="page" { "Page " (number(page as u64)) } }
                @if page < last {
                    li { a href=(asked.at(page + 1)) rel="next" { "Next" } }
                    li { a href=(asked.at(last)) { "Last" } }
                }
            }
        }
    }
}
