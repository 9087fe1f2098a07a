//! Appending to the log, group commit, release.

use super::group::{Group, Turn};
use super::segment::{self, Segment, SegmentList};
use super::spares::Spares;
use super::upkeep::Waits;
use arc_swap::{ArcSwap, Guard};
use silica_base::{Error, ErrorKind, Result};
use silica_device::{Device, LogFile};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes between two positions that can be told apart: frames in the log are aligned to it.
pub const POSITION_BYTES: u64 = 8;

/// Capacity of the first segment of a run; each further one has twice that of the one before.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;

/// Segments are multiples of it.
const PAGE_BYTES: u64 = 4096;

/// The next segment is made ahead once one part in so many of the last one is full: not at once,
/// since it stays where it is not used, and short runs are not to fill a disk with such.
const AHEAD_PART: u64 = 4;

/// The live segments in order, as one immutable list.
pub struct Segments<L> {
    list: Vec<Arc<Segment<L>>>,
    /// Where each ends: a position is looked for here, side by side.
    ends: Vec<u64>,
}

impl<L: LogFile> Segments<L> {
    /// These, in the order of their positions.
    pub fn new(list: Vec<Arc<Segment<L>>>) -> Self {
        let ends = list.iter().map(|segment| segment.end()).collect();
        Segments { list, ends }
    }

    /// The bytes from logical position `at` to the end of its segment's appended part.
    #[inline]
    pub fn bytes_from(&self, at: u64) -> Option<&[u8]> {
        let index = self.ends.partition_point(|end| *end <= at);
        let segment = self.list.get(index)?;
        let offset = at.checked_sub(segment.start)?;
        let len = segment.log.len().checked_sub(offset)?;
        Some(segment.log.bytes(offset, len as usize))
    }

    /// As [`Segments::bytes_from`], and the place of the segment among all; it looks first at the
    /// segment at `hint`, where an earlier call has found something.
    #[inline]
    pub fn bytes_near(&self, at: u64, hint: usize) -> Option<(&[u8], usize)> {
        let there = self.list.get(hint).filter(|segment| segment.start <= at);
        let (segment, index) = match there {
            Some(segment) if self.ends.get(hint).is_some_and(|end| at < *end) => (segment, hint),
            _ => {
                let index = self.ends.partition_point(|end| *end <= at);
                (self.list.get(index)?, index)
            }
        };
        let offset = at.checked_sub(segment.start)?;
        let len = segment.log.len().checked_sub(offset)?;
        Some((segment.log.bytes(offset, len as usize), index))
    }

    /// The segments, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Segment<L>>> {
        self.list.iter()
    }
}

/// What the one appender at a time knows.
pub struct Appender<L> {
    /// Sequence number of the next record.
    pub next_sequence: u64,
    /// Number of the next segment.
    pub next_segment: u64,
    /// The segment that accepts appends.
    current: Option<Arc<Segment<L>>>,
}

impl<L> Appender<L> {
    /// An appender that starts a new segment with its first record.
    pub fn new(next_sequence: u64, next_segment: u64) -> Self {
        Appender { next_sequence, next_segment, current: None }
    }
}

/// The next segment, made before it is needed.
pub(super) struct Ahead<L> {
    /// What the next segment is to be, unless it is there.
    wanted: Option<segment::Header>,
    /// The next segment: durable, and in the manifest.
    pub(super) made: Option<Segment<L>>,
}

/// The log of one store; the module's documentation has its invariants.
pub struct Wal<D: Device> {
    pub(super) device: Arc<D>,
    store_id: u64,
    segment_bytes: AtomicU64,
    segments: ArcSwap<Segments<D::Log>>,
    /// Held by who changes the list.
    changes: Mutex<()>,
    /// `end` when the store was opened.
    pub(super) end_at_open: u64,
    /// Position behind the last record that recovery found.
    recovered_end: AtomicU64,
    /// Segments that end here or before are needed only to find out where the next ones begin.
    resting_end: AtomicU64,
    /// Sequence number of the last record that recovery found.
    recovered_sequence: AtomicU64,
    synced_sequence: AtomicU64,
    group: Group,
    poisoned: AtomicBool,
    pub(super) ahead: Mutex<Ahead<D::Log>>,
    pub(super) spares: Spares<D::Log>,
    /// Group commits made.
    pub syncs: AtomicU64,
    /// What writers waited for where a segment ended.
    pub waits: Waits,
}

