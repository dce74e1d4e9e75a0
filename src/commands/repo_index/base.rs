//! The published index that a new one continues: `--merge`.
//!
//! Whoever could hand out an older index would have withdrawals and approvals dropped from the
//! next one, so it is judged by what was accepted before, and is remembered itself.

use std::sync::Arc;

use kubepkg_bundler::CreateError;
use kubepkg_bundler::repositories::{Accepted, Chain, How, Place, entries, load_index, places};
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::index::{Index, MAX_INDEX};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Clock, Entry, Remembered};
use kubepkg_remote::Client;

use crate::cli::{Trust, repository_url};
use crate::commands::search::{label, withdrawn};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::state::{MAX_CONFLICTS, State, busy};

/// What there is to continue.
pub enum Base {
    /// Nothing yet.
    Missing,
    /// An index, whose signature was checked or not.
    Found {
        /// The index.
        index: Arc<Index>,
        /// Whether somebody trusted signed it.
        checked: bool,
    },
}

/// Fetches the index `text` names and judges it where keys are given or remembered. One that
/// has expired can be continued: that is how it gets a new expiry.
pub async fn load(
    client: &Client,
    text: &str,
    trust: &Trust,
    change_trust: bool,
    printer: &Printer,
) -> anyhow::Result<Base> {
    let url = match repository_url(text) {
        Ok(url) => url,
        Err(error) if error.kind() == Kind::NotFound => return Ok(Base::Missing),
        Err(error) => return Err(error.into()),
    };
    let bytes = match client.fetch(&url, MAX_INDEX).await {
        Ok(fetched) => fetched.bytes,
        Err(error) if error.kind() == Kind::NotFound => return Ok(Base::Missing),
        Err(error) => return Err(error.into()),
    };
    // until somebody is found to vouch for it, only when it was made is taken from it
    let plain = Index::read(&bytes).map_err(|error| CommandError::of(&error).under(text))?;
    let state = State::of_user(printer);
    let places = places(client, std::slice::from_ref(&url)).await?;
    let [place] = places.as_slice() else {
        return Ok(Base::Missing);
    };
    for _ in 0..MAX_CONFLICTS {
        let mut before = state.read()?;
        // the path of a file that does not say where it is served is no name to remember it by
        let nameless = place.url.scheme() == "file" && before.entry(&place.url).is_none();
        if nameless {
            before = Remembered::default();
        }
        if trust.names_nobody() && before.entry(&place.url).is_none() {
            return Ok(Base::Found {
                index: Arc::new(plain),
                checked: false,
            });
        }
        let entries = entries(
            &trust.given()?,
            std::slice::from_ref(place),
            &before,
            change_trust,
        )?;
        let Some(entry) = entries.first() else {
            return Ok(Base::Missing);
        };
        let (accepted, after) = judge(client, place, entry, &before, plain.generated).await?;
        if !nameless && !state.save(&before, &after)? {
            continue;
        }
        // versions that lack signatures of a delegation stay published, so what is continued is
        // the file as it is: the one that was judged, not the one that was fetched before
        let mut files = accepted.files.iter();
        let judged = files.find(|(path, _)| path == place.url.file_name());
        let Some((_, judged)) = judged else {
            return Ok(Base::Missing);
        };
        let index = Index::read_shared(judged.clone())?;
        for line in forgotten(&accepted.verdict.index, &index) {
            printer.warn(&format!(
                "{line} was seen withdrawn, and {text} does not say so: withdraw it again \
                 (kubepkg repo withdraw), or take that back (--lift)"
            ));
        }
        return Ok(Base::Found {
            index: Arc::new(index),
            checked: !accepted.verdict.signed_by.is_empty(),
        });
    }
    Err(busy().into())
}

/// What came out, and what to remember. What has expired is judged as of when it was made, and
/// then nothing is remembered; what is older than what was accepted is refused all the same.
async fn judge(
    client: &Client,
    place: &Place,
    entry: &Entry,
    before: &Remembered,
    made: Option<Time>,
) -> Result<(Accepted, Remembered), CreateError> {
    let how = How {
        chain: Chain::New,
        tables: None,
    };
    let clock = before.clock(Time::now());
    match load_index(client, place, entry, before, clock, how).await {
        Ok(accepted) => {
            let mut after = before.clone();
            after.accept(entry, &accepted.verdict);
            Ok((accepted, after))
        }
        Err(CreateError::Trust { .. }) => {
            let as_made = Clock {
                as_of: made,
                ..clock
            };
            let accepted = load_index(client, place, entry, before, as_made, how).await?;
            Ok((accepted, before.clone()))
        }
        Err(error) => Err(error),
    }
}

/// The versions that `judged` knows as withdrawn, from memory, and the file itself does not.
fn forgotten(judged: &Index, file: &Index) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, package) in &judged.packages {
        let listed = file.packages.get(name);
        for version in &package.versions {
            let said = listed.is_some_and(|listed| {
                let mut same = listed.versions.iter();
                same.any(|one| {
                    (&one.version, one.build) == (&version.version, version.build)
                        && withdrawn(one).is_some()
                })
            });
            if withdrawn(version).is_some() && !said {
                lines.push(format!("{name} {}", label(version)));
            }
        }
    }
    lines
}
