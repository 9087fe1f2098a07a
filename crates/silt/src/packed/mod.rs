//! Packed files: immutable files of entry frames in 4 KiB chunks, the common body of hash stores
//! and sorted stores. Format: docs/formats/packed.md.
//!
//! A file is data chunks, then section chunks (filter, index), then one footer chunk. Every chunk
//! is 4088 payload bytes and an 8-byte trailer: where in the payload the first entry that starts
//! here begins, how many payload bytes are used, and a CRC-32C over all of that bound to the
//! file's id and the chunk's number. So a chunk read alone can be checked and searched, and an
//! intact chunk in the wrong place does not pass.
//!
//! Invariants:
//!
//! 1. A file is written once, front to back, and never changed after [`PackedWriter::finish`].
//! 2. `finish` writes the footer last and returns after the file's sync: a file that the manifest
//!    names is whole. A file that it does not name is garbage, whatever it holds.
//! 3. The used payload bytes of the data chunks, put end to end, are the frames in append order.
//! 4. No byte of a chunk is interpreted before its checksum was compared.
//!
//! [`PackedReader::open`] reads the footer alone, so that a restart costs one read per file.

mod chunk;
mod footer;
mod layout;
mod reader;
mod scan;
mod seek;
mod writer;

#[cfg(test)]
mod tests;

pub use chunk::{CHUNK_BYTES, PAYLOAD_BYTES};
pub use footer::{FileKind, Footer, META_BYTES_MAX, Section, SectionKind};
pub use layout::{Extent, Layout};
pub(crate) use reader::Located;
pub use reader::{Found, PackedReader};
pub use scan::{ChunkScan, READ_AHEAD_BYTES};
pub use writer::{PackedWriter, Place};
