//! What things that go weigh: what is freed with each alone, and what others need too.

use std::collections::{BTreeMap, HashMap};

use kubepkg_core::Digest;

use super::Weight;

/// Content with its sizes.
pub(super) type Contents = BTreeMap<Digest, u64>;

/// Weighs things by the content each leads to. `freed` says what nothing that stays needs.
pub(super) fn weigh(things: &[Contents], freed: &Contents) -> Vec<Weight> {
    let mut needed: HashMap<&Digest, u32> = HashMap::new();
    for digest in things.iter().flat_map(BTreeMap::keys) {
        *needed.entry(digest).or_default() += 1;
    }
    let weight = |contents: &Contents| {
        let mut weight = Weight::default();
        for (digest, size) in contents {
            match freed.contains_key(digest) && needed.get(digest) == Some(&1) {
                true => weight.own += size,
                false => weight.shared += size,
            }
        }
        weight
    };
    things.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_need_is_shared_and_what_stays_is_too() {
        let digest = |text: &str| Digest::sha256(text);
        let contents = |texts: &[(&str, u64)]| -> Contents {
            texts
                .iter()
                .map(|(text, size)| (digest(text), *size))
                .collect()
        };
        let a = contents(&[("a", 1), ("both", 10), ("stays", 100)]);
        let b = contents(&[("b", 2), ("both", 10)]);
        let freed = contents(&[("a", 1), ("b", 2), ("both", 10)]);
        let weights = weigh(&[a, b], &freed);
        assert_eq!((weights[0].own, weights[0].shared), (1, 110));
        assert_eq!((weights[1].own, weights[1].shared), (2, 10));
    }
}
