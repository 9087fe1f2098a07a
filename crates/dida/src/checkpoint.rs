//! Checkpoints: the index on flash, so that an opening need not read every slab.
//!
//! Invariants (docs/formats/flash-cache.md has the argument):
//!
//! 1. A checkpoint counts once it is recorded in the journal, and it is recorded once all of it is
//!    written, and synced if the cache is to outlive a loss of power.
//! 2. What it says of slabs that were in memory when it was begun is not believed: their items are
//!    found in their own files or summaries.
//! 3. Journals are kept from the one on in which the oldest of these was begun.
//! 4. The blocks of the checkpoint before are given back only after that.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::journal::Record;
use crate::layout::Layout;
use crate::slab::{self, FOOTER_BYTES, Footer, HEADER_BYTES, Kind};
use crate::streams::CHECKPOINTS;
use silica_base::Result;
use silica_device::Device;
use std::sync::atomic::Ordering;

/// Bytes of journals that make a checkpoint worth while at least.
const JOURNAL_BYTES_MIN: u64 = 16 << 10;
/// A checkpoint takes one in so many of the usable blocks at most: entries are worth more than a
/// quick opening.
const FLASH_PARTS_MIN: usize = 4;
/// Bytes before the table of slabs.
const FIXED_BYTES: usize = 72;

/// What every part of a checkpoint says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) buckets: u64,
    pub(crate) slot_bits: [u8; 3],
    /// Slabs from this sequence on were begun later.
    pub(crate) sequence: u64,
    pub(crate) first_slot: u64,
    /// Number and sequence of the slabs on flash.
    pub(crate) on_flash: Vec<(u32, u64)>,
    /// Sequences of the slabs in memory.
    pub(crate) in_memory: Vec<u64>,
    pub(crate) slots: Vec<u64>,
}

impl Part {
    fn table_bytes(&self) -> usize {
        FIXED_BYTES + 12 * self.on_flash.len() + 8 * self.in_memory.len()
    }

    /// The bytes from [`HEADER_BYTES`] on.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.table_bytes() + 8 * self.slots.len());
        bytes.extend_from_slice(&self.buckets.to_le_bytes());
        bytes.extend_from_slice(&self.slot_bits);
        bytes.resize(16, 0);
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&(self.on_flash.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.in_memory.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.first_slot.to_le_bytes());
        for (number, sequence) in &self.on_flash {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
        let sequences = self.in_memory.iter();
        for number in sequences.chain(&self.slots) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// What [`Part::encode`] made; `None` if it does not add up.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Part> {
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (on_flash, in_memory) = (u32_at(24)? as usize, u32_at(28)? as usize);
        let slot_bits = bytes.get(8..11)?.try_into().ok()?;
        let (mut at, end) = (FIXED_BYTES - HEADER_BYTES, bytes.len());
        let table_end = at + 12 * on_flash + 8 * in_memory;
        if table_end > end || !(end - table_end).is_multiple_of(8) {
            return None;
        }
        let mut part = Part {
            buckets: u64_at(0)?,
            slot_bits,
            sequence: u64_at(16)?,
            first_slot: u64_at(32)?,
            on_flash: Vec::with_capacity(on_flash),
            in_memory: Vec::with_capacity(in_memory),
            slots: Vec::with_capacity((end - table_end) / 8),
        };
        for _ in 0..on_flash {
            part.on_flash.push((u32_at(at)?, u64_at(at + 4)?));
            at += 12;
        }
        while at < end {
            let number = u64_at(at)?;
            if at < table_end {
                part.in_memory.push(number)
            } else {
                part.slots.push(number)
            }
            at += 8;
        }
        Some(part)
    }
}

/// Slots of a part whose block has room for `slab_bytes` and whose tables are so large.
fn slots_of_part(layout: &Layout, table_bytes: usize) -> usize {
    let room = layout.shape.slab_bytes() as usize - FOOTER_BYTES;
    room.saturating_sub(table_bytes) / 8
}

