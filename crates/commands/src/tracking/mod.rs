//! Client-side caching: who wants to know which keys were changed (CLIENT TRACKING).
//!
//! A connection that broadcasts names prefixes, and is told of every key that begins with one. In
//! the default mode the server notes which keys a connection has read ([`table`]), and tells it
//! once if one of them is changed, expires or is forgotten by that table.
//!
//! Nobody keeps an older value for good:
//!
//! 1. A reader is noted before its read asks the engine.
//! 2. A change is told after the engine has made it visible. So whoever has read the value before
//!    it is told of it.
//! 3. A connection gets what it is told behind the replies to its requests that are under way: the
//!    older value, if it comes at all, comes first. A connection that is told for another
//!    ([`Tracker::redirect`]) may hear of a change before the other has its reply, as in Redis.
//!
//! Whether anybody tracks is one number. A connection stores it, and notes what it reads, before a
//! fence and its reads; a writer reads it behind a fence behind its writes: so one of the two sees
//! the other ([`Tracking::is_told`]).
//!
//! All changes of a burst come in one message. An entry that was evicted is not told: what was
//! read of it is still what was written last. Nobody is told the name of a key that its user may
//! do nothing with.

mod table;

use self::table::{Table, Told};
use crate::budget::{Budget, Share};
use crate::clients::{Client, Tracked};
use crate::push::{Delivery, Published, Push};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Prefixes of one connection at most.
const PREFIXES_MAX: usize = 1000;
/// Keys whose readers are noted at most, unless `tracking-table-max-keys` says another number.
const KEYS_MAX: usize = 1_000_000;

/// Those who are told, as far as tracking knows them.
pub(crate) trait Recipients {
    /// The memory of clients.
    fn budget(&self) -> &Arc<Budget>;
    /// The client `id`, if it is connected.
    fn client(&self, id: u64) -> Option<Arc<Client>>;
    /// Removes from `keys` what the user of `client` may do nothing with.
    fn retain_known(&self, client: &Client, keys: &mut Vec<Vec<u8>>);
    /// Sends to a connection of event loop `loop_index`.
    fn publish(&self, loop_index: usize, published: Published, delivery: Delivery);
}

/// Memory of a prefix.
fn bytes_of(prefix: &[u8]) -> usize {
    prefix.len() + 64
}

/// Which keys a connection is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those with its prefixes, whoever has read them.
    Broadcast,
    /// Those that it has read.
    Reads,
    /// Those that it has read behind CLIENT CACHING YES.
    OptIn,
    /// Those that it has read, but not behind CLIENT CACHING NO.
    OptOut,
}

/// What CLIENT TRACKING ON asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) mode: Mode,
    /// The connection that is told instead.
    pub(crate) redirect: Option<u64>,
    /// Not what it has changed itself.
    pub(crate) no_loop: bool,
}

/// What one connection wants to know.
#[derive(Debug, Clone)]
pub(crate) struct Tracker {
    client: Arc<Client>,
    pub(crate) wish: Wish,
    /// The connection that was told instead is gone.
    pub(crate) broken: bool,
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
}

impl Tracker {
    /// What CLIENT LIST shows of it.
    pub(crate) fn shown(&self) -> Tracked {
        let broadcasts = self.wish.mode == Mode::Broadcast;
        Tracked { redirect: self.wish.redirect, is_broken: self.broken, broadcasts }
    }

    pub(crate) fn redirect(&self) -> Option<u64> {
        self.wish.redirect
    }

    fn wants(&self, writer: u64, key: &[u8]) -> bool {
        let is_own = self.wish.no_loop && writer == self.client.id;
        !is_own && self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }
}

/// A key that was changed, and by which connection; 0 for none.
pub(crate) type Changed = (u64, Box<[u8]>);

/// Everybody who wants to know.
#[derive(Debug)]
pub(crate) struct Tracking {
    count: AtomicUsize,
    /// Of them, those that broadcast, and those that want not to know what they change themselves.
    broadcasters: AtomicUsize,
    no_loops: AtomicUsize,
    list: Mutex<BTreeMap<u64, Tracker>>,
    table: Table,
    /// Keys of the table at most; may change while the server runs.
    keys_max: AtomicUsize,
}

