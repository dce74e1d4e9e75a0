//! Repositories opened for a verb: fetched, judged by who is trusted and by what was accepted
//! before, which is then remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubepkg_bundler::CreateError;
use kubepkg_bundler::repositories::{Accepted, Chain, How, Place, entries, load_index, places};
use kubepkg_core::digest::Digest;
use kubepkg_core::index::{Index, LeftOut, LeftOutWhy};
use kubepkg_core::keys::KeyId;
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::select::{Catalog, Source};
use kubepkg_core::time::Time;
use kubepkg_core::trust::{Clock, Remembered};
use kubepkg_remote::Client;

use crate::cache::Cache;
use crate::cli::{Chosen, Sources};
use crate::interrupt;
use crate::printer::Printer;
use crate::state::{MAX_CONFLICTS, State, busy};
use crate::units::count;

/// A repository whose index is accepted.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Canonical URL of the index.
    pub url: CanonicalUrl,
    /// Where it was read.
    pub from: CanonicalUrl,
    /// What `repo add` called it.
    pub name: Option<String>,
    /// Its rank: the first one has the highest.
    pub priority: i32,
    /// Its index.
    pub index: Arc<Index>,
    /// Digest of the index file.
    pub digest: Digest,
    /// The trusted keys that signed it; empty for an unsigned one.
    pub signed_by: Vec<KeyId>,
    /// Version of the root it was judged by.
    pub root: Option<u32>,
    /// Until when it can be accepted, as far as that is said.
    pub acceptable_until: Option<Time>,
}

impl Opened {
    fn of(place: &Place, name: Option<String>, priority: i32, accepted: Accepted) -> Opened {
        let Accepted { verdict, files } = accepted;
        let index_file = files
            .iter()
            .find(|(path, _)| *path == place.url.file_name());
        Opened {
            url: place.url.clone(),
            from: place.from.clone(),
            name,
            priority,
            digest: match (&verdict.memory.accepted, index_file) {
                (Some(accepted), _) => accepted.index,
                (None, Some((_, bytes))) => Digest::sha256(bytes),
                (None, None) => Digest::sha256(b""),
            },
            index: Arc::new(verdict.index),
            signed_by: verdict.signed_by,
            root: verdict.root.map(|root| root.version),
            acceptable_until: verdict.acceptable_until,
        }
    }

    /// Its name, or its URL where it has none.
    pub fn called(&self) -> String {
        match &self.name {
            Some(name) => name.clone(),
            None => self.url.to_string(),
        }
    }
}

/// The repositories of one call, in their order.
#[derive(Debug)]
pub struct Repositories(Vec<Opened>);

impl Repositories {
    /// Opens the repositories that flags or configuration name.
    pub fn open(
        client: &Client,
        sources: &Sources,
        printer: &Printer,
    ) -> anyhow::Result<Repositories> {
        let opened = Repositories::open_to_show(client, sources, printer)?;
        for one in &opened.0 {
            let left_out = one.index.left_out.len();
            if left_out > 0 {
                printer.warn(&format!(
                    "{}: {} cannot be chosen; kubepkg repo show {} says why",
                    one.url,
                    count(left_out, "version", "versions"),
                    one.name.as_deref().unwrap_or(one.from.as_str()),
                ));
            }
        }
        Ok(opened)
    }

    /// [`Repositories::open`] for a verb that shows what cannot be chosen and why.
    pub fn open_to_show(
        client: &Client,
        sources: &Sources,
        printer: &Printer,
    ) -> anyhow::Result<Repositories> {
        let state = State::of_user(printer);
        for _ in 0..MAX_CONFLICTS {
            let before = state.read()?;
            let chosen = sources.chosen(&before, printer)?;
            let again = "nothing was changed; run the same command again";
            let (opened, after, said) = interrupt::run(printer, again, async {
                Ok(open(client, sources, &chosen, &before).await?)
            })?;
            if state.save(&before, &after)? {
                for line in said {
                    printer.warn(&line);
                }
                return Ok(Repositories(opened));
            }
        }
        Err(busy().into())
    }

    /// The repositories.
    pub fn opened(&self) -> &[Opened] {
        &self.0
    }

    /// What there is to choose from.
    pub fn catalog(&self) -> Catalog {
        let source = |opened: &Opened| Source {
            name: opened.url.to_string(),
            priority: opened.priority,
            index: opened.index.clone(),
        };
        Catalog::new(self.0.iter().map(source).collect())
    }

    /// The digest of each index, by the URL of its repository.
    pub fn digests(&self) -> BTreeMap<String, Digest> {
        let digest = |opened: &Opened| (opened.url.to_string(), opened.digest);
        self.0.iter().map(digest).collect()
    }

    /// What the repository with this URL is called; the text itself for others.
    pub fn called(&self, url: &str) -> String {
        match self.0.iter().find(|opened| opened.url.as_str() == url) {
            Some(opened) => opened.called(),
            None => url.to_owned(),
        }
    }
}

/// Fetches and judges. Gives also what to remember and what to say.
async fn open(
    client: &Client,
    sources: &Sources,
    chosen: &Chosen,
    before: &Remembered,
) -> Result<(Vec<Opened>, Remembered, Vec<String>), CreateError> {
    let places = places(client, &chosen.repositories).await?;
    let entries = entries(&chosen.given, &places, before, sources.change_trust)?;
    let mut remembered = before.clone();
    let clock = Clock {
        max_age: sources.trust.max_age_seconds(),
        ..before.clock(Time::now())
    };
    let tables = Cache::of_user();
    let mut opened = Vec::with_capacity(places.len());
    let mut said = Vec::new();
    for (n, (place, entry)) in places.iter().zip(&entries).enumerate() {
        let how = How {
            chain: Chain::New,
            tables: tables.as_ref().map(|tables| tables as _),
        };
        let accepted = load_index(client, place, entry, &remembered, clock, how).await?;
        remembered.accept(entry, &accepted.verdict);
        said.extend(accepted.verdict.warnings.iter().map(ToString::to_string));
        let name = chosen
            .names
            .get(&place.from)
            .or_else(|| chosen.names.get(&place.url));
        let priority = i32::try_from(places.len() - n).unwrap_or(i32::MAX);
        opened.push(Opened::of(place, name.cloned(), priority, accepted));
    }
    Ok((opened, remembered, said))
}

/// Why a version is not offered, in words.
pub fn why(left: &LeftOut) -> String {
    match &left.why {
        LeftOutWhy::Newer { unknown } => {
            format!("made for another kubepkg: {}", unknown.join(", "))
        }
        LeftOutWhy::Delegation { name, have, need } => {
            format!("delegation {name}: {have} of {need} signatures")
        }
        LeftOutWhy::Approvals { have, need } => format!("{have} of {need} approvals"),
    }
}
