//! Which connections have read which keys, for CLIENT TRACKING's default mode.
//!
//! 1. Whoever reads a key for a client that tracks what it reads enters the pair here first
//!    ([`Table::add`]), and asks the engine after that.
//! 2. Whoever changes a key takes its readers from here ([`Table::take`]) after the change is
//!    visible.
//! 3. So a reader that got an older value is among those who are taken: its entry was made before
//!    its read, and the read before the change was visible.
//! 4. An entry that is dropped for want of room is told to its readers as if the key were changed.
//!
//! Keys lie in parts that are locked apart. No engine is called while a part is locked.

use crate::budget::Share;
use silica_base::HashSeed;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Parts that are locked apart.
const PARTS: usize = 64;
/// Memory of a key beside its bytes, and of its time of expiry: nodes of trees.
const KEY_BYTES: usize = 128;
const EXPIRY_BYTES: usize = 64;
const READER_BYTES: usize = size_of::<u64>();
/// The table has at most one of so many bytes of the clients' memory.
const MEMORY_SHARE: usize = 4;

/// A key, and the connections that have read it.
pub(super) type Told = (Arc<[u8]>, Vec<u64>);

#[derive(Debug, Default)]
struct Entry {
    /// Numbers of connections, each once.
    readers: Vec<u64>,
    /// Unix milliseconds; 0 for never.
    expires_unix_ms: u64,
}

#[derive(Debug, Default)]
struct Inner {
    keys: BTreeMap<Arc<[u8]>, Entry>,
    /// The keys that expire, by time.
    expiries: BTreeSet<(u64, Arc<[u8]>)>,
    /// Behind which key the next one is dropped for want of room.
    hand: Option<Arc<[u8]>>,
}

impl Inner {
    /// Takes a key out; how many bytes it had.
    fn remove(&mut self, key: &[u8]) -> Option<(Told, usize)> {
        let (key, entry) = self.keys.remove_entry(key)?;
        let mut bytes = key.len() + KEY_BYTES + READER_BYTES * entry.readers.len();
        if entry.expires_unix_ms != 0 && self.expiries.remove(&(entry.expires_unix_ms, key.clone()))
        {
            bytes += EXPIRY_BYTES;
        }
        Some(((key, entry.readers), bytes))
    }

    /// Takes the next key out in the order of a clock's hand.
    fn evict(&mut self) -> Option<(Told, usize)> {
        let from = self.hand.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.keys.range((from, Bound::Unbounded)).next();
        let key = next.or_else(|| self.keys.first_key_value())?.0.clone();
        self.hand = Some(Arc::clone(&key));
        self.remove(&key)
    }
}

#[derive(Debug, Default)]
struct Part {
    /// Its keys, to be read without the lock.
    len: AtomicUsize,
    inner: Mutex<Inner>,
}

impl Part {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys and their readers.
#[derive(Debug)]
pub(super) struct Table {
    parts: [Part; PARTS],
    share: Share,
    bytes_max: usize,
    keys: AtomicUsize,
    /// Pairs of a key and a reader.
    items: AtomicUsize,
}

impl Table {
    /// An empty one whose memory is part of `share`'s budget of `budget_bytes` bytes.
    pub(super) fn new(share: Share, budget_bytes: usize) -> Self {
        Table {
            parts: std::array::from_fn(|_| Part::default()),
            share,
            bytes_max: budget_bytes / MEMORY_SHARE,
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
        }
    }

    /// Keys, and pairs of a key and a reader.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.keys.load(Relaxed), self.items.load(Relaxed))
    }

    fn number(key: &[u8]) -> usize {
        HashSeed([0; 16]).low(key) as usize % PARTS
    }

    /// Counts what was taken out of part `number`.
    fn forget(&self, number: usize, inner: &Inner, (told, bytes): (Told, usize)) -> Told {
        self.parts[number].len.store(inner.keys.len(), Relaxed);
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(told.1.len(), Relaxed);
        self.share.shrink(bytes);
        told
    }

