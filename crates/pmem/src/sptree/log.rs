//! The log of write buffers (sections 4.4.1 and 4.4.4): docs/formats/sptree.md, "Log".
//!
//! 1. What a buffer holds is in the log, durably, before the write that brought it returns.
//! 2. A record counts if the leaf that it names is a leaf of the tree and has the record's mark. A
//!    buffer's entries and the leaf's next mark reach the leaf together, so from then on none of
//!    the buffer's records counts, and before that all of them do.
//! 3. A mark that a leaf gets is one that no record in the log has with that leaf's place. Marks
//!    are numbers in turn, of 32 bits, and none of a whole record in the log is old: a segment
//!    whose records do not count any more gets another lap, under which they are none, and a
//!    segment that its lane does not fill for long is closed. So only a leaf whose mark comes soon
//!    could have the same one twice, and such a leaf gets no buffer.
//! 4. Records of one leaf and mark are ordered by their ordinals, whatever segments they lie in. So
//!    threads append to segments of their own.
//! 5. A segment is written again only when none of its records counts.

use super::layout::{LEAF_ALIGNMENT, Slot, checked, mark_of, record_sum, unchecked};
use super::sync::{AtomicU64, Ordering};
use crate::space::{PAGE_BYTES, ROOT, Space};
use silica_base::{Error, ErrorKind, Result, thread_number};
use silica_device::region::Region;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, MutexGuard};

/// Bytes of a record: two have a line.
const RECORD_BYTES: u64 = 32;
/// Bytes of a segment before its first record.
const HEADER_BYTES: u64 = 64;
/// Where the root lists the segments, and how many at most.
const TABLE: u64 = ROOT + 64;
const SEGMENTS_MAX: usize = 256;
/// Bytes of a segment of a large store: so many that the log has 64 MiB at most.
const SEGMENT_BYTES_MAX: u64 = 256 << 10;
const SEGMENT_BYTES_MIN: u64 = 16 << 10;
/// Share of the region that the log may take.
const REGION_SHARE: u64 = 16;
/// Segments that are written at the same time, by different threads.
const LANES: usize = 8;
/// The log is short of room if fewer segments are left.
const SPARE_SEGMENTS: usize = 2;
const PAGE_BITS: u32 = 36;
/// Segments that are begun while another one is being filled, at most.
const LAPS_OPEN_MAX: u64 = 1024;
/// Marks that are taken while a record is in the log, at most. There are two million records, and
/// ten million are written before a segment is closed; a record brings one mark for its leaf and
/// some for leaves made of it, and leaves without buffers bring one for some 30 inserts.
const MARKS_SOON: u32 = 1 << 28;

/// A record: a place of a leaf's buffer changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) leaf: u64,
    pub(crate) mark: u32,
    /// Of those of this leaf and mark, from 0.
    pub(crate) ordinal: u8,
    pub(crate) place: u8,
    /// With `is_in_leaf`: the key is deleted. Without: the place is free.
    pub(crate) is_deleted: bool,
    pub(crate) is_in_leaf: bool,
    pub(crate) slot: Slot,
}

impl Record {
    fn words(&self) -> [u64; 4] {
        let flags = u64::from(self.slot.is_plain)
            | u64::from(self.is_deleted) << 1
            | u64::from(self.is_in_leaf) << 2;
        let packed = (self.leaf / LEAF_ALIGNMENT)
            | (u64::from(self.slot.tag) << 40)
            | flags << 48
            | u64::from(self.place) << 51
            | u64::from(self.ordinal) << 55;
        [u64::from(self.mark), packed, self.slot.head, self.slot.body]
    }

    fn of_words([mark, packed, head, body]: [u64; 4]) -> Record {
        let flag = |bit: u32| packed >> (48 + bit) & 1 == 1;
        Record {
            leaf: (packed & ((1 << 40) - 1)) * LEAF_ALIGNMENT,
            mark: mark as u32,
            ordinal: (packed >> 55) as u8,
            place: (packed >> 51 & 0xF) as u8,
            is_deleted: flag(1),
            is_in_leaf: flag(2),
            slot: Slot { head, body, tag: (packed >> 40) as u8, is_plain: flag(0) },
        }
    }
}

