//! A cache of two tiers: one in memory in front, one on flash behind it.
//!
//! A get looks in front, then behind; what it finds behind it puts in front. A put goes behind at
//! once if it is admitted ([`Admission`]), so that flash has it when memory drops it, and in front.
//!
//! The front never has what is older than what is behind. Invariants:
//!
//! 1. Who changes a key holds the lock of its stripe. Its version is odd meanwhile.
//! 2. A change takes the key out of the front, then changes what is behind, then puts the key in
//!    front.
//! 3. What a get found behind is put in front only under the lock of its stripe, and only if the
//!    version is the one from before the get looked in front, and even.
//!
//! 4. A scan goes through what is behind, then through the front. A key of the front is left out if
//!    it is behind, and if no key of its stripe has come there since the scan was begun: then the
//!    scan has met it. So what is there all the time is met at least once, and once only while
//!    nobody writes.
//!
//! Orderings: versions are loaded with Acquire and stored with Release; the lock does the rest.
//!
//! A writer that has to wait for flash holds the stripes of its keys meanwhile: writers of the same
//! keys wait with it, and readers do not.

mod admission;
mod databases;
mod numbered;
mod opening;
mod overlap;
#[cfg(test)]
mod tests;
mod views;

use admission::Admission;
pub use databases::FlashDatabases;
pub use opening::FlashCacheOptions;

use silica_base::HashSeed;
use silica_engine::{
    Admin, Atomic, Budget, Descriptor, Durability, Engine, EntryRef, ErrorKind, GetSink, Intent,
    Metric, MetricVisitor, MetricsMap, Op, OpKind, Progress, Result, Scan, WriteBatch,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What two tiers count that no engine does.
pub(crate) const METRICS: &[Metric] = &[
    Metric::counter("memory_hits", "keys found in the memory in front of flash"),
    Metric::counter("flash_hits", "keys found in the cache on flash, its slabs in memory included"),
    Metric::counter("admitted_bytes", "bytes of entries that were admitted to flash"),
    Metric::counter("refused_bytes", "bytes of entries that stayed in memory to save flash"),
    Metric::gauge("flash_bytes_written", "bytes written to flash since the cache was opened"),
    Metric::gauge("drive_writes_per_day", "times that flash is written in a day, at this rate"),
    Metric::gauge("flash_years", "years until flash is worn out at this rate; 0 if unknown"),
];

const STRIPES: usize = 1024;

/// Keys that share a lock and a version.
#[derive(Default)]
struct Stripe {
    lock: Mutex<()>,
    version: AtomicU64,
    /// The scan that was begun last when a key came behind, [`COMING`] while one comes.
    came_behind: AtomicU64,
}

/// Later than any scan.
const COMING: u64 = u64::MAX;

#[derive(Default)]
struct Counts {
    gets: AtomicU64,
    memory_hits: AtomicU64,
    flash_hits: AtomicU64,
}

/// Two caches as one engine.
pub(crate) struct Tiers<F, B> {
    front: Arc<F>,
    back: Arc<B>,
    admission: Admission,
    descriptor: Descriptor,
    stripes: Box<[Stripe]>,
    /// The number of the scan that was begun last.
    scans: AtomicU64,
    /// What it was at first: another number in each process, so that no scan of one passes for one
    /// of the next, and larger than any number that a cursor has.
    first_scan: u64,
    seed: HashSeed,
    counts: Counts,
    overlap: overlap::Overlap,
}

/// An entry that a get found behind.
struct Copied {
    index: usize,
    value: Vec<u8>,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Copied {
    fn new(index: usize, entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Copied { index, value: value.to_vec(), expires_unix_ms, user_bits }
    }

    fn entry(&self) -> EntryRef<'_> {
        let Copied { value, expires_unix_ms, user_bits, .. } = self;
        EntryRef { value, expires_unix_ms: *expires_unix_ms, user_bits: *user_bits }
    }
}

/// Passes on what the front has, and notes what it has not.
struct FrontSink<'a> {
    sink: &'a mut dyn GetSink,
    is_found: Vec<bool>,
}

impl GetSink for FrontSink<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.is_found[index] = true;
        self.sink.found(index, entry);
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        let wants = self.sink.wants(index, bytes);
        // What nobody has room for is not sought behind, either.
        self.is_found[index] |= !wants;
        wants
    }
}

/// Passes on what is behind, and keeps it to be put in front.
struct BackSink<'a> {
    sink: &'a mut dyn GetSink,
    /// Places of the keys in the whole burst.
    places: &'a [usize],
    keeps: bool,
    hits: u64,
    found: Vec<Copied>,
}

impl GetSink for BackSink<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.hits += 1;
        if self.keeps {
            self.found.push(Copied::new(index, entry));
        }
        self.sink.found(self.places[index], entry);
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        self.sink.wants(self.places[index], bytes)
    }
}

