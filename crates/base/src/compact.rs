//! Sorting where the size of the program counts for more than time.
//!
//! The standard library's sorts are some 6 KB of code for each type and order that they are used
//! with, and for each kind of iterator that an ordered map is collected from. What is short or
//! seldom sorted shares one copy of that code here.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The map of `pairs`; of those with one key the last counts. They are inserted one by one: for
/// maps that are small or seldom made.
pub fn compact_map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(pairs);
    map
}

/// Sorts `items` by `order`; equal ones stay in the order they had.
///
/// Takes 8 bytes of memory for each item while it sorts and an indirect call for each comparison:
/// for lists that are short or seldom sorted.
pub fn compact_sort_by<T>(items: &mut [T], mut order: impl FnMut(&T, &T) -> Ordering) {
    let mut places: Vec<usize> = (0..items.len()).collect();
    sort_places(&mut places, &mut |one, other| order(&items[one], &items[other]));
    // Each cycle of places is walked once; a place that was filled names itself.
    for start in 0..places.len() {
        let mut at = start;
        while places[at] != start {
            let from = std::mem::replace(&mut places[at], at);
            items.swap(at, from);
            at = from;
        }
        places[at] = at;
    }
}

/// [`compact_sort_by`] in ascending order of `key`.
pub fn compact_sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    compact_sort_by(items, |one, other| key(one).cmp(&key(other)));
}

#[inline(never)]
fn sort_places(places: &mut [usize], order: &mut dyn FnMut(usize, usize) -> Ordering) {
    places.sort_by(|one, other| order(*one, *other));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_out_as_those_of_the_standard_librarys_stable_sort() {
        let mut prng = crate::Prng::new(1);
        for len in (0..40).chain([100, 1000]) {
            for values in [2, 10, 1 << 40] {
                let list: Vec<(u64, usize, String)> =
                    (0..len).map(|at| (prng.below(values), at, at.to_string())).collect();
                let (mut ours, mut theirs) = (list.clone(), list);
                compact_sort_by_key(&mut ours, |(value, ..)| *value);
                theirs.sort_by_key(|(value, ..)| *value);
                assert_eq!(ours, theirs);
                compact_sort_by(&mut ours, |one, other| other.1.cmp(&one.1));
                assert!(ours.is_sorted_by(|one, other| one.1 > other.1));
            }
        }
    }

    #[test]
    fn maps_are_as_if_they_were_collected() {
        let pairs = [(3, 'a'), (1, 'b'), (3, 'c')];
        assert_eq!(compact_map(pairs), BTreeMap::from(pairs));
    }

    #[test]
    fn an_order_that_panics_leaves_the_items_as_they_were() {
        let mut list = vec![3, 1, 2];
        let order = |_: &i32, _: &i32| panic!("no order");
        let sorted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            compact_sort_by(&mut list, order);
        }));
        assert!(sorted.is_err());
        assert_eq!(list, [3, 1, 2]);
    }
}
