//! Commits: what changed goes to the log as a whole.

use crate::batch::{self, Header, Part, batch_pages, encode_summary, page_sum};
use crate::core::{Head, Lfs, Writer};
use crate::extents::Run;
use crate::fault::LfsResult;
use crate::ground::{Burst, Ground};
use crate::node::Ino;
use crate::record::Record;
use crate::space::Use;
use crate::tree::{read, write};
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Tries to write something elsewhere after a segment failed.
const TRIES: usize = 8;
/// Which heads take what users write, and which take copies.
pub(crate) const HOT: usize = 0;
pub(crate) const COLD: usize = 1;

/// A page of a file that gets a place.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) ino: Ino,
    pub(crate) index: u64,
    pub(crate) bytes: Arc<[u8]>,
}

/// Where a page lies, and its checksum there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) at: u64,
    pub(crate) sum: u32,
}

/// Pages of one segment that follow each other.
#[derive(Debug)]
struct Row {
    first: u32,
    pieces: Vec<Arc<[u8]>>,
}

/// What is written side by side: pages by segment, each from the segment's next page on.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    by_segment: BTreeMap<u32, Row>,
}

impl Plan {
    /// Adds pages behind those that the segment has and that the plan adds to it.
    pub(crate) fn push(&mut self, segment: u32, first: u32, bytes: Arc<[u8]>) {
        let row = self.by_segment.entry(segment);
        row.or_insert_with(|| Row { first, pieces: Vec::new() }).pieces.push(bytes);
    }

    /// Copies the pages of each segment into one buffer, which the device needs aligned.
    fn bursts(self) -> Vec<Burst> {
        let burst = |(segment, Row { first, pieces })| {
            let mut pages = AlignedBuf::zeroed(pieces.iter().map(|piece| piece.len()).sum());
            let mut at = 0;
            for piece in pieces {
                pages[at..at + piece.len()].copy_from_slice(&piece);
                at += piece.len();
            }
            Burst { segment, first, pages }
        };
        self.by_segment.into_iter().map(burst).collect()
    }
}

impl<G: Ground> Lfs<G> {
    /// Takes an empty segment, which will be written and read side by side with those in `beside`.
    pub(crate) fn take(
        &self,
        writer: &mut Writer,
        use_: Use,
        is_copy: bool,
        beside: &[u32],
    ) -> Result<u32> {
        let taken = match self.ground.allocate(is_copy, beside)? {
            None if !is_copy => self.ground.allocate(true, beside)?,
            taken => taken,
        };
        let Some(segment) = taken else {
            let message = "the device has no empty segment left; delete files and sync";
            return Err(Error::new(ErrorKind::Full, message));
        };
        let of = writer.space.of(segment);
        (of.use_, of.live, of.is_stuck, of.owners) = (use_, 0, false, None);
        if use_ == Use::Open {
            of.owners = Some(Vec::new());
        }
        Ok(segment)
    }

    /// Gives pages a place in open segments, `stream`'s, and adds them to the plan. Returns where
    /// they lie, in the order of the pages.
    pub(crate) fn place(
        &self,
        writer: &mut Writer,
        plan: &mut Plan,
        stream: usize,
        pages: &[Page],
    ) -> Result<Vec<Place>> {
        let width = writer.heads[stream].len();
        let stripe = self.ground.stripe_pages() as usize;
        let unit = pages.len().div_ceil(width).clamp(1, stripe);
        let mut places = Vec::with_capacity(pages.len());
        for chunk in pages.chunks(unit) {
            let turn = writer.turns[stream];
            writer.turns[stream] = (turn + 1) % width;
            for page in chunk {
                places.push(self.place_one(writer, plan, stream, turn, page)?);
            }
        }
        Ok(places)
    }

    fn place_one(
        &self,
        writer: &mut Writer,
        plan: &mut Plan,
        stream: usize,
        turn: usize,
        page: &Page,
    ) -> Result<Place> {
        let head = match writer.heads[stream][turn] {
            Some(head) => head,
            None => {
                // Also beside those that were just filled: a file has pages in both.
                let others = |(i, taken): (usize, &Option<u32>)| taken.filter(|_| i != turn);
                let taken = writer.taken[stream].iter().enumerate();
                let beside: Vec<u32> = taken.filter_map(others).collect();
                let segment = self.take(writer, Use::Open, stream == COLD, &beside)?;
                writer.taken[stream][turn] = Some(segment);
                Head { segment, next: 0 }
            }
        };
        let at = writer.space.place(head.segment, head.next);
        let sum = page_sum(self.id, at, &page.bytes);
        plan.push(head.segment, head.next, page.bytes.clone());
        let owners = writer.space.of(head.segment).owners.as_mut().expect("an open segment");
        owners.push((page.ino, page.index, sum));
        let next = head.next + 1;
        let room = self.ground.capacity(head.segment) - self.summary_pages();
        writer.heads[stream][turn] = Some(Head { next, ..head });
        if next >= room.min(writer.space.data_pages) {
            self.close_segment(writer, plan, head.segment, next);
            writer.heads[stream][turn] = None;
        }
        Ok(Place { at, sum })
    }

