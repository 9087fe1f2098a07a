//! Group commit: who leads a sync, and who waits for it.
//!
//! Invariants:
//!
//! 1. At most one caller leads. A caller waits only while another one leads, and whoever leads
//!    wakes all that wait after it stops leading: nobody waits for a sync that is over.
//!    Some watch for its end for a while before they wait: to go to sleep and be woken takes two
//!    threads as long as a fast device takes for a sync.
//! 2. `synced_end` only grows, and is published after the sync that covers it. So a caller that is
//!    woken finds its answer without the lock, which all those woken at once would wait for.
//!
//! Orderings: who leads stores `synced_end` with `Release`, and then, under the lock, `ended`;
//! callers load both with `Acquire`, so who sees that a sync has ended sees what it covers, and
//! needs no lock. The rest is under the lock, but for `arrived`, `watchers` and `watches`, which
//! only say how long it is worth to wait: relaxed.
//! `tests/group_model.rs` tries every interleaving.

use super::sync::{
    AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering, Thread, WATCHES_MAX, WATCHES_MIN,
    YIELDS_MAX, YIELDS_MIN, current, park, yield_now,
};

/// Callers that watch at the same time, at most: they take turns on the processors.
const WATCHERS_MAX: usize = 8;
/// One caller in so many watches long though others did in vain lately.
const TRIED_PART: usize = 64;

struct State {
    leading: bool,
    /// Callers that had come when the last sync began.
    served: usize,
    /// Callers that are likely to share the next one: those that the last one served come back, and
    /// those that came meanwhile wait. Without the latter two groups would take turns for ever,
    /// each with a sync of its own.
    expected: usize,
    /// Yields that whoever leads has for them: fewer where it waited in vain.
    patience: usize,
    /// Callers that found another one leading.
    came_second: usize,
    waiting: Vec<Thread>,
}

/// See the module's documentation.
pub(super) struct Group {
    /// Everything before this position is durable.
    synced_end: AtomicU64,
    /// Callers that came since the last sync began. It is a guess at who will come: relaxed.
    arrived: AtomicUsize,
    /// Syncs that ended.
    ended: AtomicU64,
    /// Callers that watch for that, and how often each looks: seldom where syncs take long.
    watchers: AtomicUsize,
    watches: AtomicUsize,
    state: Mutex<State>,
}

/// What a caller does next.
pub(super) enum Turn {
    /// Sync, and tell by [`Group::led`]. Everything before this position is durable already.
    Lead { synced_before: u64 },
    /// Ask again: a sync ended.
    Again,
}

impl Group {
    /// Everything before `synced_end` is durable.
    pub(super) fn new(synced_end: u64) -> Self {
        Group {
            synced_end: AtomicU64::new(synced_end),
            arrived: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            watchers: AtomicUsize::new(0),
            watches: AtomicUsize::new(WATCHES_MAX),
            state: Mutex::new(State {
                leading: false,
                served: 0,
                expected: 0,
                patience: YIELDS_MAX,
                came_second: 0,
                waiting: Vec::new(),
            }),
        }
    }

    /// Everything before this position is durable.
    pub(super) fn synced_end(&self) -> u64 {
        self.synced_end.load(Ordering::Acquire)
    }

    /// A caller wants a sync.
    pub(super) fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// Waits for the sync under way, or has the caller lead one where there is none, unless
    /// everything before `wanted` is durable meanwhile.
    pub(super) fn turn(&self, wanted: u64) -> Turn {
        let mut state = self.lock();
        if self.synced_end() >= wanted {
            return Turn::Again;
        }
        if state.leading {
            state.came_second = state.came_second.wrapping_add(1);
            let tries = state.came_second.is_multiple_of(TRIED_PART);
            let before = self.ended.load(Ordering::Relaxed);
            drop(state);
            if self.watch(before, tries) {
                return Turn::Again;
            }
            state = self.lock();
            if self.ended.load(Ordering::Relaxed) != before {
                return Turn::Again;
            }
            state.waiting.push(current());
            drop(state);
            // It may return for no reason: the caller finds out.
            park();
            return Turn::Again;
        }
        state.leading = true;
        let (expected, patience) = (state.expected, state.patience);
        drop(state);
        let all_came = self.await_others(expected, patience);
        let mut state = self.lock();
        state.patience = if all_came { YIELDS_MAX } else { (patience / 2).max(YIELDS_MIN) };
        state.served = self.arrived.swap(0, Ordering::Relaxed);
        Turn::Lead { synced_before: self.synced_end() }
    }

    /// Lets those run who are likely to come: on few processors the first one that wakes would else
    /// lead a sync for itself alone, and all others the next. False where some did not come.
    fn await_others(&self, expected: usize, patience: usize) -> bool {
        for _ in 0..patience {
            if self.arrived.load(Ordering::Relaxed) >= expected {
                return true;
            }
            yield_now();
        }
        self.arrived.load(Ordering::Relaxed) >= expected
    }

    /// Looks for the end of a sync behind the `before` that ended, as often as that was worth it
    /// lately, or longer where the caller `tries`. False where it does not come.
    fn watch(&self, before: u64, tries: bool) -> bool {
        let watches = if tries { WATCHES_MAX } else { self.watches.load(Ordering::Relaxed) };
        let is_one_of_few = self.watchers.fetch_add(1, Ordering::Relaxed) < WATCHERS_MAX;
        let has_ended = is_one_of_few
            && (0..watches).any(|_| {
                let has_ended = self.ended.load(Ordering::Acquire) != before;
                if !has_ended {
                    yield_now();
                }
                has_ended
            });
        self.watchers.fetch_sub(1, Ordering::Relaxed);
        if is_one_of_few {
            let next = if has_ended { WATCHES_MAX } else { (watches / 2).max(WATCHES_MIN) };
            self.watches.store(next, Ordering::Relaxed);
        }
        has_ended
    }

    /// The sync of a caller that leads is over; it made everything before `synced_end` durable,
    /// unless it failed.
    pub(super) fn led(&self, synced_end: Option<u64>) {
        if let Some(end) = synced_end {
            self.synced_end.store(end, Ordering::Release);
        }
        let mut state = self.lock();
        state.leading = false;
        let ended = self.ended.load(Ordering::Relaxed);
        self.ended.store(ended + 1, Ordering::Release);
        state.expected = state.served + self.arrived.load(Ordering::Relaxed);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.iter().for_each(Thread::unpark);
    }
}
