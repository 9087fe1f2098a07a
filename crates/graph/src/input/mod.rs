//! Edge lists: text as SNAP has it, the binary format, each of them plain or as gzip.

mod binary;
mod text;

use crate::edge_file;
use flate2::bufread::MultiGzDecoder;
use silica_base::{Error, ErrorKind, Result};
use std::io::{BufRead, BufReader, Read};

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Memory that unpacking gzip takes: its window of 32 KiB, and tables.
pub(crate) const UNPACKING_BYTES: u64 = 64 << 10;
/// Bad lines that a report has in words.
const BAD_MAX: usize = 10;

/// A line that is no edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InputReport {
    /// Edges.
    pub edges: u64,
    /// Lines that are no edge and were skipped.
    pub bad: u64,
    /// The first ten of them.
    pub bad_lines: Vec<BadLine>,
}

/// An edge list. Its form is found by its first bytes.
pub struct Edges<R> {
    input: R,
    skips_bad: bool,
}

impl<R: Read> Edges<R> {
    /// The edges that `input` has. Lines of text have two vertices, whole numbers below 2^32, with
    /// spaces, tabs or a comma between them. Lines that begin with `#` or `%` are comments.
    pub fn new(input: R) -> Self {
        Edges { input, skips_bad: false }
    }

    /// Counts lines that are no edge instead of refusing the list.
    #[must_use]
    pub fn skip_bad(mut self, skips: bool) -> Self {
        self.skips_bad = skips;
        self
    }

    /// Gives each edge, source and target, to `each`. Takes two buffers of `buffer_bytes`, and
    /// 64 KiB more if the input is compressed.
    ///
    /// # Errors
    /// `Config` for a line that is no edge, with its number and the reason; `Corruption` if binary
    /// or compressed input is damaged or was cut; what `each` said.
    pub fn read(
        &mut self,
        buffer_bytes: usize,
        each: &mut dyn FnMut(u32, u32) -> Result<()>,
    ) -> Result<InputReport> {
        let mut input = BufReader::with_capacity(buffer_bytes, &mut self.input);
        let head = input.fill_buf().map_err(failed)?;
        if !head.starts_with(&GZIP) {
            return read_plain(input, self.skips_bad, each);
        }
        let unpacked = BufReader::with_capacity(buffer_bytes, MultiGzDecoder::new(input));
        read_plain(unpacked, self.skips_bad, each)
    }
}

fn read_plain(
    mut input: impl BufRead,
    skips_bad: bool,
    each: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<InputReport> {
    let head = input.fill_buf().map_err(failed)?;
    if head.starts_with(edge_file::FORMAT.magic) {
        return binary::read(input, each);
    }
    text::read(input, skips_bad, each)
}

/// An error of the input: `Corruption` if it is gzip that is damaged or was cut.
fn failed(error: std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    match error.kind() {
        Io::InvalidInput | Io::InvalidData | Io::UnexpectedEof => {
            let message = format!("the edge list is damaged or was cut: {error}; get it again");
            Error::new(ErrorKind::Corruption, message)
        }
        _ => Error::io("reading the edge list", error),
    }
}
