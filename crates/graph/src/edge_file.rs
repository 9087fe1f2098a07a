//! Edge lists in the project's binary format (docs/formats/graph-edges.md).
//!
//! Invariant: a file that was cut, or a block of it that was damaged, is refused; no edge of it is
//! given out before the checksum of its block was compared.

use silica_base::{Error, ErrorKind, Format, Result, checksum};
use std::io::Write;

/// The format.
pub const FORMAT: Format = Format {
    name: "graph edge list",
    magic: b"SiGEdges",
    version_bytes: 4,
    version: 1,
    steps: &[],
};
/// Edges of a block at most.
pub const BLOCK_EDGES: usize = 4096;
/// Bytes of an edge: two vertices of 4 bytes.
pub const EDGE_BYTES: usize = 8;
/// Bytes before a block's edges: their number and their checksum.
pub const BLOCK_HEADER_BYTES: usize = 8;
/// Bytes of the header: magic, version, 4 zeroes.
pub const HEADER_BYTES: usize = 16;

/// Writes an edge list.
pub struct EdgeWriter<W: Write> {
    out: W,
    block: Vec<u8>,
    edges: u64,
}

impl<W: Write> EdgeWriter<W> {
    /// Begins a list.
    ///
    /// # Errors
    /// What the writer said.
    pub fn new(mut out: W) -> Result<Self> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        FORMAT.begin(&mut header);
        header.resize(HEADER_BYTES, 0);
        out.write_all(&header).map_err(failed)?;
        Ok(EdgeWriter { out, block: Vec::with_capacity(BLOCK_EDGES * EDGE_BYTES), edges: 0 })
    }

    /// Adds the edge from `source` to `target`.
    ///
    /// # Errors
    /// What the writer said.
    pub fn push(&mut self, source: u32, target: u32) -> Result<()> {
        self.block.extend_from_slice(&source.to_le_bytes());
        self.block.extend_from_slice(&target.to_le_bytes());
        self.edges += 1;
        if self.block.len() == BLOCK_EDGES * EDGE_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let count = (self.block.len() / EDGE_BYTES) as u32;
        let written = self
            .out
            .write_all(&count.to_le_bytes())
            .and_then(|()| self.out.write_all(&checksum(&self.block).to_le_bytes()))
            .and_then(|()| self.out.write_all(&self.block));
        self.block.clear();
        written.map_err(failed)
    }

    /// Ends the list; returns the writer.
    ///
    /// # Errors
    /// What the writer said.
    pub fn finish(mut self) -> Result<W> {
        if !self.block.is_empty() {
            self.write()?;
        }
        // The block without edges: their number, so that a list that was cut is none.
        let edges = self.edges.to_le_bytes();
        self.block.extend_from_slice(&0u32.to_le_bytes());
        self.block.extend_from_slice(&checksum(&edges).to_le_bytes());
        self.block.extend_from_slice(&edges);
        self.out.write_all(&self.block).and_then(|()| self.out.flush()).map_err(failed)?;
        Ok(self.out)
    }
}

fn failed(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull => ErrorKind::Full,
        _ => ErrorKind::Io,
    };
    match kind {
        ErrorKind::Full => Error::new(kind, format!("writing edges: {error}; free some space")),
        _ => Error::io("writing edges", error),
    }
}
