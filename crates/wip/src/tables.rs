//! The files of a store's tables: their names and ids, the cache of their blocks, how a new one is
//! begun, and when files are removed.

use crate::names::{table_id, table_name};
use crate::options::Config;
use crate::run::{Part, Run};
use crate::run_cursor::RunCursor;
use crate::table_writer::TableWriter;
use silica_base::{HashSeed, Result};
use silica_device::{Device, Lifetime};
use silica_parts::table::{TableBuilder, TableOptions};
use silica_parts::{BlockCache, Buffers};
use std::collections::BTreeSet;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Blocks of a part, at its ends, that may have no key of its range: every key of one between them
/// is in the range.
const END_BLOCKS: usize = 2;

/// Files that go when nobody keeps them any more.
#[derive(Debug, Default)]
struct Removals {
    /// How many keep all files.
    keepers: usize,
    names: Vec<String>,
}

/// While this lives, no file is removed.
pub(crate) struct FilesKept<'t, D: Device>(&'t TableSet<D>);

impl<D: Device> Drop for FilesKept<'_, D> {
    fn drop(&mut self) {
        let mut removals = self.0.lock_removals();
        removals.keepers -= 1;
        let gone = if removals.keepers == 0 { mem::take(&mut removals.names) } else { Vec::new() };
        drop(removals);
        gone.iter().for_each(|name| self.0.remove_file(name));
    }
}

/// See the module's documentation.
pub(crate) struct TableSet<D: Device> {
    device: Arc<D>,
    config: Arc<Config>,
    seed: HashSeed,
    store_id: u64,
    /// Blocks of all tables.
    pub(crate) cache: Arc<BlockCache>,
    /// Of tables that are written.
    buffers: Arc<Buffers>,
    next_number: AtomicU64,
    /// Files to be removed, while somebody needs them all.
    removals: Mutex<Removals>,
}

impl<D: Device> TableSet<D> {
    /// Of a store whose next table has number `next`; `buffers_bytes` is for buffers that no table
    /// has in use.
    pub(crate) fn new(
        device: Arc<D>,
        config: Arc<Config>,
        (store_id, seed): (u64, HashSeed),
        next: u64,
        buffers_bytes: u64,
    ) -> Self {
        let cache = Arc::new(BlockCache::new(0, config.memory_bytes));
        let buffers = Buffers::new(TableBuilder::<D::File>::BUFFER_BYTES, buffers_bytes);
        TableSet {
            device,
            config,
            seed,
            store_id,
            cache,
            buffers: Arc::new(buffers),
            next_number: AtomicU64::new(next),
            removals: Mutex::default(),
        }
    }

    /// Begins a table whose sequence numbers but 0 are at least `sequence_base`. It becomes a
    /// bucket's oldest run or, asked for in vain more often, one before that. With `is_read_soon`
    /// its blocks go into the cache: those that nobody reads soon would only be in the way.
    pub(crate) fn begin_table(
        &self,
        sequence_base: u64,
        is_oldest: bool,
        is_read_soon: bool,
    ) -> Result<TableWriter<D>> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let options = TableOptions {
            block_bytes: self.config.block_bytes,
            sequence_base,
            filter_bits: self.config.filter_bits(is_oldest),
            compression: self.config.compression,
            seed: self.seed,
            lifetime: if is_oldest { Lifetime::Long } else { Lifetime::Medium },
        };
        let id = table_id(self.store_id, number);
        let name = table_name(number);
        let builder = TableBuilder::create(&*self.device, &name, id, &options)
            .inspect_err(|_| self.remove_file(&name))?;
        let builder = if is_read_soon { builder.through(&self.cache) } else { builder };
        let builder = builder.with_buffers(&self.buffers);
        let mistakes = 0.5f64.powi(self.config.filter_bits(true) as i32);
        Ok(TableWriter::new(Arc::clone(&self.device), number, builder, mistakes))
    }

    /// True if it is known that a part has no entry. Whoever has such a part has no need of its
    /// table, and would keep the whole file. Reads at most two blocks, those at the ends of the
    /// part's range, and none if there are others between them.
    pub(crate) fn is_empty_part(&self, part: &Part<D>) -> bool {
        if part.blocks().len() > END_BLOCKS {
            return false;
        }
        let run = Run::from_iter([part.clone()]);
        let has_entry = RunCursor::new(run, 0).through(&self.cache).seek_to_first();
        !has_entry.unwrap_or_else(|error| {
            ::log::debug!("looking for entries of a part of a table: {error}");
            true
        })
    }

    /// Takes the blocks of those tables of `runs` out of the cache that are not `named` any more.
    pub(crate) fn forget_blocks(&self, runs: &[Run<D>], named: &BTreeSet<u64>) {
        let gone = runs.iter().flatten().filter(|part| !named.contains(&part.table.number));
        for table in gone.map(|part| &part.table.table) {
            (0..table.blocks()).for_each(|block| self.cache.remove(table.id(block)));
        }
    }

    fn lock_removals(&self) -> MutexGuard<'_, Removals> {
        self.removals.lock().expect("no panic while held")
    }

    /// Keeps all files, also those that nothing names any more.
    pub(crate) fn keep_files(&self) -> FilesKept<'_, D> {
        self.lock_removals().keepers += 1;
        FilesKept(self)
    }

    /// Removes a table that nothing names.
    pub(crate) fn remove_table(&self, number: u64) {
        self.remove_file(&table_name(number));
    }

    /// Removes a file that nothing names, once nobody keeps files; where that fails, the next open
    /// does it.
    pub(crate) fn remove_file(&self, name: &str) {
        let mut removals = self.lock_removals();
        if removals.keepers > 0 {
            removals.names.push(name.to_owned());
            return;
        }
        drop(removals);
        if let Err(error) = self.device.remove(name) {
            ::log::debug!("removing {name}: {error}");
        }
    }
}
