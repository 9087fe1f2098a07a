//! Opening a store: manifest → files → the log's records back into the tables.

use crate::Hasher;
use crate::files::{Table, table_id, table_name, table_number};
use crate::ground::Ground;
use crate::hash_store::HashStore;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::options::Config;
use crate::partition::{Partition, Version};
use crate::partitions::Partitions;
use crate::read::Reads;
use crate::scheduler::Scheduler;
use crate::shape::staggered;
use crate::silt::{DESCRIPTOR, Silt};
use crate::sorted_store::SortedStore;
use crate::space::Space;
use crate::state::{MAKER, PartitionState, StoreState};
use silica_base::{HashSeed, Result};
use silica_device::Device;
use silica_engine::{Environment, OptionValues};
use silica_parts::Room;
use silica_parts::cuckoo::CuckooTable;
use silica_parts::manifest::{Book, Manifest};
use silica_parts::value_log::{self, ValueLog};
use silica_parts::wal::{self, Appender, Wal};
use std::sync::Arc;

/// What entries are taken to have before there are any: a table that was too small for them is
/// followed by a larger one.
const ENTRY_BYTES_UNSEEN: u64 = 1 << 10;

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
        let state = book.state();
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
        let journal = Arc::new(Journal::new(log, values, book));
        let (over, journaled) = (Arc::clone(&ground), Arc::clone(&journal));
        let partitions = Arc::new(Partitions::new(over, journaled, partitions));
        let space = Arc::new(Space::new(&partitions));
        let intake = Arc::new(Intake::new(&partitions, Appender::new(1, next_segment)));
        let store = Silt {
            descriptor: DESCRIPTOR,
            reads: Reads::new(&partitions),
            space: Arc::clone(&space),
            intake: Arc::clone(&intake),
            scheduler: Scheduler::new(&partitions, &space, &intake),
            ground,
            journal,
            partitions,
        };
        store.intake.replay()?;
        store.space.look_at_space(0);
        Ok(store)
    }
}

/// Opens or creates the manifest.
fn open_book<D: Device>(
    device: &Arc<D>,
    options: &OptionValues,
    seed: HashSeed,
) -> Result<(Book<D, StoreState>, Config)> {
    let Some(opened) = Manifest::open(device.clone(), MAKER)? else {
        let config = Config::new(options, None)?;
        let state = StoreState::new(seed.hash(b"store id").high(), seed, config.partition_bits);
        return Ok((Book::create(device.clone(), MAKER, state)?, config));
    };
    let state = StoreState::decode(&opened.snapshot)?;
    let book = Book::open(opened, state)?;
    let config = Config::new(options, Some(book.state().partition_bits))?;
    Ok((book, config))
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

/// Entries of a partition that the log has room for.
fn entries_in_log(config: &Config, memory_bytes: u64, entry_bytes: u64) -> u64 {
    (config.log_bytes_max(memory_bytes) / entry_bytes.max(1)) >> config.shape.partition_bits
}

/// The first table of partition `index` after opening the store, and the entries at which it is
/// frozen although it is not full.
fn first_table<D: Device>(
    config: &Config,
    version: &Version<D>,
    index: usize,
    is_new: bool,
) -> (CuckooTable, u32) {
    let hash = version.hash_stores.iter().map(|h| h.footer());
    let mut footers = hash.chain(version.sorted_store.iter().map(|s| s.footer()));
    let entry_bytes = footers
        .next()
        .map_or(ENTRY_BYTES_UNSEEN, |footer| footer.entry_bytes / footer.entries.max(1));
    let memory_bytes = config.memory_bytes;
    let entries = entries_in_log(config, memory_bytes, entry_bytes);
    let geometry = config.shape.geometry(entries, memory_bytes);
    let limit =
        if is_new { staggered(config.partitions(), geometry.slots(), index) } else { u32::MAX };
    (CuckooTable::new(geometry, index as u64), limit)
}
