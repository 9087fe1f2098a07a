//! CLIENT PAUSE: requests that wait until a time, or until CLIENT UNPAUSE.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Milliseconds after which a thread that sleeps looks whether anybody waits for it still.
const SLEEP_STEP_MS: u64 = 100;

/// Which requests wait, and until when.
#[derive(Debug, Default)]
pub struct Pause {
    /// In milliseconds of the monotonic clock; 0 where none wait.
    until_ms: AtomicU64,
    /// Those that change nothing wait, too.
    all: AtomicBool,
    /// Those that change something wait until a failover is over, whatever CLIENT UNPAUSE says.
    fails_over: AtomicBool,
    /// Those that change something wait until then, since the slots of a cluster's node are handed
    /// over; 0 if they are not. Its end leaves a pause of CLIENT PAUSE as it is.
    hands_over_until_ms: AtomicU64,
    /// Threads that sleep for DEBUG SLEEP.
    asleep: Mutex<()>,
    waking: Condvar,
}

impl Pause {
    /// Lets requests wait until a time; a pause that holds already is never shortened.
    pub(crate) fn begin(&self, until_ms: u64, all: bool, now_ms: u64) {
        let holds = self.until_ms.load(Relaxed) > now_ms;
        self.all.store(all || (holds && self.all.load(Relaxed)), Relaxed);
        self.until_ms.fetch_max(until_ms, Relaxed);
    }

    pub(crate) fn end(&self) {
        self.until_ms.store(0, Relaxed);
    }

    /// Lets requests that change something wait until this is called with `false`.
    pub(crate) fn set_failover(&self, is_on: bool) {
        self.fails_over.store(is_on, Relaxed);
    }

    /// Lets requests that change something wait until a time, or with 0 no longer; a pause of
    /// CLIENT PAUSE goes on.
    pub(crate) fn set_handover(&self, until_ms: u64) {
        self.hands_over_until_ms.store(until_ms, Relaxed);
    }

    /// Keeps the calling thread until `until_ms`, or until `is_over` says that nobody waits for it
    /// any more.
    pub(crate) fn sleep(
        &self,
        until_ms: u64,
        now_ms: impl Fn() -> u64,
        is_over: impl Fn() -> bool,
    ) {
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        while let left_ms @ 1.. = until_ms.saturating_sub(now_ms())
            && !is_over()
        {
            let wait = Duration::from_millis(left_ms.min(SLEEP_STEP_MS));
            let woken = self.waking.wait_timeout(asleep, wait);
            (asleep, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Milliseconds that requests go on waiting; `u64::MAX` if nobody knows how long.
    pub fn left_ms(&self, now_ms: u64) -> u64 {
        match self.fails_over.load(Relaxed) {
            true => u64::MAX,
            false => {
                let until_ms = self.until_ms.load(Relaxed);
                until_ms.max(self.hands_over_until_ms.load(Relaxed)).saturating_sub(now_ms)
            }
        }
    }

    /// True if requests that change nothing wait, too.
    pub(crate) fn is_of_all(&self, now_ms: u64) -> bool {
        self.all.load(Relaxed) && self.until_ms.load(Relaxed) > now_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_prolonged_and_ended() {
        let pause = Pause::default();
        assert_eq!(pause.left_ms(0), 0);
        pause.begin(100, false, 10);
        pause.begin(50, false, 20);
        assert_eq!(pause.left_ms(20), 80);
        assert!(!pause.all.load(Relaxed));
        pause.begin(60, true, 30);
        pause.begin(120, false, 40);
        assert!(pause.all.load(Relaxed), "a pause of everything goes on");
        assert_eq!(pause.left_ms(119), 1);
        pause.begin(300, false, 200);
        assert!(!pause.all.load(Relaxed));
        pause.end();
        assert_eq!(pause.left_ms(201), 0);
        pause.set_failover(true);
        pause.end();
        assert_eq!(pause.left_ms(201), u64::MAX, "only the end of the failover ends it");
        pause.set_failover(false);
        assert_eq!(pause.left_ms(201), 0);
    }

    #[test]
    fn the_end_of_a_handover_leaves_a_pause_of_clients() {
        let pause = Pause::default();
        pause.begin(1000, false, 0);
        pause.set_handover(500);
        pause.set_handover(0);
        assert_eq!(pause.left_ms(100), 900);
        pause.set_handover(2000);
        pause.end();
        assert_eq!(pause.left_ms(100), 1900, "and CLIENT UNPAUSE leaves a handover");
    }
}
