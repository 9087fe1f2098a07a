//! Tables in this process's memory: nothing of them survives it.

mod room;
mod tables;

use super::crates;
use super::writes::Writes;
use crate::peer::{About, Peer, Setting, Setup};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::{Abilities, Session, Sink, Target};
use tables::{DashTable, LossyTable, PapayaTable, SccTable, ShardedTable};

/// Sessions tell of their puts and deletes after so many, since a counter that all threads write
/// would cost more than a put.
const TOLD_EVERY: usize = 1024;

/// A map that threads share, from byte strings to byte strings.
trait Table: Send + Sync + 'static {
    /// Made for what `setup` will put into it.
    fn new(setup: &Setup) -> Self;
    /// Calls `found` with the value of `key`, where there is one.
    fn get(&self, key: &[u8], found: impl FnOnce(&[u8]));
    fn put(&self, key: &[u8], value: &[u8]);
    fn delete(&self, key: &[u8]);
    fn entries(&self) -> u64;
}

/// A kind of table.
pub(crate) struct Memory {
    about: About,
    lossy: bool,
    /// Name, value and reason.
    settings: &'static [(&'static str, &'static str, &'static str)],
    open: fn(&Setup, bool) -> Box<dyn Target>,
}

const HASHER: (&str, &str, &str) = (
    "hasher",
    "foldhash::fast",
    "the default of hashbrown and quick_cache; several times as fast as the standard library's",
);
const CAPACITY: (&str, &str, &str) =
    ("capacity", "the number of keys", "known before the run, so that no table grows within it");
const UNBOUNDED: (&str, &str, &str) = (
    "memory",
    "not bounded, so it takes no part where its keys would not fit",
    "it is a table and no cache; what it needs is estimated, and the report shows what it took",
);
const BOXED: (&str, &str, &str) = (
    "entries",
    "key and value as boxed slices; a value of the same length is overwritten in place",
    "two allocations of exact size; values of any size without waste",
);

/// Every kind of table.
pub(crate) const PEERS: &[Memory] = &[
    Memory {
        about: About::memory("hashbrown", "the standard library's hash table, under sharded locks"),
        lossy: false,
        settings: &[
            (
                "locks",
                "parking_lot::RwLock, 4 shards a core, a power of two, on lines of their own",
                "readers of a shard do not wait for one another; a small lock that spins shortly",
            ),
            HASHER,
            CAPACITY,
            UNBOUNDED,
            BOXED,
        ],
        open: open::<ShardedTable>,
    },
    Memory {
        about: About::memory("dashmap", "DashMap, a hash table with sharded locks inside"),
        lossy: false,
        settings: &[
            ("shard_amount", "4 for each core", "its default"),
            HASHER,
            CAPACITY,
            UNBOUNDED,
            BOXED,
        ],
        open: open::<DashTable>,
    },
    Memory {
        about: About::memory("quick_cache", "quick_cache, a cache with an eviction like S3-FIFO's"),
        lossy: true,
        settings: &[
            (
                "weight_capacity",
                "the memory; an entry weighs its key, its value and 96 bytes",
                "21 bytes and two slices that the table takes for each entry, with its spare room, \
                 and the heads of two allocations",
            ),
            (
                "estimated_items_capacity",
                "the keys that fit, at most those of the run",
                "what its shards and its memory of evicted keys are sized by",
            ),
            HASHER,
            (
                "entries",
                "key as boxed slice, value as Arc<[u8]>",
                "it clones the values that it returns, which must be cheap",
            ),
        ],
        open: open::<LossyTable>,
    },
    Memory {
        about: About::memory(
            "scc",
            "scc::HashMap, a hash table with a lock in each bucket, as libcuckoo has",
        ),
        lossy: false,
        settings: &[
            ("interface", "read_sync, update_sync, upsert_sync", "values are read in place"),
            HASHER,
            CAPACITY,
            UNBOUNDED,
            BOXED,
        ],
        open: open::<SccTable>,
    },
    Memory {
        about: About::memory("papaya", "papaya, a hash table that is read without locks"),
        lossy: false,
        settings: &[
            ("interface", "a guard for each call, get, insert", "as its users write it"),
            HASHER,
            CAPACITY,
            UNBOUNDED,
            ("entries", "key and value as boxed slices", "readers may hold what is replaced"),
        ],
        open: open::<PapayaTable>,
    },
];

fn open<T: Table>(setup: &Setup, lossy: bool) -> Box<dyn Target> {
    Box::new(Store { table: T::new(setup), lossy, writes: Writes::default() })
}

impl Peer for Memory {
    fn about(&self) -> &About {
        &self.about
    }

    fn version(&self) -> Result<String> {
        crates::version(self.about.name)
    }

    fn settings(&self, _: &Setup) -> Vec<Setting> {
        let row = |&(name, value, why): &(_, &str, _)| Setting { name, value: value.into(), why };
        self.settings.iter().map(row).collect()
    }

    fn check_room(&self, setup: &Setup) -> Result<()> {
        if self.lossy { Ok(()) } else { room::check(self.about.name, setup) }
    }

    fn open(&self, setup: &Setup) -> Result<Box<dyn Target>> {
        self.check_room(setup)?;
        Ok((self.open)(setup, self.lossy))
    }
}

/// A table and what was done to it.
struct Store<T> {
    table: T,
    lossy: bool,
    writes: Writes,
}

impl<T: Table> Target for Store<T> {
    fn abilities(&self) -> Abilities {
        Abilities { scan: false, delete: true, lossy: self.lossy }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        if durability == Durability::Synced {
            let message = "a table in memory has no synced writes; compare it by buffered ones";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Box::new(Hands { store: self, puts: 0, deletes: 0 }))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// There is nothing that a sync would save.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn metrics(&self) -> Result<MetricsMap> {
        let mut metrics = self.writes.metrics();
        let mut add = |name, value: u64| metrics.0.insert(name, value as f64);
        add("entries_estimate", self.table.entries());
        Ok(metrics)
    }
}

/// What one thread uses: the table, and what it did that the store was not told of.
struct Hands<'a, T: Table> {
    store: &'a Store<T>,
    puts: usize,
    deletes: usize,
}

impl<T: Table> Hands<'_, T> {
    fn tell(&mut self) {
        self.store.writes.count_puts(std::mem::take(&mut self.puts));
        self.store.writes.count_deletes(std::mem::take(&mut self.deletes));
    }
}

impl<T: Table> Drop for Hands<'_, T> {
    fn drop(&mut self) {
        self.tell();
    }
}

impl<T: Table> Session for Hands<'_, T> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            self.store.table.get(key, |value| sink.found(index, value));
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        for (key, value) in entries {
            self.store.table.put(key, value);
        }
        self.puts += entries.len();
        if self.puts >= TOLD_EVERY {
            self.tell();
        }
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        for key in keys {
            self.store.table.delete(key);
        }
        self.deletes += keys.len();
        if self.deletes >= TOLD_EVERY {
            self.tell();
        }
        Ok(())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let message = "a hash table has no order to scan in; leave workloads with scans out";
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}
