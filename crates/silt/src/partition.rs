//! A partition: its active log store and the immutable version of everything older.

use crate::hash_store::HashStore;
use crate::packed::PackedReader;
use crate::position::{expand, shorten};
use crate::sorted_store::SortedStore;
use silica_base::{Biased, BiasedRead, BiasedWrite, KeyHash};
use silica_device::{Device, LogFile};
use silica_parts::cuckoo::CuckooTable;
use silica_parts::expiry::{ExpiriesBuilder, Expiring, mixed};
use silica_parts::frame::Frame;
use silica_parts::wal::Segments;
use std::sync::Arc;

/// Bytes that have expired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Of files: as much of each file as of its entries.
    pub(crate) file_bytes: u64,
    /// Of values in the value log.
    pub(crate) apart_bytes: u64,
}

impl Expired {
    pub(crate) fn bytes(&self) -> u64 {
        self.file_bytes + self.apart_bytes
    }

    pub(crate) fn add(&mut self, other: Expired) {
        self.file_bytes += other.file_bytes;
        self.apart_bytes += other.apart_bytes;
    }
}

/// Entries by which a log store knows when what it holds expires: there may be thousands of stores.
const EXPIRING_SAMPLES: usize = 32;

/// Sizes of the frames that were put into a log store, overwritten ones included, and when they
/// expire.
#[derive(Debug)]
pub(crate) struct FrameSizes {
    frames: u64,
    bytes: u64,
    pub(crate) bytes_max: u64,
    expiries: ExpiriesBuilder,
}

impl Default for FrameSizes {
    fn default() -> Self {
        let expiries = ExpiriesBuilder::rough(EXPIRING_SAMPLES);
        FrameSizes { frames: 0, bytes: 0, bytes_max: 0, expiries }
    }
}

impl FrameSizes {
    fn add(&mut self, frame: &NewFrame) {
        self.frames += 1;
        self.bytes += frame.bytes;
        self.bytes_max = self.bytes_max.max(frame.bytes);
        if let Some(expiring) = frame.expiring {
            self.expiries.add(expiring, Some(mixed(frame.at)));
        }
    }

    /// Takes a frame that expires out of what expires.
    fn forget(&mut self, frame: &NewFrame) {
        if let Some(expiring) = frame.expiring {
            self.expiries.remove(expiring, Some(mixed(frame.at)));
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What has expired by `unix_ms`, roughly.
    pub(crate) fn expired_at(&self, unix_ms: u64) -> Expired {
        let (bytes, apart_bytes) = self.expiries.bytes_over(unix_ms);
        Expired { file_bytes: bytes as u64, apart_bytes: apart_bytes as u64 }
    }

    pub(crate) fn bytes_mean(&self) -> u64 {
        self.bytes / self.frames.max(1)
    }
}

/// A log store that takes no more entries and waits for its conversion.
pub(crate) struct Frozen {
    pub(crate) table: CuckooTable,
    pub(crate) sizes: FrameSizes,
    /// Every record of the partition below this log position is in this store or an older one.
    pub(crate) end: u64,
}

/// Everything older than the active log store; younger stores come first.
pub(crate) struct Version<D: Device> {
    pub(crate) frozen: Vec<Arc<Frozen>>,
    pub(crate) hash_stores: Vec<Arc<HashStore<D::File>>>,
    pub(crate) sorted_store: Option<Arc<SortedStore<D::File>>>,
    /// Log records below this position are in the stores.
    pub(crate) floor: u64,
    /// Grows whenever log entries move into a store or vanish.
    pub(crate) epoch: u64,
}

impl<D: Device> Clone for Version<D> {
    fn clone(&self) -> Self {
        Version {
            frozen: self.frozen.clone(),
            hash_stores: self.hash_stores.clone(),
            sorted_store: self.sorted_store.clone(),
            floor: self.floor,
            epoch: self.epoch,
        }
    }
}

impl<D: Device> Version<D> {
    /// Entries in hash stores, overwritten ones included.
    pub(crate) fn hash_store_entries(&self) -> u64 {
        self.hash_stores.iter().map(|h| h.footer().entries).sum()
    }

    /// Entries in the sorted store.
    pub(crate) fn sorted_store_entries(&self) -> u64 {
        self.sorted_store.as_ref().map_or(0, |s| s.footer().entries)
    }

    /// The files of all stores.
    pub(crate) fn readers(&self) -> impl Iterator<Item = &Arc<PackedReader<D::File>>> {
        let hash = self.hash_stores.iter().map(|h| h.reader());
        hash.chain(self.sorted_store.iter().map(|s| s.reader()))
    }

    /// Names of the files of all stores.
    pub(crate) fn store_names(&self) -> impl Iterator<Item = String> {
        self.readers().map(|reader| reader.name().to_owned())
    }
}

/// What a partition's lock protects.
pub(crate) struct Stores<D: Device> {
    pub(crate) active: CuckooTable,
    pub(crate) sizes: FrameSizes,
    /// Entries at which the active table is frozen although it is not full; staggers partitions.
    pub(crate) fill_limit: u32,
    pub(crate) version: Arc<Version<D>>,
}

/// A frame that was appended to the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFrame {
    pub(crate) hash: KeyHash,
    /// Its logical position.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    /// Where it expires.
    expiring: Option<Expiring>,
}

impl NewFrame {
    /// A frame of `bytes` bytes at `at`.
    #[inline]
    pub(crate) fn new(hash: KeyHash, at: u64, bytes: u64, frame: &Frame<'_>) -> Self {
        let Frame { expires_unix_ms, flags, value, .. } = *frame;
        let expires = expires_unix_ms != 0;
        let expiring = expires.then(|| Expiring::new(expires_unix_ms, bytes, flags, value));
        NewFrame { hash, at, bytes, expiring }
    }
}

/// Where a key's newest entry in the log stores lies.
pub(crate) struct InLog<'s> {
    /// Logical position of the frame.
    pub(crate) at: u64,
    /// The slot, where it is in the active table.
    pub(crate) active_slot: Option<u32>,
    pub(crate) frame: Frame<'s>,
}