    /// Notes that `client` is about to read `key`, in a table of `keys_max` keys at most. Returns
    /// what was dropped to have room; the new pair itself if there is none.
    pub(super) fn add(&self, client: u64, key: &[u8], keys_max: usize) -> Vec<Told> {
        let number = Table::number(key);
        let mut inner = self.parts[number].lock();
        let known = inner.keys.get(key);
        if known.is_some_and(|entry| entry.readers.contains(&client)) {
            return Vec::new();
        }
        let is_new = known.is_none();
        let bytes = READER_BYTES + if is_new { key.len() + KEY_BYTES } else { 0 };
        let mut dropped = Vec::new();
        let is_full = self.keys.load(Relaxed) >= keys_max;
        if is_new && is_full {
            dropped.extend(self.make_room(number, &mut inner));
        }
        while self.share.bytes() + bytes > self.bytes_max || self.share.grow(bytes).is_err() {
            let Some(told) = self.make_room(number, &mut inner) else {
                dropped.push((key.into(), vec![client]));
                return dropped;
            };
            dropped.push(told);
        }
        match inner.keys.get_mut(key) {
            Some(entry) => entry.readers.push(client),
            // The key itself may have been dropped to have room for its reader.
            None => {
                if !is_new {
                    self.share.shrink(bytes);
                    dropped.push((key.into(), vec![client]));
                    return dropped;
                }
                let entry = Entry { readers: vec![client], expires_unix_ms: 0 };
                inner.keys.insert(key.into(), entry);
                self.parts[number].len.store(inner.keys.len(), Relaxed);
                self.keys.fetch_add(1, Relaxed);
            }
        }
        self.items.fetch_add(1, Relaxed);
        dropped
    }

    /// Drops a key of part `number`, or of another part that nobody else has locked.
    fn make_room(&self, number: usize, inner: &mut Inner) -> Option<Told> {
        if let Some(removed) = inner.evict() {
            return Some(self.forget(number, inner, removed));
        }
        for (other, part) in self.parts.iter().enumerate().filter(|(other, _)| *other != number) {
            if part.len.load(Relaxed) > 0
                && let Ok(mut inner) = part.inner.try_lock()
                && let Some(removed) = inner.evict()
            {
                return Some(self.forget(other, &inner, removed));
            }
        }
        None
    }

    /// Notes that `key`, if somebody has read it, expires at a time in Unix milliseconds.
    pub(super) fn set_expiry(&self, key: &[u8], expires_unix_ms: u64) {
        let mut inner = self.parts[Table::number(key)].lock();
        let Inner { keys, expiries, .. } = &mut *inner;
        let Some((key, _)) = keys.get_key_value(key) else { return };
        let key = Arc::clone(key);
        let Some(entry) = keys.get_mut(&key) else { return };
        if entry.expires_unix_ms == expires_unix_ms {
            return;
        }
        if entry.expires_unix_ms != 0 {
            expiries.remove(&(entry.expires_unix_ms, Arc::clone(&key)));
        } else if self.share.grow(EXPIRY_BYTES).is_err() {
            // Its readers are told at once, when time has come for what expired long ago.
            let at_once = 1;
            entry.expires_unix_ms = at_once;
            expiries.insert((at_once, key));
            return;
        }
        entry.expires_unix_ms = expires_unix_ms;
        expiries.insert((expires_unix_ms, key));
    }

    /// Takes the readers of `key`, but for `except`, which stays; `None` if there are none.
    pub(super) fn take(&self, key: &[u8], except: Option<u64>) -> Option<Told> {
        let number = Table::number(key);
        if self.parts[number].len.load(Relaxed) == 0 {
            return None;
        }
        let mut inner = self.parts[number].lock();
        let stays = except
            .filter(|stays| inner.keys.get(key).is_some_and(|entry| entry.readers.contains(stays)));
        if let Some(stays) = stays {
            let entry = inner.keys.get_mut(key)?;
            let mut readers = std::mem::replace(&mut entry.readers, vec![stays]);
            readers.retain(|reader| *reader != stays);
            self.items.fetch_sub(readers.len(), Relaxed);
            self.share.shrink(READER_BYTES * readers.len());
            return (!readers.is_empty()).then(|| (key.into(), readers));
        }
        let removed = inner.remove(key)?;
        Some(self.forget(number, &inner, removed))
    }

