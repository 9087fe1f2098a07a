//! Bytes of files: reading, writing, cutting, promising.

use crate::core::{Lfs, Writer};
use crate::extents::{Run, UNWRITTEN};
use crate::fault::{Fault, LfsResult};
use crate::ground::{Fetch, Ground};
use crate::node::{Content, Ino, Kind, Node, Time};
use crate::record::Record;
use crate::tree::{Shared, read};
use std::sync::Arc;

/// Bytes of a file at most, as of other file systems that count them in 63 bits.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// What `fallocate` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// Promises room: later writes to the range do not fail for want of it. The file grows unless
    /// `keeps_size`.
    Promise {
        /// The size stays.
        keeps_size: bool,
    },
    /// The range becomes a hole; the size stays.
    Punch,
    /// The range reads as zeroes and keeps its promise of room.
    Zero {
        /// The size stays.
        keeps_size: bool,
    },
}

/// Where [`Lfs::seek`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// To the next byte that may be other than zero.
    Data,
    /// To the next hole, or the end.
    Hole,
}

impl<G: Ground> Lfs<G> {
    /// Reads up to `out.len()` bytes from `offset` on; fewer at the file's end. Takes no lock but
    /// the file's, shared.
    ///
    /// # Errors
    /// `Stale`, `IsDirectory`, `Invalid` if it has no bytes; what the device said.
    pub fn read(&self, ino: Ino, offset: u64, out: &mut [u8]) -> LfsResult<usize> {
        let node = self.node(ino)?;
        let node = read(&node);
        let content = content_of(&node)?;
        let left = node.attributes.size.saturating_sub(offset);
        let len = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        self.read_content(content, offset, &mut out[..len])?;
        Ok(len)
    }

    fn read_content(&self, content: &Content, offset: u64, out: &mut [u8]) -> LfsResult<()> {
        if out.is_empty() {
            return Ok(());
        }
        out.fill(0);
        let page_bytes = self.page_bytes as u64;
        let end = offset + out.len() as u64;
        let (from, to) = (offset / page_bytes, (end - 1) / page_bytes + 1);
        let mut fetches = Vec::new();
        let mut begins = Vec::new();
        let pages = u64::from(self.ground.segment_pages());
        for run in content.extents.within(from, to).filter(|run| run.at != UNWRITTEN) {
            // A run may go on in the next segment.
            let mut done = 0;
            while done < run.count {
                let at = run.at + done;
                let count = (run.count - done).min(pages - at % pages);
                let (segment, first) = ((at / pages) as u32, (at % pages) as u32);
                fetches.push(Fetch::new(
                    begins.len(),
                    segment,
                    first,
                    count as u32,
                    self.page_bytes,
                ));
                begins.push((run.index + done) * page_bytes);
                done += count;
            }
        }
        let mut refused = None;
        if !fetches.is_empty() {
            self.ground.read(fetches, &mut |fetch, result| match result {
                Ok(()) => overlay(out, offset, begins[fetch.of], &fetch.pages),
                Err(error) => refused = Some(error),
            });
        }
        for (index, bytes) in content.dirty.range(from..to) {
            overlay(out, offset, index * page_bytes, bytes);
        }
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Writes bytes at `offset`, or behind the last byte if `offset` is `None` (`O_APPEND`).
    /// Returns where they begin. They are one unit after a power cut unless they are more than
    /// the file system keeps in memory.
    ///
    /// # Errors
    /// `NoSpace` before anything is changed; `TooLarge`; as [`Lfs::read`].
    pub fn write(&self, ino: Ino, offset: Option<u64>, data: &[u8], now: Time) -> LfsResult<u64> {
        let shared = self.node(ino)?;
        let mut writer = self.change()?;
        let size = {
            let node = read(&shared);
            content_of(&node)?;
            node.attributes.size
        };
        let begin = offset.unwrap_or(size);
        let end = begin.checked_add(data.len() as u64).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Fault::TooLarge)?;
        if data.is_empty() {
            return Ok(begin);
        }
        let page_bytes = self.page_bytes as u64;
        let pages = (begin / page_bytes)..(end - 1) / page_bytes + 1;
        let fresh = self.fresh(&shared, pages.clone());
        self.check_space(&writer, fresh)?;
        let step = (self.dirty_pages_max * page_bytes) as usize;
        let mut at = begin;
        let mut rest = data;
        while !rest.is_empty() {
            let aligned = step - (at % page_bytes) as usize;
            let (now_data, later) = rest.split_at(rest.len().min(aligned));
            self.write_some(&mut writer, &shared, ino, at, now_data, now)?;
            at += now_data.len() as u64;
            rest = later;
        }
        Ok(begin)
    }

