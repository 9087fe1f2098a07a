//! Table files made of entries in any order, to be ingested into stores: an external sort.
//!
//! What comes in the order of its keys goes straight into the files. From the first key on that
//! does not, entries are collected in bounded memory, sorted and written to runs; in the end all
//! runs are merged. Of a key that comes several times, the last entry counts.

use crate::merge::Merge;
use crate::run::{Numbered, Part, Run};
use crate::run_cursor::RunCursor;
use crate::wip::KEY_BYTES_MAX;
use silica_base::{Error, ErrorKind, HashSeed, Result};
use silica_device::{Device, Lifetime};
use silica_engine::{EntryRef, SortedFiles, SortedFilesMade, SortedFilesOptions};
use silica_parts::table::{Compression, TableBuilder, TableOptions, Version};
use std::sync::Arc;

/// Longest value of a table file, where values are not apart.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a block at least, of files that a bulk load makes.
const BLOCK_BYTES: usize = 4096;
/// Runs that are merged at once; more are first merged into larger ones.
const RUNS_MAX: usize = 128;
/// What an entry takes in memory besides its bytes.
const ENTRY_COST_BYTES: usize = 128;
/// The part of the memory that all runs share for reading ahead; and each one's, at most and at
/// least.
const READ_AHEAD_PART: usize = 4;
const READ_AHEAD_BYTES_MAX: usize = 1 << 20;
const READ_AHEAD_BYTES_MIN: usize = 16 << 10;
/// Entries from one report of the progress to the next.
const REPORT_EVERY: u64 = 4096;

/// How files are made.
#[derive(Debug, Clone, Copy)]
pub struct TableFileOptions {
    /// Memory for what is sorted.
    pub memory_bytes: usize,
    /// A file that has so many bytes is followed by another.
    pub file_bytes: u64,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Bytes of a block at least.
    pub block_bytes: usize,
    /// What tells these files from others.
    pub id: u64,
}

impl From<&SortedFilesOptions> for TableFileOptions {
    /// What every store of this engine can take in: blocks of the usual size, not compressed.
    fn from(options: &SortedFilesOptions) -> Self {
        TableFileOptions {
            memory_bytes: usize::try_from(options.memory_bytes).unwrap_or(usize::MAX),
            file_bytes: options.file_bytes,
            compression: Compression::None,
            block_bytes: BLOCK_BYTES,
            id: options.id,
        }
    }
}

/// Takes entries and makes files of them. After an error nothing in the directory is of any use.
pub struct TableFiles<D: Device> {
    device: Arc<D>,
    options: TableFileOptions,
    /// The last file number.
    files: u64,
    /// The newest last, each with the size of it as a power of [`RUNS_MAX`].
    runs: Vec<(u32, Run<D>)>,
    /// Entries that came in order: the last one waits for another of the same key.
    first: Option<(RunWriter<D>, Owned)>,
    bytes: usize,
    pending: Vec<Owned>,
}

#[derive(Debug, Clone, Default)]
struct Owned {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Owned {
    fn new(key: &[u8], entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Owned { key: key.to_vec(), value: value.to_vec(), expires_unix_ms, user_bits }
    }

    fn set(&mut self, key: &[u8], entry: EntryRef<'_>) {
        key.clone_into(&mut self.key);
        entry.value.clone_into(&mut self.value);
        (self.expires_unix_ms, self.user_bits) = (entry.expires_unix_ms, entry.user_bits);
    }

    fn version(&self) -> Version<'_> {
        Version {
            key: &self.key,
            sequence: 0,
            flags: 0,
            expires_unix_ms: self.expires_unix_ms,
            user_bits: self.user_bits,
            value: &self.value,
        }
    }
}

impl<D: Device> SortedFiles for TableFiles<D> {
    fn put(&mut self, key: &[u8], entry: EntryRef<'_>) -> Result<()> {
        TableFiles::put(self, key, entry)
    }

