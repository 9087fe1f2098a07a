//! Opening a store: manifest → files → the log's records back into the tables.

use crate::Hasher;
use crate::files::{Table, table_id, table_name, table_number};
use crate::ground::Ground;
use crate::hash_store::HashStore;
use crate::jobs::Jobs;
use crate::journal::{Book, Journal};
use crate::memory::Memory;
use crate::options::Config;
use crate::partition::{NewFrame, Partition, Version};
use crate::partitions::Partitions;
use crate::shape::first_table;
use crate::silt::{DESCRIPTOR, Silt};
use crate::sorted_store::SortedStore;
use crate::space::Space;
use crate::state::{Edit, PartitionState, StoreState};
use crate::write::Writer;
use silica_base::{Error, HashSeed, KeyHash, Result};
use silica_device::Device;
use silica_engine::{Environment, OptionValues};
use silica_parts::Room;
use silica_parts::frame::{Frame, RANGE};
use silica_parts::manifest::Manifest;
use silica_parts::value_log::{self, ValueLog};
use silica_parts::wal::{self, Appender, Wal};
use std::sync::{Arc, Mutex};

impl<D: Device> Silt<D> {
    /// Opens the store on `device`, or creates one where the device is empty.
    ///
    /// Reads the manifest, the footers of all tables and the live log. Indexes are loaded later,
    /// by maintenance: lookups work at once.
    pub fn open(device: D, options: &OptionValues, environment: &Environment) -> Result<Self> {
        Self::open_with(device, options, environment, None)
    }

    /// As [`Silt::open`], with `hasher` in place of the seeded hash: for tests that need keys of
    /// equal hashes.
    #[doc(hidden)]
    pub fn open_with(
        device: D,
        options: &OptionValues,
        environment: &Environment,
        hasher: Option<Hasher>,
    ) -> Result<Self> {
        Self::open_shared(Arc::new(device), options, environment, hasher)
    }

    pub(crate) fn open_shared(
        device: Arc<D>,
        options: &OptionValues,
        environment: &Environment,
        hasher: Option<Hasher>,
    ) -> Result<Self> {
        let (book, config) = open_book(&device, options, environment.seed)?;
        let room = Room::of(&*device, config.room_enough())?;
        let config = config.within(room, options);
        let state = &book.state;
        let hasher = hasher.unwrap_or_else(|| state.seed.into());
        let next_file = remove_orphans(&*device, state)?;
        let segments = wal::open_segments(&*device, state.store_id, &state.log_segments)?;
        let log_end = segments.last().map_or(0, |s| s.end());
        let partitions = state.partitions.iter().enumerate();
        let partitions = partitions
            .map(|(index, p)| open_partition(&*device, state, &config, hasher, index, p))
            .collect::<Result<Vec<_>>>()?;
        let value_segment_bytes = config.value_log_segment_bytes;
        let values =
            ValueLog::open(device.clone(), state.store_id, value_segment_bytes, &state.values)?;
        let next_segment = state.log_segments.last().map_or(1, |n| n + 1);
        let store_id = state.store_id;
        let clock = environment.clock.clone();
        let ground = Ground::new(device.clone(), clock, hasher, store_id, config, next_file);
        let ground = Arc::new(ground);
        let log = Wal::new(device, store_id, ground.segment_bytes(), segments, log_end);
        let journal = Arc::new(Journal::new(Arc::clone(&ground), log, values, book));
        let (over, journaled) = (Arc::clone(&ground), Arc::clone(&journal));
        let partitions = Arc::new(Partitions::new(over, journaled, partitions));
        let store = Silt {
            descriptor: DESCRIPTOR,
            memory: Memory::new(&partitions),
            space: Space::new(&partitions),
            writer: Mutex::new(Writer::new(Appender::new(1, next_segment))),
            jobs: Jobs::new(),
            ground,
            journal,
            partitions,
        };
        store.replay()?;
        store.space.look_at_space(0);
        Ok(store)
    }

    /// Puts the log's records back into the tables.
    fn replay(&self) -> Result<()> {
        let durable_end = self.journal.book.lock().expect("no panic while held").state.durable_end;
        let segments = self.journal.log.segments();
        let mut burst = Burst::new();
        let list: Vec<_> = segments.iter().cloned().collect();
        let is_wanted = |frame: &Frame<'_>, at| {
            at >= self.partitions.partition_of(self.ground.hash(frame.key)).read().version.floor
        };
        let cut = self.journal.values.find_lost(&list, durable_end, &is_wanted)?;
        let recovered =
            wal::replay(&*self.ground.device, &list, cut, durable_end, &mut |at, payload| {
                self.replay_record(at, payload, &mut burst)
            })?;
        self.replay_burst(&mut burst)?;
        let next_sequence = recovered.next_sequence;
        self.journal.log.set_recovered(next_sequence - 1, recovered.end);
        let mut writer = self.writer.lock().expect("no panic while held");
        writer.appender.next_sequence = next_sequence;
        drop(writer);
        if cut.is_some() { self.seal_cut() } else { Ok(()) }
    }

    /// Makes a cut that only the values told of lasting: the sequence number of a new segment
    /// says from now on where it is.
    fn seal_cut(&self) -> Result<()> {
        let mut writer = self.writer.lock().expect("no panic while held");
        let register = |number| self.journal.edit(&[Edit::LogSegment(number)]);
        self.journal.log.append(
            &mut writer.appender,
            &mut vec![0; wal::RECORD_ROOM_BYTES],
            &register,
        )?;
        drop(writer);
        self.journal.sync_log()
    }

    fn replay_record(&self, at: u64, payload: &[u8], burst: &mut Burst) -> Result<()> {
        for frame in wal::frames(payload) {
            let Some((offset, frame)) = frame else {
                let detail = "a record holds what is no entry";
                return Err(Error::corruption("the log", at, detail));
            };
            if frame.flags & RANGE != 0 {
                let detail = "a range was deleted, which stores in the order of hashes cannot do";
                return Err(Error::corruption("the log", at + offset as u64, detail));
            }
            let (here, hash) = (at + offset as u64, self.ground.hash(frame.key));
            let stores = self.partitions.partition_of(hash).read();
            if here >= stores.version.floor {
                stores.active.prefetch(hash);
                burst.push((hash, here));
            }
        }
        if burst.len() >= REPLAY_BURST { self.replay_burst(burst) } else { Ok(()) }
    }

    fn replay_burst(&self, burst: &mut Burst) -> Result<()> {
        let segments = self.journal.log.segments();
        let log_end = self.journal.log.end();
        let mut writer = self.writer.lock().expect("no panic while held");
        for (hash, at) in burst.drain(..) {
            let frame = segments.bytes_from(at).and_then(Frame::decode);
            let (frame, bytes) = frame.expect("it was decoded a moment ago");
            let mut stores = self.partitions.partition_of(hash).write();
            let old = stores.find_in_log(&segments, log_end, hash, frame.key);
            old.iter().for_each(|old| stores.forget_expiry(hash, old));
            let seen = old.and_then(|o| o.active_slot);
            let frame = NewFrame::new(hash, at, bytes as u64, &frame);
            self.put_into_table(&mut stores, &mut writer, &frame, seen);
        }
        Ok(())
    }
}

