//! Walking everything and checking every invariant.

use crate::packed::READ_AHEAD_BYTES;
use crate::position::expand;
use crate::silt::Silt;
use crate::state::StoreState;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_parts::frame::Frame;
use silica_parts::{value_log, wal};

impl<D: Device> Silt<D> {
    /// Checks tables, stores and the files that the manifest names; the error says what is wrong
    /// and where.
    pub(crate) fn verify_store(&self) -> Result<()> {
        // No file goes away while these are held.
        let _conversion = self.scheduler.conversions.hold();
        let _merge = self.scheduler.merges.hold();
        let _upkeep = self.scheduler.reclaims.hold();
        self.verify_files()?;
        for index in 0..self.partitions.len() {
            self.verify_tables(index)?;
            let version = self.partitions[index].version();
            version.hash_stores.iter().try_for_each(|store| store.verify())?;
            version.sorted_store.iter().try_for_each(|store| store.verify())?;
        }
        self.reads.walk(0, READ_AHEAD_BYTES, &mut |_, frame| {
            if frame.is_pointer() {
                self.reads.with_value(frame, &mut |_| {})?;
            }
            Ok(true)
        })?;
        Ok(())
    }

    /// Every file that the manifest names is there, and the open stores are those it names.
    fn verify_files(&self) -> Result<()> {
        let state = self.journal.with_state(StoreState::clone);
        let names = self.ground.device.list()?;
        let missing = |name: String| {
            let message = format!("{name} is missing although the manifest names it");
            Err(Error::new(ErrorKind::Corruption, message))
        };
        for number in &state.log_segments {
            let name = wal::name(*number);
            if !names.contains(&name) {
                return missing(name);
            }
        }
        for number in &state.values.segments {
            let name = value_log::name(*number);
            if !names.contains(&name) {
                return missing(name);
            }
        }
        let open =
            self.partitions.iter().flat_map(|p| p.version().store_names().collect::<Vec<_>>());
        for name in open {
            if !names.contains(&name) {
                return missing(name);
            }
        }
        Ok(())
    }

    /// Every slot of the log stores points at an entry of the right partition that a lookup
    /// finds.
    fn verify_tables(&self, index: usize) -> Result<()> {
        let stores = self.partitions[index].read();
        let (segments, log_end) = (self.journal.log.segments(), self.journal.log.end());
        let frozen = stores.version.frozen.iter().map(|f| &f.table);
        for table in std::iter::once(&stores.active).chain(frozen) {
            for (slot, _, short) in table.occupied_in(0..table.geometry().buckets()) {
                let at = expand(log_end, short);
                let wrong = |detail: &str| {
                    let message = format!("partition {index}, slot {slot}, log position {at}");
                    Err(Error::corruption(message, at, detail))
                };
                let Some((frame, _)) = segments.bytes_from(at).and_then(Frame::decode) else {
                    return wrong("it points at no entry");
                };
                let hash = self.ground.hash(frame.key);
                if self.ground.partition_index(hash) != index {
                    return wrong("its entry belongs to another partition");
                }
                if !table.candidates(hash).any(|(found, _)| found == slot) {
                    return wrong("its entry would not be found");
                }
            }
        }
        Ok(())
    }
}
