//! Operations on the whole store.

use crate::partition::{FrameSizes, Version};
use crate::silt::Silt;
use crate::state::{Edit, MAKER};
use silica_base::Result;
use silica_device::{Device, LogFile};
use silica_engine::{Admin, Checkpoint, Count};
use silica_parts::cuckoo::CuckooTable;
use silica_parts::manifest;
use silica_parts::store_log::Piece;
use std::fmt::Write;
use std::sync::Arc;

/// Stores of fewer entries are counted exactly even when that was not asked for.
const COUNT_ALWAYS_ENTRIES: u64 = 100_000;

impl<D: Device> Admin for Silt<D> {
    fn count(&self, exact: bool) -> Result<Count> {
        let sizes = self.partitions.sizes();
        if exact || sizes.entries() < COUNT_ALWAYS_ENTRIES {
            return self.reads.count_exactly();
        }
        Ok(self.partitions.count_from(&sizes))
    }

    fn estimate(&self) -> Result<Count> {
        Ok(self.partitions.count_from(&self.partitions.sizes()))
    }

    fn clear(&self) -> Result<()> {
        let mut conversion = self.scheduler.conversions.hold();
        let mut merge = self.scheduler.merges.hold();
        self.scheduler.conversions.give_up(&mut conversion);
        self.scheduler.merges.give_up(&mut merge);
        let mut writer = self.intake.writer.lock().expect("no panic while held");
        self.journal.log.check()?;
        let end = self.journal.log.end();
        self.journal.edit(&[Edit::Clear(end)])?;
        let mut files = Vec::new();
        for partition in self.partitions.iter() {
            let mut stores = partition.write();
            files.extend(stores.version.store_names());
            let seed = writer.next_table_seed();
            stores.active = CuckooTable::new(*stores.active.geometry(), seed);
            stores.sizes = FrameSizes::default();
            stores.version = Arc::new(Version {
                frozen: Vec::new(),
                hash_stores: Vec::new(),
                sorted_store: None,
                floor: end,
                epoch: stores.version.epoch + 1,
            });
        }
        let values = self.journal.values.seal();
        drop(writer);
        files.iter().try_for_each(|name| self.ground.device.remove(name))?;
        self.scheduler.reclaims.clear(&values)?;
        self.partitions.release_log()
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        // No file goes away while these are held.
        let _conversion = self.scheduler.conversions.hold();
        let _merge = self.scheduler.merges.hold();
        let _upkeep = self.scheduler.reclaims.hold();
        let mut cut = {
            let _writer = self.intake.writer.lock().expect("no panic while held");
            self.journal.cut()
        };
        self.journal.sync_log()?;
        for partition in self.partitions.iter() {
            partition.version().store_names().try_for_each(|name| target.immutable(&name))?;
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
        self.ground.set_memory_bytes(bytes);
        self.journal.log.set_segment_bytes(self.ground.segment_bytes());
    }

    fn inspect(&self) -> Result<String> {
        let mut out = String::new();
        let mut line = |name: &str, value: String| {
            writeln!(out, "{name}: {value}").expect("writing to a string");
        };
        line("partitions", self.partitions.len().to_string());
        line("tag bits", self.ground.config.shape.tag_bits.to_string());
        line("log end", self.journal.log.end().to_string());
        for segment in self.journal.log.segments().iter() {
            let name = format!("log segment {}", segment.number);
            let value = format!(
                "{} of {} bytes from {}",
                segment.log.len(),
                segment.capacity,
                segment.start
            );
            line(&name, value);
        }
        for (index, partition) in self.partitions.iter().enumerate() {
            let (active, slots, version) = {
                let stores = partition.read();
                (stores.active.len(), stores.active.slots(), stores.version.clone())
            };
            let hash: Vec<_> = version
                .hash_stores
                .iter()
                .map(|h| describe(h.reader().name(), h.footer()))
                .collect();
            let sorted: Vec<_> = version
                .sorted_store
                .iter()
                .map(|s| describe(s.reader().name(), s.footer()))
                .collect();
            let value = format!(
                "log {active} entries in {slots} slots, {} frozen, floor {}; hash [{}]; \
                 sorted [{}]",
                version.frozen.len(),
                version.floor,
                hash.join(", "),
                sorted.join(", ")
            );
            line(&format!("partition {index}"), value);
        }
        Ok(out)
    }
}

fn describe(name: &str, footer: &crate::packed::Footer) -> String {
    format!("{name} {} entries in {} chunks", footer.entries, footer.data_chunks)
}
