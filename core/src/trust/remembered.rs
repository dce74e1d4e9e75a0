//! What is remembered of all repositories, and judging by it. Import keeps it in the store, the
//! command in a file of the user.

use std::collections::BTreeMap;

use super::{
    Clock, Entry, Given, GivenError, KNOWN_ID, Known, MAX_MEMORY, Memory, MemoryError, Offer,
    Standing, TrustError, Verdict, entry_id, judge,
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

    /// Who is trusted for the repository at `url`, where that is remembered.
    pub fn entry(&self, url: &CanonicalUrl) -> Option<&Entry> {
        let of = |memory: &&Memory| memory.url == *url;
        self.memories.values().find(of)?.trust.as_ref()
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
        let trust = self.memory(&entry.id).and_then(|m| m.trust.as_ref());
        match trust {
            Some(trust) if !change && !trust.same_trust(entry) => Err(TrustError::OtherTrust {
                url: entry.url.clone(),
                id: entry.id.clone(),
                differs: trust.differs(entry),
            }),
            _ => Ok(()),
        }
    }

    /// Judges an offer by what is remembered of its repository and of the others.
    pub fn judge(
        &self,
        entry: &Entry,
        offer: Offer<'_>,
        clock: Clock,
    ) -> Result<Verdict, TrustError> {
        let memory = self.memory(&entry.id);
        let verdict = judge(entry, offer, memory, clock)?;
        if memory.is_none_or(|memory| memory.accepted.is_none()) {
            self.known.admit(entry, &verdict)?;
        }
        Ok(verdict)
    }

    /// Takes in what was accepted. An older index changes nothing.
    pub fn accept(&mut self, entry: &Entry, verdict: &Verdict) {
        self.known.note(entry, verdict);
        if verdict.standing != Standing::Older {
            let memory = verdict.memory.clone();
            self.memories.insert(entry.id.clone(), memory);
        }
    }

    /// Drops what was accepted under `id`; who is trusted stays. Whether there was something.
    pub fn reset(&mut self, id: &str) -> bool {
        let Some(memory) = self.memories.remove(id) else {
            return false;
        };
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
