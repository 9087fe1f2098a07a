//! Ids of a stream's entries.

use std::fmt;

/// The id of an entry: a time in Unix milliseconds, and a number among those of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId {
    /// Unix milliseconds, if a clock has given it.
    pub ms: u64,
    /// Number among the entries of one millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least id; no entry has it.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest id.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The id right behind this one; `None` behind the greatest.
    pub fn next(self) -> Option<StreamId> {
        StreamId::of_number(self.number().checked_add(1)?)
    }

    /// The id right before this one; `None` before the least.
    pub fn previous(self) -> Option<StreamId> {
        StreamId::of_number(self.number().checked_sub(1)?)
    }

    fn number(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.seq)
    }

    fn of_number(number: u128) -> Option<StreamId> {
        Some(StreamId { ms: (number >> 64) as u64, seq: number as u64 })
    }

    /// Its bytes, which have the order of ids.
    pub fn to_bytes(self) -> [u8; 16] {
        self.number().to_be_bytes()
    }

    /// The id with these bytes; `None` unless there are 16.
    pub fn of_bytes(bytes: &[u8]) -> Option<StreamId> {
        StreamId::of_number(u128::from_be_bytes(bytes.try_into().ok()?))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_neighbours() {
        let id = |ms, seq| StreamId { ms, seq };
        assert_eq!(id(5, u64::MAX).next(), Some(id(6, 0)));
        assert_eq!(id(6, 0).previous(), Some(id(5, u64::MAX)));
        assert_eq!((StreamId::MAX.next(), StreamId::MIN.previous()), (None, None));
        assert_eq!(StreamId::of_bytes(&id(3, 7).to_bytes()), Some(id(3, 7)));
        assert!(id(1, 2).to_bytes() < id(2, 1).to_bytes());
        assert_eq!(id(12, 3).to_string(), "12-3");
    }
}
