//! Going through a run's versions in either direction.

use crate::memtable::{head, is_from};
use crate::merge::Source;
use crate::run::Run;
use silica_base::{AlignedBuf, Result};
use silica_device::{Device, READS_MAX, Read, ReadQueue};
use silica_parts::BlockCache;
use silica_parts::table::{Cursor, Mark, SeekRead, Table, Version};
use std::sync::Arc;

/// A place in a run. After a call that returned true, it is at a version; after one that returned
/// false or failed, it is nowhere, and only a seek goes on from there.
pub(crate) struct RunCursor<D: Device> {
    run: Run<D>,
    read_ahead_bytes: usize,
    first_read_bytes: usize,
    /// Bytes that all keys begin with, as somebody found.
    pub(crate) common: usize,
    cache: Option<Arc<BlockCache>>,
    /// What is read goes into the cache.
    keeps: bool,
    /// The part that was entered last, and a place in its table.
    part: usize,
    cursor: Option<Cursor<D::File>>,
    is_at_one: bool,
}

impl<D: Device> RunCursor<D> {
    /// A cursor that reads up to `read_ahead_bytes` at once where it goes on in one direction.
    pub(crate) fn new(run: Run<D>, read_ahead_bytes: usize) -> Self {
        RunCursor {
            run,
            read_ahead_bytes,
            first_read_bytes: 0,
            common: 0,
            cache: None,
            keeps: true,
            part: 0,
            cursor: None,
            is_at_one: false,
        }
    }

    /// This cursor, which reads `first_read_bytes` at once where it comes to another place.
    pub(crate) fn with_first_read(self, first_read_bytes: usize) -> Self {
        RunCursor { first_read_bytes, ..self }
    }

    /// This cursor, which finds blocks in a cache, too.
    pub(crate) fn through(self, cache: &Arc<BlockCache>) -> Self {
        RunCursor { cache: Some(Arc::clone(cache)), ..self }
    }

    /// The cursor puts what it reads into its cache only if it `keeps`.
    pub(crate) fn keeping(self, keeps: bool) -> Self {
        RunCursor { keeps, ..self }
    }

    /// True where it is at a version.
    #[inline]
    pub(crate) fn is_at_one(&self) -> bool {
        self.is_at_one
    }

    /// Reads of the device in the part that it is in, since this was last asked.
    pub(crate) fn take_device_reads(&mut self) -> u64 {
        self.cursor.as_mut().map_or(0, Cursor::take_device_reads)
    }

