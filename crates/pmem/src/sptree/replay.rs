//! What the log says of leaves that have the mark of its records becomes buffers again (section
//! 4.4.6). Nothing is written: an opening that is cut short begins anew.

use super::buffers::{Buffered, Buffers};
use super::layout::{SUM, mark_of};
use super::log::Record;
use super::nodes::Nodes;
use crate::space::Space;
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::Region;

/// Fills buffers of nodes that nobody else sees yet. Entries that they have more than the leaves.
///
/// # Errors
/// `Corruption` if a record that was acknowledged is missing, `Full` if there are too many buffers.
pub(crate) fn replay<R: Region>(
    space: &Space<R>,
    nodes: &Nodes,
    buffers: &Buffers,
    leaves: &[(Vec<u8>, u32)],
    mut records: Vec<Record>,
) -> Result<i64> {
    if records.is_empty() {
        return Ok(0);
    }
    let mut by_place: Vec<(u64, u32)> =
        leaves.iter().map(|(_, number)| (nodes.get(*number).leaf(), *number)).collect();
    by_place.sort_unstable();
    let counts = |record: &Record| {
        let is_there = by_place.binary_search_by_key(&record.leaf, |(leaf, _)| *leaf).is_ok();
        is_there && mark_of(space.region().word(record.leaf + SUM)) == record.mark
    };
    records.retain(counts);
    records.sort_unstable_by_key(|record| (record.leaf, record.ordinal));
    let mut added = 0;
    for own in records.chunk_by(|one, next| one.leaf == next.leaf) {
        let leaf = own[0].leaf;
        // Each was durable before the next was begun.
        if own.iter().enumerate().any(|(at, record)| usize::from(record.ordinal) != at) {
            let detail = "a record of the log that was acknowledged is damaged: restore a backup";
            return Err(Error::corruption(space.name(), leaf, detail));
        }
        let taken = buffers.take(u64::MAX).ok_or_else(|| {
            Error::new(ErrorKind::Full, "the log is about more leaves than there are buffers")
        })?;
        let place = by_place.binary_search_by_key(&leaf, |(leaf, _)| *leaf).expect("it counts");
        let (buffer, number) = (buffers.get(taken), by_place[place].1);
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
