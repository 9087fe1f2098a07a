//! A put of one small entry into a leaf that has room for it: what nearly all writes are.
//!
//! It does what a [`Plan`](super::Plan) of one change does, by the same writer of slots and the
//! same words, without the lists that plans of several keys need: an insert, splits included, takes
//! a sixth fewer instructions.

use super::super::apply::Applied;
use super::super::change::{Change, Target};
use super::super::layout::{ENTRIES_MAX, Slot, sum_word, tag_of};
use super::super::nodes::Node;
use super::super::tree::SpTree;
use super::{Writer, commit_one};
use silica_base::Result;
use silica_device::region::Region;

/// Puts a key of a checked node that is locked; `None`, and nothing has happened, if only a plan
/// can.
///
/// # Errors
/// `Corruption`, `Io`, `Poisoned`.
pub(crate) fn put<R: Region>(
    tree: &SpTree<R>,
    node: Node<'_>,
    change: &Change<'_>,
) -> Result<Option<Applied>> {
    let Target::Entry(entry) = &change.to else { return Ok(None) };
    if tree.config.merges_out_of_place || node.buffer() != 0 || tree.history.is_held() {
        return Ok(None);
    }
    let tag = tag_of(change.hash);
    let Some(slot) = Slot::inline(change.key, entry, tag) else { return Ok(None) };
    let leaf = tree.leaf(node.leaf());
    let bitmap = leaf.bitmap();
    let may_be_there = !tree.config.has_filters || node.may_have(change.hash);
    let found = if may_be_there { leaf.find(change.key, tag) } else { Ok(None) };
    let found = found.map_err(|torn| tree.torn(torn))?;
    let entries = bitmap.count_ones() as usize;
    let is_full = entries > ENTRIES_MAX || found.is_none() && entries == ENTRIES_MAX;
    if is_full || found.is_some_and(|(_, old)| old.beside_at().is_some()) {
        return Ok(None);
    }
    let mut writer = Writer::new(&leaf, bitmap, leaf.known_sum());
    assert!(writer.insert(&slot), "there is room for it");
    if let Some((at, old)) = &found {
        writer.remove(*at, old);
    }
    writer.flush();
    node.add(change.hash);
    let word = sum_word(tree.space.store(), leaf.at, writer.sum, leaf.mark());
    let added = i64::from(found.is_none());
    if let Err(error) = commit_one(leaf.region(), leaf.at, writer.bitmap, word) {
        if leaf.bitmap() == writer.bitmap {
            // An opening finds it or not; until then readers do.
            tree.add_entries(added);
        }
        return Err(tree.poison(error));
    }
    tree.add_entries(added);
    Ok(Some(Applied::default()))
}
