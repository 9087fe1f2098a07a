//! Taking in sorted files that were made elsewhere.
//!
//! 1. Files are copied into tables of the store's own, block by block checked, before anything
//!    changes. What is wrong with one is found then, and the tables go again.
//! 2. Their versions have one sequence number, the position of a mark in the log: above everything
//!    that was written and every snapshot that was taken before, below what comes behind. It stands
//!    in the manifest, since nobody knows it while the tables are written.
//! 3. The mark, the edit that names the tables, and the new versions of all buckets are made with
//!    the writer locked and nothing outside of tables: so no memtable hides what is ingested, and
//!    no snapshot is taken in between.
//! 4. The same edit raises every bucket's floor behind the mark. A record from before that came
//!    back into a memtable would hide what is ingested; and a join takes the lower one of two
//!    floors.

use crate::bucket::{Bucket, Frozen, Version};
use crate::deleted::DeletedRange;
use crate::flush::Flush;
use crate::job::Job;
use crate::metrics::add;
use crate::run::{Part, Run};
use crate::state::Edit;
use crate::table_files::VALUE_BYTES_MAX;
use crate::table_writer::TableWriter;
use crate::wip::{KEY_BYTES_MAX, Wip};
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::{Ingested, SortedFile};
use silica_parts::frame::POINTER;
use silica_parts::table::{Cursor, Table, UNNUMBERED, Version as Row};
use silica_parts::value_log::Garbage;
use silica_parts::wal::POSITION_BYTES;
use std::mem::take;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that a file is read ahead.
const READ_AHEAD_BYTES: usize = 1 << 20;
/// A table gets at most this part of the memory, in bytes and in what its keys take while their
/// filter is made.
const TABLE_PART: u64 = 8;
const BUILT_KEY_BYTES: u64 = 64;
/// Times that memtables are flushed while others write into them; then writes wait.
pub(crate) const ROUNDS: usize = 4;
/// Memtables of fewer bytes are flushed together.
const SMALL_BYTES: u64 = 1 << 20;

/// A file to be ingested, and the keys that it begins and ends with.
struct Source<D: Device> {
    shown: String,
    table: Arc<Table<D::File>>,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// Tables that are written and in no bucket yet; they go with this.
pub(crate) struct Written<'w, D: Device> {
    wip: &'w Wip<D>,
    parts: Vec<Part<D>>,
}

impl<D: Device> Drop for Written<'_, D> {
    fn drop(&mut self) {
        self.parts.iter().for_each(|part| self.wip.tables.remove_table(part.table.number));
    }
}

/// While this lives, nobody writes.
pub(crate) struct WritesHeld<'w, D: Device>(&'w Wip<D>);

impl<'w, D: Device> WritesHeld<'w, D> {
    pub(crate) fn new(wip: &'w Wip<D>) -> Self {
        wip.hold_writes(true);
        WritesHeld(wip)
    }
}

impl<D: Device> Drop for WritesHeld<'_, D> {
    fn drop(&mut self) {
        self.0.hold_writes(false);
    }
}

