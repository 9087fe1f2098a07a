//! The region's copy of the top layer is brought up to date in the background (section 4.4.5, the
//! last step of a split): a pass over all leaves names one in [`SPACING`] of them.
//!
//! A pass costs some 100 ns a leaf and begins when a sixteenth of the leaves came since the last
//! one, so a split pays two microseconds of it. Until the next pass, an opening walks more links.

use super::anchors::SPACING;
use super::root::upgrade;
use super::tree::{Locked, SpTree, Upkeep};
use silica_base::Result;
use silica_device::region::Region;

/// Goes on with a pass, or begins one that is due. `leaves_left` is what the caller may still do;
/// true if there is more to do.
///
/// # Errors
/// Those of a fence.
pub(crate) fn copy_some<R: Region>(
    tree: &SpTree<R>,
    upkeep: &mut Upkeep,
    leaves_left: &mut u64,
) -> Result<bool> {
    if upkeep.copy_from.is_none() {
        let splits = tree.counts.sum(|counts| &counts.splits);
        if !tree.anchors.is_due(tree.top.leaves(), splits) {
            return Ok(false);
        }
        begin_pass(tree, upkeep);
    }
    while upkeep.copy_from.is_some() && *leaves_left > 0 {
        let _with_others = tree.gate.read();
        copy_chunk(tree, upkeep, leaves_left)?;
    }
    Ok(upkeep.copy_from.is_some())
}

/// Brings the whole copy up to date, by whoever has the gate alone.
///
/// # Errors
/// Those of a fence.
pub(crate) fn copy_all<R: Region>(tree: &SpTree<R>, upkeep: &mut Upkeep) -> Result<()> {
    let splits = tree.counts.sum(|counts| &counts.splits);
    if tree.anchors.missing(splits) < SPACING && upkeep.copy_from.is_none() {
        return Ok(());
    }
    begin_pass(tree, upkeep);
    while upkeep.copy_from.is_some() {
        let mut unlimited = u64::MAX;
        copy_chunk(tree, upkeep, &mut unlimited)?;
    }
    Ok(())
}

fn begin_pass<R: Region>(tree: &SpTree<R>, upkeep: &mut Upkeep) {
    tree.anchors.begin_pass(tree.counts.sum(|counts| &counts.splits));
    (upkeep.copy_from, upkeep.copy_since) = (Some(Vec::new()), 0);
}

/// Goes through a chunk of the top layer. A pass ends if the region has no more room: what the
/// copy lacks is only slower to open.
fn copy_chunk<R: Region>(
    tree: &SpTree<R>,
    upkeep: &mut Upkeep,
    leaves_left: &mut u64,
) -> Result<()> {
    let Some(from) = upkeep.copy_from.take() else { return Ok(()) };
    let (entries, next) = tree.top.listing(&from);
    *leaves_left = leaves_left.saturating_sub(1 + entries.len() as u64 / SPACING);
    for (low, number) in &entries {
        let node = tree.nodes.get(*number);
        if node.is_folded() || tree.anchors.has(node.leaf()) {
            upkeep.copy_since = 0;
            continue;
        }
        upkeep.copy_since += 1;
        // The root names the first leaf, whose lowest key is empty.
        if upkeep.copy_since < SPACING || low.is_empty() {
            continue;
        }
        match add(tree, low, *number)? {
            Added::Done => upkeep.copy_since = 0,
            Added::Busy => {}
            Added::Full => return Ok(()),
        }
    }
    upkeep.copy_from = next;
    Ok(())
}

enum Added {
    Done,
    /// Somebody is at work there, or the leaf is gone: the one behind it will do.
    Busy,
    Full,
}

fn add<R: Region>(tree: &SpTree<R>, low: &[u8], number: u32) -> Result<Added> {
    let node = tree.nodes.get(number);
    let Some(locked) = Locked::unless_busy(node) else { return Ok(Added::Busy) };
    // While the node is locked, its leaf stays in the list if it is in the top layer now.
    if !tree.top.names(low, number) {
        return Ok(Added::Busy);
    }
    let added = tree.anchors.add(&tree.space, locked.node.leaf(), || upgrade(&tree.space));
    Ok(if added.map_err(|error| tree.poison(error))? { Added::Done } else { Added::Full })
}
