//! The bell under a model checker: no letter is left with an owner that sleeps.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}

#[allow(dead_code, reason = "the model uses a part of it")]
#[path = "../src/direct/bell.rs"]
mod bell;

use bell::{ASLEEP, AWAKE, Bell};
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;

#[test]
fn who_sleeps_while_a_letter_waits_is_woken_once() {
    loom::model(|| {
        let shared = Arc::new((Bell::new(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let posts = |n: usize| {
            let shared = Arc::clone(&shared);
            move || {
                let (bell, letters, woken) = &*shared;
                letters.fetch_add(n, Release);
                if bell.ring() != AWAKE {
                    woken.fetch_add(1, Relaxed);
                }
            }
        };
        let (first, second) = (thread::spawn(posts(1)), thread::spawn(posts(1)));
        let (bell, letters, woken) = &*shared;
        bell.doze(ASLEEP);
        let seen = letters.load(Acquire);
        first.join().expect("it ends");
        second.join().expect("it ends");
        let woken = woken.load(Relaxed);
        assert!(seen == 2 || woken >= 1, "a letter waits and nobody wakes the owner");
        assert!(woken <= 1, "{woken} wake it");
        bell.rise();
    });
}
