//! Items on their way into slabs in memory.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::item::Item;
use crate::layout::{Layout, Place};
use crate::slab::{self, FOOTER_BYTES, Kind, SUMMED_BYTES_MAX};
use crate::slabs::Whereabouts;
use crate::streams::{NoRoom, Open, Resident, STREAMS, Spare, Stream, name};
use silica_base::{ErrorKind, Result};
use silica_device::{Device, LogFile};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<F: Flash, D: Device> Dida<F, D> {
    /// Appends an item to a slab in memory, and counts it as alive. For who holds the lock of its
    /// bucket, so that nobody collects the slab before the index names the item.
    pub(crate) fn append(
        &self,
        stream: Stream,
        hash: u64,
        item: &Item<'_>,
    ) -> Result<std::result::Result<Place, NoRoom>> {
        let bytes = self.layout.padded(item.bytes());
        let mut open = self.streams.stream(stream.index());
        if open.as_ref().is_none_or(|slab| !has_room(&self.layout, slab, bytes))
            && !self.open_next(&mut open, stream.placement())?
        {
            return Ok(Err(NoRoom));
        }
        let slab = open.as_mut().expect("it was opened");
        let offset = slab.end;
        let seal = self.seal(slab.sequence);
        let header = item.header(seal, offset);
        let filler = [0; 64];
        let filler = &filler[..bytes - item.bytes()];
        slab.log.append(&[header.as_bytes(), item.key, item.entry.value, filler])?;
        slab::sum_up(&mut slab.summary, hash, offset, slab.before, self.layout.granule_bits);
        slab.end = offset + bytes as u32;
        slab.before = offset;
        slab.items += 1;
        slab.still_items += u32::from(stream == Stream::Still);
        let known = self.slabs.get(slab.number);
        known.items.store(slab.items, Ordering::Relaxed);
        known.items_end.store(slab.end, Ordering::Relaxed);
        known.live.fetch_add(1, Ordering::Relaxed);
        Ok(Ok(Place { slab: slab.number, offset }))
    }

    /// Seals the slab of a stream and begins another one; false if no place is ready.
    fn open_next(&self, open: &mut Option<Open<D::Log>>, placement: u16) -> Result<bool> {
        let mut waiting = self.streams.waiting();
        let Some(spare) = waiting.spares.pop() else { return Ok(false) };
        if let Some(full) = open.take() {
            waiting.sealed.push_back(full);
        }
        drop(waiting);
        let number = self.slabs.take().expect("a number for each place and block");
        let sequence = self.next_sequence.fetch_add(1, Ordering::Relaxed);
        let place = spare.place;
        if let Err(error) = spare.log.append(&[&slab::header(Kind::Items, self.store, sequence)]) {
            self.slabs.release(number);
            self.streams.waiting().free.push(place);
            return Err(error);
        }
        let next = Open::empty(number, sequence, placement, spare);
        let resident = Resident { number, log: Arc::clone(&next.log) };
        self.streams.set_resident(place, Some(resident));
        self.slabs.begin(number, sequence, self.tick(), Whereabouts::Memory(place));
        *open = Some(next);
        Ok(true)
    }

    /// Has `count` places in memory ready for new slabs. Writes slabs to flash if there are too
    /// few, or waits for those who do.
    pub(crate) fn make_room(&self, count: usize) -> Result<()> {
        self.make_places(count, true)
    }

    /// [`Dida::make_room`] for the collector, which collects nothing meanwhile.
    pub(crate) fn make_room_by_writing(&self, count: usize) -> Result<()> {
        self.make_places(count, false)
    }

    fn make_places(&self, count: usize, may_collect: bool) -> Result<()> {
        loop {
            let mut waiting = self.streams.waiting();
            if waiting.spares.len() >= count {
                return Ok(());
            }
            if let Some(place) = waiting.free.pop() {
                drop(waiting);
                self.make_spare(place)?;
                continue;
            }
            if waiting.sealed.is_empty() {
                if waiting.under_way == 0 {
                    // All places are open slabs: as many as there are will have to do.
                    return self.seal_one();
                }
                let waited = self.streams.has_room.wait(waiting);
                drop(waited.expect("no panic while locked"));
                continue;
            }
            drop(waiting);
            self.counts.writes_slowed.fetch_add(1, Ordering::Relaxed);
            if may_collect {
                self.keep_ahead()?;
            }
            self.drain_one()?;
        }
    }

    /// Seals the fullest slab that is open.
    fn seal_one(&self) -> Result<()> {
        let filled =
            |stream: &usize| self.streams.stream(*stream).as_ref().map_or(0, |slab| slab.end);
        let fullest = (0..STREAMS).max_by_key(filled).expect("there are streams");
        let sealed = self.streams.stream(fullest).take();
        self.streams.waiting().sealed.extend(sealed);
        Ok(())
    }

    /// Puts an empty log into a place.
    fn make_spare(&self, place: u32) -> Result<()> {
        let file = self.streams.next_file.fetch_add(1, Ordering::Relaxed);
        let created = self.files.create_log(&name(file), self.layout.shape.slab_bytes());
        let mut waiting = self.streams.waiting();
        match created {
            Ok(log) => waiting.spares.push(Spare { place, file, log }),
            Err(error) => {
                waiting.free.push(place);
                let told = "a slab in memory needs a file of its own; make room for it";
                let is_full = error.kind() == ErrorKind::Full;
                return Err(if is_full { error.within(told) } else { error });
            }
        }
        Ok(())
    }

    /// Has a spare place ready if one is free, so that writers find it.
    pub(crate) fn prepare_place(&self) -> Result<bool> {
        let mut waiting = self.streams.waiting();
        if !waiting.spares.is_empty() {
            return Ok(false);
        }
        let Some(place) = waiting.free.pop() else { return Ok(false) };
        drop(waiting);
        self.make_spare(place).map(|()| true)
    }

    /// Seals all slabs that are open.
    pub(crate) fn seal_all(&self) {
        (0..STREAMS).for_each(|stream| self.streams.seal(stream));
    }

    /// Forgets all slabs in memory. For who holds all locks of the index and cleared it; slabs
    /// that somebody writes just now are left to them.
    pub(crate) fn forget_memory(&self) -> Result<()> {
        self.seal_all();
        let sealed: Vec<_> = {
            let mut waiting = self.streams.waiting();
            waiting.under_way += waiting.sealed.len() as u32;
            waiting.sealed.drain(..).collect()
        };
        for slab in sealed {
            self.slabs.release(slab.number);
            self.streams.leave(slab.place);
            self.files.remove(&name(slab.file))?;
        }
        Ok(())
    }

    /// Sequences of the slabs in memory, with those that somebody writes just now.
    pub(crate) fn memory_sequences(&self) -> Vec<u64> {
        let sequence =
            |(_, slab): (u32, &crate::slabs::Slab)| slab.sequence.load(Ordering::Relaxed);
        self.slabs.in_memory().map(sequence).collect()
    }
}

/// True if a slab has room for an item of `bytes` bytes and for what the summary says of it.
fn has_room<L>(layout: &Layout, slab: &Open<L>, bytes: usize) -> bool {
    let needed = slab.end as usize + bytes + slab.summary.len() + SUMMED_BYTES_MAX;
    needed + FOOTER_BYTES <= layout.shape.slab_bytes() as usize
}