/// What a segment that is to have `bytes` has: one begins where the last one ends, which is a
/// position only where all of them are multiples of [`POSITION_BYTES`].
fn whole_pages(bytes: u64) -> u64 {
    (bytes / PAGE_BYTES).max(1) * PAGE_BYTES
}

impl<D: Device> Wal<D> {
    /// A log over segments found at open, which end at `end`.
    pub fn new(
        device: Arc<D>,
        store_id: u64,
        segment_bytes: u64,
        list: Vec<Arc<Segment<D::Log>>>,
        end: u64,
    ) -> Self {
        Wal {
            device,
            store_id,
            segment_bytes: AtomicU64::new(whole_pages(segment_bytes)),
            segments: ArcSwap::from_pointee(Segments::new(list)),
            changes: Mutex::new(()),
            end_at_open: end,
            recovered_end: AtomicU64::new(0),
            resting_end: AtomicU64::new(0),
            recovered_sequence: AtomicU64::new(0),
            synced_sequence: AtomicU64::new(0),
            group: Group::new(end),
            poisoned: AtomicBool::new(false),
            ahead: Mutex::new(Ahead { wanted: None, made: None }),
            spares: Spares::default(),
            syncs: AtomicU64::new(0),
            waits: Waits::default(),
        }
    }

    /// Sets the capacity of segments to come, of which the last part of a page is left out.
    pub fn set_segment_bytes(&self, bytes: u64) {
        let bytes = whole_pages(bytes);
        self.segment_bytes.store(bytes, Ordering::Relaxed);
        self.remove_spares_unless(|spare| spare.capacity == bytes);
    }

