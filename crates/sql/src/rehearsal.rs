//! Statements that are run and not kept, to count what they ask the engine for.
//!
//! The engine is behind a layer that counts; what a commit would write is counted and dropped. So
//! a statement goes the way that it always goes, and the store stays as it is.

use crate::database::Database;
use crate::failure::{Failure, Result, code};
use crate::keyspaces::{Keyspaces, is_database};
use crate::sql::{Sql, SqlError};
use silica::engine::transaction::CommitTurns;
use silica::engine::{
    Engine, EntryIter, GetSink, Intent, IterateOptions, Layer, OpKind, Ordered, RangeSize, Reads,
    Snapshot,
};
use silica::{Durability, EntryRef, Error, ErrorKind, KeyRange, Keyspace, WriteBatch};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What statements have asked an engine for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Asked {
    /// Keys that were looked up.
    pub gets: u64,
    /// Of these, those that were there.
    pub hits: u64,
    /// Searches for a place in the order of keys.
    pub seeks: u64,
    /// Entries that were come to by searches and by steps from them.
    pub entries: u64,
    /// Bytes of keys and values that gets and entries had.
    pub bytes_read: u64,
    /// Entries written.
    pub puts: u64,
    /// Keys deleted.
    pub deletes: u64,
    /// Ranges of keys deleted at once.
    pub ranges: u64,
    /// Bytes of keys and values written.
    pub bytes_written: u64,
    /// Batches committed.
    pub commits: u64,
}

impl Asked {
    /// What came since `before`.
    pub fn since(&self, before: &Asked) -> Asked {
        Asked {
            gets: self.gets - before.gets,
            hits: self.hits - before.hits,
            seeks: self.seeks - before.seeks,
            entries: self.entries - before.entries,
            bytes_read: self.bytes_read - before.bytes_read,
            puts: self.puts - before.puts,
            deletes: self.deletes - before.deletes,
            ranges: self.ranges - before.ranges,
            bytes_written: self.bytes_written - before.bytes_written,
            commits: self.commits - before.commits,
        }
    }
}

/// The numbers of [`Asked`], as they are counted.
#[derive(Debug, Default)]
struct Counters {
    gets: AtomicU64,
    hits: AtomicU64,
    seeks: AtomicU64,
    entries: AtomicU64,
    bytes_read: AtomicU64,
    puts: AtomicU64,
    deletes: AtomicU64,
    ranges: AtomicU64,
    bytes_written: AtomicU64,
    commits: AtomicU64,
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Relaxed);
}

/// A connection whose statements are counted and not kept.
pub struct Rehearsal {
    /// The connection.
    pub sql: Sql,
    counters: Arc<Counters>,
}

impl Rehearsal {
    /// On the database in `keyspace`, which nobody may write to meanwhile; `keyspaces` are those
    /// that its statements may read as tables.
    ///
    /// # Errors
    /// `CANTOPEN` if the keyspace is no database.
    pub fn on(keyspace: &Keyspace, keyspaces: Arc<dyn Keyspaces>) -> Result<Self> {
        if !is_database(&**keyspace.engine())? {
            let words = format!("keyspace '{}' is no database of SQL", keyspace.name());
            return Err(Failure::new(code::CANTOPEN, words));
        }
        let counters = Arc::<Counters>::default();
        let engine = Arc::clone(keyspace.engine());
        let counted = Counted { engine, counters: Arc::clone(&counters) };
        // What is put aside would be counted, and not be there.
        let database = Database::with_batches_of(Arc::new(counted), usize::MAX)?;
        let keyspaces = Arc::new(ReadOnly(keyspaces));
        let opened = Sql::to(&database, keyspaces, keyspace.name());
        let sql = opened.map_err(|SqlError { code, message }| Failure::new(code, message))?;
        Ok(Rehearsal { sql, counters })
    }

    /// What its statements have asked for so far.
    pub fn asked(&self) -> Asked {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let counters = &self.counters;
        Asked {
            gets: of(&counters.gets),
            hits: of(&counters.hits),
            seeks: of(&counters.seeks),
            entries: of(&counters.entries),
            bytes_read: of(&counters.bytes_read),
            puts: of(&counters.puts),
            deletes: of(&counters.deletes),
            ranges: of(&counters.ranges),
            bytes_written: of(&counters.bytes_written),
            commits: of(&counters.commits),
        }
    }
}

/// Keyspaces that are not written to.
struct ReadOnly(Arc<dyn Keyspaces>);

fn not_written() -> Error {
    let message = "a statement that is only counted does not write keyspaces";
    Error::new(ErrorKind::ReadOnly, message)
}

impl Keyspaces for ReadOnly {
    fn find(&self, name: &str, is_to_write: bool) -> silica::Result<Option<Arc<dyn Engine>>> {
        if is_to_write { Err(not_written()) } else { self.0.find(name, false) }
    }

    fn create(&self, _: &str) -> silica::Result<Arc<dyn Engine>> {
        Err(not_written())
    }

    fn names(&self) -> silica::Result<Vec<String>> {
        self.0.names()
    }
}

/// The layer that counts.
struct Counted {
    engine: Arc<dyn Engine>,
    counters: Arc<Counters>,
}

impl Layer for Counted {
    type Inner = dyn Engine;

