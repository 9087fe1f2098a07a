//! The threads behind passive engines: they call `maintain` while there is work and sleep where
//! there is none.

use log::{error, warn};
use silica_engine::{Budget, Engine, ErrorKind, Progress};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that one `maintain` call may move: small enough that a stop is prompt.
const SLICE_BYTES: u64 = 4 << 20;
/// First pause after work ran out.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// Longest pause of an idle store.
pub(crate) const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Longest pause of an idle cache: nobody waits for what it has to do.
pub(crate) const PAUSE_MAX_OF_CACHES: Duration = Duration::from_secs(1);
/// A pause from which a writer wakes the scheduler; shorter ones end soon enough by themselves.
const PAUSE_WAKEABLE: Duration = Duration::from_millis(16);
/// How long there was nothing to do where more is not likely to come soon.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// Pause after an engine failed.
const PAUSE_FAILED: Duration = Duration::from_secs(1);

/// An engine under care.
struct Task {
    name: String,
    engine: Arc<dyn Engine>,
    /// Set after an error that repeating cannot mend.
    given_up: AtomicBool,
}

#[derive(Default)]
struct State {
    tasks: Vec<Arc<Task>>,
    stop: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// True while a thread sleeps so long that a writer should wake it.
    asleep: AtomicBool,
    bytes_per_second: u64,
    pause_max: Duration,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for `pause`, until woken or stopped; true where the thread must end.
    fn sleep(&self, pause: Duration, wakeable: bool) -> bool {
        let state = self.lock();
        if state.stop {
            return true;
        }
        if wakeable {
            self.asleep.store(true, Ordering::Relaxed);
        }
        let (state, _) =
            self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
        self.asleep.store(false, Ordering::Relaxed);
        state.stop
    }
}

/// Threads that maintain engines until they are stopped.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Scheduler {
    /// Starts `threads` threads, which pause for `pause_max` at most; `bytes_per_second` limits
    /// their work, 0 does not.
    pub(crate) fn start(threads: usize, bytes_per_second: u64, pause_max: Duration) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            asleep: AtomicBool::new(false),
            bytes_per_second: bytes_per_second / threads.max(1) as u64,
            pause_max,
        });
        let spawn = |i| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(format!("silica-maintain-{i}"))
                .spawn(move || run(&shared))
        };
        let threads = (0..threads)
            .filter_map(|i| {
                spawn(i).map_err(|e| error!("cannot start a background thread: {e}")).ok()
            })
            .collect();
        Scheduler { shared, threads: Mutex::new(threads) }
    }

    /// Takes `engine` under care.
    pub(crate) fn add(&self, name: &str, engine: Arc<dyn Engine>) {
        let task = Task { name: name.to_string(), engine, given_up: AtomicBool::new(false) };
        self.shared.lock().tasks.push(Arc::new(task));
        self.shared.changed.notify_all();
    }

    /// Leaves the keyspace `name` alone from the next round on.
    pub(crate) fn remove(&self, name: &str) {
        self.shared.lock().tasks.retain(|t| t.name != name);
    }

    /// Tells sleeping threads that there may be work; costs one load where none sleeps long.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.shared.asleep.load(Ordering::Relaxed) {
            self.shared.asleep.store(false, Ordering::Relaxed);
            self.shared.changed.notify_one();
        }
    }

    /// Ends and joins all threads; the engines are released.
    pub(crate) fn stop(&self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                error!("a background thread panicked");
            }
        }
        self.shared.lock().tasks.clear();
    }
}

fn run(shared: &Shared) {
    let mut pause = PAUSE_MIN;
    let mut round = 0usize;
    // Since when there was nothing to do that could not wait.
    let mut quiet_since: Option<Instant> = None;
    loop {
        let (tasks, stop) = {
            let state = shared.lock();
            (state.tasks.clone(), state.stop)
        };
        if stop {
            return;
        }
        let started = Instant::now();
        let mut done = maintain_all(shared, &tasks, round, Budget::amid_work(SLICE_BYTES));
        if done.more {
            quiet_since = None;
        } else if quiet_since.get_or_insert(started).elapsed() >= IDLE_AFTER {
            done = maintain_all(shared, &tasks, round, Budget::of(SLICE_BYTES));
        }
        round = round.wrapping_add(1);
        let owed = owed_pause(shared.bytes_per_second, done.bytes, started.elapsed());
        if done.more {
            pause = PAUSE_MIN;
            if !owed.is_zero() && shared.sleep(owed, false) {
                return;
            }
            continue;
        }
        let wakeable = pause >= PAUSE_WAKEABLE;
        let slept_from = Instant::now();
        if shared.sleep(pause.max(owed), wakeable) {
            return;
        }
        let woken = wakeable && slept_from.elapsed() < pause;
        pause = if woken { PAUSE_MIN } else { (pause * 2).min(shared.pause_max) };
    }
}

/// One slice of work for every engine, beginning with another one each round.
fn maintain_all(shared: &Shared, tasks: &[Arc<Task>], round: usize, budget: Budget) -> Progress {
    let mut all = Progress::default();
    for i in 0..tasks.len() {
        let task = &tasks[(i + round) % tasks.len()];
        if task.given_up.load(Ordering::Relaxed) || shared.lock().stop {
            continue;
        }
        match task.engine.maintain(budget) {
            Ok(progress) => {
                all.bytes += progress.bytes;
                all.more |= progress.more;
            }
            // A keyspace that was dropped meanwhile has no files any more.
            Err(_) if !shared.lock().tasks.iter().any(|t| Arc::ptr_eq(t, task)) => {}
            Err(e) => {
                failed(task, &e);
                shared.sleep(PAUSE_FAILED, false);
            }
        }
    }
    all
}

fn failed(task: &Task, e: &silica_engine::Error) {
    let hopeless = matches!(
        e.kind(),
        ErrorKind::Corruption | ErrorKind::Poisoned | ErrorKind::Closed | ErrorKind::NotFound
    );
    if hopeless {
        task.given_up.store(true, Ordering::Relaxed);
        error!("background work of keyspace '{}' stopped: {e}", task.name);
    } else {
        warn!("background work of keyspace '{}' failed, will be tried again: {e}", task.name);
    }
}

/// How long to wait so that `bytes` in `took` keep to `bytes_per_second`.
fn owed_pause(bytes_per_second: u64, bytes: u64, took: Duration) -> Duration {
    if bytes_per_second == 0 {
        return Duration::ZERO;
    }
    Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64).saturating_sub(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_limit_owes_the_rest_of_the_time() {
        let took = Duration::from_millis(100);
        assert_eq!(owed_pause(0, 1 << 30, took), Duration::ZERO);
        assert_eq!(owed_pause(1_000_000, 500_000, took), Duration::from_millis(400));
        assert_eq!(owed_pause(1_000_000, 1_000, took), Duration::ZERO);
    }

    #[test]
    fn a_stop_waits_for_no_pause() {
        let scheduler = Scheduler::start(0, 0, PAUSE_MAX);
        let shared = Arc::clone(&scheduler.shared);
        let sleeper = std::thread::spawn(move || shared.sleep(Duration::from_secs(120), true));
        while !scheduler.shared.asleep.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let started = Instant::now();
        scheduler.stop();
        assert!(sleeper.join().unwrap(), "the sleeper learns of the stop");
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
