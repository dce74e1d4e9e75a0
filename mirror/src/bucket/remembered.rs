//! What was found out and stays true, as much of it as there is room for.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by key, with a bound on what they weigh. When the newer half is full the older one is
/// forgotten.
pub(super) struct Remembered<K, V> {
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
    weight: usize,
    most: usize,
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    /// At least the newest that weigh `most`, and at most twice as much.
    pub(super) fn new(most: usize) -> Remembered<K, V> {
        Remembered {
            newer: HashMap::new(),
            older: HashMap::new(),
            weight: 0,
            most,
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<V> {
        let newer = self.newer.get(key);
        newer.or_else(|| self.older.get(key)).cloned()
    }

    pub(super) fn note(&mut self, key: K, value: V, weight: usize) {
        if self.weight >= self.most {
            self.older = std::mem::take(&mut self.newer);
            self.weight = 0;
        }
        self.weight += weight;
        self.newer.insert(key, value);
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.newer.remove(key);
        self.older.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay_and_the_oldest_go() {
        let mut remembered = Remembered::new(10);
        for n in 0..100_u32 {
            remembered.note(n, n, 1);
            for newest in n.saturating_sub(9)..=n {
                assert_eq!(remembered.get(&newest), Some(newest));
            }
        }
        assert!(remembered.newer.len() + remembered.older.len() <= 20);
        assert_eq!(remembered.get(&0), None);
        remembered.forget(&99);
        assert_eq!(remembered.get(&99), None);
    }
}
