//! From the rank of an entry to the chunk it starts in.

use crate::elias_fano::{EliasFano, EliasFanoBuilder};
use silica_base::Result;

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
        let entries_per_chunk = match self.firsts.last() {
            Some(last) => u64::from(*last) / self.firsts.len() as u64,
            None => 0,
        };
        let mut firsts = EliasFanoBuilder::new(entries_per_chunk.checked_ilog2().unwrap_or(0));
        self.firsts.iter().for_each(|first| firsts.push(u64::from(*first)));
        RankMap { firsts: firsts.finish() }
    }
}

/// First rank of each chunk.
#[derive(Debug)]
pub(crate) struct RankMap {
    firsts: EliasFano,
}

impl RankMap {
    /// The chunk that entry `rank` starts in.
    #[inline]
    pub(crate) fn chunk(&self, rank: u64) -> u64 {
        self.firsts.count_up_to(rank).0.saturating_sub(1)
    }

    pub(crate) fn chunks(&self) -> u64 {
        self.firsts.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.firsts.bytes()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.firsts.encode(out);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(RankMap { firsts: EliasFano::decode(bytes)? })
    }
}
