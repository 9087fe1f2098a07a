//! Plans happen: the words of one leaf, or of several at once, and what is in memory after them.

use super::change::Change;
use super::nodes::Node;
use super::plan::Plan;
use super::plan::rewrite::{Rewritten, rewrite};
use super::tree::{Locked, SpTree};
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::Region;

/// What a change of a leaf leaves.
#[derive(Default)]
pub(crate) struct Applied {
    /// The leaf has few entries now.
    pub(crate) leaves_few: bool,
    /// Objects to free when the node's lock is given back.
    pub(crate) stale: Vec<u64>,
}

/// Changes keys of a checked node that is locked: different ones of its range, in order. What its
/// buffer has goes to the leaf with them; without changes, only that.
///
/// # Errors
/// `Full`, `Corruption`, `Io`, `Poisoned`.
pub(crate) fn apply<R: Region>(
    tree: &SpTree<R>,
    locked: &Locked<'_>,
    changes: &[Change<'_>],
) -> Result<Applied> {
    let node = locked.node;
    if tree.config.merges_out_of_place
        && let Some(Rewritten { leaves_few, stale }) = rewrite(tree, locked, changes)?
    {
        return Ok(Applied { leaves_few, stale });
    }
    apply_in_place(tree, node, changes)
}

/// As [`apply`], in the leaf where it lies: for whoever has the lock of the leaf before, too.
///
/// # Errors
/// As for [`apply`].
pub(crate) fn apply_in_place<R: Region>(
    tree: &SpTree<R>,
    node: Node<'_>,
    changes: &[Change<'_>],
) -> Result<Applied> {
    let mut plan = Plan::prepare(tree, node, changes)?;
    // A delete of a missing key is a write, too.
    if !plan.notes.is_empty()
        && let Err(error) = tree.note(std::mem::take(&mut plan.notes))
    {
        plan.give_up(tree);
        return Err(error);
    }
    if plan.is_empty() {
        return Ok(Applied::default());
    }
    plan.prepare_filter(node);
    if let Err(error) = plan.commit(tree) {
        return Err(settle_failed(tree, vec![(plan, node)], error));
    }
    tree.add_entries(plan.added());
    let leaves_few = plan.leaves_few();
    Ok(Applied { leaves_few, stale: plan.finish(tree, node) })
}

/// After a commit that failed: what is in memory follows what is in the region. The caller still
/// holds the locks of the nodes.
pub(crate) fn settle_failed<R: Region>(
    tree: &SpTree<R>,
    plans: Vec<(Plan, Node<'_>)>,
    error: Error,
) -> Error {
    for (plan, node) in plans {
        if plan.has_happened(tree) {
            // Nothing is freed: an opening may find the words as they were.
            tree.add_entries(plan.added());
            plan.finish(tree, node);
        } else if error.kind() == ErrorKind::Full {
            plan.give_up(tree);
        }
    }
    if error.kind() == ErrorKind::Full { error } else { tree.poison(error) }
}

/// Gives a node's lock back, and then what nobody reaches any more.
pub(crate) fn unlock_and_free<R: Region>(tree: &SpTree<R>, locked: Locked<'_>, stale: &[u64]) {
    drop(locked);
    stale.iter().for_each(|at| tree.space.free(*at));
}
