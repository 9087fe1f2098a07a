//! Opening a store: manifest → tables → the log's records back into the memtables.

use crate::bucket::{Bucket, LogEntries, Stores, Version};
use crate::buckets::Buckets;
use crate::changes;
use crate::contents::Contents;
use crate::deleted::DeletedRange;
use crate::memory::BUFFERS_PART;
use crate::metrics::Metrics;
use crate::names::{table_id, table_name, table_number};
use crate::options::Config;
use crate::run::{Numbered, Part};
use crate::snapshot_set::SnapshotSet;
use crate::state::{BucketState, MAKER, PartState, StoreState};
use crate::tables::TableSet;
use crate::wip::Wip;
use crate::write::superseded;
use crate::write_gate::WriteGate;
use crate::writer::{NewEntry, Writer};
use arc_swap::ArcSwap;
use silica_base::{Error, HashSeed, Result};
use silica_device::Device;
use silica_engine::{Environment, INGESTED, OptionValues};
use silica_parts::Room;
use silica_parts::frame::{Frame, RANGE};
use silica_parts::manifest::{Book, Manifest};
use silica_parts::store_log::StoreLog;
use silica_parts::table::Table;
use silica_parts::value_log::{self, ValueLog};
use silica_parts::wal::{self, Appender, POSITION_BYTES, Segment, Wal};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Entries of the log that are inserted together, once the memory where they go was asked for.
const COMING_MAX: usize = 32;

/// Entries of the log that go into memtables next.
struct Coming<D: Device> {
    /// Nobody splits or joins them meanwhile.
    buckets: Arc<Buckets<D>>,
    positions: Vec<u64>,
}

type Tables<D> = BTreeMap<u64, Numbered<D>>;

impl<D: Device> Wip<D> {
    /// Opens the store on `device`, creating it where there is none.
    pub fn open(device: D, options: &OptionValues, environment: &Environment) -> Result<Self> {
        Self::open_shared(Arc::new(device), options, environment)
    }

    pub(crate) fn open_shared(
        device: Arc<D>,
        options: &OptionValues,
        environment: &Environment,
    ) -> Result<Self> {
        let config = Config::new(options);
        let room = Room::of(&*device, config.room_enough())?;
        let config = config.within(room, options);
        let memory = config.memory_bytes;
        let (book, is_newest) = open_book(&device, environment.seed, config.first_buckets)?;
        let state = book.state();
        let next_file = remove_orphans(&*device, state)?;
        let (store_id, seed) = (state.store_id, state.seed);
        let segments = wal::open_segments(&*device, store_id, &state.log_segments)?;
        let log_end = segments.last().map_or(0, |s| s.end());
        let next_segment = state.log_segments.last().map_or(1, |n| n + 1);
        let buckets = open_buckets(&*device, state, memory)?;
        let value_segment_bytes = config.value_log_segment_bytes;
        let values = ValueLog::open(device.clone(), store_id, value_segment_bytes, &state.values)?;
        let changes = changes::ring(config.changes_bytes_max);
        let config = Arc::new(config);
        let id = (store_id, seed);
        let buffers_bytes = memory / BUFFERS_PART;
        let tables = TableSet::new(device.clone(), config.clone(), id, next_file, buffers_bytes);
        let segment_bytes = config.segment_bytes(memory);
        let log = Wal::new(device.clone(), store_id, segment_bytes, segments, log_end);
        let contents = Contents {
            journal: StoreLog::new(log, values, book),
            buckets: ArcSwap::from_pointee(buckets),
            install: Mutex::new(()),
            writer: WriteGate::new(Writer::new(Appender::new(1, next_segment))),
            tables,
            snapshots: SnapshotSet::new(environment.clock.clone()),
            metrics: Metrics::default(),
            changes,
            pending_history: Mutex::default(),
            has_old_manifest: AtomicBool::new(!is_newest),
            clock: environment.clock.clone(),
            seed,
            config,
            device,
        };
        let store = Wip::new(contents, memory);
        store.replay()?;
        store.rest_log();
        let tables: u64 = store.buckets().iter().map(|b| b.read().version.bytes()).sum();
        let found = tables + store.metrics.unflushed_bytes();
        store.found_bytes.store(found, Ordering::Relaxed);
        store.share_memory(true);
        store.space_context().look(0);
        Ok(store)
    }

