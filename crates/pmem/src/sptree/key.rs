//! A key that is kept for a while. Short ones need no allocation: a split keeps 64 of them.

use super::layout::INLINE_KEY_BYTES;
use std::ops::Deref;

/// The bytes of a key.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    /// The bytes, and how many there are.
    Short([u8; INLINE_KEY_BYTES], u8),
    Long(Box<[u8]>),
}

impl From<&[u8]> for Key {
    #[inline]
    fn from(key: &[u8]) -> Key {
        let mut bytes = [0; INLINE_KEY_BYTES];
        match bytes.get_mut(..key.len()) {
            Some(own) => {
                own.copy_from_slice(key);
                Key::Short(bytes, key.len() as u8)
            }
            None => Key::Long(key.into()),
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Key::Short(bytes, len) => &bytes[..usize::from(*len)],
            Key::Long(key) => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_they_were_made_of() {
        for len in 0..20 {
            let bytes: Vec<u8> = (0..len).collect();
            let key = Key::from(&bytes[..]);
            assert_eq!(*key, *bytes);
            assert_eq!(matches!(key, Key::Short(..)), len <= 8);
        }
    }
}