impl Tracking {
    /// Nobody; what is noted for others counts in `budget`.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Tracking {
            count: AtomicUsize::new(0),
            broadcasters: AtomicUsize::new(0),
            no_loops: AtomicUsize::new(0),
            list: Mutex::default(),
            table: Table::new(Share::new(budget), budget.max()),
            keys_max: AtomicUsize::new(KEYS_MAX),
        }
    }

    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Tracker>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if anybody wants to know anything.
    pub(crate) fn is_active(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// True if anybody may want to know of what the calling thread has written before.
    pub(crate) fn is_told(&self) -> bool {
        // Pairs with the fence of `note`.
        fence(SeqCst);
        self.is_active()
    }

    /// Connections that want to know anything.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Keys whose readers are noted, pairs of such a key and a reader, and different prefixes.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        let (keys, items) = self.table.counts();
        let list = self.list();
        let prefixes: BTreeSet<&[u8]> =
            list.values().flat_map(|tracker| &tracker.prefixes).map(Vec::as_slice).collect();
        (keys, items, prefixes.len())
    }

    /// What the connection `id` wants to know.
    pub(crate) fn of(&self, id: u64) -> Option<Tracker> {
        if self.is_active() { self.list().get(&id).cloned() } else { None }
    }

    /// What CLIENT LIST shows of what the connection `id` wants to know.
    pub(crate) fn shown(&self, id: u64) -> Option<Tracked> {
        if self.is_active() { self.list().get(&id).map(Tracker::shown) } else { None }
    }

    /// Lets a connection know what `wish` says; if it broadcasts, of `prefixes` and those that it
    /// had, or of all keys if there are none.
    pub(crate) fn add(
        &self,
        client: Arc<Client>,
        wish: Wish,
        prefixes: &[&[u8]],
    ) -> Result<(), String> {
        let mut list = self.list();
        let old = list.get(&client.id).map(|tracker| tracker.prefixes.clone());
        let mut all = old.unwrap_or_default();
        if wish.mode == Mode::Broadcast {
            refuse_overlaps(&all, prefixes)?;
            if all.len() + prefixes.len() > PREFIXES_MAX {
                return Err(format!("ERR a connection may track {PREFIXES_MAX} prefixes at most"));
            }
            client.kept.grow(prefixes.iter().map(|prefix| bytes_of(prefix)).sum())?;
            all.extend(prefixes.iter().map(|prefix| prefix.to_vec()));
            if prefixes.is_empty() {
                all.insert(Vec::new());
            }
        }
        list.insert(client.id, Tracker { client, wish, broken: false, prefixes: all });
        self.count_list(&list);
        Ok(())
    }

    fn count_list(&self, list: &BTreeMap<u64, Tracker>) {
        let count = |is: fn(&Wish) -> bool| list.values().filter(|t| is(&t.wish)).count();
        self.broadcasters.store(count(|wish| wish.mode == Mode::Broadcast), Relaxed);
        self.no_loops.store(count(|wish| wish.no_loop), Relaxed);
        self.count.store(list.len(), Relaxed);
        // Pairs with the fence of `is_told`, for what a broadcaster reads from now on.
        fence(SeqCst);
    }

    /// Lets the connection `id` know nothing more.
    pub(crate) fn remove(&self, id: u64) {
        if self.is_active() {
            let mut list = self.list();
            if let Some(tracker) = list.remove(&id) {
                let named = tracker.prefixes.iter().filter(|prefix| !prefix.is_empty());
                tracker.client.kept.shrink(named.map(|prefix| bytes_of(prefix)).sum());
            }
            self.count_list(&list);
            if list.is_empty() {
                self.table.clear();
            }
        }
    }

    /// Notes that the connection `id` is about to read `keys`.
    pub(crate) fn note<'k>(
        &self,
        to: &dyn Recipients,
        id: u64,
        keys: impl Iterator<Item = &'k [u8]>,
    ) {
        let keys_max = self.limit();
        let mut dropped = Vec::new();
        keys.for_each(|key| dropped.extend(self.table.add(id, key, keys_max)));
        self.tell_readers(to, dropped);
        // Pairs with the fence of `is_told`: a writer that does not see the reader has made its
        // write visible before, and the read sees that.
        fence(SeqCst);
    }

    /// Notes that `key`, if somebody has read it, expires at a time in Unix milliseconds.
    pub(crate) fn note_expiry(&self, key: &[u8], expires_unix_ms: u64) {
        self.table.set_expiry(key, expires_unix_ms);
    }

    /// Tells the readers of keys whose time is over at `now_ms`, in Unix milliseconds.
    pub(crate) fn tell_expired(&self, to: &dyn Recipients, now_ms: u64) {
        if self.is_active() {
            self.tell_readers(to, self.table.take_expired(now_ms));
        }
    }

    /// Keys of the table at most; 0 for as many as there is memory for.
    pub(crate) fn keys_max(&self) -> usize {
        self.keys_max.load(Relaxed)
    }

    fn limit(&self) -> usize {
        match self.keys_max() {
            0 => usize::MAX,
            keys_max => keys_max,
        }
    }

    /// Lets the table have `keys_max` keys; the readers of those that are too many are told.
    pub(crate) fn set_keys_max(&self, to: &dyn Recipients, keys_max: usize) {
        self.keys_max.store(keys_max, Relaxed);
        self.tell_readers(to, self.table.shrink_to(self.limit()));
    }

    /// Tells who wants to know that `keys` were changed.
    pub(crate) fn tell(&self, to: &dyn Recipients, keys: &[Changed]) {
        if keys.is_empty() || !self.is_active() {
            return;
        }
        let has_no_loops = self.no_loops.load(Relaxed) > 0;
        let mut told = Vec::new();
        for (writer, key) in keys {
            let except = (has_no_loops && self.is_no_loop(*writer)).then_some(*writer);
            told.extend(self.table.take(key, except));
        }
        self.tell_readers(to, told);
        if self.broadcasters.load(Relaxed) > 0 {
            self.broadcast(to, keys);
        }
    }

    fn is_no_loop(&self, id: u64) -> bool {
        self.list().get(&id).is_some_and(|tracker| tracker.wish.no_loop)
    }

    fn broadcast(&self, to: &dyn Recipients, keys: &[Changed]) {
        for tracker in self.list().values_mut() {
            if tracker.wish.mode != Mode::Broadcast {
                continue;
            }
            let wanted = keys.iter().filter(|(writer, key)| tracker.wants(*writer, key));
            let wanted: Vec<&[u8]> = wanted.map(|(_, key)| &**key).collect();
            if !wanted.is_empty() {
                tracker.tell_keys(to, &wanted);
            }
        }
    }

    fn tell_readers(&self, to: &dyn Recipients, told: Vec<Told>) {
        if told.is_empty() {
            return;
        }
        let mut by_reader: BTreeMap<u64, Vec<&[u8]>> = BTreeMap::new();
        for (key, readers) in &told {
            readers.iter().for_each(|id| by_reader.entry(*id).or_default().push(key));
        }
        let mut list = self.list();
        for (id, keys) in by_reader {
            // One that has left, or broadcasts now, is not removed from the table.
            if let Some(tracker) = list.get_mut(&id)
                && tracker.wish.mode != Mode::Broadcast
            {
                tracker.tell_keys(to, &keys);
            }
        }
    }

    /// Tells everybody that all keys are gone, or are others.
    pub(crate) fn tell_everything(&self, to: &dyn Recipients) {
        if !self.is_active() {
            return;
        }
        self.table.clear();
        for tracker in self.list().values_mut() {
            tracker.tell(to, None, Share::new(to.budget()));
        }
    }
}

