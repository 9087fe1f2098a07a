//! When keys expire that commands have written, as far as there is memory for it.

use super::{Event, Expiry};
use crate::budget::Share;
use crate::burst::{Args, Burst, Input, Output, Request};
use crate::lane::Lane;
use crate::push::Owner;
use crate::resp::Keyspace;
use crate::table::Run;
use silica::engine::{EntryRef, GetSink, Result};
use silica_proto::Reply;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory of a key beside its bytes: nodes of two trees.
const KEY_BYTES: usize = 192;
/// The timers have at most one of so many bytes of the clients' memory.
const MEMORY_SHARE: usize = 8;
/// Keys that are looked for in one call of an engine.
const STEP: usize = 256;

/// A key and its database.
pub(crate) type Name = (u8, Arc<[u8]>);

#[derive(Debug, Default)]
struct Inner {
    by_name: BTreeMap<Name, u64>,
    by_time: BTreeSet<(u64, Name)>,
}

impl Inner {
    /// Forgets a key; its time.
    fn remove(&mut self, name: &Name) -> Option<u64> {
        let at = self.by_name.remove(name)?;
        self.by_time.remove(&(at, name.clone()));
        Some(at)
    }
}

/// Keys and the times when they expire.
#[derive(Debug)]
pub(crate) struct Timers {
    inner: Mutex<Inner>,
    share: Share,
    bytes_max: usize,
}

impl Timers {
    /// None, whose memory is part of `share`'s budget of `budget_bytes` bytes.
    pub(crate) fn new(share: Share, budget_bytes: usize) -> Self {
        Timers { inner: Mutex::default(), share, bytes_max: budget_bytes / MEMORY_SHARE }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, inner: &mut Inner, name: &Name) -> Option<u64> {
        let at = inner.remove(name)?;
        self.share.shrink(name.1.len() + KEY_BYTES);
        Some(at)
    }

    /// Notes when `name` expires; 0 for never. If there is no room the key that expires last is
    /// forgotten.
    fn set(&self, inner: &mut Inner, name: &Name, at: u64) {
        self.remove(inner, name);
        if at == 0 {
            return;
        }
        let bytes = name.1.len() + KEY_BYTES;
        while self.share.bytes() + bytes > self.bytes_max || self.share.grow(bytes).is_err() {
            let Some((_, last)) = inner.by_time.last().filter(|(last, _)| *last > at).cloned()
            else {
                return;
            };
            self.remove(inner, &last);
        }
        inner.by_name.insert(name.clone(), at);
        inner.by_time.insert((at, name.clone()));
    }

    /// Notes when a key of database `db` expires; 0 for never.
    pub(crate) fn note_at(&self, db: u8, key: &[u8], at: u64) {
        self.set(&mut self.lock(), &(db, Arc::from(key)), at);
    }

    /// Notes what `event` says of its key's time.
    pub(super) fn note(&self, event: &Event) {
        let named = |key: &[u8]| (event.db, Arc::from(key));
        let name = named(&event.key);
        let mut inner = self.lock();
        match &event.expiry {
            Expiry::Same => {}
            Expiry::At(at) => self.set(&mut inner, &name, *at),
            Expiry::To(other) => {
                let at = self.remove(&mut inner, &name).unwrap_or(0);
                self.set(&mut inner, &named(other), at);
            }
            Expiry::Of(db, other) => {
                let other = (*db, Arc::from(&**other));
                let at = inner.by_name.get(&other).copied().unwrap_or(0);
                self.set(&mut inner, &name, at);
            }
        }
    }

    /// Forgets a key whose time is over at `now_ms`; true if it is.
    pub(crate) fn take_if_due(&self, db: u8, key: &[u8], now_ms: u64) -> bool {
        let mut inner = self.lock();
        if inner.by_time.first().is_none_or(|(at, _)| *at > now_ms) {
            return false;
        }
        let name = (db, Arc::from(key));
        let is_due = inner.by_name.get(&name).is_some_and(|at| *at <= now_ms);
        if is_due {
            self.remove(&mut inner, &name);
        }
        is_due
    }

    pub(crate) fn has_due(&self, now_ms: u64) -> bool {
        self.lock().by_time.first().is_some_and(|(at, _)| *at <= now_ms)
    }

    /// Some keys whose time is over at `now_ms`, all of one database.
    pub(crate) fn due(&self, now_ms: u64) -> Vec<Name> {
        let inner = self.lock();
        let due = inner.by_time.iter().take_while(|(at, _)| *at <= now_ms).map(|(_, name)| name);
        let db = due.clone().next().map(|name| name.0);
        due.filter(|name| Some(name.0) == db).take(STEP).cloned().collect()
    }

