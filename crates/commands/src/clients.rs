//! All connections of all loops, as CLIENT LIST shows them.

use crate::address::Address;
use crate::budget::{Budget, Share};
use crate::push::{Kind, Owner, Subscriptions};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The user that a connection is before it has said another.
pub(crate) const DEFAULT_USER: &str = "default";

/// What a client says about itself, and what it did last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(crate) name: Vec<u8>,
    pub(crate) lib_name: Vec<u8>,
    pub(crate) lib_version: Vec<u8>,
    pub(crate) last_command: &'static str,
    /// Its user, as far as its requests have told.
    pub(crate) user: Option<Arc<str>>,
}

/// What CLIENT LIST shows of a connection that wants to know which keys were written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tracked {
    /// The connection that is told instead.
    pub(crate) redirect: Option<u64>,
    /// That connection is gone.
    pub(crate) is_broken: bool,
    /// It is told of keys with its prefixes, whoever has read them.
    pub(crate) broadcasts: bool,
}

/// What everybody may know of one connection.
#[derive(Debug)]
pub struct Client {
    /// Its number, which is never used twice.
    pub id: u64,
    /// The event loop that serves it.
    pub loop_index: usize,
    /// Its place among the connections of that loop.
    pub slot: usize,
    /// The client's end.
    pub peer: Address,
    pub(crate) local: Address,
    pub(crate) born_ms: u64,
    pub(crate) active_ms: AtomicU64,
    pub(crate) db: AtomicU8,
    pub(crate) resp: AtomicU8,
    pub(crate) input_bytes: AtomicUsize,
    pub(crate) output_bytes: AtomicUsize,
    /// Bytes held in all, as the memory cap counts them.
    pub(crate) held_bytes: AtomicUsize,
    /// Of these, what requests take that are not yet answered.
    pub(crate) request_bytes: AtomicUsize,
    /// What is kept for it beside its buffers: names, channels, patterns, prefixes.
    pub(crate) kept: Share,
    /// What it held when it was told to go; 0 before.
    pub(crate) leaving_bytes: AtomicUsize,
    pub(crate) no_evict: AtomicBool,
    pub(crate) no_touch: AtomicBool,
    /// It is shown the requests of all clients.
    pub(crate) monitors: AtomicBool,
    /// It is a replica that is fed, or about to be.
    pub(crate) is_fed: AtomicBool,
    /// One of its requests waits until there is something for it.
    pub waits: AtomicBool,
    names: Mutex<Names>,
    subscriptions: Mutex<Subscriptions>,
}

impl Client {
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channels that it listens to. Locked after the register of channels.
    pub(crate) fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection as its event loop finds it.
    pub(crate) fn owner(&self) -> Owner {
        Owner { slot: self.slot, client: self.id }
    }

    /// All memory held for it.
    pub fn all_bytes(&self) -> usize {
        self.held_bytes.load(Relaxed) + self.kept.bytes()
    }

    /// True where it listens to any channel.
    pub fn is_listening(&self) -> bool {
        self.subscriptions().count() > 0
    }

    /// True if it is shown the requests of all clients.
    pub fn is_monitor(&self) -> bool {
        self.monitors.load(Relaxed)
    }

    /// True if it is a replica that is fed, or about to be.
    pub fn is_replica(&self) -> bool {
        self.is_fed.load(Relaxed)
    }

    /// The user that it is, as far as its last request told.
    pub(crate) fn user_name(&self) -> String {
        self.names().user.as_deref().unwrap_or(DEFAULT_USER).into()
    }

    /// Its flags, as CLIENT LIST shows them.
    fn flags(&self, tracked: Option<Tracked>, listens: bool) -> String {
        let flags = [
            ('S', self.is_replica()),
            ('O', self.monitors.load(Relaxed)),
            ('P', listens),
            ('b', self.waits.load(Relaxed)),
            ('t', tracked.is_some()),
            ('R', tracked.is_some_and(|tracked| tracked.is_broken)),
            ('B', tracked.is_some_and(|tracked| tracked.broadcasts)),
            ('U', matches!(self.peer, Address::Unix(_))),
            ('e', self.no_evict.load(Relaxed)),
            ('T', self.no_touch.load(Relaxed)),
        ];
        let shown: String = flags.iter().filter(|(_, on)| *on).map(|(flag, _)| flag).collect();
        if shown.is_empty() { "N".into() } else { shown }
    }

