//! What the log says of leaves that have the mark of its records becomes buffers again (section
//! 4.4.6). Nothing is written: an opening that is cut short begins anew.

use super::buffers::{Buffered, Buffers};
use super::log::Record;
use super::nodes::Nodes;
use silica_base::{Error, ErrorKind, Result};

/// Fills buffers of nodes that nobody else sees yet; `leaves` are their numbers and the marks of
/// their leaves. Entries that the buffers have more than the leaves.
///
/// # Errors
/// `Corruption` if a record that was acknowledged is missing, `Full` if there are too many buffers.
pub(crate) fn replay(
    region: &str,
    nodes: &Nodes,
    buffers: &Buffers,
    leaves: impl Iterator<Item = (u32, u32)>,
    mut records: Vec<Record>,
) -> Result<i64> {
    if records.is_empty() {
        return Ok(0);
    }
    let mut by_place: Vec<(u64, u32, u32)> =
        leaves.map(|(number, mark)| (nodes.get(number).leaf(), mark, number)).collect();
    by_place.sort_unstable();
    let node_of = |record: &Record| {
        let wanted = (record.leaf, record.mark);
        let found = by_place.binary_search_by_key(&wanted, |(leaf, mark, _)| (*leaf, *mark));
        found.ok().map(|at| by_place[at].2)
    };
    records.retain(|record| node_of(record).is_some());
    records.sort_unstable_by_key(|record| (record.leaf, record.ordinal));
    let mut added = 0;
    for own in records.chunk_by(|one, next| one.leaf == next.leaf) {
        let leaf = own[0].leaf;
        // Each was durable before the next was begun.
        if own.iter().enumerate().any(|(at, record)| usize::from(record.ordinal) != at) {
            let detail = "a record of the log that was acknowledged is damaged: restore a backup";
            return Err(Error::corruption(region, leaf, detail));
        }
        let taken = buffers.take(u64::MAX).ok_or_else(|| {
            Error::new(ErrorKind::Full, "the log is about more leaves than there are buffers")
        })?;
        let (buffer, number) = (buffers.get(taken), node_of(&own[0]).expect("it counts"));
        buffer.reset(own[0].mark);
        buffer.set_owner(Some(number), 1);
        buffer.set_records(own[0].mark, own.len() as u32);
        for Record { place, slot, is_deleted, is_in_leaf, .. } in own.iter().copied() {
            if is_deleted && !is_in_leaf {
                buffer.clear_place(usize::from(place));
            } else {
                buffer.set(usize::from(place), Buffered { slot, is_deleted, is_in_leaf });
            }
        }
        nodes.get(number).set_buffer(taken);
        added += buffer.added();
    }
    Ok(added)
}
