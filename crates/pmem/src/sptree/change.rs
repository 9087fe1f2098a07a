//! A change of one key, and the changes that a leaf's buffer holds.

use super::buffers::Buffered;
use super::entry::{Torn, store_entry};
use super::history::Kept;
use super::layout::{Slot, tag_of};
use super::leaf::{Leaf, Meta, Value};
use super::nodes::Node;
use super::tree::SpTree;
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::EntryRef;
use std::cmp::Ordering;

/// What a key becomes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'c> {
    Entry(EntryRef<'c>),
    /// What its buffer has of it: an entry beside the leaf is stored already.
    Slot(Slot),
    Removed,
}

/// Where it stands what a key was, which snapshots go on seeing.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Before {
    InLeaf,
    /// In the buffer; `None` if it is deleted there.
    Buffered(Option<Slot>),
    /// For readers nothing changes.
    Same,
}

/// A key and what it becomes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change<'c> {
    pub(crate) key: &'c [u8],
    pub(crate) hash: u64,
    pub(crate) to: Target<'c>,
    pub(crate) before: Before,
}

impl<'c> Change<'c> {
    /// A key that gets `entry`, or is removed.
    pub(crate) fn new(key: &'c [u8], hash: u64, entry: Option<EntryRef<'c>>) -> Self {
        let to = entry.map_or(Target::Removed, Target::Entry);
        Change { key, hash, to, before: Before::InLeaf }
    }
}

/// What a buffer holds, in the order of its keys.
pub(crate) struct Gathered {
    places: Vec<(Vec<u8>, u64, Buffered)>,
    /// Entries that it has more than the leaf.
    pub(crate) added: i64,
}

impl Gathered {
    /// What the buffer of a checked node holds; `None` if the log has no record of it. Only for
    /// the holder of the lock, or of the gate alone.
    pub(crate) fn of<R: Region>(
        tree: &SpTree<R>,
        node: Node<'_>,
    ) -> Result<Option<Gathered>, Torn> {
        let Some(buffer) = tree.buffer_of(node).filter(|buffer| buffer.records() > 0) else {
            return Ok(None);
        };
        let leaf = tree.leaf(node.leaf());
        let mut places = Vec::new();
        for (_, place) in buffer.places() {
            let mut key = Vec::new();
            leaf.read_key(0, &place.slot, &mut key)?;
            let hash = tree.hash(&key);
            places.push((key, hash, place));
        }
        places.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(Some(Gathered { places, added: buffer.added() }))
    }

    /// The buffer's changes and `own`, which come later; and objects that are free when they have
    /// happened.
    pub(crate) fn with<'c>(&'c self, own: &[Change<'c>]) -> (Vec<Change<'c>>, Vec<u64>) {
        let mut changes = Vec::with_capacity(self.places.len() + own.len());
        let mut stale = Vec::new();
        let (mut buffered, mut own) = (self.places.iter().peekable(), own.iter().peekable());
        loop {
            let order = match (buffered.peek(), own.peek()) {
                (None, None) => return (changes, stale),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, ..)), Some(change)) => key.as_slice().cmp(change.key),
            };
            let place = if order.is_le() { buffered.next() } else { None };
            let change = if order.is_ge() { own.next() } else { None };
            match (place, change) {
                (Some((key, hash, place)), None) => changes.push(of_place(key, *hash, place)),
                (Some((.., place)), Some(change)) => {
                    let slot = (!place.is_deleted).then_some(place.slot);
                    stale.extend(slot.and_then(|slot| slot.beside_at()));
                    changes.push(Change { before: Before::Buffered(slot), ..*change });
                }
                (None, change) => changes.extend(change),
            }
        }
    }
}

fn of_place<'c>(key: &'c [u8], hash: u64, place: &Buffered) -> Change<'c> {
    let to = if place.is_deleted { Target::Removed } else { Target::Slot(place.slot) };
    Change { key, hash, to, before: Before::Same }
}

/// The slot of an entry, which is stored beside the leaf if it has to.
///
/// # Errors
/// `Full`.
pub(crate) fn make_slot<R: Region>(
    tree: &SpTree<R>,
    key: &[u8],
    entry: &EntryRef<'_>,
    hash: u64,
) -> Result<Slot> {
    if let Some(slot) = Slot::inline(key, entry, tag_of(hash)) {
        return Ok(slot);
    }
    let at = store_entry(&tree.space, key, entry)?;
    tree.note_expiry(entry.expires_unix_ms);
    Ok(Slot::beside(key, at, hash))
}

/// What is to be noted of a key that had this slot, if a snapshot is held.
///
/// # Errors
/// `Corruption`.
pub(crate) fn note_of<R: Region>(
    tree: &SpTree<R>,
    leaf: &Leaf<'_, R>,
    key: &[u8],
    before: Option<Slot>,
) -> Result<Option<(Vec<u8>, Option<Kept>)>> {
    if !tree.history.is_held() {
        return Ok(None);
    }
    let kept = before.map(|slot| kept(leaf, &slot)).transpose();
    let kept = kept.map_err(|torn| torn.error(tree.space.name()))?;
    Ok(Some((key.to_vec(), kept)))
}

/// What is kept of an entry for snapshots.
fn kept<R: Region>(leaf: &Leaf<'_, R>, slot: &Slot) -> Result<Kept, Torn> {
    let mut value = Vec::new();
    let Value::Read(meta, skip) = leaf.read_value(0, slot, &mut value, usize::MAX)? else {
        unreachable!("no value is larger than any");
    };
    value.drain(..skip);
    let Meta { expires_unix_ms, user_bits } = meta;
    Ok(Kept { value, expires_unix_ms, user_bits })
}
