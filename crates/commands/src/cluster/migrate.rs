//! MIGRATE: moves keys to another server.
//!
//! A key is dumped, restored at the target, and removed here if it is still what was dumped; else
//! it is dumped anew. So a large value holds nobody up: only its removal, which compares once more,
//! runs under the lock that requests for its slot take ([`Cluster::handover`]). Which server a key
//! is at changes at that moment:
//!
//! 1. As long as a key is here, this node answers for it.
//! 2. While a key is moved and is not here, because a client has removed it, requests for it are
//!    told to try again, until the copy at the target is gone, too.
//! 3. A key that clients change during each of [`ROUNDS_FREE`] attempts is frozen for the next:
//!    requests that change it are told to try again, those that read it are served.

use super::encryption::LinkKind;
use super::kept::LinkKey;
use super::own::{Does, ask};
use super::wire::{Answer, Peer};
use super::{Cluster, lock};
use crate::burst::Args;
use crate::exec::Executor;
use crate::resp::{Keyspace, NOT_INTEGER, SYNTAX, dump, expiry};
use crate::service::Service;
use crate::table::Run;
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Attempts that leave clients free to change a key.
const ROUNDS_FREE: usize = 2;
/// Attempts after which MIGRATE fails: outside of a slot that is handed over nobody can be kept
/// from changing a key.
const ROUNDS_MAX: usize = 64;
/// Keys that are sent together, and bytes of them after which no more are added.
const KEYS_TOGETHER: usize = 64;
const BYTES_TOGETHER: usize = 1 << 20;
/// Milliseconds if the timeout is 0, as in Redis.
const USUAL_MS: u64 = 1_000;

/// Keys under way, and whether they are frozen.
#[derive(Default)]
pub(crate) struct Moving(Mutex<BTreeMap<Box<[u8]>, bool>>);

impl Moving {
    /// True if a request for `key` has to wait, which `changes` it or not, and finds it there or
    /// not.
    pub(crate) fn holds(&self, key: &[u8], changes: bool, is_there: bool) -> bool {
        match lock(&self.0).get(key) {
            None => false,
            Some(is_frozen) => !is_there || (*is_frozen && changes),
        }
    }

    fn set(&self, keys: &[&[u8]], is_frozen: bool) {
        let mut all = lock(&self.0);
        all.extend(keys.iter().map(|key| (Box::from(*key), is_frozen)));
    }

    fn remove(&self, keys: &[&[u8]]) {
        let mut all = lock(&self.0);
        all.retain(|key, _| !keys.contains(&&**key));
    }
}

/// Takes keys out of [`Moving`] when MIGRATE ends, however that is.
struct Moved<'m, 'k>(Option<&'m Moving>, &'m [&'k [u8]]);

impl Drop for Moved<'_, '_> {
    fn drop(&mut self) {
        if let Some(moving) = self.0 {
            moving.remove(self.1);
        }
    }
}

/// What a MIGRATE asks for.
struct Wanted<'a> {
    host: String,
    port: u16,
    db: i64,
    timeout: Duration,
    copies: bool,
    replaces: bool,
    /// AUTH's arguments; none if it is not given.
    credentials: Vec<&'a [u8]>,
    keys: Vec<&'a [u8]>,
}

fn wanted<'a>(args: Args<'a>) -> std::result::Result<Wanted<'a>, &'static str> {
    let (mut copies, mut replaces, mut credentials) = (false, false, Vec::new());
    let mut keys = vec![args.get(3)];
    let mut index = 6;
    while index < args.len() {
        let left = args.len() - index - 1;
        if args.is(index, "copy") {
            copies = true;
        } else if args.is(index, "replace") {
            replaces = true;
        } else if args.is(index, "auth") && left >= 1 {
            credentials = vec![args.get(index + 1)];
            index += 1;
        } else if args.is(index, "auth2") && left >= 2 {
            credentials = vec![args.get(index + 1), args.get(index + 2)];
            index += 2;
        } else if args.is(index, "keys") {
            if !args.get(3).is_empty() {
                return Err("ERR When using MIGRATE KEYS option, the key argument must be set to \
                            the empty string");
            }
            keys = args.from(index + 1).collect();
            break;
        } else {
            return Err(SYNTAX);
        }
        index += 1;
    }
    if keys.is_empty() {
        return Err(SYNTAX);
    }
    let number = |at: usize| parse_i64(args.get(at)).ok_or(NOT_INTEGER);
    let port = number(2)?;
    let port = u16::try_from(port).ok().filter(|port| *port > 0);
    let timeout_ms = u64::try_from(number(5)?).ok().filter(|ms| *ms > 0).unwrap_or(USUAL_MS);
    Ok(Wanted {
        host: String::from_utf8_lossy(args.get(1)).into_owned(),
        port: port.ok_or("ERR Invalid port: it is a number from 1 to 65535")?,
        db: number(4)?,
        timeout: Duration::from_millis(timeout_ms),
        copies,
        replaces,
        credentials,
        keys,
    })
}

