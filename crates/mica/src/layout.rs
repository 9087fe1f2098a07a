//! How the one memory number is divided.

use crate::fits::SPACE_WORDS_MAX;
use crate::index::{BUCKET_WORDS, SPARE_WORDS};
use crate::item::{self, CHUNK_KEY_BYTES, words_of};
use crate::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::options::{Eviction, OPTIONS};
use crate::partition::Partition;
use crate::policy::AnyPolicy;
use crate::store::Store;
use silica_base::{Error, ErrorKind, Result};
use silica_engine::{EntryRef, OptionValues};

/// Words of the largest chunk, with its key: copied in some microseconds, during which writers of a
/// partition wait.
const CHUNK_WORDS: usize = 8192;
/// Longest value that is not cut into chunks.
const WHOLE_BYTES_MAX: usize = 1 << 20;
/// A large value takes at most five eighths of what the main logs, or blocks, have: the rest is for
/// ends of logs that are left, and for what others write before all its chunks are there.
const LARGE_EIGHTHS: usize = 5;
/// A partition gets at least so many bytes where the number of partitions is chosen here: an
/// entry of 1 MiB then takes an eighth of its log.
const PARTITION_BYTES_MIN: u64 = 10 << 20;
const PARTITIONS_DEFAULT: u64 = 16;
const PARTITIONS_MAX: u64 = 64;
/// A store's partition has hardly more than this where the number is chosen here, nor twice this,
/// which is more than it can have.
const STORE_PARTITION_BYTES: u64 = 15 << 30;

/// How an index is divided.
struct Shape {
    /// Entries per main bucket for which the index is made, in eighths.
    bucket_eighths: u64,
    /// Spare buckets for so many main ones.
    spares: u64,
    mains: u64,
}

/// 4.5 of 7 slots leave 9 % of the buckets to be continued by a spare.
const CACHE: Shape = Shape { bucket_eighths: 36, spares: 1, mains: 4 };
/// 7.5 entries for 7 slots: 82 % of the entries are in main buckets. A bucket needs 0.64 spares,
/// by Poisson's distribution; what there are more is for small indexes, which vary.
const STORE: Shape = Shape { bucket_eighths: 60, spares: 2, mains: 3 };
/// An entry takes at most this part of a log, so that it does not push out most others.
const LOG_PER_ENTRY: usize = 8;
/// What a memory mapping may take beyond what was asked for.
const GRAIN_BYTES: u64 = 4096;

/// Sizes of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) partitions: usize,
    pub(crate) main_buckets: usize,
    pub(crate) spare_buckets: usize,
    pub(crate) log_words: usize,
    /// Of these, words of the small log.
    pub(crate) small_words: usize,
    /// Nothing is evicted: the log's words are blocks.
    pub(crate) is_store: bool,
}

