//! The wake flag under a model checker: no message is left with an owner that sleeps.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
}

#[allow(dead_code, reason = "the model uses a part of it")]
#[path = "../src/direct/wake_flag.rs"]
mod wake_flag;

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use wake_flag::{ASLEEP, AWAKE, WakeFlag};

#[test]
fn who_sleeps_while_a_message_waits_is_woken_once() {
    loom::model(|| {
        let shared = Arc::new((WakeFlag::new(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let sends = |n: usize| {
            let shared = Arc::clone(&shared);
            move || {
                let (flag, messages, woken) = &*shared;
                messages.fetch_add(n, Release);
                if flag.notify() != AWAKE {
                    woken.fetch_add(1, Relaxed);
                }
            }
        };
        let (first, second) = (thread::spawn(sends(1)), thread::spawn(sends(1)));
        let (flag, messages, woken) = &*shared;
        flag.announce_sleep(ASLEEP);
        let seen = messages.load(Acquire);
        first.join().expect("it ends");
        second.join().expect("it ends");
        let woken = woken.load(Relaxed);
        assert!(seen == 2 || woken >= 1, "a message waits and nobody wakes the owner");
        assert!(woken <= 1, "{woken} wake it");
        flag.announce_awake();
    });
}
