//! Puts and deletes (sections 4.4.2 and 4.4.4), one by one and as batches.
//!
//! A write of one key locks its node. A batch of several keys has the tree's gate alone, prepares
//! each leaf it changes, and then has all words change at once: all of it is there after a crash,
//! or nothing.

use super::apply::{apply, settle_failed, unlock_and_free};
use super::buffered::{asks, buffer_one, evict, make_room};
use super::change::Change;
use super::check::{check_locked, check_node};
use super::entry::check_sizes;
use super::layout::tag_of;
use super::merge::merge_small;
use super::nodes::{NUMBER_BITS, Node};
use super::plan::{Plan, direct};
use super::run::keys_within;
use super::sync::Backoff;
use super::top::{Bounds, Seek};
use super::tree::{Locked, SpTree};
use super::unfold::{FEW, unfold};
use crate::space::Change as WordChange;
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::Region;
use silica_engine::optimistic::{Conditions, Seen};
use silica_engine::{Op, OpKind, WriteBatch};
use std::collections::BTreeMap;

/// Bytes of keys and values of a batch at most.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 30;

/// The state of a key: its node and the node's version.
pub(crate) fn seen<R: Region>(tree: &SpTree<R>, key: &[u8]) -> Seen {
    loop {
        let (node, version) = tree.top.find(key, &tree.nodes);
        // The check would give the node another version later. What it finds is told by the read.
        if !tree.nodes.get(node).is_unchecked() || check_node(tree, node).is_err() {
            return pack(node, version);
        }
    }
}

/// Versions of one node are told apart for 2^35 changes.
fn pack(node: u32, version: u64) -> Seen {
    Seen::Elsewhere(u64::from(node) | version << NUMBER_BITS)
}