/// A piece of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    at: u64,
    bytes: u64,
    lap: u64,
}

impl Segment {
    fn word(&self, store: u64, number: usize) -> u64 {
        let low = (self.at / PAGE_BYTES) | ((self.bytes / PAGE_BYTES) << PAGE_BITS);
        checked(store, TABLE + 8 * number as u64, low)
    }

    fn records(&self) -> impl Iterator<Item = u64> + use<> {
        (self.at + HEADER_BYTES..self.at + self.bytes).step_by(RECORD_BYTES as usize)
    }
}

/// A segment that a lane appends to.
struct Open {
    segment: Segment,
    number: usize,
    next: u64,
}

#[derive(Default)]
struct Segments {
    all: Vec<Segment>,
    /// Segments that were written to their ends, the oldest first.
    full: VecDeque<usize>,
    free: Vec<usize>,
    lap: u64,
}

/// Which marks an opening knows.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Marks<'m> {
    /// Those of all leaves: records of the log may count.
    Of(&'m [u32]),
    /// The next one that is free: no record of the log counts.
    From(u32),
}

/// What an opening finds in the log.
pub(crate) struct Found {
    pub(crate) log: Log,
    /// Every whole record, in no order.
    pub(crate) records: Vec<Key>,
}

/// What a record is about, and where it is: two million of them are sorted as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Key {
    fn new(record: &Record, segment: usize, at: u64) -> Key {
        let leaf = u128::from(record.leaf / LEAF_ALIGNMENT) << 72;
        let of_leaf = u128::from(record.mark) << 40 | u128::from(record.ordinal) << 32;
        Key(leaf | of_leaf | (segment as u128) << 24 | u128::from(at / RECORD_BYTES))
    }

    /// Leaf and mark, by which keys are ordered before anything else.
    pub(crate) fn leaf(self) -> (u64, u32) {
        ((self.0 >> 72) as u64 * LEAF_ALIGNMENT, self.mark())
    }

    fn mark(self) -> u32 {
        (self.0 >> 40) as u32
    }

    pub(crate) fn ordinal(self) -> u8 {
        (self.0 >> 32) as u8
    }
}

/// The log.
pub(crate) struct Log {
    segments: Mutex<Segments>,
    lanes: [Mutex<Option<Open>>; LANES],
    segment_bytes: u64,
    bytes_max: AtomicU64,
    is_short: AtomicBool,
    next_mark: AtomicU32,
    /// Records written since the opening.
    pub(crate) records: AtomicU64,
}

impl Log {
    /// True if the region has a log.
    pub(crate) fn is_there<R: Region>(space: &Space<R>) -> bool {
        space.region().load(TABLE) != 0
    }

