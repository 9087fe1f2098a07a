//! The engine: partitions, and who may write them.

use crate::family::Family;
use crate::index::OFFSET_BITS;
use crate::item::Copied;
use crate::large::Held;
use crate::layout::Layout;
use crate::limits::{VALUE_BYTES_MAX, at_most, too_large};
use crate::options::{Eviction, OPTIONS};
use crate::partition::{Partition, Probe, Rules, bits, refused};
use crate::policy::{AnyPolicy, Policy};
use crate::protocol::Refusal;
use crate::words::Frames;
use silica_base::{Clock, Error, ErrorKind, HashSeed, Result, Striped};
use silica_engine::{
    Admin, Atomic, Budget, Capabilities, Descriptor, Durability, Engine, Environment, GetSink,
    Limits, MetricVisitor, OptionValues, Progress, Scan, Sharded, Stage, StageWatch, Stages,
    WriteBatch,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes of one batch.
const BATCH_BYTES_MAX: usize = 256 << 20;
/// Bytes of a chain and what is looked at of its entries, roughly.
const CHAIN_BYTES: u64 = 512;
/// Pages that are given back while writers wait.
const PAGES_AT_ONCE: usize = 16;
/// Chains that are searched for expired entries while writers wait.
const CHAINS_AT_ONCE: u64 = 256;

/// Gets and hits of bursts, but for those of owners.
#[derive(Debug, Default)]
pub(crate) struct Gets {
    pub(crate) gets: AtomicU64,
    pub(crate) hits: AtomicU64,
}

/// Where an image is left.
pub(crate) trait Home: Send + Sync {
    /// Leaves the image of a keyspace whose partitions the caller has locked. False where it surely
    /// does not have its name.
    fn leave(
        &self,
        mica: &Mica,
        progress: &mut dyn FnMut(u64, u64),
    ) -> std::result::Result<u64, (Error, bool)>;

    /// Takes the name of an image that was left, durably, where there is one.
    fn forget(&self) -> Result<()>;
}

/// A cache in memory, or a store; what it holds goes with the process.
pub struct Mica {
    /// Nothing gives way: a write that does not fit is refused.
    pub(crate) is_store: bool,
    pub(crate) descriptor: Descriptor,
    pub(crate) partitions: Arc<[Partition]>,
    /// Bits of a hash that choose the partition.
    partition_bits: u32,
    frames: Frames,
    pub(crate) seed: HashSeed,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) policy: AnyPolicy,
    pub(crate) memory_bytes: u64,
    pub(crate) gets: Arc<Striped<Gets>>,
    pub(crate) layout: Layout,
    /// Values of more bytes are lists of chunks.
    pub(crate) whole_bytes_max: usize,
    /// Lists that were made: the number of the next.
    pub(crate) lists: Arc<AtomicU64>,
    /// Bits of a slot's offset.
    pub(crate) offset_bits: u32,
    /// Where an image is left at a clean stop.
    pub(crate) home: Option<Arc<dyn Home>>,
    /// Which entries belong to which database, if there may be several.
    pub(crate) family: Option<Arc<Family>>,
}

impl Mica {
    /// An empty cache, or store.
    pub fn open(options: &OptionValues, environment: &Environment) -> Result<Self> {
        Self::open_with(options, environment, OFFSET_BITS, None)
    }

    /// An engine with offsets that begin anew earlier, and with several databases if `family` says
    /// which entries are whose.
    pub(crate) fn open_with(
        options: &OptionValues,
        environment: &Environment,
        offset_bits: u32,
        family: Option<Arc<Family>>,
    ) -> Result<Self> {
        let layout = Layout::new(options)?;
        let value = |name| options.value(OPTIONS, name);
        let eviction = Eviction::new(value("eviction"));
        let is_reserved = value("reserved_pages") != 0;
        let frames = if is_reserved { Frames::Reserved } else { Frames::Advised };
        Ok(Mica {
            is_store: layout.is_store,
            descriptor: descriptor(&layout),
            partitions: new_partitions(&layout, offset_bits, frames, family.as_ref()),
            partition_bits: layout.partitions.ilog2(),
            frames,
            seed: environment.seed,
            clock: Arc::clone(&environment.clock),
            policy: AnyPolicy::new(eviction, layout.log_words),
            memory_bytes: value("memory_bytes"),
            gets: Arc::default(),
            layout,
            whole_bytes_max: layout.whole_bytes_max(),
            lists: Arc::default(),
            offset_bits,
            home: None,
            family,
        })
    }

