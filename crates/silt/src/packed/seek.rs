//! Searching a file whose entries are ordered, without an index.
//!
//! Positions are hashes, so they are spread evenly and interpolation finds the chunk in two or
//! three reads; every fourth guess is the middle, so that no distribution needs more than a few
//! times the reads of a binary search.

use super::chunk::CHUNK_BYTES;
use super::scan::ChunkScan;
use silica_base::Result;
use silica_device::DeviceFile;

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
        guess.clamp(self.low + 1, self.high - 1)
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
        let one_lookup = (footer.straddle_usual as usize + 1) * CHUNK_BYTES;
        let mut bracket = Bracket {
            low: 0,
            low_position: bounds.0,
            high: footer.data_chunks,
            high_position: bounds.1.max(bounds.0),
        };
        self.set_read_ahead(one_lookup);
        let mut round = 0;
        while target > bounds.0 && bracket.high - bracket.low > 1 {
            let guess = bracket.guess(target, round);
            round += 1;
            self.restart(guess);
            if !self.advance()? || self.chunk() >= bracket.high {
                bracket.high = guess;
                continue;
            }
            let here = position(self.key());
            if here >= target {
                (bracket.high, bracket.high_position) = (guess, here.max(bracket.low_position));
                continue;
            }
            (bracket.low, bracket.low_position) = (self.chunk(), here);
            if self.passes(target, &position)? {
                break;
            }
        }
        self.restart(bracket.low);
        Ok(())
    }

    /// True where an entry at or behind `target` starts in the chunk of the current entry.
    fn passes(&mut self, target: u128, position: &impl Fn(&[u8]) -> u128) -> Result<bool> {
        let chunk = self.chunk();
        // An entry that crosses the border of the chunk may need another read; not for this.
        while self.is_inside_chunk() && self.advance()? && self.chunk() == chunk {
            if position(self.key()) >= target {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