    /// One line of CLIENT LIST, without line end.
    pub(crate) fn line(&self, tracked: Option<Tracked>, now_ms: u64) -> String {
        let redirect = tracked.map_or(-1, |tracked| tracked.redirect.unwrap_or(0) as i64);
        let names = self.names().clone();
        let count = |kind| self.subscriptions().of(kind).len();
        let (channels, patterns) = (count(Kind::Channel), count(Kind::Pattern));
        let shards = count(Kind::Shard);
        let seconds = |since: u64| now_ms.saturating_sub(since) / 1000;
        let text = String::from_utf8_lossy;
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db={} sub={} psub={} \
             ssub={shards} multi=-1 qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 \
             oll=0 omem={} tot-mem={} events=r cmd={} user={} redir={redirect} resp={} lib-name={} \
             lib-ver={}",
            self.id,
            self.peer,
            self.local,
            text(&names.name),
            seconds(self.born_ms),
            seconds(self.active_ms.load(Relaxed)),
            self.flags(tracked, channels + patterns > 0),
            self.db.load(Relaxed),
            channels,
            patterns,
            self.input_bytes.load(Relaxed),
            self.output_bytes.load(Relaxed),
            self.all_bytes(),
            if names.last_command.is_empty() { "NULL" } else { names.last_command },
            names.user.as_deref().unwrap_or(DEFAULT_USER),
            self.resp.load(Relaxed),
            text(&names.lib_name),
            text(&names.lib_version),
        )
    }
}

/// The register of connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    list: Mutex<BTreeMap<u64, Arc<Client>>>,
    next_id: AtomicU64,
    count: AtomicUsize,
}

impl Clients {
    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of connections.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Registers a new connection.
    pub(crate) fn add(
        &self,
        (loop_index, slot): (usize, usize),
        (peer, local): (Address, Address),
        now_ms: u64,
        budget: &Arc<Budget>,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next_id.fetch_add(1, Relaxed) + 1,
            loop_index,
            slot,
            peer,
            local,
            born_ms: now_ms,
            active_ms: AtomicU64::new(now_ms),
            db: AtomicU8::new(0),
            resp: AtomicU8::new(2),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            request_bytes: AtomicUsize::new(0),
            kept: Share::new(budget),
            leaving_bytes: AtomicUsize::new(0),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            monitors: AtomicBool::new(false),
            is_fed: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            names: Mutex::default(),
            subscriptions: Mutex::default(),
        });
        self.list().insert(client.id, Arc::clone(&client));
        self.count.fetch_add(1, Relaxed);
        client
    }

    /// Forgets a connection that is gone.
    pub(crate) fn remove(&self, id: u64) {
        if self.list().remove(&id).is_some() {
            self.count.fetch_sub(1, Relaxed);
        }
    }

    /// The connection of this number.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.list().get(&id).cloned()
    }

    /// The connection that holds most, at least `bytes_min` bytes; one that must not be evicted
    /// only if there is no other. What its requests take counts only between equals: they are
    /// answered soon or refused, while what is not read may lie for ever.
    pub(crate) fn largest(&self, bytes_min: usize) -> Option<Arc<Client>> {
        let list = self.list();
        let stays = |client: &&Arc<Client>| {
            client.leaving_bytes.load(Relaxed) == 0 && client.all_bytes() >= bytes_min
        };
        let rank = |client: &&Arc<Client>| {
            let all = client.all_bytes();
            let lying = all.saturating_sub(client.request_bytes.load(Relaxed));
            (!client.no_evict.load(Relaxed), lying, all)
        };
        list.values().filter(stays).max_by_key(rank).cloned()
    }

    /// All connections, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.list().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_read_goes_before_who_asks() {
        let (clients, budget) = (Clients::default(), Budget::new(8 << 20));
        let peer = Address::Ip(([127, 0, 0, 1], 1).into());
        let add = |held: usize, requests: usize| {
            let client = clients.add((0, 0), (peer.clone(), peer.clone()), 0, &budget);
            client.held_bytes.store(held, Relaxed);
            client.request_bytes.store(requests, Relaxed);
            client.id
        };
        let largest = || clients.largest(4096).map(|client| client.id);
        let (idle, asking) = (add(1000, 0), add(600_000, 500_000));
        assert_eq!(largest(), Some(asking));
        let silent = add(300_000, 0);
        assert_eq!(largest(), Some(silent));
        clients.get(silent).unwrap().no_evict.store(true, Relaxed);
        assert_eq!(largest(), Some(asking));
        clients.remove(asking);
        assert_eq!(largest(), Some(silent));
        clients.remove(silent);
        assert_eq!((largest(), clients.get(idle).is_some()), (None, true));
    }
}
