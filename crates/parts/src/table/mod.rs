//! Tables: immutable sorted files of versions. Format: docs/formats/table.md.
//!
//! A **version** is what a write left of a key: value and meta, or a tombstone, with the write's
//! sequence number. A table holds versions in the order of their keys, of one key the newest first,
//! in blocks of whole units of 4096 bytes; index and footer follow. A read of one block, which the
//! index in memory names, answers a lookup.
//!
//! Invariants:
//!
//! 1. A file is written once, front to back, and never changed after [`TableBuilder::finish`].
//! 2. `finish` writes the footer last and returns after the file's sync: a file that the manifest
//!    names is whole. A file that it does not name is garbage, whatever it holds.
//! 3. No byte of a block is interpreted before its checksum was compared, which is bound to the
//!    file and the place.
//! 4. Versions are in order over all blocks. A block's separator is after everything before the
//!    block, unless the block is noted as one that goes on with the last key.

mod block;
mod builder;
mod compression;
mod cursor;
mod extent;
mod footer;
mod index;
mod sample;
#[expect(clippy::module_inception, reason = "the type that the module is named for")]
mod table;

#[cfg(test)]
mod tests;

pub use builder::{EndingTable, TableBuilder, TableOptions};
pub use compression::Compression;
pub use cursor::{Cursor, SeekRead};
pub use footer::Footer;
pub use sample::KeySample;
pub use table::{Lookup, Place, Table, UNNUMBERED, prefetch_end, prefetch_keys};

/// What decides whether a version is seen, of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// See [`Version::sequence`].
    pub sequence: u64,
    /// See [`Version::flags`].
    pub flags: u8,
    /// See [`Version::expires_unix_ms`].
    pub expires_unix_ms: u64,
}

/// What a write left of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The write's number; 0 where nobody asks any more what was before it.
    pub sequence: u64,
    /// [`crate::frame::TOMBSTONE`] or [`crate::frame::POINTER`], or neither.
    pub flags: u8,
    /// Expiry in milliseconds since the Unix epoch; 0 means never.
    pub expires_unix_ms: u64,
    /// The user's 32 bits.
    pub user_bits: u32,
    /// The value or the pointer.
    pub value: &'a [u8],
}
