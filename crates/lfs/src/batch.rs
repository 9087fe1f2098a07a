//! Batches of records and summaries of segments, as docs/formats/lfs.md has them.

use silica_base::{AlignedBuf, Checksum, Error, Format, Result};

/// How a batch begins.
pub(crate) const FORMAT: Format =
    Format { name: "file system", magic: b"SiLs", version_bytes: 4, version: 1, steps: &[] };
/// How the summary of a segment begins.
const SUMMARY: Format =
    Format { name: "segment summary", magic: b"SiLu", version_bytes: 4, version: 1, steps: &[] };
/// Bytes before the records of a batch.
pub(crate) const HEADER_BYTES: usize = 64;
/// Bytes of a page in a summary.
const ENTRY_BYTES: usize = 20;
const SUMMARY_HEADER_BYTES: usize = 32;

/// What a batch is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The log.
    Log = 1,
    /// A checkpoint.
    Checkpoint = 2,
}

/// What stands before the records of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// The file system.
    pub(crate) id: u64,
    pub(crate) part: Part,
    /// True if this is the last batch of a commit, or of a checkpoint.
    pub(crate) is_last: bool,
    /// Rises by one with each batch.
    pub(crate) sequence: u64,
    /// Batches up to this one, and the pages that they speak of, were synced before.
    pub(crate) synced: u64,
    /// The first batch of the checkpoint that this one is part of.
    pub(crate) checkpoint: u64,
    /// Bytes of records.
    pub(crate) body_bytes: u32,
}

/// Pages that a batch of so many bytes of records takes.
pub(crate) fn batch_pages(body_bytes: usize, page_bytes: usize) -> u32 {
    (HEADER_BYTES + body_bytes).div_ceil(page_bytes) as u32
}

impl Header {
    /// The batch as pages, for the place `at`.
    pub(crate) fn encode(&self, body: &[u8], at: u64, page_bytes: usize) -> AlignedBuf {
        let pages = batch_pages(body.len(), page_bytes) as usize;
        let mut out = AlignedBuf::zeroed(pages * page_bytes);
        FORMAT.begin_in(&mut out);
        out[8..16].copy_from_slice(&self.id.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.synced.to_le_bytes());
        out[32..40].copy_from_slice(&self.checkpoint.to_le_bytes());
        out[40..44].copy_from_slice(&(body.len() as u32).to_le_bytes());
        out[44] = self.part as u8;
        out[45] = u8::from(self.is_last);
        out[HEADER_BYTES..HEADER_BYTES + body.len()].copy_from_slice(body);
        let sum = sum_of(self.id, at, &out, body.len());
        out[60..64].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads what stands before the records of a batch. Its checksum is of all pages, and is
    /// compared by [`Header::verify`].
    ///
    /// # Errors
    /// `Unsupported` for another version.
    pub(crate) fn decode(page: &[u8]) -> Result<Option<Header>> {
        if page.len() < HEADER_BYTES || !FORMAT.begins(page) {
            return Ok(None);
        }
        FORMAT.version_of("the device", 0, page)?;
        let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("eight"));
        let part = match page[44] {
            1 => Part::Log,
            2 => Part::Checkpoint,
            _ => return Ok(None),
        };
        Ok(Some(Header {
            id: number(8),
            sequence: number(16),
            synced: number(24),
            checkpoint: number(32),
            body_bytes: u32::from_le_bytes(page[40..44].try_into().expect("four bytes")),
            part,
            is_last: page[45] == 1,
        }))
    }

    /// True if the pages of a batch are what was written to the place `at`.
    pub(crate) fn verify(&self, pages: &[u8], at: u64) -> bool {
        let sum = u32::from_le_bytes(pages[60..64].try_into().expect("four bytes"));
        let body = self.body_bytes as usize;
        HEADER_BYTES + body <= pages.len() && sum == sum_of(self.id, at, pages, body)
    }
}

fn sum_of(id: u64, at: u64, pages: &[u8], body: usize) -> u32 {
    let body = &pages[HEADER_BYTES..HEADER_BYTES + body];
    Checksum::at(id, at).update(&pages[..60]).update(body).finish()
}

