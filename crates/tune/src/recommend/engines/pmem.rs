//! TurboHash and SPTree, in a region of mapped bytes (docs/engines/turbo.md,
//! docs/engines/sptree.md).

use super::super::processor::{Calibration, Nanoseconds};
use super::super::work::Work;
use super::{Axis, Cost, Media, Model, Offer, Settings, axis};
use crate::Survival;

/// Bytes of an entry that lies in its slot: key and value have 8 bytes each.
const SLOT_BYTES: f64 = 16.0;
/// Bytes of an entry beside its slot, key and value aside, and up to the next size.
const BESIDE_BYTES: f64 = 24.0;
const BESIDE_WASTE: f64 = 1.08;
/// Bytes of a bucket, and entries in it, of a table that is about to grow.
const BUCKET_BYTES: f64 = 256.0;
const BUCKET_ENTRIES: f64 = 13.0 * 0.86;
/// A table grows by half: on average it has so many times what it needs.
const GROWTH: f64 = 1.23;
/// Bytes of a line of the medium.
const XPLINE_BYTES: f64 = 256.0;
/// Lines of the medium that an insert writes because tables grow: each growth by half writes all
/// buckets anew, and the last ones are filled by inserts that follow.
const GROWTH_LINES: f64 = 0.23;
/// Buckets that a miss looks at on average, over the growth of a table.
const MISS_BUCKETS: f64 = 1.02;

/// Why an engine in a region is no choice here, if it is none.
fn refuses(work: &Work<'_>, survival: Survival) -> Option<String> {
    match survival {
        Survival::Disk => Some(
            "it needs memory that outlives the process: a directory on tmpfs, hugetlbfs or \
             persistent memory"
                .into(),
        ),
        Survival::Process if work.workload.synced > 0.0 => {
            Some("synced writes would not survive a power cut on memory without protection".into())
        }
        _ => None,
    }
}

fn is_inline(work: &Work<'_>) -> bool {
    let value = &work.workload.value_bytes;
    work.key_bytes == 8.0 && value.mean() == 8.0 && value.quantile(1.0) == 8.0
}

/// Bytes that an entry takes beside its slot.
fn beside_bytes(work: &Work<'_>) -> f64 {
    if is_inline(work) {
        return 0.0;
    }
    (work.workload.entry_bytes() + BESIDE_BYTES) * BESIDE_WASTE
}

/// Lines of the medium under so many bytes beside, at a random place. Small objects lie at
/// multiples of their size, so few of them reach into a second line.
fn lines(bytes: f64) -> f64 {
    if bytes == 0.0 { 0.0 } else { 1.1 + (bytes - 64.0).max(0.0) / XPLINE_BYTES }
}

/// Lines of the medium that an insert writes for bytes beside: new objects follow one another, so
/// the medium's buffer makes whole lines of them.
fn new_lines(bytes: f64) -> f64 {
    bytes / XPLINE_BYTES
}

pub(super) struct Turbo;

impl Model for Turbo {
    fn engine(&self) -> &'static str {
        "turbo"
    }

    fn offer(&self) -> Offer {
        Offer { durable: true, ordered: false, value_bytes_max: 512 << 20 }
    }

    fn refuses(&self, work: &Work<'_>, survival: Survival) -> Option<String> {
        refuses(work, survival)
    }

    fn axes(&self, _: &Work<'_>, _: bool) -> Vec<Axis> {
        Vec::new()
    }

    fn cost(&self, work: &Work<'_>, _: Settings<'_>, calibration: &Calibration) -> Cost {
        let slot = BUCKET_BYTES / BUCKET_ENTRIES * GROWTH;
        let beside = beside_bytes(work);
        let bytes = work.keys * (slot + beside);
        Cost {
            index_bytes_per_key: if beside == 0.0 { slot - SLOT_BYTES } else { slot },
            memory_bytes_min: bytes,
            media: Media {
                insert: XPLINE_BYTES * (1.0 + GROWTH_LINES + new_lines(beside)),
                overwrite: XPLINE_BYTES * (1.0 + lines(beside)),
                hit: XPLINE_BYTES * (1.0 + lines(beside)),
                miss: XPLINE_BYTES * MISS_BUCKETS,
            },
            processor: calibration.turbo.among(work.keys, 0.0),
            ..Cost::default()
        }
    }
}

pub(super) struct SpTree;

/// Bytes of a leaf's entry, links and tags shared, at the fill that splits leave.
const LEAF_ENTRY_BYTES: f64 = 28.0;
/// Bytes of memory for a key: filter, order, and the share of its leaf's node.
const MIDDLE_BYTES: f64 = 5.0;
/// Lines of the medium that an insert writes in a leaf, splits included, and an overwrite; and
/// those that a get reads: the head of a leaf and a slot are sometimes in one.
const INSERT_LINES: f64 = 1.93;
const OVERWRITE_LINES: f64 = 1.88;
const HIT_LINES: f64 = 1.76;
/// Share of misses that a filter lets through, which read the head of a leaf.
const FILTER_FALSE: f64 = 0.02;
/// Lines that a miss reads without filters: the head of a leaf, and sometimes a slot.
const MISS_LINES: f64 = 1.05;

