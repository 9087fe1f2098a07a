//! Writes that stay in a leaf's buffer and in the log (section 4.4.4, insert, update and delete).
//!
//! 1. The holder of a node's lock makes an entry beside the leaf durable, if there is one, appends
//!    a record, fenced, and then changes the buffer: readers
//!    see nothing that a power cut could take.
//! 2. A buffer that is full, has 255 records, or finds no room in the log, goes to the leaf with
//!    the write that found it so.
//! 3. A key is in a buffer at most once, and the place knows whether the leaf has the key, so
//!    entries are counted without a second look.
//! 4. An object that a place names is the buffer's alone. A place of a deleted key names the
//!    leaf's.
//! 5. A buffer goes back when the log has no record of it that counts.

use super::apply::{Applied, apply, unlock_and_free};
use super::buffers::{Buffer, Buffered, RECORDS_MAX};
use super::change::{Change, Target, make_slot, note_of};
use super::check::check_locked;
use super::entry::Torn;
use super::layout::{Slot, tag_of};
use super::leaf::{Leaf, is_possible};
use super::log::Record;
use super::nodes::Node;
use super::tree::{Locked, SpTree};
use silica_base::{ErrorKind, Result};
use silica_device::region::Region;

/// Buffers that are looked at for one with few writes, each time that a leaf asks for one.
const TURNS: u32 = 32;
/// Leaves whose first lines are asked for ahead.
const LEAVES_AHEAD: usize = 8;
/// A leaf without a buffer asks for one at every eighth write: those with more writes ask more.
const ASKS_MASK: u64 = 7 << 1;

/// A buffer, its leaf, and what of both a write looks at.
struct Place<'t, R: Region> {
    tree: &'t SpTree<R>,
    node: Node<'t>,
    buffer: Buffer<'t>,
    leaf: Leaf<'t, R>,
}

/// Changes a key in the buffer of a checked node that is locked; `None`, and nothing has happened,
/// if the change has to be made in the leaf.
///
/// # Errors
/// `Full`, `Corruption`, `Io`, `Poisoned`.
pub(crate) fn buffer_one<R: Region>(
    tree: &SpTree<R>,
    locked: &Locked<'_>,
    number: u32,
    change: &Change<'_>,
) -> Result<Option<Applied>> {
    let node = locked.node;
    if tree.config.buffers_percent == 0 {
        return Ok(None);
    }
    if node.buffer() == 0 && !attach(tree, node, number) {
        return Ok(None);
    }
    let place = Place {
        tree,
        node: tree.nodes.get(number),
        buffer: tree.buffers.get(node.buffer()),
        leaf: tree.leaf(node.leaf()),
    };
    if place.buffer.records() == RECORDS_MAX {
        return Ok(None);
    }
    place.buffer.count_write();
    match change.to {
        Target::Removed => place.remove(change),
        Target::Entry(_) | Target::Slot(_) => place.put(change),
    }
}

