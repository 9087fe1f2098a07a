//! Writes of a transaction that does not fit into its memory: tables of the store's own that no
//! manifest names, so a crash leaves nothing of them.
//!
//! 1. A layer is a run of tables, or a range that is deleted of everything below it. Runs that do
//!    not meet become one; as many of one size as [`MERGED`] are merged into one of the next size.
//!    So an entry is written once if it comes in order, and the number of runs stays small.
//! 2. The commit installs all layers as an ingest does (`ingest.rs`): each gets a mark in the log
//!    for its position, in their order, and one edit of the manifest names all tables. Nothing is
//!    written once more.
//! 3. Large values go to the value log as those of any write do. Their segments are kept until the
//!    commit, which syncs them with its marks.
//! 4. Tables belong to whoever has their layer: the staging, or a transaction that reads above it.
//!    They go with the last of them, unless they were installed.

use crate::deleted::DeletedRange;
use crate::ingest::{
    Front, Installed, ROUNDS, TablesOut, WritesHeld, flush_all, follow, try_install_front,
};
use crate::merge::Merge;
use crate::run::Run;
use crate::run_cursor::RunCursor;
use crate::staged_layer::{Layer, Owned, StagedRun};
use crate::staged_view::StagedView;
use crate::wip::Wip;
use silica_base::{Error, Result};
use silica_device::Device;
use silica_engine::{EntryRef, Snapshot, StagedWrite, Staging};
use silica_parts::frame::{Frame, POINTER, TOMBSTONE};
use silica_parts::table::{UNNUMBERED, Version as Row};
use silica_parts::value_log::{Kept, Stored};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs of one size that are merged into one: each costs a get a look at its filter.
const MERGED: usize = 8;
/// The part of the memory that all runs of a merge share for reading ahead; and each one's, at
/// least and at most.
const READ_AHEAD_PART: u64 = 8;
const READ_AHEAD_BYTES_MIN: u64 = 8 << 10;
const READ_AHEAD_BYTES_MAX: u64 = 256 << 10;
/// The part of the memory that filters of layers take: those of the largest runs go first.
const FILTERS_PART: u64 = 16;
/// Times that memtables are flushed while writes wait: nothing moves then, so once is enough.
const HELD_ROUNDS: usize = 8;

/// See the module's documentation.
pub(crate) struct Staged<D: Device> {
    wip: Arc<Wip<D>>,
    /// The newest last.
    layers: Vec<Layer<D>>,
    protected: usize,
}

impl<D: Device> Staged<D> {
    pub(crate) fn new(wip: Arc<Wip<D>>) -> Self {
        Staged { wip, layers: Vec::new(), protected: 0 }
    }