    fn inner(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    fn write(&self, batch: &WriteBatch<'_>, _: Durability) -> silica::Result<()> {
        self.counters.note_batch(batch);
        Ok(())
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        let ordered = Arc::clone(&self.engine).as_ordered()?;
        Some(Arc::new(CountedOrder { ordered, counters: Arc::clone(&self.counters) }))
    }
}

impl Counters {
    fn note_batch(&self, batch: &WriteBatch<'_>) {
        add(&self.commits, 1);
        for op in batch.ops() {
            let bytes = match op.kind {
                OpKind::Put(entry) => {
                    add(&self.puts, 1);
                    op.key.len() + entry.value.len()
                }
                OpKind::Delete => {
                    add(&self.deletes, 1);
                    op.key.len()
                }
                OpKind::DeleteRange(upper) => {
                    add(&self.ranges, 1);
                    op.key.len() + upper.map_or(0, <[u8]>::len)
                }
            };
            add(&self.bytes_written, bytes);
        }
    }
}

struct CountedOrder {
    ordered: Arc<dyn Ordered>,
    counters: Arc<Counters>,
}

impl Ordered for CountedOrder {
    fn snapshot(self: Arc<Self>) -> silica::Result<Arc<dyn Snapshot>> {
        let snapshot = Arc::clone(&self.ordered).snapshot()?;
        Ok(Arc::new(CountedMoment { snapshot, counters: Arc::clone(&self.counters) }))
    }

    fn delete_range(&self, _: &KeyRange, _: Durability) -> silica::Result<()> {
        add(&self.counters.ranges, 1);
        Ok(())
    }

    fn commit(
        &self,
        _: &dyn Snapshot,
        _: Reads<'_>,
        batch: &WriteBatch<'_>,
        _: Durability,
    ) -> silica::Result<bool> {
        self.counters.note_batch(batch);
        Ok(true)
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        self.ordered.commit_turns()
    }

    fn sync_commits(&self) -> silica::Result<()> {
        Ok(())
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        self.ordered.range_size(range)
    }

    fn compact_range(&self, _: &KeyRange) -> silica::Result<()> {
        Ok(())
    }
}

struct CountedMoment {
    snapshot: Arc<dyn Snapshot>,
    counters: Arc<Counters>,
}

/// Counts what is found, and passes it on.
struct Found<'s, 'c> {
    sink: &'s mut dyn GetSink,
    counters: &'c Counters,
}

impl GetSink for Found<'_, '_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        add(&self.counters.hits, 1);
        add(&self.counters.bytes_read, entry.value.len());
        self.sink.found(index, entry);
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        self.sink.wants(index, bytes)
    }
}

impl Snapshot for CountedMoment {
    fn sequence(&self) -> u64 {
        self.snapshot.sequence()
    }

    fn unix_ms(&self) -> u64 {
        self.snapshot.unix_ms()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> silica::Result<()> {
        self.get_many_with(keys, Intent::default(), sink)
    }

    fn get_many_with(
        &self,
        keys: &[&[u8]],
        intent: Intent,
        sink: &mut dyn GetSink,
    ) -> silica::Result<()> {
        add(&self.counters.gets, keys.len());
        let mut found = Found { sink, counters: &self.counters };
        self.snapshot.get_many_with(keys, intent, &mut found)
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> silica::Result<Box<dyn EntryIter>> {
        self.iterate_with(range, IterateOptions::default())
    }

    fn iterate_with(
        self: Arc<Self>,
        range: &KeyRange,
        options: IterateOptions,
    ) -> silica::Result<Box<dyn EntryIter>> {
        let entries = Arc::clone(&self.snapshot).iterate_with(range, options)?;
        Ok(Box::new(CountedEntries { entries, counters: Arc::clone(&self.counters) }))
    }
}

struct CountedEntries {
    entries: Box<dyn EntryIter>,
    counters: Arc<Counters>,
}

impl CountedEntries {
    fn arrive(&self, is_there: bool) -> silica::Result<bool> {
        if is_there {
            add(&self.counters.entries, 1);
            let bytes = self.entries.key().len() + self.entries.entry().value.len();
            add(&self.counters.bytes_read, bytes);
        }
        Ok(is_there)
    }

    fn sought(&self, is_there: bool) -> silica::Result<bool> {
        add(&self.counters.seeks, 1);
        self.arrive(is_there)
    }
}

impl EntryIter for CountedEntries {
    fn seek_to_first(&mut self) -> silica::Result<bool> {
        let is_there = self.entries.seek_to_first()?;
        self.sought(is_there)
    }

    fn seek_to_last(&mut self) -> silica::Result<bool> {
        let is_there = self.entries.seek_to_last()?;
        self.sought(is_there)
    }

    fn seek(&mut self, key: &[u8]) -> silica::Result<bool> {
        let is_there = self.entries.seek(key)?;
        self.sought(is_there)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> silica::Result<bool> {
        let is_there = self.entries.seek_for_prev(key)?;
        self.sought(is_there)
    }

    fn next(&mut self) -> silica::Result<bool> {
        let is_there = self.entries.next()?;
        self.arrive(is_there)
    }

    fn prev(&mut self) -> silica::Result<bool> {
        let is_there = self.entries.prev()?;
        self.arrive(is_there)
    }

    fn key(&self) -> &[u8] {
        self.entries.key()
    }

    fn entry(&self) -> EntryRef<'_> {
        self.entries.entry()
    }
}
