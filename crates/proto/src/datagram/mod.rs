//! The datagram protocol: many small requests in a datagram. Format: docs/protocols/datagram.md.
//!
//! [`Header`] begins every datagram. [`Requests`] and [`Replies`] read what is behind it,
//! [`Request::write`] and [`Reply::write`] write it. [`Directory`] tells limits and ports,
//! [`direction`] which of them a key belongs to.

mod directory;
mod entries;

pub use directory::{DIRECTORY_BYTES, Directory, Partitions, SEED_BYTES, direction};
pub use entries::{EXPIRY_BYTES, REPLY_BYTES, REQUEST_BYTES, Replies, Reply, Request, Requests};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;
/// Bytes of a pass behind the header of an ask; zeroes are none.
pub const PASS_BYTES: usize = 16;
/// The version that is spoken here.
pub const VERSION: u8 = 1;
/// Bytes of a datagram at most, so that it fits into one packet of an Ethernet.
pub const DATAGRAM_BYTES_MAX: usize = 1400;
/// Replies without a value that one datagram holds.
pub const SHORT_REPLIES_MAX: usize = (DATAGRAM_BYTES_MAX - HEADER_BYTES) / REPLY_BYTES;
/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 255;
/// Bytes of a value.
pub const VALUE_BYTES_MAX: usize = 1024;

const MAGIC: [u8; 3] = *b"SiD";

/// Bytes that are not what the protocol says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// What a datagram is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Asks for the directory.
    Ask = 1,
    /// The directory.
    Directory = 2,
    /// Requests.
    Requests = 3,
    /// Replies to some of them.
    Replies = 4,
    /// Nothing was done.
    Refusal = 5,
}

/// Why nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The token is not that of the sender.
    Token = 1,
    /// The version is another.
    Version = 2,
    /// The bytes are not what the protocol says.
    Malformed = 3,
    /// A pass is needed, or was another.
    Pass = 4,
}

/// The beginning of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// Datagrams that may answer requests, each as long as datagrams may be; 0 says nothing.
    pub room: u8,
    /// Ports, requests or replies behind it.
    pub count: u16,
    /// Chosen by the client, repeated by the server.
    pub sequence: u64,
    /// The token, the place, or the reason.
    pub word: u64,
}

/// Why a datagram has no header that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    /// It is of something else.
    Nothing,
    /// It is of another version; the sequence number.
    Version(u64),
    /// No such kind; the sequence number.
    Kind(u64),
}

impl Header {
    /// The header of `datagram`, and what is behind it.
    #[inline]
    pub fn read(datagram: &[u8]) -> Result<(Header, &[u8]), Unknown> {
        let (head, rest) = datagram.split_first_chunk::<HEADER_BYTES>().ok_or(Unknown::Nothing)?;
        let [m0, m1, m2, version, kind, room, c0, c1, numbers @ ..] = *head;
        let (words, _) = numbers.as_chunks::<8>();
        let (sequence, word) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        if [m0, m1, m2] != MAGIC {
            return Err(Unknown::Nothing);
        }
        if version != VERSION {
            return Err(Unknown::Version(sequence));
        }
        let kind = match kind {
            1 => Kind::Ask,
            2 => Kind::Directory,
            3 => Kind::Requests,
            4 => Kind::Replies,
            5 => Kind::Refusal,
            _ => return Err(Unknown::Kind(sequence)),
        };
        Ok((Header { kind, room, count: u16::from_le_bytes([c0, c1]), sequence, word }, rest))
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..3].copy_from_slice(&MAGIC);
        (bytes[3], bytes[4], bytes[5]) = (VERSION, self.kind as u8, self.room);
        bytes[6..8].copy_from_slice(&self.count.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..].copy_from_slice(&self.word.to_le_bytes());
        bytes
    }

    /// The header that says nothing was done.
    pub fn refusal(sequence: u64, reason: Reason) -> Header {
        Header { kind: Kind::Refusal, room: 0, count: 0, sequence, word: reason as u64 }
    }

    /// The number of the first request that replies answer, and that of all requests.
    pub fn place(&self) -> (usize, usize) {
        (self.word as u16 as usize, (self.word >> 16) as u16 as usize)
    }

    /// The word of replies from `first` on, of `total`.
    pub fn word_of(first: usize, total: usize) -> u64 {
        (first as u64) | (total as u64) << 16
    }
}

#[cfg(test)]
mod tests;
