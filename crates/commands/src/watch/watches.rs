//! The keys that one client watches.

use super::Watchers;
use super::writes::Overlap;
use crate::budget::out_of_memory;
use crate::budget::{Budget, Share};
use silica::engine::{Engine, EntryRef, GetSink, Result};
use silica_base::{HashSeed, KeyHash};
use silica_types::Kind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that a watched key takes besides its own: in a tree of the client's, in one of the
/// database's, and in a list of who watches it.
const KEY_BYTES: usize = 192;

/// How often the keys that a client watches were written.
#[derive(Debug, Default)]
pub(crate) struct WriteCounter(AtomicU64);

impl WriteCounter {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// What a watched key held when it was watched first; `None` if it was not there.
type Print = Option<KeyHash>;

/// What a client watches.
#[derive(Default)]
pub(crate) struct List {
    /// By database and key.
    prints: BTreeMap<usize, BTreeMap<Box<[u8]>, Print>>,
    /// Writes that were under way when the client began to watch.
    overlaps: Vec<Overlap>,
}

impl List {
    /// The keys, if all of them are of database `db`.
    pub(crate) fn keys_of(&self, db: usize) -> Option<impl Iterator<Item = &[u8]>> {
        let is_here = self.prints.iter().all(|(of, prints)| *of == db || prints.is_empty());
        is_here.then(|| self.prints.values().flat_map(|prints| prints.keys().map(|key| &**key)))
    }

    /// The keys of each database of which there are some.
    pub(crate) fn by_database(&self) -> impl Iterator<Item = (usize, Vec<&[u8]>)> {
        let prints = self.prints.iter().filter(|(_, prints)| !prints.is_empty());
        prints.map(|(db, prints)| (*db, prints.keys().map(|key| &**key).collect()))
    }

    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.prints.values().any(|prints| prints.contains_key(key))
    }
}

/// The keys that a connection watches.
pub(crate) struct Watches {
    seed: HashSeed,
    databases: Arc<[Arc<Watchers>]>,
    marks: Arc<WriteCounter>,
    /// What the keys take of the clients' memory, here and in the tables of the databases.
    kept: Share,
    list: Mutex<List>,
    /// The databases of keys that it was asked to watch, be it that it does already; a bit each.
    asked: AtomicU32,
}

impl Watches {
    /// Watches nothing; `seed` is random, and memory is counted in `budget`.
    pub(crate) fn new(
        databases: Arc<[Arc<Watchers>]>,
        seed: HashSeed,
        budget: &Arc<Budget>,
    ) -> Self {
        Watches {
            seed,
            databases,
            marks: Arc::default(),
            kept: Share::new(budget),
            list: Mutex::default(),
            asked: AtomicU32::new(0),
        }
    }

    /// Keys of database `db` are going to be watched.
    pub(crate) fn ask(&self, db: u8) {
        self.asked.fetch_or(1 << db, Ordering::Relaxed);
    }

    /// The databases of which it was asked to watch keys, a bit each.
    pub(crate) fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory held, what the database's table holds for it included. Waits for nobody.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.kept.bytes()
    }

    fn print(&self, entry: EntryRef<'_>) -> KeyHash {
        let mut bytes = Vec::with_capacity(entry.value.len() + 12);
        bytes.extend_from_slice(&entry.expires_unix_ms.to_le_bytes());
        bytes.extend_from_slice(&entry.user_bits.to_le_bytes());
        // A stream's groups change, and no WATCH is about these. Whoever writes its entries marks.
        if Kind::of_user_bits(entry.user_bits) != Some(Kind::Stream) {
            bytes.extend_from_slice(entry.value);
        }
        self.seed.hash(&bytes)
    }

    /// Watches `keys` of database `db`, which is `engine`.
    pub(crate) fn add(&self, engine: &dyn Engine, db: usize, keys: &[&[u8]]) -> Result<()> {
        let bytes_of = |key: &[u8]| 2 * key.len() + KEY_BYTES;
        self.kept.grow(keys.iter().map(|key| bytes_of(key)).sum()).map_err(out_of_memory)?;
        let mut list = self.list();
        let List { prints, overlaps } = &mut *list;
        let prints = prints.entry(db).or_default();
        let mut new = Vec::with_capacity(keys.len());
        for key in keys.iter().copied() {
            // What it held when it was watched first counts.
            if !prints.contains_key(key) {
                prints.insert(key.into(), None);
                new.push(key);
            } else {
                self.kept.shrink(bytes_of(key));
            }
        }
        overlaps.retain(Overlap::goes_on);
        overlaps.extend(self.databases[db].add(new.iter().copied(), &self.marks));
        let mut found = Prints { watches: self, list: vec![None; new.len()] };
        let read = engine.get_many(&new, &mut found);
        for (key, print) in new.iter().zip(found.list) {
            if read.is_err() {
                prints.remove(*key);
                self.databases[db].remove(key, &self.marks);
                self.kept.shrink(bytes_of(key));
                continue;
            }
            if let Some(noted) = prints.get_mut(*key) {
                *noted = print;
            }
        }
        read
    }

    /// True if nothing has changed a key of `list` but `own` marks of the caller; `current` tells
    /// what a key of a database holds now.
    pub(crate) fn hold<'e>(
        &self,
        list: &List,
        own: u64,
        current: impl Fn(usize, &[u8]) -> Option<EntryRef<'e>>,
    ) -> bool {
        // The counter last: it has counted every write that has ended.
        let is_same = |db: usize, key: &[u8], print: &Print| {
            current(db, key).map(|entry| self.print(entry)) == *print
        };
        let mut all = list
            .prints
            .iter()
            .flat_map(|(db, prints)| prints.iter().map(|(key, print)| (*db, &**key, print)));
        all.all(|(db, key, print)| is_same(db, key, print))
            && !list.overlaps.iter().any(Overlap::goes_on)
            && self.marks.get() == own
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let list = std::mem::take(&mut *self.list());
        for (db, prints) in &list.prints {
            prints.keys().for_each(|key| self.databases[*db].remove(key, &self.marks));
        }
    }
}

struct Prints<'a> {
    watches: &'a Watches,
    list: Vec<Print>,
}

impl GetSink for Prints<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.list[index] = Some(self.watches.print(entry));
    }
}
