//! Operations on the whole store.

use super::buffered::{detach, empty_all};
use super::check::check_node;
use super::copying::copy_all;
use super::leaf::bits;
use super::lock::unlock;
use super::plan::write_leaf;
use super::root::{Closing, first_leaf_word, note_closing};
use super::run::{Moment, Run};
use super::top::Seek;
use super::tree::{CLOSED, OPEN, POISONED, SpTree};
use super::unfold::unfold_all;
use super::write::write_alone;
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{Checkpoint, Count, WriteBatch};
use std::fmt::Write;
use std::sync::atomic::Ordering;

/// The number of entries.
pub(crate) fn count<R: Region>(tree: &SpTree<R>, exact: bool) -> Result<Count> {
    let entries = tree.entries_guess();
    let is_known = tree.is_counted || tree.folded() == 0;
    let expires = tree.unchecked() > 0 || tree.next_expiry_ms.load(Ordering::Relaxed) < u64::MAX;
    if !exact || !expires {
        let low = if expires { 0 } else { entries };
        let high = if is_known { entries } else { u64::MAX };
        return Ok(Count { low, estimate: entries, high });
    }
    let moment = Moment { sequence: None, unix_ms: tree.clock.unix_ms(), is_of_keys: true };
    let (mut run, mut from, mut exactly) = (Run::default(), Vec::new(), 0);
    loop {
        run.load(tree, Some(&from), Seek::At, moment)?;
        exactly += (run.len() - run.before(&from)) as u64;
        match run.bounds.upper.take() {
            Some(upper) => from = upper,
            None => return Ok(Count { low: exactly, estimate: exactly, high: exactly }),
        }
    }
}

/// Removes every entry: a new leaf becomes the first.
pub(crate) fn clear<R: Region>(tree: &SpTree<R>) -> Result<()> {
    let _alone = tree.gate.write();
    if tree.history.is_held() {
        // They go on seeing what they see.
        let mut all = WriteBatch::new();
        all.delete_range(b"", None);
        return write_alone(tree, &all).map(|_| ());
    }
    unfold_all(tree);
    let mut made = Vec::new();
    let give_up = |made: &[u64]| made.iter().for_each(|at| tree.space.free(*at));
    let leaf = write_leaf(tree, b"", &[], 0, &mut made).inspect_err(|_| give_up(&made))?;
    let Some(node) = tree.nodes.make(leaf, false) else {
        give_up(&made);
        return Err(super::plan::too_many_leaves());
    };
    let cleared = tree.entries();
    let mut words = tree.anchors.clearing();
    words.push(first_leaf_word(tree.space.store(), leaf));
    tree.space.commit(&words).map_err(|error| tree.poison(error))?;
    tree.anchors.cleared().into_iter().for_each(|piece| tree.space.free(piece));
    let old = tree.top.reset(node);
    tree.add_entries((cleared as i64).wrapping_neg());
    for number in old {
        free_leaf(tree, number);
    }
    Ok(())
}

/// Frees a leaf that nothing names any more, with its entries.
fn free_leaf<R: Region>(tree: &SpTree<R>, number: u32) {
    let node = tree.nodes.get(number);
    if node.is_folded() {
        // The links from here on are damaged: what they reach stays until the next opening.
        tree.unchecked.fetch_sub(1, Ordering::Relaxed);
        tree.folded.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    // What a leaf reaches that is damaged stays until the next opening.
    let is_sound = check_node(tree, number).is_ok();
    node.lock();
    let leaf = tree.leaf(node.leaf());
    let mut objects = vec![leaf.at];
    if is_sound {
        objects.extend(bits(leaf.bitmap()).filter_map(|at| leaf.slot(at).beside_at()));
        objects.extend(leaf.low().ok().and_then(|low| low.1));
        if let Some(buffer) = tree.buffer_of(node) {
            let own = buffer.places().filter(|(_, place)| !place.is_deleted);
            objects.extend(own.filter_map(|(_, place)| place.slot.beside_at()));
        }
    } else {
        tree.unchecked.fetch_sub(1, Ordering::Relaxed);
    }
    if let Some(buffer) = tree.buffer_of(node) {
        // The leaf is none of the tree's any more, so its records do not count.
        buffer.reset(0);
        detach(tree, node);
    }
    // Readers that still look at the leaf find another version.
    unlock(node.lock_word());
    objects.iter().for_each(|at| tree.space.free(*at));
    tree.nodes.free(number);
}

/// Hands over the region as it is at one moment; writes wait.
pub(crate) fn checkpoint<R: Region>(tree: &SpTree<R>, target: &mut dyn Checkpoint) -> Result<()> {
    let _alone = tree.gate.write();
    let is_log_empty = empty_all(tree, &mut |_, _| ())?;
    note_known(tree, is_log_empty)?;
    tree.space.hand_over(&mut |bytes| target.piece(tree.space.name(), bytes))
}

/// Writes are refused from here on, and the region is settled.
pub(crate) fn close<R: Region>(tree: &SpTree<R>, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let _alone = tree.gate.write();
    if tree.state.load(Ordering::Relaxed) == POISONED {
        return Ok(());
    }
    let bytes = tree.space.region().len();
    progress(0, bytes);
    let is_log_empty = empty_all(tree, &mut |done, all| progress(bytes / 2 / all * done, bytes))?;
    copy_all(tree, &mut tree.upkeep.lock().expect("no panic while locked"))?;
    note_known(tree, is_log_empty)?;
    if !tree.space.is_marking() {
        tree.top.wait_for_readers();
        tree.space.trim()?;
    }
    tree.space.settle()?;
    tree.state.store(CLOSED, Ordering::Relaxed);
    progress(bytes, bytes);
    Ok(())
}

/// Notes for the next opening what it need not find out, if it opens from the copy of the top
/// layer.
fn note_known<R: Region>(tree: &SpTree<R>, is_log_empty: bool) -> Result<()> {
    if !tree.anchors.is_used() {
        return Ok(());
    }
    let is_counted = tree.is_counted || tree.folded() == 0;
    let closing = Closing {
        entries: is_counted.then(|| tree.entries()),
        next_mark: is_log_empty.then(|| tree.log.next_mark()),
    };
    note_closing(&tree.space, closing)
}

/// A description for people.
pub(crate) fn inspect<R: Region>(tree: &SpTree<R>) -> String {
    let mut text = String::new();
    let region = tree.space.region();
    let state = if tree.state.load(Ordering::Relaxed) == OPEN { "open" } else { "closed" };
    let lines: [(&str, String); 14] = [
        ("state", state.into()),
        ("region", tree.space.name().into()),
        ("survives", region.class().to_string()),
        ("region_bytes", region.len().to_string()),
        ("live_bytes", tree.space.live_bytes().to_string()),
        ("entries", tree.entries().to_string()),
        ("leaves", tree.top.leaves().to_string()),
        ("leaves_unchecked", tree.unchecked().to_string()),
        ("nodes_folded", tree.folded().to_string()),
        ("top_copy_bytes", tree.anchors.region_bytes().to_string()),
        ("write_buffers", tree.buffers.count().to_string()),
        ("log_bytes", tree.log.bytes().to_string()),
        ("node_bytes", tree.nodes.bytes().to_string()),
        ("top_layer_bytes", tree.top.bytes().to_string()),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}
