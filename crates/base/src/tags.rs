//! Tags of a cache line, compared all at once.

use std::sync::atomic::AtomicU64;
#[cfg(any(test, miri, not(target_arch = "x86_64")))]
use std::sync::atomic::Ordering::Relaxed;

/// Words of a cache line.
pub const TAG_GROUP: usize = 8;

/// A bit for each of `words` whose upper 16 bits are `tag`, the first word's the lowest. Other
/// threads may write the words meanwhile: each is as good as loaded once, relaxed.
#[inline(always)]
pub fn match_tags(words: &[AtomicU64; TAG_GROUP], tag: u16) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return match_sse2(words, tag);
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    match_each(words, tag)
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn match_each(words: &[AtomicU64; TAG_GROUP], tag: u16) -> u32 {
    let wanted = u64::from(tag) << 48;
    let has_tag = |at: usize| u32::from(words[at].load(Relaxed) ^ wanted < 1 << 48) << at;
    (0..TAG_GROUP).fold(0, |found, at| found | has_tag(at))
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn match_sse2(words: &[AtomicU64; TAG_GROUP], tag: u16) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: SSE2 is part of x86-64. The 64 bytes behind the reference may be read; the reads are
    // written in assembly because the compiler knows no atomic reads of this width, and their
    // halves of 8 aligned bytes are atomic on every processor with x86-64.
    unsafe {
        let (a, b, c, d): (__m128i, __m128i, __m128i, __m128i);
        std::arch::asm!(
            "movdqu {a}, [{words}]",
            "movdqu {b}, [{words} + 16]",
            "movdqu {c}, [{words} + 32]",
            "movdqu {d}, [{words} + 48]",
            words = in(reg) words.as_ptr(),
            a = lateout(xmm_reg) a,
            b = lateout(xmm_reg) b,
            c = lateout(xmm_reg) c,
            d = lateout(xmm_reg) d,
            options(pure, readonly, nostack, preserves_flags),
        );
        let tag = _mm_set1_epi16(tag as i16);
        let has_tag = |pair| _mm_castsi128_ps(_mm_cmpeq_epi16(pair, tag));
        // The upper halves of the words, whose signs say whether the tags are the same.
        let upper = |a, b| {
            let both = _mm_shuffle_ps::<0b11_01_11_01>(has_tag(a), has_tag(b));
            _mm_castps_si128(both)
        };
        let signs = _mm_packs_epi32(upper(a, b), upper(c, d));
        _mm_movemask_epi8(_mm_packs_epi16(signs, _mm_setzero_si128())) as u32
    }
}

/// A bit for each of 16 bytes that is `byte`, the first word's lowest byte the lowest.
#[inline(always)]
pub fn match_bytes(words: [u64; 2], byte: u8) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return match_bytes_sse2(words, byte);
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    match_bytes_of_each(words, byte)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn match_bytes_sse2(words: [u64; 2], byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: SSE2 is part of x86-64, and nothing but registers is touched.
    unsafe {
        let both = _mm_set_epi64x(words[1] as i64, words[0] as i64);
        let same = _mm_cmpeq_epi8(both, _mm_set1_epi8(byte as i8));
        _mm_movemask_epi8(same) as u32
    }
}

#[cfg(any(test, miri, not(target_arch = "x86_64")))]
fn match_bytes_of_each(words: [u64; 2], byte: u8) -> u32 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let of_word = |word: u64| {
        let differ = word ^ u64::from_le_bytes([byte; 8]);
        // The highest bit of each byte that is 0; then all of them in one byte.
        let zero = !((differ & LOW).wrapping_add(LOW) | differ | LOW);
        ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
    };
    of_word(words[0]) | of_word(words[1]) << 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;

    #[test]
    fn the_bytes_that_are_alike_are_found() {
        let mut prng = Prng::new(2);
        for _ in 0..20_000 {
            let mut few = || [0, 1, 0x7F, 0x80, 0xFF][prng.below(5) as usize];
            let (bytes, byte): ([u8; 16], u8) = (std::array::from_fn(|_| few()), few());
            let words = [0, 1].map(|n| u64::from_le_bytes(bytes.as_chunks::<8>().0[n]));
            let alike = (0..16).filter(|at| bytes[*at] == byte);
            let expected = alike.fold(0, |found, at| found | 1 << at);
            assert_eq!(match_bytes(words, byte), expected, "{bytes:x?} {byte:x}");
            assert_eq!(match_bytes_of_each(words, byte), expected, "{bytes:x?} {byte:x}");
        }
    }

    #[test]
    fn the_words_with_the_tag_are_found_whatever_else_is_in_them() {
        let mut prng = Prng::new(1);
        for _ in 0..20_000 {
            // Few different tags, so that several words have the same one; all kinds of low bits.
            let mut tag = || [0, 1, 0x7FFF, 0x8000, 0xFFFF][prng.below(5) as usize];
            let wanted: u16 = tag();
            let tags: [u16; TAG_GROUP] = std::array::from_fn(|_| tag());
            let low = [0, u64::MAX >> 16, prng.next_u64() >> 16][prng.below(3) as usize];
            let words = tags.map(|tag| AtomicU64::new(u64::from(tag) << 48 | low));
            let expected = (0..TAG_GROUP).filter(|at| tags[*at] == wanted);
            let expected = expected.fold(0, |found, at| found | 1 << at);
            assert_eq!(match_tags(&words, wanted), expected, "{tags:x?} {wanted:x}");
            assert_eq!(match_each(&words, wanted), expected, "{tags:x?} {wanted:x}");
        }
    }
}
