//! WATCH: whether anybody has written a key since a client began to watch it.
//!
//! A client's [`Watches`] stand in a table of their database, [`Watchers`], under the keys that
//! they are about. Whatever writes a database passes its [`Watched`] layer, be it a command of any
//! protocol, a datagram or the owner of a partition, and marks those who watch the key: a value
//! that was changed and changed back counts as changed. What nobody writes is compared: an entry
//! that expired or was evicted is not what it was.
//!
//! A write marks before it takes effect; so an EXEC that sees the effect sees the mark. A client
//! that begins to watch while a write is under way may come too late for that. The write then
//! finds at its end that somebody has come, and marks once more; and an EXEC that comes even
//! before that finds the write still under way, and runs nothing. So EXEC may fail without need
//! if, and only if, a write overlaps the whole time from WATCH to EXEC.
//!
//! If nobody watches, a write costs two loads and the announcement that it is under way.

mod layer;
mod watches;
mod writes;

pub(crate) use self::layer::Watched;
pub(crate) use self::watches::{Watches, WriteCounter};

use self::writes::Overlap;
use crate::places::DatabasePlace;
use silica_base::HashSeed;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Parts of a table that are locked apart.
const PARTS: usize = 64;

/// Those who watch keys, by key.
type Keys = BTreeMap<Box<[u8]>, Vec<Arc<WriteCounter>>>;

thread_local! {
    /// Keys of which this thread's writes mark nobody just now.
    static UNTOLD: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Does `work`, whose writes of `keys` end no WATCH: what they change none is about.
pub(crate) fn untold<'k, T>(keys: impl Iterator<Item = &'k [u8]>, work: impl FnOnce() -> T) -> T {
    let mut keys = keys.peekable();
    if keys.peek().is_none() {
        return work();
    }
    /// Forgets the keys, even if the work panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            UNTOLD.with_borrow_mut(Vec::clear);
        }
    }
    UNTOLD.with_borrow_mut(|untold| untold.extend(keys.map(Box::from)));
    let _end = End;
    work()
}

/// True if this thread's writes of `key` end no WATCH just now.
pub(crate) fn is_untold(key: &[u8]) -> bool {
    UNTOLD.with_borrow(|untold| untold.iter().any(|other| **other == *key))
}

/// One part of a table.
#[derive(Default)]
struct Part {
    /// The keys in it, to be read without its lock.
    len: AtomicUsize,
    keys: Mutex<Keys>,
}

impl Part {
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who watches which keys of a database.
pub(crate) struct Watchers {
    /// The database, as no other in this process is called.
    id: u64,
    /// Keys that are watched, each counted as often as it is.
    count: AtomicUsize,
    /// How often somebody has begun to watch keys.
    begun: AtomicU64,
    parts: [Part; PARTS],
    /// Who notes all keys that are written, if somebody does: in a cluster.
    noted: OnceLock<Arc<dyn WrittenKeys>>,
}

/// What wants to know which keys are about to be written.
pub(crate) trait WrittenKeys: Send + Sync {
    /// False if it wants to know nothing now.
    fn is_active(&self) -> bool;

    /// Notes `keys`, before they are written.
    fn note(&self, keys: &mut dyn Iterator<Item = &[u8]>);
}

impl Watchers {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Watchers {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            count: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            parts: std::array::from_fn(|_| Part::default()),
            noted: OnceLock::new(),
        }
    }

    /// Has `noted` told which keys are written, from the start on.
    pub(crate) fn note_in(&self, noted: Arc<dyn WrittenKeys>) {
        // Nobody else sets it.
        let _ = self.noted.set(noted);
    }

    /// Waits until the writes that are under way have ended.
    pub(crate) fn wait_for_writes(&self) {
        fence(Ordering::SeqCst);
        for overlap in writes::under_way(self.id) {
            while overlap.goes_on() {
                std::thread::yield_now();
            }
        }
    }

    fn part(&self, key: &[u8]) -> &Part {
        &self.parts[HashSeed([0; 16]).low(key) as usize % PARTS]
    }

    /// Adds `marks` to those who watch `keys`; the writes that are under way, whose marks may come
    /// too late.
    fn add<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
        marks: &Arc<WriteCounter>,
    ) -> Vec<Overlap> {
        for key in keys {
            let part = self.part(key);
            let mut all = part.lock();
            all.entry(key.into()).or_default().push(Arc::clone(marks));
            part.len.store(all.len(), Ordering::Relaxed);
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        self.begun.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence at the end of a write: either that sees `begun`, or what it has
        // written is seen from here on.
        fence(Ordering::SeqCst);
        writes::under_way(self.id)
    }

    fn remove(&self, key: &[u8], marks: &Arc<WriteCounter>) {
        let part = self.part(key);
        let mut all = part.lock();
        let Some(list) = all.get_mut(key) else { return };
        if let Some(at) = list.iter().position(|other| Arc::ptr_eq(other, marks)) {
            list.swap_remove(at);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        if list.is_empty() {
            all.remove(key);
        }
        part.len.store(all.len(), Ordering::Relaxed);
    }

    /// Marks those who watch a key for which `is_changed`.
    pub(crate) fn mark_if(&self, mut is_changed: impl FnMut(&[u8]) -> bool) {
        for part in self.parts.iter().filter(|part| part.len.load(Ordering::Relaxed) > 0) {
            let all = part.lock();
            let changed = all.iter().filter(|(key, _)| is_changed(key));
            changed.flat_map(|(_, list)| list).for_each(|marks| marks.add());
        }
    }

    /// Keys that are watched, each counted as often as it is.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// WriteCounter those who watch `key`.
    fn mark(&self, key: &[u8]) {
        let part = self.part(key);
        if part.len.load(Ordering::Relaxed) > 0
            && !is_untold(key)
            && let Some(list) = part.lock().get(key)
        {
            list.iter().for_each(|marks| marks.add());
        }
    }

    /// Writes `keys` with `work`, which is told whether anybody watches: then it marks those of
    /// the keys that it changes before they are.
    #[inline]
    fn write<'k, T>(
        &self,
        keys: impl Iterator<Item = &'k [u8]> + Clone,
        work: impl FnOnce(bool) -> T,
    ) -> T {
        writes::announce(self.id, || {
            if let Some(noted) = self.noted.get()
                && noted.is_active()
            {
                noted.note(&mut keys.clone());
            }
            let begun = self.begun.load(Ordering::SeqCst);
            let result = work(self.is_active());
            fence(Ordering::SeqCst);
            if self.begun.load(Ordering::SeqCst) != begun {
                keys.for_each(|key| self.mark(key));
            }
            result
        })
    }
}

/// Who watches the keys of what is open in one place, whichever database that is.
pub struct PlaceWatchers {
    databases: Arc<[Arc<Watchers>]>,
    place: DatabasePlace,
}

impl PlaceWatchers {
    pub(crate) fn new(databases: &Arc<[Arc<Watchers>]>, place: DatabasePlace) -> Arc<Self> {
        Arc::new(PlaceWatchers { databases: Arc::clone(databases), place })
    }

    /// Those who watch it now.
    #[inline]
    fn now(&self) -> &Watchers {
        &self.databases[self.place.number()]
    }
}

#[cfg(test)]
mod tests;
