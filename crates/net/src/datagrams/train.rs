//! Which datagrams one message carries.

use std::ops::Range;

/// Datagrams that the kernel cuts out of one message at most, and their bytes.
const DATAGRAMS_MAX: usize = 64;
const BYTES_MAX: usize = 60_000;

/// Datagrams that follow each other in memory and leave as one message: all as long as the first
/// but for the last, which may be shorter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Train<T> {
    /// To whom.
    pub to: T,
    /// Where they stand.
    pub place: Range<usize>,
    first_bytes: usize,
    count: usize,
}

impl<T> Train<T> {
    /// What [`Message::segment_bytes`](super::Message::segment_bytes) says of it.
    pub fn segment_bytes(&self) -> usize {
        if self.count > 1 { self.first_bytes } else { 0 }
    }

    /// No datagram is shorter than the first.
    fn is_even(&self) -> bool {
        self.place.len() == self.count * self.first_bytes
    }
}

/// Joins datagrams to as few trains as carry them, in their order.
#[derive(Debug, Clone)]
pub struct Trains<T> {
    /// The kernel cuts messages.
    joins: bool,
    trains: Vec<Train<T>>,
}

impl<T: Copy + PartialEq> Trains<T> {
    /// None yet. Where the kernel does not cut messages each datagram is one.
    pub fn new(joins: bool) -> Self {
        Trains { joins, trains: Vec::new() }
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.trains.clear();
    }

    /// All trains.
    pub fn all(&self) -> &[Train<T>] {
        &self.trains
    }

    /// How long the next datagram, which has `len` bytes, should be made where its receiver does
    /// not mind what is behind them: as long as those that it can then follow, which spares a
    /// message, but not more than twice as long.
    #[inline]
    pub fn lengthened(&self, to: T, len: usize) -> usize {
        let last = self.trains.last().filter(|last| self.joins && last.to == to);
        let wanted = last.map_or(len, |last| last.first_bytes);
        if (len..=2 * len).contains(&wanted) { wanted } else { len }
    }

    /// Adds the datagram at `place`, which is for `to`.
    #[inline]
    pub fn add(&mut self, to: T, place: Range<usize>) {
        let joins = self.joins;
        if let Some(last) = self.trains.last_mut()
            && joins
            && (last.to == to && last.place.end == place.start && last.is_even())
            && (place.len() <= last.first_bytes && last.count < DATAGRAMS_MAX)
            && last.place.len() + place.len() <= BYTES_MAX
        {
            last.place.end = place.end;
            last.count += 1;
            return;
        }
        let first_bytes = place.len();
        self.trains.push(Train { to, place, first_bytes, count: 1 });
    }
}