impl<F: Engine, B: Engine> Tiers<F, B> {
    /// `front` in memory before `back` on flash; both are empty in front of what they forget.
    pub(crate) fn new(front: Arc<F>, back: Arc<B>, admission: Admission, seed: HashSeed) -> Self {
        let mut descriptor = *back.descriptor();
        descriptor.capabilities.kept_at_close = true;
        let numbers = 1 << views::SCAN_BITS;
        let first_scan = numbers + seed.low(b"scans") % numbers;
        Tiers {
            front,
            back,
            admission,
            descriptor,
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            scans: AtomicU64::new(first_scan),
            first_scan,
            seed,
            counts: Counts::default(),
            overlap: overlap::Overlap::default(),
        }
    }

    fn stripe_of(&self, key: &[u8]) -> usize {
        self.seed.low(key) as usize % self.stripes.len()
    }

    fn version_of(&self, key: &[u8]) -> u64 {
        self.stripes[self.stripe_of(key)].version.load(Ordering::Acquire)
    }

    fn read(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        let versions: Vec<u64> = keys.iter().map(|key| self.version_of(key)).collect();
        let (hits, places) = self.read_front(keys, intent, sink)?;
        let missing: Vec<&[u8]> = places.iter().map(|place| keys[*place]).collect();
        let mut back =
            BackSink { sink, places: &places, keeps: intent.keeps(), hits: 0, found: Vec::new() };
        if !missing.is_empty() {
            self.back.get_many_with(&missing, intent, &mut back)?;
        }
        let (back_hits, found) = (back.hits, back.found);
        for copied in found {
            self.promote(missing[copied.index], versions[places[copied.index]], &copied)?;
        }
        // Ratios of hits are those of users, who wait.
        if intent == Intent::Foreground {
            self.count(keys.len(), hits, back_hits);
        }
        Ok(())
    }

    /// Looks in front; how many were there, and the places of the others.
    fn read_front(
        &self,
        keys: &[&[u8]],
        intent: Intent,
        sink: &mut dyn GetSink,
    ) -> Result<(usize, Vec<usize>)> {
        let mut front = FrontSink { sink, is_found: vec![false; keys.len()] };
        self.front.get_many_with(keys, intent, &mut front)?;
        let is_found = front.is_found;
        let places: Vec<usize> = (0..keys.len()).filter(|place| !is_found[*place]).collect();
        Ok((keys.len() - places.len(), places))
    }

    fn count(&self, gets: usize, memory_hits: usize, flash_hits: u64) {
        self.counts.gets.fetch_add(gets as u64, Ordering::Relaxed);
        self.counts.memory_hits.fetch_add(memory_hits as u64, Ordering::Relaxed);
        self.counts.flash_hits.fetch_add(flash_hits, Ordering::Relaxed);
    }

    /// Puts in front what was found behind, unless somebody changes or has changed the key.
    fn promote(&self, key: &[u8], version: u64, copied: &Copied) -> Result<()> {
        let stripe = &self.stripes[self.stripe_of(key)];
        let Ok(_guard) = stripe.lock.try_lock() else { return Ok(()) };
        if version & 1 == 1 || stripe.version.load(Ordering::Acquire) != version {
            return Ok(());
        }
        self.put_in_front(key, copied.entry())
    }

    /// Puts a key in front if it fits there.
    fn put_in_front(&self, key: &[u8], entry: EntryRef<'_>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put_entry(key, entry);
        match self.front.write(&batch, Durability::Buffered) {
            Err(error) if matches!(error.kind(), ErrorKind::TooLarge | ErrorKind::Full) => Ok(()),
            result => result,
        }
    }

    /// Waits until the caller alone may change `keys`.
    fn begin<'t>(&'t self, keys: impl Iterator<Item = &'t [u8]>) -> Changing<'t> {
        let mut stripes: Vec<usize> = keys.map(|key| self.stripe_of(key)).collect();
        // In their order, so that two writers never wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        self.begin_stripes(stripes.into_iter().map(|at| &self.stripes[at]).collect())
    }

