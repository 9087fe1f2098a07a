//! The first part of a flush, in steps: the positions of memtables in the order of the log, and
//! how many bytes all of their keys begin with.
//!
//! Positions lie anywhere in a memtable. They are dealt out to pieces of the log, short ones, and
//! then one piece after the other is sorted: so no step sorts more than a few of them.

use crate::bucket::Frozen;
use crate::memtable::{Entries, Place, common_bytes};
use std::sync::Arc;

/// Positions of a piece, were they evenly spread over the log.
const PIECE_POSITIONS: usize = 1 << 10;
/// Positions that are dealt out between two looks at the budget.
const DEALT_POSITIONS: usize = 4 << 10;
/// What a position counts for that is dealt out, and one that is sorted and whose key is looked at.
const DEAL_COST_BYTES: u64 = 4;
const LOOK_COST_BYTES: u64 = 16;

/// See the module's documentation.
pub(crate) struct Gather {
    /// How many memtables were gone through, and how far the next one was.
    memtables: usize,
    place: Option<Place>,
    /// Where the first piece begins, and how long each is.
    start: u64,
    piece_span: u64,
    pieces: Vec<Vec<u64>>,
    /// Pieces that were sorted.
    sorted: usize,
    /// What they had, ascending.
    positions: Vec<u64>,
    common: Option<usize>,
}

impl Gather {
    /// Of these memtables.
    pub(crate) fn new(frozen: &[Arc<Frozen>]) -> Self {
        let count: usize = frozen.iter().map(|frozen| frozen.memtable.len()).sum();
        let start = frozen.iter().map(|frozen| frozen.start).min().unwrap_or(0);
        let end = frozen.iter().map(|frozen| frozen.end).max().unwrap_or(0);
        let pieces = (count / PIECE_POSITIONS).max(1);
        // Most have room at once: many that grow at the same time would be a long step.
        let room = (count / pieces).min(2 * PIECE_POSITIONS) * 5 / 4;
        Gather {
            memtables: 0,
            place: Some(Place::START),
            start,
            piece_span: end.saturating_sub(start) / pieces as u64 + 1,
            pieces: (0..pieces).map(|_| Vec::with_capacity(room)).collect(),
            sorted: 0,
            positions: Vec::with_capacity(count),
            common: None,
        }
    }

    /// Goes on for about `budget` bytes; what was done counts for so many. Nothing where all is.
    pub(crate) fn step(
        &mut self,
        frozen: &[Arc<Frozen>],
        entries: &impl Entries,
        budget: u64,
    ) -> Option<u64> {
        let mut done = 0;
        while done <= budget {
            if let Some(frozen) = frozen.get(self.memtables) {
                done += DEAL_COST_BYTES * self.deal(frozen);
            } else if self.sorted < self.pieces.len() {
                done += LOOK_COST_BYTES * self.look(entries);
            } else {
                return (done > 0).then_some(done);
            }
        }
        Some(done)
    }

    /// Deals out some positions of a memtable; how many slots it went through.
    fn deal(&mut self, frozen: &Frozen) -> u64 {
        let Some(place) = self.place.take() else {
            (self.memtables, self.place) = (self.memtables + 1, Some(Place::START));
            return 0;
        };
        let (start, span, last) = (self.start, self.piece_span, self.pieces.len() - 1);
        let deal = &mut |position: u64| {
            let piece = position.saturating_sub(start) / span;
            self.pieces[last.min(piece as usize)].push(position);
        };
        self.place = frozen.memtable.some_positions(place, DEALT_POSITIONS, deal);
        DEALT_POSITIONS as u64
    }

    /// Sorts the next piece and looks at its keys; how many it had.
    fn look(&mut self, entries: &impl Entries) -> u64 {
        let mut piece = std::mem::take(&mut self.pieces[self.sorted]);
        self.sorted += 1;
        piece.sort_unstable();
        let first = self.positions.first().or(piece.first());
        if let Some(first) = first.map(|at| entries.entry(*at).key) {
            let common = self.common.unwrap_or(first.len());
            self.common = Some(common_bytes(&first[..common], &piece, entries));
        }
        let count = piece.len() as u64;
        self.positions.append(&mut piece);
        count
    }

    /// All positions, ascending, and how many bytes their keys share, once all is done.
    pub(crate) fn finish(self) -> (Vec<u64>, usize) {
        (self.positions, self.common.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::Memtable;
    use silica_base::{HashSeed, Prng};
    use silica_parts::frame::Frame;

    /// The keys of positions.
    struct Keys(Vec<Vec<u8>>);

    impl Entries for Keys {
        fn entry(&self, position: u64) -> Frame<'_> {
            Frame::put(&self.0[position as usize], b"")
        }
    }

    fn frozen(is_list: bool, of: &[u64], keys: &Keys) -> Arc<Frozen> {
        let mut memtable = if is_list { Memtable::new_list() } else { Memtable::new_hash() };
        for position in of {
            let key = &keys.0[*position as usize];
            // A hash table that is full leaves the rest to another.
            let _ = memtable.insert(HashSeed([1; 16]), key, *position, 0, keys);
        }
        Frozen::of(memtable, 1..keys.0.len() as u64)
    }

    #[test]
    fn steps_are_short_and_all_positions_come_in_order() {
        let mut prng = Prng::new(1);
        let mut keys = |prefix: &[u8]| {
            let key = |_| [prefix, &prng.next_u64().to_le_bytes()].concat();
            Keys((0..60_000).map(key).collect())
        };
        for (prefix, common) in [(&b"a prefix of all keys"[..], 20), (b"", 0)] {
            let keys = keys(prefix);
            // Some of all, and many that lie together, of which a piece gets more.
            let wide: Vec<u64> = (1..60_000).step_by(3).collect();
            let narrow: Vec<u64> = (30_002..50_000).step_by(3).collect();
            let (one, other) = (frozen(false, &wide, &keys), frozen(true, &narrow, &keys));
            let mut expected = [one.memtable.positions(), other.memtable.positions()].concat();
            expected.sort_unstable();
            assert!(expected.len() > 20_000, "{} positions", expected.len());
            for budget in [0, 10_000, 100_000, u64::MAX] {
                let all = [Arc::clone(&one), Arc::clone(&other)];
                let (mut gather, mut steps) = (Gather::new(&all), 0);
                while let Some(done) = gather.step(&all, &keys, budget) {
                    let more = 4 * LOOK_COST_BYTES * PIECE_POSITIONS as u64;
                    assert!(done <= budget.saturating_add(more), "{done} bytes of {budget}");
                    steps += 1;
                }
                let least = expected.len() as u64 * LOOK_COST_BYTES / (budget / 2 + 50_000);
                assert!(steps >= least, "{steps} steps of {budget}");
                let (positions, found) = gather.finish();
                assert_eq!(positions, expected);
                assert_eq!(found, common);
            }
        }
    }

    #[test]
    fn nothing_is_gathered_of_nothing() {
        let keys = Keys(vec![Vec::new(); 10]);
        for all in [vec![], vec![frozen(false, &[], &keys)], vec![frozen(true, &[], &keys)]] {
            let mut gather = Gather::new(&all);
            while gather.step(&all, &keys, 0).is_some() {}
            assert_eq!(gather.finish(), (Vec::new(), 0));
        }
        let one = [frozen(false, &[5], &keys)];
        let mut gather = Gather::new(&one);
        while gather.step(&one, &keys, 0).is_some() {}
        assert_eq!(gather.finish(), (vec![5], 0));
    }
}
