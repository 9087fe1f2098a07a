//! What a range read goes through: the versions of one memtable or of one run, in order.

use crate::bucket::{Bucket, LogEntries};
use crate::contents::Contents;
use crate::memtable::{Memtable, Node, SkipList};
use crate::run::Run;
use crate::run_cursor::RunCursor;
use crate::view::{Slice, View};
use silica_base::Result;
use silica_device::{Device, LogFile};
use silica_parts::BlockCache;
use silica_parts::frame::{Header, POINTER, TOMBSTONE};
use silica_parts::table::Version as Row;
use silica_parts::wal::{POSITION_BYTES, Segments};
use std::sync::Arc;

/// Bytes that a range read reads at once in each run, at most; as many are on their way.
const READ_AHEAD_BYTES: usize = 128 << 10;

/// Bytes that it reads first where it comes to a place, in all runs together: some fifty entries
/// of the usual size come with one read where there is one run.
const FIRST_READ_BYTES: usize = 12 << 10;

/// Bytes that it reads first of each run at least: the reads of all runs are under way together,
/// and one that comes later is waited for.
const FIRST_READ_BYTES_MIN: usize = 8 << 10;

/// Entries of the log whose memory is asked for before they are come to.
const AHEAD: usize = 6;

/// The versions of one memtable or run, and a place among them: at one, or nowhere.
pub(crate) enum Sorted<D: Device> {
    List(Listed<D>),
    Memtable(Positions<D::Log>),
    Run(Box<RunCursor<D>>),
}

/// The source has become another one: the bucket has to be entered again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Is {
    There,
    Stale,
}

impl<D: Device> Sorted<D> {
    /// One of so many runs; what is read of it stays in the cache if it `keeps`.
    pub(crate) fn run(cache: &Arc<BlockCache>, run: &Run<D>, runs: usize, keeps: bool) -> Self {
        let (run, first) = (run.clone(), (FIRST_READ_BYTES / runs).max(FIRST_READ_BYTES_MIN));
        let cursor = RunCursor::new(run, READ_AHEAD_BYTES).with_first_read(first);
        Sorted::Run(Box::new(cursor.through(cache).keeping(keeps)))
    }

    /// Reads of the device since this was last asked.
    pub(crate) fn take_device_reads(&mut self) -> u64 {
        match self {
            Sorted::Run(run) => run.take_device_reads(),
            Sorted::List(_) | Sorted::Memtable(_) => 0,
        }
    }

    /// Its run, if it is one.
    pub(crate) fn as_run(&mut self) -> Option<&mut RunCursor<D>> {
        match self {
            Sorted::Run(run) => Some(run),
            Sorted::List(_) | Sorted::Memtable(_) => None,
        }
    }

    /// To the first version whose key is at or after `key`.
    pub(crate) fn seek(&mut self, contents: &Contents<D>, key: &[u8]) -> Result<Is> {
        match self {
            Sorted::List(listed) => return Ok(listed.seek(contents, key)),
            Sorted::Memtable(positions) => positions.seek(key),
            Sorted::Run(run) => drop(run.seek(key, u64::MAX)?),
        }
        Ok(Is::There)
    }

    /// To the last version whose key is before `key`; `None` stands for the end of all keys.
    pub(crate) fn seek_before(&mut self, contents: &Contents<D>, key: Option<&[u8]>) -> Result<Is> {
        match self {
            Sorted::List(listed) => return Ok(listed.seek_before(contents, key)),
            Sorted::Memtable(positions) => positions.seek_before(key),
            Sorted::Run(run) => drop(match key {
                Some(key) => run.seek_before(key, u64::MAX)?,
                None => run.seek_to_last()?,
            }),
        }
        Ok(Is::There)
    }

    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        match self {
            Sorted::List(listed) => _ = listed.advance(),
            Sorted::Memtable(positions) => _ = positions.advance(),
            Sorted::Run(run) => drop(run.advance()?),
        }
        Ok(())
    }

    pub(crate) fn retreat(&mut self, contents: &Contents<D>) -> Result<Is> {
        match self {
            Sorted::List(listed) => return Ok(listed.retreat(contents)),
            Sorted::Memtable(positions) => positions.retreat(),
            Sorted::Run(run) => drop(run.retreat()?),
        }
        Ok(Is::There)
    }

    /// The key of the version here.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self {
            Sorted::List(listed) => listed.key(),
            Sorted::Memtable(positions) => positions.key(),
            Sorted::Run(run) => run.is_at_one().then(|| run.key()),
        }
    }

    /// The version here.
    #[inline]
    pub(crate) fn version(&self) -> Option<Row<'_>> {
        match self {
            Sorted::List(listed) => listed.version(),
            Sorted::Memtable(positions) => positions.version(),
            Sorted::Run(run) => run.is_at_one().then(|| run.version()),
        }
    }
}