    /// Pages of a range that have neither a place nor a promise nor bytes that wait.
    fn fresh(&self, node: &Shared, pages: std::ops::Range<u64>) -> u64 {
        let node = read(node);
        let content = node.content().expect("a file");
        let mapped: u64 = content.extents.within(pages.start, pages.end).map(|run| run.count).sum();
        let waiting = content.dirty.range(pages.clone());
        let only_waiting = waiting.filter(|(i, _)| content.extents.get(**i).is_none()).count();
        pages.end - pages.start - mapped - only_waiting as u64
    }

    fn write_some(
        &self,
        writer: &mut Writer,
        shared: &Shared,
        ino: Ino,
        begin: u64,
        data: &[u8],
        now: Time,
    ) -> LfsResult<()> {
        let page_bytes = self.page_bytes as u64;
        let end = begin + data.len() as u64;
        let (from, to) = (begin / page_bytes, (end - 1) / page_bytes + 1);
        if writer.dirty_pages + (to - from) > self.dirty_pages_max {
            self.commit_at_limit(writer)?;
        }
        self.make_room(writer, to - from)?;
        // Pages that are written in part are read before anything is changed.
        let mut edges = Vec::new();
        {
            let node = read(shared);
            let content = node.content().expect("a file");
            for index in [from, to - 1] {
                let (first, last) = (index * page_bytes, (index + 1) * page_bytes);
                if first >= begin && last <= end {
                    continue;
                }
                let mut page = vec![0; self.page_bytes];
                self.read_content(content, first, &mut page)?;
                edges.push((index, page.into()));
            }
        }
        self.with(writer, shared, |writer, node| {
            let attributes = &mut node.attributes;
            attributes.size = attributes.size.max(end);
            (attributes.modified, attributes.changed) = (now, now);
            let content = node.content_mut().expect("a file");
            for (index, page) in edges {
                writer.put_dirty(content, index, page);
            }
            for index in from..to {
                let first = index * page_bytes;
                let (from, to) = (begin.max(first), end.min(first + page_bytes));
                let part = &data[(from - begin) as usize..(to - begin) as usize];
                if part.len() == page_bytes as usize {
                    writer.put_dirty(content, index, part.into());
                    continue;
                }
                let page = content.dirty.get_mut(&index).expect("edges were put");
                // Nobody else has it: a commit drops its pages before it lets the writer go.
                let page = Arc::make_mut(page);
                page[(from - first) as usize..(to - first) as usize].copy_from_slice(part);
            }
        });
        writer.dirty_files.insert(ino);
        writer.touch(ino);
        Ok(())
    }

    /// Commits if memory is full of what was written.
    fn commit_at_limit(&self, writer: &mut Writer) -> LfsResult<()> {
        if self.commit(writer)? || writer.log_pages >= writer.space.log_pages_max(writer.weight) {
            self.checkpoint(writer)?;
        }
        Ok(())
    }

    /// Cuts a file or makes it longer by a hole.
    ///
    /// # Errors
    /// `TooLarge`; as [`Lfs::read`].
    pub fn truncate(&self, ino: Ino, size: u64, now: Time) -> LfsResult<()> {
        if size > FILE_BYTES_MAX {
            return Err(Fault::TooLarge);
        }
        let shared = self.node(ino)?;
        let mut writer = self.change()?;
        let old = {
            let node = read(&shared);
            content_of(&node)?;
            node.attributes.size
        };
        self.make_room(&mut writer, 1)?;
        let page_bytes = self.page_bytes as u64;
        if size < old {
            // What lies behind the new end in its page must read as zeroes if the file grows.
            self.zero_within(&mut writer, &shared, ino, size, size.next_multiple_of(page_bytes))?;
            self.cut(&mut writer, &shared, ino, size.div_ceil(page_bytes), u64::MAX);
        }
        self.with(&mut writer, &shared, |_, node| {
            let attributes = &mut node.attributes;
            attributes.size = size;
            (attributes.modified, attributes.changed) = (now, now);
        });
        writer.touch(ino);
        Ok(())
    }

