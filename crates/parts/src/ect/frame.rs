//! The encoded form of both indexes: header, directory, codes, checksum. The page
//! `docs/formats/ect.md` draws it.

use super::bits::PAD_BYTES;
use super::directory::{Directory, Shape};
use silica_base::{Error, Format, Result, checksum};

const FORMAT: Format =
    Format { name: "trie index", magic: b"SECT", version_bytes: 1, version: 1, steps: &[] };
const HEADER_BYTES: usize = 40;
const CHECKSUM_BYTES: usize = 4;

/// Which index is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Keys to ranks.
    Dense = 1,
    /// Keys to chunks.
    Sparse = 2,
}

/// What an index says of itself besides its directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Keys of a dense index, borders of a sparse one.
    pub(super) items: u64,
    /// Parameters of the codes.
    pub(super) code: [u8; 4],
}

/// Appends the encoded index.
pub(super) fn encode(out: &mut Vec<u8>, header: &Header, directory: &Directory, codes: &[u8]) {
    let from = out.len();
    let shape = directory.shape();
    let codes = &codes[..codes.len() - PAD_BYTES];
    FORMAT.begin(out);
    out.push(header.kind as u8);
    out.extend_from_slice(&[shape.anchor_width, shape.deviation_width]);
    out.extend_from_slice(&header.code);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&header.items.to_le_bytes());
    out.extend_from_slice(&shape.buckets.to_le_bytes());
    out.extend_from_slice(&(codes.len() as u64).to_le_bytes());
    debug_assert_eq!(out.len() - from, HEADER_BYTES);
    out.extend_from_slice(directory.bytes());
    out.extend_from_slice(codes);
    let sum = checksum(&out[from..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Takes an encoded index of `kind` apart: header, directory, padded codes.
pub(super) fn decode(bytes: &[u8], kind: Kind) -> Result<(Header, Directory, Vec<u8>)> {
    let damaged = |at: usize, detail: &str| Error::corruption("trie index", at as u64, detail);
    let (body, sum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .filter(|(body, _)| body.len() >= HEADER_BYTES)
        .ok_or_else(|| damaged(bytes.len(), "too short"))?;
    FORMAT.version_of("trie index", 0, body)?;
    if checksum(body) != u32::from_le_bytes(*sum) {
        return Err(damaged(body.len(), "wrong checksum"));
    }
    if body[5] != kind as u8 {
        return Err(damaged(5, "the other kind of trie index"));
    }
    let word =
        |at: usize| body[at..].first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
    let [items, buckets, codes_len] = [16, 24, 32].map(word);
    let shape = Shape { buckets, anchor_width: body[6], deviation_width: body[7] };
    let directory_len = shape.bytes().ok_or_else(|| damaged(6, "no such directory"))?;
    let rest = &body[HEADER_BYTES..];
    if (rest.len() as u64).checked_sub(directory_len as u64) != Some(codes_len) {
        return Err(damaged(32, "lengths do not add up"));
    }
    let (directory, codes) = rest.split_at(directory_len);
    let mut padded = Vec::with_capacity(codes.len() + PAD_BYTES);
    padded.extend_from_slice(codes);
    padded.resize(codes.len() + PAD_BYTES, 0);
    let header = Header { kind, items, code: [body[8], body[9], body[10], body[11]] };
    Ok((header, Directory::from_bytes(shape, directory)?, padded))
}