impl<D: Device> Stores<D> {
    /// Asks the processor for what [`Stores::may_be_in_log`] looks at.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        self.active.prefetch(hash);
        self.version.frozen.iter().for_each(|frozen| frozen.table.prefetch(hash));
    }

    /// False where no key with `hash` is in the active and frozen log stores.
    #[inline]
    pub(crate) fn may_be_in_log(&self, hash: KeyHash) -> bool {
        let holds = |table: &CuckooTable| table.candidates(hash).next().is_some();
        holds(&self.active) || self.version.frozen.iter().any(|frozen| holds(&frozen.table))
    }

    /// The newest entry of `key` in the active and frozen log stores.
    #[inline]
    pub(crate) fn find_in_log<'s>(
        &self,
        segments: &'s Segments<D::Log>,
        log_end: u64,
        hash: KeyHash,
        key: &[u8],
    ) -> Option<InLog<'s>> {
        if let Some((slot, at, frame)) = find(&self.active, segments, log_end, hash, key) {
            return Some(InLog { at, active_slot: Some(slot), frame });
        }
        self.version.frozen.iter().find_map(|frozen| {
            find(&frozen.table, segments, log_end, hash, key).map(|(_, at, frame)| InLog {
                at,
                active_slot: None,
                frame,
            })
        })
    }

    /// Freezes the active table; records from `at` on belong to the fresh one, which is frozen at
    /// `fill_limit` entries although it is not full.
    pub(crate) fn freeze(&mut self, fresh: CuckooTable, fill_limit: u32, at: u64) {
        let table = std::mem::replace(&mut self.active, fresh);
        let mut version = Version::clone(&self.version);
        let sizes = std::mem::take(&mut self.sizes);
        version.frozen.insert(0, Arc::new(Frozen { table, sizes, end: at }));
        self.version = Arc::new(version);
        self.fill_limit = fill_limit;
    }

    /// What `old` left in the active table is overwritten: it was dead before it expired.
    pub(crate) fn forget_expiry(&mut self, hash: KeyHash, old: &InLog<'_>) {
        if old.active_slot.is_some() && old.frame.expires_unix_ms != 0 {
            let bytes = old.frame.encoded_len() as u64;
            self.sizes.forget(&NewFrame::new(hash, old.at, bytes, &old.frame));
        }
    }

    /// Points the active table at `frame`, or returns false where the table has to be frozen
    /// first. `seen` is the slot of the key's entry there.
    pub(crate) fn place(&mut self, frame: &NewFrame, seen: Option<u32>) -> bool {
        if let Some(slot) = seen {
            self.active.set(slot, shorten(frame.at));
        } else {
            let there_is_room = self.active.len() < self.fill_limit;
            if !there_is_room || self.active.insert(frame.hash, shorten(frame.at)).is_err() {
                return false;
            }
        }
        self.sizes.add(frame);
        true
    }
}

#[inline]
fn find<'s, L: LogFile>(
    table: &CuckooTable,
    segments: &'s Segments<L>,
    log_end: u64,
    hash: KeyHash,
    key: &[u8],
) -> Option<(u32, u64, Frame<'s>)> {
    table.candidates(hash).find_map(|(slot, short)| {
        let at = expand(log_end, short);
        let (frame, _) = Frame::decode(segments.bytes_from(at)?)?;
        (frame.key == key).then_some((slot, at, frame))
    })
}

/// A partition of the key space. While nobody writes it, readers write no line that they share.
pub(crate) struct Partition<D: Device> {
    stores: Biased<Stores<D>>,
}

impl<D: Device> Partition<D> {
    /// A partition over `version` whose active log store is the empty table `active`.
    pub(crate) fn new(active: CuckooTable, fill_limit: u32, version: Version<D>) -> Self {
        Partition {
            stores: Biased::new(Stores {
                active,
                sizes: FrameSizes::default(),
                fill_limit,
                version: Arc::new(version),
            }),
        }
    }

    /// The stores, to read.
    #[inline]
    pub(crate) fn read(&self) -> BiasedRead<'_, Stores<D>> {
        self.stores.read()
    }

    /// The stores, to change; only the appender and maintenance do.
    #[inline]
    pub(crate) fn write(&self) -> BiasedWrite<'_, Stores<D>> {
        self.stores.write()
    }

    /// True while gets write nothing of the lock.
    #[cfg(test)]
    pub(crate) fn is_biased(&self) -> bool {
        self.stores.is_biased()
    }

    /// The version now.
    pub(crate) fn version(&self) -> Arc<Version<D>> {
        self.read().version.clone()
    }
}