impl<R: Region> Place<'_, R> {
    fn damaged(&self, torn: Torn) -> silica_base::Error {
        torn.error(self.tree.space.name())
    }

    /// The slot that the leaf has of a key.
    fn in_leaf(&self, change: &Change<'_>) -> Result<Option<Slot>> {
        if self.tree.config.has_filters && !self.node.may_have(change.hash) {
            return Ok(None);
        }
        let found = self.leaf.find(change.key, tag_of(change.hash));
        Ok(found.map_err(|torn| self.damaged(torn))?.map(|(_, slot)| slot))
    }

    fn find(&self, change: &Change<'_>) -> Result<Option<(usize, Buffered)>> {
        let found = self.buffer.find(&self.leaf, change.key, tag_of(change.hash));
        found.map_err(|torn| self.damaged(torn))
    }

    fn note(&self, change: &Change<'_>, before: Option<Slot>) -> Result<()> {
        match note_of(self.tree, &self.leaf, change.key, before)? {
            Some(note) => self.tree.note(vec![note]),
            None => Ok(()),
        }
    }

    fn put(&self, change: &Change<'_>) -> Result<Option<Applied>> {
        let found = self.find(change)?;
        let (at, is_in_leaf, before) = match found {
            Some((at, old)) => (at, old.is_in_leaf, (!old.is_deleted).then_some(old.slot)),
            None => {
                let Some(at) = self.buffer.free_place() else { return Ok(None) };
                let before = self.in_leaf(change)?;
                (at, before.is_some(), before)
            }
        };
        self.note(change, before)?;
        let slot = match &change.to {
            Target::Entry(entry) => make_slot(self.tree, change.key, entry, change.hash)?,
            Target::Slot(slot) => *slot,
            Target::Removed => unreachable!("a put"),
        };
        if !self.record(at, Buffered { slot, is_deleted: false, is_in_leaf })? {
            slot.beside_at().into_iter().for_each(|made| self.tree.space.free(made));
            return Ok(None);
        }
        self.tree.add_entries(i64::from(before.is_none()));
        Ok(Some(Applied { leaves_few: false, stale: own_object(found) }))
    }

    fn remove(&self, change: &Change<'_>) -> Result<Option<Applied>> {
        let found = self.find(change)?;
        let (at, of_leaf, before) = match found {
            Some((_, old)) if old.is_deleted => (None, None, None),
            Some((at, old)) if !old.is_in_leaf => (Some(at), None, Some(old.slot)),
            Some((at, old)) => (Some(at), self.in_leaf(change)?, Some(old.slot)),
            None => match self.in_leaf(change)? {
                None => (None, None, None),
                Some(slot) => {
                    let Some(at) = self.buffer.free_place() else { return Ok(None) };
                    (Some(at), Some(slot), Some(slot))
                }
            },
        };
        self.note(change, before)?;
        let (Some(at), Some(before)) = (at, before) else { return Ok(Some(Applied::default())) };
        // A deleted key that the leaf does not have leaves a free place.
        let slot = of_leaf.unwrap_or(before);
        let deleted = Buffered { slot, is_deleted: true, is_in_leaf: of_leaf.is_some() };
        if !self.record(at, deleted)? {
            return Ok(None);
        }
        self.tree.add_entries(-1);
        let entries = i64::from(self.leaf.bitmap().count_ones()) + self.buffer.added();
        Ok(Some(Applied { leaves_few: entries <= 16, stale: own_object(found) }))
    }

    /// Logs what a place becomes, and has it become that; false if the log has no room.
    fn record(&self, at: usize, place: Buffered) -> Result<bool> {
        let (records, mark) = (self.buffer.records(), self.buffer.mark());
        let Buffered { slot, is_deleted, is_in_leaf } = place;
        let (leaf, ordinal) = (self.leaf.at, records as u8);
        let record = Record { leaf, mark, ordinal, place: at as u8, is_deleted, is_in_leaf, slot };
        let space = &self.tree.space;
        // An entry beside the leaf is durable before the record that names it.
        let is_ready = match slot.beside_at() {
            Some(_) if !is_deleted => space.region().fence(),
            _ => Ok(()),
        };
        let appended = is_ready.and_then(|()| self.tree.log.append(space, &record));
        if !appended.map_err(|error| self.tree.poison(error))? {
            return Ok(false);
        }
        self.buffer.set_records(mark, records + 1);
        if is_deleted && !is_in_leaf {
            self.buffer.clear_place(at);
        } else {
            self.buffer.set(at, place);
        }
        Ok(true)
    }
}

/// The object of a place that is written again.
fn own_object(found: Option<(usize, Buffered)>) -> Vec<u64> {
    let slot = found.filter(|(_, old)| !old.is_deleted).map(|(_, old)| old.slot);
    slot.and_then(|slot| slot.beside_at()).into_iter().collect()
}

/// Gives a locked node a buffer if there is one to have.
fn attach<R: Region>(tree: &SpTree<R>, node: Node<'_>, number: u32) -> bool {
    let mark = tree.leaf(node.leaf()).mark();
    if tree.log.comes_soon(mark) {
        return false;
    }
    let Some(taken) = tree.buffers.take(tree.buffers_max()) else { return false };
    let buffer = tree.buffers.get(taken);
    buffer.reset(mark);
    buffer.set_owner(Some(number), 1);
    node.set_buffer(taken);
    true
}

/// Takes the buffer of a locked node away, which has no records that count.
pub(crate) fn detach<R: Region>(tree: &SpTree<R>, node: Node<'_>) {
    let number = node.buffer();
    if number != 0 {
        debug_assert_eq!(tree.buffers.get(number).records(), 0);
        node.set_buffer(0);
        tree.buffers.give_back(number);
    }
}

/// True if a leaf that was just written, whose node had this version, asks for a buffer.
#[inline(always)]
pub(crate) fn asks<R: Region>(tree: &SpTree<R>, node: Node<'_>, version: u64) -> bool {
    tree.config.buffers_percent != 0 && node.buffer() == 0 && version & ASKS_MASK == 0
}

/// Takes the buffer of a leaf with few writes away, so that another leaf gets it with its next
/// write. A leaf that is written between two of these visits keeps its buffer. The caller holds
/// the gate, and no lock of a node. False if all buffers are in use, or others hold their nodes.
///
/// # Errors
/// `Corruption`, `Io`, `Poisoned`.
pub(crate) fn evict<R: Region>(tree: &SpTree<R>) -> Result<bool> {
    for _ in 0..TURNS.min(tree.buffers.made()) {
        let Some((number, owner)) = tree.buffers.next_in_turn() else { continue };
        let Some(locked) = lock_if(tree, owner, |node| node.buffer() == number) else { continue };
        let buffer = tree.buffers.get(number);
        if buffer.writes() > 0 {
            buffer.set_owner(Some(owner), buffer.writes() / 2);
            continue;
        }
        check_locked(tree, &locked)?;
        let Applied { stale, .. } = match apply(tree, &locked, &[]) {
            Ok(applied) => applied,
            // The leaf would split and has no room for that: the buffer stays.
            Err(error) if error.kind() == ErrorKind::Full => return Ok(false),
            Err(error) => return Err(error),
        };
        detach(tree, locked.node);
        unlock_and_free(tree, locked, &stale);
        return Ok(true);
    }
    Ok(false)
}

