//! Parts of the memory that an engine is built by and its model computes with: one place for both.

/// So many of so many equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    parts: u64,
    of: u64,
}

/// Memtables of the ordered engine, where `memtable_bytes_max` is 0.
pub const MEMTABLES: Part = Part { parts: 1, of: 5 };
/// The log of the ordered engine, where `log_bytes_max` is 0 and filters need no more.
pub const ORDERED_LOG: Part = Part { parts: 7, of: 16 };
/// The log of the hashed engine, where `log_bytes_max` is 0.
pub const HASHED_LOG: Part = Part { parts: 1, of: 4 };

impl Part {
    /// The part of so many bytes.
    pub const fn of_bytes(self, bytes: u64) -> u64 {
        bytes / self.of * self.parts
    }

    /// The part of one.
    pub const fn share(self) -> f64 {
        self.parts as f64 / self.of as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_shares_agree() {
        for part in [MEMTABLES, ORDERED_LOG, HASHED_LOG] {
            let bytes = 80 << 20;
            assert_eq!(part.of_bytes(bytes) as f64, part.share() * bytes as f64);
        }
        assert_eq!(ORDERED_LOG.of_bytes(u64::MAX), u64::MAX / 16 * 7);
    }
}