/// Why a MIGRATE has ended early: the text of its reply.
type Failed = String;

fn unreachable(error: &io::Error) -> Failed {
    log::debug!("MIGRATE: {error}");
    format!("IOERR error or timeout connecting to the client: {error}")
}

fn unanswered(error: &io::Error) -> Failed {
    format!("IOERR error or timeout reading from target instance: {error}")
}

/// A key on its way.
struct Item<'k> {
    key: &'k [u8],
    /// What DUMP and PEXPIRETIME have replied.
    dumped: Vec<u8>,
    expires: Vec<u8>,
    /// It was restored in an earlier round: its copy is ours to replace.
    was_sent: bool,
}

impl Item<'_> {
    /// The payload, without the frame of the reply.
    fn payload(&self) -> Option<&[u8]> {
        let at = self.dumped.windows(2).position(|two| two == b"\r\n")?;
        let payload = self.dumped.get(at + 2..self.dumped.len().checked_sub(2)?)?;
        (self.dumped.first() == Some(&b'$')).then_some(payload)
    }

    /// Milliseconds from `now_ms` on for which it is kept; 0 for ever.
    fn ttl_ms(&self, now_ms: u64) -> u64 {
        let text = std::str::from_utf8(&self.expires).unwrap_or_default();
        let at = text.trim_start_matches(':').trim_end().parse::<i64>().unwrap_or(-1);
        match u64::try_from(at) {
            Ok(at) => at.saturating_sub(now_ms).max(1),
            Err(_) => 0,
        }
    }
}

/// MIGRATE.
pub(crate) fn migrate(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    match wanted(args) {
        Err(text) => reply.error(text),
        Ok(wanted) => {
            let Some(service) = keys.service.itself() else { return Ok(()) };
            match Mover::new(keys, &wanted, service).run() {
                Ok(true) => reply.ok(),
                Ok(false) => reply.simple("NOKEY"),
                Err(text) => reply.error(&text),
            }
        }
    }
    Ok(())
}

/// Moves keys for one MIGRATE.
struct Mover<'m> {
    service: &'m Service,
    keys: &'m Keyspace<'m>,
    wanted: &'m Wanted<'m>,
    cluster: Option<&'m Arc<Cluster>>,
    executor: Executor,
    peer: Option<Peer>,
}

impl<'m> Mover<'m> {
    fn new(keys: &'m Keyspace<'m>, wanted: &'m Wanted<'m>, arc: Arc<Service>) -> Self {
        let (service, executor) = (keys.service, Executor::new(arc));
        let cluster = service.cluster.as_ref();
        Mover { service, keys, wanted, cluster, executor, peer: None }
    }

    /// Moves all keys; false if none is there. The connection is kept for the next MIGRATE, if
    /// nothing has failed on it.
    fn run(&mut self) -> std::result::Result<bool, Failed> {
        let any = self.move_all()?;
        if let Some(peer) = self.peer.take() {
            self.service.kept_links.put(self.link_key(), peer, self.service.monotonic_ms());
        }
        Ok(any)
    }