    /// Capacity of segments to come, but for the first ones and those of large records.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Ordering::Relaxed)
    }

    /// Recovery read every record up to `last_sequence`, behind which the log ends at `end`, and
    /// made it durable.
    pub fn set_recovered(&self, last_sequence: u64, end: u64) {
        self.recovered_end.store(end, Ordering::Release);
        self.recovered_sequence.store(last_sequence, Ordering::Release);
        self.synced_sequence.store(last_sequence, Ordering::Release);
    }

    /// The live segments.
    #[inline]
    pub fn segments(&self) -> Arc<Segments<D::Log>> {
        self.segments.load_full()
    }

    /// The live segments as they are now, for a moment: at no cost for others who look at them.
    #[inline]
    pub fn segments_now(&self) -> Guard<Arc<Segments<D::Log>>> {
        self.segments.load()
    }

    /// Looks at the live segments, at no cost for others who do: `look` is to wait for nothing.
    #[inline]
    pub fn with_segments<T>(&self, look: impl FnOnce(&Segments<D::Log>) -> T) -> T {
        look(&self.segments.load())
    }

    /// Logical position after everything appended.
    #[inline]
    pub fn end(&self) -> u64 {
        self.with_segments(|segments| {
            // One that holds nothing yet goes on where the one before it ends.
            let mut ends = segments.list.iter().rev().filter(|s| s.has_records());
            let end = ends.next().map(|s| s.start + s.log.len());
            end.or(segments.list.first().map(|s| s.start)).unwrap_or(0)
        })
    }

    /// Sequence number of the last record.
    fn last_sequence(&self) -> u64 {
        self.with_segments(|segments| match segments.list.last() {
            Some(last) if self.is_own(last) => last.next_sequence() - 1,
            _ => self.recovered_sequence.load(Ordering::Acquire),
        })
    }

    /// True for a segment that this process made.
    fn is_own(&self, segment: &Segment<D::Log>) -> bool {
        segment.start >= self.end_at_open
    }

    /// The end of the records. Until something is appended, [`Wal::end`] is the capacity of the
    /// last segment found at open, which no record may ever reach.
    pub fn end_of_records(&self) -> u64 {
        let end = self.end();
        if end != self.end_at_open { end } else { self.recovered_end.load(Ordering::Acquire) }
    }

    /// Bytes appended since the last sync.
    pub fn unsynced_bytes(&self) -> u64 {
        let synced = self.group.synced_end();
        self.end().saturating_sub(synced)
    }

    /// Room for records in the last segment.
    pub fn room_bytes(&self) -> u64 {
        let room = |s: &Arc<Segment<D::Log>>| s.capacity.saturating_sub(s.log.len());
        self.with_segments(|segments| segments.list.last().map_or(0, room))
    }

    /// Mapped bytes of segments that somebody reads.
    pub fn mapped_bytes(&self) -> u64 {
        let resting_end = self.resting_end.load(Ordering::Relaxed);
        let segments = self.segments();
        segments.iter().filter(|s| s.end() > resting_end).map(|s| s.capacity).sum()
    }

    /// Bytes of all segments and of the spares, which take space, but no memory while they rest.
    pub fn file_bytes(&self) -> u64 {
        self.segments().iter().map(|s| s.capacity).sum::<u64>() + self.spare_bytes()
    }

    /// Refuses where an earlier sync failed.
    pub fn check(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            let message = "a sync of the log failed earlier; what was being written may be lost. \
                           Reopen the store to go on from what is durable";
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        Ok(())
    }

    /// Makes every further write fail with `Poisoned`.
    pub fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
    }

    /// Appends one record, [`segment::RECORD_ROOM_BYTES`] of room and its payload, and returns the
    /// logical position of the payload. `register` puts a new segment's number into the manifest.
    pub fn append(
        &self,
        appender: &mut Appender<D::Log>,
        record: &mut Vec<u8>,
        register: &dyn Fn(u64) -> Result<()>,
    ) -> Result<u64> {
        self.check()?;
        if let Some(current) = &appender.current {
            if let Some(at) = self.append_to(current, record)? {
                return Ok(at);
            }
            appender.next_sequence = current.next_sequence();
        }
        let record_bytes = (record.len() as u64).next_multiple_of(POSITION_BYTES);
        let added = self.add_segment(appender, record_bytes, register)?;
        let current = appender.current.insert(added);
        let at = self.append_to(current, record)?;
        at.ok_or_else(|| Error::new(ErrorKind::Full, "a new log segment has no room for a record"))
    }

    /// Appends as [`Wal::append`] does, for any number of callers at once, while no caller of that
    /// is at work. `None` where the record does not fit into the last segment: then [`Wal::append`]
    /// is to begin another one. Waits for nothing but the copies of records before its own.
    #[inline]
    pub fn append_beside_others(&self, record: &mut Vec<u8>) -> Result<Option<u64>> {
        self.check()?;
        self.with_segments(|segments| match segments.list.last() {
            Some(last) if self.is_own(last) => self.append_to(last, record),
            _ => Ok(None),
        })
    }

    #[inline]
    fn append_to(&self, segment: &Segment<D::Log>, record: &mut Vec<u8>) -> Result<Option<u64>> {
        segment.append(self.synced_sequence.load(Ordering::Acquire), record)
    }

    fn add_segment(
        &self,
        appender: &mut Appender<D::Log>,
        record_bytes: u64,
        register: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Arc<Segment<D::Log>>> {
        if let Some(made) = self.take_ahead(appender) {
            let fits = made.fits(record_bytes);
            let made = self.push(made, fits);
            if fits {
                return Ok(made);
            }
            // The manifest names it, so it stays, empty, and the next one holds the record.
        }
        self.waits.segments.fetch_add(1, Ordering::Relaxed);
        let number = appender.next_segment;
        let start = self.segments().iter().next_back().map_or(self.end(), |s| s.end());
        // The first segments of a run are small, so that many short runs do not fill a disk.
        let usual = appender.current.as_ref().map_or(FIRST_SEGMENT_BYTES, |c| 2 * c.capacity);
        let capacity = usual.min(self.segment_bytes());
        let least = segment::bytes_needed(record_bytes);
        let mut capacity = capacity.max(least);
        let first_sequence = appender.next_sequence;
        appender.next_segment += 1;
        let created = loop {
            let header = segment::Header { number, start, capacity, first_sequence };
            match self.create(&header) {
                Err(error) if error.kind() == ErrorKind::Full && self.remove_spares() > 0 => {}
                // A disk that is nearly full still takes a few deletes, which make room.
                Err(error) if error.kind() == ErrorKind::Full && capacity > least => {
                    capacity = (capacity / 4).next_multiple_of(PAGE_BYTES).max(least);
                }
                created => break created?,
            }
        };
        self.make_durable(&created)?;
        register(number)?;
        Ok(self.push(created, true))
    }

    /// Makes a segment's file and its header.
    fn create(&self, header: &segment::Header) -> Result<Segment<D::Log>> {
        let name = segment::name(header.number);
        let log = self.file_for(header.number, header.capacity);
        let created = log.and_then(|log| Segment::create(log, self.store_id, header));
        created.inspect_err(|_| {
            // A segment that the manifest does not name is removed at open, too.
            let _ = self.device.remove(&name);
        })
    }

    fn make_durable(&self, created: &Segment<D::Log>) -> Result<()> {
        let durable = created.log.sync().and_then(|()| self.device.sync_dir());
        durable.inspect_err(|_| self.poison())
    }

    /// Lets appends and readers have a segment that is durable and in the manifest. With
    /// `has_next` another one may be made ahead.
    fn push(&self, created: Segment<D::Log>, has_next: bool) -> Arc<Segment<D::Log>> {
        let created = Arc::new(created);
        let changes = self.lock_changes();
        let mut list = self.segments.load().list.clone();
        list.push(created.clone());
        self.segments.store(Arc::new(Segments::new(list)));
        drop(changes);
        let capacity = (2 * created.capacity).min(self.segment_bytes());
        let next = segment::Header {
            number: created.number + 1,
            start: created.end(),
            capacity,
            first_sequence: segment::CONTINUES,
        };
        self.ahead().wanted = has_next.then_some(next);
        created
    }

    fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().expect("no panic while held")
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead<D::Log>> {
        self.ahead.lock().expect("no panic while held")
    }

    /// The segment that was made ahead, which begins with the next record now.
    fn take_ahead(&self, appender: &mut Appender<D::Log>) -> Option<Segment<D::Log>> {
        let mut ahead = self.ahead();
        ahead.wanted = None;
        let made = ahead.made.take()?;
        made.begin_at(appender.next_sequence);
        appender.next_segment = made.number + 1;
        Some(made)
    }

    /// Makes the next segment, so that no append waits for it: its file, its header and, by
    /// `register`, its number in the manifest are durable then. True where there was none.
    pub fn prepare(&self, register: &dyn Fn(u64) -> Result<()>) -> Result<bool> {
        let is_soon = |s: &Arc<Segment<D::Log>>| s.log.len() * AHEAD_PART >= s.capacity;
        if !self.with_segments(|segments| segments.list.last().is_some_and(is_soon)) {
            return Ok(false);
        }
        let mut ahead = self.ahead();
        let Some(header) = ahead.wanted.take() else { return Ok(false) };
        self.check()?;
        let made = match self.create(&header) {
            Ok(made) => made,
            // The append that needs it makes a smaller one.
            Err(error) if error.kind() == ErrorKind::Full => return Ok(false),
            Err(error) => return Err(error),
        };
        self.make_durable(&made)?;
        if let Err(error) = register(header.number) {
            drop(made);
            // Else nobody knows whether the manifest names it.
            self.check()?;
            let _ = self.device.remove(&segment::name(header.number));
            return if error.kind() == ErrorKind::Full { Ok(false) } else { Err(error) };
        }
        ahead.made = Some(made);
        Ok(true)
    }

    /// Makes every record appended before the call durable; concurrent callers share one sync.
    /// `before` runs first (values that records point at).
    pub fn sync(&self, before: &dyn Fn() -> Result<()>) -> Result<()> {
        self.sync_to(self.end(), before)
    }

    /// Syncs the records before position `wanted`, which may all be durable already.
    pub fn sync_to(&self, wanted: u64, before: &dyn Fn() -> Result<()>) -> Result<()> {
        if self.group.synced_end() >= wanted {
            return self.check();
        }
        self.group.arrive();
        loop {
            self.check()?;
            if self.group.synced_end() >= wanted {
                return Ok(());
            }
            if let Turn::Lead { synced_before } = self.group.turn(wanted) {
                let result = self.lead_sync(synced_before, before);
                if result.is_err() {
                    self.poison();
                }
                self.group.led(result.as_ref().ok().copied());
                return result.map(|_| ());
            }
        }
    }

    fn lead_sync(&self, synced_before: u64, before: &dyn Fn() -> Result<()>) -> Result<u64> {
        // The sequence is read before the end, so that it never covers more than is synced.
        let sequence = self.last_sequence();
        let end = self.end();
        before()?;
        for segment in self.segments().iter().filter(|s| s.end() > synced_before) {
            segment.log.sync()?;
        }
        self.synced_sequence.store(sequence, Ordering::Release);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(end)
    }

    /// True where an open finds out without the segments before it where `segment` begins: its
    /// header says so, or its first record does, which is durable.
    fn stands_alone(&self, segment: &Segment<D::Log>, synced_end: u64) -> bool {
        let is_found = segment.start < self.end_at_open;
        let is_durable = synced_end > segment.start + segment::HEADER_BYTES as u64;
        !segment.continues || (!is_found && segment.has_records() && is_durable)
    }

    /// Takes segments that lie wholly below `floor` out of the list; the caller hands those
    /// returned to [`Wal::retire`] once the manifest has forgotten them. Those that have to stay
    /// until a later one says where it begins give their memory back.
    pub fn release_below(&self, floor: u64) -> SegmentList<D::Log> {
        let _changes = self.lock_changes();
        let segments = self.segments.load();
        let cut = segments.list.partition_point(|s| s.end() <= floor);
        // The last segment stays: it fixes where the next one starts.
        let mut cut = cut.min(segments.list.len().saturating_sub(1));
        let below = cut;
        let synced_end = self.group.synced_end();
        while cut > 0 && !self.stands_alone(&segments.list[cut], synced_end) {
            cut -= 1;
        }
        self.rest(&segments.list[..below], cut);
        let removed = segments.list[..cut].to_vec();
        if cut > 0 {
            self.segments.store(Arc::new(Segments::new(segments.list[cut..].to_vec())));
        }
        removed
    }

    /// Lets segments that lie wholly below `floor` give their memory back, if none is to be taken
    /// out. An open reads all of them.
    pub fn rest_below(&self, floor: u64) {
        let segments = self.segments();
        let below = segments.list.partition_point(|s| s.end() <= floor);
        let below = below.min(segments.list.len().saturating_sub(1));
        self.rest(&segments.list[..below], 0);
    }

    /// Has those of the segments `below` that are read no more, from the number `stay` on, give
    /// their memory back.
    fn rest(&self, below: &[Arc<Segment<D::Log>>], stay: usize) {
        let end = below.last().map_or(0, |last| last.end());
        let rested_end = self.resting_end.fetch_max(end, Ordering::Relaxed);
        below[stay..].iter().filter(|s| s.end() > rested_end).for_each(|s| s.log.rest());
    }
}
