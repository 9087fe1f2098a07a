//! The cache: its parts, and the engine's boundary.

use crate::flash::Flash;
use crate::index::Index;
use crate::item::{self, Seal};
use crate::journal::{Journal, Record};
use crate::layout::{Layout, Place};
use crate::metrics::Counts;
use crate::options::{Collection, OPTIONS};
use crate::provision::Provision;
use crate::slab::{self, SUMMED_BYTES_MAX};
use crate::slabs::Slabs;
use crate::streams::{Streams, too_large};
use silica_base::{Clock, Error, ErrorKind, HashSeed, Result};
use silica_device::Device;
use silica_engine::{
    Admin, Atomic, Budget, Capabilities, Descriptor, Durability, Engine, Environment, GetSink,
    Intent, Limits, MetricVisitor, OptionValues, Progress, Scan, WriteBatch,
};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Longest key; less if blocks are small.
pub const KEY_BYTES_MAX: usize = (1 << 16) - 1;
/// Longest value; less if blocks are small.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Places in memory that a batch cannot have: one for each stream.
const PLACES_KEPT: u32 = 3;

/// What an opening has to know of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Startup {
    /// A number that is another one each time that the machine is started. What was not synced
    /// is believed only if it is the one of the last opening.
    pub boot: u64,
}

/// A cache on flash. `F` has its slabs, `D` the log files of what is not on flash yet.
pub struct Dida<F: Flash, D: Device> {
    pub(crate) flash: F,
    pub(crate) files: D,
    pub(crate) descriptor: Descriptor,
    pub(crate) layout: Layout,
    pub(crate) index: Index,
    pub(crate) slabs: Slabs,
    pub(crate) streams: Streams<D::Log>,
    pub(crate) journal: Journal<D>,
    pub(crate) provision: Provision,
    pub(crate) counts: Counts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: HashSeed,
    pub(crate) store: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) collection: Collection,
    /// Erases of a block on average between two levellings of wear; 0 for never.
    pub(crate) wear_period: u64,
    pub(crate) wear_percent: u64,
    /// Acknowledged calls hold after a loss of power, too.
    pub(crate) outlives_power: bool,
    pub(crate) next_sequence: AtomicU64,
    /// Slabs begun before this are cleared.
    pub(crate) cleared_before: AtomicU64,
    /// Held while a slab that was written takes its place, and while everything is cleared.
    pub(crate) placing: Mutex<()>,
    /// Slabs written since the cache was opened.
    tick: AtomicU32,
    /// The blocks of the newest checkpoint. Held while one is made.
    pub(crate) checkpoint: Mutex<Vec<u32>>,
    /// Erases of all blocks when wear was levelled last.
    pub(crate) levelled_at: AtomicU64,
    /// Slabs in blocks that were erased seldom, by number and sequence, which are to be collected.
    pub(crate) cold_blocks: Mutex<Vec<(u32, u64)>>,
    pub(crate) is_closed: AtomicBool,
    pub(crate) has_warned_of_no_block: AtomicBool,
}

/// Parts that recovery makes.
pub(crate) struct Begun<D: Device> {
    pub(crate) seed: HashSeed,
    pub(crate) store: u64,
    pub(crate) next_sequence: u64,
    pub(crate) next_file: u64,
    pub(crate) journal: Journal<D>,
}

impl<F: Flash, D: Device> Dida<F, D> {
    pub(crate) fn with(
        flash: F,
        files: D,
        layout: Layout,
        options: &OptionValues,
        environment: &Environment,
        begun: Begun<D>,
    ) -> Self {
        let value = |name| options.value(OPTIONS, name);
        let Begun { seed, store, next_sequence, next_file, journal } = begun;
        Dida {
            descriptor: descriptor(&layout),
            index: Index::new(&layout),
            slabs: Slabs::new(layout.slab_numbers),
            streams: Streams::new(layout.memory_slabs, next_file),
            journal,
            provision: Provision::new(value("over_provisioning"), layout.shape.slabs),
            counts: Counts::default(),
            clock: Arc::clone(&environment.clock),
            seed,
            store,
            memory_bytes: value("memory_bytes"),
            collection: Collection::new(value("collection")),
            wear_period: value("wear_period"),
            wear_percent: value("wear_percent"),
            outlives_power: value("after_power_loss") != 0,
            next_sequence: AtomicU64::new(next_sequence),
            cleared_before: AtomicU64::new(0),
            placing: Mutex::new(()),
            tick: AtomicU32::new(1),
            checkpoint: Mutex::new(Vec::new()),
            levelled_at: AtomicU64::new(0),
            cold_blocks: Mutex::new(Vec::new()),
            is_closed: AtomicBool::new(false),
            has_warned_of_no_block: AtomicBool::new(false),
            flash,
            files,
            layout,
        }
    }