    /// The log of a region that may have `region_bytes`, as the root says it.
    ///
    /// # Errors
    /// `Corruption`.
    pub(crate) fn open<R: Region>(
        space: &Space<R>,
        region_bytes: u64,
        marks: Marks<'_>,
    ) -> Result<Found> {
        let (region, store) = (space.region(), space.store());
        let (mut segments, mut records) = (Segments::default(), Vec::new());
        for number in 0..SEGMENTS_MAX {
            let at = TABLE + 8 * number as u64;
            let word = region.load(at);
            if word == 0 {
                break;
            }
            let low = unchecked(store, at, word).ok_or_else(|| damaged(space.name(), at))?;
            let pages = low >> PAGE_BITS;
            let start = (low & ((1 << PAGE_BITS) - 1)) * PAGE_BYTES;
            let bytes = pages * PAGE_BYTES;
            if start == 0 || bytes < HEADER_BYTES || start + bytes > region.len() {
                return Err(damaged(space.name(), at));
            }
            // A segment that was not begun before a crash has no lap, and no records.
            let lap = unchecked(store, start, region.load(start)).unwrap_or(0);
            let segment = Segment { at: start, bytes, lap };
            segments.lap = segments.lap.max(lap);
            if let Marks::Of(_) = marks {
                let key = |(at, record): (u64, Record)| Key::new(&record, number, at - start);
                records.extend(read(region, store, &segment).map(key));
            }
            segments.all.push(segment);
        }
        if space.is_marking() {
            let objects: Vec<u64> = segments.all.iter().map(|segment| segment.at).collect();
            space.mark(&objects)?;
        }
        let mut numbers: Vec<usize> = (0..segments.all.len()).collect();
        silica_base::compact_sort_by_key(&mut numbers, |number| segments.all[*number].lap);
        segments.full = numbers.into();
        let next_mark = match marks {
            // A store without a log has leaves without marks.
            Marks::Of(_) if segments.all.is_empty() => 1,
            Marks::Of(leaves) => {
                let of_leaves = leaves.iter().copied().filter(|mark| *mark != 0);
                unused_mark(of_leaves.chain(records.iter().map(|key| key.mark())).collect())
            }
            Marks::From(next) => next,
        };
        let bytes_max = region_bytes / REGION_SHARE;
        let segment_bytes = (bytes_max / SEGMENTS_MAX as u64 / PAGE_BYTES * PAGE_BYTES)
            .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        let log = Log {
            is_short: AtomicBool::new(!segments.full.is_empty()),
            segments: Mutex::new(segments),
            lanes: std::array::from_fn(|_| Mutex::default()),
            segment_bytes,
            bytes_max: AtomicU64::new(bytes_max.max(2 * segment_bytes)),
            next_mark: AtomicU32::new(next_mark),
            records: AtomicU64::new(0),
        };
        Ok(Found { log, records })
    }