/// Entries found in the log and not yet in the tables: hash and log position.
type Burst = Vec<(KeyHash, u64)>;

/// Entries put into the tables together, so that their cache misses overlap.
const REPLAY_BURST: usize = 32;

/// Opens or creates the manifest.
fn open_book<D: Device>(
    device: &Arc<D>,
    options: &OptionValues,
    seed: HashSeed,
) -> Result<(Book<D>, Config)> {
    let Some(opened) = Manifest::open(device.clone())? else {
        let config = Config::new(options, None)?;
        let state = StoreState::new(seed.hash(b"store id").high(), seed, config.partition_bits);
        let manifest = Manifest::create(device.clone(), &state.encode())?;
        return Ok((Book { manifest, state, edits: 0 }, config));
    };
    let mut state = StoreState::decode(&opened.snapshot)?;
    for edit in &opened.edits {
        state.apply(&Edit::decode(edit)?);
    }
    let config = Config::new(options, Some(state.partition_bits))?;
    let edits = opened.edits.len() as u32;
    Ok((Book { manifest: opened.manifest, state, edits }, config))
}

/// Removes files that the manifest does not name (left by a crash); the next free file number.
fn remove_orphans<D: Device>(device: &D, state: &StoreState) -> Result<u64> {
    let mut next = 1;
    for name in device.list()? {
        let orphan = if let Some(number) = table_number(&name) {
            next = next.max(number + 1);
            !state.table_files().any(|live| live == number)
        } else if let Some(number) = wal::number_of(&name) {
            !state.log_segments.contains(&number)
        } else if wal::is_spare(&name) {
            true
        } else if let Some(number) = value_log::number_of(&name) {
            !state.values.segments.contains(&number)
        } else {
            false
        };
        if orphan {
            device.remove(&name)?;
        }
    }
    Ok(next)
}

fn open_partition<D: Device>(
    device: &D,
    state: &StoreState,
    config: &Config,
    hasher: Hasher,
    index: usize,
    partition: &PartitionState,
) -> Result<Partition<D>> {
    let open_hash = |&number: &u64| {
        let (name, id) = (table_name(Table::Hash, number), table_id(state.store_id, number));
        HashStore::open(device, &name, id, hasher).map(Arc::new)
    };
    let open_sorted = |number: u64| {
        let (name, id) = (table_name(Table::Sorted, number), table_id(state.store_id, number));
        SortedStore::open(device, &name, id, hasher).map(Arc::new)
    };
    let version = Version {
        frozen: Vec::new(),
        hash_stores: partition.hash_stores.iter().map(open_hash).collect::<Result<_>>()?,
        sorted_store: partition.sorted_store.map(open_sorted).transpose()?,
        floor: partition.floor,
        epoch: 0,
    };
    let is_new = state.log_segments.is_empty();
    let (table, fill_limit) = first_table(config, &version, index, is_new);
    Ok(Partition::new(table, fill_limit, version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::ErrorKind;
    use silica_device::sim::{SimDevice, SimOptions};

    #[test]
    fn a_deleted_range_in_the_log_is_corruption() {
        let environment = Environment::new(HashSeed([1; 16]));
        let open = |device| Silt::open(device, &OptionValues::default(), &environment);
        let device = SimDevice::new(1, SimOptions::default());
        for (flags, is_right) in [(0, true), (RANGE, false)] {
            let store = open(device.clone()).expect("opens");
            let mut record = vec![0; wal::RECORD_ROOM_BYTES];
            Frame { flags, ..Frame::put(b"a", b"b") }.encode(&mut record);
            let register = |number| store.journal.edit(&[Edit::LogSegment(number)]);
            let mut writer = store.writer.lock().expect("no panic while held");
            store
                .journal
                .log
                .append(&mut writer.appender, &mut record, &register)
                .expect("appends");
            drop(writer);
            drop(store);
            let error = open(device.clone()).err().map(|error| error.kind());
            assert_eq!(error, (!is_right).then_some(ErrorKind::Corruption));
        }
    }
}
