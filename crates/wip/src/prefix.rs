//! Telling keys apart by how they begin behind what most of them begin with.

use crate::memtable::head;
use silica_base::shared_len;

/// Bytes that are compared as numbers.
const WORD_BYTES: usize = 8;

/// What most keys of some that are compared with one another begin with.
#[derive(Debug, Default)]
pub(crate) struct Prefix {
    bytes: Vec<u8>,
    /// Its first and its last bytes, which meet where it has at most twice as many; of less than
    /// eight bytes all of them, and which bits of a key they are compared with.
    first: u64,
    last: u64,
    mask: u64,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Prefix {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        if bytes.len() < WORD_BYTES {
            let mut first = [0; WORD_BYTES];
            first[..bytes.len()].copy_from_slice(bytes);
            let mask = (1 << (8 * bytes.len())) - 1;
            let first = u64::from_le_bytes(first);
            return Prefix { bytes: bytes.to_vec(), first, last: 0, mask };
        }
        let [first, last] = [0, bytes.len() - WORD_BYTES].map(|at| word(bytes, at));
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        Prefix { bytes: bytes.to_vec(), first, last, mask: u64::MAX }
    }

    /// The longest that `keys` begin with, if there is any of them.
    pub(crate) fn of<'k>(mut keys: impl Iterator<Item = &'k [u8]>) -> Option<&'k [u8]> {
        let first = keys.next()?;
        Some(keys.fold(first, |prefix, key| &prefix[..shared_len(prefix, key)]))
    }

    /// True if these are its bytes.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        *self.bytes == *bytes
    }

    /// True where `key` begins with it.
    #[inline]
    fn begins(&self, key: &[u8]) -> bool {
        let len = self.bytes.len();
        match len {
            // No bytes are not compared: see `is_from`.
            0 => true,
            1..WORD_BYTES if key.len() >= WORD_BYTES => {
                word(key, 0).is_some_and(|word| word & self.mask == self.first)
            }
            WORD_BYTES..=16 if key.len() >= len => {
                word(key, 0) == Some(self.first) && word(key, len - WORD_BYTES) == Some(self.last)
            }
            _ => key.starts_with(&self.bytes),
        }
    }

    /// The first eight bytes of `key` behind the prefix as a number; of keys that do not begin with
    /// it, the least and the greatest. Where the numbers of two keys differ, so do the keys, in the
    /// same order.
    #[inline]
    pub(crate) fn head_behind(&self, key: &[u8]) -> u64 {
        if self.begins(key) {
            head(&key[self.bytes.len()..])
        } else if *key < *self.bytes {
            u64::MIN
        } else {
            u64::MAX
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_in_the_order_of_keys() {
        let part = |len: usize| b"abcdefghijklmnopqrstuvwxyz"[..len].to_vec();
        let mut keys: Vec<Vec<u8>> = (0..=26).map(part).collect();
        for len in 0..=26 {
            for end in [0, b'a', b'z', 255] {
                keys.push([part(len), vec![end]].concat());
                keys.push([part(len), vec![end; 9]].concat());
            }
        }
        keys.sort();
        for len in 0..=26 {
            let prefix = Prefix::new(&part(len));
            let heads: Vec<u64> = keys.iter().map(|key| prefix.head_behind(key)).collect();
            assert!(heads.is_sorted(), "{len}: {heads:?}");
            for (key, found) in keys.iter().zip(heads) {
                if let Some(rest) = key.strip_prefix(&part(len)[..]) {
                    assert_eq!(found, head(rest), "{len}: {key:?}");
                }
            }
        }
    }

    #[test]
    fn what_keys_begin_with() {
        let of = |keys: &[&'static [u8]]| Prefix::of(keys.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[b"abc"]), Some(&b"abc"[..]));
        assert_eq!(of(&[b"abc", b"abd", b"abca"]), Some(&b"ab"[..]));
        assert_eq!(of(&[b"abc", b""]), Some(&b""[..]));
    }
}