    fn move_all(&mut self) -> std::result::Result<bool, Failed> {
        if let Some(cluster) = self.cluster
            && cluster.keep_slots()?
        {
            // The target would have to do so before it takes the first key, on its event loop. A
            // server outside of a cluster refuses, which does not matter.
            let peer = self.peer()?;
            peer.call(&[b"CLUSTER", b"SAVECONFIG"]).map_err(|error| unanswered(&error))?;
        }
        let mut rest = &self.wanted.keys[..];
        let mut any = false;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(KEYS_TOGETHER));
            rest = later;
            any |= self.move_some(now)?;
        }
        Ok(any)
    }

    fn move_some(&mut self, names: &[&[u8]]) -> std::result::Result<bool, Failed> {
        let moving = self.cluster.map(|cluster| &cluster.moving);
        let _moved = Moved(moving, names);
        if let Some(moving) = moving.filter(|_| !self.wanted.copies) {
            moving.set(names, false);
        }
        let mut any = false;
        let mut left: Vec<(&[u8], bool)> = names.iter().map(|key| (*key, false)).collect();
        for round in 0..ROUNDS_MAX {
            let mut changed = Vec::new();
            while !left.is_empty() {
                let items = self.dump(&mut left)?;
                any |= !items.is_empty();
                self.send(&items)?;
                if !self.wanted.copies {
                    self.forget(&items, &mut changed)?;
                }
            }
            if changed.is_empty() {
                return Ok(any);
            }
            left = changed.into_iter().map(|key| (key, true)).collect();
            if round + 1 >= ROUNDS_FREE
                && let Some(moving) = moving
            {
                moving.set(&left.iter().map(|(key, _)| *key).collect::<Vec<_>>(), true);
            }
        }
        Err("ERR clients change the keys all the time; move them again".into())
    }

    /// Dumps some of the keys of `left`, which it takes out of it. Keys that are not there are
    /// skipped.
    fn dump<'k>(
        &mut self,
        left: &mut Vec<(&'k [u8], bool)>,
    ) -> std::result::Result<Vec<Item<'k>>, Failed> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        while bytes < BYTES_TOGETHER
            && let Some((key, was_sent)) = left.pop()
        {
            let expires = Run::Read(&expiry::EXPIRETIME);
            let asked: [(Run, &[&[u8]]); 2] =
                [(expires, &[b"pexpiretime", key]), (Run::Type(&dump::DUMP), &[b"dump", key])];
            let mut replies = self.ask(&asked, Does::Read)?;
            let (dumped, expires) = (replies.pop(), replies.pop());
            let item = Item {
                key,
                dumped: dumped.unwrap_or_default(),
                expires: expires.unwrap_or_default(),
                was_sent,
            };
            if item.dumped.first() == Some(&b'-') {
                return Err(String::from_utf8_lossy(&item.dumped[1..]).trim_end().into());
            }
            if item.payload().is_some() {
                self.keys.claim.grow(3 * item.dumped.len())?;
                bytes += item.dumped.len();
                items.push(item);
            } else if was_sent {
                // A client has removed it since.
                self.remove_copy(key)?;
            }
        }
        Ok(items)
    }

    fn link_key(&self) -> LinkKey {
        let Wanted { host, port, credentials, db, .. } = self.wanted;
        let credentials = credentials.iter().map(|word| word.to_vec()).collect();
        let encrypts = self.service.encryption(LinkKind::Cluster).1;
        LinkKey { host: host.clone(), port: *port, db: *db, credentials, encrypts }
    }

    fn peer(&mut self) -> std::result::Result<&mut Peer, Failed> {
        if self.peer.is_none() {
            let kept = self.service.kept_links.take(&self.link_key(), self.service.monotonic_ms());
            if let Some(mut peer) = kept
                && peer.wire().set_timeout(self.wanted.timeout).is_ok()
            {
                self.peer = Some(peer);
            }
        }
        if self.peer.is_none() {
            let Wanted { host, port, timeout, credentials, db, .. } = self.wanted;
            let wire = self.service.dial(LinkKind::Cluster, host, *port, *timeout);
            let mut peer = Peer::new(wire.map_err(|error| unreachable(&error))?);
            let mut first: Vec<Vec<&[u8]>> = Vec::new();
            if !credentials.is_empty() {
                first.push([&[&b"AUTH"[..]], &credentials[..]].concat());
            }
            let db = db.to_string();
            if db != "0" {
                first.push(vec![b"SELECT", db.as_bytes()]);
            }
            for request in first {
                let answer = peer.call(&request).map_err(|error| unanswered(&error))?;
                check(answer)?;
            }
            self.peer = Some(peer);
        }
        Ok(self.peer.as_mut().expect("it was just connected"))
    }

    /// Restores `items` at the target.
    fn send(&mut self, items: &[Item<'_>]) -> std::result::Result<(), Failed> {
        if items.is_empty() {
            return Ok(());
        }
        let now_ms = self.service.unix_ms();
        let verb: &[u8] = if self.cluster.is_some() { b"RESTORE-ASKING" } else { b"RESTORE" };
        let replaces = self.wanted.replaces;
        let peer = self.peer()?;
        for item in items {
            let ttl_ms = item.ttl_ms(now_ms).to_string();
            let payload = item.payload().unwrap_or_default();
            let mut request = vec![verb, item.key, ttl_ms.as_bytes(), payload];
            if replaces || item.was_sent {
                request.push(b"REPLACE");
            }
            peer.push(&request);
        }
        peer.flush().map_err(|error| unanswered(&error))?;
        let mut failed = None;
        for _ in items {
            let answer = peer.answer().map_err(|error| unanswered(&error))?;
            failed = failed.or(check(answer).err());
        }
        // Of a batch that failed in part nothing is removed here: what was restored is replaced
        // when it is moved again.
        failed.map_or(Ok(()), Err)
    }

    /// Removes what has arrived at the target. What clients have changed since goes to `changed`.
    fn forget<'k>(
        &mut self,
        items: &[Item<'k>],
        changed: &mut Vec<&'k [u8]>,
    ) -> std::result::Result<(), Failed> {
        if items.is_empty() {
            return Ok(());
        }
        let args: Vec<[&[u8]; 4]> = items
            .iter()
            .map(|item| [&b"migrate"[..], item.key, &item.dumped, &item.expires])
            .collect();
        let asked: Vec<(Run, &[&[u8]])> =
            args.iter().map(|args| (Run::Type(&dump::MIGRATED), &args[..])).collect();
        if let Some(cluster) = self.cluster {
            cluster.keep_slots()?;
        }
        let replies = self.ask(&asked, Does::HandOver)?;
        for (item, reply) in items.iter().zip(replies) {
            match &reply[..] {
                b":1\r\n" => {}
                b":0\r\n" => changed.push(item.key),
                b":-1\r\n" => self.remove_copy(item.key)?,
                other => return Err(String::from_utf8_lossy(&other[1..]).trim_end().into()),
            }
        }
        Ok(())
    }

    /// Removes a key at the target that a client has removed here.
    fn remove_copy(&mut self, key: &[u8]) -> std::result::Result<(), Failed> {
        let is_cluster = self.cluster.is_some();
        let peer = self.peer()?;
        if is_cluster {
            let answer = peer.call(&[b"ASKING"]).map_err(|error| unanswered(&error))?;
            check(answer)?;
        }
        check(peer.call(&[b"DEL", key]).map_err(|error| unanswered(&error))?)
    }

    /// Runs requests of our own; their replies.
    fn ask(
        &mut self,
        requests: &[(Run, &[&[u8]])],
        does: Does,
    ) -> std::result::Result<Vec<Vec<u8>>, Failed> {
        ask(&mut self.executor, self.keys.db as u8, requests, does)
    }
}

/// The target's error, if it has answered with one.
fn check(answer: Answer) -> std::result::Result<(), Failed> {
    match answer {
        Answer::Error(text) => Err(format!("ERR Target instance replied with error: {text}")),
        Answer::Text(_) | Answer::Null => Ok(()),
    }
}
