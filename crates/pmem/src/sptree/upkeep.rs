//! Background work, a bounded piece at a time: nodes are unfolded and leaves checked after an
//! opening, the region's copy of the top layer follows the leaves, what has
//! expired is removed, small chunks of the top layer are joined.

use super::buffered::{empty_buffer_of, evict};
use super::check::{check_node, scrub};
use super::copying::copy_some;
use super::entry::Header;
use super::layout::LEAF_BYTES;
use super::leaf::bits;
use super::top::{Bounds, Seek};
use super::tree::{Locked, SpTree, Upkeep};
use super::unfold::{MANY, unfold};
use super::write::{merge_few, remove_expired};
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{Budget, Progress};
use std::sync::atomic::Ordering;

/// Free bytes of the region that are worth giving back: so many, and this share of the region.
const GIVEN_BACK_MIN: u64 = 256 << 10;
const GIVEN_BACK_SHARE: u64 = 8;

/// Does a piece of what there is to do.
///
/// # Errors
/// `Corruption`, `Io`, `Poisoned`.
pub(crate) fn maintain<R: Region>(tree: &SpTree<R>, budget: Budget) -> Result<Progress> {
    let Ok(mut upkeep) = tree.upkeep.try_lock() else { return Ok(Progress::default()) };
    let mut leaves_left = (budget.bytes / LEAF_BYTES).max(1);
    let mut progress = Progress::default();
    check_some(tree, &mut upkeep, &mut leaves_left, &mut progress)?;
    sweep_some(tree, &mut upkeep, &mut leaves_left, &mut progress)?;
    if upkeep.check_from.is_none() {
        progress.more |= copy_some(tree, &mut upkeep, &mut leaves_left)?;
    }
    progress.more |= tree.top.join_small();
    tree.share_memory();
    progress.more |= shrink_buffers(tree, leaves_left)?;
    if budget.is_idle {
        give_back(tree)?;
    }
    Ok(progress)
}

/// Gives free space of the region back to the system, if there is much of it. Writes wait.
fn give_back<R: Region>(tree: &SpTree<R>) -> Result<()> {
    let bytes = tree.space.releasable_bytes();
    let is_much = bytes >= GIVEN_BACK_MIN && bytes >= tree.space.region().len() / GIVEN_BACK_SHARE;
    if !is_much || tree.space.is_marking() {
        return Ok(());
    }
    // Writers look at leaves that a record of the log names, and readers at those of the top layer
    // as it was: the region does not become shorter under them.
    let _alone = tree.gate.write();
    tree.top.wait_for_readers();
    tree.space.trim().map(drop).map_err(|error| tree.poison(error))
}

/// Takes buffers away that there is no memory for any more; true if there are more of them.
fn shrink_buffers<R: Region>(tree: &SpTree<R>, leaves: u64) -> Result<bool> {
    let max = tree.buffers_max();
    for _ in 0..leaves.max(1) {
        if tree.buffers.count() <= max {
            return Ok(false);
        }
        let _with_others = tree.gate.read();
        // Buffers that were written lately are left in the first rounds.
        if !evict(tree)? {
            return Ok(false);
        }
    }
    Ok(tree.buffers.count() > max)
}

/// Checks leaves that were not touched since the opening.
fn check_some<R: Region>(
    tree: &SpTree<R>,
    upkeep: &mut Upkeep,
    leaves_left: &mut u64,
    progress: &mut Progress,
) -> Result<()> {
    let mut bounds = Bounds::default();
    while let Some(from) = upkeep.check_from.take() {
        if *leaves_left == 0 {
            upkeep.check_from = Some(from);
            progress.more = true;
            return Ok(());
        }
        tree.top.bounds(Some(&from), Seek::At, &tree.nodes, &mut bounds);
        let node = tree.nodes.get(bounds.node);
        if node.is_folded() {
            let leaves = (*leaves_left).min(MANY as u64);
            let unfolded = unfold(tree, bounds.node, leaves as usize);
            upkeep.check_from = Some(from);
            unfolded?;
            // A link costs a tenth of the check of a leaf.
            *leaves_left -= leaves.div_ceil(10);
            progress.bytes += leaves * 64;
            continue;
        }
        if node.is_unchecked() {
            if let Err(error) = check_node(tree, bounds.node) {
                upkeep.check_from = Some(from);
                return Err(error);
            }
            *leaves_left -= 1;
            progress.bytes += LEAF_BYTES;
        }
        upkeep.check_from = bounds.upper.take();
    }
    if tree.unchecked() == 0 && tree.is_marking.load(Ordering::Relaxed) {
        // Every leaf of the opening has told what it reaches.
        tree.space.marks_done()?;
        tree.is_marking.store(false, Ordering::Release);
    }
    Ok(())
}

