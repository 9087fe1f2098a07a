//! Collection: how blocks become free (papers: 003…, 2.4.1).
//!
//! Space-based: the slab of which the fewest bytes are alive is emptied, and what is alive is
//! copied to a slab in memory. Locality-based: the slab that was used longest ago is dropped with
//! all that it has. Of slabs that are about as good, the one in the channel with the least to do is
//! taken: never what is alive for what is dead, nor what is in use for what nobody asks for.
//! As long as at most half of flash is alive, nothing that is alive has to go: slabs are emptied.

use crate::cache::Dida;
use crate::flash::{Flash, PageRead};
use crate::item;
use crate::journal::Record;
use crate::layout::Place;
use crate::options::Collection;
use crate::slab::{self, Summed};
use crate::slabs::Slab;
use crate::streams::{NoRoom, Stream};
use silica_base::{AlignedBuf, Result};
use silica_device::Device;
use silica_engine::{Budget, Progress};
use std::sync::atomic::Ordering;

/// Share of a slab that has to be dead before copying the rest is worth an erase.
const DEAD_MIN: f64 = 1.0 / 16.0;
/// Erases that a block is behind the mean before it is worth a copy to level it: blocks bear
/// thousands, and one that is moved earlier has to be moved again.
const WEAR_GAP_MIN: f64 = 5.0;
/// Bytes that are read at once while a slab is emptied.
const READ_BYTES: usize = 1 << 20;
/// Share of flash that may be alive while everything is kept.
const ROOMY_MAX: f64 = 0.5;
/// Free blocks at which a writer that finds everything kept empties a slab itself.
const FREE_MIN: u32 = 1;

/// A slab that is to be collected.
#[derive(Clone, Copy)]
struct Victim {
    number: u32,
    block: u32,
}

impl<F: Flash, D: Device> Dida<F, D> {
    /// Background work: slabs are written, blocks made free, wear levelled, checkpoints made.
    pub(crate) fn work(&self, budget: Budget) -> Result<Progress> {
        let mut bytes = 0;
        let slab_bytes = self.layout.shape.slab_bytes();
        self.prepare_place()?;
        self.flash.tend()?;
        while bytes < budget.bytes.max(1) {
            let done = if self.drain_one()? {
                slab_bytes
            } else if let Some(done) = self.collect()? {
                done
            } else if let Some(done) = self.level_wear()? {
                done
            } else if self.checkpoint_is_due() {
                self.make_checkpoint()?;
                self.index.bytes()
            } else {
                return Ok(Progress { bytes, more: false });
            };
            bytes += done;
        }
        Ok(Progress { bytes, more: true })
    }

    /// Makes a block free if too few are; bytes read and written.
    fn collect(&self) -> Result<Option<u64>> {
        let free = self.flash.free();
        let marks = self.provision.marks(free, self.flash.usable());
        let copies = self.collection != Collection::Locality && free < marks.high;
        let drops = self.collection != Collection::Space && free < marks.low;
        if drops && !self.keeps_all() {
            if self.drop_coldest()? {
                return Ok(Some(self.layout.shape.slab_bytes()));
            }
        } else if copies && let Some(victim) = self.sparsest() {
            return self.empty_slab(victim, Stream::Old).map(Some);
        }
        Ok(None)
    }

    /// True if nothing that is alive has to go for what comes: slabs may be copied, and most of
    /// flash is dead or free.
    fn keeps_all(&self) -> bool {
        self.collection != Collection::Locality && self.is_roomy()
    }

    fn is_roomy(&self) -> bool {
        let live: f64 = self.slabs.on_flash().map(|(_, slab, _)| slab.live_bytes()).sum();
        let usable = f64::from(self.flash.usable()) * self.layout.shape.slab_bytes() as f64;
        live <= ROOMY_MAX * usable
    }

    /// Empties a slab for a writer who would use the last block, if nothing has to go for it.
    pub(crate) fn keep_ahead(&self) -> Result<()> {
        if self.flash.free() <= FREE_MIN
            && self.keeps_all()
            && let Some(victim) = self.sparsest()
        {
            self.empty_slab(victim, Stream::Old)?;
        }
        Ok(())
    }

    /// Drops a slab since there is no free block; false if there is none. It is the one that was
    /// used longest ago, or has the least to lose if nothing has to go.
    pub(crate) fn drop_one(&self) -> Result<bool> {
        match self.keeps_all().then(|| self.sparsest()).flatten() {
            Some(victim) => self.drop_slab(victim).map(|()| true),
            None => self.drop_coldest(),
        }
    }