/// Refuses what is too large, before anything happens.
fn check_batch(batch: &WriteBatch<'_>) -> Result<()> {
    let mut bytes = 0;
    for op in batch.ops() {
        let value = match op.kind {
            OpKind::Put(entry) => Some(entry.value),
            OpKind::Delete | OpKind::DeleteRange(_) => None,
        };
        check_sizes(op.key, value)?;
        bytes += op.key.len() + value.map_or(0, <[u8]>::len);
    }
    if bytes > BATCH_BYTES_MAX && batch.len() > 1 {
        let message = format!("a batch of {bytes} bytes is over {BATCH_BYTES_MAX}; divide it");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// Writes a batch if all conditions hold; false, and nothing happens, if one does not.
///
/// # Errors
/// Those of [`silica_engine::Engine::write`].
pub(crate) fn write_if<R: Region>(
    tree: &SpTree<R>,
    batch: &WriteBatch<'_>,
    conditions: Conditions<'_>,
) -> Result<bool> {
    check_batch(batch)?;
    let is_over = || {
        let expires = conditions.expires_unix_ms;
        expires != 0 && expires <= tree.clock.unix_ms()
    };
    if let ([op], [] | [_]) = (batch.ops(), conditions.keys)
        && !batch.has_ranges()
        && conditions.keys.iter().all(|condition| condition.key == op.key)
    {
        let expected = conditions.keys.first().map(|condition| condition.seen);
        return write_one(tree, op, expected, is_over);
    }
    let is_written = {
        let _alone = tree.gate.write();
        let holds = conditions.keys.iter().all(|key| seen(tree, key.key) == key.seen);
        if !holds || is_over() {
            return Ok(false);
        }
        write_alone(tree, batch)?
    };
    merge_few(tree, is_written);
    Ok(true)
}

/// Asks the processor for the leaves of these keys, which are written soon.
pub(crate) fn prefetch_leaves<R: Region>(tree: &SpTree<R>, ops: &[Op<'_>]) {
    tree.top.view(|view| {
        for op in ops {
            if let Some(found) = view.find_in(view.chunk_of(op.key), op.key, Seek::At) {
                prefetch_of(tree, tree.nodes.get(found.node));
            }
        }
    });
}

/// Asks the processor for what a write of a node's leaf looks at first.
fn prefetch_of<R: Region>(tree: &SpTree<R>, node: Node<'_>) {
    match node.buffer() {
        0 => tree.leaf(node.leaf()).prefetch(),
        buffer => tree.buffers.prefetch(buffer),
    }
}

/// Leaves that a write has left with few entries are merged, as far as that does not wait.
pub(crate) fn merge_few<R: Region>(tree: &SpTree<R>, keys: Vec<Vec<u8>>) {
    let mut bounds = Bounds::default();
    for key in keys {
        // Only room would be gained, so an error waits for whoever reads the leaf.
        if merge_small(tree, &key).unwrap_or(true) {
            continue;
        }
        tree.top.bounds(Some(&key), Seek::At, &tree.nodes, &mut bounds);
        if !bounds.lower.is_empty() {
            let lower = std::mem::take(&mut bounds.lower);
            tree.top.bounds(Some(&lower), Seek::Before, &tree.nodes, &mut bounds);
            let _ = merge_small(tree, &bounds.lower);
        }
    }
}

/// Writes one key.
fn write_one<R: Region>(
    tree: &SpTree<R>,
    op: &Op<'_>,
    expected: Option<Seen>,
    is_over: impl Fn() -> bool,
) -> Result<bool> {
    let entry = match op.kind {
        OpKind::Put(entry) => Some(entry),
        OpKind::Delete | OpKind::DeleteRange(_) => None,
    };
    let change = Change::new(op.key, tree.hash(op.key), entry);
    if tree.log.is_short() {
        make_room(tree)?;
    }
    let leaves_few = {
        let _with_others = tree.gate.read();
        let Some((locked, number, version)) = lock_node(tree, op.key, expected)? else {
            return Ok(false);
        };
        if is_over() {
            return Ok(false);
        }
        check_locked(tree, &locked)?;
        let leaves_few = change_one(tree, locked, number, &change)?;
        // Another leaf's damage is no failure of this write: it waits for whoever reads that leaf.
        if asks(tree, tree.nodes.get(number), version) && evict(tree).unwrap_or(false) {
            tree.counts.add(|counts| &counts.buffer_evictions, 1);
        }
        leaves_few
    };
    count(tree, op);
    if leaves_few {
        merge_few(tree, vec![op.key.to_vec()]);
    }
    Ok(true)
}

/// Locks the node of `key`: its number, and the version it had; `None` if it is not in the expected
/// state.
///
/// # Errors
/// Those of [`unfold`].
fn lock_node<'t, R: Region>(
    tree: &'t SpTree<R>,
    key: &[u8],
    expected: Option<Seen>,
) -> Result<Option<(Locked<'t>, u32, u64)>> {
    let mut backoff = Backoff::default();
    loop {
        let (number, version) = tree.top.find(key, &tree.nodes);
        if expected.is_some_and(|expected| expected != pack(number, version)) {
            return Ok(None);
        }
        let node = tree.nodes.get(number);
        if node.is_folded() {
            unfold(tree, number, FEW)?;
            continue;
        }
        prefetch_of(tree, node);
        if let Some(locked) = Locked::at(node, version) {
            return Ok(Some((locked, number, version)));
        }
        backoff.pause();
    }
}

/// Changes one key of a checked node that is locked, in its buffer or in its leaf; true if the leaf
/// is left with few entries.
fn change_one<R: Region>(
    tree: &SpTree<R>,
    locked: Locked<'_>,
    number: u32,
    change: &Change<'_>,
) -> Result<bool> {
    let applied = match buffer_one(tree, &locked, number, change)? {
        Some(applied) => applied,
        None => match direct::put(tree, locked.node, change)? {
            Some(applied) => applied,
            None => apply(tree, &locked, &[*change])?,
        },
    };
    unlock_and_free(tree, locked, &applied.stale);
    Ok(applied.leaves_few)
}

fn count<R: Region>(tree: &SpTree<R>, op: &Op<'_>) {
    let mine = tree.counts.mine();
    match op.kind {
        OpKind::Put(entry) => {
            mine.add(|counts| &counts.puts, 1);
            let bytes = op.key.len() + entry.value.len();
            mine.add(|counts| &counts.user_bytes, bytes as u64);
        }
        OpKind::Delete | OpKind::DeleteRange(_) => {
            mine.add(|counts| &counts.deletes, 1);
            mine.add(|counts| &counts.user_bytes, op.key.len() as u64);
        }
    }
}

/// Writes a batch by whoever has the gate alone. Keys of leaves that are left with few entries.
///
/// # Errors
/// Those of [`silica_engine::Engine::write`].
pub(crate) fn write_alone<R: Region>(
    tree: &SpTree<R>,
    batch: &WriteBatch<'_>,
) -> Result<Vec<Vec<u8>>> {
    check_batch(batch)?;
    let mut last: BTreeMap<Vec<u8>, Option<usize>> = BTreeMap::new();
    for (at, op) in batch.ops().iter().enumerate() {
        if let OpKind::DeleteRange(upper) = op.kind {
            let doomed = keys_within(tree, op.key, upper)?;
            last.extend(doomed.into_iter().map(|key| (key, None)));
            let is_within = |key: &[u8]| key >= op.key && upper.is_none_or(|upper| key < upper);
            last.iter_mut().filter(|(key, _)| is_within(key)).for_each(|(_, at)| *at = None);
        } else {
            last.insert(op.key.to_vec(), Some(at));
        }
    }
    let changes: Vec<Change<'_>> = last
        .iter()
        .map(|(key, at)| {
            let entry = at.and_then(|at| match batch.ops()[at].kind {
                OpKind::Put(entry) => Some(entry),
                OpKind::Delete | OpKind::DeleteRange(_) => None,
            });
            Change::new(key, tree.hash(key), entry)
        })
        .collect();
    let few = change_many(tree, &changes)?;
    batch.ops().iter().for_each(|op| count(tree, op));
    Ok(few)
}

/// Changes different keys, in order, as one step. Keys of leaves that are left with few entries.
fn change_many<R: Region>(tree: &SpTree<R>, changes: &[Change<'_>]) -> Result<Vec<Vec<u8>>> {
    let mut plans: Vec<(Plan, u32)> = Vec::new();
    let prepared = prepare_many(tree, changes, &mut plans).and_then(|notes| tree.note(notes));
    if let Err(error) = prepared {
        plans.iter().for_each(|(plan, _)| plan.give_up(tree));
        return Err(error);
    }
    let mut few = Vec::new();
    let mut words: Vec<WordChange> = Vec::new();
    let mut locked: Vec<(Plan, Locked<'_>)> = Vec::with_capacity(plans.len());
    for (plan, number) in plans {
        if plan.is_empty() {
            continue;
        }
        let node = tree.nodes.get(number);
        node.lock();
        plan.prepare_filter(node);
        plan.words(tree.space.store(), &mut words);
        locked.push((plan, Locked { node }));
    }
    if let Err(error) = tree.space.commit(&words) {
        let plans = locked.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        let nodes = plans.1.iter().map(|locked| locked.node);
        return Err(settle_failed(tree, plans.0.into_iter().zip(nodes).collect(), error));
    }
    let mut stale = Vec::new();
    for (plan, locked) in locked {
        tree.add_entries(plan.added());
        if plan.leaves_few() {
            few.push(tree.leaf(locked.node.leaf()).low().map_or(Vec::new(), |low| low.0));
        }
        stale.extend(plan.finish(tree, locked.node));
    }
    stale.iter().for_each(|at| tree.space.free(*at));
    Ok(few)
}

/// Prepares the changes leaf by leaf; what keys were, if a snapshot is held.
fn prepare_many<R: Region>(
    tree: &SpTree<R>,
    mut changes: &[Change<'_>],
    plans: &mut Vec<(Plan, u32)>,
) -> Result<Vec<(Vec<u8>, Option<super::history::Kept>)>> {
    let (mut notes, mut bounds) = (Vec::new(), Bounds::default());
    while let Some(first) = changes.first() {
        tree.top.bounds(Some(first.key), Seek::At, &tree.nodes, &mut bounds);
        if tree.nodes.get(bounds.node).is_folded() {
            unfold(tree, bounds.node, FEW)?;
            continue;
        }
        let upper = bounds.upper.as_deref();
        let len = changes.partition_point(|change| upper.is_none_or(|upper| change.key < upper));
        let (own, rest) = changes.split_at(len);
        changes = rest;
        check_node(tree, bounds.node)?;
        let mut plan = Plan::prepare(tree, tree.nodes.get(bounds.node), own)?;
        notes.append(&mut plan.notes);
        plans.push((plan, bounds.node));
    }
    Ok(notes)
}

/// Removes a key if it has expired and no snapshot is held.
pub(crate) fn remove_expired<R: Region>(tree: &SpTree<R>, key: &[u8], now_ms: u64) -> Result<()> {
    let _with_others = tree.gate.read();
    if tree.history.is_held() {
        return Ok(());
    }
    let hash = tree.hash(key);
    let Some((locked, number, _)) = lock_node(tree, key, None)? else { return Ok(()) };
    check_locked(tree, &locked)?;
    let damaged = |torn: super::entry::Torn| torn.error(tree.space.name());
    let leaf = tree.leaf(locked.node.leaf());
    let buffered = match tree.buffer_of(locked.node) {
        Some(buffer) => buffer.find(&leaf, key, tag_of(hash)).map_err(damaged)?,
        None => None,
    };
    let found = match buffered {
        Some((_, place)) => (!place.is_deleted).then_some(place.slot),
        None => leaf.find(key, tag_of(hash)).map_err(damaged)?.map(|(_, slot)| slot),
    };
    let Some(slot) = found else { return Ok(()) };
    let expires = leaf.read_meta(0, &slot).map_err(damaged)?.expires_unix_ms;
    if expires != 0 && expires <= now_ms {
        change_one(tree, locked, number, &Change::new(key, hash, None))?;
    }
    Ok(())
}
