//! A leaf is checked when it is first touched after an opening, and by the scrub.
//!
//! The first touch also fills the leaf's filter and tells the allocator which objects the leaf
//! reaches. A leaf costs some 2 µs, and a line for each entry beside it.

use super::entry::{Header, Torn};
use super::layout::{SUM, Slot, sum_word};
use super::leaf::{Leaf, bits};
use super::nodes::Node;
use super::tree::{Locked, SpTree};
use super::unfold::{FEW, unfold};
use silica_base::Result;
use silica_device::region::Region;
use std::sync::atomic::Ordering;

/// Entries with longer values are checked as wholes when they are read; before that, two bytes of
/// the hash say that the key is right.
const CHECKED_BYTES: usize = 4 << 10;

/// What a leaf holds.
#[derive(Default)]
struct Contents {
    hashes: Vec<u64>,
    /// Objects that the leaf reaches, itself included.
    objects: Vec<u64>,
    first_expiry_ms: u64,
    sum: u32,
}

/// Checks the leaf of node `number` unless it was checked. A node that is folded is unfolded
/// instead: the caller searches again if the node is unchecked.
///
/// # Errors
/// `Corruption`; the leaf stays unchecked.
pub(crate) fn check_node<R: Region>(tree: &SpTree<R>, number: u32) -> Result<()> {
    let node = tree.nodes.get(number);
    {
        node.lock();
        let locked = Locked { node };
        if !node.is_folded() {
            return check_locked(tree, &locked);
        }
    }
    unfold(tree, number, FEW)
}

/// As [`check_node`], by the holder of the lock; a node that is folded stays as it is.
pub(crate) fn check_locked<R: Region>(tree: &SpTree<R>, locked: &Locked<'_>) -> Result<()> {
    if !locked.node.is_unchecked() || locked.node.is_folded() {
        return Ok(());
    }
    let leaf = tree.leaf(locked.node.leaf());
    let contents =
        contents(tree, &leaf, tree.may_be_torn).map_err(|torn| torn.error(tree.space.name()))?;
    let buffered = buffered(tree, locked.node, &leaf);
    let buffered = buffered.map_err(|torn| torn.error(tree.space.name()))?;
    if tree.is_marking.load(Ordering::Acquire) {
        tree.space.mark(&contents.objects)?;
        tree.space.mark(&buffered.objects)?;
    }
    tree.note_expiry(buffered.first_expiry_ms);
    if leaf.known_sum() != contents.sum {
        let word = sum_word(tree.space.store(), leaf.at, contents.sum, leaf.mark());
        leaf.region().store(leaf.at + SUM, word);
        leaf.region().flush(leaf.at + SUM, 8);
        leaf.region().fence()?;
    }
    fill_filter(locked.node, &contents.hashes);
    tree.note_expiry(contents.first_expiry_ms);
    locked.node.set_checked();
    tree.unchecked.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

fn fill_filter(node: Node<'_>, hashes: &[u64]) {
    node.clear_filter();
    hashes.iter().for_each(|hash| node.add(*hash));
}

/// Reads a leaf whose lock is held, and checks its sum and its tags. With `may_be_torn`, the last
/// change of one key may have reached only one of bitmap and sum.
fn contents<R: Region>(
    tree: &SpTree<R>,
    leaf: &Leaf<'_, R>,
    may_be_torn: bool,
) -> Result<Contents, Torn> {
    let bitmap = leaf.bitmap();
    let mut contents = Contents { sum: leaf.sum(bitmap), ..Contents::default() };
    let difference = contents.sum ^ leaf.known_sum();
    if difference != 0 && !(may_be_torn && leaf.is_explained(bitmap, difference)) {
        return Err(Torn { at: leaf.at });
    }
    contents.objects.push(leaf.at);
    contents.objects.extend(leaf.low()?.1);
    let mut key = Vec::new();
    for at in bits(bitmap) {
        contents.add(tree, leaf, at, &leaf.slot(at), &mut key)?;
    }
    Ok(contents)
}

/// Reads what the buffer of a node has for its leaf.
fn buffered<R: Region>(
    tree: &SpTree<R>,
    node: Node<'_>,
    leaf: &Leaf<'_, R>,
) -> Result<Contents, Torn> {
    let (mut contents, mut key) = (Contents::default(), Vec::new());
    let Some(buffer) = tree.buffer_of(node) else { return Ok(contents) };
    for (_, place) in buffer.places().filter(|(_, place)| !place.is_deleted) {
        contents.add(tree, leaf, 0, &place.slot, &mut key)?;
    }
    Ok(contents)
}

impl Contents {
    /// Adds slot `at`, whose tag and header are checked. `key` is room for bytes.
    fn add<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        leaf: &Leaf<'_, R>,
        at: usize,
        slot: &Slot,
        key: &mut Vec<u8>,
    ) -> Result<(), Torn> {
        key.clear();
        leaf.read_key(at, slot, key)?;
        let hash = tree.hash(key);
        if !slot.fits(hash) {
            return Err(Torn { at: leaf.slot_at(at) });
        }
        self.hashes.push(hash);
        let Some(entry) = slot.beside_at() else { return Ok(()) };
        self.objects.push(entry);
        let header = Header::read(leaf.region(), entry)?;
        if header.value_len <= CHECKED_BYTES {
            // A key that is damaged would only be missed, not met.
            key.clear();
            header.read_whole(&tree.space, key)?;
        }
        let expires = header.expires_unix_ms;
        if expires != 0 && (self.first_expiry_ms == 0 || expires < self.first_expiry_ms) {
            self.first_expiry_ms = expires;
        }
        Ok(())
    }
}

