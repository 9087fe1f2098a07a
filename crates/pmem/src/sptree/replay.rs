//! What the log says of leaves that have the mark of its records becomes buffers again (section
//! 4.4.6). Nothing is written: an opening that is cut short begins anew.

use super::buffers::{Buffered, Buffers};
use super::log::{Key, Log, Record};
use super::nodes::Nodes;
use crate::space::Space;
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::Region;

/// Fills buffers of nodes that nobody else sees yet; `leaves` are their numbers and the marks of
/// their leaves. Entries that the buffers have more than the leaves.
///
/// # Errors
/// `Corruption` if a record that was acknowledged is missing, `Full` if there are too many buffers.
pub(crate) fn replay<R: Region>(
    space: &Space<R>,
    log: &Log,
    nodes: &Nodes,
    buffers: &Buffers,
    leaves: impl Iterator<Item = (u32, u32)>,
    mut records: Vec<Key>,
) -> Result<i64> {
    if records.is_empty() {
        return Ok(0);
    }
    let mut leaves: Vec<(u64, u32, u32)> =
        leaves.map(|(number, mark)| (nodes.get(number).leaf(), mark, number)).collect();
    leaves.sort_unstable();
    records.sort_unstable();
    let (mut added, mut leaves) = (0, leaves.into_iter().peekable());
    for own in records.chunk_by(|one, next| one.leaf() == next.leaf()) {
        let wanted = own[0].leaf();
        while leaves.next_if(|(leaf, mark, _)| (*leaf, *mark) < wanted).is_some() {}
        let Some((.., number)) = leaves.next_if(|(leaf, mark, _)| (*leaf, *mark) == wanted) else {
            continue;
        };
        // Each was durable before the next was begun.
        if own.iter().enumerate().any(|(at, record)| usize::from(record.ordinal()) != at) {
            let detail = "a record of the log that was acknowledged is damaged: restore a backup";
            return Err(Error::corruption(space.name(), wanted.0, detail));
        }
        let taken = buffers.take(u64::MAX).ok_or_else(|| {
            Error::new(ErrorKind::Full, "the log is about more leaves than there are buffers")
        })?;
        let buffer = buffers.get(taken);
        buffer.reset(wanted.1);
        buffer.set_owner(Some(number), 1);
        buffer.set_records(wanted.1, own.len() as u32);
        for key in own {
            let Record { place, slot, is_deleted, is_in_leaf, .. } =
                log.record(space.region(), *key);
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
