//! Choices that are the same in every run: a number for what is chosen, not a stream, so that
//! a package looks the same however many others there are.

use kubepkg_core::Digest;

/// A number for this purpose and these places (SplitMix64).
pub fn roll(purpose: &str, a: usize, b: usize) -> u64 {
    let mut state = 0x5eed_u64;
    let places = [a as u64, b as u64];
    for word in purpose.bytes().map(u64::from).chain(places) {
        state = mixed(state ^ word);
    }
    state
}

fn mixed(state: u64) -> u64 {
    let mut word = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A number below `end`.
pub fn below(end: usize, purpose: &str, a: usize, b: usize) -> usize {
    let end = end.max(1) as u64;
    usize::try_from(roll(purpose, a, b) % end).unwrap_or(0)
}

/// True for `percent` of all places.
pub fn chance(percent: usize, purpose: &str, a: usize, b: usize) -> bool {
    below(100, purpose, a, b) < percent
}

/// A digest of nothing in particular.
pub fn digest(purpose: &str, a: usize, b: usize) -> Digest {
    Digest::sha256(roll(purpose, a, b).to_le_bytes())
}