    /// Drops the slab that was used longest ago; false if there is none.
    fn drop_coldest(&self) -> Result<bool> {
        let begun_ns = self.clock.monotonic_ns();
        let coldness = |slab: &Slab| {
            let is_alive = slab.live.load(Ordering::Relaxed) > 0;
            Some((is_alive, slab.used(), slab.sequence.load(Ordering::Relaxed)))
        };
        // An eighth of all slabs written since: about as cold.
        let about = (self.layout.shape.slabs / 8).max(1);
        let is_near = |best: &(bool, u32, u64), other: &(bool, u32, u64)| {
            best.0 == other.0 && other.1 <= best.1.saturating_add(about)
        };
        let Some(victim) = self.choose(coldness, is_near) else { return Ok(false) };
        self.drop_slab(victim)?;
        self.provision.note_reclaim(self.clock.monotonic_ns() - begun_ns);
        Ok(true)
    }

    /// The slab of which the fewest bytes are alive, if copying these is worth while.
    fn sparsest(&self) -> Option<Victim> {
        let rank = |slab: &Slab| {
            let dead = 1.0 - slab.live_share();
            (dead >= DEAD_MIN).then(|| slab.live_bytes() as u64)
        };
        let about = self.layout.shape.slab_bytes() / 8;
        self.choose(rank, |best, other| *other <= best + about)
    }

    /// Claims a slab with the least rank, or one near it: by what their channels have to do.
    fn choose<R: Ord>(
        &self,
        rank: impl Fn(&Slab) -> Option<R>,
        is_near: impl Fn(&R, &R) -> bool,
    ) -> Option<Victim> {
        loop {
            let loads = self.flash.loads();
            let mut least: Vec<Option<(R, Victim)>> = loads.iter().map(|_| None).collect();
            for (number, slab, block) in self.slabs.on_flash() {
                if slab.is_claimed() {
                    continue;
                }
                let Some(rank) = rank(slab) else { continue };
                let channel = &mut least[self.flash.channel_of(block) as usize];
                if channel.as_ref().is_none_or(|(other, _)| rank < *other) {
                    *channel = Some((rank, Victim { number, block }));
                }
            }
            let best = least.iter().flatten().map(|(rank, _)| rank).min()?;
            let near = |channel: &usize| {
                least[*channel].as_ref().is_some_and(|(rank, _)| is_near(best, rank))
            };
            let channel = (0..least.len()).filter(near).min_by_key(|channel| loads[*channel])?;
            let (_, victim) = least[channel].take().expect("it has one");
            if self.slabs.get(victim.number).claim() {
                return Some(victim);
            }
        }
    }