    /// Makes pages `[from, to)` a hole.
    pub(crate) fn cut(&self, writer: &mut Writer, node: &Shared, ino: Ino, from: u64, to: u64) {
        if from >= to {
            return;
        }
        self.with(writer, node, |writer, node| {
            let content = node.content_mut().expect("a file");
            writer.drop_dirty(content, from, to);
            let gone = content.extents.remove(from, to);
            writer.drop_runs(&gone);
        });
        writer.record(Record::Punch { ino, index: from, count: to - from });
        writer.change += 1;
    }

    /// Writes zeroes over bytes of one page, if the page has bytes at all.
    fn zero_within(
        &self,
        writer: &mut Writer,
        shared: &Shared,
        ino: Ino,
        from: u64,
        to: u64,
    ) -> LfsResult<()> {
        let index = from / self.page_bytes as u64;
        if from >= to {
            return Ok(());
        }
        let mut page = vec![0; self.page_bytes];
        let first = index * self.page_bytes as u64;
        {
            let node = read(shared);
            let content = node.content().expect("a file");
            let has_bytes = content.extents.get(index).is_some_and(|at| at != UNWRITTEN);
            if !has_bytes && !content.dirty.contains_key(&index) {
                return Ok(());
            }
            self.read_content(content, first, &mut page)?;
        }
        page[(from - first) as usize..(to - first) as usize].fill(0);
        self.with(writer, shared, |writer, node| {
            writer.put_dirty(node.content_mut().expect("a file"), index, page.into());
        });
        writer.dirty_files.insert(ino);
        writer.touch(ino);
        Ok(())
    }

    /// Promises room, punches a hole or writes zeroes (`fallocate`).
    ///
    /// # Errors
    /// `NoSpace` before anything is changed; `Invalid` for no bytes; `TooLarge`; as
    /// [`Lfs::read`].
    pub fn allocate(
        &self,
        ino: Ino,
        offset: u64,
        len: u64,
        how: Allocation,
        now: Time,
    ) -> LfsResult<()> {
        let end = offset.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or(Fault::TooLarge)?;
        if len == 0 {
            return Err(Fault::Invalid);
        }
        let shared = self.node(ino)?;
        let mut writer = self.change()?;
        content_of(&read(&shared))?;
        let page_bytes = self.page_bytes as u64;
        let keeps_size = match how {
            Allocation::Punch => true,
            Allocation::Promise { keeps_size } | Allocation::Zero { keeps_size } => keeps_size,
        };
        self.make_room(&mut writer, 2)?;
        let (from, to) = (offset / page_bytes, end.div_ceil(page_bytes));
        if how != Allocation::Punch {
            let fresh = self.fresh(&shared, from..to);
            self.check_space(&writer, fresh)?;
        }
        if !matches!(how, Allocation::Promise { .. }) {
            let whole = (offset.div_ceil(page_bytes), end / page_bytes);
            if whole.0 > whole.1 {
                self.zero_within(&mut writer, &shared, ino, offset, end)?;
            } else {
                let head = whole.0 * page_bytes;
                self.zero_within(&mut writer, &shared, ino, offset, head)?;
                self.zero_within(&mut writer, &shared, ino, whole.1 * page_bytes, end)?;
                self.cut(&mut writer, &shared, ino, whole.0, whole.1);
            }
        }
        if how != Allocation::Punch {
            self.promise(&mut writer, &shared, ino, from, to);
        }
        self.with(&mut writer, &shared, |_, node| {
            let attributes = &mut node.attributes;
            if !keeps_size {
                attributes.size = attributes.size.max(end);
            }
            attributes.changed = now;
            if how != (Allocation::Promise { keeps_size: true }) {
                attributes.modified = now;
            }
        });
        writer.touch(ino);
        Ok(())
    }