    fn segments(&self) -> MutexGuard<'_, Segments> {
        self.segments.lock().expect("no panic while locked")
    }

    /// True if the region has a log: leaves need marks.
    pub(crate) fn is_used(&self) -> bool {
        !self.segments().all.is_empty()
    }

    /// A mark that no record in the log has with the place of a leaf that gets it.
    pub(crate) fn new_mark(&self) -> u32 {
        loop {
            let mark = self.next_mark.fetch_add(1, Ordering::Relaxed);
            if mark != 0 {
                return mark;
            }
        }
    }

    /// The mark that a leaf gets next.
    pub(crate) fn next_mark(&self) -> u32 {
        self.next_mark.load(Ordering::Relaxed)
    }

    /// True if a leaf with this mark might get it again while its records are still in the log.
    pub(crate) fn comes_soon(&self, mark: u32) -> bool {
        mark != 0 && mark.wrapping_sub(self.next_mark.load(Ordering::Relaxed)) < MARKS_SOON
    }

    /// True if [`Log::oldest`] should be emptied before more is written.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Appends a record, durably; false if there is no room: nothing has happened.
    ///
    /// # Errors
    /// Those of a fence.
    pub(crate) fn append<R: Region>(&self, space: &Space<R>, record: &Record) -> Result<bool> {
        let lane = &self.lanes[thread_number() as usize % LANES];
        let mut lane = lane.lock().expect("no panic while locked");
        let is_at_end = |open: &Open| open.next == open.segment.at + open.segment.bytes;
        if lane.as_ref().is_none_or(is_at_end) {
            let done = lane.take();
            *lane = self.begin_segment(space, done)?;
        }
        let Some(open) = lane.as_mut() else { return Ok(false) };
        let (region, at) = (space.region(), open.next);
        let words = record.words();
        let sum = record_sum(space.store(), open.segment.lap, at, words);
        region.store(at, words[0] | u64::from(sum) << 32);
        for (word, offset) in words[1..].iter().zip([8, 16, 24]) {
            region.store(at + offset, *word);
        }
        region.flush(at, RECORD_BYTES);
        open.next += RECORD_BYTES;
        region.fence()?;
        self.records.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// A segment to append to; `None` if there is none.
    fn begin_segment<R: Region>(
        &self,
        space: &Space<R>,
        done: Option<Open>,
    ) -> Result<Option<Open>> {
        self.close_idle();
        let mut segments = self.segments();
        segments.full.extend(done.map(|open| open.number));
        let number = match segments.free.pop() {
            Some(number) => Some(number),
            None => self.add_segment(space, &mut segments)?,
        };
        let room = self.bytes_max.load(Ordering::Relaxed).saturating_sub(bytes_of(&segments));
        let left = segments.free.len() + (room / self.segment_bytes) as usize;
        self.is_short.store(left < SPARE_SEGMENTS, Ordering::Relaxed);
        let Some(number) = number else { return Ok(None) };
        // The first record's fence covers it: no record counts under another lap.
        let segment = renew(space, &mut segments, number);
        Ok(Some(Open { segment, number, next: segment.at + HEADER_BYTES }))
    }

    /// Closes segments of lanes that write so little that other lanes have begun many meanwhile.
    fn close_idle(&self) {
        let lap = self.segments().lap;
        for lane in &self.lanes {
            // A lane that is in use is not idle.
            let Ok(mut lane) = lane.try_lock() else { continue };
            if let Some(open) = lane.take_if(|open| lap - open.segment.lap > LAPS_OPEN_MAX) {
                self.segments().full.push_back(open.number);
            }
        }
    }

    /// Adds a segment to the log if it may grow.
    fn add_segment<R: Region>(
        &self,
        space: &Space<R>,
        segments: &mut Segments,
    ) -> Result<Option<usize>> {
        let (number, bytes) = (segments.all.len(), self.segment_bytes);
        let grown = bytes_of(segments) + bytes;
        if number == SEGMENTS_MAX || grown > self.bytes_max.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let at = match space.allocate(bytes) {
            Ok(at) => at,
            Err(error) if error.kind() == ErrorKind::Full => return Ok(None),
            Err(error) => return Err(error),
        };
        let region = space.region();
        // What was there before must not pass for records.
        region.store(at, 0);
        region.flush(at, 8);
        region.fence()?;
        let segment = Segment { at, bytes, lap: 0 };
        region.store(TABLE + 8 * number as u64, segment.word(space.store(), number));
        region.flush(TABLE + 8 * number as u64, 8);
        region.fence()?;
        segments.all.push(segment);
        Ok(Some(number))
    }

    /// Takes the oldest segment that was written to its end: its number and records. Afterwards
    /// comes [`Log::emptied`] or [`Log::keep`].
    pub(crate) fn oldest<R: Region>(&self, space: &Space<R>) -> Option<(usize, Vec<Record>)> {
        let (number, segment) = {
            let mut segments = self.segments();
            let number = segments.full.pop_front()?;
            (number, segments.all[number])
        };
        let records = read(space.region(), space.store(), &segment).map(|(_, record)| record);
        Some((number, records.collect()))
    }

    /// The record of a key that an opening has found.
    pub(crate) fn record<R: Region>(&self, region: &R, key: Key) -> Record {
        let at = self.segments().all[(key.0 >> 24) as usize & 0xFF].at
            + (key.0 as u64 & 0xFF_FFFF) * RECORD_BYTES;
        words_of(region, at).1
    }

    /// No record of the segment counts any more.
    /// They are none from here on: the segment has another lap, durably at a later fence.
    pub(crate) fn emptied<R: Region>(&self, space: &Space<R>, number: usize) {
        let mut segments = self.segments();
        renew(space, &mut segments, number);
        segments.free.push(number);
        let is_short = segments.free.len() < SPARE_SEGMENTS && !segments.full.is_empty();
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// Records of the segment still count: it is the youngest now, and the next one is tried when
    /// another segment has been written to its end.
    pub(crate) fn keep(&self, number: usize) {
        self.segments().full.push_back(number);
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// No record at all counts any more: every segment may be written again.
    pub(crate) fn emptied_all<R: Region>(&self, space: &Space<R>) {
        for lane in &self.lanes {
            let open = lane.lock().expect("no panic while locked").take();
            self.segments().full.extend(open.map(|open| open.number));
        }
        let mut segments = self.segments();
        let full = std::mem::take(&mut segments.full);
        for number in full {
            renew(space, &mut segments, number);
            segments.free.push(number);
        }
        self.is_short.store(false, Ordering::Relaxed);
    }

    /// Bytes of the log in the region.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.segments())
    }

    /// The log does not grow over its share of a region that may have `region_bytes`.
    pub(crate) fn set_limit(&self, region_bytes: u64) {
        let bytes = (region_bytes / REGION_SHARE).max(2 * self.segment_bytes);
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }
}

/// Gives a segment the next lap: whole records under another one are none.
fn renew<R: Region>(space: &Space<R>, segments: &mut Segments, number: usize) -> Segment {
    segments.lap += 1;
    segments.all[number].lap = segments.lap;
    let segment = segments.all[number];
    space.region().store(segment.at, checked(space.store(), segment.at, segment.lap));
    space.region().flush(segment.at, 8);
    segment
}

fn bytes_of(segments: &Segments) -> u64 {
    segments.all.iter().map(|segment| segment.bytes).sum()
}

fn damaged(name: &str, at: u64) -> Error {
    Error::corruption(name, at, "the list of the log's segments is damaged: restore a backup")
}

/// The check in a record, and the record.
fn words_of<R: Region>(region: &R, at: u64) -> (u32, Record) {
    let mut words: [u64; 4] = std::array::from_fn(|word| region.word(at + 8 * word as u64));
    let sum = mark_of(words[0]);
    words[0] &= 0xFFFF_FFFF;
    (sum, Record::of_words(words))
}

/// Whole records of a segment, and where they lie. A record that a power cut left torn was never
/// acknowledged.
fn read<'r, R: Region>(
    region: &'r R,
    store: u64,
    segment: &Segment,
) -> impl Iterator<Item = (u64, Record)> + use<'r, R> {
    let lap = segment.lap;
    segment.records().filter_map(move |at| {
        let (sum, record) = words_of(region, at);
        let is_whole = lap != 0 && record_sum(store, lap, at, record.words()) == sum;
        is_whole.then_some((at, record))
    })
}

