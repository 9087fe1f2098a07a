//! Keys in order by what tells them apart: most comparisons are of numbers that lie together.

use super::head;
use std::ops::Range;

/// True where `key` is `lower` or comes behind it. An empty bound is not compared: looking for no
/// bytes at an address that is none takes some processors fifty nanoseconds.
#[inline]
pub(crate) fn is_from(lower: &[u8], key: &[u8]) -> bool {
    lower.is_empty() || *lower <= *key
}

/// The [`head`]s of ascending keys, behind what all of them begin with.
#[derive(Debug)]
pub(crate) struct Heads {
    prefix: Box<[u8]>,
    heads: Box<[u64]>,
}

impl Heads {
    /// Of keys that all begin with `prefix`.
    pub(crate) fn new<'k>(prefix: &[u8], keys: impl Iterator<Item = &'k [u8]>) -> Self {
        let heads = keys.map(|key| head(&key[prefix.len()..])).collect();
        Heads { prefix: prefix.into(), heads }
    }

    /// What all keys begin with.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Those that may be of `key`: what comes before is of lesser keys, what is behind of greater.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Range<usize> {
        let common = self.prefix.len();
        // See `is_from`.
        if common > 0 && (key.len() < common || key[..common] != *self.prefix) {
            let end = if *key < *self.prefix { 0 } else { self.heads.len() };
            return end..end;
        }
        let wanted = head(&key[common..]);
        let start = self.heads.partition_point(|head| *head < wanted);
        let same = self.heads[start..].partition_point(|head| *head == wanted);
        start..start + same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_between_lesser_and_greater_keys() {
        let words: [&[u8]; 7] =
            [b"", b"a", b"ab", b"ab\0", b"ab\0\0\0\0\0\0\0\0z", b"abcdefghijk", b"b"];
        for prefix in words {
            let keys: Vec<Vec<u8>> = words.iter().map(|word| [prefix, word].concat()).collect();
            let many = keys.iter().flat_map(|key| std::iter::repeat_n(&key[..], 20));
            let heads = Heads::new(prefix, many.clone());
            for wanted in keys.iter().map(|key| &key[..]).chain(words).chain([&b"zz"[..]]) {
                let found = heads.find(wanted);
                assert!(found.start <= found.end && found.end <= heads.len());
                for (at, key) in many.clone().enumerate() {
                    let is_right = match found.contains(&at) {
                        true => head(&key[prefix.len()..]) == head(&wanted[prefix.len()..]),
                        false if at < found.start => key < wanted,
                        false => key > wanted,
                    };
                    assert!(is_right, "{prefix:?}: {wanted:?} in {found:?}, {at} is {key:?}");
                }
            }
        }
    }
}
