//! Flags, variables and a file of settings are layers. Of flags that answer one question
//! together the highest layer that gives one of them gives the whole answer: what lies below
//! neither adds to it nor stands against it.

use std::collections::BTreeSet;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// Flags that answer one question together.
const TOGETHER: &[&[&str]] = &[
    // who may write
    &["anonymous-push", "read-only"],
    // what is spoken; who is let in by a certificate (client-ca) is another question, and no
    // layer opens what another one closed
    &[
        "insecure-http",
        "self-signed",
        "tls-ca",
        "tls-cert",
        "tls-key",
    ],
    // whose signatures count
    &["public-key", "root-key", "root-threshold", "trust"],
    &["sign-key", "sign-key-env"],
];

/// The flags that do not count in lower layers, because `given` of this one answers their
/// question.
pub(super) fn overruled(given: impl Fn(&str) -> bool) -> BTreeSet<&'static str> {
    let answered = TOGETHER
        .iter()
        .filter(|group| group.iter().any(|flag| given(flag)));
    answered.copied().flatten().copied().collect()
}

/// Whether a flag stands on the command line itself.
pub(super) fn on_the_command_line(matches: &ArgMatches, flag: &str) -> bool {
    let mut leaf = matches;
    while let Some((_, deeper)) = leaf.subcommand() {
        leaf = deeper;
    }
    let id = flag.replace('-', "_");
    let id = if flag == "trust" { "trust_file" } else { &id };
    let known = leaf.ids().any(|there| there.as_str() == id);
    known && leaf.value_source(id) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_is_the_whole_answer() {
        let tls = overruled(|flag| flag == "tls-cert");
        let want = [
            "insecure-http",
            "self-signed",
            "tls-ca",
            "tls-cert",
            "tls-key",
        ];
        assert_eq!(tls, want.into());
        assert!(overruled(|flag| flag == "client-ca").is_empty());
        assert_eq!(overruled(|flag| flag == "sign-key").len(), 2);
    }
}
