//! Commits that are too large for one record of the log.
//!
//! 1. What a commit writes becomes tables of its own first, which nobody sees, and which go again
//!    if it is refused. Then they are installed as those of an ingest are (`ingest.rs`): with one
//!    sequence number, by one edit of the manifest. So a crash leaves all of the commit or nothing.
//! 2. Its conditions are looked at with the writer locked and nothing outside of tables, right
//!    before the mark is taken: whatever is written later is behind the commit.
//! 3. Ranges that it deletes get the number of the mark. A range hides what is older than it, and
//!    nothing of its own commit; keys that such a range takes away again are not written at all.
//! 4. Large values go to the value log as those of any write do, and are synced with the mark,
//!    before the manifest names the tables that point at them.

use crate::deleted::DeletedRange;
use crate::ingest::{Installed, ROUNDS, TablesOut, WritesHeld, flush_all, follow, try_install};
use crate::unwritten::{Quiet, unwritten_since};
use crate::wip::Wip;
use crate::write::{frame_of, superseded_ops};
use silica_base::Result;
use silica_device::Device;
use silica_engine::optimistic::{Conditions, Optimistic};
use silica_engine::{Op, OpKind, Reads, WriteBatch};
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::{UNNUMBERED, Version as Row};
use silica_parts::value_log::Stored;

/// Times that the conditions are looked at anew while writes wait. Nothing moves then, so once is
/// enough; a job that ends just then may need another look.
const HELD_ROUNDS: usize = 8;

/// Writes `batch`, whose entries are within the limits, durably and in one step, if nothing of
/// `reads` was written since `position`, the snapshot of which is held. False, and nothing happens,
/// if something was, or if that is not known.
///
/// Costs a flush of all memtables, and memory for a table that is being made, however large the
/// batch is.
pub(crate) fn commit_large<D: Device>(
    wip: &Wip<D>,
    position: u64,
    reads: Reads<'_>,
    batch: &WriteBatch<'_>,
) -> Result<bool> {
    let _one = wip.ingests.lock().expect("no panic while held");
    wip.log.check()?;
    // Who has lost already need not write it all first.
    let is_lost = Quiet::since(wip, position, reads.ranges)?.is_none()
        || unwritten_since(wip, position, reads.keys)?.is_none();
    if is_lost {
        return Ok(false);
    }
    wip.refuse_puts_if_short(batch)?;
    let stored = wip.store_large_values(batch)?;
    let superseded = superseded_ops(batch.ops());
    let is_done = write_tables(wip, batch.ops(), &stored, &superseded)
        .and_then(|out| install(wip, position, reads, batch.ops(), out));
    if !matches!(is_done, Ok(true)) {
        wip.values.forget(&stored);
        return is_done;
    }
    let dead = superseded.iter().filter_map(|at| stored.pointer(*at));
    dead.for_each(|pointer| wip.values.note_dead_at(pointer));
    drop(stored);
    wip.count_ops(batch.ops());
    follow(wip, "a large commit");
    Ok(true)
}

/// Writes the operations in the order of their keys, but those that later ones supersede.
fn write_tables<'w, D: Device>(
    wip: &'w Wip<D>,
    ops: &[Op<'_>],
    stored: &Stored<D::File>,
    superseded: &[usize],
) -> Result<TablesOut<'w, D>> {
    let is_row = |at: &usize| !matches!(ops[*at].kind, OpKind::DeleteRange(_));
    let counts = |at: &usize| is_row(at) && superseded.binary_search(at).is_err();
    let mut order: Vec<usize> = (0..ops.len()).filter(counts).collect();
    order.sort_by_key(|at| ops[*at].key);
    let mut out = TablesOut::new(wip);
    for at in order {
        let frame = frame_of(&ops[at], stored.pointer(at));
        let row = Row {
            key: frame.key,
            sequence: UNNUMBERED,
            flags: frame.flags & (TOMBSTONE | POINTER),
            expires_unix_ms: frame.expires_unix_ms,
            user_bits: frame.user_bits,
            value: frame.value,
        };
        out.add(&row)?;
    }
    out.end()?;
    Ok(out)
}

fn install<D: Device>(
    wip: &Wip<D>,
    position: u64,
    reads: Reads<'_>,
    ops: &[Op<'_>],
    mut out: TablesOut<'_, D>,
) -> Result<bool> {
    let Reads { keys, ranges, expires_unix_ms } = reads;
    let deleted: Vec<DeletedRange> = ops.iter().filter_map(range_of).collect();
    let mut held = None;
    for round in 0..ROUNDS + HELD_ROUNDS {
        if round == ROUNDS {
            held = Some(WritesHeld::new(wip));
        }
        if expires_unix_ms != 0 && expires_unix_ms <= wip.unix_ms() {
            return Ok(false);
        }
        flush_all(wip)?;
        let Some(quiet) = Quiet::since(wip, position, ranges)? else { return Ok(false) };
        let Some(unwritten) = unwritten_since(wip, position, keys)? else { return Ok(false) };
        let conditions = Conditions { keys: &unwritten, expires_unix_ms };
        let may = || wip.all_hold(conditions) && quiet.holds(wip);
        if try_install(wip, &mut out.written, &deleted, &may)? == Installed::Done {
            return Ok(true);
        }
    }
    drop(held);
    Ok(false)
}

/// The range that an operation deletes; its position is not known yet.
fn range_of(op: &Op<'_>) -> Option<DeletedRange> {
    let OpKind::DeleteRange(upper) = op.kind else { return None };
    let is_empty = upper.is_some_and(|upper| upper <= op.key);
    let (lower, upper) = (op.key.to_vec(), upper.map(<[u8]>::to_vec));
    (!is_empty).then_some(DeletedRange { lower, upper, position: 0 })
}

#[cfg(test)]
#[path = "large_commit_tests.rs"]
mod tests;
