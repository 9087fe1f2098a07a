//! TurboHash and SPTree, in a region of mapped bytes (docs/engines/turbo.md,
//! docs/engines/sptree.md).

use super::super::processor::Calibration;
use super::super::work::Work;
use super::{Axis, Cost, Media, Model, Offer, Settings};
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
const MISS_BUCKETS: f64 = 1.16;

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
        Vec::new()
    }

    fn cost(&self, work: &Work<'_>, _: Settings<'_>, calibration: &Calibration) -> Cost {
        let beside = beside_bytes(work);
        let bytes = work.keys * (LEAF_ENTRY_BYTES + beside + MIDDLE_BYTES);
        Cost {
            index_bytes_per_key: LEAF_ENTRY_BYTES + MIDDLE_BYTES - SLOT_BYTES,
            memory_bytes_min: bytes,
            media: Media {
                insert: XPLINE_BYTES * (INSERT_LINES + new_lines(beside)),
                overwrite: XPLINE_BYTES * (OVERWRITE_LINES + lines(beside)),
                hit: XPLINE_BYTES * (HIT_LINES + lines(beside)),
                miss: XPLINE_BYTES * FILTER_FALSE,
            },
            processor: calibration.sptree.among(work.keys, 0.0),
            ..Cost::default()
        }
    }
}