impl Tracker {
    fn tell_keys(&mut self, to: &dyn Recipients, keys: &[&[u8]]) {
        let share = Share::new(to.budget());
        let bytes = keys.iter().map(|key| bytes_of(key)).sum();
        // Without memory for the keys, all that it knows is out of date.
        let has_room = share.grow(bytes).is_ok();
        let keys = has_room.then(|| keys.iter().map(|key| key.to_vec()).collect());
        self.tell(to, keys, share);
    }

    /// Sends the keys that were changed, or that all are gone.
    fn tell(&mut self, to: &dyn Recipients, keys: Option<Vec<Vec<u8>>>, _share: Share) {
        let Some(redirect) = self.wish.redirect else {
            let redirected = false;
            return deliver(to, &self.client, Push::Written { keys, redirected, _share });
        };
        match to.client(redirect) {
            Some(other) => {
                let redirected = other.is_listening();
                deliver(to, &other, Push::Written { keys, redirected, _share });
            }
            None => {
                self.broken = true;
                deliver(to, &self.client, Push::Broken(redirect));
            }
        }
    }
}

fn deliver(to: &dyn Recipients, client: &Client, mut published: Push) {
    if let Push::Written { keys: Some(keys), .. } = &mut published {
        to.retain_known(client, keys);
        if keys.is_empty() {
            return;
        }
    }
    let owner = client.owner();
    let delivery = Delivery { to: owner, pattern: None };
    to.publish(client.loop_index, Published(published), delivery);
}

fn refuse_overlaps(old: &BTreeSet<Vec<u8>>, new: &[&[u8]]) -> Result<(), String> {
    let overlap = |a: &[u8], b: &[u8]| a.starts_with(b) || b.starts_with(a);
    let refuse = |prefix: &[u8], which: &str, other: &[u8]| {
        let (prefix, other) = (String::from_utf8_lossy(prefix), String::from_utf8_lossy(other));
        Err(format!(
            "ERR Prefix '{prefix}' overlaps with {which} prefix '{other}'. Prefixes for a single \
             client must not overlap."
        ))
    };
    for (index, prefix) in new.iter().enumerate() {
        if let Some(other) = old.iter().find(|other| overlap(prefix, other)) {
            return refuse(prefix, "an existing", other);
        }
        if let Some(other) = new[index + 1..].iter().find(|other| overlap(prefix, other)) {
            return refuse(prefix, "another provided", other);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_must_not_overlap() {
        let old = BTreeSet::from([b"user:".to_vec()]);
        assert!(refuse_overlaps(&old, &[b"item:", b"cart:"]).is_ok());
        let text = refuse_overlaps(&old, &[b"us"]).unwrap_err();
        assert!(text.contains("'us' overlaps with an existing prefix 'user:'"), "{text}");
        let text = refuse_overlaps(&old, &[b"a", b"b", b"ab"]).unwrap_err();
        assert!(text.contains("'a' overlaps with another provided prefix 'ab'"), "{text}");
    }
}
