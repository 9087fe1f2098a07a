//! Merge: all hash stores of a partition and its sorted store become one new sorted store.

use crate::counters::add;
use crate::files::Table;
use crate::ground::Ground;
use crate::journal::Journal;
use crate::memory::Memory;
use crate::merge::{EntryStream, MergeStream};
use crate::packed::Layout;
use crate::partition::Version;
use crate::partitions::Partitions;
use crate::slot::lock_job;
use crate::sorted_store::{IndexKind, SortedStoreBuilder, SortedStoreOptions};
use crate::space::Space;
use crate::store_stream::StoreStream;
use silica_base::{KeyHash, Result};
use silica_device::Device;
use silica_parts::frame::Frame;
use silica_parts::value_log::Garbage;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// A merge under way.
pub(crate) struct MergeJob<D: Device> {
    partition: usize,
    /// The version whose hash stores and sorted store are merged.
    inputs: Arc<Version<D>>,
    stream: MergeStream<StoreStream<D::File>>,
    builder: SortedStoreBuilder<D::File>,
    name: String,
    /// Values that nothing points to once the merge is in place.
    dead_values: Vec<Vec<u8>>,
    /// Entries so far that had expired.
    expired: u64,
}

/// The merge in hand, and what it works on.
pub(crate) struct Merges<D: Device> {
    ground: Arc<Ground<D>>,
    journal: Arc<Journal<D>>,
    partitions: Arc<Partitions<D>>,
    memory: Memory<D>,
    space: Arc<Space<D>>,
    slot: Mutex<Option<MergeJob<D>>>,
}

impl<D: Device> Merges<D> {
    pub(crate) fn new(partitions: &Arc<Partitions<D>>, space: &Arc<Space<D>>) -> Self {
        Merges {
            ground: Arc::clone(&partitions.ground),
            journal: Arc::clone(&partitions.journal),
            partitions: Arc::clone(partitions),
            memory: Memory::new(partitions),
            space: Arc::clone(space),
            slot: Mutex::new(None),
        }
    }

