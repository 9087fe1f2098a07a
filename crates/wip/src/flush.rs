//! Background work: which bucket is next, and from memtables to tables.

use crate::bucket::{Bucket, Frozen, LogEntries, Version};
use crate::files::{table_id, table_name};
use crate::memtable::Entries;
use crate::merge::{Fate, Keeper};
use crate::run::{Numbered, Part};
use crate::state::Edit;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{Budget, Progress};
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::{Table, TableBuilder, TableOptions, Version as Row};
use silica_parts::wal::{self, POSITION_BYTES};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is to be done next.
enum Job<D: Device> {
    Flush(Arc<Bucket<D>>),
    Compact(Arc<Bucket<D>>),
    Split(Arc<Bucket<D>>),
}

impl<D: Device> Wip<D> {
    /// Does the most urgent piece of background work.
    pub(crate) fn run_job(&self, _budget: Budget) -> Result<Progress> {
        let job = self.job.lock().expect("no panic while held");
        let bytes = match self.next_job() {
            None => return Ok(Progress::default()),
            Some(Job::Flush(bucket)) => self.flush(&bucket)?,
            Some(Job::Compact(bucket)) => self.compact(&bucket)?,
            Some(Job::Split(bucket)) => {
                // Where it has too few keys for that, it is compacted.
                if self.split(&bucket)? { 0 } else { self.compact(&bucket)? }
            }
        };
        self.release_log()?;
        self.share_memory();
        drop(job);
        Ok(Progress { bytes, more: self.next_job().is_some() })
    }

    fn next_job(&self) -> Option<Job<D>> {
        let buckets = self.buckets();
        let is_long = self.log.mapped_bytes() > self.log_bytes_max();
        if is_long {
            // The one that holds the log's tail.
            let has_some = |bucket: &&Arc<Bucket<D>>| bucket.read().unflushed_bytes() > 0;
            let oldest = buckets.iter().filter(has_some).min_by_key(|b| b.read().version.floor);
            if let Some(oldest) = oldest {
                return Some(Job::Flush(Arc::clone(oldest)));
            }
        }
        let frozen = buckets.iter().find(|bucket| !bucket.read().frozen.is_empty());
        let is_full = self.unflushed_bytes.load(Ordering::Relaxed) > self.memtable_bytes_max();
        let largest = || buckets.iter().max_by_key(|bucket| bucket.read().unflushed_bytes());
        if let Some(bucket) = frozen.or_else(|| largest().filter(|_| is_full)) {
            return Some(Job::Flush(Arc::clone(bucket)));
        }
        let most = buckets.iter().max_by_key(|bucket| bucket.read().version.runs.len())?;
        let version = most.read().version.clone();
        if version.runs.len() < self.config.runs_max {
            return None;
        }
        let is_large = version.bytes() > self.config.bucket_bytes_max;
        let most = Arc::clone(most);
        Some(if is_large { Job::Split(most) } else { Job::Compact(most) })
    }

    /// Writes the oldest memtable of a bucket to a table; the bytes written.
    pub(crate) fn flush(&self, bucket: &Arc<Bucket<D>>) -> Result<u64> {
        let Some(frozen) = self.oldest_frozen(bucket) else { return Ok(0) };
        let before = bucket.read().version.clone();
        let (part, bytes) = match self.write_frozen(&frozen)? {
            Some((table, bytes)) => (Some(Part { table, lower: Vec::new(), upper: None }), bytes),
            None => (None, 0),
        };
        let mut runs = before.runs.clone();
        runs.splice(0..0, part.map(|part| vec![part]));
        let version = Version { runs, floor: frozen.end };
        // A batch of several buckets is not to survive in the tables of one alone.
        self.sync_log()?;
        self.install(bucket, version, |stores| drop(stores.frozen.pop()))?;
        self.unflushed_bytes.fetch_sub(frozen.bytes, Ordering::Relaxed);
        Ok(bytes)
    }

    fn oldest_frozen(&self, bucket: &Arc<Bucket<D>>) -> Option<Arc<Frozen>> {
        if let Some(frozen) = bucket.read().frozen.last() {
            return Some(Arc::clone(frozen));
        }
        // Nobody writes meanwhile, so the log's end is the memtable's.
        let writer = self.writer.lock().expect("no panic while held");
        let mut stores = bucket.write();
        if !stores.active.is_empty() {
            stores.freeze(self.log.end() / POSITION_BYTES);
        }
        drop(writer);
        stores.frozen.last().cloned()
    }