    /// All keys: database, time, name.
    pub(crate) fn all(&self) -> Vec<(u8, u64, Vec<u8>)> {
        let inner = self.lock();
        inner.by_name.iter().map(|((db, key), at)| (*db, *at, key.to_vec())).collect()
    }

    /// The keys of two databases have each other's number from now on.
    pub(crate) fn swap(&self, one: u8, other: u8) {
        let mut inner = self.lock();
        let is_swapped = |(name, _): &(&Name, &u64)| name.0 == one || name.0 == other;
        let swapped: Vec<(Name, u64)> =
            inner.by_name.iter().filter(is_swapped).map(|(name, at)| (name.clone(), *at)).collect();
        for (name, _) in &swapped {
            inner.remove(name);
        }
        for ((db, key), at) in swapped {
            let name = (if db == one { other } else { one }, key);
            inner.by_name.insert(name.clone(), at);
            inner.by_time.insert((at, name));
        }
    }

    /// Forgets the keys of a database, or of all.
    pub(crate) fn clear(&self, db: Option<u8>) {
        let mut inner = self.lock();
        let names: Vec<Name> = inner.by_name.keys().cloned().collect();
        for name in names.iter().filter(|name| db.is_none_or(|db| db == name.0)) {
            self.remove(&mut inner, name);
        }
    }
}

/// Times of expiry as an engine has them; `None` for keys that are gone.
struct Times(Vec<Option<u64>>);

impl GetSink for Times {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0[index] = Some(entry.expires_unix_ms);
    }
}

/// Looks whether keys are gone whose time is over, and tells of those that are.
fn expire_due(keys: &Keyspace<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<()> {
    let (service, timers) = (keys.service, &keys.service.events.timers);
    let now_ms = service.unix_ms();
    loop {
        let due = timers.due(now_ms);
        let Some(first) = due.first() else { return Ok(()) };
        let engine = service.databases.engine(usize::from(first.0))?;
        let names: Vec<&[u8]> = due.iter().map(|name| &*name.1).collect();
        let mut times = Times(vec![None; names.len()]);
        engine.get_many(&names, &mut times)?;
        for (name, at) in due.iter().zip(times.0) {
            match at {
                None => service.events.tell_expired(service, name.0, &name.1, now_ms),
                // Somebody has set another time without telling; one that is over is looked at
                // again later.
                Some(0) => timers.set(&mut timers.lock(), name, 0),
                Some(at) => timers.set(&mut timers.lock(), name, at.max(now_ms + 1)),
            }
        }
    }
}

/// A burst that belongs to no connection and tells of keys whose time is over.
pub(crate) fn burst(from: usize) -> Burst {
    let (silent, long) = (true, true);
    let request = Request { silent, long, ..Request::new(Run::Whole(expire_due), 0, 0) };
    let input = Input { requests: vec![request], is_internal: true, ..Input::default() };
    let mut burst = Burst::new(from, Lane::Long);
    burst.push(Owner { slot: usize::MAX, client: 0 }, input, Output::new(Vec::new(), 0, 1));
    burst
}

#[cfg(test)]
mod tests {
    use super::super::Classes;
    use super::*;
    use crate::budget::Budget;

    fn event(key: &str, expiry: Expiry) -> Event {
        let (class, name) = (Classes::STRING, "set");
        Event { db: 1, key: key.as_bytes().into(), class, name, expiry }
    }

    #[test]
    fn times_move_with_their_keys_and_the_last_have_no_room() {
        let budget = Budget::new(64 << 10);
        let timers = Timers::new(Share::new(&budget), budget.max());
        timers.note(&event("a", Expiry::At(5)));
        timers.note(&event("a", Expiry::To(b"b"[..].into())));
        timers.note(&event("c", Expiry::Of(1, b"b"[..].into())));
        assert!(!timers.take_if_due(1, b"a", 9) && !timers.take_if_due(0, b"b", 9));
        assert!(!timers.take_if_due(1, b"b", 4) && timers.take_if_due(1, b"b", 5));
        assert!(timers.has_due(5) && timers.due(5).len() == 1);
        timers.swap(1, 2);
        assert_eq!(timers.due(5), [(2, Arc::from(&b"c"[..]))]);
        timers.swap(1, 2);
        for n in 0..100 {
            timers.note(&event(&format!("k{n}"), Expiry::At(1000 - n)));
        }
        assert!(timers.lock().by_name.len() < 50 && timers.take_if_due(1, b"k99", 901));
        timers.clear(Some(0));
        assert!(timers.has_due(5));
        timers.clear(None);
        assert_eq!(budget.used(), 0);
    }
}
