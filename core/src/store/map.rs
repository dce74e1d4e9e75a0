//! A sorted map whose copies share what they have in common.
//!
//! A server keeps all names in memory and takes every commit into a copy, so that who reads
//! the old names is not disturbed. With a tree per map a push to a repository of 10 000 tags
//! would copy 10 000 tags. Here entries lie in runs of at most [`MOST`]; a change copies one
//! run and the list of runs. Reading is that of a sorted list: two binary searches.

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Bound, Index, RangeBounds};
use std::slice;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most entries of a run: copying one costs about as much as copying the list of runs of a map
/// with 10 000 entries.
const MOST: usize = 128;

/// Entries a run gets room for at a time: doubling, as lists do, would waste a third.
const ROOM: usize = 8;

type Run<K, V> = Vec<(K, V)>;

/// A sorted map that is cheap to copy. It reads like a [`std::collections::BTreeMap`].
#[derive(Clone)]
pub struct SortedMap<K, V> {
    /// In order, none empty.
    runs: Arc<Vec<Arc<Run<K, V>>>>,
    len: usize,
}

impl<K, V> SortedMap<K, V> {
    /// An empty map.
    pub fn new() -> SortedMap<K, V> {
        SortedMap {
            runs: Arc::new(Vec::new()),
            len: 0,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All entries, in order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            front: slice::Iter::default(),
            between: self.runs.iter(),
            back: slice::Iter::default(),
        }
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entry with the least key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry with the greatest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// The value of `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The entry of `key`.
    pub fn get_key_value<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        let (run, at) = self.find(key);
        let (key, value) = &self.runs.get(run)?[at.ok()?];
        Some((key, value))
    }

    /// Whether there is an entry of `key`.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).is_some()
    }

    /// The entries with keys in `bounds`, in order.
    pub fn range<Q: Ord + ?Sized, B: RangeBounds<Q>>(&self, bounds: B) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let first = match bounds.start_bound() {
            Bound::Unbounded => (0, 0),
            Bound::Included(key) => self.place(key, false),
            Bound::Excluded(key) => self.place(key, true),
        };
        let end = match bounds.end_bound() {
            Bound::Unbounded => (self.runs.len(), 0),
            Bound::Included(key) => self.place(key, true),
            Bound::Excluded(key) => self.place(key, false),
        };
        self.between(first, end.max(first))
    }

    /// Run and place of `key`, or where it would be put in: in the first run that does not end
    /// before it, else after the last one.
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> (usize, Result<usize, usize>)
    where
        K: Borrow<Q>,
    {
        let order = |other: &K| Borrow::<Q>::borrow(other).cmp(key);
        let ends_before =
            |run: &Arc<Run<K, V>>| run.last().is_some_and(|(last, _)| order(last).is_lt());
        let at = self.runs.partition_point(ends_before);
        match self.runs.get(at) {
            Some(run) => (at, run.binary_search_by(|(k, _)| order(k))),
            None => (at, Err(0)),
        }
    }

    /// Where the entries from `key` on begin, or those after it.
    fn place<Q: Ord + ?Sized>(&self, key: &Q, after: bool) -> (usize, usize)
    where
        K: Borrow<Q>,
    {
        match self.find(key) {
            (run, Ok(at)) => (run, at + usize::from(after)),
            (run, Err(at)) => (run, at),
        }
    }

    fn between(&self, first: (usize, usize), end: (usize, usize)) -> Iter<'_, K, V> {
        let part = |run: usize, from: usize, to: Option<usize>| match self.runs.get(run) {
            Some(run) => run[from..to.unwrap_or(run.len())].iter(),
            None => slice::Iter::default(),
        };
        if first.0 == end.0 {
            return Iter {
                front: part(first.0, first.1, Some(end.1)),
                between: slice::Iter::default(),
                back: slice::Iter::default(),
            };
        }
        Iter {
            front: part(first.0, first.1, None),
            between: self.runs[first.0 + 1..end.0].iter(),
            back: part(end.0, 0, Some(end.1)),
        }
    }
}

