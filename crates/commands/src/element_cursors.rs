//! Cursors of HSCAN, SSCAN and ZSCAN: numbers that stand for the next element of an object.
//!
//! A table knows the elements of the numbers given last, so a scan goes on exactly there, whatever
//! was added and removed meanwhile. A number itself has the element's rank, to about one part in
//! 260,000, and 39 bits of its hash. If the table has forgotten the number, or the server has been
//! started anew, the element is looked for by its hash around its rank: it is there unless it was
//! removed, or thousands before it were. Only then does the scan begin anew. Some elements are
//! returned twice then, and none is missed.
//!
//! Why not less: a rank alone skips elements once earlier ones are removed, and the first bytes of
//! a key are the same for thousands of keys. Another element with the same hash near the rank would
//! make a scan miss some: the chance is 1 in 2^27 each time that the table does not know a number.

use crate::budget::{Budget, Share};
use crate::cursors::Known;
use silica_base::HashSeed;
use silica_base::Result;
use silica_types::{Direction, TreeMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Set in all numbers, so that none is 0, which is the start.
const MARK: u64 = 1 << 62;
/// Bits of a key's hash in a number.
const HASH_BITS: u32 = 39;
/// Bits of the rank: the first ones of its digits, and how many digits are left out.
const DIGITS: u32 = 18;
const SHIFT_BITS: u32 = 5;
/// Elements on each side of a rank among which a forgotten one is looked for.
const NEAR: u64 = 2048;
/// Digits that a rank leaves out for which all of that distance is searched, too: a number that
/// somebody has made up must not cost more.
const SEARCHED_SHIFT_MAX: u32 = 12;
/// Elements with longer keys are not kept: they would push too many others out.
const KEY_BYTES_MAX: usize = 4 << 10;
/// Seed of the hashes in numbers: it never changes, so that a number holds after a restart.
const SEED: HashSeed = HashSeed(*b"element cursors\0");

/// The cursors that were given to clients.
pub(crate) struct ElementCursors {
    known: Mutex<Known>,
    /// What is counted for those that are known.
    share: Share,
    /// Memory of all of them at most.
    held_bytes_max: usize,
}

impl ElementCursors {
    /// None yet; `budget` counts what is kept.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        let held_bytes_max = budget.max() / 16;
        ElementCursors { known: Mutex::default(), share: Share::new(budget), held_bytes_max }
    }

    /// The number of the element with this key and `rank` others before it.
    pub(crate) fn at(&self, rank: u64, key: &[u8]) -> u64 {
        let number = number(rank, key);
        if key.len() <= KEY_BYTES_MAX {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.add(number, key);
            known.settle(&self.share, self.held_bytes_max);
        }
        number
    }

    /// The rank in `tree` from which the scan of `number` goes on.
    ///
    /// # Errors
    /// Those of the tree's pages.
    pub(crate) fn rank(&self, number: u64, tree: &mut TreeMut<'_>) -> Result<u64> {
        if number & !(MARK - 1) != MARK {
            // Nobody was given it.
            return Ok(0);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = known.get(number).map(<[u8]>::to_vec);
        drop(known);
        match key {
            Some(key) => tree.find(&key).map(|(rank, _)| rank),
            None => Ok(near(number, tree)?.unwrap_or(0)),
        }
    }
}

fn hash(key: &[u8]) -> u64 {
    SEED.low(key) & ((1 << HASH_BITS) - 1)
}

fn number(rank: u64, key: &[u8]) -> u64 {
    let shift = (u64::BITS - rank.leading_zeros()).saturating_sub(DIGITS);
    let shift = shift.min((1 << SHIFT_BITS) - 1);
    let digits = (rank >> shift).min((1 << DIGITS) - 1);
    MARK | (u64::from(shift) << DIGITS | digits) << HASH_BITS | hash(key)
}

/// The rank of the element of `number` in `tree`, if it is near the one that it had.
fn near(number: u64, tree: &mut TreeMut<'_>) -> Result<Option<u64>> {
    let place = (number & !MARK) >> HASH_BITS;
    let shift = (place >> DIGITS) as u32;
    let first = (place & ((1 << DIGITS) - 1)) << shift;
    let wanted = number & ((1 << HASH_BITS) - 1);
    // Removals are what moves it farthest, so those before it come first.
    let ways = [(Direction::Backward, first), (Direction::Forward, first + 1)];
    for (direction, from) in ways {
        let from = if direction == Direction::Backward {
            from.min(tree.len().saturating_sub(1))
        } else {
            from
        };
        let (mut passed, mut is_found) = (0, false);
        tree.scan(from, direction, &mut |key, _| {
            is_found = hash(key) == wanted;
            passed += u64::from(!is_found);
            !is_found && passed < NEAR + (1 << shift.min(SEARCHED_SHIFT_MAX))
        })?;
        if is_found {
            let back = direction == Direction::Backward;
            return Ok(Some(if back { from - passed } else { from + passed }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_types::{Kind, MemoryPages, Object};

    const ELEMENTS: u64 = 20_000;

    fn key(n: u64) -> Vec<u8> {
        format!("user:{n:08}").into_bytes()
    }

    fn filled() -> (Object, MemoryPages) {
        let (mut object, mut pages) = (Object::new(Kind::Hash), MemoryPages::default());
        for n in 0..ELEMENTS {
            object.tree(0, &mut pages).put(&key(n), b"").unwrap();
        }
        (object, pages)
    }

    fn new() -> ElementCursors {
        ElementCursors::new(&Budget::new(64 << 20))
    }

    #[test]
    fn a_number_stands_for_its_element_after_changes() {
        let (mut object, mut pages) = filled();
        let (here, elsewhere) = (new(), new());
        let number = here.at(10_000, &key(10_000));
        assert!(number > 0 && number < 1 << 63);
        let mut tree = object.tree(0, &mut pages);
        assert_eq!(here.rank(number, &mut tree).unwrap(), 10_000);
        assert_eq!(elsewhere.rank(number, &mut tree).unwrap(), 10_000);
        tree.remove_ranks(3..1000).unwrap();
        assert_eq!(here.rank(number, &mut tree).unwrap(), 9003);
        assert_eq!(elsewhere.rank(number, &mut tree).unwrap(), 9003);
        (0..1500u32).for_each(|n| drop(tree.put(&n.to_be_bytes(), b"").unwrap()));
        assert_eq!(elsewhere.rank(number, &mut tree).unwrap(), 10_503);
        tree.remove_ranks(0..9000).unwrap();
        assert_eq!(here.rank(number, &mut tree).unwrap(), 1503);
        assert_eq!(elsewhere.rank(number, &mut tree).unwrap(), 0, "too far, so from the start");
        tree.remove(&key(10_000)).unwrap();
        assert_eq!(here.rank(number, &mut tree).unwrap(), 1503, "its successor has its place");
        tree.remove_ranks(1..5000).unwrap();
        assert_eq!(elsewhere.rank(number, &mut tree).unwrap(), 0);
    }

    #[test]
    fn numbers_of_far_elements_lead_near_them() {
        for rank in [0, 1, 262_143, 262_144, 1 << 30, (1 << 40) + 12_345, 1 << 48] {
            let place = (number(rank, b"") & !MARK) >> HASH_BITS;
            let shift = place >> DIGITS;
            let back = (place & ((1 << DIGITS) - 1)) << shift;
            assert!(back <= rank && rank - back < 1 << shift, "{rank} {back}");
        }
        let (mut object, mut pages) = filled();
        let mut tree = object.tree(0, &mut pages);
        for rank in [0, 1, ELEMENTS - 1] {
            let number = number(rank, &key(rank));
            assert_eq!(new().rank(number, &mut tree).unwrap(), rank);
        }
        for made_up in [77, 1 << 63, u64::MAX, u64::MAX >> 1, MARK, MARK << 1 | MARK] {
            assert_eq!(new().rank(made_up, &mut tree).unwrap(), 0, "{made_up} was never given");
        }
    }
}