    /// Promises a place to the pages of `[from, to)` that are holes.
    fn promise(&self, writer: &mut Writer, shared: &Shared, ino: Ino, from: u64, to: u64) {
        let mut holes = Vec::new();
        {
            let node = read(shared);
            let mut at = from;
            for run in node.content().expect("a file").extents.within(from, to) {
                holes.push((at, run.index));
                at = run.index + run.count;
            }
            holes.push((at, to));
        }
        holes.retain(|(from, to)| from < to);
        for (index, end) in holes {
            let run = Run { index, at: UNWRITTEN, count: end - index };
            self.with(writer, shared, |writer, node| {
                let content = node.content_mut().expect("a file");
                let waiting = content.dirty.range(index..end).count() as u64;
                writer.fresh_pages -= waiting;
                content.extents.set(run);
                writer.space.add(&run);
            });
            writer.record(Record::Promise { ino, index, count: run.count });
        }
        writer.change += 1;
    }

    /// The next data or hole at or behind `offset` (`lseek`).
    ///
    /// # Errors
    /// `NoData` if `offset` lies behind the end, or if no data follows.
    pub fn seek(&self, ino: Ino, offset: u64, to: Seek) -> LfsResult<u64> {
        let node = self.node(ino)?;
        let node = read(&node);
        let content = content_of(&node)?;
        let (size, page_bytes) = (node.attributes.size, self.page_bytes as u64);
        if offset >= size {
            return Err(Fault::NoData);
        }
        let last = size.div_ceil(page_bytes);
        let mut index = offset / page_bytes;
        while index < last {
            let waits = content.dirty.contains_key(&index);
            let run = content.extents.within(index, last).next();
            let placed = run.filter(|run| run.index == index && run.at != UNWRITTEN);
            let is_data = waits || placed.is_some();
            if is_data == (to == Seek::Data) {
                return Ok(offset.max(index * page_bytes));
            }
            // Whole runs and holes are passed over at once.
            let next_waits = content.dirty.range(index + 1..).next().map_or(last, |(i, _)| *i);
            index = match (placed, run) {
                (Some(run), _) => run.index + run.count,
                _ if waits => index + 1,
                (None, Some(run)) if run.index > index => run.index.min(next_waits),
                (None, Some(run)) => (run.index + run.count).min(next_waits),
                (None, None) => next_waits,
            };
        }
        match to {
            Seek::Hole => Ok(size),
            Seek::Data => Err(Fault::NoData),
        }
    }
}

/// Copies those of `bytes`, which begin at `begin`, that lie within `out`, which begins at
/// `offset`.
fn overlay(out: &mut [u8], offset: u64, begin: u64, bytes: &[u8]) {
    let (from, to) =
        (begin.max(offset), (begin + bytes.len() as u64).min(offset + out.len() as u64));
    if from < to {
        out[(from - offset) as usize..(to - offset) as usize]
            .copy_from_slice(&bytes[(from - begin) as usize..(to - begin) as usize]);
    }
}

fn content_of(node: &Node) -> LfsResult<&Content> {
    match node.attributes.kind {
        Kind::Directory => Err(Fault::IsDirectory),
        _ => node.content().ok_or(Fault::Invalid),
    }
}

impl Writer {
    /// An inode's attributes changed.
    pub(crate) fn touch(&mut self, ino: Ino) {
        self.touched.insert(ino);
        self.change += 1;
    }

    fn put_dirty(&mut self, content: &mut Content, index: u64, page: Arc<[u8]>) {
        if content.dirty.insert(index, page).is_none() {
            self.dirty_pages += 1;
            self.fresh_pages += u64::from(content.extents.get(index).is_none());
        }
    }

    /// Drops pages of `[from, to)` that wait.
    pub(crate) fn drop_dirty(&mut self, content: &mut Content, from: u64, to: u64) {
        let mut rest = content.dirty.split_off(&from);
        content.dirty.append(&mut rest.split_off(&to));
        for index in rest.into_keys() {
            self.dirty_pages -= 1;
            self.fresh_pages -= u64::from(content.extents.get(index).is_none());
        }
    }
}