    fn summary_pages(&self) -> u32 {
        batch::summary_pages(self.ground.segment_pages(), self.page_bytes)
    }

    /// Ends a segment with its summary.
    fn close_segment(&self, writer: &mut Writer, plan: &mut Plan, segment: u32, next: u32) {
        let owners = writer.space.of(segment).owners.take().expect("an open segment");
        let (at, pages) = (writer.space.place(segment, 0), self.ground.segment_pages());
        let summary = encode_summary(self.id, at, &owners, pages, self.page_bytes);
        writer.statistics.pages_of_summaries += (summary.len() / self.page_bytes) as u64;
        plan.push(segment, next, summary[..].into());
        let closed_at = writer.statistics.commits;
        let of = writer.space.of(segment);
        (of.use_, of.closed_at) = (Use::Closed, closed_at);
    }

    /// Writes a plan. Returns the segments that failed and take no more pages.
    ///
    /// # Errors
    /// What is not a single segment's fault.
    pub(crate) fn carry_out(&self, plan: Plan) -> Result<Vec<u32>> {
        let bursts = plan.bursts();
        let segments: Vec<u32> = bursts.iter().map(|burst| burst.segment).collect();
        let mut failed = Vec::new();
        for (segment, result) in segments.into_iter().zip(self.ground.write(bursts)) {
            match result {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Io => {
                    log::warn!("a segment takes no more pages: {error}");
                    failed.push(segment);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(failed)
    }

    /// A segment of files failed: it takes no more pages. Those that it has are readable, and
    /// whose they are is found by a look at all files.
    fn abandon(&self, writer: &mut Writer, segment: u32) -> Result<()> {
        for heads in &mut writer.heads {
            for head in heads.iter_mut() {
                *head = head.filter(|head| head.segment != segment);
            }
        }
        let of = writer.space.of(segment);
        (of.use_, of.owners) = (Use::Closed, None);
        self.ground.finish(segment)
    }

    /// Writes a plan that has `pages` at `places`, and places again those whose segment failed.
    /// Returns true if some were.
    pub(crate) fn write_placed(
        &self,
        writer: &mut Writer,
        plan: Plan,
        stream: usize,
        pages: &[Page],
        places: &mut [Place],
    ) -> Result<bool> {
        let mut failed = self.carry_out(plan)?;
        let mut was_moved = false;
        for _ in 0..TRIES {
            if failed.is_empty() {
                return Ok(was_moved);
            }
            was_moved = true;
            let mut lost = Vec::new();
            for segment in &failed {
                if matches!(writer.space.of(*segment).use_, Use::Open | Use::Closed) {
                    self.abandon(writer, *segment)?;
                }
                let written = self.ground.written(*segment);
                lost.extend((0..places.len()).filter(|i| {
                    let (of, page) = writer.space.split(places[*i].at);
                    of == *segment && page >= written
                }));
            }
            let mut plan = Plan::default();
            for i in lost {
                places[i] = self.place_one(writer, &mut plan, stream, 0, &pages[i])?;
            }
            failed = self.carry_out(plan)?;
        }
        Err(Error::new(ErrorKind::Io, "segments fail one after the other; replace the device"))
    }

    /// Gives files their new pages.
    pub(crate) fn apply_places(&self, writer: &mut Writer, pages: &[Page], places: &[Place]) {
        for (page, place) in pages.iter().zip(places) {
            let run = Run { index: page.index, at: place.at, count: 1 };
            writer.space.add(&run);
            let node = self.inodes.get(page.ino).expect("files of placed pages exist");
            self.with(writer, &node, |writer, node| {
                let content = node.content_mut().expect("placed pages are of files");
                let gone = content.extents.set(run);
                writer.drop_runs(&gone);
            });
        }
    }

    /// Records where pages lie, in runs.
    pub(crate) fn record_places(&self, writer: &mut Writer, pages: &[Page], places: &[Place]) {
        let mut first = 0;
        while first < pages.len() {
            let Page { ino, index, .. } = pages[first];
            let joins = |i: usize| {
                let step = (i - first) as u64;
                let page = &pages[i];
                let follows = places[i].at == places[first].at + step;
                page.ino == ino && page.index == index + step && follows
            };
            let run_end = (first..pages.len()).find(|i| !joins(*i)).unwrap_or(pages.len());
            // A record has to fit a batch on the smallest device.
            let end = run_end.min(first + 64);
            let sums: Vec<u8> =
                places[first..end].iter().flat_map(|place| place.sum.to_le_bytes()).collect();
            let (at, count) = (places[first].at, (end - first) as u64);
            writer.record(Record::Map { ino, index, at, count, sums: &sums });
            first = end;
        }
    }

    /// Pages that wait, by file.
    fn dirty(&self, writer: &Writer) -> Vec<Page> {
        let mut pages = Vec::with_capacity(writer.dirty_pages as usize);
        for ino in &writer.dirty_files {
            let Some(node) = self.inodes.get(*ino) else { continue };
            let node = read(&node);
            let Some(content) = node.content() else { continue };
            pages.extend(content.dirty.iter().map(|(index, bytes)| Page {
                ino: *ino,
                index: *index,
                bytes: bytes.clone(),
            }));
        }
        pages
    }

    /// Writes everything that changed, as one unit. It is durable after a sync.
    ///
    /// # Errors
    /// What the device said; from there on nothing is changed any more. Returns true if the log
    /// names places that failed, so that only a checkpoint makes it right.
    pub(crate) fn commit(&self, writer: &mut Writer) -> LfsResult<bool> {
        if writer.change == writer.committed {
            return Ok(false);
        }
        let result = self.try_commit(writer);
        if let Err(error) = &result {
            writer.poison = Some(error.duplicate());
        }
        Ok(result?)
    }

    fn try_commit(&self, writer: &mut Writer) -> Result<bool> {
        for ino in std::mem::take(&mut writer.touched) {
            if let Some(node) = self.inodes.get(ino) {
                let attributes = read(&node).attributes;
                writer.record(Record::Attributes(ino, attributes));
            }
        }
        let pages = self.dirty(writer);
        let mut plan = Plan::default();
        let mut places = self.place(writer, &mut plan, HOT, &pages)?;
        self.record_places(writer, &pages, &places);
        self.plan_log(writer, &mut plan)?;
        let log = writer.log.map(|head| head.segment);
        let is_moved = self.write_placed(writer, plan, HOT, &pages, &mut places)?;
        if is_moved {
            writer.log = writer.log.filter(|head| Some(head.segment) != log);
        }
        self.apply_places(writer, &pages, &places);
        for ino in std::mem::take(&mut writer.dirty_files) {
            if let Some(node) = self.inodes.get(ino)
                && let Some(content) = write(&node).content_mut()
            {
                content.dirty.clear();
            }
        }
        (writer.dirty_pages, writer.fresh_pages) = (0, 0);
        writer.statistics.pages_written += pages.len() as u64;
        writer.statistics.commits += 1;
        writer.committed = writer.change;
        Ok(is_moved)
    }

    /// Adds the records that wait to the plan, as batches of the log.
    pub(crate) fn plan_log(&self, writer: &mut Writer, plan: &mut Plan) -> Result<()> {
        let records = std::mem::take(&mut writer.pending);
        let ends = std::mem::take(&mut writer.ends);
        let (mut begin, mut at) = (0, 0);
        loop {
            let mut room = self.log_room(writer)?;
            let first = ends.get(at).map_or(0, |end| end - begin);
            if batch_pages(first, self.page_bytes) > room {
                self.end_log_segment(writer)?;
                room = self.log_room(writer)?;
            }
            let most = room as usize * self.page_bytes - batch::HEADER_BYTES;
            let fits = |end: &&usize| **end - begin <= most;
            let count = ends[at..].iter().take_while(fits).count();
            assert!(count > 0 || ends.len() == at, "a record is larger than a segment");
            let end = ends[..at + count].last().copied().unwrap_or(begin);
            let is_last = at + count == ends.len();
            self.plan_batch(writer, plan, &records[begin..end], is_last);
            if is_last {
                return Ok(());
            }
            (begin, at) = (end, at + count);
        }
    }

    fn log_room(&self, writer: &mut Writer) -> Result<u32> {
        let head = match writer.log {
            Some(head) => head,
            None => {
                let segment = self.take(writer, Use::Log, true, &[])?;
                writer.log_segments.push(segment);
                *writer.log.insert(Head { segment, next: 0 })
            }
        };
        let room = self.ground.capacity(head.segment) - head.next;
        if room == 0 {
            writer.log = None;
            return self.log_room(writer);
        }
        Ok(room)
    }

    fn end_log_segment(&self, writer: &mut Writer) -> Result<()> {
        writer.log.take().map_or(Ok(()), |head| match self.ground.written(head.segment) {
            // What the plan has for it is not written yet; it stays open until the checkpoint.
            written if written < head.next => Ok(()),
            _ => self.ground.finish(head.segment),
        })
    }

    fn plan_batch(&self, writer: &mut Writer, plan: &mut Plan, body: &[u8], is_last: bool) {
        let head = writer.log.as_mut().expect("the log has room");
        let header = Header {
            id: self.id,
            part: Part::Log,
            is_last,
            sequence: writer.next_sequence,
            synced: self.synced.load(Ordering::Relaxed),
            checkpoint: 0,
            body_bytes: body.len() as u32,
        };
        let at = writer.space.place(head.segment, head.next);
        let pages = header.encode(body, at, self.page_bytes);
        plan.push(head.segment, head.next, pages[..].into());
        let count = (pages.len() / self.page_bytes) as u32;
        head.next += count;
        writer.next_sequence += 1;
        writer.log_pages += u64::from(count);
        writer.statistics.pages_of_log += u64::from(count);
    }
}