impl<F: Flash, D: Device> Dida<F, D> {
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        self.journal.fresh_bytes() > JOURNAL_BYTES_MIN.max(self.index.bytes())
    }

    /// Makes a checkpoint, if there are blocks for it.
    pub(crate) fn make_checkpoint(&self) -> Result<()> {
        let mut blocks = self.checkpoint.lock().expect("no panic while locked");
        // Whether it succeeds or not, the next one is due after as much again.
        self.journal.begin_anew();
        let sequence = self.next_sequence.load(Ordering::Acquire);
        // What is in memory, or is begun from here on, was begun when this journal, or a later
        // one, was appended to.
        let first_journal = self.journal_of_oldest().min(self.journal.file_at(sequence));
        // So that the next checkpoint need not keep it.
        self.journal.turn_now(&self.files, sequence)?;
        let mut template = Part {
            buckets: self.layout.buckets,
            slot_bits: self.layout.slot_bits(),
            sequence,
            first_slot: 0,
            on_flash: Vec::new(),
            in_memory: self.memory_sequences(),
            slots: Vec::new(),
        };
        let on_flash = self.slabs.on_flash();
        template.on_flash =
            on_flash.map(|(n, slab, _)| (n, slab.sequence.load(Ordering::Relaxed))).collect();
        let on_flash = |sequence: &u64| template.on_flash.iter().any(|(_, s)| s == sequence);
        // One that was written between the two lists is not to be in both.
        template.in_memory = template.in_memory.iter().copied().filter(|s| !on_flash(s)).collect();
        let each = slots_of_part(&self.layout, template.table_bytes());
        if each == 0 {
            log::debug!("blocks are too small for a checkpoint of the flash cache");
            return Ok(());
        }
        let parts = self.index.slot_count().div_ceil(each);
        if parts * FLASH_PARTS_MIN > self.flash.usable() as usize {
            log::debug!("a checkpoint of {parts} blocks would take too much of the flash cache");
            return Ok(());
        }
        let number = self.next_sequence.fetch_add(parts as u64, Ordering::AcqRel);
        let mut new = Vec::with_capacity(parts);
        for part in 0..parts {
            match self.write_part(&mut template, number, part, parts, each) {
                Ok(Some(block)) => new.push(block),
                Ok(None) => return new.into_iter().try_for_each(|block| self.give_back(block)),
                Err(error) => {
                    for block in new {
                        self.give_back(block)?;
                    }
                    return Err(error);
                }
            }
        }
        if self.outlives_power {
            self.flash.sync()?;
        }
        self.record(&[Record::Checkpoint { number, first: first_journal }])?;
        self.journal.settle()?;
        self.journal.trim(&self.files, first_journal)?;
        let old = std::mem::replace(&mut *blocks, new);
        drop(blocks);
        self.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
        old.into_iter().try_for_each(|block| self.give_back(block))
    }

    fn give_back(&self, block: u32) -> Result<()> {
        self.counts.erases.fetch_add(1, Ordering::Relaxed);
        self.flash.give_back(block)
    }

    fn write_part(
        &self,
        template: &mut Part,
        number: u64,
        part: usize,
        parts: usize,
        each: usize,
    ) -> Result<Option<u32>> {
        let first = part * each;
        let slots = first..(first + each).min(self.index.slot_count());
        template.first_slot = first as u64;
        template.slots.clear();
        template.slots.extend(slots.map(|at| self.index.load(at)));
        let content = template.encode();
        let end = (HEADER_BYTES + content.len()) as u32;
        let sequence = number + part as u64;
        let footer = Footer {
            kind: Kind::Checkpoint,
            sequence,
            items_end: end,
            summary_end: end,
            items: 0,
            content_sum: slab::content_sum(self.store, HEADER_BYTES as u32, &content),
            checkpoint: number,
            part: part as u32,
            parts: parts as u32,
        };
        let header = slab::header(Kind::Checkpoint, self.store, sequence);
        self.write_block(&[&header, &content], &footer, CHECKPOINTS, false)
    }

    /// The journal that was appended to when the oldest slab in memory was begun, or an earlier
    /// one.
    fn journal_of_oldest(&self) -> u64 {
        let sequences = self.memory_sequences();
        let oldest = sequences.into_iter().min();
        oldest.map_or(u64::MAX, |sequence| self.journal.file_at(sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_whole_or_not_at_all() {
        let part = Part {
            buckets: 9,
            slot_bits: [1, 2, 3],
            sequence: 4,
            first_slot: 5,
            on_flash: vec![(6, 7), (8, 9)],
            in_memory: vec![10],
            slots: vec![0, 11, u64::MAX],
        };
        let bytes = part.encode();
        assert_eq!(bytes.len() + HEADER_BYTES, part.table_bytes() + 8 * part.slots.len());
        assert_eq!(Part::decode(&bytes), Some(part));
        assert!((0..FIXED_BYTES - HEADER_BYTES).all(|cut| Part::decode(&bytes[..cut]).is_none()));
        assert_eq!(Part::decode(&bytes[..bytes.len() - 1]), None);
    }
}