    /// Puts the log's records back into the memtables.
    fn replay(&self) -> Result<()> {
        let durable_end = self.with_state(|state| state.durable_end);
        let list: Vec<_> = self.log.segments().iter().cloned().collect();
        let mut coming = Coming { buckets: self.buckets(), positions: Vec::new() };
        let visit = &mut |at: u64, payload: &[u8]| self.replay_record(at, payload, &mut coming);
        let cut = self.find_lost_value(&list, durable_end)?;
        let recovered = wal::replay(&*self.device, &list, cut, durable_end, visit)?;
        self.insert_all(&mut coming);
        self.log.set_recovered(recovered.next_sequence - 1, recovered.end);
        let mut writer = self.writer.lock();
        writer.appender.next_sequence = recovered.next_sequence;
        drop(writer);
        // What is not in the log any more is in tables, durably.
        let end = recovered.end.max(list.first().map_or(0, |first| first.start));
        // Before the log goes on.
        let histories = self.join_histories(end)?;
        if cut.is_some() {
            self.seal_cut()?;
        }
        histories.map_or(Ok(()), |histories| self.resume_changes(histories, end))
    }

    /// The sequence number of the first record that a power cut left without its values.
    fn find_lost_value(
        &self,
        list: &[Arc<Segment<D::Log>>],
        durable_end: u64,
    ) -> Result<Option<u64>> {
        let buckets = self.buckets();
        let is_wanted = |frame: &Frame<'_>, at: u64| {
            at / POSITION_BYTES >= buckets.of(frame.key).read().version.floor
        };
        self.values.find_lost(list, durable_end, &is_wanted)
    }

    /// Makes a cut that only the values told of lasting: the sequence number of a new segment
    /// says from now on where it is.
    fn seal_cut(&self) -> Result<()> {
        let mut writer = self.writer.lock();
        let register = |number| self.register_segment(number);
        self.log.append(&mut writer.appender, &mut vec![0; wal::RECORD_ROOM_BYTES], &register)?;
        drop(writer);
        self.sync_log()
    }

    /// Has the entries of a record inserted, some of them later: those `coming`.
    fn replay_record(&self, at: u64, payload: &[u8], coming: &mut Coming<D>) -> Result<()> {
        let damaged = || Error::corruption("the log", at, "a record holds what is no entry");
        // Most records have one entry.
        if let Some((frame, len)) = Frame::decode(payload)
            && len.next_multiple_of(POSITION_BYTES as usize) >= payload.len()
        {
            self.replay_entry(&frame, at / POSITION_BYTES, coming);
            return Ok(());
        }
        let found: Option<Vec<_>> = wal::frames(payload).collect();
        let found = found.ok_or_else(damaged)?;
        // Of a key that a batch writes twice only the last one counts.
        let superseded = superseded(found.len(), |i| found[i].1.key);
        for (i, (offset, frame)) in found.iter().enumerate() {
            if superseded.binary_search(&i).is_err() {
                self.replay_entry(frame, (at + *offset as u64) / POSITION_BYTES, coming);
            }
        }
        Ok(())
    }

    /// Has an entry inserted with those `coming`, unless a table has it.
    #[inline]
    fn replay_entry(&self, frame: &Frame<'_>, position: u64, coming: &mut Coming<D>) {
        if frame.flags & RANGE != 0 {
            self.insert_all(coming);
            self.replay_range(frame, position);
            return;
        }
        let stores = coming.buckets.of(frame.key).read();
        if position < stores.version.floor {
            return;
        }
        stores.prefetch_active(self.seed.low(frame.key));
        drop(stores);
        coming.positions.push(position);
        if coming.positions.len() == COMING_MAX {
            self.insert_all(coming);
        }
    }

    /// Inserts the entries `coming`, in their order: their places in memory are on the way.
    fn insert_all(&self, coming: &mut Coming<D>) {
        let segments = self.log.segments();
        let entries = LogEntries(&segments);
        for position in coming.positions.drain(..) {
            let frame = entries.frame(position);
            let hash = self.seed.low(frame.key);
            self.insert(coming.buckets.of(frame.key), &NewEntry { frame, position, hash }, true);
        }
    }

    fn replay_range(&self, frame: &Frame<'_>, position: u64) {
        let range = DeletedRange::of(frame, position);
        self.insert_range(&range, |version| position >= version.floor);
    }
}

