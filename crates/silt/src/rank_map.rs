//! From the rank of an entry to the chunk it starts in.

use silica_base::{Error, Result};

/// Collects the first rank of each chunk.
#[derive(Debug, Default)]
pub(crate) struct RankMapBuilder {
    firsts: Vec<u32>,
}

impl RankMapBuilder {
    /// The entry `rank` starts in `chunk`; ranks come in order.
    #[inline]
    pub(crate) fn push(&mut self, rank: u64, chunk: u64) {
        // A chunk in which no entry starts has the rank of the next entry.
        while self.firsts.len() as u64 <= chunk {
            self.firsts.push(rank as u32);
        }
    }

    pub(crate) fn finish(self) -> RankMap {
        let mut firsts = self.firsts;
        firsts.shrink_to_fit();
        RankMap { firsts }
    }
}

/// First rank of each chunk.
#[derive(Debug)]
pub(crate) struct RankMap {
    firsts: Vec<u32>,
}

impl RankMap {
    /// The chunk that entry `rank` starts in.
    #[inline]
    pub(crate) fn chunk(&self, rank: u64) -> u64 {
        self.firsts.partition_point(|first| u64::from(*first) <= rank).saturating_sub(1) as u64
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.firsts.len() as u64
    }

    pub(crate) fn bytes(&self) -> usize {
        self.firsts.capacity() * 4
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.firsts.iter().for_each(|first| out.extend_from_slice(&first.to_le_bytes()));
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let (firsts, rest) = bytes.as_chunks::<4>();
        let firsts: Vec<u32> = firsts.iter().map(|f| u32::from_le_bytes(*f)).collect();
        if !rest.is_empty() || !firsts.is_sorted() {
            return Err(Error::corruption("rank map", 0, "not ascending ranks"));
        }
        Ok(RankMap { firsts })
    }
}
