//! Bursts run at the same time; what concerns several databases as one step runs alone.
//!
//! Each executor has a lock of its own, which nobody else touches while bursts run: so a burst
//! writes no line that others read. Who wants to be alone takes all locks, in their order. An
//! executor gives its own up before: so two that want to be alone never wait for each other.
//!
//! A thread that owns partitions goes on serving others while it waits, as a burst that has begun
//! may need it to end.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

/// How long a thread rests that finds a lock taken and nobody to serve.
const REST: Duration = Duration::from_micros(50);

/// How often all locks are tried together before they are taken one by one.
const TRIES: usize = 64;

/// Does what others ask of the calling thread; false if that was nothing. None if nobody asks.
pub(crate) type Serve<'s> = Option<&'s dyn Fn() -> bool>;

/// The lock of one executor, apart from those of others.
#[repr(align(128))]
#[derive(Default)]
pub struct Turn(Mutex<()>);

/// All executors of a server.
#[derive(Default)]
pub(crate) struct Gate {
    turns: Mutex<Vec<Weak<Turn>>>,
    /// Held by who is alone, or about to be.
    alone: Mutex<()>,
}

thread_local! {
    /// The calling thread is alone.
    static IS_ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Ends that a thread is alone, even if its work panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        IS_ALONE.set(false);
    }
}

/// Locks `mutex`, and serves others meanwhile.
pub(crate) fn lock<'m, T>(mutex: &'m Mutex<T>, serve: Serve<'_>) -> MutexGuard<'m, T> {
    let Some(serve) = serve else { return mutex.lock().unwrap_or_else(PoisonError::into_inner) };
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if serve() => {}
            Err(TryLockError::WouldBlock) => std::thread::sleep(REST),
        }
    }
}

impl Turn {
    /// What is held while a burst runs, if nobody is alone: nobody will be until it is dropped.
    #[inline]
    pub(crate) fn try_enter(&self) -> Option<MutexGuard<'_, ()>> {
        self.0.try_lock().ok()
    }

    /// Waits until nobody is alone; see [`Turn::try_enter`].
    pub(crate) fn enter(&self, serve: Serve<'_>) -> MutexGuard<'_, ()> {
        lock(&self.0, serve)
    }
}

impl Gate {
    /// The lock of a new executor.
    pub(crate) fn new_turn(&self) -> Arc<Turn> {
        let turn = Arc::new(Turn::default());
        let mut turns = lock(&self.turns, None);
        turns.retain(|turn| turn.strong_count() > 0);
        turns.push(Arc::downgrade(&turn));
        turn
    }

    /// Calls `work` while no burst runs. The caller is in none itself, but may be alone already.
    pub(crate) fn alone<T>(&self, serve: Serve<'_>, work: impl FnOnce() -> T) -> T {
        if IS_ALONE.get() {
            return work();
        }
        let _alone = lock(&self.alone, serve);
        // An executor that is made meanwhile waits for the list, before its first burst.
        let listed = lock(&self.turns, serve);
        let turns: Vec<Arc<Turn>> = listed.iter().filter_map(Weak::upgrade).collect();
        let _held = hold_all(&turns, serve);
        IS_ALONE.set(true);
        let _end = End;
        work()
    }
}

/// Takes all locks. Who is busy for long is waited for while the others go on, as far as these
/// let anybody come in between.
fn hold_all<'t>(turns: &'t [Arc<Turn>], serve: Serve<'_>) -> Vec<MutexGuard<'t, ()>> {
    for _ in 0..TRIES {
        let mut held = Vec::with_capacity(turns.len());
        let busy = turns.iter().find(|turn| match turn.0.try_lock() {
            Ok(guard) => {
                held.push(guard);
                false
            }
            Err(TryLockError::Poisoned(poisoned)) => {
                held.push(poisoned.into_inner());
                false
            }
            Err(TryLockError::WouldBlock) => true,
        });
        let Some(busy) = busy else { return held };
        held.clear();
        drop(lock(&busy.0, serve));
    }
    turns.iter().map(|turn| lock(&turn.0, serve)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn who_is_alone_sees_no_burst_half_done() {
        let (gate, pair) = (Gate::default(), [AtomicU64::new(0), AtomicU64::new(0)]);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let turn = gate.new_turn();
                    for _ in 0..20_000 {
                        let _turn = turn.enter(None);
                        pair[0].fetch_add(1, Ordering::Relaxed);
                        pair[1].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        gate.alone(None, || {
                            let [a, b] = [0, 1].map(|n| pair[n].load(Ordering::Relaxed));
                            std::thread::yield_now();
                            assert_eq!(a, b);
                            assert_eq!(a, pair[0].load(Ordering::Relaxed));
                        });
                    }
                });
            }
        });
        assert_eq!(pair[1].load(Ordering::Relaxed), 60_000);
    }
}
