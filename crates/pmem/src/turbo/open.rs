//! The engine is made, opened, closed and cleared: what its root says.

use super::bucket::mixed;
use super::options::{memory_bytes, region_limit, shard_bits};
use super::passed::Passed;
use super::shards::{Buckets, Division, UNCHECKED, decode, encode};
use super::store::{BATCH_BYTES_MAX, KEY_BYTES_MAX, Tally, Turbo, VALUE_BYTES_MAX};
use crate::space::{Change, Kind, Opened, ROOT, Settings, Space};
use silica_base::{Checksum, Error, Format, HashSeed, Result};
use silica_device::region::{Region, RegionClass, Regions};
use silica_engine::{Capabilities, Descriptor, Environment, Limits, OptionValues};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

const FORMAT: Format = Format {
    name: "root of engine turbo",
    magic: b"SiTu",
    version_bytes: 2,
    version: 2,
    steps: &[|_| ()],
};
/// Name of the region.
pub(crate) const NAME: &str = "turbo";
const HEAD_BYTES: usize = 28;
const TABLES: u64 = ROOT + 64;
/// Entries and one more when the store was closed; believed in a settled region only.
const COUNT: u64 = ROOT + 72;
const OFFSET_BITS: u32 = 48;

/// What the root says.
struct Root {
    version: u32,
    bits: u32,
    seed: HashSeed,
}

impl Root {
    fn encode(&self, store: u64) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        FORMAT.begin_in(&mut bytes);
        bytes[4..6].copy_from_slice(&(self.version as u16).to_le_bytes());
        bytes[6] = self.bits as u8;
        bytes[8..24].copy_from_slice(&self.seed.0);
        let sum = Checksum::at(store, ROOT).update(&bytes[..24]).finish();
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(name: &str, store: u64, bytes: &[u8; HEAD_BYTES]) -> Result<Root> {
        let version = FORMAT.version_of(name, ROOT, bytes)?;
        let seed = bytes[8..24].try_into().expect("sixteen");
        let root = Root { version, bits: u32::from(bytes[6]), seed: HashSeed(seed) };
        if root.bits > 16 || root.encode(store) != *bytes {
            return Err(Error::corruption(name, ROOT, "its root does not match its checksum"));
        }
        Ok(root)
    }
}

/// Which of two tables holds, and where they lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tables {
    offset: u64,
    is_second: bool,
}

impl Tables {
    fn word(self, store: u64) -> u64 {
        let low = self.offset | u64::from(self.is_second);
        low | mixed(store ^ mixed(low)) >> OFFSET_BITS << OFFSET_BITS
    }

    fn decode(store: u64, word: u64) -> Option<Tables> {
        let low = word & ((1 << OFFSET_BITS) - 1);
        let tables = Tables { offset: low & !1, is_second: low & 1 == 1 };
        (tables.word(store) == word).then_some(tables)
    }

    /// Where the table that holds begins.
    fn start(self, bits: u32) -> u64 {
        self.offset + if self.is_second { 8 << bits } else { 0 }
    }
}

/// The root of a region, which is made if there is none.
fn root<R: Region>(space: &Space<R>, options: &OptionValues, seed: HashSeed) -> Result<Root> {
    let region = space.region();
    let mut bytes = [0; HEAD_BYTES];
    region.read(ROOT, &mut bytes);
    // The first word is stored last.
    if bytes[..8] != [0; 8] {
        return Root::decode(space.name(), space.store(), &bytes);
    }
    if space.is_marking() {
        let why = "its root is blank, although objects are there";
        return Err(Error::corruption(space.name(), ROOT, why));
    }
    let root = Root { version: FORMAT.version, bits: shard_bits(options), seed };
    let bytes = root.encode(space.store());
    region.write(ROOT + 8, &bytes[8..]);
    region.flush(ROOT, bytes.len() as u64);
    region.fence()?;
    region.write(ROOT, &bytes[..8]);
    region.flush(ROOT, 8);
    region.fence()?;
    Ok(root)
}

/// The tables of shards; new ones if there are none.
fn tables<R: Region>(space: &Space<R>, bits: u32) -> Result<Tables> {
    let word = space.region().load(TABLES);
    if word == 0 {
        let tables = Tables { offset: space.allocate(16 << bits)?, is_second: false };
        write_table(space, bits, tables)?;
        return Ok(tables);
    }
    let tables = Tables::decode(space.store(), word);
    let fitting = tables.filter(|t| t.offset + (16 << bits) <= space.region().len());
    let tables = fitting.ok_or_else(|| {
        Error::corruption(space.name(), TABLES, "it does not say where its shards are")
    })?;
    space.mark(&[tables.offset])?;
    Ok(tables)
}

