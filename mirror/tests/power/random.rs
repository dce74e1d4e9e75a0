//! Chance that can be repeated.

/// A sequence of numbers that depends on its seed only (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A seed nobody chose, or the one in `KPTEST_SEED`. Printed, so that a failed run can be
    /// done again.
    pub fn of_this_run(what: &str) -> Random {
        let seed = match std::env::var("KPTEST_SEED") {
            Ok(given) => given.parse().expect("KPTEST_SEED is a number"),
            Err(_) => {
                let mut bytes = [0; 8];
                getrandom::fill(&mut bytes).unwrap();
                u64::from_le_bytes(bytes)
            }
        };
        println!("{what}: KPTEST_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// One of these.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// How long to go on, from `KPTEST_LONG` (minutes); `None` for a short run.
pub fn long() -> Option<std::time::Duration> {
    let minutes = std::env::var("KPTEST_LONG").ok()?;
    let minutes: u64 = minutes.parse().expect("KPTEST_LONG is a number of minutes");
    Some(std::time::Duration::from_secs(minutes * 60))
}