/// A version of the log whose header was read: what an iterator stands on is looked at several
/// times.
#[derive(Clone, Copy)]
struct Spot {
    position: u64,
    header: Header,
    /// The place of its segment among the log's.
    segment: usize,
}

impl Spot {
    /// A spot and its bytes from the key on. `near` is the place of a segment where it may be.
    #[inline]
    fn read<L: LogFile>(segments: &Segments<L>, position: u64, near: usize) -> (Self, &[u8]) {
        let found = segments.bytes_near(position * POSITION_BYTES, near);
        let (bytes, segment) = found.expect("memtables hold positions of entries");
        let header = Header::decode(bytes).expect("memtables hold positions of entries");
        (Spot { position, header, segment }, &bytes[header.key_start..])
    }

    #[inline]
    fn bytes<'s, L: LogFile>(&self, segments: &'s Segments<L>) -> &'s [u8] {
        let found = segments.bytes_near(self.position * POSITION_BYTES, self.segment);
        &found.expect("its header was read").0[self.header.key_start..]
    }

    #[inline]
    fn key<'s, L: LogFile>(&self, segments: &'s Segments<L>) -> &'s [u8] {
        &self.bytes(segments)[..self.header.key_len]
    }

    #[inline]
    fn row<'s, L: LogFile>(&self, segments: &'s Segments<L>) -> Row<'s> {
        self.row_of(self.bytes(segments))
    }

    /// The version whose bytes these are, from the key on.
    #[inline]
    fn row_of<'s>(&self, bytes: &'s [u8]) -> Row<'s> {
        let Header { flags, expires_unix_ms, user_bits, key_len, value_len, .. } = self.header;
        let (key, rest) = bytes.split_at(key_len);
        Row {
            key,
            sequence: self.position,
            flags: flags & (TOMBSTONE | POINTER),
            expires_unix_ms,
            user_bits,
            value: &rest[..value_len],
        }
    }
}

/// A list that is written meanwhile, as far as a snapshot sees it.
///
/// A search compares entries, new ones, too. It is made under the bucket's lock, with the log's
/// segments as they are then, and only while the list is the one that is written: later its entries
/// may be gone from the log. A step forwards takes no lock, since it passes what is new unread.
pub(crate) struct Listed<D: Device> {
    list: Arc<SkipList>,
    bucket: Arc<Bucket<D>>,
    segments: Arc<Segments<D::Log>>,
    before: u64,
    node: Option<Node>,
    /// Of `node`.
    spot: Option<Spot>,
}

impl<D: Device> Listed<D> {
    /// What is in `list` before position `before`.
    pub(crate) fn new(list: &Arc<SkipList>, view: &View<D>, before: u64) -> Self {
        let (bucket, segments) = (Arc::clone(&view.bucket), Arc::clone(&view.segments));
        Listed { list: Arc::clone(list), bucket, segments, before, node: None, spot: None }
    }

    /// Calls `search` where the list is still written.
    fn search(
        &mut self,
        contents: &Contents<D>,
        search: impl FnOnce(&SkipList, &LogEntries<'_, D::Log>) -> Option<Node>,
    ) -> Is {
        let stores = self.bucket.read();
        let is_written = match &stores.active {
            Memtable::List(active) => Arc::ptr_eq(active, &self.list),
            Memtable::Hash(_) => false,
        };
        if stores.is_gone || !is_written {
            return Is::Stale;
        }
        self.segments = contents.log.segments();
        let node = search(&self.list, &LogEntries(&self.segments));
        drop(stores);
        self.go(node);
        Is::There
    }

    /// What it comes to is handed out: so whoever goes through many reads each place once.
    #[inline]
    fn go(&mut self, node: Option<Node>) -> Option<Row<'_>> {
        self.node = node;
        let near = self.spot.take().map_or(0, |spot| spot.segment);
        let (spot, bytes) = Spot::read(&self.segments, self.list.position(node?), near);
        Some(self.spot.insert(spot).row_of(bytes))
    }