pub(crate) fn ingest_files<D: Device>(
    wip: &Wip<D>,
    files: &[SortedFile],
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Ingested> {
    let _one = wip.ingests.lock().expect("no panic while held");
    wip.log.check()?;
    let mut sources = files
        .iter()
        .map(|file| open_source(wip, file).map_err(|error| of_file(&file.shown, error)))
        .collect::<Result<Vec<Source<D>>>>()?;
    silica_base::compact_sort_by(&mut sources, |a, b| a.first.cmp(&b.first));
    if let Some(pair) = sources.windows(2).find(|pair| pair[0].last >= pair[1].first) {
        return Err(overlap(&pair[0], &pair[1]));
    }
    let all: u64 = sources.iter().map(|source| source.table.file_bytes()).sum();
    wip.refuse_if_short(all, None)?;
    let mut out = TablesOut::new(wip);
    let mut before = 0;
    for source in &sources {
        let bytes = source.table.file_bytes();
        let copied = copy(source, &mut out, &mut |share| {
            progress(before + (bytes as f64 * share) as u64, all);
        });
        copied.map_err(|error| of_file(&source.shown, error))?;
        before += bytes;
    }
    let footers = || sources.iter().map(|source| source.table.footer());
    let ingested = Ingested {
        files: files.len() as u64,
        entries: footers().map(|footer| footer.versions).sum(),
        bytes: footers().map(|footer| footer.key_bytes + footer.value_bytes).sum(),
    };
    let deletes = footers().map(|footer| footer.tombstones).sum();
    install(wip, out.written)?;
    progress(all, all);
    wip.metrics.count_write(ingested.entries - deletes, deletes, ingested.bytes);
    follow(wip, "an ingest");
    Ok(ingested)
}

/// What follows an install, which is `done` whatever becomes of this: the jobs find it again.
pub(crate) fn follow<D: Device>(wip: &Wip<D>, done: &str) {
    let followed = split_large(wip).and_then(|()| wip.release_log());
    if let Err(error) = followed {
        ::log::warn!("after {done}: {error}");
    }
    wip.share_memory(true);
    wip.space_context().look(0);
}

/// Splits buckets until none is too large: room on the device is kept for the largest of them.
fn split_large<D: Device>(wip: &Wip<D>) -> Result<()> {
    let is_large = |bucket: &&Arc<Bucket<D>>| {
        let from = bucket.split_from_bytes.load(Ordering::Relaxed);
        let live = bucket.read().version.shape().live_bytes();
        live > wip.config.policy.bucket_bytes_max.max(from)
    };
    while let Some(bucket) = wip.buckets().iter().find(is_large).cloned() {
        wip.do_now(&|| Some(Job::Split(Arc::clone(&bucket))))?;
    }
    Ok(())
}

/// Opens a file, and refuses what is no table of entries that were never written.
fn open_source<D: Device>(wip: &Wip<D>, file: &SortedFile) -> Result<Source<D>> {
    let table = Arc::new(Table::open_foreign(&*wip.device, &file.name)?);
    let footer = table.footer();
    // Files that are made to be ingested have no sequence numbers, and no least one.
    let is_foreign = footer.sequence_max > 0 || footer.sequence_base > 0 || footer.pointers > 0;
    if is_foreign {
        let message = "it is a file of a store, which cannot be understood without the others";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let mut cursor = table.cursor(0);
    let mut end = |to: fn(&mut Cursor<D::File>) -> Result<bool>| -> Result<Vec<u8>> {
        match to(&mut cursor)? {
            true => Ok(cursor.version().key.to_vec()),
            false => Err(Error::corruption(&file.name, 0, "a table without entries")),
        }
    };
    let (first, last) = (end(Cursor::seek_to_first)?, end(Cursor::seek_to_last)?);
    Ok(Source { shown: file.shown.clone(), table, first, last })
}

/// Copies a file into tables of this store, checking all of it.
fn copy<D: Device>(
    source: &Source<D>,
    out: &mut TablesOut<'_, D>,
    progress: &mut dyn FnMut(f64),
) -> Result<()> {
    let damaged = |detail: &str| Error::corruption(source.table.name(), 0, detail);
    let versions = source.table.footer().versions;
    let mut cursor = source.table.cursor(READ_AHEAD_BYTES);
    let mut more = cursor.seek_to_first()?;
    let mut count = 0u64;
    while more {
        let row = cursor.version();
        if out.last().is_some_and(|last| row.key <= last) {
            return Err(damaged("keys are not in order"));
        }
        check_row(&row)?;
        if out.add(&Row { sequence: UNNUMBERED, ..row })? {
            progress(count as f64 / versions.max(1) as f64);
        }
        count += 1;
        more = cursor.advance()?;
    }
    if count != versions {
        return Err(damaged("there are not as many entries as the footer says"));
    }
    out.end()
}

/// Flushes all memtables and lets the tables take their place in the buckets, which works where
/// nobody writes in between: so in the end writes wait.
fn install<D: Device>(wip: &Wip<D>, mut written: Written<'_, D>) -> Result<()> {
    for _ in 0..ROUNDS {
        flush_all(wip)?;
        if try_install(wip, &mut written, &[], &|| true)? == Installed::Done {
            return Ok(());
        }
    }
    let _held = WritesHeld::new(wip);
    loop {
        flush_all(wip)?;
        if try_install(wip, &mut written, &[], &|| true)? == Installed::Done {
            return Ok(());
        }
    }
}

/// Flushes everything that was written before the call.
pub(crate) fn flush_all<D: Device>(wip: &Wip<D>) -> Result<()> {
    let end = wip.log.end() / POSITION_BYTES;
    let is_old = |bucket: &Bucket<D>| {
        let stores = bucket.read();
        let is_old = stores.oldest().is_some_and(|oldest| oldest < end);
        (is_old && !stores.is_gone).then(|| stores.unflushed_bytes())
    };
    loop {
        let buckets = wip.buckets();
        let mut old: Vec<(&Arc<Bucket<D>>, u64)> = Vec::new();
        for bucket in buckets.iter() {
            old.extend(is_old(bucket).map(|bytes| (bucket, bytes)));
        }
        let Some((first, bytes)) = old.first().copied() else { return Ok(()) };
        let small = old.iter().filter(|(_, bytes)| *bytes < SMALL_BYTES);
        let chosen: Vec<_> = match bytes < SMALL_BYTES {
            true => small.map(|(bucket, _)| *bucket).collect(),
            false => vec![first],
        };
        wip.do_now(&|| {
            let mut frozen: Vec<Arc<Frozen>> = Vec::new();
            for bucket in &chosen {
                let one = wip.oldest_frozen(bucket);
                let Some(one) = one.filter(|_| !bucket.read().is_gone) else { continue };
                if !frozen.iter().any(|other| Arc::ptr_eq(other, &one)) {
                    frozen.push(one);
                }
            }
            if frozen.is_empty() { None } else { Flush::new(wip, frozen).map(Job::Flush) }
        })?;
    }
}

/// Whether an install was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installed {
    Done,
    /// Nothing has changed, because something is in no table.
    Unflushed,
    /// Nothing has changed, because it may not be done.
    Refused,
}

/// Puts the tables in front of all runs and deletes the ranges of `deleted`, which have no position
/// yet, below them. Asks with the writer locked, and nothing outside of tables, if it `may`.
pub(crate) fn try_install<D: Device>(
    wip: &Wip<D>,
    written: &mut Written<'_, D>,
    deleted: &[DeletedRange],
    may: &dyn Fn() -> bool,
) -> Result<Installed> {
    let front = |positions: &[u64]| {
        let position = positions[0];
        let deleted = deleted.iter().map(|range| DeletedRange { position, ..range.clone() });
        let mut run: Vec<Part<D>> = Vec::new();
        // From here on the manifest may name them.
        for mut part in written.parts.drain(..) {
            part.table = part.table.ingested(position)?;
            run.push(part);
        }
        let runs = vec![run.into_iter().collect()];
        Ok(Front { runs, deleted: deleted.collect(), is_owned: false })
    };
    try_install_front(wip, 1, front, may)
}

/// What is put in front of all runs.
pub(crate) struct Front<D: Device> {
    /// The newest first.
    pub(crate) runs: Vec<Run<D>>,
    pub(crate) deleted: Vec<DeletedRange>,
    /// Somebody else removes the tables if they are not installed.
    pub(crate) is_owned: bool,
}

/// As [`try_install`], what `front` makes of so many positions, which ascend. It is called once
/// nothing stands in the way; tables of an edit that fails are removed.
pub(crate) fn try_install_front<D: Device>(
    wip: &Wip<D>,
    positions: usize,
    front: impl FnOnce(&[u64]) -> Result<Front<D>>,
    may: &dyn Fn() -> bool,
) -> Result<Installed> {
    let guard = wip.lock_install();
    let mut writer = wip.writer.lock();
    let buckets = wip.buckets();
    if buckets.iter().any(|bucket| bucket.read().oldest().is_some()) {
        return Ok(Installed::Unflushed);
    }
    if !may() {
        return Ok(Installed::Refused);
    }
    let positions = (0..positions).map(|_| wip.mark(&mut writer)).collect::<Result<Vec<u64>>>()?;
    wip.sync_log()?;
    let end = wip.log.end() / POSITION_BYTES;
    let Front { runs, deleted, is_owned } = front(&positions)?;
    let versions: Vec<Version<D>> = (0..buckets.len())
        .map(|place| {
            let bucket = buckets.at(place);
            let before = bucket.read().version.clone();
            let upper = buckets.upper(place);
            let own = |run: &Run<D>| -> Run<D> {
                run.iter().filter_map(|part| part.within(&bucket.lower, upper)).collect()
            };
            let own = runs.iter().map(own).filter(|run| !run.is_empty());
            let runs: Vec<Run<D>> = own.chain(before.runs.iter().cloned()).collect();
            let mut ranges = before.deleted.clone();
            ranges.extend(deleted.iter().filter_map(|range| range.within(&bucket.lower, upper)));
            Version::new(runs, end, ranges).after(&before)
        })
        .collect();
    let states = buckets.iter().zip(&versions);
    let new = states.map(|(b, version)| (b.lower.clone(), Bucket::state(version))).collect();
    let history = wip.history_edit(end);
    let edit = Edit::Buckets { gone: Vec::new(), new };
    let edited = wip.edit_newest(history.as_slice());
    if let Err(error) = edited.and_then(|()| wip.edit_buckets(edit, &Garbage::default())) {
        after_failed_edit(wip, &runs, is_owned, error)?;
    }
    wip.begin_history(history.as_ref());
    for (bucket, version) in buckets.iter().zip(versions) {
        bucket.write().set_version(version);
    }
    drop((writer, guard));
    let bytes = runs.iter().flatten().map(|part| part.table.table.file_bytes()).sum();
    add(&wip.metrics.flush_bytes, bytes);
    Ok(Installed::Done)
}

/// Passes the error of an edit on that would have named the tables of `runs`, unless the edit is
/// there: then writing the manifest anew failed.
fn after_failed_edit<D: Device>(
    wip: &Wip<D>,
    runs: &[Run<D>],
    is_owned: bool,
    error: Error,
) -> Result<()> {
    let (named, is_known) = (wip.named_tables(), wip.is_state_known());
    let parts = || runs.iter().flatten();
    if is_known && parts().all(|part| named.contains(&part.table.number)) {
        ::log::warn!("an ingest: {error}");
        return Ok(());
    }
    if is_known && !is_owned {
        parts().for_each(|part| wip.tables.remove_table(part.table.number));
    }
    Err(error)
}

/// Tables that are written one after the other, of versions in the order of their keys.
pub(crate) struct TablesOut<'w, D: Device> {
    pub(crate) written: Written<'w, D>,
    output: Option<Output<D>>,
    /// The key of the last version.
    last: Option<Vec<u8>>,
    /// They may be the oldest ones of their buckets.
    may_be_oldest: bool,
    /// The runs that the last version is in front of, as they were, and the end of their bucket.
    older: Option<Bounded<D>>,
}

