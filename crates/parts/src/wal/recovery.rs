//! Reading the log back at open.

use super::segment::{self, Segment, SegmentList};
use crate::framing::Record;
use silica_base::{Error, Result};
use silica_device::{Device, LogFile};
use std::sync::Arc;

/// How far a log could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// The sequence number that the next record gets.
    pub next_sequence: u64,
    /// Logical position behind the last record.
    pub end: u64,
}

/// Segments that are being read from the device while an earlier one is gone through, at most.
const SEGMENTS_AHEAD: usize = 2;

/// Opens the segments `numbers`, which the manifest names in this order. Those that continue begin
/// where they do once [`replay`] or [`for_each_record`] has read the ones before them.
pub fn open_segments<D: Device>(
    device: &D,
    store_id: u64,
    numbers: &[u64],
) -> Result<SegmentList<D::Log>> {
    let mut list: SegmentList<D::Log> = Vec::new();
    for &number in numbers {
        let segment = Segment::open(device, store_id, number)?;
        if let Some(before) = list.last().filter(|b| b.end() != segment.start) {
            let detail = format!("it starts at {}, not at {}", segment.start, before.end());
            return Err(Error::corruption(segment::name(number), 24, detail));
        }
        segment.follows(list.last().map(|before| &**before))?;
        list.push(Arc::new(segment));
    }
    Ok(list)
}

/// The sequence number from which on the log was cut, as far as the segment `index` of `list` is
/// concerned: a later segment that begins there says so, or `cut`, which was found just now. One
/// that continues says nothing: it begins where the log before it can be read to.
pub fn cut_of<L: LogFile>(list: &[Arc<Segment<L>>], index: usize, cut: Option<u64>) -> Option<u64> {
    let says = list[index + 1..].iter().filter(|later| !later.continues);
    says.map(|later| later.first_sequence()).chain(cut).min()
}

/// Visits the valid records of `list` with the logical positions of their payloads, in order and
/// without those that an earlier recovery cut, until `visit` says no.
pub fn for_each_record<L: LogFile>(
    list: &[Arc<Segment<L>>],
    visit: &mut dyn FnMut(u64, &Record<'_>) -> Result<bool>,
) -> Result<()> {
    let mut sequence = None;
    for (index, segment) in list.iter().enumerate() {
        let cut = cut_of(list, index, None);
        go_on(segment, sequence);
        let mut reader = segment.reader();
        while cut.is_none_or(|cut| reader.next_sequence() < cut) {
            let Some(record) = reader.next_record() else { break };
            if !visit(segment.start + record.payload_offset, &record)? {
                return Ok(());
            }
        }
        sequence = Some(reader.next_sequence());
    }
    Ok(())
}

/// Has a segment that does not say where it begins do so at `sequence`, which is the next one
/// behind the segment before it, if there is one.
fn go_on<L: LogFile>(segment: &Segment<L>, sequence: Option<u64>) {
    if let Some(sequence) = sequence.filter(|_| segment.continues) {
        segment.begin_at(sequence);
    }
}

/// Calls `visit` with the logical position and the payload of every record of `list` up to the one
/// with sequence number `cut`, and makes them durable; those below `durable_end` are. A torn tail
/// ends the log. What is missing although it was durable is an error.
pub fn replay<D: Device>(
    device: &D,
    list: &[Arc<Segment<D::Log>>],
    cut: Option<u64>,
    durable_end: u64,
    visit: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<Recovered> {
    let mut end = 0;
    // What follows the last segment that was read, and the last one, which may be cut.
    let (mut sequence, mut behind) = (None, None);
    list.iter().take(SEGMENTS_AHEAD).for_each(|segment| segment.log.wake());
    for (index, segment) in list.iter().enumerate() {
        if let Some(later) = list.get(index + SEGMENTS_AHEAD) {
            later.log.wake();
        }
        let cut = cut_of(list, index, cut);
        go_on(segment, behind);
        behind = Some(segment.first_sequence());
        if cut.is_some_and(|cut| segment.first_sequence() >= cut) {
            continue;
        }
        if sequence.is_some_and(|s| s != segment.first_sequence()) {
            let detail = format!("record {} is missing before it", sequence.unwrap_or(0));
            return Err(Error::corruption(segment::name(segment.number), 40, detail));
        }
        let read = segment.read_records(cut, visit)?;
        (sequence, behind) = (Some(read.next_sequence), Some(read.next_sequence));
        // One that continues and holds nothing leaves the end where it was.
        if !segment.continues || read.next_sequence > segment.first_sequence() {
            end = read.end;
        }
    }
    if end < durable_end && cut.is_none() {
        let name = list.last().map_or_else(|| "the log".into(), |s| segment::name(s.number));
        let detail = format!("durable records up to position {durable_end} are missing");
        return Err(Error::corruption(name, end, detail));
    }
    if end > durable_end {
        make_durable(device, list, durable_end, end)?;
    }
    Ok(Recovered { next_sequence: sequence.unwrap_or(1), end })
}

/// Makes the last records durable, up to position `end`. Everything before a segment that says
/// where it begins was durable when that one was registered.
fn make_durable<D: Device>(
    device: &D,
    list: &[Arc<Segment<D::Log>>],
    durable_end: u64,
    end: u64,
) -> Result<()> {
    let mut synced_through = 0;
    for segment in list.iter().rev().filter(|segment| segment.start < end) {
        synced_through = synced_through.max(segment.synced_through(end));
        segment.make_durable(device, durable_end, synced_through, end)?;
        if !segment.continues || segment.first_sequence() <= synced_through.saturating_add(1) {
            break;
        }
    }
    Ok(())
}