/// Locks a node if nobody else has it and it is what `wanted` says.
fn lock_if<'t, R: Region>(
    tree: &'t SpTree<R>,
    number: u32,
    wanted: impl FnOnce(Node<'t>) -> bool,
) -> Option<Locked<'t>> {
    let node = tree.nodes.get(number);
    let locked = Locked::unless_busy(node)?;
    wanted(node).then_some(locked)
}

/// What a node's buffer has goes to its leaf, if it has anything. The caller holds the gate.
///
/// # Errors
/// `Full`, `Corruption`, `Io`, `Poisoned`.
pub(crate) fn empty_buffer<R: Region>(tree: &SpTree<R>, number: u32) -> Result<()> {
    let node = tree.nodes.get(number);
    node.lock();
    let locked = Locked { node };
    check_locked(tree, &locked)?;
    let applied = apply(tree, &locked, &[])?;
    unlock_and_free(tree, locked, &applied.stale);
    Ok(())
}

/// Makes room in the log: the buffers that its oldest segment is about go to their leaves. The
/// caller holds no lock of a node.
///
/// # Errors
/// `Io`, `Poisoned`.
pub(crate) fn make_room<R: Region>(tree: &SpTree<R>) -> Result<()> {
    let _with_others = tree.gate.read();
    let Some((segment, records)) = tree.log.oldest(&tree.space) else { return Ok(()) };
    let mut leaves: Vec<(u64, u32)> =
        records.iter().map(|record| (record.leaf, record.mark)).collect();
    leaves.sort_unstable();
    leaves.dedup();
    let mut is_whole = true;
    for (number, (leaf, mark)) in leaves.iter().copied().enumerate() {
        if let Some((later, _)) = leaves.get(number + LEAVES_AHEAD) {
            tree.space.region().prefetch(*later);
        }
        match empty_leaf(tree, leaf, mark) {
            Ok(()) => {}
            // Its records stay until the leaf has room, or is mended.
            Err(error) if matches!(error.kind(), ErrorKind::Full | ErrorKind::Corruption) => {
                is_whole = false;
            }
            Err(error) => {
                tree.log.keep(segment);
                return Err(error);
            }
        }
    }
    match is_whole {
        true => tree.log.emptied(&tree.space, segment),
        false => tree.log.keep(segment),
    }
    Ok(())
}

/// The buffer of the leaf at `at` goes to the leaf, if the leaf is there and has this mark.
fn empty_leaf<R: Region>(tree: &SpTree<R>, at: u64, mark: u32) -> Result<()> {
    // Most records of the oldest segment do not count any more: this costs them one line. The
    // region may have become shorter than where their leaves lay.
    if !is_possible(tree.space.region(), at) || tree.leaf(at).mark() != mark {
        return Ok(());
    }
    // What lies there may be no leaf any more: then no node that is found says that it is.
    let Ok((low, _)) = tree.leaf(at).low() else { return Ok(()) };
    let is_it = |node: Node<'_>| {
        let buffer = tree.buffer_of(node);
        node.leaf() == at && buffer.is_some_and(|buffer| buffer.mark() == mark)
    };
    let (number, _) = tree.top.find(&low, &tree.nodes);
    let node = tree.nodes.get(number);
    if !is_it(node) {
        return Ok(());
    }
    node.lock();
    let locked = Locked { node };
    if !is_it(node) {
        return Ok(());
    }
    check_locked(tree, &locked)?;
    let applied = apply(tree, &locked, &[])?;
    unlock_and_free(tree, locked, &applied.stale);
    Ok(())
}

/// All buffers go to their leaves, and the log is empty. By whoever has the gate alone. What has no
/// room or is damaged stays in the log, and the answer is false.
///
/// # Errors
/// `Io`, `Poisoned`.
pub(crate) fn empty_all<R: Region>(
    tree: &SpTree<R>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<bool> {
    let made = tree.buffers.made();
    let mut is_whole = true;
    for number in 1..=made {
        if number % 4096 == 0 {
            progress(u64::from(number), u64::from(made));
        }
        let Some(owner) = tree.buffers.get(number).owner() else { continue };
        match empty_buffer(tree, owner) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::Full | ErrorKind::Corruption) => {
                is_whole = false;
            }
            Err(error) => return Err(error),
        }
    }
    if is_whole {
        tree.log.emptied_all(&tree.space);
    }
    Ok(is_whole)
}

/// The node of a key, emptied of what its buffer had.
///
/// # Errors
/// As for [`empty_buffer`].
pub(crate) fn empty_buffer_of<R: Region>(tree: &SpTree<R>, key: &[u8]) -> Result<()> {
    let (number, _) = tree.top.find(key, &tree.nodes);
    let is_empty = |buffer: Buffer<'_>| buffer.records() == 0;
    if tree.buffer_of(tree.nodes.get(number)).is_none_or(is_empty) {
        return Ok(());
    }
    let _with_others = tree.gate.read();
    let (number, _) = tree.top.find(key, &tree.nodes);
    empty_buffer(tree, number)
}
