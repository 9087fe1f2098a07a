//! Client-side caching: who wants to know which keys were written (CLIENT TRACKING in broadcast
//! mode).
//!
//! When a burst is done, the keys that its requests may have changed go to everybody who asked for
//! their prefixes, all of a burst in one message. A write that found nothing to change is told as
//! well; that an entry expired or was evicted is not. Nobody is told the name of a key that its
//! user may do nothing with.

use crate::budget::Share;
use crate::burst::{Burst, Input, Request};
use crate::clients::Client;
use crate::clients::Owner;
use crate::service::Service;
use crate::table::{Run, Trait, find};
use crate::topics::{Delivery, Published, Push};
use silica_proto::memcached::{Command, Request as Head};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Prefixes of one connection at most.
const PREFIXES_MAX: usize = 1000;

/// Memory of a prefix.
fn bytes_of(prefix: &[u8]) -> usize {
    prefix.len() + 64
}

/// What one connection wants to know.
#[derive(Debug, Clone)]
pub(crate) struct Tracker {
    client: Arc<Client>,
    /// The connection that is told instead.
    pub(crate) redirect: Option<u64>,
    /// Not what it has written itself.
    pub(crate) no_loop: bool,
    /// That connection is gone.
    pub(crate) broken: bool,
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
}

impl Tracker {
    fn wants(&self, writer: u64, key: &[u8]) -> bool {
        let is_own = self.no_loop && writer == self.client.id;
        !is_own && self.prefixes.iter().any(|prefix| key.starts_with(prefix))
    }
}

/// What was written.
enum Written {
    Keys(Vec<Vec<u8>>),
    Everything,
}

/// Everybody who wants to know.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    count: AtomicUsize,
    list: Mutex<BTreeMap<u64, Tracker>>,
}

