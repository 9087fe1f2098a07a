//! Which of the threads that answer the kernel listen to it, and which rest.
//!
//! The kernel wakes the thread that has listened for longest. If eight listen, each request goes to
//! a thread that has not run for long, and a client that does one call after the other waits for
//! its processor: on two busy cores it unlinked 11,600 files a second, and 51,700 with two threads
//! (docs/benchmarks/lfs.md). Many threads are needed only if requests wait for the device.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Threads that listen while the others rest.
const LISTENERS: usize = 2;
/// A thread that rests looks after so long whether the mount has ended, by listening.
const REST_MAX: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct State {
    listening: usize,
    resting: usize,
    /// Threads that rest and are to listen.
    called: usize,
}

/// How many threads listen. All listen at first.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State>,
    call: Condvar,
}

/// A request that a thread answers. When it is dropped the thread rests if enough others listen.
pub(crate) struct Turn<'t>(&'t Turns);

impl Turns {
    pub(crate) fn new(threads: usize) -> Self {
        let state = State { listening: threads, resting: 0, called: 0 };
        Turns { state: Mutex::new(state), call: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// The calling thread begins to answer a request; one that rests listens in its place if nobody
    /// else does.
    pub(crate) fn begin(&self) -> Turn<'_> {
        let mut state = self.state();
        state.listening = state.listening.saturating_sub(1);
        if state.listening + state.called == 0 && state.resting > 0 {
            state.called += 1;
            self.call.notify_one();
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.listening >= LISTENERS {
            state.resting += 1;
            let is_uncalled = |state: &mut State| state.called == 0;
            let rested = self.0.call.wait_timeout_while(state, REST_MAX, is_uncalled);
            state = rested.expect("no panic while locked").0;
            state.resting -= 1;
            state.called = state.called.saturating_sub(1);
        }
        state.listening += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{channel, sync_channel};
    use std::thread;

    /// Threads take requests as those of a mount do. While one request waits, the others are
    /// answered, as many at a time as there are threads.
    #[test]
    fn a_request_that_waits_holds_no_other_up() {
        const THREADS: usize = 4;
        const ROUNDS: u32 = 20;
        let turns = Turns::new(THREADS);
        let begin = std::time::Instant::now();
        let (sender, receiver) = sync_channel::<Option<requests::Wait>>(100);
        let receiver = Mutex::new(receiver);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let request = receiver.lock().unwrap().recv();
                        let Ok(Some(wait)) = request else { return };
                        let _turn = turns.begin();
                        wait.until_released();
                    }
                });
            }
            for round in 0..ROUNDS {
                // Short ones first, until all rest that may.
                while turns.state().resting < THREADS - LISTENERS {
                    let (wait, release, begun) = requests::pair();
                    sender.send(Some(wait)).unwrap();
                    begun.recv().unwrap();
                    drop(release);
                    thread::sleep(Duration::from_micros(100));
                }
                let mut held = Vec::new();
                for at in 0..THREADS {
                    let (wait, release, begun) = requests::pair();
                    sender.send(Some(wait)).unwrap();
                    begun.recv().unwrap_or_else(|_| panic!("round {round}, request {at}"));
                    held.push(release);
                }
            }
            for _ in 0..THREADS {
                sender.send(None).unwrap();
            }
        });
        // A thread that nobody calls rests for long, in each round.
        assert!(begin.elapsed() < ROUNDS * REST_MAX / 2);
    }

    #[test]
    fn threads_rest_while_two_listen() {
        let turns = Turns::new(3);
        let (sender, ended) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                drop(turns.begin());
                sender.send(()).unwrap();
            });
            // The others listen, so it rests, until both have something to do.
            assert!(ended.recv_timeout(REST_MAX / 4).is_err());
            let first = turns.begin();
            assert!(ended.recv_timeout(REST_MAX / 8).is_err());
            let second = turns.begin();
            ended.recv_timeout(REST_MAX * 50).unwrap();
            drop((first, second));
        });
        assert_eq!(turns.state().listening, 3);
    }

    mod requests {
        use std::sync::mpsc::{Receiver, Sender, channel};

        /// A request that is answered when its other end is dropped.
        pub(super) struct Wait {
            begun: Sender<()>,
            release: Receiver<()>,
        }

        impl Wait {
            pub(super) fn until_released(self) {
                self.begun.send(()).unwrap();
                let _ = self.release.recv();
            }
        }

        pub(super) fn pair() -> (Wait, Sender<()>, Receiver<()>) {
            let (begun, has_begun) = channel();
            let (release, released) = channel();
            (Wait { begun, release: released }, release, has_begun)
        }
    }
}
