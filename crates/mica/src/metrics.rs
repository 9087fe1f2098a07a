//! Counters.

use crate::mica::Mica;
use crate::partition::{Counts, Partition, Tally};
use crate::store::Store;
use silica_engine::MetricVisitor;

impl Mica {
    pub(crate) fn report_metrics(&self, visitor: &mut dyn MetricVisitor) {
        let sum = |of: fn(&Counts) -> &Tally| -> u64 {
            self.partitions.iter().map(|p| of(&p.counts).get()).sum()
        };
        let (gets, hits) = (self.gets.sum(|g| &g.gets), self.gets.sum(|g| &g.hits));
        let (gets, hits) = (gets + sum(|c| &c.gets_owned), hits + sum(|c| &c.hits_owned));
        let (from_log, from_index) = (sum(|c| &c.evicted_from_log), sum(|c| &c.evicted_from_index));
        let index: u64 = self.partitions.iter().map(|p| p.index().bytes() as u64).sum();
        let log: u64 = self.partitions.iter().map(|p| p.log().bytes() as u64).sum();
        // Spare buckets that came out of a store's space.
        let spare_words = |p: &Partition| if self.is_store { p.store().spare_words() } else { 0 };
        let spares: u64 = 8 * self.partitions.iter().map(spare_words).sum::<u64>();
        let (index, log) = (index + spares, log - spares);
        let entries = sum(|c| &c.entries);
        let live = 8 * sum(|c| &c.live_words).min(log / 8);
        let used_words = |p: &Partition| if self.is_store { 0 } else { p.log().used_words() };
        let used = 8 * self.partitions.iter().map(used_words).sum::<u64>();
        let used = used.clamp(live, log);
        for (name, value) in [
            ("gets", gets),
            ("get_hits", hits),
            ("puts", sum(|c| &c.puts)),
            ("deletes", sum(|c| &c.deletes)),
            ("user_bytes_written", sum(|c| &c.user_bytes)),
            ("log_bytes_written", 8 * sum(|c| &c.words_appended)),
            ("updates_in_place", sum(|c| &c.updates_in_place)),
            ("entries_moved", sum(|c| &c.moved)),
            ("evictions", from_log + from_index),
            ("evictions_from_log", from_log),
            ("evictions_from_index", from_index),
            ("expirations", sum(|c| &c.expired)),
            ("entries_estimate", entries),
            ("partitions", self.partitions.len() as u64),
            ("index_bytes", index),
            ("log_bytes", log),
            ("live_bytes", live),
            ("free_bytes", log - used),
            ("dead_bytes", used - live),
            ("reserved_page_bytes", self.reserved_bytes()),
            ("management_bytes", self.management_bytes()),
            ("memory_budget_bytes", self.memory_bytes),
        ] {
            visitor.metric(name, value as f64);
        }
        if self.is_store {
            self.report_space(log - live, visitor);
        }
        visitor.metric("index_bytes_per_key", index as f64 / entries.max(1) as f64);
        visitor.metric("hit_ratio", hits as f64 / gets.max(1) as f64);
    }

    /// Memory in pages that the system has reserved.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.partitions.iter().map(|p| p.reserved_bytes() as u64).sum()
    }

    /// Memory that is neither index nor log.
    fn management_bytes(&self) -> u64 {
        let store = if self.is_store { size_of::<Store>() } else { 0 };
        (self.partitions.len() * (size_of::<Partition>() + store)) as u64
    }

    /// How the space of a store is used.
    fn report_space(&self, free_bytes: u64, visitor: &mut dyn MetricVisitor) {
        let free = free_bytes / 8;
        let largest = |p: &Partition| p.store().largest_free(p.log().words()) as u64;
        let sum: u64 = self.partitions.iter().map(largest).sum();
        let most = self.partitions.iter().map(largest).max().unwrap_or(0);
        let returned: u64 = self.partitions.iter().map(|p| p.store().pages().away_bytes()).sum();
        visitor.metric("returned_bytes", returned as f64);
        visitor.metric("largest_free_bytes", 8.0 * most as f64);
        visitor.metric("fragmentation", 1.0 - (sum as f64 / free.max(1) as f64).min(1.0));
    }
}