    /// Holds the merge in hand: none goes on while the guard lives.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Option<MergeJob<D>>> {
        self.slot.lock().expect("no panic while held")
    }

    /// Gives up the merge that is held.
    pub(crate) fn give_up(&self, held: &mut Option<MergeJob<D>>) {
        held.take().iter().for_each(|job| self.ground.remove_quietly(&job.name));
        self.space.merging_bytes.store(0, Ordering::Relaxed);
    }

    /// Does a step of the merge in hand, or begins that of the partition where one is `due`; the
    /// bytes written, or `None` if there is none.
    pub(crate) fn step(&self, budget: u64, due: Option<usize>, wait: bool) -> Result<Option<u64>> {
        let Some(mut slot) = lock_job(&self.slot, wait) else { return Ok(None) };
        if slot.is_none() {
            let Some(partition) = due else { return Ok(None) };
            *slot = self.begin(partition)?;
        }
        let Some(job) = slot.as_mut() else { return Ok(None) };
        let before = job.builder.entry_bytes();
        let stepped = self.push_entries(job, budget);
        let bytes = job.builder.entry_bytes() - before;
        let in_hand = if matches!(stepped, Ok(false)) { job.builder.bytes_taken() } else { 0 };
        self.space.merging_bytes.store(in_hand, Ordering::Relaxed);
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

    fn begin(&self, partition: usize) -> Result<Option<MergeJob<D>>> {
        let inputs = self.partitions[partition].version();
        let expired = inputs.expired_at(self.ground.clock.unix_ms());
        if inputs.hash_stores.is_empty() && expired.bytes() == 0 {
            return Ok(None);
        }
        let stream = MergeStream::new(self.partitions.store_streams(
            &inputs,
            KeyHash(0),
            self.memory.merge_read_ahead(&inputs),
        )?);
        let (name, id) = self.ground.new_table(Table::Sorted);
        let builder = SortedStoreBuilder::new(
            &*self.ground.device,
            &name,
            id,
            self.ground.hasher,
            self.sorted_store_options(&inputs),
        );
        let builder = builder.inspect_err(|_| self.ground.remove_quietly(&name))?;
        let (dead_values, expired) = (Vec::new(), 0);
        Ok(Some(MergeJob { partition, inputs, stream, builder, name, dead_values, expired }))
    }

    fn sorted_store_options(&self, inputs: &Version<D>) -> SortedStoreOptions {
        let hash = inputs.hash_stores.iter().map(|h| h.footer());
        let footers = hash.chain(inputs.sorted_store.iter().map(|s| s.footer()));
        let (mut entries, mut bytes, mut equal) = (0, 0, None);
        for footer in footers {
            entries += footer.entries;
            bytes += footer.entry_bytes;
            let before = *equal.get_or_insert(footer.entry_bytes_equal);
            equal = Some(if before == footer.entry_bytes_equal { before } else { 0 });
        }
        let mean = bytes / entries.max(1);
        let max = if equal.unwrap_or(0) > 0 { mean } else { 2 * mean };
        SortedStoreOptions {
            partition_bits: self.ground.config.partition_bits,
            params: self.ground.config.ect,
            index_kind: match self.ground.config.sorted_index {
                1 => IndexKind::Sparse,
                2 => IndexKind::Dense,
                _ => IndexKind::Auto,
            },
            filter_bits: self.memory.miss_filter_bits(),
            layout: Layout::choose(mean, max),
            entries_expected: entries,
            bytes_expected: bytes,
        }
    }

    /// Merges about `budget` bytes; true at the end.
    fn push_entries(&self, job: &mut MergeJob<D>, budget: u64) -> Result<bool> {
        let dead = &mut job.dead_values;
        let mut on_dropped = |frame: &Frame<'_>| {
            if frame.is_pointer() {
                dead.push(frame.value.to_vec());
            }
        };
        let end = job.builder.entry_bytes() + budget.max(1);
        // Dropped entries cost reads too, so steps are bounded by entries seen as well.
        let mut looks = budget / 16 + 16;
        while job.builder.entry_bytes() < end && looks > 0 {
            looks -= 1;
            if !job.stream.advance_with(&mut on_dropped)? {
                return Ok(true);
            }
            let frame = job.stream.frame();
            let expired = self.ground.is_expired(&frame);
            if expired || frame.is_tombstone() {
                job.expired += u64::from(expired);
                on_dropped(&frame);
                continue;
            }
            job.builder.push(job.stream.hash(), job.stream.frame_bytes())?;
        }
        Ok(false)
    }

    fn finish(&self, job: MergeJob<D>) -> Result<()> {
        let (entries, bytes) = (job.builder.entries(), job.builder.entry_bytes());
        let store = if entries == 0 {
            drop(job.builder);
            self.ground.remove_quietly(&job.name);
            None
        } else {
            let store =
                job.builder.finish().inspect_err(|_| self.ground.remove_quietly(&job.name))?;
            Some(Arc::new(store))
        };
        self.partitions.install(job.partition, |version| {
            let mut next = version.clone();
            // Hash stores that came since are the youngest: they stand in front.
            let kept = next.hash_stores.len() - job.inputs.hash_stores.len();
            next.hash_stores.truncate(kept);
            next.sorted_store = store.clone();
            next
        })?;
        self.partitions.discard(&job.inputs);
        if !job.dead_values.is_empty() {
            job.dead_values.iter().for_each(|pointer| self.journal.values.note_dead_at(pointer));
            // So that it is known after the next open. One edit, since each is a sync.
            let garbage = self.journal.garbage_edit(&Garbage::default());
            garbage.map_or(Ok(()), |edit| self.journal.edit(&[edit]))?;
        }
        add(&self.ground.metrics.merges, 1);
        add(&self.ground.metrics.merged_entries, entries);
        add(&self.ground.metrics.merge_bytes, bytes);
        self.partitions.learn_growth(&job.inputs, entries + job.expired);
        self.memory.drop_indexes();
        Ok(())
    }
}