    /// Waits until the caller alone may change anything.
    fn begin_all(&self) -> Changing<'_> {
        self.begin_stripes(self.stripes.iter().collect())
    }

    fn begin_stripes<'t>(&'t self, stripes: Vec<&'t Stripe>) -> Changing<'t> {
        let guards = stripes.iter().map(|s| s.lock.lock().expect("no panic while locked"));
        let guards = guards.collect();
        for stripe in &stripes {
            stripe.version.fetch_add(1, Ordering::AcqRel);
        }
        Changing { stripes, _guards: guards }
    }

    fn write_all(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        Op::refuse_ranges(ops, self.descriptor.name)?;
        let _changing = self.begin(ops.iter().map(|op| op.key));
        self.write_changing(ops, durability)
    }

    /// Applies operations for who may change their keys.
    fn write_changing(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        let mut gone = WriteBatch::new();
        let mut behind = WriteBatch::new();
        for op in ops {
            gone.delete(op.key);
            match op.kind {
                OpKind::Put(entry) if self.admission.admits(op.key.len() + entry.value.len()) => {
                    behind.put_entry(op.key, entry);
                }
                // An older value behind must not be found once memory has dropped this one.
                _ => drop(behind.delete(op.key)),
            }
        }
        self.front.write(&gone, Durability::Buffered)?;
        self.write_behind(&behind, durability)?;
        // Of several operations on a key nobody sees but the last.
        let mut seen = BTreeSet::new();
        for op in ops.iter().rev() {
            let is_last = ops.len() == 1 || seen.insert(op.key);
            if let OpKind::Put(entry) = op.kind
                && is_last
            {
                self.put_in_front(op.key, entry)?;
            }
        }
        Ok(())
    }

    /// Changes what is behind, and tells scans which keys may have come there.
    fn write_behind(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let puts = batch.ops().iter().filter(|op| matches!(op.kind, OpKind::Put(_)));
        let coming: Vec<usize> = puts.map(|op| self.stripe_of(op.key)).collect();
        let mark = |scan: u64| {
            let stripes = coming.iter().map(|at| &self.stripes[*at]);
            stripes.for_each(|stripe| stripe.came_behind.store(scan, Ordering::Release));
        };
        mark(COMING);
        let result = self.back.write(batch, durability);
        // A scan that was begun before the keys were there has a lower number, or this one.
        mark(self.scans.load(Ordering::Acquire));
        result
    }

    fn report(&self, visitor: &mut dyn MetricVisitor) {
        let (mut front, mut back) = (MetricsMap::default(), MetricsMap::default());
        self.front.metrics(&mut front);
        self.back.metrics(&mut back);
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let (gets, memory) = (of(&self.counts.gets), of(&self.counts.memory_hits));
        let hits = memory + of(&self.counts.flash_hits);
        let written = self.admission.written();
        let refused = self.admission.refused_entries() as f64;
        let own: [(&'static str, f64); 14] = [
            ("gets", gets),
            ("get_hits", hits),
            ("hit_ratio", hits / gets.max(1.0)),
            ("memory_hits", memory),
            ("flash_hits", of(&self.counts.flash_hits)),
            ("admitted_bytes", self.admission.admitted_bytes() as f64),
            ("refused_bytes", self.admission.refused_bytes() as f64),
            ("flash_bytes_written", written.bytes as f64),
            ("drive_writes_per_day", written.drive_writes_per_day),
            ("flash_years", written.years),
            ("index_bytes", front.get("index_bytes") + back.get("index_bytes")),
            ("log_bytes", front.get("log_bytes") + back.get("log_bytes")),
            // What memory drops is behind, as far as it was admitted.
            ("evictions", back.get("evictions") + front.get("evictions").min(refused)),
            (
                "memory_budget_bytes",
                front.get("memory_budget_bytes") + back.get("memory_budget_bytes"),
            ),
        ];
        let is_own = |name: &str| own.iter().any(|(other, _)| *other == name);
        own.iter().for_each(|(name, value)| visitor.metric(name, *value));
        back.0.iter().filter(|(name, _)| !is_own(name)).for_each(|(n, v)| visitor.metric(n, *v));
    }
}

/// Keys that one caller changes until this is dropped.
struct Changing<'t> {
    stripes: Vec<&'t Stripe>,
    _guards: Vec<MutexGuard<'t, ()>>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        for stripe in &self.stripes {
            stripe.version.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl<F: Engine, B: Engine> Engine for Tiers<F, B> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.read(keys, Intent::Foreground, sink)
    }

    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        self.read(keys, intent, sink)
    }

    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        let (hits, places) = self.read_front(keys, Intent::Foreground, sink)?;
        let missing: Vec<&[u8]> = places.iter().map(|place| keys[*place]).collect();
        let mut back = BackSink { sink, places: &places, keeps: false, hits: 0, found: Vec::new() };
        let mut later = Vec::new();
        if !missing.is_empty() {
            self.back.get_many_at_hand(&missing, &mut back, &mut later)?;
        }
        self.count(keys.len() - later.len(), hits, back.hits);
        left.extend(later.into_iter().map(|at| places[at]));
        Ok(())
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.write_all(batch.ops(), durability)
    }

    fn sync(&self) -> Result<()> {
        self.back.sync()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        let front = self.front.maintain(budget)?;
        let back = self.back.maintain(budget)?;
        Ok(Progress { bytes: front.bytes + back.bytes, more: front.more || back.more })
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.report(visitor);
    }

    fn verify(&self) -> Result<()> {
        self.front.verify()?;
        self.back.verify()
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}