    /// Writes tables of `writes`.
    fn write<'w>(
        &self,
        writes: &mut dyn Iterator<Item = StagedWrite<'w>>,
    ) -> Result<Option<StagedRun<D>>> {
        let wip = &*self.wip;
        let mut out = TablesOut::in_front(wip);
        // Garbage, with an error.
        let mut owned = self.owned();
        let mut last: &[u8] = b"";
        for (key, entry) in writes {
            let large = entry.filter(|entry| entry.value.len() > wip.config.inline_value_bytes_max);
            let stored = match large {
                Some(entry) => wip.store_values([Some((key, entry.value))].into_iter())?,
                None => Stored::default(),
            };
            let added = out.add(&row_of(key, entry, stored.pointer(0)));
            owned.values.add(stored);
            added?;
            last = key;
        }
        let parts = out.finish()?;
        owned.tables = parts.iter().map(|part| part.table.number).collect();
        let (run, owners): (Run<D>, _) = (parts.into_iter().collect(), vec![Arc::new(owned)]);
        Ok((!run.is_empty()).then(|| StagedRun { run, owners, last: last.to_vec(), size: 0 }))
    }

    fn owned(&self) -> Owned<D> {
        let (wip, is_over) = (Arc::clone(&self.wip), AtomicBool::new(false));
        Owned { wip, tables: Vec::new(), values: Kept::default(), is_over }
    }

    /// Puts a run behind the newest layer, or makes one of both if the keys of `run` are all behind
    /// those of that layer.
    fn push(&mut self, run: StagedRun<D>) {
        let own = self.layers.len() > self.protected;
        if let Some(Layer::Run(newest)) = self.layers.last().filter(|_| own)
            && newest.last < run.run[0].lower
        {
            // Each part of a run ends right behind its last key.
            let run = StagedRun {
                run: newest.run.iter().chain(&run.run).cloned().collect(),
                owners: newest.owners.iter().chain(&run.owners).cloned().collect(),
                last: run.last,
                size: newest.size,
            };
            self.layers.pop();
            self.layers.push(Layer::Run(Arc::new(run)));
        } else {
            self.layers.push(Layer::Run(Arc::new(run)));
        }
    }

    /// The newest runs that are of one size, if they are enough to be merged.
    fn to_merge(&self) -> Option<Vec<Arc<StagedRun<D>>>> {
        let own = self.layers[self.protected..].iter().rev();
        let mut runs: Vec<Arc<StagedRun<D>>> = Vec::new();
        for layer in own {
            let Layer::Run(run) = layer else { break };
            if runs.last().is_some_and(|newer| newer.size != run.size) {
                break;
            }
            runs.push(Arc::clone(run));
        }
        (runs.len() >= MERGED).then_some(runs)
    }

    fn merge_runs(&mut self) -> Result<()> {
        while let Some(runs) = self.to_merge() {
            let merged = self.merge(&runs)?;
            self.layers.truncate(self.layers.len() - runs.len());
            self.layers.push(Layer::Run(Arc::new(merged)));
        }
        self.unload_filters()
    }

    /// One run of several, the newest first.
    fn merge(&self, runs: &[Arc<StagedRun<D>>]) -> Result<StagedRun<D>> {
        let wip = &*self.wip;
        let ahead = wip.memory.bytes() / READ_AHEAD_PART / runs.len() as u64;
        let ahead = ahead.clamp(READ_AHEAD_BYTES_MIN, READ_AHEAD_BYTES_MAX) as usize;
        let mut cursors = Vec::with_capacity(runs.len());
        for run in runs {
            let mut cursor = RunCursor::new(run.run.clone(), ahead).through(&wip.tables.cache);
            cursor = cursor.keeping(false);
            cursor.seek_to_first()?;
            cursors.push(cursor);
        }
        let (mut merge, mut out) = (Merge::new(cursors), TablesOut::in_front(wip));
        let (mut last, mut is_first) = (Vec::new(), true);
        let mut superseded = silica_parts::value_log::Garbage::default();
        while let Some(version) = merge.version() {
            if is_first || *version.key != *last {
                out.add(&version)?;
                last.clear();
                last.extend_from_slice(version.key);
                is_first = false;
            } else if version.flags & POINTER != 0 {
                superseded.add(version.value);
            }
            merge.advance()?;
        }
        let parts = out.finish()?;
        let mut owned = self.owned();
        owned.tables = parts.iter().map(|part| part.table.number).collect();
        for before in runs.iter().flat_map(|run| &run.owners) {
            owned.values.add_all(&before.values);
        }
        owned.values.records.subtract(&superseded);
        wip.values.note(&superseded);
        for before in runs.iter().flat_map(|run| &run.owners) {
            // Their values are the new one's. A reader that has the old tables still reads them:
            // a file that is open stays.
            before.is_over.store(true, Ordering::Relaxed);
            before.tables.iter().for_each(|number| wip.tables.remove_table(*number));
        }
        let size = runs[0].size + 1;
        let (run, owners) = (parts.into_iter().collect(), vec![Arc::new(owned)]);
        Ok(StagedRun { run, owners, last, size })
    }

    /// Drops the filters of the largest runs until the others' fit into their part of the memory.
    fn unload_filters(&mut self) -> Result<()> {
        let bytes_max = self.wip.memory.bytes() / FILTERS_PART;
        let bytes = |layer: &Layer<D>| match layer {
            Layer::Run(run) => run.filter_bytes(),
            Layer::Deleted(_) => 0,
        };
        while self.layers.iter().map(bytes).sum::<u64>() > bytes_max {
            let largest = self.layers.iter_mut().max_by_key(|layer| bytes(layer));
            let Some(Layer::Run(run)) = largest else { break };
            *run = Arc::new(run.unfiltered()?);
        }
        Ok(())
    }

    /// All layers with their positions, which ascend.
    fn front(&self, positions: &[u64]) -> Result<Front<D>> {
        let (mut runs, mut deleted) = (Vec::new(), Vec::new());
        for (layer, position) in self.layers.iter().zip(positions) {
            match layer {
                Layer::Deleted(range) => {
                    deleted.push(DeletedRange { position: *position, ..(**range).clone() });
                }
                Layer::Run(run) => {
                    let mut parts = Vec::with_capacity(run.run.len());
                    for part in &run.run {
                        let table = part.table.clone().ingested(*position)?;
                        parts.push(part.in_table(table));
                    }
                    runs.push(parts.into_iter().collect::<Run<D>>());
                }
            }
        }
        runs.reverse();
        Ok(Front { runs, deleted, is_owned: true })
    }

    fn install(&self) -> Result<()> {
        let wip = &*self.wip;
        let _one = wip.ingests.lock().expect("no panic while held");
        wip.log.check()?;
        let mut held = None;
        for round in 0..ROUNDS + HELD_ROUNDS {
            if round == ROUNDS {
                held = Some(WritesHeld::new(wip));
            }
            flush_all(wip)?;
            let front = |positions: &[u64]| self.front(positions);
            if try_install_front(wip, self.layers.len(), front, &|| true)? == Installed::Done {
                return Ok(());
            }
        }
        drop(held);
        let message = "the store's memtables were never empty while writes waited; commit again";
        Err(Error::new(silica_base::ErrorKind::Busy, message))
    }

    fn owners(&self) -> impl Iterator<Item = &Arc<Owned<D>>> {
        self.layers.iter().flat_map(|layer| match layer {
            Layer::Run(run) => &run.owners[..],
            Layer::Deleted(_) => &[],
        })
    }
}