    /// The flash below.
    pub fn flash(&self) -> &F {
        &self.flash
    }

    #[inline]
    pub(crate) fn seal(&self, sequence: u64) -> Seal {
        slab::seal(self.store, sequence, self.layout.shape.slab_bytes())
    }

    #[inline]
    pub(crate) fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    pub(crate) fn next_tick(&self) -> u32 {
        self.tick.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn is_cleared(&self, sequence: u64) -> bool {
        sequence < self.cleared_before.load(Ordering::Acquire)
    }

    /// Appends to the journal.
    pub(crate) fn record(&self, records: &[Record]) -> Result<()> {
        let sequence = self.next_sequence.load(Ordering::Relaxed);
        self.journal.append(&self.files, sequence, records)
    }

    /// The record of an item that is no longer current.
    pub(crate) fn dead(&self, place: Place) -> Record {
        let sequence = self.slabs.get(place.slab).sequence.load(Ordering::Relaxed);
        Record::Dead { sequence, offset: place.offset }
    }

    /// One item of this slab fewer is alive.
    pub(crate) fn bury(&self, place: Place) {
        self.slabs.get(place.slab).live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the entry with this hash out of the index if it is still at this place, which is
    /// given up with all its slab. True if it was.
    pub(crate) fn evict(&self, hash: u64, slab: u32, offset: u32) -> bool {
        let _guard = self.index.lock(self.layout.bucket(hash));
        let place = Place { slab, offset };
        let Some(found) = self.index.find_at(&self.layout, hash, place) else { return false };
        self.index.store(found.at, 0);
        self.bury(place);
        self.counts.evicted_with_slabs.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Refuses what is over a limit.
    pub(crate) fn check(&self, key: usize, value: usize) -> Result<()> {
        let limits = &self.descriptor.limits;
        if key > limits.key_bytes_max {
            return Err(too_large(key, limits.key_bytes_max, "key"));
        }
        if value > limits.value_bytes_max {
            return Err(too_large(value, limits.value_bytes_max, "value"));
        }
        Ok(())
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed, "the flash cache is closed; open it again"));
        }
        Ok(())
    }
}

fn descriptor(layout: &Layout) -> Descriptor {
    let room = layout.slab_room() - SUMMED_BYTES_MAX - item::ITEM_HEADER_MAX - 64;
    let key_bytes_max = KEY_BYTES_MAX.min(room / 4);
    let value_bytes_max = VALUE_BYTES_MAX.min(room - key_bytes_max);
    let batch_slabs = (layout.memory_slabs - PLACES_KEPT) as usize;
    Descriptor {
        name: "dida",
        capabilities: Capabilities {
            durable: false,
            synced: false,
            kept_at_close: true,
            may_wait: true,
            scan: true,
            ordered: false,
            atomic: true,
            admin: true,
            may_evict: true,
        },
        limits: Limits { key_bytes_max, value_bytes_max, batch_bytes_max: batch_slabs * room / 2 },
    }
}

impl<F: Flash, D: Device> Engine for Dida<F, D> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.read_burst(keys, sink, None)
    }

    /// Counted as a read only if somebody waits, so that the hit ratio is that of users.
    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        match intent {
            Intent::Foreground => self.get_many(keys, sink),
            Intent::Scan | Intent::Background => self.look_up(keys, sink, None).map(drop),
        }
    }

    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        self.read_burst(keys, sink, Some(left))
    }

    fn write(&self, batch: &WriteBatch<'_>, _durability: Durability) -> Result<()> {
        self.apply(batch.ops())
    }

    fn sync(&self) -> Result<()> {
        self.journal.sync()?;
        self.flash.sync()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.work(budget)
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.report_metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        self.check_everything()
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
