//! The tags of a leaf, compared all at once.

/// A bit for each of the 64 bytes of `tags` that is `tag`.
#[inline(always)]
pub(crate) fn match_tags(tags: &[u64; 8], tag: u8) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return match_sse2(tags, tag);
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    match_words(tags, tag)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code)]
#[inline(always)]
fn match_sse2(tags: &[u64; 8], tag: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let mut found = 0;
    for (at, pair) in tags.as_chunks::<2>().0.iter().enumerate() {
        // SAFETY: SSE2 is part of x86-64, and these instructions touch no memory.
        let equal = unsafe {
            let bytes = _mm_set_epi64x(pair[1] as i64, pair[0] as i64);
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(tag as i8))) as u16
        };
        found |= u64::from(equal) << (16 * at);
    }
    found
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn match_words(tags: &[u64; 8], tag: u8) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let wanted = u64::from(tag) * 0x0101_0101_0101_0101;
    let mut found = 0;
    for (at, word) in tags.iter().enumerate() {
        let differs = word ^ wanted;
        // The top bit of each byte that is 0, and of no other.
        let zero = !(((differs & LOW) + LOW) | differs | LOW);
        let bits = (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        found |= bits << (8 * at);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn both_ways_find_the_same_tags() {
        let mut prng = Prng::new(1);
        for _ in 0..20_000 {
            let mut tag = || [0, 1, 0x7F, 0x80, 0xFF][prng.below(5) as usize];
            let wanted: u8 = tag();
            let bytes: [u8; 64] = std::array::from_fn(|_| tag());
            let words: [u64; 8] = std::array::from_fn(|at| {
                u64::from_le_bytes(*bytes[8 * at..].first_chunk().unwrap())
            });
            let expected = (0..64).filter(|at| bytes[*at] == wanted);
            let expected = expected.fold(0, |found, at| found | 1 << at);
            assert_eq!(match_tags(&words, wanted), expected);
            assert_eq!(match_words(&words, wanted), expected);
        }
    }
}
