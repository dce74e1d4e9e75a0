//! What is remembered of all repositories, and judging by it. Import keeps it in the store, the
//! command in a file of the user.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{
    Clock, Difference, Entry, Given, GivenError, KNOWN_ID, Known, MAX_MEMORY, Memory, MemoryError,
    Offer, Root, Standing, TrustError, Verdict, Warning, entry_id, judge,
};
use crate::location::CanonicalUrl;
use crate::time::Time;

/// The memories of all repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// By entry id.
    pub memories: BTreeMap<String, Memory>,
    /// Over all repositories.
    pub known: Known,
}

impl Remembered {
    /// What a store holds: `memories`, and the record over all of them.
    pub fn new(memories: impl IntoIterator<Item = Memory>, mut known: Known) -> Remembered {
        let memories: BTreeMap<String, Memory> = memories
            .into_iter()
            .map(|memory| (memory.entry.clone(), memory))
            .collect();
        for memory in memories.values() {
            known.note_memory(memory);
        }
        Remembered { memories, known }
    }

    /// The memory of `id`.
    pub fn memory(&self, id: &str) -> Option<&Memory> {
        self.memories.get(id)
    }

    /// The record of the repository of `entry`. One that lies under another id is given as it
    /// will be under the id it has now: the id is only a name, what is protected is the
    /// repository.
    pub fn record(&self, entry: &Entry) -> Option<Cow<'_, Memory>> {
        if let Some(memory) = self.memories.get(&entry.id) {
            return Some(Cow::Borrowed(memory));
        }
        let memory = self.of_url(&entry.url)?;
        Some(Cow::Owned(memory.renamed(&entry.id)))
    }

    /// The record of the repository at `url`, under whatever id.
    pub fn of_url(&self, url: &CanonicalUrl) -> Option<&Memory> {
        self.memories.values().find(|memory| memory.url == *url)
    }

    /// The id the repository of `entry` is remembered under, where that is another one.
    pub fn other_id(&self, entry: &Entry) -> Option<&str> {
        if self.memories.contains_key(&entry.id) {
            return None;
        }
        Some(self.of_url(&entry.url)?.entry.as_str())
    }

    /// What `entry` asks otherwise than what is remembered.
    pub fn changes(&self, entry: &Entry) -> Vec<Difference> {
        let id = self.other_id(entry).map(|id| Difference {
            what: "id",
            before: id.to_owned(),
            now: entry.id.clone(),
        });
        let record = self.record(entry);
        let trust = record.as_ref().and_then(|record| record.trust.as_ref());
        let asked = trust.map(|trust| trust.differs(entry));
        id.into_iter().chain(asked.into_iter().flatten()).collect()
    }

    /// Who is trusted for the repository at `url`, where that is remembered.
    pub fn entry(&self, url: &CanonicalUrl) -> Option<&Entry> {
        self.of_url(url)?.trust.as_ref()
    }

    /// The entries of `urls`, in their order: as given, else as remembered. An entry without an
    /// id of its own gets the one its repository is remembered under.
    ///
    /// # Errors
    /// See [`Given::entries`].
    pub fn entries(&self, given: &Given, urls: &[CanonicalUrl]) -> Result<Vec<Entry>, GivenError> {
        let mut entries = given.entries_or(urls, |url| self.entry(url).cloned())?;
        for entry in &mut entries {
            if entry.id == entry_id(&entry.url)
                && let Some(id) = self.known.id_of(&entry.url)
            {
                entry.id = id.to_owned();
            }
        }
        Ok(entries)
    }

    /// The time it is at least, when the clock says `now`.
    pub fn clock(&self, now: Time) -> Clock {
        let accepted = self.memories.values().filter_map(|m| m.accepted.as_ref());
        let seen = accepted.filter_map(|accepted| accepted.generated).max();
        Clock {
            seen: seen.max(self.known.newest()),
            ..Clock::at(now)
        }
    }

    /// Refuses an entry that asks something else than the one remembered, unless `change` says
    /// that this is meant.
    pub fn check_entry(&self, entry: &Entry, change: bool) -> Result<(), TrustError> {
        let differs = self.changes(entry);
        if change || differs.is_empty() {
            return Ok(());
        }
        Err(TrustError::OtherTrust {
            url: entry.url.clone(),
            id: self.other_id(entry).unwrap_or(&entry.id).to_owned(),
            differs,
        })
    }

    /// Judges an offer by what is remembered of its repository and of the others.
    pub fn judge(
        &self,
        entry: &Entry,
        offer: Offer<'_>,
        clock: Clock,
    ) -> Result<Verdict, TrustError> {
        let memory = self.record(entry);
        if memory.is_none()
            && let Some(id) = self.known.must_have(entry)
        {
            return Err(TrustError::RecordMissing {
                url: entry.url.clone(),
                id: id.to_owned(),
            });
        }
        let memory = memory.as_deref();
        let verdict = judge(entry, offer, memory, clock);
        let mut verdict = verdict.map_err(|error| by_root(error, entry, offer, memory))?;
        if memory.is_none_or(|memory| memory.accepted.is_none()) {
            self.known.admit(entry, &verdict)?;
        } else if verdict.standing == Standing::Newer {
            self.known.own(entry, &verdict)?;
        }
        let changes = self.changes(entry);
        if !changes.is_empty() {
            verdict.warnings.push(Warning::TrustChanged {
                url: entry.url.clone(),
                changes,
            });
        }
        Ok(verdict)
    }

    /// Takes in what is to be remembered. It lies under the id of `entry` from now on.
    pub fn accept(&mut self, entry: &Entry, verdict: &Verdict) {
        self.known.note(entry, verdict);
        self.keep(verdict.memory.clone());
    }

    /// Keeps this record, in the place of every other one of its repository.
    pub fn keep(&mut self, memory: Memory) {
        self.known.note_memory(&memory);
        self.memories.retain(|_, other| other.url != memory.url);
        self.memories.insert(memory.entry.clone(), memory);
    }

    /// Drops what was accepted under `id`; who is trusted stays, and the keys it is known by.
    /// Whether there was something.
    pub fn reset(&mut self, id: &str) -> bool {
        let Some(memory) = self.memories.remove(id) else {
            return self.known.dropped(id);
        };
        self.known.dropped(id);
        if let Some(left) = memory.reset() {
            self.memories.insert(id.to_owned(), left);
        }
        memory.accepted.is_some()
    }

    /// Reads the JSON text [`Remembered::encode`] writes.
    ///
    /// # Errors
    /// It is damaged. That is never "nothing remembered".
    pub fn decode(bytes: &[u8]) -> Result<Remembered, MemoryError> {
        let bound = MAX_MEMORY * 16;
        if bytes.len() > bound {
            return Err(MemoryError::new(format!("it is larger than {bound} bytes")));
        }
        let values: Strict = serde_json::from_slice(bytes).map_err(MemoryError::new)?;
        let mut values = values.0;
        let Some(known) = values.remove(KNOWN_ID) else {
            return Err(MemoryError::new(format!("it has no member \"{KNOWN_ID}\"")));
        };
        let known = Known::from_value(&known)?;
        let mut memories = Vec::with_capacity(values.len());
        for (id, value) in values {
            let memory = Memory::from_value(&value)?;
            if memory.entry != id {
                return Err(MemoryError::new(format!(
                    "the record of {id} is that of another"
                )));
            }
            memories.push(memory);
        }
        Ok(Remembered::new(memories, known))
    }

    /// The JSON text: the records by entry id, and the one over all of them.
    pub fn encode(&self) -> Vec<u8> {
        let memory = |(id, memory): (&String, &Memory)| (id.clone(), memory.to_value());
        let mut values: serde_json::Map<_, _> = self.memories.iter().map(memory).collect();
        values.insert(KNOWN_ID.to_owned(), self.known.to_value());
        format!("{}\n", serde_json::Value::Object(values)).into_bytes()
    }
}