    /// Forgets everything; of an engine that nobody else has yet.
    pub(crate) fn begin_anew(&mut self, seed: HashSeed) {
        self.seed = seed;
        // First, so that the new ones may have their pages.
        self.partitions = Arc::new([]);
        let family = self.family.as_ref().map(|_| Arc::new(Family::default()));
        let family = family.as_ref();
        self.partitions = new_partitions(&self.layout, self.offset_bits, self.frames, family);
        self.family = family.cloned();
    }

    /// Another handle to the same cache.
    pub(crate) fn share(&self) -> Mica {
        Mica {
            is_store: self.is_store,
            descriptor: self.descriptor,
            partitions: Arc::clone(&self.partitions),
            partition_bits: self.partition_bits,
            frames: self.frames,
            seed: self.seed,
            clock: Arc::clone(&self.clock),
            policy: self.policy,
            memory_bytes: self.memory_bytes,
            gets: Arc::clone(&self.gets),
            layout: self.layout,
            whole_bytes_max: self.whole_bytes_max,
            lists: Arc::clone(&self.lists),
            offset_bits: self.offset_bits,
            home: self.home.clone(),
            family: self.family.clone(),
        }
    }

    /// Where a key with this hash belongs, which must be in partition `number`.
    #[inline(always)]
    pub(crate) fn probe_in(&self, number: usize, hash: u64) -> Result<Probe> {
        let partition = self.partition_of(hash);
        if partition != number {
            return Err(strange(partition, number));
        }
        Ok(self.partitions[number].probe(number as u32, hash))
    }

    /// Where `key` belongs.
    #[inline(always)]
    pub(crate) fn probe(&self, key: &[u8]) -> Probe {
        self.probe_of_hash(self.seed.low(key))
    }

    /// Where a key with this hash belongs.
    #[inline]
    pub(crate) fn probe_of_hash(&self, hash: u64) -> Probe {
        let number = self.partition_of(hash);
        self.partitions[number].probe(number as u32, hash)
    }

    /// The partition where a key with this hash belongs.
    #[inline(always)]
    pub(crate) fn partition_of(&self, hash: u64) -> usize {
        // Rotated, because shifting by 64 bits is not allowed where there is one partition.
        hash.rotate_left(self.partition_bits) as usize & (self.partitions.len() - 1)
    }

    #[inline(always)]
    pub(crate) fn partition(&self, probe: &Probe) -> &Partition {
        &self.partitions[probe.partition as usize]
    }