    /// The key of the version here.
    ///
    /// # Panics
    /// May panic where the last call did not return true.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.cursor.as_ref().expect("a part was entered").key()
    }

    /// What decides whether the version here is seen.
    ///
    /// # Panics
    /// May panic where the last call did not return true.
    #[inline]
    pub(crate) fn mark(&self) -> Mark {
        self.cursor.as_ref().expect("a part was entered").mark()
    }

    /// The version here.
    ///
    /// # Panics
    /// May panic where the last call did not return true.
    #[inline]
    pub(crate) fn version(&self) -> Version<'_> {
        self.cursor.as_ref().expect("a part was entered").version()
    }

    /// The cursor in the table of part `part`.
    fn cursor_of(&mut self, part: usize) -> &mut Cursor<D::File> {
        if part != self.part || self.cursor.is_none() {
            let table = &self.run[part].table.table;
            let cursor = match &self.cache {
                Some(cache) => table.cursor_through(cache, self.read_ahead_bytes),
                None => table.cursor(self.read_ahead_bytes),
            };
            let cursor = cursor.with_first_read(self.first_read_bytes);
            self.cursor = Some(if self.keeps { cursor } else { cursor.without_keeping() });
            self.part = part;
        }
        self.cursor.as_mut().expect("just made")
    }

    /// Moves the cursor in the table of part `part`; true where it comes to a version of the part.
    fn go(
        &mut self,
        part: usize,
        to: impl FnOnce(&mut Cursor<D::File>) -> Result<bool>,
    ) -> Result<bool> {
        self.is_at_one = false;
        let cursor = self.cursor_of(part);
        let is_there = to(cursor)?;
        let cursor = self.cursor.as_ref().expect("just made");
        self.is_at_one = is_there && self.run[part].has(cursor.key());
        Ok(self.is_at_one)
    }

    /// To the first version of part `part` or of those behind it.
    fn enter(&mut self, part: usize) -> Result<bool> {
        self.is_at_one = false;
        for part in part..self.run.len() {
            let lower = self.run[part].lower.clone();
            if self.go(part, |cursor| cursor.seek(&lower, u64::MAX))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// To the last version of the parts before `end`.
    fn enter_backwards(&mut self, end: usize) -> Result<bool> {
        self.is_at_one = false;
        for part in (0..end).rev() {
            let upper = self.run[part].upper.clone();
            let to_last = |cursor: &mut Cursor<D::File>| match &upper {
                Some(upper) => cursor.seek_before(upper, u64::MAX),
                None => cursor.seek_to_last(),
            };
            if self.go(part, to_last)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// To the first version.
    pub(crate) fn seek_to_first(&mut self) -> Result<bool> {
        self.enter(0)
    }

    /// To the last version.
    pub(crate) fn seek_to_last(&mut self) -> Result<bool> {
        self.enter_backwards(self.run.len())
    }

    /// The first part that ends behind `key`.
    fn part_to_seek(&self, key: &[u8]) -> usize {
        let ends_before = |upper: &Vec<u8>| **upper <= *key;
        self.run.partition_point(|part| part.upper.as_ref().is_some_and(ends_before))
    }

    /// Begins [`RunCursor::seek`] for `key`, which comes next: what it reads first, and the buffer
    /// for that, where it reads.
    pub(crate) fn begin_seek(&mut self, key: &[u8]) -> Option<(SeekRead, AlignedBuf)> {
        self.is_at_one = false;
        let part = self.part_to_seek(key);
        let lower = &self.run.get(part)?.lower;
        if is_from(lower, key) {
            return self.cursor_of(part).begin_seek(key, true);
        }
        let lower = lower.clone();
        self.cursor_of(part).begin_seek(&lower, true)
    }

    /// Begins the read of [`RunCursor::seek_before`].
    pub(crate) fn begin_seek_before(&mut self, key: &[u8]) -> Option<(SeekRead, AlignedBuf)> {
        self.is_at_one = false;
        let part = self.run.partition_point(|part| is_from(&part.lower, key)).checked_sub(1)?;
        match self.run[part].upper.as_ref().filter(|upper| ***upper <= *key).cloned() {
            Some(upper) => self.cursor_of(part).begin_seek(&upper, false),
            None => self.cursor_of(part).begin_seek(key, false),
        }
    }

    /// Begins the read of [`RunCursor::seek_to_first`].
    pub(crate) fn begin_seek_to_first(&mut self) -> Option<(SeekRead, AlignedBuf)> {
        let lower = self.run.first()?.lower.clone();
        self.begin_seek(&lower)
    }

    /// Begins the read of [`RunCursor::seek_to_last`].
    pub(crate) fn begin_seek_to_last(&mut self) -> Option<(SeekRead, AlignedBuf)> {
        self.is_at_one = false;
        let part = self.run.len().checked_sub(1)?;
        match self.run[part].upper.clone() {
            Some(upper) => self.cursor_of(part).begin_seek(&upper, false),
            None => self.cursor_of(part).begin_seek_to_last(),
        }
    }

    /// Takes what one of them asked for.
    pub(crate) fn end_seek(
        &mut self,
        read: SeekRead,
        buf: AlignedBuf,
        filled: usize,
    ) -> Result<()> {
        self.cursor.as_mut().expect("a part was entered").end_seek(read, buf, filled)
    }

    /// The table that it is in.
    pub(crate) fn table(&self) -> Option<&Arc<Table<D::File>>> {
        self.cursor.as_ref().map(Cursor::table)
    }

    /// To the first version at or after (`key`, `sequence`): the newest one of `key` that is not
    /// newer than that, or else the first of the next key.
    pub(crate) fn seek(&mut self, key: &[u8], sequence: u64) -> Result<bool> {
        let part = self.part_to_seek(key);
        let is_inside = self.run.get(part).is_some_and(|part| is_from(&part.lower, key));
        if is_inside && self.go(part, |cursor| cursor.seek(key, sequence))? {
            return Ok(true);
        }
        self.enter(part + usize::from(is_inside))
    }

    /// To the last version before (`key`, `sequence`).
    pub(crate) fn seek_before(&mut self, key: &[u8], sequence: u64) -> Result<bool> {
        let end = self.run.partition_point(|part| is_from(&part.lower, key));
        let is_inside = end.checked_sub(1).is_some_and(|part| self.run[part].has(key));
        if is_inside && self.go(end - 1, |cursor| cursor.seek_before(key, sequence))? {
            return Ok(true);
        }
        self.enter_backwards(end - usize::from(is_inside))
    }

    /// To the next version.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let (part, cursor) = (self.part, self.cursor.as_mut().expect("a part was entered"));
        self.is_at_one = false;
        // What comes after a key of the part is not below it.
        if cursor.advance()? && self.run[part].is_below_upper_at(cursor.block(), cursor.key()) {
            self.is_at_one = true;
            return Ok(true);
        }
        self.enter(part + 1)
    }

    /// To the version before.
    pub(crate) fn retreat(&mut self) -> Result<bool> {
        let (part, cursor) = (self.part, self.cursor.as_mut().expect("a part was entered"));
        self.is_at_one = false;
        // What comes before a key of the part is not behind it.
        if cursor.retreat()? && is_from(&self.run[part].lower, cursor.key()) {
            self.is_at_one = true;
            return Ok(true);
        }
        self.enter_backwards(part)
    }
}

/// A read under way: which source it is for, the table that it reads, and the search.
struct SourceRead<D: Device> {
    source: usize,
    table: Arc<Table<D::File>>,
    seek: SeekRead,
}

impl<D: Device> AsRef<D::File> for SourceRead<D> {
    fn as_ref(&self) -> &D::File {
        self.table.file()
    }
}

/// Has the device read together what searches of the runs among `sources` read first, which
/// `begin` begins.
pub(crate) fn read_together<D: Device, S>(
    device: &D,
    sources: &mut [S],
    as_run: impl Fn(&mut S) -> Option<&mut RunCursor<D>>,
    begin: impl Fn(&mut RunCursor<D>) -> Option<(SeekRead, AlignedBuf)>,
) -> Result<()> {
    let mut reads: Option<D::Reads<'_, SourceRead<D>>> = None;
    for (source, any) in sources.iter_mut().enumerate() {
        if reads.as_ref().is_some_and(ReadQueue::is_full) {
            // The others read for themselves.
            break;
        }
        let Some(run) = as_run(any) else { continue };
        let Some((seek, buf)) = begin(run) else { continue };
        let table = Arc::clone(run.table().expect("it has begun a search there"));
        let offset = seek.offset();
        let reads = reads.get_or_insert_with(|| device.reads(READS_MAX));
        reads.push(Read { of: SourceRead { source, table, seek }, offset, buf });
    }
    while let Some((read, filled)) = reads.as_mut().and_then(ReadQueue::pop) {
        let SourceRead { source, seek, .. } = read.of;
        let run = as_run(&mut sources[source]).expect("it has begun a search");
        run.end_seek(seek, read.buf, filled?)?;
    }
    Ok(())
}

impl<D: Device> Source for RunCursor<D> {
    #[inline]
    fn would_wait(&self) -> bool {
        self.cursor.as_ref().is_some_and(Cursor::would_wait)
    }

    #[inline]
    fn head(&self) -> Option<u64> {
        let behind = || self.key().get(self.common..).unwrap_or_default();
        self.is_at_one.then(|| head(behind()))
    }

    #[inline]
    fn version(&self) -> Version<'_> {
        self.version()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        RunCursor::advance(self).map(|_| ())
    }
}