/// A bucket's version, and the end of the bucket.
type Bounded<D> = (Option<Vec<u8>>, Arc<Version<D>>);

fn is_before(key: &[u8], upper: Option<&[u8]>) -> bool {
    upper.is_none_or(|upper| key < upper)
}

impl<'w, D: Device> TablesOut<'w, D> {
    pub(crate) fn new(wip: &'w Wip<D>) -> Self {
        let written = Written { wip, parts: Vec::new() };
        TablesOut { written, output: None, last: None, may_be_oldest: true, older: None }
    }

    /// As [`TablesOut::new`], of tables that are asked for keys in vain before they are installed.
    pub(crate) fn in_front(wip: &'w Wip<D>) -> Self {
        TablesOut { may_be_oldest: false, ..TablesOut::new(wip) }
    }

    /// The tables, which are the caller's from now on.
    pub(crate) fn finish(mut self) -> Result<Vec<Part<D>>> {
        self.end()?;
        Ok(take(&mut self.written.parts))
    }

    fn last(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }

    /// Adds a version without a number; true if a table was full before it.
    pub(crate) fn add(&mut self, row: &Row<'_>) -> Result<bool> {
        let wip = self.written.wip;
        let part = wip.memory.bytes() / TABLE_PART;
        let was_full = self.output.as_ref().is_some_and(|output| output.is_full(part));
        if was_full {
            self.end()?;
        }
        let older = match self.older.take() {
            Some((upper, older)) if is_before(row.key, upper.as_deref()) => (upper, older),
            _ => {
                let buckets = wip.buckets();
                let place = buckets.place(row.key);
                let upper = buckets.upper(place).map(<[u8]>::to_vec);
                (upper, buckets.at(place).read().version.clone())
            }
        };
        let (_, version) = self.older.insert(older);
        let output = match &mut self.output {
            Some(output) => output,
            none => {
                let is_oldest = self.may_be_oldest && version.runs.is_empty();
                none.insert(Output::new(wip, row.key, is_oldest)?)
            }
        };
        output.writer.add(row, version.older())?;
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(row.key);
        Ok(was_full)
    }