/// What a write is in a table.
fn row_of<'w>(key: &'w [u8], entry: Option<EntryRef<'w>>, pointer: Option<&'w [u8]>) -> Row<'w> {
    let frame = match entry {
        None => Frame::tombstone(key),
        Some(entry) => Frame {
            flags: if pointer.is_some() { POINTER } else { 0 },
            expires_unix_ms: entry.expires_unix_ms,
            user_bits: entry.user_bits,
            key,
            value: pointer.unwrap_or(entry.value),
        },
    };
    Row {
        key,
        sequence: UNNUMBERED,
        flags: frame.flags & (TOMBSTONE | POINTER),
        expires_unix_ms: frame.expires_unix_ms,
        user_bits: frame.user_bits,
        value: frame.value,
    }
}

impl<D: Device> Staging for Staged<D> {
    fn put<'w>(
        &mut self,
        put_bytes: u64,
        writes: &mut dyn Iterator<Item = StagedWrite<'w>>,
    ) -> Result<()> {
        self.wip.log.check()?;
        if put_bytes > 0 {
            self.wip.refuse_if_short(put_bytes, None)?;
        }
        let written = self.write(writes);
        if let Some(run) = self.wip.spread_poison(written)? {
            self.push(run);
            let merged = self.merge_runs();
            // What is written is there, merged or not.
            merged.unwrap_or_else(|error| log::warn!("merging what is put aside: {error}"));
        }
        Ok(())
    }

    fn delete_range(&mut self, lower: &[u8], upper: Option<&[u8]>) {
        if upper.is_some_and(|upper| upper <= lower) {
            return;
        }
        let (lower, upper) = (lower.to_vec(), upper.map(<[u8]>::to_vec));
        self.layers.push(Layer::Deleted(Arc::new(DeletedRange { lower, upper, position: 0 })));
    }

    fn layers(&self) -> usize {
        self.layers.len()
    }

    fn protect(&mut self, layers: usize) {
        self.protected = layers;
    }

    fn roll_back_to(&mut self, layers: usize) {
        self.layers.truncate(layers);
        self.protected = self.protected.min(layers);
    }

    fn over(&self, below: Arc<dyn Snapshot>) -> Arc<dyn Snapshot> {
        Arc::new(StagedView::new(Arc::clone(&self.wip), &self.layers, below))
    }

    fn commit(&mut self) -> Result<()> {
        if !self.layers.is_empty() {
            let installed = self.install();
            // What the manifest may name must not go.
            if installed.is_ok() || !self.wip.is_state_known() {
                self.owners().for_each(|owned| owned.is_over.store(true, Ordering::Relaxed));
            }
            self.wip.spread_poison(installed)?;
            let entries = |layer: &Layer<D>| match layer {
                Layer::Run(run) => run.run.iter().map(|part| part.table.table.footer()).fold(
                    (0, 0, 0),
                    |(puts, deletes, bytes), footer| {
                        let own = footer.versions - footer.tombstones;
                        let all = bytes + footer.key_bytes + footer.value_bytes;
                        (puts + own, deletes + footer.tombstones, all)
                    },
                ),
                Layer::Deleted(_) => (0, 1, 0),
            };
            for (puts, deletes, bytes) in self.layers.iter().map(entries) {
                self.wip.metrics.count_write(puts, deletes, bytes);
            }
            self.layers.clear();
            self.protected = 0;
            follow(&self.wip, "a commit of what was put aside");
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "staging_tests.rs"]
mod tests;