/// The first mark of a long run that has none of `marks`.
fn unused_mark(mut marks: Vec<u32>) -> u32 {
    // Marks are taken in turn, so some of these parts of all marks nearly always have none.
    const PARTS: usize = 1 << 8;
    let mut has_marks = [false; PARTS];
    marks.iter().for_each(|mark| has_marks[(mark >> 24) as usize] = true);
    if has_marks.contains(&true)
        && let Some(first) =
            (0..PARTS).find(|part| has_marks[*part] && !has_marks[(part + 1) % PARTS])
    {
        return (((first + 1) % PARTS) << 24) as u32;
    }
    marks.sort_unstable();
    marks.dedup();
    let Some(last) = marks.last() else { return 1 };
    let before = std::iter::once(last).chain(&marks);
    let gaps = before.zip(&marks).map(|(one, next)| (next.wrapping_sub(*one), *one));
    gaps.max().map_or(1, |(_, mark)| mark.wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(leaf: u64, mark: u32) -> Record {
        let slot = Slot { head: 5, body: 6, tag: 7, is_plain: true };
        let (ordinal, place) = (255, 15);
        Record { leaf, mark, ordinal, place, is_deleted: true, is_in_leaf: true, slot }
    }

    #[test]
    fn records_are_what_their_words_say() {
        for record in [record(1 << 47, u32::MAX), record(256, 0)] {
            assert_eq!(Record::of_words(record.words()), record);
        }
        let other = Record { is_deleted: false, is_in_leaf: false, place: 3, ..record(512, 9) };
        assert_eq!(Record::of_words(other.words()), other);
    }

    #[test]
    fn marks_begin_where_the_log_has_none() {
        assert_eq!(unused_mark(vec![]), 1);
        assert_eq!(unused_mark(vec![9, 9]), 1 << 24);
        assert_eq!(unused_mark(vec![3, u32::MAX, 1 << 25, 3]), 1 << 24);
        assert_eq!(unused_mark(vec![u32::MAX]), 0);
        let mut everywhere: Vec<u32> = (0..512).map(|at| at << 23).collect();
        everywhere.retain(|mark| *mark != 7 << 23);
        assert_eq!(unused_mark(everywhere), (6 << 23) + 1);
    }
}
