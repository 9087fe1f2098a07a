//! Counting, clearing, describing.

use crate::large::Held;
use crate::mica::Mica;
use crate::partition::Partition;
use silica_base::{Error, ErrorKind, Result};
use silica_engine::{Admin, Checkpoint, Count, Scan};

impl Admin for Mica {
    fn count(&self, exact: bool) -> Result<Count> {
        if exact {
            let mut entries = 0;
            self.scan(0, usize::MAX, &mut |_, _| entries += 1)?;
            return Ok(Count { low: entries, estimate: entries, high: entries });
        }
        // Entries that have expired are still among them.
        let entries = self.partitions.iter().map(|p| p.counts.entries.get()).sum();
        Ok(Count { low: 0, estimate: entries, high: entries })
    }

    fn clear(&self) -> Result<()> {
        let _locked = self.lock_all_to_clear()?;
        if let Some(home) = &self.home {
            home.forget().map_err(|error| error.within("removing the memory image"))?;
        }
        self.partitions.iter().for_each(Partition::clear);
        Ok(())
    }

    fn checkpoint(&self, _target: &mut dyn Checkpoint) -> Result<()> {
        let message = "a keyspace in memory has no files to back up; keep what must last in a \
                       keyspace of engine silt";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    fn close(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
        let Some(home) = &self.home else { return Ok(()) };
        let locked = self.lock_all()?;
        self.tidy_remains(locked.mask, Held::locked(locked.mask));
        match home.leave(self, progress) {
            Ok(bytes) => {
                locked.close();
                log::info!("left a memory image of {bytes} bytes");
                Ok(())
            }
            Err((error, is_named)) => {
                if is_named {
                    locked.close();
                }
                Err(error.within("leaving the memory image"))
            }
        }
    }

    fn save(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<bool> {
        let Some(home) = &self.home else { return Ok(false) };
        let locked = self.lock_all()?;
        self.tidy_remains(locked.mask, Held::locked(locked.mask));
        let left = home.leave(self, progress);
        let bytes = left.map_err(|(error, _)| error.within("saving the memory image"))?;
        log::info!("saved a memory image of {bytes} bytes");
        Ok(true)
    }

    fn inspect(&self) -> Result<String> {
        let sum = |of: fn(&crate::partition::Partition) -> u64| -> u64 {
            self.partitions.iter().map(of).sum()
        };
        let limits = &self.descriptor.limits;
        Ok(format!(
            "partitions: {}\nmemory_bytes: {}\nindex_bytes: {}\nlog_bytes: {}\nlive_bytes: {}\n\
             reserved_page_bytes: {}\nentries: {}\nvalue_bytes_max: {}\n",
            self.partitions.len(),
            self.memory_bytes,
            sum(|p| p.index().bytes() as u64),
            sum(|p| p.log().bytes() as u64),
            8 * sum(|p| p.counts.live_words.get()),
            self.reserved_bytes(),
            sum(|p| p.counts.entries.get()),
            limits.value_bytes_max,
        ))
    }
}