/// Removes what has expired, leaf by leaf. Snapshots that are held still see it, so it stays then.
fn sweep_some<R: Region>(
    tree: &SpTree<R>,
    upkeep: &mut Upkeep,
    leaves_left: &mut u64,
    progress: &mut Progress,
) -> Result<()> {
    let now_ms = tree.clock.unix_ms();
    if upkeep.sweep_from.is_none() {
        if tree.unchecked() > 0 || tree.next_expiry_ms.load(Ordering::Relaxed) > now_ms {
            return Ok(());
        }
        // What is put from here on lowers it again.
        tree.next_expiry_ms.store(u64::MAX, Ordering::Relaxed);
        (upkeep.sweep_from, upkeep.sweep_expiry_ms) = (Some(Vec::new()), u64::MAX);
    }
    let mut bounds = Bounds::default();
    while let Some(from) = upkeep.sweep_from.take() {
        if *leaves_left == 0 || tree.history.is_held() {
            upkeep.sweep_from = Some(from);
            progress.more |= *leaves_left == 0;
            return Ok(());
        }
        empty_buffer_of(tree, &from)?;
        tree.top.bounds(Some(&from), Seek::At, &tree.nodes, &mut bounds);
        *leaves_left -= 1;
        progress.bytes += LEAF_BYTES;
        let (over, next_ms) = expired_keys(tree, bounds.node, now_ms)?;
        upkeep.sweep_expiry_ms = upkeep.sweep_expiry_ms.min(next_ms);
        for key in &over {
            remove_expired(tree, key, now_ms)?;
        }
        if !over.is_empty() {
            merge_few(tree, vec![from]);
        }
        upkeep.sweep_from = bounds.upper.take();
    }
    tree.note_expiry(upkeep.sweep_expiry_ms);
    Ok(())
}

/// Keys of a leaf that have expired, and when the next one does.
fn expired_keys<R: Region>(
    tree: &SpTree<R>,
    number: u32,
    now_ms: u64,
) -> Result<(Vec<Vec<u8>>, u64)> {
    let node = tree.nodes.get(number);
    node.lock();
    let locked = Locked { node };
    let leaf = tree.leaf(locked.node.leaf());
    let (mut over, mut next_ms) = (Vec::new(), u64::MAX);
    let damaged = |torn: super::entry::Torn| torn.error(tree.space.name());
    for at in bits(leaf.bitmap()) {
        let slot = leaf.slot(at);
        let Some(entry) = slot.beside_at() else { continue };
        let header = Header::read(leaf.region(), entry).map_err(damaged)?;
        if header.is_over(now_ms) {
            let mut key = Vec::new();
            header.read_key(leaf.region(), &mut key);
            over.push(key);
        } else if header.expires_unix_ms != 0 {
            next_ms = next_ms.min(header.expires_unix_ms);
        }
    }
    Ok((over, next_ms))
}

/// Checks every leaf with its values, and that leaves and top layer fit.
///
/// # Errors
/// `Corruption`.
pub(crate) fn verify<R: Region>(tree: &SpTree<R>) -> Result<()> {
    let (mut from, mut bounds) = (Some(Vec::new()), Bounds::default());
    while let Some(key) = from {
        let locked = lock_leaf(tree, &key, &mut bounds)?;
        super::check::check_locked(tree, &locked)?;
        let leaf = tree.leaf(locked.node.leaf());
        let scrubbed = scrub(tree, locked.node, &leaf, &bounds.lower, bounds.upper.as_deref());
        scrubbed.map_err(|torn| torn.error(tree.space.name()))?;
        from = bounds.upper.take();
    }
    Ok(())
}

/// Locks the leaf of `key`: its bounds stay while it is locked.
///
/// # Errors
/// Those of [`unfold`].
fn lock_leaf<'t, R: Region>(
    tree: &'t SpTree<R>,
    key: &[u8],
    bounds: &mut Bounds,
) -> Result<Locked<'t>> {
    let mut backoff = super::sync::Backoff::default();
    loop {
        tree.top.bounds(Some(key), Seek::At, &tree.nodes, bounds);
        let node = tree.nodes.get(bounds.node);
        if node.is_folded() {
            unfold(tree, bounds.node, MANY)?;
            continue;
        }
        if let Some(locked) = Locked::at(node, bounds.version) {
            return Ok(locked);
        }
        backoff.pause();
    }
}
