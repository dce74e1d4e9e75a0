//! Media types of which there are few, and each of them a hundred thousand times.

use std::borrow::{Borrow, Cow};
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most texts that are remembered. Clients choose them, so there has to be an end; further ones
/// are as they would be without this.
const REMEMBERED: usize = 1024;

/// Longest text that is remembered: no registered media type has more.
const LONGEST: usize = 255;

static KNOWN: LazyLock<RwLock<HashSet<Arc<str>>>> = LazyLock::new(RwLock::default);

/// A text that lies in memory once, however often it is used.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interned(Arc<str>);

impl Interned {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Interned {
    fn from(text: &str) -> Interned {
        if text.len() > LONGEST {
            return Interned(text.into());
        }
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(text) {
            return Interned(Arc::clone(known));
        }
        drop(known);
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(text) {
            return Interned(Arc::clone(known));
        }
        let new: Arc<str> = text.into();
        if known.len() < REMEMBERED {
            known.insert(Arc::clone(&new));
        }
        Interned(new)
    }
}

impl From<String> for Interned {
    fn from(text: String) -> Interned {
        Interned::from(&*text)
    }
}

impl From<&String> for Interned {
    fn from(text: &String) -> Interned {
        Interned::from(&**text)
    }
}

impl From<Interned> for String {
    fn from(text: Interned) -> String {
        text.as_str().to_owned()
    }
}

impl Deref for Interned {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Interned {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Interned {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for Interned {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Interned {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl PartialEq<String> for Interned {
    fn eq(&self, other: &String) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for Interned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Interned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Serialize for Interned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Interned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Ok(Interned::from(&*text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_lies_in_memory_once() {
        let a = Interned::from("application/x");
        let b: Interned = serde_json::from_str("\"application/x\"").unwrap();
        assert!(Arc::ptr_eq(&a.0, &b.0));
        assert_eq!(serde_json::to_string(&a).unwrap(), "\"application/x\"");
        let long = "x".repeat(LONGEST + 1);
        assert_eq!(Interned::from(&long), long);
    }
}
