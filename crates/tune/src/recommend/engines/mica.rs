//! MICA: everything in memory, as a cache or as a store (docs/engines/mica.md, "Memory").

use super::super::processor::Calibration;
use super::super::work::Work;
use super::{Axis, Cost, Model, Offer, Settings};

/// Values of `eviction`.
const NONE: f64 = 3.0;
/// Index bytes for each entry: of a cache, and of a store.
const CACHE_INDEX_BYTES: f64 = 16.0;
const STORE_INDEX_BYTES: f64 = 10.5;
/// Bytes of an entry besides key and value.
const HEADER_BYTES: f64 = 8.0;
/// Part of the memory that entries can have, partitions and free blocks left out.
const USABLE: f64 = 0.95;

pub(super) struct Mica;

impl Model for Mica {
    fn engine(&self) -> &'static str {
        "mica"
    }

    fn offer(&self) -> Offer {
        Offer { durable: false, ordered: false, value_bytes_max: 512 << 20 }
    }

    fn axes(&self, work: &Work<'_>, may_evict: bool) -> Vec<Axis> {
        let mean = (work.workload.entry_bytes().round() as u64).max(1);
        let eviction = if may_evict { vec![] } else { vec![NONE as u64] };
        vec![
            Axis { option: "eviction", values: eviction },
            Axis { option: "entry_bytes_mean", values: vec![mean] },
        ]
    }

    fn cost(&self, work: &Work<'_>, settings: Settings<'_>, calibration: &Calibration) -> Cost {
        let is_store = settings.value("eviction") == NONE;
        let index = if is_store { STORE_INDEX_BYTES } else { CACHE_INDEX_BYTES };
        let words = |bytes: f64| (bytes / 8.0).ceil() * 8.0;
        let values = work.workload.value_bytes.parts();
        let value: f64 = values.iter().map(|(size, share)| words(*size) * share).sum();
        let entry = HEADER_BYTES + words(work.key_bytes) + value;
        // A cache divides its memory by the usual entry: what it was told wrongly is lost.
        let told = HEADER_BYTES + words(settings.value("entry_bytes_mean"));
        let (index_part, log_part) = if is_store {
            (1.0, 1.0)
        } else {
            let part = index / (index + told);
            (part * (index + entry) / index, (1.0 - part) * (index + entry) / entry)
        };
        let room = settings.memory_bytes * USABLE / (index + entry);
        let entries = room * index_part.min(log_part).min(1.0);
        let lost = 1.0 - work.recent(entries);
        Cost {
            written: Vec::new(),
            index_bytes_per_key: index,
            memory_bytes_min: if is_store { work.keys * (index + entry) / USABLE } else { 0.0 },
            lost,
            processor: calibration.mica.among(work.keys.min(entries), 0.0),
            ..Cost::default()
        }
    }
}