impl Tracking {
    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Tracker>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True where anybody wants to know anything.
    pub(crate) fn is_active(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Connections that want to know anything.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// What the connection `id` wants to know.
    pub(crate) fn of(&self, id: u64) -> Option<Tracker> {
        if self.is_active() { self.list().get(&id).cloned() } else { None }
    }

    /// Lets a connection know, of `prefixes` and those that it had; all keys where there are none.
    pub(crate) fn add(
        &self,
        client: Arc<Client>,
        redirect: Option<u64>,
        no_loop: bool,
        prefixes: &[&[u8]],
    ) -> Result<(), String> {
        let mut list = self.list();
        let old = list.get(&client.id).map(|tracker| tracker.prefixes.clone());
        let mut all = old.unwrap_or_default();
        refuse_overlaps(&all, prefixes)?;
        if all.len() + prefixes.len() > PREFIXES_MAX {
            return Err(format!("ERR a connection may track {PREFIXES_MAX} prefixes at most"));
        }
        client.kept.grow(prefixes.iter().map(|prefix| bytes_of(prefix)).sum())?;
        all.extend(prefixes.iter().map(|prefix| prefix.to_vec()));
        if prefixes.is_empty() {
            all.insert(Vec::new());
        }
        let id = client.id;
        let tracker = Tracker { client, redirect, no_loop, broken: false, prefixes: all };
        list.insert(id, tracker);
        self.count.store(list.len(), Relaxed);
        Ok(())
    }

    /// Lets the connection `id` know nothing more.
    pub(crate) fn remove(&self, id: u64) {
        if self.is_active() {
            let mut list = self.list();
            if let Some(tracker) = list.remove(&id) {
                let named = tracker.prefixes.iter().filter(|prefix| !prefix.is_empty());
                tracker.client.kept.shrink(named.map(|prefix| bytes_of(prefix)).sum());
            }
            self.count.store(list.len(), Relaxed);
        }
    }

    /// Tells what the requests of `burst` wrote, each connection's from the one in `from` on.
    pub(crate) fn tell(&self, service: &Service, burst: &Burst, from: &[usize]) {
        for (index, input) in burst.inputs.iter().enumerate() {
            let done = &input.requests[from[index]..burst.outputs[index].next];
            let writer = burst.owners[index].client;
            match written(input, done) {
                Written::Keys(keys) if keys.is_empty() => {}
                written => self.send(service, writer, &written),
            }
        }
    }

    fn send(&self, service: &Service, writer: u64, written: &Written) {
        for tracker in self.list().values_mut() {
            let Written::Keys(keys) = written else {
                tracker.tell(service, None, Share::new(&service.budget));
                continue;
            };
            let wanted = || keys.iter().filter(|key| tracker.wants(writer, key));
            let bytes: usize = wanted().map(|key| bytes_of(key)).sum();
            if bytes == 0 {
                continue;
            }
            let share = Share::new(&service.budget);
            // Without memory for the keys, all that it knows is out of date.
            let keys = share.grow(bytes).is_ok().then(|| wanted().cloned().collect());
            tracker.tell(service, keys, share);
        }
    }
}

impl Tracker {
    /// Sends the keys that were written, or that all are gone.
    fn tell(&mut self, service: &Service, keys: Option<Vec<Vec<u8>>>, _share: Share) {
        let Some(redirect) = self.redirect else {
            let redirected = false;
            return deliver(service, &self.client, Push::Written { keys, redirected, _share });
        };
        match service.clients.get(redirect) {
            Some(other) => {
                let redirected = other.is_listening();
                deliver(service, &other, Push::Written { keys, redirected, _share });
            }
            None => {
                self.broken = true;
                deliver(service, &self.client, Push::Broken(redirect));
            }
        }
    }
}

fn deliver(service: &Service, client: &Client, mut published: Push) {
    if let Push::Written { keys: Some(keys), .. } = &mut published {
        let user = service.acl.get(&client.user_name());
        keys.retain(|key| user.as_ref().is_some_and(|user| user.may_know(key)));
        if keys.is_empty() {
            return;
        }
    }
    let owner = Owner { slot: client.slot, client: client.id };
    let delivery = Delivery { to: owner, pattern: None };
    service.front.publish(client.loop_index, Arc::new(Published(published)), vec![delivery]);
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

/// What `requests` of `input` may have changed.
fn written(input: &Input, requests: &[Request]) -> Written {
    let mut keys = Vec::new();
    for request in requests {
        if removes_everything(input, request) {
            return Written::Everything;
        }
        if let Run::Sql(_, index) = request.run
            && input.sql[index].has_written_keys()
        {
            return Written::Everything;
        }
        if let Run::Transaction(index) | Run::AcrossTransaction(index) = request.run {
            let inner = input.transactions[index].input();
            if inner.requests.iter().any(|request| removes_everything(inner, request)) {
                return Written::Everything;
            }
            inner.requests.iter().for_each(|request| add_keys(inner, request, &mut keys));
        } else {
            add_keys(input, request, &mut keys);
        }
    }
    Written::Keys(keys)
}

fn add_keys(input: &Input, request: &Request, keys: &mut Vec<Vec<u8>>) {
    let args = || input.args(request);
    match request.run {
        Run::Write(write) if write.value_at == 0 => {
            keys.extend((1..args().len()).step_by(2).map(|index| args().get(index).to_vec()));
        }
        Run::Script(_, index) => {
            keys.extend(input.scripts[index].written().into_iter().map(Vec::from));
        }
        Run::Write(_) => keys.push(args().get(1).to_vec()),
        Run::Update(modify) => keys.extend(modify.keys(args()).map(<[u8]>::to_vec)),
        Run::UpdateAll(_) | Run::Across(_) => {
            if let Some(command) = find(args().get(0)) {
                let written = command.written_keys(args());
                keys.extend(written.map(<[u8]>::to_vec));
            }
        }
        _ => {}
    }
}

/// True where a request removes all keys of a database.
pub(crate) fn removes_everything(input: &Input, request: &Request) -> bool {
    let (Run::Whole(_) | Run::Across(_)) = request.run else { return false };
    let args = input.args(request);
    match args.memcached() {
        Some(Head::Binary(packet)) => packet.command == Command::Flush,
        Some(head) => matches!(head, Head::FlushAll { .. }),
        None => find(args.get(0)).is_some_and(|command| command.is(Trait::Clears)),
    }
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
