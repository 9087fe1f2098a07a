//! The binary format.

use super::{InputReport, failed};
use crate::edge_file::{BLOCK_EDGES, BLOCK_HEADER_BYTES, EDGE_BYTES, FORMAT, HEADER_BYTES};
use silica_base::{Error, Result, checksum};
use std::io::Read;

/// Reads blocks to the end.
pub(super) fn read(
    mut input: impl Read,
    each: &mut dyn FnMut(u32, u32) -> Result<()>,
) -> Result<InputReport> {
    let mut at = 0u64;
    let mut take = |bytes: &mut [u8]| {
        input.read_exact(bytes).map_err(failed)?;
        at += bytes.len() as u64;
        Ok::<u64, Error>(at)
    };
    let mut header = [0; HEADER_BYTES];
    take(&mut header)?;
    FORMAT.version_of("the edge list", 0, &header)?;
    let mut report = InputReport::default();
    let mut edges = vec![0; BLOCK_EDGES * EDGE_BYTES];
    loop {
        let mut header = [0; BLOCK_HEADER_BYTES];
        let at = take(&mut header)?;
        let [count, sum] = [0, 4].map(|at| number(&header[at..]));
        if count as usize > BLOCK_EDGES {
            return Err(damaged(at, "a block has more edges than a block may have"));
        }
        // The last block has no edges but their number.
        let bytes = &mut edges[..(count as usize * EDGE_BYTES).max(8)];
        take(bytes)?;
        if checksum(bytes) != sum {
            return Err(damaged(at, "the checksum of a block is wrong"));
        }
        if count == 0 {
            let total = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            let is_all = total == report.edges;
            return if is_all { Ok(report) } else { Err(damaged(at, "blocks are missing")) };
        }
        for edge in bytes.chunks_exact(EDGE_BYTES) {
            each(number(edge), number(&edge[4..]))?;
        }
        report.edges += u64::from(count);
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"))
}

fn damaged(at: u64, what: &str) -> Error {
    Error::corruption("the edge list", at, format!("{what}; get it again"))
}