/// A refusal of signatures that comes from an older root is one of that root.
fn by_root(
    error: TrustError,
    entry: &Entry,
    offer: Offer<'_>,
    memory: Option<&Memory>,
) -> TrustError {
    let signatures = matches!(
        error,
        TrustError::Untrusted { .. } | TrustError::TooFew { .. }
    );
    let accepted = memory.and_then(|memory| memory.accepted.as_ref()?.root.as_ref());
    let offered = offer.roots.and_then(|roots| roots.current.as_ref());
    let offered = offered.and_then(|bytes| Root::read(bytes).ok());
    match (accepted, offered) {
        (Some(accepted), Some(root)) if signatures && root.version < accepted.version => {
            TrustError::RootOlder {
                url: entry.url.clone(),
                version: root.version,
                expires: root.expires,
                accepted: accepted.version,
                accepted_expires: accepted.expires,
            }
        }
        _ => error,
    }
}

/// A map in which no key stands twice.
struct Strict(BTreeMap<String, serde_json::Value>);

impl<'de> serde::Deserialize<'de> for Strict {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Strict, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Strict;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of records")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Strict, A::Error> {
                let mut found = BTreeMap::new();
                while let Some((key, value)) = map.next_entry::<String, serde_json::Value>()? {
                    if found.insert(key.clone(), value).is_some() {
                        let twice = format!("{key:?} is there twice");
                        return Err(serde::de::Error::custom(twice));
                    }
                }
                Ok(Strict(found))
            }
        }
        from.deserialize_map(Visitor)
    }
}
