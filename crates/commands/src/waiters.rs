//! Clients that wait until a key has what they ask for: BLPOP, XREAD and the like.
//!
//! A request that finds nothing says for which keys it waits ([`Wait`]). It is registered and run
//! once more, so that nothing is missed that came meanwhile; if there still is nothing, its
//! connection keeps it. When one of the keys is changed, the first client that waits for it is
//! woken and its request runs anew; when that is answered, the next one is woken. So clients are
//! served in the order in which they came, and a change does not wake all of them. A request that
//! takes nothing away (XREAD) is woken by each change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a request that waits is answered if it waits in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vain {
    /// As an array that is not there.
    Array,
    /// As a value that is not there.
    Value,
}

/// What a request waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Milliseconds; 0 for ever.
    pub(crate) timeout_ms: u64,
    pub(crate) keys: Vec<Box<[u8]>>,
    pub(crate) vain: Vain,
    /// It takes nothing away: others that wait for the same keys are served at the same time.
    pub(crate) shares: bool,
    /// What the request's first run has found out that later ones are to know.
    pub(crate) resolved: Vec<Vec<u8>>,
}

impl Wait {
    /// Milliseconds after which it ends; `None` for never.
    pub fn timeout_ms(&self) -> Option<u64> {
        (self.timeout_ms > 0).then_some(self.timeout_ms)
    }
}

/// What has become of the wait of a connection's next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waited {
    /// It has not waited, or goes on with it.
    #[default]
    Not,
    /// Its time is over.
    TimedOut,
    /// Somebody has ended it with an error.
    Ended,
}

/// A client that waits.
#[derive(Debug)]
struct Waiter {
    /// Its place in the order of all that wait.
    turn: u64,
    keys: Vec<Box<[u8]>>,
    shares: bool,
    resolved: Arc<Vec<Vec<u8>>>,
}

/// Clients by their turns, and whether each shares.
type Turns = BTreeMap<u64, (u64, bool)>;

#[derive(Debug, Default)]
struct Waiting {
    clients: BTreeMap<u64, Waiter>,
    /// The clients of each key, by their turns, and whether they share.
    by_key: BTreeMap<Box<[u8]>, Turns>,
    turns: u64,
}

/// All clients that wait.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// How many they are: who changes a key looks only at this, mostly.
    count: AtomicUsize,
    waiting: Mutex<Waiting>,
}

impl Waiters {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if anybody waits. What the caller has changed before is seen by whoever begins later.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        // Either a waiter sees the change, or the one who changes sees the waiter.
        fence(SeqCst);
        self.count.load(SeqCst) > 0
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// True if `client` waits.
    pub(crate) fn has(&self, client: u64) -> bool {
        self.waiting().clients.contains_key(&client)
    }

    /// Lets `client` wait; false if it does so already.
    pub(crate) fn begin(&self, client: u64, wait: &Wait) -> bool {
        let mut waiting = self.waiting();
        if waiting.clients.contains_key(&client) {
            return false;
        }
        let turn = waiting.turns;
        waiting.turns += 1;
        for key in &wait.keys {
            let clients = waiting.by_key.entry(key.clone()).or_default();
            clients.insert(turn, (client, wait.shares));
        }
        let (keys, shares) = (wait.keys.clone(), wait.shares);
        let resolved = Arc::new(wait.resolved.clone());
        waiting.clients.insert(client, Waiter { turn, keys, shares, resolved });
        self.count.store(waiting.clients.len(), SeqCst);
        fence(SeqCst);
        true
    }

    /// What the first run of the request that `client` waits with has found out.
    pub(crate) fn resolved(&self, client: u64) -> Option<Arc<Vec<Vec<u8>>>> {
        self.waiting().clients.get(&client).map(|waiter| Arc::clone(&waiter.resolved))
    }

    /// `client` does not wait any more. The clients that are to be woken: the next ones of its
    /// keys.
    #[must_use]
    pub(crate) fn end(&self, client: u64) -> Vec<u64> {
        let mut waiting = self.waiting();
        let Some(Waiter { turn, keys, shares, .. }) = waiting.clients.remove(&client) else {
            return Vec::new();
        };
        for key in &keys {
            if let Some(clients) = waiting.by_key.get_mut(key) {
                clients.remove(&turn);
                if clients.is_empty() {
                    waiting.by_key.remove(key);
                }
            }
        }
        self.count.store(waiting.clients.len(), SeqCst);
        drop(waiting);
        match shares {
            true => Vec::new(),
            false => self.of_keys(keys.iter().map(|key| &**key)),
        }
    }

    /// The clients that are to be woken since `keys` were changed.
    #[must_use]
    pub(crate) fn of_keys<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<u64> {
        let mut woken = Vec::new();
        {
            let waiting = self.waiting();
            for key in keys {
                let Some(clients) = waiting.by_key.get(key) else { continue };
                let mut kinds: Vec<&[Vec<u8>]> = Vec::new();
                for (client, shares) in clients.values() {
                    // Those that have resolved the same take from each other.
                    let waiter = waiting.clients.get(client);
                    let resolved = waiter.map_or(&[][..], |waiter| &waiter.resolved[..]);
                    if !shares && kinds.contains(&resolved) {
                        continue;
                    }
                    if !shares {
                        kinds.push(resolved);
                    }
                    woken.push((*client, *shares));
                }
            }
        }
        woken.sort_unstable();
        woken.dedup();
        woken.into_iter().map(|(client, _)| client).collect()
    }

    /// All clients that wait.
    #[must_use]
    pub(crate) fn all(&self) -> Vec<u64> {
        self.waiting().clients.keys().copied().collect()
    }
}

/// The milliseconds that a timeout in seconds means.
pub(crate) fn timeout_ms(seconds: &[u8]) -> Result<u64, &'static str> {
    let number = std::str::from_utf8(seconds).ok().and_then(|text| text.parse::<f64>().ok());
    let number = number.filter(|number| !number.is_nan());
    let ms = number.ok_or("ERR timeout is not a float or out of range")? * 1000.0;
    match ms.ceil() {
        // What is more than 64 bits have is negative to Redis.
        ms if ms < 0.0 || ms > i64::MAX as f64 => Err("ERR timeout is negative"),
        ms => Ok(ms as u64),
    }
}
