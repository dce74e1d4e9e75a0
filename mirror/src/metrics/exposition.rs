//! All metrics, by name. What `docs/monitoring.md` lists and `samples/monitoring` uses.

use kubepkg_core::time::Time;

use super::text::{Metric, Text, Type};
use super::{Counted, Kind};
use crate::http::{Condition, Seen};
use crate::store::Scrubbed;
use crate::wanted::MISS_KINDS;

/// Classes of status, as the label `status` has them.
const CLASS_NAMES: [&str; super::CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// What is told.
pub(crate) struct Told<'t> {
    /// What the server counted.
    pub counted: &'t Counted,
    /// What was asked for in vain, by kind.
    pub misses: &'t [u64],
    /// How the server itself stands.
    pub condition: &'t Condition,
    /// What the store tells; `None` where it cannot be read.
    pub seen: Option<&'t Seen>,
    /// References on the wanted list.
    pub wanted: usize,
    /// Indexes are named, which tells where upstream is.
    pub indexes: bool,
}

/// The text of all metrics.
pub(crate) fn expose(told: &Told<'_>) -> String {
    let mut text = Text::default();
    server(&mut text, told.counted, told.misses);
    stands(&mut text, told.condition);
    let readable = u8::from(told.seen.is_some());
    gauge(
        &mut text,
        "kubepkg_mirror_store_readable",
        "Whether the store can be read.",
    )
    .is(readable);
    if let Some(seen) = told.seen {
        content(&mut text, seen);
        gauge(
            &mut text,
            "kubepkg_mirror_wanted_references",
            "References that were asked for and are not here.",
        )
        .is(told.wanted);
        upkeep(&mut text, seen);
        imports(&mut text, seen);
        if told.indexes {
            freshness(&mut text, seen);
        }
    }
    text.finish()
}

fn gauge<'t>(text: &'t mut Text, name: &'static str, help: &'static str) -> Metric<'t> {
    text.metric(name, Type::Gauge, help)
}

fn counter<'t>(text: &'t mut Text, name: &'static str, help: &'static str) -> Metric<'t> {
    text.metric(name, Type::Counter, help)
}

/// A value that may not be known: then there is none.
fn known(text: &mut Text, name: &'static str, help: &'static str, value: Option<u64>) {
    if let Some(value) = value {
        gauge(text, name, help).is(value);
    }
}

/// A time that may not be known: then there is no value.
fn time(text: &mut Text, name: &'static str, help: &'static str, time: Option<Time>) {
    if let Some(time) = time {
        gauge(text, name, help).is(time.unix());
    }
}

