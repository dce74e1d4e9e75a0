//! Sizes and counts as people read them: the same words on a terminal, on the mirror's page and
//! in errors.

const STEPS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// A size in IEC units: three significant digits at most, bytes exactly.
#[must_use]
pub fn size(bytes: u64) -> String {
    let (mut divisor, mut step) = (1_u64, 0);
    while bytes / divisor >= 1024 && step + 1 < STEPS.len() {
        divisor *= 1024;
        step += 1;
    }
    if step == 0 {
        return format!("{bytes} B");
    }
    let whole = bytes / divisor;
    // rounded down, so that nothing looks finished before it is
    let tenths = u128::from(bytes % divisor) * 10 / u128::from(divisor);
    match whole {
        0..100 => format!("{whole}.{tenths} {}", STEPS[step]),
        _ => format!("{whole} {}", STEPS[step]),
    }
}

/// `n thing` or `n things`.
#[must_use]
pub fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_iec() {
        for (bytes, want) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1023 KiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16383 PiB"),
        ] {
            assert_eq!(size(bytes), want);
        }
        assert_eq!(count(1, "mirror", "mirrors"), "1 mirror");
        assert_eq!(count(0, "mirror", "mirrors"), "0 mirrors");
    }
}
