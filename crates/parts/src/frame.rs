//! The entry frame: the same bytes in logs, in hash stores and in sorted stores.
//!
//! | field | size | there when |
//! |---|---|---|
//! | flags | 1 | always |
//! | key length | varint | always |
//! | value length | varint | always |
//! | expiry, Unix milliseconds | varint | [`EXPIRES`] |
//! | user bits | 4, little-endian | [`USER_BITS`] |
//! | key | key length | always |
//! | value, or a value-log pointer | value length | always |
//!
//! A frame carries no checksum of its own: log records and chunks are checksummed as a whole.

use silica_base::{read_varint, varint_len, write_varint};

/// The key was deleted; the value is empty.
pub const TOMBSTONE: u8 = 1;
/// The value is a pointer into the value log.
pub const POINTER: u8 = 2;
/// An expiry follows.
pub const EXPIRES: u8 = 4;
/// The user's 32 bits follow.
pub const USER_BITS: u8 = 8;
/// In a log: all keys from the key on and before the value are deleted; an empty value stands for
/// the end of all keys.
pub const RANGE: u8 = 32;
const FLAGS_KNOWN: u8 = TOMBSTONE | POINTER | EXPIRES | USER_BITS | RANGE;

/// A decoded frame that borrows from its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// [`TOMBSTONE`] and so on.
    pub flags: u8,
    /// Expiry in milliseconds since the Unix epoch; 0 means never.
    pub expires_unix_ms: u64,
    /// The user's 32 bits.
    pub user_bits: u32,
    /// The key.
    pub key: &'a [u8],
    /// The value or the pointer.
    pub value: &'a [u8],
}

impl<'a> Frame<'a> {
    /// A frame that maps `key` to `value` without meta.
    pub fn put(key: &'a [u8], value: &'a [u8]) -> Self {
        Frame { flags: 0, expires_unix_ms: 0, user_bits: 0, key, value }
    }

    /// A frame that removes `key`.
    pub fn tombstone(key: &'a [u8]) -> Self {
        Frame { flags: TOMBSTONE, ..Frame::put(key, b"") }
    }

    /// True where the frame removes its key.
    #[inline]
    pub fn is_tombstone(&self) -> bool {
        self.flags & TOMBSTONE != 0
    }

    /// True where the value is a pointer into the value log.
    #[inline]
    pub fn is_pointer(&self) -> bool {
        self.flags & POINTER != 0
    }

    fn flags_with_meta(&self) -> u8 {
        let expires = if self.expires_unix_ms != 0 { EXPIRES } else { 0 };
        let user = if self.user_bits != 0 { USER_BITS } else { 0 };
        (self.flags & (TOMBSTONE | POINTER | RANGE)) | expires | user
    }

    /// Bytes of the encoded frame.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        let mut len = 1 + varint_len(self.key.len() as u64) + varint_len(self.value.len() as u64);
        if self.expires_unix_ms != 0 {
            len += varint_len(self.expires_unix_ms);
        }
        if self.user_bits != 0 {
            len += 4;
        }
        len + self.key.len() + self.value.len()
    }

    /// Appends the encoded frame to `out`.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.flags_with_meta());
        write_varint(out, self.key.len() as u64);
        write_varint(out, self.value.len() as u64);
        if self.expires_unix_ms != 0 {
            write_varint(out, self.expires_unix_ms);
        }
        if self.user_bits != 0 {
            out.extend_from_slice(&self.user_bits.to_le_bytes());
        }
        out.extend_from_slice(self.key);
        out.extend_from_slice(self.value);
    }

    /// Decodes the frame at the start of `bytes`: the frame and its length, or `None` where the
    /// bytes are cut short or are no frame.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        let header = Header::decode(bytes)?;
        let Header { flags, expires_unix_ms, user_bits, .. } = header;
        let (key_end, end) = (header.key_start + header.key_len, header.frame_len());
        let (key, value) = (bytes.get(header.key_start..key_end)?, bytes.get(key_end..end)?);
        Some((Frame { flags, expires_unix_ms, user_bits, key, value }, end))
    }
}

/// The fields before the key: enough to know where a frame ends while its key and value are
/// still cut off, as happens at the border of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// [`TOMBSTONE`] and so on.
    pub flags: u8,
    /// Expiry in milliseconds since the Unix epoch; 0 means never.
    pub expires_unix_ms: u64,
    /// The user's 32 bits.
    pub user_bits: u32,
    /// Bytes before the key.
    pub key_start: usize,
    /// Bytes of the key.
    pub key_len: usize,
    /// Bytes of the value or the pointer.
    pub value_len: usize,
}

impl Header {
    /// Decodes the header at the start of `bytes`, or `None` where it is cut short or is none.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let flags = *bytes.first()?;
        if flags & !FLAGS_KNOWN != 0 {
            return None;
        }
        let mut at = 1;
        let (key_len, n) = read_varint(bytes.get(at..)?)?;
        at += n;
        let (value_len, n) = read_varint(bytes.get(at..)?)?;
        at += n;
        let mut expires_unix_ms = 0;
        if flags & EXPIRES != 0 {
            let (expires, n) = read_varint(bytes.get(at..)?)?;
            expires_unix_ms = expires;
            at += n;
        }
        let mut user_bits = 0;
        if flags & USER_BITS != 0 {
            user_bits = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
            at += 4;
        }
        let (key_len, value_len) =
            (usize::try_from(key_len).ok()?, usize::try_from(value_len).ok()?);
        at.checked_add(key_len)?.checked_add(value_len)?;
        Some(Header { flags, expires_unix_ms, user_bits, key_start: at, key_len, value_len })
    }

    /// Bytes of the whole frame.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.key_start + self.key_len + self.value_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_every_cut_is_refused() {
        let long = vec![7u8; 300];
        let frames = [
            Frame::put(b"", b""),
            Frame::put(b"key", &long),
            Frame::tombstone(b"gone"),
            Frame { expires_unix_ms: 1 << 40, user_bits: 9, ..Frame::put(b"k", b"v") },
        ];
        for frame in frames {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            assert_eq!(bytes.len(), frame.encoded_len());
            let (back, len) = Frame::decode(&bytes).expect("a whole frame decodes");
            assert_eq!((back.key, back.value, len), (frame.key, frame.value, bytes.len()));
            assert_eq!(back.is_tombstone(), frame.is_tombstone());
            assert_eq!(back.expires_unix_ms, frame.expires_unix_ms);
            assert!((0..bytes.len()).all(|cut| Frame::decode(&bytes[..cut]).is_none()));
        }
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert!(Frame::decode(&[0x80, 0, 0]).is_none());
    }
}
