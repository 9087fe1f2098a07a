//! Bytes as words of 8, which is how every region moves them.
//!
//! Words are little-endian: the byte at offset 0 is the lowest of the first word.

use super::LINE_BYTES;
use std::ops::Range;

/// Number of the word at `offset`.
///
/// # Panics
/// If `offset` is no multiple of 8.
#[inline]
pub(crate) fn word_index(offset: u64) -> usize {
    assert!(offset.is_multiple_of(8), "a word lies at a multiple of 8, not at {offset}");
    (offset / 8) as usize
}

/// Reads bytes from the words that `load` gives. Each word is read once, whole.
#[inline]
pub(crate) fn read_words(load: impl Fn(usize) -> u64, offset: u64, mut bytes: &mut [u8]) {
    let (mut word, skip) = ((offset / 8) as usize, (offset % 8) as usize);
    let load = |word: usize| load(word).to_le_bytes();
    if skip > 0 && !bytes.is_empty() {
        let len = bytes.len().min(8 - skip);
        bytes[..len].copy_from_slice(&load(word)[skip..skip + len]);
        bytes = &mut bytes[len..];
        word += 1;
    }
    let (chunks, rest) = bytes.as_chunks_mut::<8>();
    for chunk in chunks {
        *chunk = load(word);
        word += 1;
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&load(word)[..rest.len()]);
    }
}

/// Splits bytes into words and gives each to `store`. Words of which only a part is stored are
/// filled up with what `load` says.
#[inline]
pub(crate) fn write_words(
    offset: u64,
    mut bytes: &[u8],
    load: impl Fn(usize) -> u64,
    mut store: impl FnMut(usize, u64),
) {
    let (mut word, skip) = ((offset / 8) as usize, (offset % 8) as usize);
    if skip > 0 && !bytes.is_empty() {
        let len = bytes.len().min(8 - skip);
        let mut whole = load(word).to_le_bytes();
        whole[skip..skip + len].copy_from_slice(&bytes[..len]);
        store(word, u64::from_le_bytes(whole));
        bytes = &bytes[len..];
        word += 1;
    }
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        store(word, u64::from_le_bytes(*chunk));
        word += 1;
    }
    if !rest.is_empty() {
        let mut whole = load(word).to_le_bytes();
        whole[..rest.len()].copy_from_slice(rest);
        store(word, u64::from_le_bytes(whole));
    }
}

/// Numbers of the lines that `len` bytes from `offset` on lie in.
///
/// # Panics
/// If they reach beyond `region_bytes`.
#[inline]
pub(crate) fn lines_of(offset: u64, len: u64, region_bytes: u64) -> Range<u64> {
    let end = offset.checked_add(len).filter(|end| *end <= region_bytes);
    let end = end.unwrap_or_else(|| panic!("{len} bytes at {offset} end beyond {region_bytes}"));
    if len == 0 {
        return 0..0;
    }
    offset / LINE_BYTES..end.div_ceil(LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn bytes_at_any_offset_are_read_as_they_were_written() {
        for offset in 0..17 {
            for len in 0..20 {
                let words: Vec<AtomicU64> =
                    (0..5).map(|_| AtomicU64::new(u64::from_le_bytes([0xEE; 8]))).collect();
                let bytes: Vec<u8> = (1..=len as u8).collect();
                let load = |w: usize| u64::from_le(words[w].load(Ordering::Relaxed));
                let store = |w: usize, value: u64| words[w].store(value.to_le(), Ordering::Relaxed);
                write_words(offset as u64, &bytes, load, store);
                let mut all = [0; 40];
                read_words(load, 0, &mut all);
                let mut expected = [0xEE; 40];
                expected[offset..offset + len].copy_from_slice(&bytes);
                assert_eq!(all, expected, "{len} bytes at {offset}");
                let mut part = vec![0; len];
                read_words(load, offset as u64, &mut part);
                assert_eq!(part, bytes);
            }
        }
    }

    #[test]
    fn lines_cover_their_bytes() {
        assert_eq!(lines_of(0, 0, 128), 0..0);
        assert_eq!(lines_of(63, 1, 128), 0..1);
        assert_eq!(lines_of(63, 2, 128), 0..2);
        assert_eq!(lines_of(64, 64, 128), 1..2);
        assert!(std::panic::catch_unwind(|| lines_of(64, 65, 128)).is_err());
        assert!(std::panic::catch_unwind(|| lines_of(u64::MAX, 2, 128)).is_err());
    }
}
