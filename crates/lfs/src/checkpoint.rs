//! Checkpoints: the whole tree in one place, so that the log before it is not needed.

use crate::batch::{HEADER_BYTES, Header, Part, batch_pages};
use crate::commit::Plan;
use crate::core::{Lfs, Writer};
use crate::fault::LfsResult;
use crate::ground::Ground;
use crate::record::Record;
use crate::space::Use;
use crate::tree::{describe, read};
use silica_base::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

/// Tries to write a checkpoint elsewhere after a segment failed.
const TRIES: usize = 4;
/// Batches of a checkpoint have about so many bytes, or fill what is left of their segment.
const BATCH_BYTES: usize = 256 << 10;

/// A checkpoint that is being written.
struct Draft {
    plan: Plan,
    segments: Vec<u32>,
    /// Pages that the last of them has.
    next: u32,
    body: Vec<u8>,
    /// Sequence of the first batch, and of the next one.
    first: u64,
    sequence: u64,
    pages: u64,
}

impl<G: Ground> Lfs<G> {
    /// Commits, writes a checkpoint, syncs, and gives back what is not needed any more.
    ///
    /// # Errors
    /// What the device said; from there on nothing is changed any more.
    pub(crate) fn checkpoint(&self, writer: &mut Writer) -> LfsResult<()> {
        self.commit(writer)?;
        let result = self.try_checkpoint(writer);
        if let Err(error) = &result {
            writer.poison = Some(error.duplicate());
        }
        Ok(result?)
    }

    fn try_checkpoint(&self, writer: &mut Writer) -> Result<()> {
        // A checkpoint that is there counts, so the pages that it speaks of have to be there.
        self.ground.sync()?;
        for _ in 0..TRIES {
            let mut draft = self.draft(writer)?;
            let plan = std::mem::take(&mut draft.plan);
            if !self.carry_out(plan)?.is_empty() {
                for segment in draft.segments {
                    writer.space.of(segment).use_ = Use::Free;
                    self.ground.trim(segment)?;
                }
                continue;
            }
            self.ground.sync()?;
            writer.next_sequence = draft.sequence;
            self.synced.store(draft.sequence - 1, Ordering::Relaxed);
            let old = std::mem::replace(&mut writer.checkpoint_segments, draft.segments);
            let log = std::mem::take(&mut writer.log_segments);
            (writer.log, writer.log_pages) = (None, 0);
            for segment in old.into_iter().chain(log) {
                self.give_back(writer, segment)?;
            }
            writer.statistics.checkpoints += 1;
            writer.statistics.syncs += 2;
            writer.statistics.pages_of_checkpoints += draft.pages;
            return self.release_dead(writer);
        }
        Err(Error::new(ErrorKind::Io, "segments fail one after the other; replace the device"))
    }

    fn draft(&self, writer: &mut Writer) -> Result<Draft> {
        let first = writer.next_sequence;
        let mut draft = Draft {
            plan: Plan::default(),
            segments: Vec::new(),
            next: 0,
            body: Vec::new(),
            first,
            sequence: first,
            pages: 0,
        };
        let mut record = Vec::new();
        Record::NextIno(writer.next_ino).encode(&mut draft.body);
        let mut refused = None;
        for (ino, node) in self.inodes.all() {
            describe(ino, &read(&node), &mut |of| {
                record.clear();
                of.encode(&mut record);
                if let Err(error) = self.draft_record(writer, &mut draft, &record) {
                    refused = Some(error);
                }
            });
            if let Some(error) = refused {
                return Err(error);
            }
        }
        self.draft_batch(writer, &mut draft, true)?;
        Ok(draft)
    }

    fn draft_record(&self, writer: &mut Writer, draft: &mut Draft, record: &[u8]) -> Result<()> {
        let most = BATCH_BYTES.min(self.page_bytes * self.ground.segment_pages() as usize / 4);
        if !draft.body.is_empty() && draft.body.len() + record.len() > most {
            self.draft_batch(writer, draft, false)?;
        }
        draft.body.extend_from_slice(record);
        Ok(())
    }