    /// `node`, or the first one behind it that is seen.
    #[inline]
    fn seen(list: &SkipList, mut node: Option<Node>, before: u64) -> Option<Node> {
        while let Some(at) = node
            && list.position(at) >= before
        {
            node = list.after(at);
        }
        node
    }

    fn seek(&mut self, contents: &Contents<D>, key: &[u8]) -> Is {
        let before = self.before;
        self.search(contents, |list, entries| {
            Self::seen(list, list.seek(key, u64::MAX, entries), before)
        })
    }

    fn seek_before(&mut self, contents: &Contents<D>, key: Option<&[u8]>) -> Is {
        let before = self.before;
        self.search(contents, |list, entries| {
            let last = match key {
                Some(key) => list.seek_before(key, u64::MAX, entries),
                None => list.last(),
            };
            Self::seen_before(list, last, before, entries)
        })
    }

    /// `node`, or the last one before it that is seen.
    fn seen_before(
        list: &SkipList,
        mut node: Option<Node>,
        before: u64,
        entries: &LogEntries<'_, D::Log>,
    ) -> Option<Node> {
        while let Some(at) = node
            && list.position(at) >= before
        {
            let position = list.position(at);
            node = list.seek_before(entries.frame(position).key, position, entries);
        }
        node
    }

    /// To the next version, which is handed out.
    #[inline]
    pub(crate) fn advance(&mut self) -> Option<Row<'_>> {
        let next = self.node.and_then(|node| self.list.after(node));
        let node = Self::seen(&self.list, next, self.before);
        self.go(node)
    }

    fn retreat(&mut self, contents: &Contents<D>) -> Is {
        let (node, before) = (self.node, self.before);
        self.search(contents, |list, entries| {
            let position = list.position(node?);
            let last = list.seek_before(entries.frame(position).key, position, entries);
            Self::seen_before(list, last, before, entries)
        })
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        Some(self.spot?.key(&self.segments))
    }

    #[inline]
    pub(crate) fn version(&self) -> Option<Row<'_>> {
        Some(self.spot?.row(&self.segments))
    }
}

/// The positions of a memtable in order.
pub(crate) struct Positions<L> {
    slice: Slice,
    segments: Arc<Segments<L>>,
    at: usize,
    /// Of the position there.
    spot: Option<Spot>,
}

impl<L: LogFile> Positions<L> {
    pub(crate) fn new(slice: Slice, segments: Arc<Segments<L>>) -> Self {
        let at = slice.len();
        Positions { slice, segments, at, spot: None }
    }

    fn before(&self, key: &[u8]) -> usize {
        self.slice.before(key, &LogEntries(&self.segments))
    }

    fn seek(&mut self, key: &[u8]) {
        let at = self.before(key);
        for ahead in at..at + AHEAD {
            self.prefetch(ahead);
        }
        self.go(at);
    }

    fn seek_before(&mut self, key: Option<&[u8]>) {
        self.go(key.map_or(self.slice.len(), |key| self.before(key)).wrapping_sub(1));
    }

    /// Asks for the memory of a position's entry, which lies anywhere in the log.
    #[inline]
    fn prefetch(&self, at: usize) {
        if let Some(position) = self.slice.get(at) {
            let near = self.spot.map_or(0, |spot| spot.segment);
            LogEntries(&self.segments).prefetch_near(position, near);
        }
    }

    /// Where `at` is behind the last position, or before the first, that is nowhere.
    #[inline]
    fn go(&mut self, at: usize) -> Option<Row<'_>> {
        self.at = at.min(self.slice.len());
        let near = self.spot.take().map_or(0, |spot| spot.segment);
        let (spot, bytes) = Spot::read(&self.segments, self.slice.get(self.at)?, near);
        Some(self.spot.insert(spot).row_of(bytes))
    }

    /// To the next version, which is handed out.
    #[inline]
    pub(crate) fn advance(&mut self) -> Option<Row<'_>> {
        self.prefetch(self.at + AHEAD);
        self.go(self.at + 1)
    }

    #[inline]
    fn retreat(&mut self) {
        self.prefetch(self.at.wrapping_sub(AHEAD));
        self.go(self.at.wrapping_sub(1));
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        Some(self.spot?.key(&self.segments))
    }

    #[inline]
    pub(crate) fn version(&self) -> Option<Row<'_>> {
        Some(self.spot?.row(&self.segments))
    }
}
