//! Out-of-place merging (section 4.3.2): what a leaf and its buffer have goes to a new leaf, which
//! takes the old one's place by one word.
//!
//! The word is the link of the leaf before it, or the root's first leaf. So a merge has two fences
//! instead of a redo record's four, and writes a whole leaf and a line more. The old leaf's records
//! in the log count no more because its place is none of the tree's leaves.

use super::super::change::{Change, Gathered};
use super::super::entry::Torn;
use super::super::layout::{ENTRIES_MAX, NEXT, Slot, checked};
use super::super::lock::try_lock;
use super::super::nodes::Node;
use super::super::root::first_leaf_word;
use super::super::top::{Bounds, Seek};
use super::super::tree::{Locked, SpTree};
use super::{Item, Plan, pieces, write_leaf};
use crate::space::Change as WordChange;
use silica_base::{ErrorKind, Result};
use silica_device::region::Region;

/// A leaf that replaces another one, with those behind it if all entries have no room in it.
pub(crate) struct Rewrite {
    plan: Plan,
    at: u64,
    entries: usize,
    added: i64,
    word: WordChange,
}

/// The word that names the leaf of a locked node, and the lock that guards it, if it is any node's;
/// `None` while others are at work there.
fn namer<'t, R: Region>(
    tree: &'t SpTree<R>,
    node: Node<'_>,
) -> Result<Option<(u64, Option<Locked<'t>>)>> {
    let torn = |torn: Torn| torn.error(tree.space.name());
    let leaf = tree.leaf(node.leaf());
    let (low, _) = leaf.low().map_err(torn)?;
    if low.is_empty() {
        return Ok(Some((first_leaf_word(tree.space.store(), 0).offset, None)));
    }
    let mut bounds = Bounds::default();
    // Whoever has the lock of the node before may wait for this one.
    if !tree.top.try_bounds(Some(&low), Seek::Before, &tree.nodes, &mut bounds) {
        return Ok(None);
    }
    let before = tree.nodes.get(bounds.node);
    if before.is_unchecked() || !try_lock(before.lock_word(), bounds.version) {
        return Ok(None);
    }
    let locked = Locked { node: before };
    let leaf_before = tree.leaf(before.leaf());
    let is_it = leaf_before.next().map_err(torn)? == Some(leaf.at);
    Ok(is_it.then_some((leaf_before.at + NEXT, Some(locked))))
}

impl Rewrite {
    /// Writes the new leaves of a checked node whose leaf is named by the word at `namer`. Nobody
    /// finds them yet.
    fn prepare<R: Region>(
        tree: &SpTree<R>,
        node: Node<'_>,
        gathered: &Gathered,
        changes: &[Change<'_>],
        namer: u64,
    ) -> Result<Rewrite> {
        let leaf = tree.leaf(node.leaf());
        let (changes, stale) = gathered.with(changes);
        let mut plan = Plan::of(&leaf);
        let written = plan.write_all(tree, node, &changes);
        let (at, items) = match written {
            Ok(written) => written,
            Err(error) => {
                plan.give_up(tree);
                return Err(error);
            }
        };
        plan.stale.extend(stale);
        plan.hashes = items.iter().map(|item| item.hash).collect();
        let in_new: usize = plan.leaves.iter().map(|leaf| leaf.entries as usize).sum();
        let before = i64::from(plan.old_bitmap.count_ones()) + gathered.added;
        let added = (items.len() + in_new) as i64 - before;
        let word = WordChange { offset: namer, new: checked(tree.space.store(), namer, at) };
        Ok(Rewrite { plan, at, entries: items.len(), added, word })
    }
}

impl Plan {
    /// Writes all that a leaf would have after `changes` to new leaves. Where the first lies, and
    /// what it has.
    fn write_all<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        node: Node<'_>,
        changes: &[Change<'_>],
    ) -> Result<(u64, Vec<Item>)> {
        let torn = |torn: Torn| torn.error(tree.space.name());
        let leaf = tree.leaf(node.leaf());
        let mut next = leaf.next().map_err(torn)?.unwrap_or(0);
        let (low, low_at) = leaf.low().map_err(torn)?;
        let (mut items, first_new) = self.merge(tree, &leaf, changes)?;
        self.stale.push(leaf.at);
        self.stale.extend(low_at);
        if items.len() > ENTRIES_MAX {
            let pieces = pieces(&items, first_new, usize::MAX);
            for len in pieces[1..].iter().rev() {
                let own = items.split_off(items.len() - len);
                let before = &items.last().expect("the first piece has items").key;
                next = self.make_leaf(tree, before, &own, next)?;
            }
        }
        let slots: Vec<Slot> = items.iter().map(|item| item.slot).collect();
        let at = write_leaf(tree, &low, &slots, next, &mut self.made)?;
        Ok((at, items))
    }
}

/// What [`rewrite`] did.
pub(crate) struct Rewritten {
    pub(crate) leaves_few: bool,
    /// Objects to free when the node's lock is given back.
    pub(crate) stale: Vec<u64>,
}

/// Changes keys of a checked node that is locked, with what its buffer has, by writing the leaf
/// anew. `None`, and nothing has happened, if the buffer has nothing or the leaf before is at work.
///
/// # Errors
/// `Full`, `Corruption`, `Io`, `Poisoned`.
pub(crate) fn rewrite<R: Region>(
    tree: &SpTree<R>,
    locked: &Locked<'_>,
    changes: &[Change<'_>],
) -> Result<Option<Rewritten>> {
    let node = locked.node;
    let gathered = Gathered::of(tree, node).map_err(|torn| torn.error(tree.space.name()))?;
    let Some(gathered) = gathered else { return Ok(None) };
    let Some((namer, _before)) = namer(tree, node)? else { return Ok(None) };
    let mut new = Rewrite::prepare(tree, node, &gathered, changes, namer)?;
    if let Err(error) = tree.note(std::mem::take(&mut new.plan.notes)) {
        new.plan.give_up(tree);
        return Err(error);
    }
    tree.anchors.retract(&tree.space, tree.leaf(node.leaf()).at);
    let committed = tree.space.commit(&[new.word]);
    if let Err(error) = committed {
        // The caller gives up only what no word names.
        if tree.space.region().load(namer) == new.word.new {
            let _stays = new.finish(tree, node);
        } else if error.kind() == ErrorKind::Full {
            new.plan.give_up(tree);
        }
        return Err(if error.kind() == ErrorKind::Full { error } else { tree.poison(error) });
    }
    Ok(Some(new.finish(tree, node)))
}

impl Rewrite {
    /// What is in memory follows.
    fn finish<R: Region>(self, tree: &SpTree<R>, node: Node<'_>) -> Rewritten {
        let Rewrite { plan, at, entries, added, .. } = self;
        tree.add_entries(added);
        for leaf in &plan.leaves {
            tree.top.insert(&leaf.low, leaf.node);
        }
        node.clear_filter();
        plan.hashes.iter().for_each(|hash| node.add(*hash));
        node.move_leaf(at);
        tree.buffers.get(node.buffer()).reset(tree.leaf(at).mark());
        let mine = tree.counts.mine();
        mine.add(|counts| &counts.splits, plan.leaves.len() as u64);
        mine.add(|counts| &counts.buffer_merges, 1);
        let old = plan.old_bitmap.count_ones() as usize;
        Rewritten { leaves_few: entries < old && entries <= 16, stale: plan.stale }
    }
}