    /// Gives a slab up with all that it has.
    fn drop_slab(&self, victim: Victim) -> Result<()> {
        self.give_up_slab(victim)?;
        self.counts.slabs_dropped.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Records that a slab is given up, takes out of the index what it still has there, and gives
    /// its block back, in this order.
    fn give_up_slab(&self, victim: Victim) -> Result<()> {
        let Victim { number, block } = victim;
        let slab = self.slabs.get(number);
        let sequence = slab.sequence.load(Ordering::Relaxed);
        let recorded = self.record(&[Record::Dropped { sequence }]);
        recorded.and_then(|()| self.journal.settle()).inspect_err(|_| slab.unclaim())?;
        if slab.live.load(Ordering::Acquire) > 0 {
            match self.summary(victim) {
                Some(summary) => {
                    for Summed { hash, offset } in summary {
                        self.evict(hash, number, offset);
                    }
                }
                None => self.sweep(number),
            }
        }
        self.slabs.release(number);
        self.flash.give_back(block)?;
        self.counts.erases.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes all entries of a slab out of the index, whose summary cannot be read.
    #[cold]
    fn sweep(&self, number: u32) {
        log::warn!("the summary of a slab of the flash cache is damaged; its entries are dropped");
        for bucket in 0..self.layout.buckets as usize {
            let is_its = |slot: u64| self.layout.place_of(slot).slab == number;
            if self.index.bucket(bucket).any(|found| is_its(found.slot)) {
                let _guard = self.index.lock(bucket);
                for found in self.index.bucket(bucket).filter(|found| is_its(found.slot)) {
                    self.index.store(found.at, 0);
                    self.bury(self.layout.place_of(found.slot));
                    self.counts.evicted_with_slabs.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// What the summary of a slab on flash says; `None` if it is damaged.
    fn summary(&self, victim: Victim) -> Option<Vec<Summed>> {
        let slab = self.slabs.get(victim.number);
        let start = slab.items_end.load(Ordering::Relaxed);
        let end = slab.summary_end.load(Ordering::Relaxed);
        self.read_summary(victim.block, start, end, slab.items.load(Ordering::Relaxed), None)
    }

    /// Bytes `start..end` of a block as a summary; with a checksum, only if it matches.
    pub(crate) fn read_summary(
        &self,
        block: u32,
        start: u32,
        end: u32,
        items: u32,
        sum: Option<u32>,
    ) -> Option<Vec<Summed>> {
        let bytes = self.read_bytes(block, start, end)?;
        let is_whole = sum.is_none_or(|s| s == slab::content_sum(self.store, start, &bytes));
        let found = slab::summed(&bytes, items, self.layout.granule_bits)?;
        is_whole.then_some(found)
    }

    /// Bytes `start..end` of a block; `None` if they cannot be read.
    pub(crate) fn read_bytes(&self, block: u32, start: u32, end: u32) -> Option<Vec<u8>> {
        let page = self.layout.shape.page_bytes;
        if start > end || u64::from(end) > self.layout.shape.slab_bytes() {
            return None;
        }
        if start == end {
            return Some(Vec::new());
        }
        let (first, last) = (start / page, end.div_ceil(page));
        let mut pages = AlignedBuf::zeroed(((last - first) * page) as usize);
        let read = self.flash.read(block, first, &mut pages);
        read.inspect_err(|error| log::warn!("a slab of the flash cache: {error}")).ok()?;
        let from = (start - first * page) as usize;
        Some(pages[from..from + (end - start) as usize].to_vec())
    }

    /// Copies what is alive of a slab to `stream`, and gives it up. Bytes read and written.
    fn empty_slab(&self, victim: Victim, stream: Stream) -> Result<u64> {
        let Some(summary) = self.summary(victim) else {
            return self.drop_slab(victim).map(|()| self.layout.shape.slab_bytes());
        };
        let alive: Vec<Summed> =
            summary.into_iter().filter(|item| self.is_alive(victim, item)).collect();
        let mut bytes = 0;
        let page = self.layout.shape.page_bytes as usize;
        let mut rest = &alive[..];
        while !rest.is_empty() {
            let (mut reads, mut read_bytes, mut count) = (Vec::new(), 0, 0);
            for (of, item) in rest.iter().enumerate() {
                let place = Place { slab: victim.number, offset: item.offset };
                let found = self.index.find_at(&self.layout, item.hash, place);
                count = of + 1;
                let Some(found) = found else { continue };
                let (first, pages) = self.layout.pages_of_slot(found.slot);
                let pages = AlignedBuf::zeroed(pages as usize * page);
                read_bytes += pages.len();
                reads.push(PageRead { of, block: victim.block, first, pages });
                if read_bytes >= READ_BYTES {
                    break;
                }
            }
            bytes += read_bytes as u64;
            let mut read = Vec::with_capacity(reads.len());
            self.flash.read_many(reads, &mut |done, result| read.push((done, result.is_ok())));
            for (done, is_read) in read {
                if is_read {
                    let copied = self.copy(victim, rest[done.of], &done.pages, stream);
                    bytes += copied.inspect_err(|_| self.slabs.get(victim.number).unclaim())?;
                }
            }
            rest = &rest[count..];
        }
        self.counts.slabs_emptied.fetch_add(1, Ordering::Relaxed);
        self.give_up_slab(victim)?;
        Ok(bytes + self.layout.shape.slab_bytes())
    }

    fn is_alive(&self, victim: Victim, item: &Summed) -> bool {
        let place = Place { slab: victim.number, offset: item.offset };
        self.index.find_at(&self.layout, item.hash, place).is_some()
    }

    /// Copies an item, which begins in the first of `pages`, unless it expired or is no longer
    /// current. Bytes written.
    fn copy(&self, victim: Victim, summed: Summed, pages: &[u8], stream: Stream) -> Result<u64> {
        let Summed { hash, offset } = summed;
        let old = Place { slab: victim.number, offset };
        let seal = self.seal(self.slabs.get(victim.number).sequence.load(Ordering::Relaxed));
        let at = offset as usize % self.layout.shape.page_bytes as usize;
        let Some((found, len)) = item::decode(&pages[at..], seal, offset) else {
            // Given up with its slab.
            return Ok(0);
        };
        let expires = found.entry.expires_unix_ms;
        if expires != 0 && expires <= self.clock.unix_ms() {
            let _guard = self.index.lock(self.layout.bucket(hash));
            if let Some(slot) = self.index.find_at(&self.layout, hash, old) {
                self.record(&[self.dead(old)])?;
                self.index.store(slot.at, 0);
                self.bury(old);
                self.counts.expired.fetch_add(1, Ordering::Relaxed);
            }
            return Ok(0);
        }
        loop {
            let guard = self.index.lock(self.layout.bucket(hash));
            let Some(slot) = self.index.find_at(&self.layout, hash, old) else { return Ok(0) };
            match self.append(stream, hash, &found)? {
                Ok(new) => {
                    if let Err(error) = self.record(&[self.dead(old)]) {
                        self.journal.owe(std::iter::once(self.dead(new)));
                        self.bury(new);
                        return Err(error);
                    }
                    self.index.store(slot.at, self.layout.slot(hash, new, len));
                    self.bury(old);
                    self.counts.copied_items.fetch_add(1, Ordering::Relaxed);
                    self.counts.copied_bytes.fetch_add(len as u64, Ordering::Relaxed);
                    return Ok(len as u64);
                }
                Err(NoRoom) => {
                    drop(guard);
                    self.make_room_by_writing(1)?;
                }
            }
        }
    }

    /// Levels wear if it is time to: slabs in blocks that were erased much less often than the
    /// others are collected, so that what changes comes to lie there (003…, 2.4.1).
    fn level_wear(&self) -> Result<Option<u64>> {
        let mut cold_blocks = self.cold_blocks.lock().expect("no panic while locked");
        if let Some(victim) = cold_blocks.pop() {
            let is_last = cold_blocks.is_empty();
            drop(cold_blocks);
            let done = self.level_one(victim)?;
            if is_last {
                self.streams.seal(Stream::Still.index());
            }
            return Ok(Some(done));
        }
        drop(cold_blocks);
        let erases = self.counts.erases.load(Ordering::Relaxed);
        let period = self.wear_period * u64::from(self.flash.usable());
        let since = self.levelled_at.load(Ordering::Relaxed);
        if period == 0 || erases < since + period {
            return Ok(None);
        }
        self.levelled_at.store(erases, Ordering::Relaxed);
        let cold = self.cold_slabs();
        self.counts.wear_levellings.fetch_add(1, Ordering::Relaxed);
        let any = !cold.is_empty();
        if any {
            // What is copied from here on stays long. It is not to share a slab with what does not.
            self.streams.seal(Stream::Still.index());
        }
        *self.cold_blocks.lock().expect("no panic while locked") = cold;
        Ok(any.then_some(1))
    }

    /// Slabs in blocks that were erased much less often than the mean, with their sequences.
    fn cold_slabs(&self) -> Vec<(u32, u64)> {
        let slabs = self.layout.shape.slabs;
        let all: u64 = (0..slabs).map(|block| self.flash.erases(block)).sum();
        let mean = all as f64 / f64::from(slabs);
        let limit = mean * self.wear_percent as f64 / 100.0;
        let newest = self.next_sequence.load(Ordering::Relaxed);
        let may_drop = !self.is_roomy();
        let is_cold = |slab: &Slab, block: u32| {
            let erases = self.flash.erases(block) as f64;
            // What is dropped costs nothing. Of what is copied a slab that was written lately is
            // not why its block is behind: the block catches up by itself.
            let is_young = slab.sequence.load(Ordering::Relaxed) + u64::from(slabs) >= newest;
            let is_dear = is_young || erases > mean - WEAR_GAP_MIN;
            erases < limit && (may_drop && self.is_unused(slab) || !is_dear)
        };
        let cold = self.slabs.on_flash().filter(|(_, slab, block)| is_cold(slab, *block));
        cold.map(|(number, slab, _)| (number, slab.sequence.load(Ordering::Relaxed))).collect()
    }

    /// True if nobody read from a slab while as many as the flash has were written.
    fn is_unused(&self, slab: &Slab) -> bool {
        slab.used() + self.layout.shape.slabs < self.tick()
    }

    /// Collects a slab in a block that was erased seldom: dropped if nobody used it for long and
    /// flash is rather full, else copied.
    fn level_one(&self, (number, sequence): (u32, u64)) -> Result<u64> {
        let slab = self.slabs.get(number);
        let block = match slab.whereabouts() {
            crate::slabs::Whereabouts::Block(block) => block,
            _ => return Ok(1),
        };
        let is_same = || slab.sequence.load(Ordering::Relaxed) == sequence;
        if !is_same() || !slab.claim() {
            return Ok(1);
        }
        let victim = Victim { number, block };
        self.counts.slabs_levelled.fetch_add(1, Ordering::Relaxed);
        if self.is_unused(slab) && !self.is_roomy() {
            return self.drop_slab(victim).map(|()| self.layout.shape.slab_bytes());
        }
        self.empty_slab(victim, Stream::Still)
    }

    /// Gives up all slabs on flash that were cleared.
    pub(crate) fn give_up_cleared(&self) -> Result<()> {
        let cleared: Vec<Victim> = self
            .slabs
            .on_flash()
            .filter(|(_, slab, _)| self.is_cleared(slab.sequence.load(Ordering::Relaxed)))
            .filter(|(_, slab, _)| slab.claim())
            .map(|(number, _, block)| Victim { number, block })
            .collect();
        for Victim { number, block } in cleared {
            self.slabs.release(number);
            self.flash.give_back(block)?;
            self.counts.erases.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