/// Opens or creates the manifest; true if its snapshot is of the newest version.
fn open_book<D: Device>(
    device: &Arc<D>,
    seed: HashSeed,
    first_buckets: usize,
) -> Result<(Book<D, StoreState>, bool)> {
    match Manifest::open(device.clone(), MAKER)? {
        Some(opened) => {
            let state = StoreState::decode(&opened.snapshot)?;
            let is_newest = StoreState::is_newest(&opened.snapshot);
            Ok((Book::open(opened, state)?, is_newest))
        }
        None => {
            let id = seed.hash(b"store id").high();
            let state = StoreState::with_buckets(id, seed, first_buckets as u64);
            Ok((Book::create(device.clone(), MAKER, state)?, true))
        }
    }
}

/// Removes files that the manifest does not name (left by a crash); the next free file number.
fn remove_orphans<D: Device>(device: &D, state: &StoreState) -> Result<u64> {
    let (mut next, tables) = (state.next_table, state.tables());
    for name in device.list()? {
        let orphan = if let Some(number) = table_number(&name) {
            next = next.max(number + 1);
            !tables.contains(&number)
        } else if let Some(number) = wal::number_of(&name) {
            !state.log_segments.contains(&number)
        } else if wal::is_spare(&name) {
            true
        } else if let Some(number) = value_log::number_of(&name) {
            !state.values.segments.contains(&number)
        } else {
            // Of an ingest that did not come to its end.
            name.starts_with(INGESTED)
        };
        if orphan {
            device.remove(&name)?;
        }
    }
    Ok(next)
}

/// Opens all tables, with filters as long as these fit into the memory: which of them stay is
/// decided when memory is shared, but those of all tables may be many times as large.
fn open_buckets<D: Device>(
    device: &D,
    state: &StoreState,
    memory_bytes: u64,
) -> Result<Buckets<D>> {
    let (mut tables, ingested) = (Tables::new(), state.ingested());
    let mut filter_bytes = 0;
    for number in state.tables() {
        let (id, name) = (table_id(state.store_id, number), table_name(number));
        let table = Table::open_with(device, &name, id, filter_bytes < memory_bytes / 2)?;
        filter_bytes += table.loaded_filter_bytes() as u64;
        let mut table = Numbered::new(number, table);
        if let Some(sequence) = ingested.get(&number) {
            table = table.ingested(*sequence)?;
        }
        tables.insert(number, table);
    }
    let list = state.buckets.iter().map(|(lower, bucket)| {
        let stores = Stores::new(Arc::new(version(bucket, &tables)));
        Arc::new(Bucket::new(lower.clone(), stores))
    });
    Ok(Buckets::new(list.collect()))
}

fn version<D: Device>(bucket: &BucketState, tables: &Tables<D>) -> Version<D> {
    let part = |part: &PartState| {
        let (lower, upper) = (part.lower.clone(), part.upper.clone());
        Part::new(tables[&part.table].clone(), lower, upper, part.level, part.dead_bytes)
    };
    let run = |run: &Vec<PartState>| run.iter().map(part).collect();
    let deleted = bucket.deleted.iter().cloned().map(Arc::new).collect();
    Version::new(bucket.runs.iter().map(run).collect(), bucket.floor, deleted)
}
