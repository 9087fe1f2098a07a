//! What a range read goes through: the versions of one memtable or of one run, in order.

use crate::bucket::LogEntries;
use crate::memtable::Entries;
use crate::run::Run;
use crate::run_cursor::RunCursor;
use silica_base::Result;
use silica_device::{Device, LogFile};
use silica_parts::BlockCache;
use silica_parts::frame::{Frame, POINTER, TOMBSTONE};
use silica_parts::table::Version as Row;
use silica_parts::wal::Segments;
use std::sync::Arc;

/// Bytes that a range read reads ahead in each run, at most.
const READ_AHEAD_BYTES: usize = 256 << 10;

/// The versions of one memtable or run, and a place among them: at one, or nowhere.
pub(crate) enum Sorted<D: Device> {
    Memtable(Positions<D::Log>),
    Run(Box<RunCursor<D>>),
}

impl<D: Device> Sorted<D> {
    pub(crate) fn run(cache: &Arc<BlockCache>, run: &Run<D>) -> Self {
        Sorted::Run(Box::new(RunCursor::through(cache, run.clone(), READ_AHEAD_BYTES)))
    }

    /// To the first version whose key is at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            Sorted::Memtable(positions) => positions.seek(key),
            Sorted::Run(run) => drop(run.seek(key, u64::MAX)?),
        }
        Ok(())
    }

    /// To the last version whose key is before `key`; `None` stands for the end of all keys.
    pub(crate) fn seek_before(&mut self, key: Option<&[u8]>) -> Result<()> {
        match self {
            Sorted::Memtable(positions) => positions.seek_before(key),
            Sorted::Run(run) => drop(match key {
                Some(key) => run.seek_before(key, u64::MAX)?,
                None => run.seek_to_last()?,
            }),
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn advance(&mut self) -> Result<()> {
        match self {
            Sorted::Memtable(positions) => positions.go(positions.at + 1),
            Sorted::Run(run) => drop(run.advance()?),
        }
        Ok(())
    }

    pub(crate) fn retreat(&mut self) -> Result<()> {
        match self {
            Sorted::Memtable(positions) => positions.go(positions.at.wrapping_sub(1)),
            Sorted::Run(run) => drop(run.retreat()?),
        }
        Ok(())
    }

    /// The version here.
    #[inline]
    pub(crate) fn version(&self) -> Option<Row<'_>> {
        match self {
            Sorted::Memtable(positions) => positions.version(),
            Sorted::Run(run) => run.is_at_one().then(|| run.version()),
        }
    }
}

/// The positions of a memtable in order.
pub(crate) struct Positions<L> {
    positions: Arc<[u64]>,
    segments: Arc<Segments<L>>,
    at: usize,
}

impl<L: LogFile> Positions<L> {
    pub(crate) fn new(positions: Arc<[u64]>, segments: Arc<Segments<L>>) -> Self {
        let at = positions.len();
        Positions { positions, segments, at }
    }

    fn frame(&self, position: u64) -> Frame<'_> {
        // Not through the trait: what it borrows from is the segments.
        LogEntries(&self.segments).frame(position)
    }

    fn before(&self, key: &[u8]) -> usize {
        let entries = LogEntries(&self.segments);
        self.positions.partition_point(|position| entries.entry(*position).key < key)
    }

    fn seek(&mut self, key: &[u8]) {
        self.go(self.before(key));
    }

    fn seek_before(&mut self, key: Option<&[u8]>) {
        self.go(key.map_or(self.positions.len(), |key| self.before(key)).wrapping_sub(1));
    }

    /// Where `at` is behind the last position, or before the first, that is nowhere.
    #[inline]
    fn go(&mut self, at: usize) {
        self.at = at.min(self.positions.len());
    }

    #[inline]
    fn version(&self) -> Option<Row<'_>> {
        let position = *self.positions.get(self.at)?;
        let frame = self.frame(position);
        Some(Row {
            key: frame.key,
            sequence: position,
            flags: frame.flags & (TOMBSTONE | POINTER),
            expires_unix_ms: frame.expires_unix_ms,
            user_bits: frame.user_bits,
            value: frame.value,
        })
    }
}