    fn finish(self: Box<Self>, progress: &mut dyn FnMut(u64, u64)) -> Result<SortedFilesMade> {
        TableFiles::finish(*self, progress)
    }
}

impl<D: Device> TableFiles<D> {
    /// Makes them on `device`, where nothing else is.
    pub fn new(device: Arc<D>, options: TableFileOptions) -> Self {
        let (runs, pending) = (Vec::new(), Vec::new());
        TableFiles { device, options, files: 0, runs, first: None, bytes: 0, pending }
    }

    /// Adds an entry.
    pub fn put(&mut self, key: &[u8], entry: EntryRef<'_>) -> Result<()> {
        check(key, entry.value)?;
        match &mut self.first {
            Some((writer, last)) if *key > *last.key => {
                writer.add(&last.version(), &mut self.files)?;
                last.set(key, entry);
                return Ok(());
            }
            Some((_, last)) if *key == *last.key => {
                last.set(key, entry);
                return Ok(());
            }
            Some(_) => self.end_first()?,
            None if self.runs.is_empty() && self.pending.is_empty() => {
                let writer = self.writer(self.options.file_bytes);
                self.first = Some((writer, Owned::new(key, entry)));
                return Ok(());
            }
            None => {}
        }
        self.bytes += key.len() + entry.value.len() + ENTRY_COST_BYTES;
        self.pending.push(Owned::new(key, entry));
        if self.bytes >= self.options.memory_bytes { self.spill() } else { Ok(()) }
    }

    /// Makes the files. `progress` is told of entries that are in them and of all that came.
    pub fn finish(mut self, progress: &mut dyn FnMut(u64, u64)) -> Result<SortedFilesMade> {
        if self.runs.is_empty() && self.pending.is_empty() {
            self.end_first()?;
            let Some((_, run)) = self.runs.pop() else { return Ok(SortedFilesMade::default()) };
            return Ok(self.made(&run));
        }
        self.spill()?;
        let runs: Vec<Run<D>> = std::mem::take(&mut self.runs).into_iter().map(|r| r.1).collect();
        let merged = self.merge(runs, self.options.file_bytes, progress)?;
        self.device.sync_dir()?;
        Ok(self.made(&merged))
    }

    fn made(&self, run: &Run<D>) -> SortedFilesMade {
        let tables = run.iter().map(|part| &part.table.table);
        SortedFilesMade {
            names: tables.clone().map(|table| table.name().to_owned()).collect(),
            entries: tables.map(|table| table.footer().versions).sum(),
        }
    }

    fn writer(&self, file_bytes: u64) -> RunWriter<D> {
        let (device, options) = (Arc::clone(&self.device), self.options);
        RunWriter { device, options, file_bytes, table: None, parts: Vec::new() }
    }

    /// What came in order is the oldest run.
    fn end_first(&mut self) -> Result<()> {
        let Some((mut writer, last)) = self.first.take() else { return Ok(()) };
        writer.add(&last.version(), &mut self.files)?;
        self.runs.push((0, writer.finish()?));
        Ok(())
    }

