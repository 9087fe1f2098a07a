//! Requests and replies.

use super::{KEY_BYTES_MAX, Malformed, VALUE_BYTES_MAX};

/// Bytes of a request before what belongs to it.
pub const REQUEST_BYTES: usize = 4;
/// Bytes of a put's expiry.
pub const EXPIRY_BYTES: usize = 8;
/// Bytes of a reply before its value.
pub const REPLY_BYTES: usize = 4;

const GET: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// Returns the value of a key.
    Get(&'a [u8]),
    /// Maps a key to a value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// Milliseconds since 1970; 0 for never.
        expires_unix_ms: u64,
    },
    /// Removes a key.
    Delete(&'a [u8]),
}

impl<'a> Request<'a> {
    /// Its key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        match *self {
            Request::Get(key) | Request::Delete(key) | Request::Put { key, .. } => key,
        }
    }

    /// Bytes that it takes; `None` where key or value are over their limits.
    #[inline]
    pub fn size(&self) -> Option<usize> {
        let key = self.key().len();
        let (value, expiry) = match self {
            Request::Put { value, .. } => (value.len(), EXPIRY_BYTES),
            _ => (0, 0),
        };
        ((1..=KEY_BYTES_MAX).contains(&key) && value <= VALUE_BYTES_MAX)
            .then_some(REQUEST_BYTES + expiry + key + value)
    }

    /// Appends it; it must be within the limits.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let key = self.key();
        let head = |operation: u8, value: usize| {
            let [low, high] = (value as u16).to_le_bytes();
            [operation, key.len() as u8, low, high]
        };
        match self {
            Request::Get(_) => out.extend_from_slice(&head(GET, 0)),
            Request::Delete(_) => out.extend_from_slice(&head(DELETE, 0)),
            Request::Put { value, expires_unix_ms, .. } => {
                out.extend_from_slice(&head(PUT, value.len()));
                out.extend_from_slice(&expires_unix_ms.to_le_bytes());
            }
        }
        out.extend_from_slice(key);
        if let Request::Put { value, .. } = self {
            out.extend_from_slice(value);
        }
    }
}

/// The requests of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Requests<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Requests<'a> {
    /// `count` requests that lie behind a header.
    pub fn new(bytes: &'a [u8], count: u16) -> Self {
        Requests { rest: bytes, left: count }
    }

    #[inline]
    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn read(&mut self) -> Result<Request<'a>, Malformed> {
        let head = self.take(REQUEST_BYTES)?;
        let (key_len, value_len) = (usize::from(head[1]), u16::from_le_bytes([head[2], head[3]]));
        let value_len = usize::from(value_len);
        if key_len == 0 || value_len > VALUE_BYTES_MAX {
            return Err(Malformed);
        }
        match head[0] {
            GET if value_len == 0 => Ok(Request::Get(self.take(key_len)?)),
            DELETE if value_len == 0 => Ok(Request::Delete(self.take(key_len)?)),
            PUT => {
                let expiry = self.take(EXPIRY_BYTES)?.first_chunk().ok_or(Malformed)?;
                let expires_unix_ms = u64::from_le_bytes(*expiry);
                let (key, value) = (self.take(key_len)?, self.take(value_len)?);
                Ok(Request::Put { key, value, expires_unix_ms })
            }
            _ => Err(Malformed),
        }
    }
}

impl<'a> Iterator for Requests<'a> {
    type Item = Result<Request<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let request = self.read();
        if request.is_err() {
            self.left = 0;
        }
        Some(request)
    }
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// It is done; the value where it was a get that found one.
    Done(&'a [u8]),
    /// No such key.
    Missing,
    /// The value is longer than values may be here.
    TooLarge,
    /// The engine failed.
    Failed,
    /// The key has a value, for which the datagrams that may answer have no room: ask again.
    NoRoom,
}

impl<'a> Reply<'a> {
    /// Bytes that it takes.
    #[inline]
    pub fn size(&self) -> usize {
        match self {
            Reply::Done(value) => REPLY_BYTES + value.len(),
            _ => REPLY_BYTES,
        }
    }

    /// Appends it.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let (status, value): (u8, &[u8]) = match self {
            Reply::Done(value) => (0, value),
            Reply::Missing => (1, b""),
            Reply::TooLarge => (2, b""),
            Reply::Failed => (3, b""),
            Reply::NoRoom => (4, b""),
        };
        let [low, high] = (value.len() as u16).to_le_bytes();
        out.extend_from_slice(&[status, 0, low, high]);
        out.extend_from_slice(value);
    }
}

/// The replies of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Replies<'a> {
    rest: &'a [u8],
    left: u16,
}

impl<'a> Replies<'a> {
    /// `count` replies that lie behind a header.
    pub fn new(bytes: &'a [u8], count: u16) -> Self {
        Replies { rest: bytes, left: count }
    }

    #[inline]
    fn read(&mut self) -> Result<Reply<'a>, Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<REPLY_BYTES>().ok_or(Malformed)?;
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (value, rest) = rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        match head[0] {
            0 => Ok(Reply::Done(value)),
            1 => Ok(Reply::Missing),
            2 => Ok(Reply::TooLarge),
            3 => Ok(Reply::Failed),
            4 => Ok(Reply::NoRoom),
            _ => Err(Malformed),
        }
    }
}

impl<'a> Iterator for Replies<'a> {
    type Item = Result<Reply<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let reply = self.read();
        if reply.is_err() {
            self.left = 0;
        }
        Some(reply)
    }
}
