//! A leaf is checked when it is first touched after an opening, and by the scrub.
//!
//! The first touch also fills the leaf's filter and tells the allocator which objects the leaf
//! reaches. A leaf costs some 2 µs, and a line for each entry beside it.

use super::entry::{Header, Torn};
use super::layout::SUM;
use super::leaf::{Leaf, bits};
use super::nodes::Node;
use super::tree::{Locked, SpTree};
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

/// Checks the leaf of node `number` unless it was checked.
///
/// # Errors
/// `Corruption`; the leaf stays unchecked.
pub(crate) fn check_node<R: Region>(tree: &SpTree<R>, number: u32) -> Result<()> {
    let node = tree.nodes.get(number);
    node.lock();
    let locked = Locked { node };
    check_locked(tree, &locked)
}

/// As [`check_node`], by the holder of the lock.
pub(crate) fn check_locked<R: Region>(tree: &SpTree<R>, locked: &Locked<'_>) -> Result<()> {
    if !locked.node.is_unchecked() {
        return Ok(());
    }
    let leaf = tree.leaf(locked.node.leaf());
    let contents =
        contents(tree, &leaf, tree.may_be_torn).map_err(|torn| torn.error(tree.space.name()))?;
    if tree.is_marking.load(Ordering::Acquire) {
        tree.space.mark(&contents.objects)?;
    }
    if leaf.known_sum() != contents.sum {
        leaf.region().store(leaf.at + SUM, u64::from(contents.sum));
        leaf.region().flush(leaf.at + SUM, 8);
        leaf.region().fence()?;
    }
    fill_filter(locked.node, &contents.hashes);
    tree.note_expiry(contents.first_expiry_ms);
    locked.node.set_leaf(leaf.at, false);
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
        let slot = leaf.slot(at);
        key.clear();
        leaf.read_key(at, &slot, &mut key)?;
        let hash = tree.hash(&key);
        if !slot.fits(hash) {
            return Err(Torn { at: leaf.slot_at(at) });
        }
        contents.hashes.push(hash);
        let Some(entry) = slot.beside_at() else { continue };
        contents.objects.push(entry);
        let header = Header::read(leaf.region(), entry)?;
        if header.value_len <= CHECKED_BYTES {
            // A key that is damaged would only be missed, not met.
            key.clear();
            header.read_whole(&tree.space, &mut key)?;
        }
        let expires = header.expires_unix_ms;
        if expires != 0 && (contents.first_expiry_ms == 0 || expires < contents.first_expiry_ms) {
            contents.first_expiry_ms = expires;
        }
    }
    Ok(contents)
}

/// Checks a leaf whose lock is held, with all its values, and that its keys are of its range.
pub(crate) fn scrub<R: Region>(
    tree: &SpTree<R>,
    leaf: &Leaf<'_, R>,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<u64, Torn> {
    contents(tree, leaf, false)?;
    if leaf.low()?.0 != lower {
        return Err(Torn { at: leaf.at });
    }
    let (mut bytes, mut last): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
    let ordered = leaf.ordered(leaf.bitmap())?;
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
