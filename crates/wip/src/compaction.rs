//! Merging a bucket's runs into one.

use crate::bucket::{Bucket, Version};
use crate::merge::{Fate, Keeper, Merge};
use crate::run::Part;
use crate::run_cursor::RunCursor;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use std::sync::Arc;

/// Bytes that each run is read ahead.
const READ_AHEAD_BYTES: usize = 1 << 20;

impl<D: Device> Wip<D> {
    /// Merges all runs of a bucket into one; the bytes written.
    pub(crate) fn compact(&self, bucket: &Arc<Bucket<D>>) -> Result<u64> {
        let before = bucket.read().version.clone();
        let mut cursors = Vec::with_capacity(before.runs.len());
        for run in &before.runs {
            let mut cursor = RunCursor::new(run.clone(), READ_AHEAD_BYTES);
            cursor.seek_to_first()?;
            cursors.push(cursor);
        }
        let mut merge = Merge::new(cursors);
        let mut keeper = Keeper::new(self.live_snapshots(), true, self.clock.unix_ms());
        let written = self.write_table(1, &mut |builder| {
            while let Some(mut version) = merge.version() {
                match keeper.fate(&version) {
                    Fate::Drop => {}
                    Fate::Keep => builder.add(&version)?,
                    Fate::KeepAsOldest => {
                        version.sequence = 0;
                        builder.add(&version)?;
                    }
                }
                merge.advance()?;
            }
            Ok(())
        })?;
        let (run, bytes) = match written {
            Some((table, bytes)) => {
                (vec![vec![Part { table, lower: Vec::new(), upper: None }]], bytes)
            }
            None => (Vec::new(), 0),
        };
        self.install(bucket, Version { runs: run, floor: before.floor }, |_| ())?;
        Ok(bytes)
    }
}