    /// Makes the table durable that is being written, if any.
    pub(crate) fn end(&mut self) -> Result<()> {
        if let Some(output) = self.output.take() {
            let table = output.finish(self.written.wip, self.last.as_deref())?;
            self.written.parts.extend(table);
        }
        Ok(())
    }
}

/// A table that is being written.
struct Output<D: Device> {
    writer: TableWriter<D>,
    first: Vec<u8>,
}

impl<D: Device> Output<D> {
    fn new(wip: &Wip<D>, first: &[u8], is_oldest: bool) -> Result<Self> {
        let writer =
            wip.tables.begin_table(UNNUMBERED, is_oldest, wip.memory.has_reads(&wip.metrics))?;
        Ok(Output { writer, first: first.to_vec() })
    }

    fn is_full(&self, part: u64) -> bool {
        self.writer.bytes().max(self.writer.versions() * BUILT_KEY_BYTES) >= part
    }

    /// Makes it durable; it ends with the key `last`.
    fn finish(mut self, wip: &Wip<D>, last: Option<&[u8]>) -> Result<Option<Part<D>>> {
        let overlap = take(&mut self.writer.overlap);
        let Some(table) = self.writer.finish()? else { return Ok(None) };
        let bytes = table.table.file_bytes();
        wip.space.count(bytes);
        let dead_bytes = overlap.dead_bytes(bytes);
        // The first key after it.
        let upper = last.map(|last| [last, &[0]].concat());
        Ok(Some(Part::new(table, self.first, upper, 0, dead_bytes)))
    }
}

