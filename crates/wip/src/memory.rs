//! The memory number, and who gets what of it: the log's window first, then the memtables'
//! directories, the tables' indexes and filters and the buffers of jobs, each as much as it needs;
//! the block cache takes what is left, and gives way as the others grow.

use crate::wip::Wip;
use silica_device::Device;
use silica_engine::MetricVisitor;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// A part of the memory that is for jobs' buffers: reading ahead, writing, filters to be built.
const JOBS_PART: u64 = 16;

/// What takes memory besides the block cache.
#[derive(Debug, Default, Clone, Copy)]
struct Taken {
    log: u64,
    directories: u64,
    tables: u64,
}

impl<D: Device> Wip<D> {
    fn taken(&self) -> Taken {
        let mut taken = Taken { log: self.log.mapped_bytes(), ..Taken::default() };
        let mut tables = BTreeMap::new();
        for bucket in self.buckets().iter() {
            let stores = bucket.read();
            taken.directories += stores.directory_bytes();
            for part in stores.version.runs.iter().flatten() {
                tables.insert(part.table.number, part.table.table.memory_bytes() as u64);
            }
        }
        taken.tables = tables.values().sum();
        taken
    }

    /// Gives the block cache what the others leave.
    pub(crate) fn share_memory(&self) {
        let memory = self.memory_bytes.load(Ordering::Relaxed);
        let taken = self.taken();
        let others = taken.log + taken.directories + taken.tables + memory / JOBS_PART;
        self.cache.set_bytes_max(memory.saturating_sub(others));
    }

    pub(crate) fn report_memory(&self, visitor: &mut dyn MetricVisitor) {
        let taken = self.taken();
        for (name, value) in [
            ("block_cache_hits", self.cache.hits()),
            ("block_cache_misses", self.cache.misses()),
            ("block_cache_bytes", self.cache.bytes()),
            ("block_cache_bytes_max", self.cache.bytes_max()),
            ("memtable_index_bytes", taken.directories),
            ("table_index_bytes", taken.tables),
            ("index_bytes", taken.directories + taken.tables),
            ("log_bytes", taken.log),
            ("memory_budget_bytes", self.memory_bytes.load(Ordering::Relaxed)),
        ] {
            visitor.metric(name, value as f64);
        }
    }
}
