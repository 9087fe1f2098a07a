//! Which engine is which database: numbers of databases, and places of what is open.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Bits of a place.
const BITS: u32 = 4;
/// Places that there are.
pub(crate) const PLACES: usize = 1 << BITS;

/// What is open stays in its place; SWAPDB changes which number a place has. Only who alone uses
/// the databases changes that ([`crate::gate`]), so a burst sees one order from its beginning to
/// its end.
#[derive(Debug)]
pub(crate) struct Places {
    /// The places of databases 0, 1, …, four bits each from the lowest on.
    by_number: AtomicU64,
    /// The numbers of places, in the same way.
    by_place: AtomicU64,
}

fn at(all: u64, index: usize) -> usize {
    (all >> (BITS * index as u32)) as usize & (PLACES - 1)
}

fn set(all: u64, index: usize, value: usize) -> u64 {
    let shift = BITS * index as u32;
    all & !(((PLACES - 1) as u64) << shift) | (value as u64) << shift
}

impl Default for Places {
    fn default() -> Self {
        let all = (0..PLACES).fold(0, |all, n| set(all, n, n));
        Places { by_number: AtomicU64::new(all), by_place: AtomicU64::new(all) }
    }
}

impl Places {
    /// The place of database `number`.
    #[inline]
    pub(crate) fn of_number(&self, number: usize) -> usize {
        at(self.by_number.load(Acquire), number)
    }

    /// The database in a place.
    #[inline]
    pub(crate) fn number_of(&self, place: usize) -> usize {
        at(self.by_place.load(Acquire), place)
    }

    /// Lets two databases have each other's places.
    pub(crate) fn swap(&self, one: usize, other: usize) {
        let places = [self.of_number(one), self.of_number(other)];
        let by_number = set(self.by_number.load(Acquire), one, places[1]);
        self.by_number.store(set(by_number, other, places[0]), Release);
        let by_place = set(self.by_place.load(Acquire), places[1], one);
        self.by_place.store(set(by_place, places[0], other), Release);
    }
}

/// The place of one database.
#[derive(Debug, Clone)]
pub(crate) struct DatabasePlace {
    places: Arc<Places>,
    place: usize,
}

impl DatabasePlace {
    pub(crate) fn new(places: &Arc<Places>, place: usize) -> Self {
        DatabasePlace { places: Arc::clone(places), place }
    }

    /// The database that it is now.
    #[inline]
    pub(crate) fn number(&self) -> usize {
        self.places.number_of(self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swap_changes_both_directions() {
        let places = Arc::new(Places::default());
        let place = DatabasePlace::new(&places, 3);
        for (one, other) in [(3, 5), (5, 15), (2, 2)] {
            places.swap(one, other);
        }
        assert_eq!(place.number(), 15);
        for number in 0..PLACES {
            assert_eq!(places.number_of(places.of_number(number)), number);
        }
        assert_eq!([3, 5, 15, 2].map(|number| places.of_number(number)), [5, 15, 3, 2]);
    }
}
