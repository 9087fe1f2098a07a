//! An engine on simulated memory, asked as the paper's benchmarks ask.

use silica_base::{HashSeed, ManualClock, Prng, Result};
use silica_device::region::RegionClass;
use silica_device::sim::{RegionCounts, SimRegion, SimRegions};
use silica_engine::{
    Durability, Engine, EngineExt, Environment, KeyRange, MetricsMap, OptionValues, WriteBatch,
};
use silica_pmem::sptree::SpTree;
use std::sync::Arc;

/// Bytes of the processor's cache before the medium: less than any table that is measured, as the
/// paper's 55 MiB are less than its tables.
const CACHE_BYTES: u64 = 64 << 10;
/// A processor's cache that holds what one search reads, and no more.
const ONE_CALL_BYTES: u64 = 4096;
/// Memory that an engine may have.
const MEMORY_BYTES: u64 = 16 << 30;

/// Bytes of key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize, pub(super) usize);

/// An engine with the region that it is in.
pub(super) struct Bench<E> {
    pub(super) engine: Arc<E>,
    region: SimRegion,
    size: Size,
    seed: u64,
}

/// What calls wait for.
pub(super) struct Waits {
    /// Lines of the medium that each call has read, in order.
    lines: Vec<u64>,
    /// Fences of a call, on average.
    pub(super) fences: f64,
}

impl Waits {
    /// Lines read on average.
    pub(super) fn mean(&self) -> f64 {
        self.lines.iter().sum::<u64>() as f64 / self.lines.len().max(1) as f64
    }

    /// Lines that so many percent of the calls read at most.
    pub(super) fn percentile(&self, percent: usize) -> f64 {
        let at = (self.lines.len() * percent / 100).min(self.lines.len().saturating_sub(1));
        self.lines.get(at).map_or(0.0, |lines| *lines as f64)
    }
}

impl Bench<SpTree<SimRegion>> {
    /// Media bytes that another opening of the store reads, as after the death of its process.
    pub(super) fn opening(&self) -> Result<u64> {
        let image = self.region.fork(self.seed);
        image.count_media(CACHE_BYTES);
        let place = SimRegions::holding("sptree", image.clone(), false);
        let environment =
            Environment { clock: Arc::new(ManualClock::default()), seed: HashSeed([1; 16]) };
        let mut values = OptionValues::default();
        values.set("memory_bytes", MEMORY_BYTES);
        let tree = SpTree::<SimRegion>::open_on(&place, &values, &environment)?;
        tree.get(&self.key(0))?;
        Ok(image.counts().bytes_read())
    }
}

impl<E: Engine> Bench<E> {
    /// A new engine, which `open` makes in the region `name`.
    pub(super) fn new(
        name: &str,
        options: &[(&str, u64)],
        size: Size,
        seed: u64,
        open: impl FnOnce(&SimRegions, &OptionValues, &Environment) -> Result<E>,
    ) -> Result<Self> {
        let place = SimRegions::new(seed, RegionClass::Lines);
        let clock = Arc::new(ManualClock::default());
        let environment = Environment { clock, seed: HashSeed([seed as u8; 16]) };
        let mut values = OptionValues::default();
        values.set("memory_bytes", MEMORY_BYTES);
        for (option, value) in options {
            values.set(option, *value);
        }
        let engine = open(&place, &values, &environment)?;
        let region = place.region(name).expect("the engine made it");
        Ok(Bench { engine: Arc::new(engine), region, size, seed })
    }

    fn key(&self, n: u64) -> Vec<u8> {
        let mut key = Prng::new(self.seed ^ n << 1).next_u64().to_le_bytes().to_vec();
        key.extend_from_slice(&n.to_be_bytes());
        key.truncate(self.size.0);
        key
    }

    /// Puts key number `n`.
    pub(super) fn put(&self, n: u64, version: u64) -> Result<()> {
        let mut value = version.to_le_bytes().to_vec();
        value.resize(self.size.1, n as u8);
        let key = self.key(n);
        self.engine.write(WriteBatch::new().put(&key, &value), Durability::Synced)
    }

    pub(super) fn delete(&self, n: u64) -> Result<()> {
        let key = self.key(n);
        self.engine.write(WriteBatch::new().delete(&key), Durability::Synced)
    }

    pub(super) fn get(&self, n: u64) -> Result<bool> {
        Ok(self.engine.get(&self.key(n))?.is_some())
    }

    /// Reads `entries` entries in order, from key number `n` on; how many there were.
    pub(super) fn range(&self, n: u64, entries: usize) -> Result<usize> {
        let ordered = Arc::clone(&self.engine).as_ordered().expect("an engine with an order");
        let snapshot = ordered.snapshot()?;
        let mut cursor = snapshot.iterate(&KeyRange::from(self.key(n)))?;
        let mut seen = 0;
        let mut is_there = cursor.seek_to_first()?;
        while is_there && seen < entries {
            seen += 1;
            is_there = cursor.next()?;
        }
        Ok(seen)
    }

    /// Media bytes written and read for each of `count` calls of `call`, with background work
    /// after each few thousand of them.
    pub(super) fn media(
        &self,
        count: u64,
        call: impl FnMut(u64) -> Result<()>,
    ) -> Result<(f64, f64)> {
        self.media_behind(CACHE_BYTES, count, call)
    }

    /// Media bytes behind a processor's cache of `cache_bytes`, as [`Bench::media`] has them.
    pub(super) fn media_behind(
        &self,
        cache_bytes: u64,
        count: u64,
        mut call: impl FnMut(u64) -> Result<()>,
    ) -> Result<(f64, f64)> {
        self.region.count_media(cache_bytes);
        for n in 0..count {
            call(n)?;
            if n % 4096 == 4095 {
                self.maintain()?;
            }
        }
        let counts: RegionCounts = self.region.counts();
        let each = |bytes: u64| bytes as f64 / count as f64;
        Ok((each(counts.bytes_written()), each(counts.bytes_read())))
    }

    /// What single calls wait for: lines of the medium that each of `count` calls reads, behind a
    /// processor's cache that holds what one call reads and no more, and its fences.
    pub(super) fn waits(
        &self,
        count: u64,
        mut call: impl FnMut(u64) -> Result<()>,
    ) -> Result<Waits> {
        self.region.count_media(ONE_CALL_BYTES);
        let mut lines = Vec::with_capacity(count as usize);
        let mut before = self.region.counts();
        let fences = before.fences;
        for n in 0..count {
            call(n)?;
            let now = self.region.counts();
            // A line that was written in part is read unless the rest of it is written later.
            lines.push(now.xplines_read.saturating_sub(before.xplines_read));
            before = now;
        }
        lines.sort_unstable();
        Ok(Waits { lines, fences: (before.fences - fences) as f64 / count as f64 })
    }

    /// What the region has counted.
    pub(super) fn counts(&self) -> RegionCounts {
        self.region.counts()
    }

    pub(super) fn maintain(&self) -> Result<()> {
        while self.engine.maintain(silica_engine::Budget::of(1 << 20))?.more {}
        Ok(())
    }

    pub(super) fn metric(&self, name: &str) -> f64 {
        let mut metrics = MetricsMap::default();
        self.engine.metrics(&mut metrics);
        metrics.get(name)
    }
}