/// Lines of the medium that a write to a buffered leaf comes to, its share of merges included, and
/// those that a hit reads.
struct Lines {
    insert: f64,
    overwrite: f64,
    hit: f64,
}

const IN_PLACE: Lines = Lines { insert: 0.41, overwrite: 0.38, hit: 1.48 };
const OUT_OF_PLACE: Lines = Lines { insert: 0.53, overwrite: 0.47, hit: 1.48 };
/// Buffers of a part of the leaves go to where writes are: of writes, this power of their share
/// meets one. Measured with keys of one popularity, of which half of the leaves' buffers take 0.58.
const WRITES_POWER: f64 = 0.78;
/// Bytes of a buffer, and entries of a leaf after inserts of keys in random order.
const BUFFER_BYTES: f64 = 320.0;
const LEAF_ENTRIES: f64 = 43.0;
/// Time of a put with buffers in memory, of that without: an insert saves a fence, an update brings
/// a merge of sixteen instead (docs/benchmarks/sptree.md).
const BUFFERED_INSERT: f64 = 0.85;
const BUFFERED_OVERWRITE: f64 = 1.35;

/// What write buffers change.
struct Buffered {
    /// Share of the leaves, and of the writes that meet one of them.
    of_leaves: f64,
    share: f64,
    lines: &'static Lines,
    /// Bytes of memory for a key.
    memory_bytes: f64,
}

impl Buffered {
    fn new(settings: Settings<'_>) -> Self {
        let of_leaves = settings.value("buffers") / 100.0;
        let lines = if settings.value("merge") > 0.0 { &OUT_OF_PLACE } else { &IN_PLACE };
        let memory_bytes = of_leaves * BUFFER_BYTES / LEAF_ENTRIES;
        let share = of_leaves.powf(WRITES_POWER);
        Buffered { of_leaves, share, lines, memory_bytes }
    }

    fn mean(&self, without: f64, with: impl Fn(&Lines) -> f64) -> f64 {
        (1.0 - self.share) * without + self.share * with(self.lines)
    }

    fn hit(&self) -> f64 {
        (1.0 - self.of_leaves) * HIT_LINES + self.of_leaves * self.lines.hit
    }

    /// Time of a put, of that without buffers.
    fn put(&self, work: &Work<'_>) -> f64 {
        let mix = &work.mix;
        let all = mix.writes();
        if all <= 0.0 {
            return 1.0;
        }
        let inserts = mix.inserts / all;
        let with = inserts * BUFFERED_INSERT + (1.0 - inserts) * BUFFERED_OVERWRITE;
        (1.0 - self.share) + self.share * with
    }
}

impl Model for SpTree {
    fn engine(&self) -> &'static str {
        "sptree"
    }

    fn offer(&self) -> Offer {
        Offer { durable: true, ordered: true, value_bytes_max: 512 << 20 }
    }

    fn refuses(&self, work: &Work<'_>, survival: Survival) -> Option<String> {
        refuses(work, survival)
    }

    fn axes(&self, _: &Work<'_>, _: bool) -> Vec<Axis> {
        vec![axis("buffers", &[25, 50, 100]), axis("merge", &[0, 1]), axis("filters", &[0, 1])]
    }

    fn cost(&self, work: &Work<'_>, settings: Settings<'_>, calibration: &Calibration) -> Cost {
        let beside = beside_bytes(work);
        let buffered = Buffered::new(settings);
        let filter_passes = if settings.value("filters") > 0.0 { FILTER_FALSE } else { MISS_LINES };
        let bytes = work.keys * (LEAF_ENTRY_BYTES + beside + MIDDLE_BYTES + buffered.memory_bytes);
        let processor = calibration.sptree.among(work.keys, 0.0);
        Cost {
            index_bytes_per_key: LEAF_ENTRY_BYTES + MIDDLE_BYTES - SLOT_BYTES
                + buffered.memory_bytes,
            memory_bytes_min: bytes,
            media: Media {
                insert: XPLINE_BYTES
                    * (buffered.mean(INSERT_LINES, |of| of.insert) + new_lines(beside)),
                overwrite: XPLINE_BYTES
                    * (buffered.mean(OVERWRITE_LINES, |of| of.overwrite) + lines(beside)),
                hit: XPLINE_BYTES * (buffered.hit() + lines(beside)),
                miss: XPLINE_BYTES * filter_passes,
            },
            processor: Nanoseconds {
                put: processor.put * buffered.put(work),
                put_in_burst: processor.put_in_burst * buffered.put(work),
                ..processor
            },
            ..Cost::default()
        }
    }
}