    /// Takes the keys whose time is over at `now_ms`, in Unix milliseconds.
    pub(super) fn take_expired(&self, now_ms: u64) -> Vec<Told> {
        let mut all = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            if part.len.load(Relaxed) == 0 {
                continue;
            }
            let mut inner = part.lock();
            while let Some((at, key)) = inner.expiries.first().cloned()
                && at <= now_ms
            {
                let Some(removed) = inner.remove(&key) else { break };
                all.push(self.forget(number, &inner, removed));
            }
        }
        all
    }

    /// Drops keys until no more than `keys_max` are left; what was dropped.
    pub(super) fn shrink_to(&self, keys_max: usize) -> Vec<Told> {
        let mut all = Vec::new();
        while self.keys.load(Relaxed) > keys_max {
            let number = all.len() % PARTS;
            let mut inner = self.parts[number].lock();
            let Some(told) = self.make_room(number, &mut inner) else { break };
            all.push(told);
        }
        all
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        for (number, part) in self.parts.iter().enumerate() {
            let mut inner = part.lock();
            while let Some(removed) = inner.evict() {
                self.forget(number, &inner, removed);
            }
            *inner = Inner::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    fn table(bytes: usize) -> (Table, Arc<Budget>) {
        let budget = Budget::new(bytes);
        (Table::new(Share::new(&budget), bytes), budget)
    }

    fn names(told: &[Told]) -> Vec<(String, Vec<u64>)> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        told.iter().map(|(key, readers)| (text(key), readers.clone())).collect()
    }

    #[test]
    fn readers_are_taken_once() {
        let (table, budget) = table(1 << 20);
        for client in [1, 2, 2] {
            assert!(table.add(client, b"k", 10).is_empty());
        }
        assert_eq!(table.counts(), (1, 2));
        let told = table.take(b"k", Some(3)).unwrap();
        assert_eq!(names(&[told]), [("k".into(), vec![1, 2])]);
        assert!(table.take(b"k", None).is_none());
        assert_eq!((table.counts(), budget.used()), ((0, 0), 0));
    }

    #[test]
    fn who_has_written_a_key_itself_may_stay_its_reader() {
        let (table, _) = table(1 << 20);
        [1, 2].iter().for_each(|client| drop(table.add(*client, b"k", 10)));
        assert_eq!(table.take(b"k", Some(2)).unwrap().1, [1]);
        assert!(table.take(b"k", Some(2)).is_none());
        assert_eq!(table.take(b"k", Some(1)).unwrap().1, [2]);
    }

    #[test]
    fn what_has_no_room_is_told() {
        let (table, budget) = table(1 << 20);
        let mut dropped = Vec::new();
        for n in 0..300_u32 {
            dropped.extend(table.add(1, format!("key:{n}").as_bytes(), 100));
        }
        assert_eq!((table.counts(), dropped.len()), ((100, 100), 200));
        assert_eq!(table.shrink_to(30).len(), 70);
        // A key that is larger than all of the memory is told at once.
        let large = vec![b'x'; 300 << 10];
        let told = table.add(9, &large, 100);
        assert_eq!(told.last().unwrap(), &(Arc::from(&large[..]), vec![9]));
        table.clear();
        assert_eq!((table.counts(), budget.used()), ((0, 0), 0));
    }

    #[test]
    fn keys_expire_at_their_last_time() {
        let (table, budget) = table(1 << 20);
        table.set_expiry(b"k", 5);
        table.add(1, b"k", 10);
        table.set_expiry(b"k", 5);
        table.set_expiry(b"k", 9);
        assert!(table.take_expired(8).is_empty());
        assert_eq!(names(&table.take_expired(9)), [("k".into(), vec![1])]);
        assert!(table.take_expired(10).is_empty());
        assert_eq!(budget.used(), 0);
    }
}