/// Checksum of a page of a file at the place `at`.
pub(crate) fn page_sum(id: u64, at: u64, page: &[u8]) -> u32 {
    Checksum::at(id, at).update(page).finish()
}

/// Whose page it is: inode, page of the file, checksum.
pub(crate) type Owner = (u64, u64, u32);

/// Pages that the summary of a segment of so many pages takes.
pub(crate) fn summary_pages(segment_pages: u32, page_bytes: usize) -> u32 {
    let bytes = SUMMARY_HEADER_BYTES + segment_pages as usize * ENTRY_BYTES;
    bytes.div_ceil(page_bytes) as u32
}

/// The summary of a segment whose first page lies at `at`, as pages.
pub(crate) fn encode_summary(
    id: u64,
    at: u64,
    owners: &[Owner],
    segment_pages: u32,
    page_bytes: usize,
) -> AlignedBuf {
    let pages = summary_pages(segment_pages, page_bytes) as usize;
    let mut out = AlignedBuf::zeroed(pages * page_bytes);
    SUMMARY.begin_in(&mut out);
    out[8..16].copy_from_slice(&id.to_le_bytes());
    out[16..20].copy_from_slice(&(owners.len() as u32).to_le_bytes());
    for (i, (ino, index, sum)) in owners.iter().enumerate() {
        let entry = &mut out[SUMMARY_HEADER_BYTES + i * ENTRY_BYTES..][..ENTRY_BYTES];
        entry[..8].copy_from_slice(&ino.to_le_bytes());
        entry[8..16].copy_from_slice(&index.to_le_bytes());
        entry[16..].copy_from_slice(&sum.to_le_bytes());
    }
    let sum = Checksum::at(id, at).update(&out[..28]).update(&out[32..]).finish();
    out[28..32].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Reads the summary of the segment whose first page lies at `at`.
///
/// # Errors
/// `Corruption` if it is none.
pub(crate) fn decode_summary(id: u64, at: u64, bytes: &[u8]) -> Result<Vec<Owner>> {
    let damaged = |detail: &str| Error::corruption("the summary of a segment", at, detail);
    SUMMARY.version_of("the summary of a segment", at, bytes)?;
    let sum = Checksum::at(id, at).update(&bytes[..28]).update(&bytes[32..]).finish();
    if bytes[28..32] != sum.to_le_bytes() {
        return Err(damaged("its checksum does not match"));
    }
    let count = u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")) as usize;
    let entries = &bytes[SUMMARY_HEADER_BYTES..];
    if count > entries.len() / ENTRY_BYTES {
        return Err(damaged("it has more entries than room"));
    }
    let owner = |entry: &[u8]| {
        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight"));
        let sum = u32::from_le_bytes(entry[16..20].try_into().expect("four bytes"));
        (number(0), number(8), sum)
    };
    Ok(entries.chunks_exact(ENTRY_BYTES).take(count).map(owner).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_back_only_from_where_it_was_written() {
        let header = Header {
            id: 3,
            part: Part::Log,
            is_last: true,
            sequence: 9,
            synced: 8,
            checkpoint: 0,
            body_bytes: 1000,
        };
        let body = vec![5; 1000];
        let mut pages = header.encode(&body, 17, 512);
        assert_eq!(pages.len(), 3 * 512);
        assert_eq!(Header::decode(&pages).unwrap(), Some(header));
        assert!(header.verify(&pages, 17));
        assert!(!header.verify(&pages, 18));
        pages[700] ^= 1;
        assert!(!header.verify(&pages, 17));
        pages[4] = 2;
        let newer = Header::decode(&pages).unwrap_err().to_string();
        assert!(newer.contains("newer release"), "{newer}");
    }

    #[test]
    fn a_summary_comes_back_and_damage_is_found() {
        let owners: Vec<Owner> = (0..30).map(|i| (i, i * 7, i as u32)).collect();
        let bytes = encode_summary(1, 64, &owners, 32, 512);
        assert_eq!(decode_summary(1, 64, &bytes).unwrap(), owners);
        assert!(decode_summary(1, 65, &bytes).is_err());
        for at in [0, 9, 17, 29, 40, 700] {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 4;
            assert!(decode_summary(1, 64, &bytes).is_err(), "byte {at}");
        }
    }
}
