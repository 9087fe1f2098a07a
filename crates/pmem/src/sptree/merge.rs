//! Two neighbouring leaves with few entries become one (section 4.4.5).
//!
//! The right leaf's entries are written to free slots of the left one; then its bitmap and the word
//! of the leaf behind it change together, and no crash leaves a leaf that would have to be
//! repaired.

use super::apply::apply_in_place;
use super::buffered::detach;
use super::check::check_locked;
use super::layout::{BITMAP, NEXT, SUM, checked, sum_word};
use super::leaf::bits;
use super::plan::Fold;
use super::tree::{Locked, SpTree};
use crate::space::Change as WordChange;
use silica_base::Result;
use silica_device::region::Region;

/// Entries of two leaves that become one, at most.
const MERGED_MAX: i64 = 32;

/// Merges the leaf of `key` with the one behind it if they are neighbours in the top layer, have
/// few entries, and nobody else is at work there. True if it did.
///
/// # Errors
/// `Corruption`, `Io`, `Poisoned`.
pub(crate) fn merge_small<R: Region>(tree: &SpTree<R>, key: &[u8]) -> Result<bool> {
    let _with_others = tree.gate.read();
    let Some((left_number, right_number, separator)) = tree.top.neighbours(key) else {
        return Ok(false);
    };
    let (Some(left), Some(right)) = (lock(tree, left_number), lock(tree, right_number)) else {
        return Ok(false);
    };
    // Both are locked, so the top layer stays as it is if it still is so.
    let still = tree.top.neighbours(key);
    let is_same = still.as_ref().is_some_and(|(left, right, again)| {
        (*left, *right) == (left_number, right_number) && *again == separator
    });
    if !is_same {
        return Ok(false);
    }
    // Room is gained when the leaves behind a folded node are known.
    if left.node.is_folded() || right.node.is_folded() {
        return Ok(false);
    }
    check_locked(tree, &left)?;
    check_locked(tree, &right)?;
    let (into, from) = (tree.leaf(left.node.leaf()), tree.leaf(right.node.leaf()));
    let added = |locked: &Locked<'_>| tree.buffer_of(locked.node).map_or(0, |it| it.added());
    let both = i64::from(into.bitmap().count_ones() + from.bitmap().count_ones());
    if both + added(&left) + added(&right) > MERGED_MAX {
        return Ok(false);
    }
    let mut stale = apply_in_place(tree, left.node, &[])?.stale;
    stale.extend(apply_in_place(tree, right.node, &[])?.stale);
    let both = into.bitmap().count_ones() + from.bitmap().count_ones();
    // A leaf that would have had too many entries with those of its buffer was split.
    if i64::from(both) > MERGED_MAX || tree.top.neighbours(key) != still {
        drop((left, right));
        stale.iter().for_each(|at| tree.space.free(*at));
        return Ok(false);
    }
    let damaged = |torn: super::entry::Torn| torn.error(tree.space.name());
    let next = from.next().map_err(damaged)?.unwrap_or(0);
    let low_at = from.low().map_err(damaged)?.1;
    let slots: Vec<_> = bits(from.bitmap()).map(|at| from.slot(at)).collect();
    let fold = Fold::prepare(&into, &slots);
    let words = [
        WordChange { offset: into.at + BITMAP, new: fold.bitmap },
        WordChange {
            offset: into.at + SUM,
            new: sum_word(tree.space.store(), into.at, fold.sum, into.mark()),
        },
        WordChange {
            offset: into.at + NEXT,
            new: checked(tree.space.store(), into.at + NEXT, next),
        },
    ];
    tree.anchors.retract(&tree.space, from.at);
    if let Err(error) = tree.space.commit(&words) {
        return Err(tree.poison(error));
    }
    left.node.add_filter_of(right.node);
    let is_removed = tree.top.remove(&separator, left_number, right_number);
    assert!(is_removed, "neighbours whose locks are held stay neighbours");
    let gone = from.at;
    detach(tree, right.node);
    drop((left, right));
    stale.iter().for_each(|at| tree.space.free(*at));
    tree.nodes.free(right_number);
    tree.space.free(gone);
    low_at.into_iter().for_each(|at| tree.space.free(at));
    tree.counts.add(|counts| &counts.merges, 1);
    Ok(true)
}

/// Locks a node unless somebody else has it.
fn lock<R: Region>(tree: &SpTree<R>, number: u32) -> Option<Locked<'_>> {
    Locked::unless_busy(tree.nodes.get(number))
}