fn check_row(row: &Row<'_>) -> Result<()> {
    let (key, value) = (row.key.len(), row.value.len());
    if key <= KEY_BYTES_MAX && value <= VALUE_BYTES_MAX && row.flags & POINTER == 0 {
        return Ok(());
    }
    let message = format!(
        "the entry of key '{}' has a value of {value} bytes: the engine takes keys of \
         {KEY_BYTES_MAX} bytes and values of {VALUE_BYTES_MAX}",
        row.key[..key.min(64)].escape_ascii()
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}

/// An error of the file that the user calls `shown`.
fn of_file(shown: &str, error: Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::Corruption | ErrorKind::Unsupported => {
            "; nothing was ingested. Make the file again with `silica build-table`"
        }
        _ => "; nothing was ingested",
    };
    error.within(format_args!("ingesting {shown}{advice}"))
}

fn overlap<D: Device>(one: &Source<D>, other: &Source<D>) -> Error {
    let message = format!(
        "the files overlap: {} has keys up to '{}', {} from '{}' on; nothing was ingested. Ingest \
         them one after the other, the newer one last, or make one of both",
        one.shown,
        one.last.escape_ascii(),
        other.shown,
        other.first.escape_ascii()
    );
    Error::new(ErrorKind::Config, message)
}

#[cfg(test)]
#[path = "ingest_tests.rs"]
mod tests;
