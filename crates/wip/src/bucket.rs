//! A bucket: a range of keys, its memtables and its runs.

use crate::memtable::{Directory, Entries, Found, Full, Inserted, sorted};
use crate::run::Run;
use crate::state::BucketState;
use crate::view::LastOrder;
use silica_base::HashSeed;
use silica_device::{Device, LogFile};
use silica_parts::frame::Frame;
use silica_parts::wal::{POSITION_BYTES, Segments};
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Lines of a memtable that is new.
const FIRST_LINES: usize = 1;

/// The entries of the log.
pub(crate) struct LogEntries<'s, L>(pub(crate) &'s Segments<L>);

impl<'s, L: LogFile> LogEntries<'s, L> {
    /// The entry at a position that a memtable holds.
    #[inline]
    pub(crate) fn frame(&self, position: u64) -> Frame<'s> {
        let frame = self.0.bytes_from(position * POSITION_BYTES).and_then(Frame::decode);
        frame.expect("memtables hold positions of entries").0
    }

    /// Bytes of the entry at a position.
    pub(crate) fn bytes(&self, position: u64) -> u64 {
        let frame = self.0.bytes_from(position * POSITION_BYTES).and_then(Frame::decode);
        frame.expect("memtables hold positions of entries").1 as u64
    }
}

impl<L: LogFile> Entries for LogEntries<'_, L> {
    #[inline]
    fn entry(&self, position: u64) -> Frame<'_> {
        self.frame(position)
    }
}

/// A memtable that takes no more and waits for its flush.
pub(crate) struct Frozen {
    pub(crate) directory: Directory,
    /// Bytes of its entries.
    pub(crate) bytes: u64,
    /// Every record of the bucket below this position is in it or in older ones.
    pub(crate) end: u64,
    /// Its positions in the order of a range, once somebody asked for it.
    order: OnceLock<Arc<[u64]>>,
}

impl Frozen {
    /// Its positions in the order of a range, for its flush and for those who read ranges.
    pub(crate) fn order(&self, entries: &impl Entries) -> &Arc<[u64]> {
        self.order.get_or_init(|| sorted(self.directory.positions(), entries).into())
    }
}

/// What is in tables.
pub(crate) struct Version<D: Device> {
    /// The newest first.
    pub(crate) runs: Vec<Run<D>>,
    /// Records of the log below this position are in the runs.
    pub(crate) floor: u64,
}

/// What a bucket's lock guards.
pub(crate) struct Stores<D: Device> {
    pub(crate) active: Directory,
    /// Bytes of the entries in `active`.
    pub(crate) bytes: u64,
    /// The newest position in `active`.
    pub(crate) newest: u64,
    /// The order of `active` as far as it was asked for.
    pub(crate) last_order: LastOrder,
    /// The newest first.
    pub(crate) frozen: Vec<Arc<Frozen>>,
    pub(crate) version: Arc<Version<D>>,
    /// Other buckets took over: what the memtables point at may be gone from the log. Whoever finds
    /// this looks for the bucket again, in the list as it is now.
    pub(crate) is_gone: bool,
}

impl<D: Device> Version<D> {
    /// Bytes of all runs.
    pub(crate) fn bytes(&self) -> u64 {
        self.runs.iter().flatten().map(crate::run::Part::bytes).sum()
    }
}

impl<D: Device> Stores<D> {
    pub(crate) fn new(version: Arc<Version<D>>) -> Self {
        Stores {
            active: Directory::new(FIRST_LINES),
            bytes: 0,
            newest: 0,
            last_order: LastOrder::default(),
            frozen: Vec::new(),
            version,
            is_gone: false,
        }
    }

    /// Asks for the memory that [`Stores::find`] looks at.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.active.prefetch(hash);
        self.frozen.iter().for_each(|frozen| frozen.directory.prefetch(hash));
    }

    /// The newest version of `key` before the position `before` that is in no table.
    #[inline]
    pub(crate) fn find<'e>(
        &self,
        hash: u64,
        key: &[u8],
        before: u64,
        entries: &'e impl Entries,
    ) -> Option<Found<'e>> {
        self.active.find(hash, key, before, entries).or_else(|| {
            let mut older = self.frozen.iter();
            older.find_map(|frozen| frozen.directory.find(hash, key, before, entries))
        })
    }

    /// Puts the position of an entry of `key` into the memtable, greater than all that are there;
    /// the bytes of the one that it replaces. That is one at or behind `kept_before`: nobody asks
    /// for it any more.
    pub(crate) fn insert<L: LogFile>(
        &mut self,
        seed: HashSeed,
        key: &[u8],
        position: u64,
        bytes: u64,
        kept_before: u64,
        entries: &LogEntries<'_, L>,
    ) -> u64 {
        let inserted = loop {
            match self.active.insert(seed.low(key), key, position, kept_before, entries) {
                Ok(inserted) => break inserted,
                Err(Full) => match self.active.grown(|key| seed.low(key), entries) {
                    Some(larger) => self.active = larger,
                    None => self.freeze(position),
                },
            }
        };
        let replaced = match inserted {
            Inserted::Added => 0,
            Inserted::Replaced(old) => entries.bytes(old),
        };
        self.bytes = self.bytes + bytes - replaced;
        self.newest = position;
        replaced
    }

    /// Lets a new memtable take over at position `end`.
    pub(crate) fn freeze(&mut self, end: u64) {
        let directory = std::mem::replace(&mut self.active, Directory::new(FIRST_LINES));
        let bytes = std::mem::take(&mut self.bytes);
        (self.newest, self.last_order) = (0, LastOrder::default());
        let order = OnceLock::new();
        self.frozen.insert(0, Arc::new(Frozen { directory, bytes, end, order }));
    }

    /// Bytes of the memtables' directories.
    pub(crate) fn directory_bytes(&self) -> u64 {
        let frozen = self.frozen.iter().map(|frozen| frozen.directory.bytes() as u64);
        self.active.bytes() as u64 + frozen.sum::<u64>()
    }

    /// Bytes of entries that are in no table.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.bytes + self.frozen.iter().map(|frozen| frozen.bytes).sum::<u64>()
    }
}

/// The keys from `lower` on, up to the next bucket's.
pub(crate) struct Bucket<D: Device> {
    pub(crate) lower: Vec<u8>,
    stores: RwLock<Stores<D>>,
}

impl<D: Device> Bucket<D> {
    pub(crate) fn new(lower: Vec<u8>, stores: Stores<D>) -> Self {
        Bucket { lower, stores: RwLock::new(stores) }
    }

    #[inline]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Stores<D>> {
        self.stores.read().expect("no panic while held")
    }

    #[inline]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Stores<D>> {
        self.stores.write().expect("no panic while held")
    }

    /// What the manifest says of a bucket with this version.
    pub(crate) fn state(version: &Version<D>) -> BucketState {
        let parts = |run: &Run<D>| run.iter().map(crate::run::Part::state).collect();
        BucketState { floor: version.floor, runs: version.runs.iter().map(parts).collect() }
    }
}
