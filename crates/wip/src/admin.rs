//! Operations on the whole store.

use crate::bucket::{Bucket, Stores, Version};
use crate::buckets::Buckets;
use crate::count::{count_entries, estimate_entries};
use crate::inspect::describe;
use crate::names::table_name;
use crate::state::{Edit, MAKER};
use crate::values::checkpoint_values;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::{Device, LogFile};
use silica_engine::{Admin, Checkpoint, Count, Durability};
use silica_parts::manifest::{self, Ledger};
use silica_parts::value_log::Garbage;
use silica_parts::wal::POSITION_BYTES;
use std::sync::Arc;

impl<D: Device> Admin for Wip<D> {
    fn count(&self, exact: bool) -> Result<Count> {
        count_entries(self, exact)
    }

    fn estimate(&self) -> Result<Count> {
        Ok(estimate_entries(self))
    }

    fn clear(&self) -> Result<()> {
        let mut values = self.value_jobs.lock();
        // No table of what was there may come after the edit.
        let guard = self.lock_install();
        let writer = self.writer.lock();
        self.log.check()?;
        if self.snapshots.newest() > 0 {
            // They go on seeing what they see.
            drop((writer, guard, values));
            let all = self.delete_keys(Vec::new(), None, Durability::Synced);
            return self.spread_poison(all);
        }
        let floor = self.log.end() / POSITION_BYTES;
        self.spread_poison(self.edit_buckets(Edit::Clear(floor), &Garbage::default()))?;
        // Who read something before is to see that it has changed, also where nothing was written
        // since the last flush.
        let mut version = Version::new(Vec::new(), floor, Vec::new());
        version.ceiling = floor + 1;
        let before = self.buckets();
        let first = Arc::new(Bucket::new(Vec::new(), Stores::new(Arc::new(version))));
        self.take_over(Buckets::new(vec![first]), before.iter());
        self.metrics.sub_unflushed(self.metrics.unflushed_bytes());
        self.begin_history();
        let garbage = self.values.seal();
        drop((writer, guard));
        self.clear_values(&mut values, &garbage, floor)?;
        drop(values);
        self.release_log()
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        let _keeper = self.tables.keep_files();
        let (state, segments, lens, values) = {
            let _writer = self.writer.lock();
            // In this order: what the state says needs no segment that is not in the list.
            let segments = self.log.segments();
            let mut state = self.book.lock().expect("no panic while held").state().clone();
            state.log_segments.retain(|number| segments.iter().any(|s| s.number == *number));
            state.durable_end = state.durable_end.max(self.log.end_of_records());
            let lens: Vec<u64> = segments.iter().map(|s| s.log.len()).collect();
            let values = self.values.segments();
            // One that is only named has no value yet that anything points at.
            state.values.segments.retain(|number| values.iter().any(|s| s.number == *number));
            (state, segments, lens, values)
        };
        self.sync_log()?;
        for number in state.tables() {
            target.immutable(&table_name(number))?;
        }
        for (segment, len) in segments.iter().zip(lens) {
            if state.log_segments.contains(&segment.number) {
                segment.copy(len, &mut |name, bytes| target.piece(name, bytes))?;
            }
        }
        checkpoint_values::<D>(&values, &state, target)?;
        for (name, bytes) in manifest::files(MAKER, &state.encode()) {
            target.piece(&name, &bytes)?;
        }
        Ok(())
    }

    fn set_memory_bytes(&self, bytes: u64) {
        self.memory.set_bytes(bytes);
        self.log.set_segment_bytes(self.config.segment_bytes(bytes));
        self.share_memory(true);
    }

    fn inspect(&self) -> Result<String> {
        describe(self)
    }
}
