//! Slabs on their way from memory to flash.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::item;
use crate::slab::{self, FOOTER_BYTES, Footer, HEADER_BYTES, Kind};
use crate::slabs::Whereabouts;
use crate::streams::{Open, name};
use silica_base::{AlignedBuf, Result};
use silica_device::blocks::{FlashFault, FlashResult};
use silica_device::{Device, LogFile};
use std::sync::atomic::Ordering;

/// Bytes that are programmed at once, roughly.
const PROGRAM_BYTES: usize = 256 << 10;

/// True if a block, and not the device, refused.
fn is_of_the_block(fault: FlashFault) -> bool {
    use FlashFault::{
        BadBlock, EraseFailed, NeedsReset, NotErased, OutOfOrder, ProgramFailed, WornOut,
    };
    matches!(
        fault,
        ProgramFailed
            | BadBlock
            | WornOut
            | EraseFailed
            | NeedsReset
            | NotErased
            | OutOfOrder { .. }
    )
}

impl<F: Flash, D: Device> Dida<F, D> {
    /// Writes the slab that waits for longest to the channel with the least to do; false if none
    /// waits.
    pub(crate) fn drain_one(&self) -> Result<bool> {
        let Some(sealed) = self.streams.take_sealed() else { return Ok(false) };
        match self.drain(&sealed) {
            Ok(()) => {
                self.streams.leave(sealed.place);
                let Open { file, log, .. } = sealed;
                drop(log);
                self.files.remove(&name(file))?;
                Ok(true)
            }
            Err(error) => {
                self.streams.put_back(sealed);
                Err(error)
            }
        }
    }

    fn drain(&self, sealed: &Open<D::Log>) -> Result<()> {
        let items_end = sealed.end;
        let footer = Footer {
            kind: Kind::Items,
            sequence: sealed.sequence,
            items_end,
            summary_end: items_end + sealed.summary.len() as u32,
            items: sealed.items,
            content_sum: slab::content_sum(self.store, items_end, &sealed.summary),
            checkpoint: 0,
            part: 0,
            parts: 0,
        };
        let items = sealed.log.bytes(0, items_end as usize);
        let parts = [items, &sealed.summary[..]];
        let written = self.write_block(&parts, &footer, sealed.placement, sealed.is_still())?;
        let Some(block) = written else { return self.drop_from_memory(sealed) };
        let known = self.slabs.get(sealed.number);
        let placing = self.placing.lock().expect("no panic while locked");
        if self.is_cleared(sealed.sequence) {
            // Everything was cleared meanwhile.
            self.slabs.release(sealed.number);
            drop(placing);
            return self.flash.give_back(block);
        }
        known.summary_end.store(footer.summary_end, Ordering::Relaxed);
        let tick = self.next_tick();
        known.touch(tick);
        known.set_whereabouts(Whereabouts::Block(block));
        drop(placing);
        self.counts.slabs_written.fetch_add(1, Ordering::Relaxed);
        self.counts.slab_bytes_written.fetch_add(u64::from(items_end), Ordering::Relaxed);
        self.provision.note_drain(self.clock.monotonic_ns());
        Ok(())
    }

    /// Writes `parts`, one behind the other, and a footer to a block; its number, or `None` if
    /// there is no block left. Blocks that fail on the way are given up. The placement stream is
    /// `stream`. What is still goes to the most worn block.
    pub(crate) fn write_block(
        &self,
        parts: &[&[u8]],
        footer: &Footer,
        stream: u16,
        is_still: bool,
    ) -> Result<Option<u32>> {
        loop {
            let worn = if is_still { self.flash.take_worn()? } else { None };
            let taken = if worn.is_some() { worn } else { self.take_block()? };
            let Some(block) = taken else { return Ok(None) };
            match self.program(block, parts, footer, stream) {
                Ok(()) => {
                    self.counts.blocks_written.fetch_add(1, Ordering::Relaxed);
                    if self.outlives_power {
                        self.flash.sync()?;
                    }
                    return Ok(Some(block));
                }
                Err(error) if is_of_the_block(error.fault()) => {
                    log::warn!("a slab of the flash cache is written elsewhere: {error}");
                    self.counts.blocks_failed.fetch_add(1, Ordering::Relaxed);
                    self.flash.give_back(block)?;
                }
                Err(error) => {
                    // Whatever is wrong with the device, the block is not to be lost.
                    let given = self.flash.give_back(block);
                    given.unwrap_or_else(|e| log::warn!("a block of the flash cache is lost: {e}"));
                    return Err(error.into());
                }
            }
        }
    }

    fn program(
        &self,
        block: u32,
        parts: &[&[u8]],
        footer: &Footer,
        stream: u16,
    ) -> FlashResult<()> {
        let shape = self.layout.shape;
        let page = shape.page_bytes as usize;
        let pages_at_once = (PROGRAM_BYTES / page).clamp(1, shape.pages as usize);
        let (mut parts, mut part) = (parts.iter(), &[][..]);
        let mut buffer = AlignedBuf::zeroed(pages_at_once * page);
        let mut first = 0;
        while first < shape.pages as usize {
            let pages = pages_at_once.min(shape.pages as usize - first);
            let chunk = &mut buffer[..pages * page];
            let mut filled = 0;
            while filled < chunk.len() {
                if part.is_empty() {
                    match parts.next() {
                        Some(next) => part = next,
                        None => break,
                    }
                }
                let bytes = part.len().min(chunk.len() - filled);
                chunk[filled..filled + bytes].copy_from_slice(&part[..bytes]);
                (filled, part) = (filled + bytes, &part[bytes..]);
            }
            chunk[filled..].fill(0);
            first += pages;
            if first == shape.pages as usize {
                let end = chunk.len();
                chunk[end - FOOTER_BYTES..].copy_from_slice(&footer.encode(self.store));
            }
            self.flash.program(block, (first - pages) as u32, stream, chunk)?;
        }
        Ok(())
    }

    /// A block for a slab, in the channel with the least to do of those that have one. Slabs are
    /// dropped if none is free; `None` if that does not help either.
    pub(crate) fn take_block(&self) -> Result<Option<u32>> {
        loop {
            let loads = self.flash.loads();
            let mut channels: Vec<u32> = (0..loads.len() as u32).collect();
            silica_base::compact_sort_by_key(&mut channels, |channel| loads[*channel as usize]);
            for channel in channels {
                if let Some(block) = self.flash.take(channel)? {
                    return Ok(Some(block));
                }
            }
            if !self.drop_one()? && self.flash.free() == 0 {
                return Ok(None);
            }
        }
    }

    /// There is no block left for a slab: its entries go.
    #[cold]
    fn drop_from_memory(&self, sealed: &Open<D::Log>) -> Result<()> {
        if !self.has_warned_of_no_block.swap(true, Ordering::Relaxed) {
            log::warn!("the flash cache has no usable block left: it keeps what is in memory only");
        }
        let records = [crate::journal::Record::Dropped { sequence: sealed.sequence }];
        self.record(&records)?;
        self.journal.settle()?;
        let (end, seal) = (sealed.end as usize, self.seal(sealed.sequence));
        let bytes = sealed.log.bytes(0, end);
        let mut at = HEADER_BYTES;
        while let Some((item, len)) = item::decode(&bytes[at..], seal, at as u32) {
            self.evict(self.seed.low(item.key), sealed.number, at as u32);
            at += self.layout.padded(len);
            if at >= end {
                break;
            }
        }
        self.slabs.release(sealed.number);
        Ok(())
    }
}
