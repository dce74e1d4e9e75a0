//! Bytes that do not compress and are always the same for one seed.

/// `len` bytes for `seed` (SplitMix64).
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_text() {
        assert_eq!(noise(1, 100), noise(1, 100));
        assert_ne!(noise(1, 100), noise(2, 100));
        assert_eq!(noise(1, 100)[..10], noise(1, 10));
    }
}
