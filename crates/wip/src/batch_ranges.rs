//! Batches that delete ranges.
//!
//! 1. In a record every frame has a position of its own, so what comes later in a batch is newer:
//!    a range hides what was put before it, and nothing that is put after it.
//! 2. No frame of a range has the key of a later frame of its record: recovery takes only the last
//!    frame of a key, and is not to miss the range. Such a range begins right behind the key, which
//!    the later frame decides in any case, and behind the next one if that is a later key, too.
//! 3. A range without keys is not written, and decides nothing.
//! 4. The ranges of a record enter the buckets after its keys: no reader misses a key that the
//!    record puts into a range which it deletes. A key may fill a memtable, whose flush then begins
//!    and moves the bucket's floor behind the range. So nothing is installed meanwhile
//!    (`Wip::lock_to_write_ranges`): recovery would pass over a range below the floor.

use silica_engine::{Op, OpKind, WriteBatch};
use std::collections::BTreeSet;

/// For each operation that is a range to be moved, where it is to begin.
pub(crate) fn moved_lowers(batch: &WriteBatch<'_>) -> Vec<Option<Vec<u8>>> {
    // Where a range goes may be a later key, too, or where a later range has gone.
    let mut later = BTreeSet::new();
    let mut moved = |op: &Op<'_>| {
        let mut lower = op.key.to_vec();
        if let OpKind::DeleteRange(upper) = op.kind {
            while later.contains(&lower) {
                lower.push(0);
            }
            if upper.is_some_and(|upper| *upper <= *lower) {
                return Some(lower);
            }
        }
        let is_moved = lower.len() > op.key.len();
        later.insert(lower.clone());
        is_moved.then_some(lower)
    };
    let mut lowers: Vec<_> = batch.ops().iter().rev().map(&mut moved).collect();
    lowers.reverse();
    lowers
}

/// The operations as they are written.
pub(crate) fn with_lowers<'a>(
    batch: &WriteBatch<'a>,
    lowers: &'a [Option<Vec<u8>>],
) -> WriteBatch<'a> {
    let mut written = WriteBatch::new();
    for (op, lower) in batch.ops().iter().zip(lowers) {
        let key = lower.as_deref().unwrap_or(op.key);
        match op.kind {
            OpKind::DeleteRange(Some(upper)) if upper <= key => {}
            kind => drop(written.push(Op { key, kind })),
        }
    }
    written
}

/// True if `op` deletes a range that has `key`.
pub(crate) fn covers(op: &Op<'_>, key: &[u8]) -> bool {
    match op.kind {
        OpKind::DeleteRange(upper) => op.key <= key && upper.is_none_or(|upper| key < upper),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_give_way_to_later_keys_and_empty_ones_go() {
        let mut batch = WriteBatch::new();
        batch.delete_range(b"a", Some(b"z")).put(b"a", b"1").delete_range(b"a", Some(b"b"));
        batch.delete_range(b"c", Some(b"c")).delete_range(b"d", Some(b"d\0")).delete(b"d");
        batch.delete_range(b"", Some(b"")).delete_range(b"x", None);
        batch.delete_range(b"x", Some(b"w"));
        let lowers = moved_lowers(&batch);
        let written = with_lowers(&batch, &lowers);
        let mut wanted = WriteBatch::new();
        wanted.delete_range(b"a\0", Some(b"z")).put(b"a", b"1").delete_range(b"a", Some(b"b"));
        wanted.delete(b"d").delete_range(b"x", None);
        assert_eq!(written.ops(), wanted.ops());
        let mut row = WriteBatch::new();
        row.delete_range(b"", Some(b"x"))
            .put(b"\0", b"1")
            .delete_range(b"", Some(b"b"))
            .delete(b"");
        let lowers = moved_lowers(&row);
        let keys: Vec<_> =
            with_lowers(&row, &lowers).ops().iter().map(|op| op.key.to_vec()).collect();
        assert_eq!(
            keys,
            [&b"\0\0"[..], b"\0", b"\0", b""],
            "a range stays clear of all that follows"
        );
        assert!(covers(&written.ops()[2], b"a") && !covers(&written.ops()[2], b"b"));
        assert!(covers(&written.ops()[4], b"zz") && !covers(&written.ops()[1], b"a"));
    }
}