impl<K: Ord + Clone, V: Clone> SortedMap<K, V> {
    /// Puts `value` in and answers what stood there.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            (run, Ok(at)) => Some(std::mem::replace(self.value_at(run, at), value)),
            (run, Err(at)) => {
                self.put(run, at, (key, value));
                None
            }
        }
    }

    /// Takes the entry of `key` away and answers its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at_run, at) = self.find(key);
        let at = at.ok()?;
        let runs = Arc::make_mut(&mut self.runs);
        let run = Arc::make_mut(&mut runs[at_run]);
        let (_, value) = run.remove(at);
        let left = run.len();
        self.len -= 1;
        if left == 0 {
            runs.remove(at_run);
        } else if let Some(next) = runs.get(at_run + 1)
            && left + next.len() <= MOST / 2
        {
            let next = runs.remove(at_run + 1);
            Arc::make_mut(&mut runs[at_run]).extend(next.iter().cloned());
        }
        Some(value)
    }

    /// The value of `key`, to change it; where there is none, a default one is put in.
    pub fn get_or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        let (run, at) = match self.find(key) {
            (run, Ok(at)) => (run, at),
            (run, Err(at)) => self.put(run, at, (key.clone(), V::default())),
        };
        self.value_at(run, at)
    }

    fn value_at(&mut self, run: usize, at: usize) -> &mut V {
        let runs = Arc::make_mut(&mut self.runs);
        &mut Arc::make_mut(&mut runs[run])[at].1
    }

    /// Puts in an entry that was not found, and answers where it is now.
    fn put(&mut self, run: usize, at: usize, entry: (K, V)) -> (usize, usize) {
        self.len += 1;
        let runs = Arc::make_mut(&mut self.runs);
        let (mut to, mut at) = (run, at);
        if to == runs.len() {
            // behind all others: full runs stay full, so what is read in order lies tight
            match runs.last() {
                Some(last) if last.len() < MOST => (to, at) = (to - 1, last.len()),
                _ => runs.push(Arc::default()),
            }
        } else if runs[to].len() == MOST {
            let upper = Arc::make_mut(&mut runs[to]).split_off(MOST / 2);
            runs.insert(to + 1, Arc::new(upper));
            if at > MOST / 2 {
                (to, at) = (to + 1, at - MOST / 2);
            }
        }
        let run = Arc::make_mut(&mut runs[to]);
        if run.len() == run.capacity() {
            run.reserve_exact(ROOM.min(MOST - run.len()));
        }
        run.insert(at, entry);
        (to, at)
    }

    /// Gives back room that no entry uses.
    fn tighten(&mut self) {
        let runs = Arc::make_mut(&mut self.runs);
        runs.shrink_to_fit();
        if let Some(last) = runs.last_mut() {
            Arc::make_mut(last).shrink_to_fit();
        }
    }
}

/// Entries of a [`SortedMap`], in order.
pub struct Iter<'a, K, V> {
    front: slice::Iter<'a, (K, V)>,
    between: slice::Iter<'a, Arc<Run<K, V>>>,
    back: slice::Iter<'a, (K, V)>,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.front.next() {
                return Some((key, value));
            }
            match self.between.next() {
                Some(run) => self.front = run.iter(),
                None => return self.back.next().map(|(key, value)| (key, value)),
            }
        }
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.back.next_back() {
                return Some((key, value));
            }
            match self.between.next_back() {
                Some(run) => self.back = run.iter(),
                None => return self.front.next_back().map(|(key, value)| (key, value)),
            }
        }
    }
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter {
            front: self.front.clone(),
            between: self.between.clone(),
            back: self.back.clone(),
        }
    }
}

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        SortedMap::new()
    }
}

impl<K: Ord + Clone, V: Clone> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord + Clone, V: Clone> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = SortedMap::new();
        map.extend(entries);
        map.tighten();
        map
    }
}

impl<K: Ord + Borrow<Q>, V, Q: Ord + ?Sized> Index<&Q> for SortedMap<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry of this key")
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SortedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len
            && (Arc::ptr_eq(&self.runs, &other.runs) || self.iter().eq(other.iter()))
    }
}

impl<K: Eq, V: Eq> Eq for SortedMap<K, V> {}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Serialize, V: Serialize> Serialize for SortedMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K, V> Deserialize<'de> for SortedMap<K, V>
where
    K: Deserialize<'de> + Ord + Clone,
    V: Deserialize<'de> + Clone,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<K, V>(PhantomData<(K, V)>);

impl<'de, K, V> Visitor<'de> for Entries<K, V>
where
    K: Deserialize<'de> + Ord + Clone,
    V: Deserialize<'de> + Clone,
{
    type Value = SortedMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut map = SortedMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value);
        }
        map.tighten();
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_copy_shares_all_runs_but_the_one_that_changed() {
        let before: SortedMap<u32, String> = (0..10_000).map(|n| (n, n.to_string())).collect();
        assert!(before.runs.iter().all(|run| run.capacity() <= MOST));
        let mut after = before.clone();
        after.insert(5_000, "changed".to_owned());
        let shared = before.runs.iter().zip(after.runs.iter());
        assert_eq!(shared.filter(|(a, b)| !Arc::ptr_eq(a, b)).count(), 1);
        assert_eq!((&*before[&5_000], &*after[&5_000]), ("5000", "changed"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn it_is_a_sorted_map(
            steps in prop::collection::vec((0..800u16, prop::bool::weighted(0.6)), 0..2000),
            low in 0..900u16,
            high in 0..900u16,
        ) {
            let mut map = SortedMap::new();
            let mut model = BTreeMap::new();
            for (n, (key, put)) in steps.into_iter().enumerate() {
                if put {
                    prop_assert_eq!(map.insert(key, n), model.insert(key, n));
                } else {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                }
            }
            prop_assert!(map.iter().eq(model.iter()));
            prop_assert!(map.iter().rev().eq(model.iter().rev()));
            prop_assert_eq!(map.len(), model.len());
            for key in 0..900 {
                prop_assert_eq!(map.get(&key), model.get(&key));
            }
            let (low, high) = (low.min(high), low.max(high));
            prop_assert!(map.range(low..high).eq(model.range(low..high)));
            prop_assert!(map.range(low..=high).rev().eq(model.range(low..=high).rev()));
            let after = (Bound::Excluded(low), Bound::Unbounded);
            prop_assert!(map.range(after).eq(model.range(after)));
            let text = serde_json::to_string(&map).unwrap();
            prop_assert_eq!(&text, &serde_json::to_string(&model).unwrap());
            prop_assert_eq!(serde_json::from_str::<SortedMap<u16, usize>>(&text).unwrap(), map);
        }
    }
}
