//! Short concurrent histories, and a search for an order that explains each (Wing and Gong).
#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::harness::Harness;
use crate::{Budget, Durability, Engine, EngineExt, EntryRef, Update, WriteBatch};
use silica_base::Prng;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const THREADS_MAX: u64 = 4;
const KEYS: u64 = 3;
const OPS_MAX: u64 = 5;

/// Runs `histories` short histories of 2 to 4 threads on up to 3 keys (puts, gets, deletes,
/// batches of one key's operations, atomic updates) and searches an order of each history's
/// operations, consistent with which ended before which began, that explains every answer.
///
/// # Panics
///
/// Where a history has no such order; the message has the history.
pub fn linearizable<H: Harness>(harness: &mut H, seed: u64, histories: u64) {
    harness.wipe();
    let engine = harness.open().expect("an empty store opens");
    for number in 0..histories {
        let events = record(&engine, Prng::new(seed ^ number.wrapping_mul(0x9E37_79B9)), number);
        for key in 0..KEYS {
            // Linearizability is local: a history is linearizable if its part on each key is.
            let part: Vec<Event> = events.iter().filter(|e| e.key == key).copied().collect();
            assert!(
                is_linearizable(&part),
                "linearizable(harness, {seed}, {}): history {number} has no order: {part:#?}",
                number + 1
            );
        }
    }
}

/// What a thread did, with the tickets drawn before and after.
#[derive(Debug, Clone, Copy)]
struct Event {
    #[expect(dead_code, reason = "shown where a history has no order")]
    thread: u64,
    key: u64,
    action: Action,
    begin: u64,
    end: u64,
}

/// Values are numbers, different for every write; 0 stands for a missing key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Action {
    Put(u64),
    Delete,
    Get {
        found: u64,
    },
    /// Stores the new number where the old one is even, removes it otherwise.
    Update {
        found: u64,
        left: u64,
    },
}

/// Runs one history on keys of its own.
fn record(engine: &impl Engine, mut prng: Prng, number: u64) -> Vec<Event> {
    let threads = 2 + prng.below(THREADS_MAX - 1);
    let tickets = AtomicU64::new(0);
    let waiting = AtomicUsize::new(threads as usize);
    let keys = 1 + prng.below(KEYS);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (tickets, waiting, prng) = (&tickets, &waiting, Prng::new(prng.next_u64()));
                let plan = Plan { engine, thread, number, keys, tickets };
                scope.spawn(move || {
                    waiting.fetch_sub(1, Ordering::AcqRel);
                    while waiting.load(Ordering::Acquire) > 0 {
                        std::thread::yield_now();
                    }
                    plan.run(prng)
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("history thread")).collect()
    })
}

struct Plan<'a, E> {
    engine: &'a E,
    thread: u64,
    number: u64,
    keys: u64,
    tickets: &'a AtomicU64,
}

impl<E: Engine> Plan<'_, E> {
    fn run(&self, mut prng: Prng) -> Vec<Event> {
        let mut events = Vec::new();
        for nth in 0..1 + prng.below(OPS_MAX) {
            let key = prng.below(self.keys);
            let fresh = 1 + self.thread + nth * THREADS_MAX;
            let kind = prng.below(8);
            let begin = self.tickets.fetch_add(1, Ordering::AcqRel);
            let action = self.act(kind, key, fresh);
            let end = self.tickets.fetch_add(1, Ordering::AcqRel);
            events.push(Event { thread: self.thread, key, action, begin, end });
            match prng.below(8) {
                0 => std::thread::yield_now(),
                1 => {
                    let budget = Budget { bytes: 1 + prng.below(1 << 14) };
                    self.engine.maintain(budget).expect("maintenance amid histories");
                }
                _ => {}
            }
        }
        events
    }

    fn act(&self, kind: u64, key: u64, fresh: u64) -> Action {
        let name = format!("{}/{key}", self.number);
        let name = name.as_bytes();
        let value = fresh.to_le_bytes();
        match (kind, self.engine.as_atomic()) {
            (0..=1, _) => {
                self.engine.put(name, &value, Durability::Buffered).expect("put");
                Action::Put(fresh)
            }
            (2, _) => {
                let mut batch = WriteBatch::new();
                batch.delete(name).put(name, &value);
                self.engine.write(&batch, Durability::Buffered).expect("batch");
                Action::Put(fresh)
            }
            (3, _) => {
                self.engine.delete(name, Durability::Buffered).expect("delete");
                Action::Delete
            }
            (4..=5, Some(atomic)) => {
                let (mut found, mut left) = (0, 0);
                let mut decide = |current: Option<EntryRef<'_>>| {
                    found = number_in(current.map(|e| e.value));
                    left = after_update(found, fresh);
                    match left {
                        0 => Update::Delete,
                        _ => Update::put(value.to_vec()),
                    }
                };
                atomic.update(name, Durability::Buffered, &mut decide).expect("update");
                Action::Update { found, left }
            }
            _ => {
                let found = self.engine.get(name).expect("get");
                Action::Get { found: number_in(found.as_deref()) }
            }
        }
    }
}

fn number_in(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |v| u64::from_le_bytes(*v.first_chunk().expect("values have 8 bytes")))
}

fn after_update(found: u64, fresh: u64) -> u64 {
    if found.is_multiple_of(2) { fresh } else { 0 }
}

/// The value after `action` on `value`, if `action` could have been answered so.
fn apply(value: u64, action: Action) -> Option<u64> {
    match action {
        Action::Put(new) => Some(new),
        Action::Delete => Some(0),
        Action::Get { found } => (found == value).then_some(value),
        Action::Update { found, left } => (found == value).then_some(left),
    }
}

/// Searches an order of `events` (on one key, missing at first) that explains all answers.
fn is_linearizable(events: &[Event]) -> bool {
    assert!(events.len() < 32, "the search keeps its events in 32 bits");
    let all = (1_u32 << events.len()) - 1;
    let mut seen = BTreeSet::new();
    let mut open = vec![(0_u32, 0_u64)];
    while let Some((done, value)) = open.pop() {
        if done == all {
            return true;
        }
        if !seen.insert((done, value)) {
            continue;
        }
        let left = || (0..events.len()).filter(|n| done & 1 << n == 0);
        // Only what began before the first of the others ended can come next.
        let first_end = left().map(|n| events[n].end).min().unwrap_or(u64::MAX);
        for next in left().filter(|n| events[*n].begin < first_end) {
            if let Some(value) = apply(value, events[next].action) {
                open.push((done | 1 << next, value));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(begin: u64, end: u64, action: Action) -> Event {
        Event { thread: 0, key: 0, action, begin, end }
    }

    #[test]
    fn the_checker_tells_histories_apart() {
        let put = event(0, 3, Action::Put(1));
        let old = event(1, 2, Action::Get { found: 0 });
        let new = event(4, 5, Action::Get { found: 1 });
        let late = event(4, 5, Action::Get { found: 0 });
        assert!(is_linearizable(&[put, old, new]));
        assert!(!is_linearizable(&[put, old, late]), "a stale read");
        let early = event(1, 2, Action::Get { found: 1 });
        let back = event(3, 4, Action::Get { found: 0 });
        let slow = event(0, 5, Action::Put(1));
        assert!(!is_linearizable(&[slow, early, back]), "a read that goes back");
        let lost = [
            event(0, 3, Action::Update { found: 0, left: 1 }),
            event(1, 2, Action::Update { found: 0, left: 2 }),
        ];
        assert!(!is_linearizable(&lost), "a lost update");
    }
}
