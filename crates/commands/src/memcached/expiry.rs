//! How memcached's clients tell times.

/// Seconds up to which a time is counted from now on; a larger one is a Unix time.
const RELATIVE_MAX: i64 = 60 * 60 * 24 * 30;

/// When an entry with the expiry `sent` expires, in Unix milliseconds, 0 for never; `None` where
/// that is over already.
pub(super) fn expires(sent: i64, now_ms: u64) -> Option<u64> {
    let at_ms = match sent {
        0 => return Some(0),
        ..0 => return None,
        1..=RELATIVE_MAX => now_ms + sent as u64 * 1000,
        _ => (sent as u64).saturating_mul(1000),
    };
    (at_ms > now_ms).then_some(at_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_relative_or_absolute() {
        let now = 1_700_000_000_500;
        assert_eq!(expires(0, now), Some(0));
        assert_eq!(expires(-1, now), None);
        assert_eq!(expires(i64::MIN, now), None);
        assert_eq!(expires(1, now), Some(now + 1000));
        assert_eq!(expires(RELATIVE_MAX, now), Some(now + 2_592_000_000));
        assert_eq!(expires(RELATIVE_MAX + 1, now), None, "a time in January 1970");
        assert_eq!(expires(1_700_000_000, now), None);
        assert_eq!(expires(1_700_000_001, now), Some(1_700_000_001_000));
        assert_eq!(expires(i64::MAX, now), Some(u64::MAX));
    }
}
