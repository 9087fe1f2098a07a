//! Memtables: where the entries of the log are that are in no table yet.
//!
//! A memtable holds no entries. It holds **positions** of entries in the log, which is mapped
//! memory: multiples of eight bytes from the log's beginning, divided by eight. A position is a
//! version's sequence number, too: who wrote later has the greater one. There are two kinds:
//!
//! - [`Directory`], a hash table of cache lines, for buckets that are mostly written and asked for
//!   single keys (section 2.3.3 of the paper);
//! - [`SkipList`], for buckets whose ranges are read often (section 2.3.4).
//!
//! One writer at a time. In the engine writers and readers hold their bucket's lock; who goes
//! forwards in a list does not, and the types need none: readers may come at any time.
//!
//! Orderings: an entry's bytes are in the log before its position is stored with release in a slot
//! or a link; readers load slots and links with acquire, so they find the bytes. Nothing else is
//! handed over: a slot or a node never changes but from one whole state to another. Both kinds say
//! more, and models of both run under a model checker (`tests/directory_model.rs`,
//! `tests/list_model.rs`).

mod directory;
mod entries;
mod heads;
mod kind;
mod ordered;
mod skip_list;
mod sync;

#[cfg(test)]
mod tests;

pub use directory::{Directory, Inserted};
pub use entries::{Entries, Found, Full, POSITION_BITS};
pub use kind::Memtable;
pub use ordered::Ordered;
pub use skip_list::{Node, SkipList};

pub(crate) use entries::head;
use entries::order;
pub(crate) use heads::{Heads, is_from};
use silica_base::shared_len;

/// How many entries ahead memory is asked for where all are looked at, in the order of the log.
const PREFETCH_AHEAD: usize = 8;

/// `positions` in the order of a range.
pub fn sorted(mut positions: Vec<u64>, entries: &impl Entries) -> Vec<u64> {
    // In the order of the log, whose memory is then read from one end to the other.
    positions.sort_unstable();
    // Where all keys begin alike, as numbers in digits do, their heads would tell nothing.
    let common = common_bytes(&positions, entries);
    by_heads(positions, common, entries).into_iter().map(|(_, at)| at).collect()
}

/// Bytes that the keys at all positions begin with.
pub(crate) fn common_bytes(positions: &[u64], entries: &impl Entries) -> usize {
    let mut keys = positions.iter().enumerate().map(|(i, at)| {
        // Entries of one memtable lie far apart.
        positions.get(i + PREFETCH_AHEAD).inspect(|next| entries.prefetch(**next));
        entries.entry(*at).key
    });
    let first = keys.next().unwrap_or_default();
    keys.fold(first.len(), |common, key| shared_len(&first[..common], key))
}

/// `positions`, which ascend, in the order of a range, each behind the [`head`] of what comes
/// behind the first `common` bytes of its key, which all keys share.
pub(crate) fn by_heads(
    positions: Vec<u64>,
    common: usize,
    entries: &impl Entries,
) -> Vec<(u64, u64)> {
    let mut keyed: Vec<(u64, u64)> =
        positions.iter().map(|at| (head(&entries.entry(*at).key[common..]), *at)).collect();
    // Numbers alone are sorted without a branch for each of them, and most heads differ.
    keyed.sort_unstable_by_key(|(head, _)| *head);
    for same in keyed.chunk_by_mut(|(head, _), (other, _)| head == other) {
        sort_same(same, common, entries);
    }
    keyed
}

/// So many entries whose heads are equal are sorted by comparing their keys, each of which is read
/// from the log for each comparison.
const COMPARED_MAX: usize = 16;

/// Sorts entries whose heads behind the first `common` bytes of their keys are equal. The keys of
/// several tables in one bucket begin with the table, and their heads tell little more.
fn sort_same(same: &mut [(u64, u64)], common: usize, entries: &impl Entries) {
    if same.len() > COMPARED_MAX {
        let mut positions: Vec<u64> = same.iter().map(|(_, at)| *at).collect();
        positions.sort_unstable();
        let further = common_bytes(&positions, entries);
        // Versions of one key, say, have nothing behind what they share.
        if further >= common + size_of::<u64>() {
            let sorted = by_heads(positions, further, entries);
            same.iter_mut().zip(sorted).for_each(|((_, at), (_, next))| *at = next);
            return;
        }
    }
    same.sort_unstable_by(|(_, at), (_, other)| {
        order(entries.entry(*at).key, *at, entries.entry(*other).key, *other)
    });
}