/// Bits of a shard's number, the seed, and where the descriptors lie, of a region in doubt.
///
/// # Errors
/// `Corruption`: without these nothing is found.
pub(super) fn salvage_root<R: Region>(space: &Space<R>) -> Result<(u32, HashSeed, u64)> {
    let mut bytes = [0; HEAD_BYTES];
    space.region().read(ROOT, &mut bytes);
    let root = Root::decode(space.name(), space.store(), &bytes)?;
    let tables = Tables::decode(space.store(), space.region().load(TABLES));
    let fitting = tables.filter(|t| t.offset + (16 << root.bits) <= space.region().len());
    let tables = fitting.ok_or_else(|| {
        let why = "it does not say where its shards are: restore a backup";
        Error::corruption(space.name(), TABLES, why)
    })?;
    Ok((root.bits, root.seed, tables.start(root.bits)))
}

/// A number of 48 bits at [`COUNT`], with a check.
fn count_word(store: u64, low: u64) -> u64 {
    low | mixed(store ^ mixed(low ^ COUNT << OFFSET_BITS)) >> OFFSET_BITS << OFFSET_BITS
}

/// The number of entries that a clean close noted.
fn counted<R: Region>(space: &Space<R>) -> Option<u64> {
    let word = space.region().load(COUNT);
    let low = word & ((1 << OFFSET_BITS) - 1);
    if count_word(space.store(), low) == word { low.checked_sub(1) } else { None }
}

/// Makes a table of empty shards, and the one that holds.
fn write_table<R: Region>(space: &Space<R>, bits: u32, tables: Tables) -> Result<()> {
    let region = space.region();
    let words = (0..1 << bits).map(|shard| encode(space.store(), shard, Buckets::default()));
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    region.stream(tables.start(bits), &bytes);
    region.fence()?;
    region.store(TABLES, tables.word(space.store()));
    region.flush(TABLES, 8);
    region.fence()
}

/// The descriptors as memory has them, unchecked; marks the buckets.
fn descriptors<R: Region>(space: &Space<R>, bits: u32, table: u64) -> Result<Vec<u64>> {
    let mut words = Vec::with_capacity(1 << bits);
    let mut starts = Vec::new();
    for shard in 0..1 << bits {
        let at = table + shard as u64 * 8;
        let buckets = decode(space.store(), shard, space.region().load(at)).ok_or_else(|| {
            Error::corruption(space.name(), at, "a shard's descriptor is damaged")
        })?;
        if buckets.count > 0 {
            starts.push(buckets.start);
            let bytes = space.object_bytes(buckets.start)?;
            if bytes < buckets.bytes() {
                let why = "a shard's descriptor names more than there is";
                return Err(Error::corruption(space.name(), at, why));
            }
        }
        words.push(buckets.word() | if buckets.count > 0 { UNCHECKED } else { 0 });
    }
    space.mark(&starts)?;
    Ok(words)
}

fn descriptor(class: RegionClass) -> Descriptor {
    Descriptor {
        name: "turbo",
        capabilities: Capabilities {
            durable: true,
            synced: class.survives_power_cut(),
            kept_at_close: true,
            may_wait: false,
            scan: true,
            ordered: false,
            atomic: true,
            admin: true,
            may_evict: false,
        },
        limits: Limits {
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: VALUE_BYTES_MAX,
            batch_bytes_max: BATCH_BYTES_MAX,
        },
    }
}

/// What an opening reads at once.
struct Parts {
    root: Root,
    tables: Tables,
    /// The descriptors as memory has them.
    words: Vec<u64>,
}

impl Parts {
    fn read<R: Region>(space: &Space<R>, options: &OptionValues, seed: HashSeed) -> Result<Parts> {
        let root = root(space, options, seed)?;
        let tables = tables(space, root.bits)?;
        let words = descriptors(space, root.bits, tables.start(root.bits))?;
        Ok(Parts { root, tables, words })
    }
}

impl<R: Region> Turbo<R> {
    /// Opens the store among `regions`, or makes it. It serves at once: shards are checked when
    /// they are touched first, or by `maintain`.
    ///
    /// # Errors
    /// `Corruption`; `Unsupported` for a newer version; `Config` if `memory_bytes` is too little;
    /// `Full`, `Locked`, `Io`.
    pub fn open_on<P>(regions: P, options: &OptionValues, environment: &Environment) -> Result<Self>
    where
        P: Regions<Region = R>,
    {
        let memory_bytes = memory_bytes(options);
        let settings = Settings {
            kind: Kind::Turbo,
            store: environment.seed.low(&environment.clock.unix_ms().to_le_bytes()),
            limit_bytes: memory_bytes,
            salvage: false,
        };
        let Opened { space, was_settled, .. } = Space::open_on(&regions, NAME, &settings)?;
        match Parts::read(&space, options, environment.seed) {
            Ok(parts) => Self::with(space, parts, was_settled, memory_bytes, environment),
            Err(error) => {
                if was_settled {
                    // Nothing was changed.
                    space.settle()?;
                }
                Err(error)
            }
        }
    }

