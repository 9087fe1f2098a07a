//! Positions in the log as tables hold them: divided by 8, modulo 2³².

use silica_parts::wal::POSITION_BYTES;

/// The short form of logical position `at`, as tables hold it.
#[inline]
pub(crate) fn shorten(at: u64) -> u32 {
    (at / POSITION_BYTES) as u32
}

/// The logical position below `end` whose short form is `short`.
#[inline]
pub(crate) fn expand(end: u64, short: u32) -> u64 {
    let end = end / POSITION_BYTES;
    (end - u64::from((end as u32).wrapping_sub(short))) * POSITION_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_positions_expand_against_the_end() {
        for end in [8u64, 4096, (1 << 35) + 64, (1 << 40) + 8] {
            for back in [8u64, 16, 1 << 20, 1 << 34] {
                if back <= end {
                    let at = (end - back) & !7;
                    assert_eq!(expand(end, shorten(at)), at);
                }
            }
        }
    }
}
