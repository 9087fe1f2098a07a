//! Where entries lie in chunks, and which chunks one read covers.

use super::chunk::{CHUNK_BYTES, PAYLOAD_BYTES};

/// Padding that [`Layout::choose`] accepts, in percent of the payload.
const PADDING_PERCENT_MAX: u64 = 12;

/// Whether entries cross the borders of chunks. The writer's rule only: a reader finds its way
/// through either by the chunks' trailers, and an entry that is larger than a chunk crosses
/// borders in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// An entry that does not fit the rest of a chunk starts the next one: a lookup reads one
    /// chunk. For entries that are small beside a chunk.
    Aligned,
    /// Entries follow each other without padding: no space is lost, a lookup may need the next
    /// chunk too. For entries of which only a few fit a chunk.
    Straddling,
}

impl Layout {
    /// The layout for entries of `mean_bytes` on average and at most `max_bytes`.
    ///
    /// Equal sizes lose the remainder of a division; mixed sizes lose about half of the entry
    /// that did not fit, and a larger entry is likelier to be that one.
    pub fn choose(mean_bytes: u64, max_bytes: u64) -> Layout {
        let payload = PAYLOAD_BYTES as u64;
        if max_bytes > payload {
            return Layout::Straddling;
        }
        let padding = if mean_bytes >= max_bytes && max_bytes > 0 {
            payload % max_bytes
        } else {
            mean_bytes.min(max_bytes / 2)
        };
        if padding * 100 <= payload * PADDING_PERCENT_MAX {
            Layout::Aligned
        } else {
            Layout::Straddling
        }
    }

    /// The extent of entry number `rank` in a file whose entries all have `entry_bytes`.
    pub(super) fn exact(self, rank: u64, entry_bytes: u64) -> Extent {
        let payload = PAYLOAD_BYTES as u64;
        let (chunk, at) = match self {
            Layout::Aligned if entry_bytes <= payload => {
                let per_chunk = payload / entry_bytes;
                (rank / per_chunk, rank % per_chunk * entry_bytes)
            }
            _ => (rank * entry_bytes / payload, rank * entry_bytes % payload),
        };
        let chunks = (at + entry_bytes).div_ceil(payload) as u32;
        Extent { chunk, chunks, at: at as u32 }
    }
}

/// Consecutive chunks that one device read fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// The first chunk.
    pub chunk: u64,
    /// How many.
    pub chunks: u32,
    /// Payload offset in the first chunk where the wanted entry starts, or [`Extent::ANYWHERE`].
    pub at: u32,
}

impl Extent {
    /// The wanted entry may start at any place in the first chunk.
    pub const ANYWHERE: u32 = u32::MAX;

    /// Byte offset in the file.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.chunk * CHUNK_BYTES as u64
    }

    /// Bytes to read.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.chunks as usize * CHUNK_BYTES
    }

    /// An extent that serves both, which start in the same chunk.
    #[must_use]
    pub fn union(self, other: Extent) -> Extent {
        let at = if self.at == other.at { self.at } else { Extent::ANYWHERE };
        Extent { chunk: self.chunk, chunks: self.chunks.max(other.chunks), at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_entries_are_aligned_and_large_ones_straddle() {
        assert_eq!(Layout::choose(64, 64), Layout::Aligned);
        assert_eq!(Layout::choose(100, 3000), Layout::Aligned);
        assert_eq!(Layout::choose(4000, 4000), Layout::Aligned);
        assert_eq!(Layout::choose(1031, 1031), Layout::Straddling);
        assert_eq!(Layout::choose(100, 5000), Layout::Straddling);
        assert_eq!(Layout::choose(700, 2000), Layout::Straddling);
        assert_eq!(Layout::choose(0, 0), Layout::Aligned);
    }

    #[test]
    fn exact_extents_touch_only_the_chunks_of_the_entry() {
        let third = Layout::Straddling.exact(3, 1031);
        assert_eq!(third, Extent { chunk: 0, chunks: 2, at: 3093 });
        assert_eq!(Layout::Straddling.exact(2, 1031).chunks, 1);
        assert_eq!(Layout::Straddling.exact(1, 10_000).chunks, 3);
        assert_eq!(Layout::Aligned.exact(63, 64), Extent { chunk: 1, chunks: 1, at: 0 });
    }
}