    fn with(
        space: Space<R>,
        parts: Parts,
        was_settled: bool,
        memory_bytes: u64,
        environment: &Environment,
    ) -> Result<Self> {
        let Parts { root: Root { bits, seed, .. }, tables, words } = parts;
        let counted = if was_settled { counted(&space) } else { None };
        let unchecked = words.iter().filter(|word| **word & UNCHECKED != 0).count();
        if unchecked == 0 {
            space.marks_done()?;
        }
        let turbo = Turbo {
            descriptor: descriptor(space.region().class()),
            space,
            table: AtomicU64::new(tables.start(bits)),
            division: Division { bits },
            locks: words.iter().map(|_| Mutex::new(Tally::default())).collect(),
            shards: words.into_iter().map(AtomicU64::new).collect(),
            passed: Passed::new(memory_bytes),
            unchecked: unchecked.into(),
            uncounted: AtomicU64::new(counted.unwrap_or(0)),
            is_counted: counted.is_some(),
            was_settled,
            seed,
            clock: Arc::clone(&environment.clock),
            limbo: Default::default(),
            counts: Default::default(),
            rebuilds: Default::default(),
            sweep: Default::default(),
            soonest_ms: AtomicU64::new(u64::MAX),
            is_closed: false.into(),
            is_poisoned: false.into(),
            may_trim: false.into(),
            may_tidy: true.into(),
            memory_bytes: AtomicU64::new(memory_bytes),
        };
        turbo.limit_region(memory_bytes)?;
        Ok(turbo)
    }

    /// Has the region keep to what `memory_bytes` leaves it.
    pub(super) fn limit_region(&self, memory_bytes: u64) -> Result<()> {
        self.space.set_limit(region_limit(memory_bytes, self.shard_bytes())?);
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Locks all shards, checked or not.
    pub(super) fn lock_everything(&self) -> Vec<MutexGuard<'_, Tally>> {
        (0..self.locks.len()).map(|shard| self.lock_unchecked(shard)).collect()
    }

    /// Leaves a store that the next opening can believe, and takes no more writes.
    pub(super) fn settle(&self) -> Result<()> {
        // What is not checked has tags and sums that an opening must not believe.
        self.check_not_poisoned()?;
        self.check_some(u64::MAX)?;
        let locked = self.lock_everything();
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            let entries = locked.iter().map(|tally| u64::from(tally.used)).sum();
            let settled = self.note_count(entries).and_then(|()| self.space.settle());
            self.is_closed.store(settled.is_ok(), Ordering::Relaxed);
            settled?;
        }
        Ok(())
    }

    /// Notes the number of entries for the next opening, if the region is settled next. A root of
    /// an older version becomes one of this: older releases would leave the number as it is.
    pub(super) fn note_count(&self, entries: u64) -> Result<()> {
        let (store, region) = (self.space.store(), self.region());
        let bits = self.division.bits;
        let bytes = Root { version: FORMAT.version, bits, seed: self.seed }.encode(store);
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("eight"));
        let sum = u32::from_le_bytes(*bytes[24..].first_chunk().expect("four"));
        let mut changes = vec![Change { offset: COUNT, new: count_word(store, entries + 1) }];
        if region.load(ROOT) != word(0) {
            changes.push(Change { offset: ROOT, new: word(0) });
            changes.push(Change { offset: ROOT + 24, new: u64::from(sum) });
        }
        self.space.commit(&changes)
    }

    /// Removes everything: the other table holds from here on.
    pub(super) fn clear_all(&self) -> Result<()> {
        self.check_some(u64::MAX)?;
        let mut locked = self.lock_everything();
        let (objects, bytes) = (self.objects(), self.space.live_bytes());
        let word = self.region().load(TABLES);
        let tables = Tables::decode(self.space.store(), word).ok_or_else(|| {
            let why = "it does not say where its shards are any more";
            Error::corruption(self.space.name(), TABLES, why)
        })?;
        let tables = Tables { is_second: !tables.is_second, ..tables };
        self.check_not_poisoned()?;
        self.or_poison(write_table(&self.space, self.division.bits, tables))?;
        self.table.store(tables.start(self.division.bits), Ordering::Relaxed);
        self.shards.iter().for_each(|shard| shard.store(0, Ordering::Release));
        locked.iter_mut().for_each(|tally| **tally = Tally::default());
        self.retire(&objects, bytes);
        Ok(())
    }
}

impl<R: Region> Drop for Turbo<R> {
    fn drop(&mut self) {
        self.limbo.drain(&self.space);
        if let Err(error) = self.settle() {
            log::warn!("{} is left in use: {error}", self.space.name());
        }
    }
}