fn server(text: &mut Text, counted: &Counted, misses: &[u64]) {
    gauge(
        text,
        "kubepkg_mirror_build_info",
        "The version of the server.",
    )
    .with(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    gauge(
        text,
        "kubepkg_mirror_start_timestamp_seconds",
        "When the server was started, in seconds since 1970.",
    )
    .is(counted.started.unix());
    let mut requests = counter(
        text,
        "kubepkg_mirror_requests_total",
        "Requests that were answered, by what they ask for and class of status.",
    );
    for kind in Kind::ALL {
        for (class, count) in CLASS_NAMES.iter().zip(counted.requests[kind as usize]) {
            // 1xx is never a final answer; others are there from the beginning, so that a rate
            // sees the first one
            if *class != "1xx" {
                requests.with(&[("kind", kind.as_str()), ("status", class)], count);
            }
        }
    }
    counter(
        text,
        "kubepkg_mirror_received_bytes_total",
        "Bytes that came from clients.",
    )
    .is(counted.received);
    counter(
        text,
        "kubepkg_mirror_sent_bytes_total",
        "Bytes that went to clients.",
    )
    .is(counted.sent);
    gauge(text, "kubepkg_mirror_connections", "Open connections.")
        .is(counted.opened.saturating_sub(counted.closed));
    counter(
        text,
        "kubepkg_mirror_connections_accepted_total",
        "Connections that were served.",
    )
    .is(counted.opened);
    counter(
        text,
        "kubepkg_mirror_connections_refused_total",
        "Connections that were turned away because there were too many.",
    )
    .is(counted.refused);
    let mut missed = counter(
        text,
        "kubepkg_mirror_misses_total",
        "Requests for something that is not here, by what was asked for.",
    );
    for (kind, count) in MISS_KINDS.iter().zip(misses) {
        missed.with(&[("kind", kind)], count);
    }
}

fn stands(text: &mut Text, condition: &Condition) {
    time(
        text,
        "kubepkg_mirror_certificate_not_after_timestamp_seconds",
        "Until when the certificate in use holds, in seconds since 1970.",
        condition.certificate.as_ref().map(|facts| facts.until),
    );
    if !condition.settings.is_empty() {
        let mut unread = gauge(
            text,
            "kubepkg_mirror_settings_reload_failed",
            "Whether a file of settings was changed and cannot be used, so that the old goes on.",
        );
        for (what, failed) in &condition.settings {
            unread.with(&[("file", what)], u8::from(*failed));
        }
    }
    counter(
        text,
        "kubepkg_mirror_login_failures_total",
        "Wrong passwords.",
    )
    .is(condition.wrong_logins);
    if let Some(writing) = &condition.writing {
        gauge(
            text,
            "kubepkg_mirror_store_writable",
            "Whether what clients push now could be kept.",
        )
        .is(u8::from(writing.is_ok()));
    }
}

fn content(text: &mut Text, seen: &Seen) {
    let held = &seen.held;
    gauge(
        text,
        "kubepkg_mirror_repositories",
        "Repositories with something in them.",
    )
    .is(held.repositories);
    gauge(text, "kubepkg_mirror_tags", "Tags in all repositories.").is(held.tags);
    gauge(text, "kubepkg_mirror_manifests", "Different manifests.").is(held.manifests);
    gauge(text, "kubepkg_mirror_blobs", "Different blobs.").is(held.blobs);
    gauge(
        text,
        "kubepkg_mirror_content_bytes",
        "Size of all manifests and blobs that repositories hold, each counted once.",
    )
    .is(held.bytes);
    if let Some(disk) = seen.facts.disk {
        gauge(
            text,
            "kubepkg_mirror_disk_free_bytes",
            "Free space on the store's file system.",
        )
        .is(disk.free);
        gauge(
            text,
            "kubepkg_mirror_disk_size_bytes",
            "Size of the store's file system.",
        )
        .is(disk.size);
    }
    known(
        text,
        "kubepkg_mirror_uploads",
        "Uploads that were begun and not finished.",
        seen.facts.uploads,
    );
}

fn upkeep(text: &mut Text, seen: &Seen) {
    let facts = &seen.facts;
    known(
        text,
        "kubepkg_mirror_quarantined_contents",
        "Pieces of content that were found damaged and set aside, and were not brought again.",
        facts.quarantined,
    );
    if let Some(state) = &facts.scrub {
        scrub(text, state, facts.scrub_failures);
    }
    if let Some(collections) = &facts.collections {
        counter(
            text,
            "kubepkg_mirror_gc_runs_total",
            "Collections, by how they ended.",
        )
        .with(&[("result", "done")], collections.done)
        .with(&[("result", "failed")], collections.failed);
        counter(
            text,
            "kubepkg_mirror_gc_removed_contents_total",
            "Pieces of content that collections removed.",
        )
        .is(collections.contents);
        counter(
            text,
            "kubepkg_mirror_gc_freed_bytes_total",
            "Bytes that collections freed.",
        )
        .is(collections.bytes);
    }
    time(
        text,
        "kubepkg_mirror_gc_last_success_timestamp_seconds",
        "When a collection last ended well, in seconds since 1970.",
        facts.collected,
    );
}

fn scrub(text: &mut Text, state: &Scrubbed, failures: u64) {
    gauge(
        text,
        "kubepkg_mirror_scrub_round_read_bytes",
        "Bytes the present round of the scrub has read.",
    )
    .is(state.bytes);
    gauge(
        text,
        "kubepkg_mirror_scrub_round_damaged_contents",
        "Damaged content the present round of the scrub has found.",
    )
    .is(state.damaged);
    counter(
        text,
        "kubepkg_mirror_scrub_failures_total",
        "How often the scrub had to stop, or could not look at something.",
    )
    .is(failures);
    time(
        text,
        "kubepkg_mirror_scrub_round_start_timestamp_seconds",
        "When the present or last round of the scrub began, in seconds since 1970.",
        state.started,
    );
    time(
        text,
        "kubepkg_mirror_scrub_last_pass_timestamp_seconds",
        "When the scrub last came to its end, in seconds since 1970.",
        state.finished,
    );
}

fn imports(text: &mut Text, seen: &Seen) {
    let imports = &seen.facts.imports;
    gauge(text, "kubepkg_mirror_imports", "Imports into the store.").is(imports.count());
    time(
        text,
        "kubepkg_mirror_last_import_timestamp_seconds",
        "When a bundle was last imported, in seconds since 1970.",
        imports.newest().next().map(|import| import.at),
    );
}

fn freshness(text: &mut Text, seen: &Seen) {
    let imports = &seen.facts.imports;
    let of_index = |what: fn(&kubepkg_core::store::ReceiptIndex) -> Option<Time>| {
        let known = seen.sites.iter().filter_map(move |site| {
            let index = imports.index(site.url.as_str(), &site.index?)?;
            Some((site.url.as_str(), what(index)?))
        });
        known.collect::<Vec<_>>()
    };
    for (name, help, values) in [
        (
            "kubepkg_mirror_index_generated_timestamp_seconds",
            "When an index was made, in seconds since 1970.",
            of_index(|index| index.generated),
        ),
        (
            "kubepkg_mirror_index_acceptable_until_timestamp_seconds",
            "Until when clusters accept an index, in seconds since 1970.",
            of_index(|index| index.acceptable_until),
        ),
    ] {
        if values.is_empty() {
            continue;
        }
        let mut metric = gauge(text, name, help);
        for (url, time) in values {
            metric.with(&[("url", url)], time.unix());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::metrics::Metrics;

    fn exposed(
        metrics: &Metrics,
        misses: &[u64],
        condition: &Condition,
        seen: Option<&Seen>,
    ) -> String {
        expose(&Told {
            counted: &metrics.sum(),
            misses,
            condition,
            seen,
            wanted: 3,
            indexes: true,
        })
    }

    #[test]
    fn what_is_not_known_of_a_store_is_not_told_as_nothing() {
        let seen = Seen {
            names: Arc::default(),
            facts: Arc::default(),
            held: Arc::default(),
            sites: Arc::default(),
        };
        let none = Condition::default();
        let of = |seen: &Seen| {
            exposed(
                &Metrics::default(),
                &[0; MISS_KINDS.len()],
                &none,
                Some(seen),
            )
        };
        let text = of(&seen);
        for absent in ["quarantined", "scrub", "gc_", "_uploads", "disk"] {
            assert!(!text.contains(absent), "{absent}\n{text}");
        }
        assert!(
            text.contains("kubepkg_mirror_wanted_references 3\n"),
            "{text}"
        );
        let facts = crate::facts::Facts {
            quarantined: Some(0),
            scrub: Some(Scrubbed::default()),
            collections: Some(Default::default()),
            uploads: Some(0),
            ..Default::default()
        };
        let text = of(&Seen {
            facts: Arc::new(facts),
            ..seen
        });
        for zero in ["quarantined_contents", "scrub_failures_total", "uploads"] {
            let line = format!("kubepkg_mirror_{zero} 0\n");
            assert!(text.contains(&line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_store_that_cannot_be_read_leaves_what_the_server_counts() {
        let metrics = Metrics::default();
        metrics
            .part(0)
            .answered(Kind::Manifest, http::StatusCode::OK);
        let until = Time::from_unix(7);
        let condition = Condition {
            certificate: Some(Arc::new(certificate(until))),
            settings: vec![("users", false), ("rules", true)],
            wrong_logins: 3,
            writing: Some(Err("the disk is full".to_owned())),
        };
        let text = exposed(&metrics, &[1, 2, 3, 4, 5], &condition, None);
        for line in [
            "kubepkg_mirror_store_readable 0",
            "kubepkg_mirror_requests_total{kind=\"manifest\",status=\"2xx\"} 1",
            "kubepkg_mirror_requests_total{kind=\"blob\",status=\"5xx\"} 0",
            "kubepkg_mirror_misses_total{kind=\"illegal\"} 5",
            "kubepkg_mirror_certificate_not_after_timestamp_seconds 7",
            "kubepkg_mirror_settings_reload_failed{file=\"users\"} 0",
            "kubepkg_mirror_settings_reload_failed{file=\"rules\"} 1",
            "kubepkg_mirror_login_failures_total 3",
            "kubepkg_mirror_store_writable 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(!text.contains("kubepkg_mirror_disk"), "{text}");
    }

    fn certificate(until: Time) -> crate::tls::Facts {
        crate::tls::Facts {
            subject: String::new(),
            from: Time::from_unix(0),
            until,
            names: Vec::new(),
            fingerprint: String::new(),
        }
    }

    #[test]
    fn what_a_server_does_not_do_is_not_told() {
        let none = Condition::default();
        let text = exposed(&Metrics::default(), &[0; MISS_KINDS.len()], &none, None);
        for absent in ["certificate", "settings", "store_writable"] {
            assert!(!text.contains(absent), "{absent}\n{text}");
        }
    }

    #[test]
    fn names_and_series_are_there_once() {
        let none = Condition::default();
        let text = exposed(&Metrics::default(), &[0; MISS_KINDS.len()], &none, None);
        let mut types = BTreeSet::new();
        let mut series = BTreeSet::new();
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(name) => assert!(types.insert(name), "{name} twice"),
                None if line.starts_with('#') => {}
                None => {
                    let (name, _) = line.rsplit_once(' ').unwrap();
                    assert!(series.insert(name), "{name} twice");
                }
            }
        }
    }
}