    /// Writes what is pending to a run.
    fn spill(&mut self) -> Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        self.bytes = 0;
        if pending.is_empty() {
            return Ok(());
        }
        // It keeps those of one key in the order in which they came.
        silica_base::compact_sort_by(&mut pending, |a, b| a.key.cmp(&b.key));
        let mut writer = self.writer(u64::MAX);
        for (at, entry) in pending.iter().enumerate() {
            if pending.get(at + 1).is_none_or(|next| next.key != entry.key) {
                writer.add(&entry.version(), &mut self.files)?;
            }
        }
        self.runs.push((0, writer.finish()?));
        self.merge_small()
    }

    /// Merges runs of one size where there are too many to be merged with others.
    fn merge_small(&mut self) -> Result<()> {
        while let Some((size, _)) = self.runs.last() {
            let size = *size;
            let count = self.runs.iter().rev().take_while(|(other, _)| *other == size).count();
            if count < RUNS_MAX {
                return Ok(());
            }
            let small = self.runs.split_off(self.runs.len() - count);
            let small = small.into_iter().map(|(_, run)| run).collect();
            let merged = self.merge(small, u64::MAX, &mut |_, _| {})?;
            self.runs.push((size + 1, merged));
        }
        Ok(())
    }

    /// Makes one run of several, the newest last, whose files go.
    fn merge(
        &mut self,
        runs: Vec<Run<D>>,
        file_bytes: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Run<D>> {
        let read_ahead = self.options.memory_bytes / READ_AHEAD_PART / runs.len().max(1);
        let read_ahead = read_ahead.clamp(READ_AHEAD_BYTES_MIN, READ_AHEAD_BYTES_MAX);
        let tables = || runs.iter().flatten().map(|part| &part.table.table);
        let all = tables().map(|table| table.footer().versions).sum();
        let mut cursors = Vec::with_capacity(runs.len());
        for run in runs.iter().rev() {
            let mut cursor = RunCursor::new(run.clone(), read_ahead);
            cursor.seek_to_first()?;
            cursors.push(cursor);
        }
        let (mut merge, mut writer) = (Merge::new(cursors), self.writer(file_bytes));
        let (mut last, mut done) = (None::<Vec<u8>>, 0);
        while let Some(version) = merge.version() {
            if last.as_deref() != Some(version.key) {
                writer.add(&version, &mut self.files)?;
                last.get_or_insert_default().clear();
                last.as_mut().expect("just made").extend_from_slice(version.key);
            }
            done += 1;
            if done % REPORT_EVERY == 0 {
                progress(done, all);
            }
            merge.advance()?;
        }
        let merged = writer.finish()?;
        drop(merge);
        tables().try_for_each(|table| self.device.remove(table.name()))?;
        Ok(merged)
    }
}

/// Writes a run to files.
struct RunWriter<D: Device> {
    device: Arc<D>,
    options: TableFileOptions,
    file_bytes: u64,
    /// The file in hand, its number and its first key.
    table: Option<(TableBuilder<D::File>, u64, Vec<u8>)>,
    parts: Vec<Part<D>>,
}

impl<D: Device> RunWriter<D> {
    fn add(&mut self, version: &Version<'_>, files: &mut u64) -> Result<()> {
        if self.table.as_ref().is_some_and(|(table, ..)| table.bytes() >= self.file_bytes) {
            self.end_file(Some(version.key))?;
        }
        if self.table.is_none() {
            *files += 1;
            let options = TableOptions {
                block_bytes: self.options.block_bytes,
                sequence_base: 0,
                // Stores make their own, under their own seeds.
                filter_bits: 0,
                compression: self.options.compression,
                seed: HashSeed([0; 16]),
                lifetime: Lifetime::Long,
            };
            let (name, id) = (format!("{files:06}"), self.options.id.wrapping_add(*files));
            let table = TableBuilder::create(&*self.device, &name, id, &options)?;
            self.table = Some((table, *files, version.key.to_vec()));
        }
        self.table.as_mut().expect("just made").0.add(version)
    }

    /// Ends the file in hand before the key `upper`.
    fn end_file(&mut self, upper: Option<&[u8]>) -> Result<()> {
        let Some((table, number, lower)) = self.table.take() else { return Ok(()) };
        let (table, upper) = (Numbered::new(number, table.finish()?), upper.map(<[u8]>::to_vec));
        self.parts.push(Part::new(table, lower, upper, 0, 0));
        Ok(())
    }

    fn finish(mut self) -> Result<Run<D>> {
        self.end_file(None)?;
        Ok(self.parts.into_iter().collect())
    }
}

fn check(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX && value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let message = format!(
        "a key of {} bytes and a value of {} bytes: at most {KEY_BYTES_MAX} and {VALUE_BYTES_MAX} \
         are allowed",
        key.len(),
        value.len()
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}
