//! Searching a file whose entries are ordered, without an index.
//!
//! Positions are hashes, so they are spread evenly: interpolation comes within a chunk of the
//! target in the second read, and each read takes the neighbours of the guessed chunk too, since
//! those cost next to nothing. Every fourth guess is the middle, so that no distribution needs
//! more than a few times the reads of a binary search.

use super::chunk::CHUNK_BYTES;
use super::scan::ChunkScan;
use silica_base::Result;
use silica_device::DeviceFile;

/// Chunks of one read: the guessed one in the middle.
const WINDOW_CHUNKS: u64 = 3;

/// What lies between two positions of a search.
struct Bracket {
    /// The first entry of this chunk is before the target, or the chunk is the first.
    low: u64,
    low_position: u128,
    /// The first entry of this chunk is not before the target, or the chunk is behind the last.
    high: u64,
    high_position: u128,
}

impl Bracket {
    fn guess(&self, target: u128, round: u32) -> u64 {
        let chunks = self.high - self.low;
        let guess = if round % 4 == 3 {
            self.low + chunks / 2
        } else {
            let whole = (self.high_position - self.low_position).max(1) as f64;
            let part = target.saturating_sub(self.low_position) as f64;
            self.low + (part / whole * chunks as f64) as u64
        };
        guess.saturating_sub(WINDOW_CHUNKS / 2).clamp(self.low, self.high - 1)
    }
}

impl<F: DeviceFile> ChunkScan<F> {
    /// Stands before the first entry of a chunk such that every entry at or behind `target`
    /// starts there or behind. `position` of an entry's key MUST not fall along the file and lie
    /// in `bounds`.
    pub fn seek(
        &mut self,
        target: u128,
        bounds: (u128, u128),
        position: impl Fn(&[u8]) -> u128,
    ) -> Result<()> {
        let footer = self.reader().footer();
        let (data_chunks, straddle) = (footer.data_chunks, u64::from(footer.straddle_usual));
        let mut bracket = Bracket {
            low: 0,
            low_position: bounds.0,
            high: data_chunks,
            high_position: bounds.1.max(bounds.0),
        };
        self.set_read_ahead((WINDOW_CHUNKS + straddle) as usize * CHUNK_BYTES);
        let mut round = 0;
        while target > bounds.0 && bracket.high - bracket.low > 1 {
            let start = bracket.guess(target, round);
            round += 1;
            if let Some(chunk) = self.look(start, target, &mut bracket, &position)? {
                self.restart(chunk);
                return Ok(());
            }
        }
        self.restart(bracket.low);
        Ok(())
    }

    /// Walks the window from `start` on: the chunk of the first entry at or behind `target` if
    /// that is in it and not the first entry, otherwise the bracket becomes narrower.
    fn look(
        &mut self,
        start: u64,
        target: u128,
        bracket: &mut Bracket,
        position: &impl Fn(&[u8]) -> u128,
    ) -> Result<Option<u64>> {
        self.restart(start);
        let mut is_first = true;
        while self.advance()? {
            let (chunk, here) = (self.chunk(), position(self.key()));
            if here >= target {
                if !is_first {
                    return Ok(Some(chunk));
                }
                if start <= bracket.low {
                    return Ok(Some(start));
                }
                (bracket.high, bracket.high_position) = (start, here.max(bracket.low_position));
                return Ok(None);
            }
            is_first = false;
            (bracket.low, bracket.low_position) = (chunk, here);
            if chunk + 1 >= start + WINDOW_CHUNKS && !self.is_inside_chunk() {
                // With no chunk between, what is at or behind the target starts in the next.
                return Ok((chunk + 1 >= bracket.high).then_some(bracket.high));
            }
        }
        // Nothing at or behind the target starts from here on.
        if is_first && start > bracket.low {
            bracket.high = start;
            return Ok(None);
        }
        Ok(Some(self.reader().footer().data_chunks))
    }
}
