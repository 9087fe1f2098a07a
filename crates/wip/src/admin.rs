//! Operations on the whole store.

use crate::bucket::{Bucket, Stores, Version};
use crate::buckets::Buckets;
use crate::count::{count_entries, estimate_entries};
use crate::inspect::describe;
use crate::names::table_name;
use crate::snapshot::position_now;
use crate::state::{Edit, MAKER};
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{Admin, Checkpoint, Count, Durability};
use silica_parts::manifest::{self, Ledger};
use silica_parts::store_log::Piece;
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
        let history = self.history_edit(position_now(self));
        let edit = history.as_slice();
        self.spread_poison(self.edit_newest(edit))?;
        self.spread_poison(self.edit_buckets(Edit::Clear(floor), &Garbage::default()))?;
        // Who read something before is to see that it has changed, also where nothing was written
        // since the last flush.
        let mut version = Version::new(Vec::new(), floor, Vec::new());
        version.ceiling = floor + 1;
        let before = self.buckets();
        let first = Arc::new(Bucket::new(Vec::new(), Stores::new(Arc::new(version))));
        self.take_over(Buckets::new(vec![first]), before.iter());
        self.metrics.sub_unflushed(self.metrics.unflushed_bytes());
        self.begin_history(history.as_ref());
        let garbage = self.values.seal();
        drop((writer, guard));
        self.clear_values(&mut values, &garbage, floor)?;
        drop(values);
        self.release_log()
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        let _keeper = self.tables.keep_files();
        let mut cut = {
            let _writer = self.writer.lock();
            self.cut()
        };
        self.sync_log()?;
        for number in cut.state.tables() {
            target.immutable(&table_name(number))?;
        }
        cut.copy(&mut |piece| match piece {
            Piece::Whole(name) => target.immutable(name),
            Piece::Bytes(name, bytes) => target.piece(name, bytes),
        })?;
        for (name, bytes) in manifest::files(MAKER, &cut.state.encode()) {
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
