//! The published index that a new one continues: `--merge`.

use std::sync::Arc;

use kubepkg_bundler::repositories::{Chain, How, entries, load_index, places};
use kubepkg_core::error::{Classify, Kind};
use kubepkg_core::index::{Index, MAX_INDEX};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Clock, Remembered};
use kubepkg_remote::Client;

use crate::cli::{Trust, repository_url};

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

/// Fetches the index `text` names and judges it where keys are given. One that has expired can
/// be continued: that is how it gets a new expiry.
pub async fn load(client: &Client, text: &str, trust: &Trust) -> anyhow::Result<Base> {
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
    if trust.names_nobody() {
        let index = Arc::new(Index::read(&bytes)?);
        return Ok(Base::Found {
            index,
            checked: false,
        });
    }
    judged(client, &url, trust, &bytes).await
}

async fn judged(
    client: &Client,
    url: &CanonicalUrl,
    trust: &Trust,
    bytes: &[u8],
) -> anyhow::Result<Base> {
    // only when it was made is taken from what nobody has vouched for yet
    let made = Index::read(bytes)?.generated;
    let none = Remembered::default();
    let places = places(client, std::slice::from_ref(url)).await?;
    let entries = entries(&trust.given()?, &places, &none, false)?;
    let clock = Clock {
        as_of: made,
        ..Clock::at(Time::now())
    };
    let mut found = None;
    for (place, entry) in places.iter().zip(&entries) {
        let how = How {
            chain: Chain::New,
            table: None,
        };
        let accepted = load_index(client, place, entry, &none, clock, how).await?;
        let checked = !accepted.verdict.signed_by.is_empty();
        // versions that lack signatures of a delegation stay published, so what is continued is
        // the file as it is
        let index = Arc::new(Index::read(bytes)?);
        found = Some(Base::Found { index, checked });
    }
    Ok(found.unwrap_or(Base::Missing))
}