/// Checks a leaf whose lock is held, with all its values, and that its keys are of its range.
pub(crate) fn scrub<R: Region>(
    tree: &SpTree<R>,
    node: Node<'_>,
    leaf: &Leaf<'_, R>,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<u64, Torn> {
    contents(tree, leaf, false)?;
    scrub_buffer(tree, node, leaf, lower, upper)?;
    if leaf.low()?.0 != lower {
        return Err(Torn { at: leaf.at });
    }
    let (mut bytes, mut last): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
    let (ordered, _) = leaf.ordered(leaf.bitmap())?;
    for at in ordered.slots() {
        let at = usize::from(*at);
        let slot = leaf.slot(at);
        let mut key = Vec::new();
        leaf.read_key(at, &slot, &mut key)?;
        let is_in_range = *key >= *lower && upper.is_none_or(|upper| *key < *upper);
        if !is_in_range || last.as_ref().is_some_and(|last| *last >= key) {
            return Err(Torn { at: leaf.slot_at(at) });
        }
        if let Some(entry) = slot.beside_at() {
            bytes.clear();
            Header::read(leaf.region(), entry)?.read_whole(&tree.space, &mut bytes)?;
        }
        last = Some(key);
    }
    // The leaf behind begins where this one ends.
    let next_low = match leaf.next()? {
        Some(next) if !super::leaf::is_possible(leaf.region(), next) => {
            return Err(Torn { at: leaf.at });
        }
        Some(next) => Some(tree.leaf(next).low()?.0),
        None => None,
    };
    if next_low.as_deref() != upper {
        return Err(Torn { at: leaf.at });
    }
    Ok(ordered.slots().len() as u64)
}

/// Checks what a buffer has for its leaf.
fn scrub_buffer<R: Region>(
    tree: &SpTree<R>,
    node: Node<'_>,
    leaf: &Leaf<'_, R>,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<(), Torn> {
    buffered(tree, node, leaf)?;
    let Some(buffer) = tree.buffer_of(node) else { return Ok(()) };
    for (_, place) in buffer.places() {
        let (mut key, mut bytes) = (Vec::new(), Vec::new());
        leaf.read_key(0, &place.slot, &mut key)?;
        let is_in_leaf = leaf.find(&key, place.slot.tag)?.is_some();
        let is_in_range = *key >= *lower && upper.is_none_or(|upper| *key < *upper);
        if !is_in_range || is_in_leaf != place.is_in_leaf {
            return Err(Torn { at: leaf.at });
        }
        if let Some(entry) = place.slot.beside_at() {
            Header::read(leaf.region(), entry)?.read_whole(&tree.space, &mut bytes)?;
        }
    }
    Ok(())
}