    fn draft_batch(&self, writer: &mut Writer, draft: &mut Draft, is_last: bool) -> Result<()> {
        let pages = batch_pages(draft.body.len(), self.page_bytes);
        debug_assert!(pages as usize * self.page_bytes >= draft.body.len() + HEADER_BYTES);
        let room = draft.segments.last().map_or(0, |segment| self.ground.capacity(*segment));
        if draft.next + pages > room {
            draft.segments.push(self.take(writer, Use::Checkpoint, true, &[])?);
            draft.next = 0;
        }
        let segment = *draft.segments.last().expect("one was taken");
        let header = Header {
            id: self.id,
            part: Part::Checkpoint,
            is_last,
            sequence: draft.sequence,
            synced: 0,
            checkpoint: draft.first,
            body_bytes: draft.body.len() as u32,
        };
        let at = writer.space.place(segment, draft.next);
        let batch = header.encode(&draft.body, at, self.page_bytes);
        draft.plan.push(segment, draft.next, batch[..].into());
        draft.next += pages;
        draft.pages += u64::from(pages);
        draft.sequence += 1;
        draft.body.clear();
        Ok(())
    }

    fn give_back(&self, writer: &mut Writer, segment: u32) -> Result<()> {
        writer.space.of(segment).use_ = Use::Free;
        writer.statistics.segments_trimmed += 1;
        self.ground.trim(segment)
    }

    /// Gives back closed segments that no file has pages in. To be called when what made them dead
    /// is durable, and is not read from the log again in an order that needs them.
    pub(crate) fn release_dead(&self, writer: &mut Writer) -> Result<()> {
        for segment in 0..writer.space.segments.len() as u32 {
            let of = writer.space.of(segment);
            if of.use_ == Use::Closed && of.live == 0 {
                self.give_back(writer, segment)?;
            }
        }
        Ok(())
    }

    /// Makes a commit durable, and says so in the log: from then on opening does not look at the
    /// pages that the log speaks of, and dead segments can be given back.
    pub(crate) fn settle(&self, writer: &mut Writer) -> LfsResult<()> {
        let is_checkpoint_cheap = writer.space.checkpoint_pages(writer.weight) <= 4;
        let is_due = writer.log_pages >= writer.space.log_pages_max(writer.weight);
        if is_due || is_checkpoint_cheap {
            return self.checkpoint(writer);
        }
        if self.commit(writer)? {
            return self.checkpoint(writer);
        }
        let result = self.try_settle(writer);
        if let Err(error) = &result {
            writer.poison = Some(error.duplicate());
        }
        Ok(result?)
    }

    fn try_settle(&self, writer: &mut Writer) -> Result<()> {
        self.ground.sync()?;
        self.synced.store(writer.next_sequence - 1, Ordering::Relaxed);
        let mut plan = Plan::default();
        self.plan_log(writer, &mut plan)?;
        if !self.carry_out(plan)?.is_empty() {
            return self.try_checkpoint(writer);
        }
        self.ground.sync()?;
        writer.statistics.syncs += 2;
        self.release_dead(writer)
    }

    /// Makes everything that changed before the call durable. Calls that wait at the same time
    /// share one sync (group commit).
    ///
    /// # Errors
    /// What the device said; from there on nothing is changed any more.
    pub fn sync(&self) -> LfsResult<()> {
        let wanted = self.change()?.change;
        let mut durable = self.durable.lock().expect("no panic while locked");
        if *durable >= wanted {
            return Ok(());
        }
        let (target, sequence) = {
            let mut writer = self.change()?;
            if self.commit(&mut writer)? {
                self.checkpoint(&mut writer)?;
            }
            (writer.change, writer.next_sequence - 1)
        };
        let synced = self.ground.sync();
        let mut writer = self.lock();
        writer.statistics.syncs += 1;
        if let Err(error) = synced {
            writer.poison = Some(error.duplicate());
            return Err(error.into());
        }
        self.synced.fetch_max(sequence, Ordering::Relaxed);
        if writer.log_pages >= writer.space.log_pages_max(writer.weight) {
            self.checkpoint(&mut writer)?;
        }
        *durable = target;
        Ok(())
    }
}
