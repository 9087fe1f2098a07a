//! All data of a primary that is Silica too, as blocks that come piece by piece, and what this
//! replica says that it has of it (docs/protocols/replication.md).

use super::apply::{Follower, refuse_database};
use super::load::{Load, Loaded, More, damaged};
use crate::replication::blocks::{Block, BlockReader, RANGES_MAX, RangeHash, Ranges};
use crate::replication::records::{Change, Changes};
use crate::replication::walk::each_range;
use silica::engine::{Durability, EntryIter, EntryRef, KeyRange, Result, Snapshot, WriteBatch};
use silica_base::HashSeed;
use silica_types::is_inner;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of keys and values that are copied at a time.
const BATCH_BYTES: usize = 1 << 20;

/// Where a range is that this replica has.
struct Place {
    first: Box<[u8]>,
    entries: u64,
}

/// Where the last range was copied: the next one begins there, if it is copied, too.
struct Copied {
    db: u8,
    iterator: Box<dyn EntryIter>,
    is_there: bool,
}

/// What a replica has, as of one moment: it holds the snapshots that it was read from.
#[derive(Default)]
pub struct Summary {
    snapshots: BTreeMap<u8, Arc<dyn Snapshot>>,
    places: BTreeMap<(u8, RangeHash), Place>,
}

impl Summary {
    /// What the primary is told of it.
    pub fn encode(&self) -> Vec<u8> {
        let ranges: Vec<(u8, RangeHash)> = self.places.keys().copied().collect();
        Ranges::encode(&ranges)
    }

    /// Ranges that it names.
    pub fn ranges(&self) -> usize {
        self.places.len()
    }
}

impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary").field("ranges", &self.ranges()).finish_non_exhaustive()
    }
}

impl Follower {
    /// What this replica has, cut into ranges under `seed`. Costs a read of all data in databases
    /// that can be copied from while they are replaced: durable ones with snapshots. `goes_on` is
    /// asked for each range.
    ///
    /// # Errors
    /// Those of `goes_on` and of reading.
    pub fn summarize(
        &self,
        seed: [u8; 16],
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Summary> {
        let databases = &self.service.databases;
        let mut summary = Summary::default();
        for (db, _) in databases.held()? {
            let Some(engine) = databases.whole(db).map(Arc::clone) else { continue };
            if !engine.descriptor().capabilities.durable {
                continue;
            }
            let Some(ordered) = engine.as_ordered() else { continue };
            let (db, snapshot) = (db as u8, ordered.snapshot()?);
            each_range(&snapshot, (HashSeed(seed), true), &mut |_, _| {}, &mut |range| {
                goes_on()?;
                if summary.places.len() < RANGES_MAX {
                    let place = Place { first: range.first[..].into(), entries: range.entries };
                    summary.places.insert((db, range.hash()), place);
                }
                Ok(())
            })?;
            summary.snapshots.insert(db, snapshot);
        }
        Ok(summary)
    }

    /// Takes the data of blocks in the place of all that the databases hold, as
    /// [`Follower::load`] does with an RDB file; ranges that `summary` has named are copied.
    ///
    /// # Errors
    /// As those of [`Follower::load`].
    pub fn load_blocks(
        &mut self,
        at: (&str, u64),
        summary: Summary,
        more: &mut More<'_>,
    ) -> Result<Loaded> {
        // The snapshots go before the databases that they are of.
        self.load_by(at, move |load| {
            let summary = summary;
            load.read_blocks(&summary, more)
        })
    }
}

impl Load<'_> {
    /// Reads blocks up to the last one, and writes what they have.
    fn read_blocks(&mut self, summary: &Summary, more: &mut More<'_>) -> Result<()> {
        let (mut reader, mut entries, mut copied) = (BlockReader::default(), 0, None);
        let (mut bytes, mut at) = (Vec::new(), 0);
        loop {
            let Some((block, used)) = reader.next(&bytes[at..])? else {
                bytes.drain(..at);
                at = 0;
                if !more(&mut bytes)? {
                    return Err(damaged("it ends in the middle"));
                }
                continue;
            };
            at += used;
            match block {
                Block::Begin(db) => self.selected = db,
                Block::Function(text) => {
                    self.loaded.libraries += 1;
                    self.libraries.push(text.to_vec());
                }
                Block::Entries(db, count, body) => {
                    entries += count;
                    self.write_entries(db, count, body)?;
                }
                Block::Same(db, hash, count) => {
                    entries += count;
                    self.copy_range((summary, &mut copied), (db, hash), count)?;
                }
                Block::End(count) if count == entries => break,
                Block::End(_) => return Err(damaged("it has not as many entries as it says")),
            }
        }
        bytes.drain(..at);
        self.loaded.behind = bytes;
        Ok(())
    }

    fn write_entries(&mut self, db: u8, count: u64, body: &[u8]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for change in Changes(body) {
            let Change::Put(key, entry) = change? else {
                return Err(damaged("a deleted key among all data"));
            };
            self.loaded.keys += u64::from(!is_inner(key));
            batch.put_entry(key, entry);
        }
        if batch.len() as u64 != count {
            return Err(damaged("a block has not as many entries as it says"));
        }
        self.write_batch(db, &batch)
    }

    /// Copies a range that this replica has.
    fn copy_range(
        &mut self,
        (summary, copied): (&Summary, &mut Option<Copied>),
        range: (u8, RangeHash),
        count: u64,
    ) -> Result<()> {
        let db = range.0;
        let wrong = || damaged("a range that was not in the summary");
        let place = summary.places.get(&range).filter(|place| place.entries == count);
        let (place, snapshot) = place.zip(summary.snapshots.get(&db)).ok_or_else(wrong)?;
        let Copied { mut iterator, mut is_there, .. } = match copied.take() {
            Some(copied) if copied.db == db => copied,
            _ => {
                let iterator = Arc::clone(snapshot).iterate(&KeyRange::ALL)?;
                Copied { db, iterator, is_there: false }
            }
        };
        if !is_there || iterator.key() != &place.first[..] {
            is_there = iterator.seek(&place.first)?;
        }
        let (mut left, mut held, mut held_bytes) = (count, Vec::new(), 0);
        while left > 0 {
            if !is_there {
                return Err(wrong());
            }
            let (key, entry) = (iterator.key(), iterator.entry());
            if key != crate::marks::MARK_KEY {
                let EntryRef { value, expires_unix_ms, user_bits } = entry;
                self.loaded.keys += u64::from(!is_inner(key));
                held_bytes += key.len() + value.len();
                held.push((key.to_vec(), value.to_vec(), expires_unix_ms, user_bits));
                left -= 1;
            }
            is_there = iterator.next()?;
            if left == 0 || held_bytes >= BATCH_BYTES {
                let mut batch = WriteBatch::new();
                for (key, value, expires_unix_ms, user_bits) in &held {
                    let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
                    batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits });
                }
                self.write_batch(db, &batch)?;
                held.clear();
                held_bytes = 0;
            }
        }
        *copied = Some(Copied { db, iterator, is_there });
        self.loaded.copied += count;
        Ok(())
    }

    fn write_batch(&mut self, db: u8, batch: &WriteBatch<'_>) -> Result<()> {
        let count = self.follower.service.databases.count();
        if usize::from(db) >= count {
            return Err(refuse_database(i64::from(db), count));
        }
        let engine = self.engine(usize::from(db))?;
        let written = engine.write_each(batch, Durability::Buffered);
        written.map_err(|error| error.within(format_args!("database {db}")))
    }
}