    #[inline(always)]
    pub(crate) fn rules<P: Policy>(&self, policy: P) -> Rules<'_, P> {
        Rules { policy, clock: &*self.clock, seed: &self.seed }
    }

    /// True where an entry has expired. `now` is asked for at most once a burst.
    #[inline(always)]
    pub(crate) fn has_expired(&self, copied: &Copied, now: &mut Option<u64>) -> bool {
        let expires = copied.expires_unix_ms;
        expires != 0 && expires <= *now.get_or_insert_with(|| self.clock.unix_ms())
    }

    /// Waits until the caller is the only writer of the partitions in `mask`; fails where a shard
    /// owns one.
    pub(crate) fn lock(&self, mask: u64) -> Result<Locked<'_>> {
        self.lock_by(mask, Partition::lock)
    }

    #[inline(always)]
    fn lock_by(
        &self,
        mask: u64,
        lock: impl Fn(&Partition) -> std::result::Result<(), Refusal>,
    ) -> Result<Locked<'_>> {
        let mut locked = Locked { mica: self, mask: 0 };
        // In their order, so that two writers never wait for each other.
        for number in bits(mask) {
            lock(&self.partitions[number]).map_err(|why| refused(number, why))?;
            locked.mask |= 1 << number;
        }
        Ok(locked)
    }

    /// The mask of all partitions.
    pub(crate) fn all(&self) -> u64 {
        u64::MAX >> (64 - self.partitions.len())
    }

    pub(crate) fn lock_all(&self) -> Result<Locked<'_>> {
        self.lock(self.all())
    }

    /// Locks all partitions, also those whose last writer stopped half way.
    pub(crate) fn lock_all_to_clear(&self) -> Result<Locked<'_>> {
        self.lock_by(self.all(), Partition::lock_to_clear)
    }

    /// Says so where something may not have been found because a writer stopped half way.
    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.partitions.iter().position(Partition::is_poisoned) {
            Some(number) => Err(refused(number, Refusal::Poisoned)),
            None => Ok(()),
        }
    }

    /// Removes what has expired, and gives a store's free memory back to the system.
    fn tidy(&self, budget: Budget) -> Progress {
        let mut progress = self.sweep(budget);
        self.tidy_remains(self.all(), Held::NONE);
        if !self.is_store {
            // A cache's writers clean the index as they go.
            return progress;
        }
        for partition in self.partitions.iter().filter(|p| p.store().pages().is_due(true)) {
            let more = partition.try_write(|p| p.give_back_pages(PAGES_AT_ONCE));
            progress.more |= more == Some(true);
        }
        progress
    }

    /// Goes on with removing what has expired.
    fn sweep(&self, budget: Budget) -> Progress {
        let now_ms = self.clock.unix_ms();
        let chains = (budget.bytes / CHAIN_BYTES).clamp(1, CHAINS_AT_ONCE) as usize;
        let mut progress = Progress::default();
        for partition in self.partitions.iter().filter(|p| p.expiry().is_due(|| now_ms)) {
            if progress.bytes >= budget.bytes.max(1) {
                progress.more = true;
                break;
            }
            // Whoever has it sees to it, or does not expire anything just now.
            if let Some(more) = partition.try_write(|p| p.sweep(chains, now_ms)) {
                progress.more |= more;
                progress.bytes += CHAIN_BYTES * chains as u64;
            }
        }
        progress
    }

    /// Refuses what is over a limit.
    #[inline]
    pub(crate) fn check(&self, key: usize, value: usize) -> Result<()> {
        let limits = &self.descriptor.limits;
        at_most(key, limits.key_bytes_max, "key")?;
        if value <= limits.value_bytes_max { Ok(()) } else { Err(self.refuse_value(value)) }
    }

    #[cold]
    fn refuse_value(&self, bytes: usize) -> Error {
        let max = self.descriptor.limits.value_bytes_max;
        let error = too_large(bytes, max, "value");
        if max == VALUE_BYTES_MAX {
            return error;
        }
        let memory = self.memory_bytes;
        error.within(format!("a cache with memory_bytes of more than {memory} takes larger values"))
    }
}

fn new_partitions(
    layout: &Layout,
    offset_bits: u32,
    frames: Frames,
    family: Option<&Arc<Family>>,
) -> Arc<[Partition]> {
    let new = |_| Partition::new(layout, offset_bits, frames, family);
    (0..layout.partitions).map(new).collect()
}

fn descriptor(layout: &Layout) -> Descriptor {
    let (key_bytes_max, value_bytes_max) = layout.limits();
    Descriptor {
        name: "mica",
        capabilities: Capabilities {
            durable: false,
            synced: false,
            kept_at_close: false,
            may_wait: false,
            scan: true,
            ordered: false,
            atomic: true,
            admin: true,
            may_evict: !layout.is_store,
        },
        limits: Limits { key_bytes_max, value_bytes_max, batch_bytes_max: BATCH_BYTES_MAX },
    }
}

#[cold]
fn strange(partition: usize, number: usize) -> Error {
    let message = format!(
        "a key of partition {partition} came to the shard of partition {number}; ask shard_of"
    );
    Error::new(ErrorKind::Config, message)
}

/// Partitions that are the caller's to write until this is dropped.
pub(crate) struct Locked<'m> {
    mica: &'m Mica,
    pub(crate) mask: u64,
}

impl Locked<'_> {
    /// Nobody writes the partitions any more.
    pub(crate) fn close(self) {
        bits(self.mask).for_each(|number| self.mica.partitions[number].close());
        std::mem::forget(self);
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        bits(self.mask).for_each(|n| self.mica.partitions[n].unlock());
    }
}

impl Engine for Mica {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let hits = self.read_burst(keys, sink);
        if self.is_store && hits < keys.len() as u64 { self.check_poison() } else { Ok(()) }
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        // Nothing else is asked.
        stages.enter(Stage::Memory);
        self.get_many(keys, sink)
    }

    fn reports_in_order(&self) -> bool {
        true
    }

    fn write(&self, batch: &WriteBatch<'_>, _durability: Durability) -> Result<()> {
        self.apply(batch.ops(), BATCH_BYTES_MAX)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        Ok(self.tidy(budget))
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.report_metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        let _locked = self.lock_all()?;
        let probe = |key: &[u8]| self.probe(key);
        self.partitions.iter().enumerate().try_for_each(|(n, p)| p.verify(n, probe))
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_sharded(&self) -> Option<&dyn Sharded> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}
