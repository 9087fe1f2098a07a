//! Counting, clearing, closing, describing.

use super::bucket::{FILLED_SLOTS, SLOTS};
use super::shards::{Buckets, UNCHECKED};
use super::store::{Tally, Turbo};
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{Admin, Checkpoint, Count, Durability, MetricVisitor, Scan};
use std::sync::atomic::Ordering;

impl<R: Region> Turbo<R> {
    fn all_buckets(&self) -> u64 {
        let count = |word: u64| Buckets::of(word).count;
        self.shards.iter().map(|word| count(word.load(Ordering::Relaxed))).sum()
    }

    /// Slots in use and deleted of all shards that are checked.
    fn tallied(&self) -> (u64, u64) {
        let add = |(used, deleted), tally: Tally| {
            (used + u64::from(tally.used), deleted + u64::from(tally.deleted))
        };
        (0..self.locks.len()).map(|n| *self.lock_unchecked(n)).fold((0, 0), add)
    }

    /// Entries, those that have expired included. Until all shards were looked at after a crash, it
    /// is a guess: the others are as full as those, or three quarters full if there are none yet,
    /// as is usual between a growth and the next one.
    fn entries(&self) -> u64 {
        let used = self.tallied().0;
        if self.unchecked.load(Ordering::Acquire) == 0 {
            return used;
        }
        if self.is_counted {
            return used + self.uncounted.load(Ordering::Relaxed);
        }
        let (mut known, mut unknown) = (0, 0);
        for word in &self.shards {
            let word = word.load(Ordering::Relaxed);
            let slots = Buckets::of(word).count * SLOTS as u64;
            *(if word & UNCHECKED == 0 { &mut known } else { &mut unknown }) += slots;
        }
        if known == 0 {
            return unknown / 4 * 3;
        }
        used + (u128::from(unknown) * u128::from(used) / u128::from(known)) as u64
    }

    pub(super) fn report_metrics(&self, visitor: &mut dyn MetricVisitor) {
        let (used, deleted) = self.tallied();
        let (buckets, live) = (self.all_buckets(), self.space.live_bytes());
        let region_bytes = self.region().len();
        let managing = self.managing_bytes();
        let rebuilt = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        for (name, value) in [
            ("gets", counts.sum(|c| &c.gets)),
            ("get_hits", counts.sum(|c| &c.hits)),
            ("puts", counts.sum(|c| &c.puts)),
            ("deletes", counts.sum(|c| &c.deletes)),
            ("user_bytes_written", counts.sum(|c| &c.user_bytes)),
            ("expirations", counts.sum(|c| &c.expired)),
            ("entries_estimate", self.entries()),
            ("index_bytes", managing),
            ("live_bytes", live),
            ("disk_bytes", region_bytes),
            ("memory_budget_bytes", self.memory_bytes.load(Ordering::Relaxed)),
            ("durability_class", u64::from(self.space.durability_class())),
            ("shards", self.shards.len() as u64),
            ("shards_unchecked", self.unchecked.load(Ordering::Relaxed) as u64),
            ("buckets", buckets),
            ("deleted_slots", deleted),
            ("region_bytes", region_bytes),
            ("region_held_bytes", self.space.held_bytes()),
            ("resizes", rebuilt(&self.rebuilds.resizes)),
            ("cleanups", rebuilt(&self.rebuilds.cleanups)),
            ("resize_ns", rebuilt(&self.rebuilds.ns)),
            ("resize_ns_max", rebuilt(&self.rebuilds.ns_max)),
            ("redo_records", u64::from(self.space.redo_records())),
        ] {
            visitor.metric(name, value as f64);
        }
        self.space.report_media(visitor);
        let slots = buckets * FILLED_SLOTS as u64;
        visitor.metric("load_factor", used as f64 / slots.max(1) as f64);
        visitor.metric("index_bytes_per_key", managing as f64 / used.max(1) as f64);
        visitor.metric("space_amplification", region_bytes as f64 / live.max(1) as f64);
    }
}

impl<R: Region> Admin for Turbo<R> {
    fn count(&self, exact: bool) -> Result<Count> {
        if exact {
            let mut entries = 0;
            self.scan(0, usize::MAX, &mut |_, _| entries += 1)?;
            return Ok(Count { low: entries, estimate: entries, high: entries });
        }
        // Entries that have expired are still among them.
        let estimate = self.entries();
        let is_known = self.is_counted || self.unchecked.load(Ordering::Acquire) == 0;
        let high = if is_known { estimate } else { self.all_buckets() * SLOTS as u64 };
        Ok(Count { low: 0, estimate, high })
    }

    fn clear(&self) -> Result<()> {
        self.check_writable(Durability::Buffered)?;
        self.clear_all()
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        // What is not checked has tags and sums that an opening must not believe.
        self.check_not_poisoned()?;
        self.check_some(u64::MAX)?;
        let locked = self.lock_everything();
        self.note_count(locked.iter().map(|tally| u64::from(tally.used)).sum())?;
        self.space.hand_over(&mut |bytes| target.piece(self.space.name(), bytes))
    }

    fn set_memory_bytes(&self, bytes: u64) {
        if let Err(error) = self.limit_region(bytes) {
            log::warn!("memory_bytes stays as it is: {error}");
        }
    }

    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let bytes = self.region().len();
        progress(0, bytes);
        self.settle()?;
        progress(bytes, bytes);
        Ok(())
    }

    fn inspect(&self) -> Result<String> {
        let (used, deleted) = self.tallied();
        let rebuilt = self.rebuilds.resizes.load(Ordering::Relaxed);
        Ok(format!(
            "survives: {}\nshards: {}\nshards_unchecked: {}\nbuckets: {}\nslots_used: {used}\n\
             slots_deleted: {deleted}\nresizes: {rebuilt}\nregion_bytes: {}\nheld_bytes: {}\n\
             live_bytes: {}\nmanaging_bytes: {}\n",
            self.region().class(),
            self.shards.len(),
            self.unchecked.load(Ordering::Relaxed),
            self.all_buckets(),
            self.region().len(),
            self.space.held_bytes(),
            self.space.live_bytes(),
            self.managing_bytes(),
        ))
    }
}
