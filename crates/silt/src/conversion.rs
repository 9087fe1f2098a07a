//! Conversion: the oldest frozen log store of a partition becomes its youngest hash store.

use crate::counters::add;
use crate::files::Table;
use crate::ground::Ground;
use crate::hash_store::HashStoreBuilder;
use crate::journal::Journal;
use crate::memory::Memory;
use crate::packed::Layout;
use crate::partition::{Frozen, Version};
use crate::partitions::Partitions;
use crate::position::expand;
use crate::slot::lock_job;
use crate::space::Space;
use silica_base::{Result, prefetch};
use silica_device::{Device, LogFile};
use silica_parts::frame::Frame;
use silica_parts::wal::Segments;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// A conversion under way.
pub(crate) struct Conversion<D: Device> {
    partition: usize,
    frozen: Arc<Frozen>,
    segments: Arc<Segments<D::Log>>,
    log_end: u64,
    builder: HashStoreBuilder<D::File>,
    name: String,
}

/// The bytes of the frame at `at`, which a table points at.
fn frame_bytes<L: LogFile>(segments: &Segments<L>, at: u64) -> Option<&[u8]> {
    let bytes = segments.bytes_from(at)?;
    let (_, len) = Frame::decode(bytes)?;
    Some(&bytes[..len])
}

/// The conversion in hand, and what it works on.
pub(crate) struct Conversions<D: Device> {
    ground: Arc<Ground<D>>,
    journal: Arc<Journal<D>>,
    partitions: Arc<Partitions<D>>,
    memory: Memory<D>,
    space: Arc<Space<D>>,
    slot: Mutex<Option<Conversion<D>>>,
}

impl<D: Device> Conversions<D> {
    pub(crate) fn new(partitions: &Arc<Partitions<D>>, space: &Arc<Space<D>>) -> Self {
        Conversions {
            ground: Arc::clone(&partitions.ground),
            journal: Arc::clone(&partitions.journal),
            partitions: Arc::clone(partitions),
            memory: Memory::new(partitions),
            space: Arc::clone(space),
            slot: Mutex::new(None),
        }
    }

    /// Holds the conversion in hand: none goes on while the guard lives.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Option<Conversion<D>>> {
        self.slot.lock().expect("no panic while held")
    }

    /// Gives up the conversion that is held.
    pub(crate) fn give_up(&self, held: &mut Option<Conversion<D>>) {
        held.take().iter().for_each(|job| self.ground.remove_quietly(&job.name));
        self.space.converting_bytes.store(0, Ordering::Relaxed);
    }

    /// Does a step of the conversion in hand, or begins one; the bytes written, or `None` where
    /// nothing waits.
    pub(crate) fn step(&self, budget_bytes: u64, wait: bool) -> Result<Option<u64>> {
        let Some(mut slot) = lock_job(&self.slot, wait) else { return Ok(None) };
        if slot.is_none() {
            *slot = self.begin()?;
        }
        let Some(job) = slot.as_mut() else { return Ok(None) };
        let before = job.builder.entry_bytes();
        let stepped = job.step(budget_bytes);
        let bytes = job.builder.entry_bytes() - before;
        let in_hand = if matches!(stepped, Ok(false)) { job.builder.bytes_taken() } else { 0 };
        self.space.converting_bytes.store(in_hand, Ordering::Relaxed);
        let result = match stepped {
            Ok(false) => return Ok(Some(bytes)),
            Ok(true) => self.finish(slot.take().expect("the job in hand")),
            Err(error) => {
                let job = slot.take().expect("the job in hand");
                self.ground.remove_quietly(&job.name);
                Err(error)
            }
        };
        result.map(|()| Some(bytes))
    }

    /// Takes the frozen store that holds back the log most.
    fn begin(&self) -> Result<Option<Conversion<D>>> {
        let oldest = |index: usize| Some((self.partitions[index].version(), index));
        let candidates = (0..self.partitions.len()).filter_map(oldest);
        let with_frozen = candidates.filter_map(|(v, i)| v.frozen.last().cloned().map(|f| (f, i)));
        let Some((frozen, partition)) = with_frozen.min_by_key(|(f, _)| f.end) else {
            return Ok(None);
        };
        let (segments, log_end) = (self.journal.log.segments(), self.journal.log.end());
        let layout = Layout::choose(frozen.sizes.bytes_mean(), frozen.sizes.bytes_max);
        let (name, id) = self.ground.new_table(Table::Hash);
        let builder =
            HashStoreBuilder::new(&*self.ground.device, &name, id, layout, self.ground.hasher);
        let builder = builder.inspect_err(|_| self.ground.remove_quietly(&name))?;
        Ok(Some(Conversion { partition, frozen, segments, log_end, builder, name }))
    }

    fn finish(&self, job: Conversion<D>) -> Result<()> {
        // The stores must not know of writes that the log could lose: a batch whose one half is
        // in a store would lose its other half.
        self.journal.sync_log()?;
        let (entries, bytes) = (job.frozen.table.len(), job.builder.entry_bytes());
        let store = job.builder.finish(&job.frozen.table);
        let store = Arc::new(store.inspect_err(|_| self.ground.remove_quietly(&job.name))?);
        let floor = job.frozen.end;
        self.partitions.install(job.partition, |version| {
            let mut next = Version { floor, ..version.clone() };
            next.hash_stores.insert(0, store.clone());
            next
        })?;
        add(&self.ground.metrics.conversions, 1);
        add(&self.ground.metrics.converted_entries, u64::from(entries));
        add(&self.ground.metrics.conversion_bytes, bytes);
        self.memory.drop_indexes();
        Ok(())
    }
}

impl<D: Device> Conversion<D> {
    fn step(&mut self, budget_bytes: u64) -> Result<bool> {
        let (segments, log_end) = (&*self.segments, self.log_end);
        let frame = |short| {
            let bytes = frame_bytes(segments, expand(log_end, short));
            bytes.expect("tables point at whole frames")
        };
        let ahead = |short| {
            if let Some(bytes) = segments.bytes_from(expand(log_end, short)) {
                prefetch(bytes, 0);
                prefetch(bytes, 64);
            }
        };
        self.builder.step(&self.frozen.table, frame, ahead, budget_bytes)
    }
}
