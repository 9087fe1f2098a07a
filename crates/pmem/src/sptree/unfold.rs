//! The leaves behind an anchor become nodes when somebody comes there (section 4.4.6).
//!
//! After an opening from the region's copy of the top layer, a node stands for its leaf and for all
//! leaves behind it up to the next separator: it is *folded*. Nobody reads or changes keys under a
//! folded node: whoever meets one unfolds it first, and searches again.
//!
//! 1. Who unfolds a node holds its lock, walks the links, makes nodes, publishes separators, and
//!    then gives the lock back: searches that met the folded node find another version of it.
//! 2. The walk ends at the leaf of the next separator. If it passes that one's key, or meets
//!    another leaf with the key, copy and links differ, and nothing is believed.
//! 3. Folded nodes are locked in the order of their keys.

use super::leaf::{Leaf, is_possible};
use super::plan::too_many_leaves;
use super::top::{Bounds, Seek};
use super::tree::{Locked, SpTree};
use silica_base::{Error, Result};
use silica_device::region::Region;
use std::sync::atomic::Ordering;

/// Leaves that somebody unfolds who comes to one of them: some 20 µs.
pub(crate) const FEW: usize = 64;
/// Leaves that background work unfolds at once: others wait for less than a millisecond.
pub(crate) const MANY: usize = 2048;

/// What a walk along the links has found.
#[derive(Default)]
struct Walk {
    /// Lowest keys and nodes, in order.
    made: Vec<(Vec<u8>, u32)>,
    /// Entries of these leaves, and of those of the folded nodes.
    entries: u64,
    /// One more folded node was made: the walk has ended early.
    is_cut: bool,
}

/// Unfolds node `number`, and those behind it as far as they have `leaves_max` leaves together. One
/// that is not folded stays as it is.
///
/// # Errors
/// `Corruption`, `Full`: nothing has changed.
pub(crate) fn unfold<R: Region>(tree: &SpTree<R>, number: u32, leaves_max: usize) -> Result<()> {
    let node = tree.nodes.get(number);
    node.lock();
    let mut locked = vec![Locked { node }];
    if !node.is_folded() {
        return Ok(());
    }
    let mut walk = Walk::default();
    if let Err(error) = walk.go(tree, &mut locked, leaves_max) {
        walk.made.iter().for_each(|(_, number)| tree.nodes.free(*number));
        return Err(error);
    }
    let unfolded = locked.len() as u64;
    if !tree.is_counted {
        tree.add_entries(walk.entries as i64);
    }
    tree.unchecked.fetch_add(walk.made.len() as u64, Ordering::Relaxed);
    tree.top.insert_all(walk.made);
    locked.iter().for_each(|locked| locked.node.set_leaf(locked.node.leaf(), true));
    tree.folded.fetch_sub(unfolded - u64::from(walk.is_cut), Ordering::Release);
    Ok(())
}

/// Unfolds all nodes, but those whose links are damaged.
pub(crate) fn unfold_all<R: Region>(tree: &SpTree<R>) {
    let (mut from, mut bounds) = (Some(Vec::new()), Bounds::default());
    while let Some(key) = from.take().filter(|_| tree.folded() > 0) {
        tree.top.bounds(Some(&key), Seek::At, &tree.nodes, &mut bounds);
        let is_folded = tree.nodes.get(bounds.node).is_folded();
        from = match is_folded && unfold(tree, bounds.node, MANY).is_ok() {
            true => Some(key),
            false => bounds.upper.take(),
        };
    }
}

impl Walk {
    /// Walks from the leaf of a folded node that is locked. Folded nodes that it meets are locked
    /// and walked, too, while there are fewer leaves than `leaves_max`.
    fn go<'t, R: Region>(
        &mut self,
        tree: &'t SpTree<R>,
        locked: &mut Vec<Locked<'t>>,
        leaves_max: usize,
    ) -> Result<()> {
        let mut leaf = tree.leaf(locked[0].node.leaf());
        let mut low = leaf.low().map_err(|torn| tree.torn(torn))?.0;
        let mut end = tree.top.behind(&low);
        loop {
            self.entries += u64::from(leaf.bitmap().count_ones());
            let next = leaf.next().map_err(|torn| tree.torn(torn))?;
            let Some((next_low, next_leaf)) = step(tree, &low, next)? else {
                return if end.is_none() { Ok(()) } else { Err(differs(tree, leaf.at)) };
            };
            (low, leaf) = (next_low, next_leaf);
            let is_full = self.made.len() + locked.len() >= leaves_max;
            match &end {
                Some((key, _)) if low > *key => return Err(differs(tree, leaf.at)),
                Some((key, number)) if low == *key => {
                    let node = tree.nodes.get(*number);
                    if node.leaf() != leaf.at {
                        return Err(differs(tree, leaf.at));
                    }
                    if is_full || !node.is_folded() {
                        return Ok(());
                    }
                    node.lock();
                    locked.push(Locked { node });
                    end = tree.top.behind(&low);
                    if !node.is_folded() {
                        locked.pop();
                        return Ok(());
                    }
                }
                _ => {
                    // One leaf more than asked for ends the walk: it stands for those behind it.
                    self.make(tree, low.clone(), leaf.at, is_full)?;
                    if is_full {
                        self.is_cut = true;
                        return Ok(());
                    }
                }
            }
        }
    }

    fn make<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        low: Vec<u8>,
        leaf: u64,
        is_folded: bool,
    ) -> Result<()> {
        let number = tree.nodes.make(leaf, true).ok_or_else(too_many_leaves)?;
        if is_folded {
            tree.nodes.get(number).fold();
        }
        self.made.push((low, number));
        Ok(())
    }
}

/// The leaf that a link names, with its lowest key, which has to be above `low`: keys that grow
/// also end a circle of links.
fn step<'t, R: Region>(
    tree: &'t SpTree<R>,
    low: &[u8],
    link: Option<u64>,
) -> Result<Option<(Vec<u8>, Leaf<'t, R>)>> {
    let Some(at) = link else { return Ok(None) };
    if !is_possible(tree.space.region(), at) {
        return Err(Error::corruption(tree.space.name(), at, "a leaf lies beyond the region"));
    }
    let leaf = tree.leaf(at);
    let next_low = leaf.low().map_err(|torn| tree.torn(torn))?.0;
    if *next_low <= *low {
        let detail = "leaves are not in the order of their keys: restore a backup";
        return Err(Error::corruption(tree.space.name(), at, detail));
    }
    Ok(Some((next_low, leaf)))
}

fn differs<R: Region>(tree: &SpTree<R>, at: u64) -> Error {
    let detail = "the copy of the top layer does not fit the links of the leaves: restore a backup";
    Error::corruption(tree.space.name(), at, detail)
}