impl Layout {
    pub(crate) fn new(options: &OptionValues) -> Result<Self> {
        let value = |name| options.value(OPTIONS, name);
        let memory = value("memory_bytes");
        let eviction = Eviction::new(value("eviction"));
        let is_store = eviction == Eviction::None;
        let partitions = match value("partitions") {
            0 if is_store && memory / PARTITIONS_DEFAULT > STORE_PARTITION_BYTES => {
                (memory / STORE_PARTITION_BYTES).min(PARTITIONS_MAX)
            }
            0 => (memory / PARTITION_BYTES_MIN).clamp(1, PARTITIONS_DEFAULT),
            n => n,
        };
        // A power of two, so that bits of the hash choose.
        let partitions = 1 << partitions.ilog2();
        let shape = if is_store { STORE } else { CACHE };
        let store = if is_store { size_of::<Store>() as u64 } else { 0 };
        let fixed = size_of::<Partition>() as u64 + store + 2 * GRAIN_BYTES;
        let bytes = (memory / partitions).saturating_sub(fixed);
        // A mean entry with its header, and its share of the index.
        let mean = value("entry_bytes_mean").min(8 * CHUNK_WORDS as u64);
        let entry = 8 + (mean.div_ceil(8) * 8).max(16);
        let (bucket, spare) = (8 * BUCKET_WORDS as u64, 8 * SPARE_WORDS as u64);
        let with_spares = bucket + (spare * shape.spares).div_ceil(shape.mains);
        let of_bucket = with_spares * 8 + entry * shape.bucket_eighths;
        let main_buckets = (bytes * 8 / of_bucket).max(1);
        // A store's come out of its space.
        let spare_buckets =
            if is_store { 0 } else { (main_buckets * shape.spares).div_ceil(shape.mains) };
        let index = bucket * main_buckets + spare * spare_buckets;
        let log_words = (bytes.saturating_sub(index) / 64 * 8) as usize;
        let layout = Layout {
            partitions: partitions as usize,
            main_buckets: main_buckets as usize,
            spare_buckets: spare_buckets as usize,
            log_words,
            small_words: AnyPolicy::small_words(eviction, log_words),
            is_store,
        };
        if is_store && log_words > SPACE_WORDS_MAX {
            let message = format!(
                "memory_bytes {memory} is too much for {partitions} partitions where nothing is \
                 evicted: one holds 32GiB; set more partitions"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        if layout.entry_words_max() < item::words_needed(&[0; 64], &EntryRef::new(&[0; 64])) {
            let message = format!(
                "memory_bytes {memory} is too little for {partitions} partitions; give 64KiB for \
                 each, or set fewer partitions"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(layout)
    }

    /// False of numbers that [`Layout::new`] never gives.
    pub(crate) fn is_plausible(&self) -> bool {
        let words_max = if self.is_store { SPACE_WORDS_MAX } else { 1 << 41 };
        self.partitions.is_power_of_two()
            && self.partitions <= PARTITIONS_MAX as usize
            && (1..=u32::MAX as usize).contains(&self.main_buckets)
            && self.spare_buckets <= u32::MAX as usize
            && (8..=words_max).contains(&self.log_words)
            && self.small_words < self.log_words
    }

    fn entry_words_max(&self) -> usize {
        self.log_words / LOG_PER_ENTRY
    }

    /// Longest key and value.
    pub(crate) fn limits(&self) -> (usize, usize) {
        let large = self.partitions * self.owned_bytes_max();
        (self.key_bytes_max(), VALUE_BYTES_MAX.min(large.max(self.whole_bytes_max())))
    }

    fn key_bytes_max(&self) -> usize {
        KEY_BYTES_MAX.min(2 * (self.entry_words_max() - 3))
    }

    /// Longest value that is not cut into chunks: of an entry that takes at most an eighth of a
    /// log.
    pub(crate) fn whole_bytes_max(&self) -> usize {
        let bytes = 8 * (self.entry_words_max() - 3);
        WHOLE_BYTES_MAX.min(bytes - 8 * words_of(self.key_bytes_max()))
    }

    /// Bytes of a value in each chunk but the last.
    pub(crate) fn chunk_bytes(&self) -> usize {
        8 * (CHUNK_WORDS.min(self.entry_words_max()) - 1) - CHUNK_KEY_BYTES
    }

    /// Bytes that a value has at most in one partition.
    pub(crate) fn owned_bytes_max(&self) -> usize {
        let words = (self.log_words - self.small_words) / 8 * LARGE_EIGHTHS;
        words / CHUNK_WORDS.min(self.entry_words_max()) * self.chunk_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_no_more_than_the_whole_and_not_much_less() {
        for memory in [64 << 10, 100_000, 1 << 20, 77 << 20, 1 << 30, 1 << 40_u64] {
            let kinds = [(0, 64), (1, 16), (1, 1 << 20), (5, 1000), (64, 1)];
            for ((partitions, mean), eviction) in kinds.into_iter().flat_map(|k| [(k, 0), (k, 3)]) {
                let mut options = OptionValues::default();
                options.set("eviction", eviction);
                options.set("memory_bytes", memory).set("partitions", partitions);
                let layout = Layout::new(options.set("entry_bytes_mean", mean));
                let Ok(layout) = layout else {
                    let each = memory / partitions.max(1);
                    assert!(!(64 << 10..=32 << 30).contains(&each), "{memory} {partitions}");
                    continue;
                };
                let index = 64 * layout.main_buckets + 32 * layout.spare_buckets;
                let part = index + 8 * layout.log_words + size_of::<Partition>();
                let sum = (part * layout.partitions) as u64;
                assert!(sum <= memory, "{layout:?} takes {sum} of {memory}");
                assert!(memory - sum <= (9000 + 1500) * layout.partitions as u64, "{layout:?}");
                assert!(layout.partitions.is_power_of_two());
                let (key, value) = layout.limits();
                assert!(key <= KEY_BYTES_MAX && value <= VALUE_BYTES_MAX && key < value);
                let whole = layout.whole_bytes_max();
                assert!(8 * 3 + key + whole <= layout.log_words && whole <= value);
                assert!(layout.chunk_bytes() <= whole.max(8 * CHUNK_WORDS));
                assert!(value <= layout.partitions * layout.log_words * 5);
            }
        }
    }

    #[test]
    fn large_stores_have_partitions_that_they_can_have() {
        for gib in [1, 200, 256, 300, 600, 900] {
            let mut options = OptionValues::default();
            options.set("eviction", 3).set("memory_bytes", gib << 30);
            let layout = Layout::new(&options).expect("as many partitions as it needs");
            assert!(layout.log_words <= SPACE_WORDS_MAX && layout.partitions <= 64);
        }
        let mut options = OptionValues::default();
        let options = options.set("eviction", 3).set("memory_bytes", 1 << 40).set("partitions", 8);
        let error = Layout::new(options).expect_err("128 GiB each");
        assert!(error.to_string().contains("more partitions"), "{error}");
    }

    #[test]
    fn large_caches_take_entries_of_a_mebibyte() {
        let mut options = OptionValues::default();
        let layout = Layout::new(options.set("memory_bytes", 256 << 20)).expect("enough");
        assert_eq!((layout.partitions, layout.whole_bytes_max()), (16, WHOLE_BYTES_MAX));
        assert_eq!(layout.limits().0, KEY_BYTES_MAX);
    }

    #[test]
    fn a_value_may_have_half_of_the_memory_up_to_512_mib() {
        for eviction in ["s3-fifo", "fifo", "none"] {
            for (memory, least) in
                [(64 << 20, 24 << 20), (2 << 30, 512 << 20), (64 << 10, 20 << 10)]
            {
                let pairs = [("eviction", eviction)];
                let mut options = OptionValues::parse(OPTIONS, pairs).expect("valid");
                let layout = Layout::new(options.set("memory_bytes", memory)).expect("enough");
                let (_, value) = layout.limits();
                assert!(value >= least, "{value} bytes of {memory}, {eviction}");
                assert!(value <= VALUE_BYTES_MAX && value as u64 <= memory * 5 / 8);
            }
        }
    }
}