    fn write_frozen(&self, frozen: &Frozen) -> Result<Option<(Numbered<D>, u64)>> {
        let segments = self.log.segments();
        let entries = LogEntries(&segments);
        let positions = frozen.order(&entries);
        if positions.is_empty() {
            return Ok(None);
        }
        let base = positions.iter().copied().min().unwrap_or(1);
        self.write_table(base, &mut |builder| {
            let mut keeper = Keeper::new(self.live_snapshots(), false, 0);
            for position in positions.iter() {
                let frame = entries.entry(*position);
                let version = Row {
                    key: frame.key,
                    sequence: *position,
                    flags: frame.flags & (TOMBSTONE | POINTER),
                    expires_unix_ms: frame.expires_unix_ms,
                    user_bits: frame.user_bits,
                    value: frame.value,
                };
                if keeper.fate(&version) != Fate::Drop {
                    builder.add(&version)?;
                }
            }
            Ok(())
        })
    }

    /// Writes a table of what `fill` adds; `None` where that is nothing.
    pub(crate) fn write_table(
        &self,
        sequence_base: u64,
        fill: &mut dyn FnMut(&mut TableBuilder<D::File>) -> Result<()>,
    ) -> Result<Option<(Numbered<D>, u64)>> {
        let number = self.next_file_number();
        let name = table_name(number);
        let options = TableOptions {
            block_bytes: self.config.block_bytes,
            sequence_base,
            filter_bits: self.config.filter_bits,
            seed: self.seed,
        };
        let written = self.fill_table(&name, number, &options, fill);
        if !matches!(written, Ok(Some(_))) {
            self.remove_quietly(&name);
        }
        let Some(table) = written? else { return Ok(None) };
        let bytes = table.file_bytes();
        Ok(Some((Numbered { number, table: Arc::new(table) }, bytes)))
    }

    fn fill_table(
        &self,
        name: &str,
        number: u64,
        options: &TableOptions,
        fill: &mut dyn FnMut(&mut TableBuilder<D::File>) -> Result<()>,
    ) -> Result<Option<Table<D::File>>> {
        let id = table_id(self.store_id, number);
        let mut builder = TableBuilder::create(&*self.device, name, id, options)?;
        fill(&mut builder)?;
        if builder.versions() == 0 {
            return Ok(None);
        }
        let table = builder.finish()?;
        self.device.sync_dir()?;
        Ok(Some(table))
    }

    /// Gives a bucket another version, durably, and removes tables that no bucket needs any more.
    /// `also` changes what else becomes visible at the same time.
    pub(crate) fn install(
        &self,
        bucket: &Bucket<D>,
        version: Version<D>,
        also: impl FnOnce(&mut crate::bucket::Stores<D>),
    ) -> Result<()> {
        let new = vec![(bucket.lower.clone(), Bucket::state(&version))];
        self.edit_buckets(Edit::Buckets { gone: Vec::new(), new })?;
        let mut stores = bucket.write();
        stores.version = Arc::new(version);
        also(&mut stores);
        Ok(())
    }

    /// Makes an edit of buckets, and removes the tables that nobody needs any more.
    pub(crate) fn edit_buckets(&self, edit: Edit) -> Result<()> {
        let tables = || self.book.lock().expect("no panic while held").state().tables();
        let before = tables();
        self.edit(&[edit])?;
        for number in before.difference(&tables()) {
            self.remove_quietly(&table_name(*number));
        }
        Ok(())
    }

    /// Removes log segments that no bucket needs.
    pub(crate) fn release_log(&self) -> Result<()> {
        // In this order: what is written meanwhile lies behind.
        let end = self.log.end() / POSITION_BYTES;
        let buckets = self.buckets();
        let floors = buckets.iter().map(|bucket| {
            let stores = bucket.read();
            if stores.unflushed_bytes() == 0 { end } else { stores.version.floor }
        });
        let floor = floors.min().unwrap_or(end);
        let removed = self.log.release_below(floor * POSITION_BYTES);
        let Some(last) = removed.last() else { return Ok(()) };
        self.edit(&[Edit::ReleaseLog(last + 1)])?;
        for number in removed {
            self.remove_quietly(&wal::name(number));
        }
        Ok(())
    }
}
