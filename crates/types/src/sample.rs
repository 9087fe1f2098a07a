//! Elements by chance.

use crate::cursor::Cursor;
use crate::tree::{Element, TreeMut};
use silica_base::{Prng, Result};
use std::collections::BTreeSet;

/// `count` different numbers below `len` by chance, in ascending order; all of them if there are no
/// more. Takes memory for the smaller one of those chosen and those left out, and for the result.
pub fn distinct_below(len: u64, count: u64, prng: &mut Prng) -> Vec<u64> {
    if count >= len {
        return (0..len).collect();
    }
    // Floyd's algorithm: each set of this size is as likely as the others.
    let few = count.min(len - count);
    let mut chosen = BTreeSet::new();
    for end in len - few..len {
        let number = prng.below(end + 1);
        if !chosen.insert(number) {
            chosen.insert(end);
        }
    }
    if few == count {
        return chosen.into_iter().collect();
    }
    (0..len).filter(|number| !chosen.contains(number)).collect()
}

/// Calls `each` with the elements of `ranks`, which ascend, until it returns false.
///
/// # Errors
/// Those of the pages.
pub fn visit_ranks(
    tree: &mut TreeMut<'_>,
    ranks: &[u64],
    each: &mut dyn FnMut(&Element) -> bool,
) -> Result<()> {
    let mut cursor = Cursor::default();
    for rank in ranks {
        if let Some(element) = cursor.at(tree, *rank)?
            && !each(element)
        {
            break;
        }
    }
    Ok(())
}
