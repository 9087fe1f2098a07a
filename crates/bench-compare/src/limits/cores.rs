//! Threads on cores of their own, and how long they work.

use silica::Result;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The cores that this process may use.
pub(super) fn cores() -> Vec<usize> {
    // SAFETY: a CPU set is plain bits, for which all zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the size given, which is that of `set`.
    let asked = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) };
    if asked != 0 {
        return Vec::new();
    }
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: every number is below the size of the set.
    all.filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

/// Keeps the calling thread on the core `cores[place]`, counted round. Where that is refused the
/// kernel places it.
pub(super) fn pin(cores: &[usize], place: usize) {
    let Some(core) = cores.get(place % cores.len().max(1)) else { return };
    // SAFETY: a CPU set is plain bits, for which all zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number was one of a set of this size.
    unsafe { libc::CPU_SET(*core, &mut set) };
    // SAFETY: the kernel reads the size given, which is that of `set`.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
}

/// How often in a second `step` does what it counts, called again and again for `seconds`.
pub(super) fn per_second(seconds: f64, mut step: impl FnMut() -> u64) -> f64 {
    let period = Duration::from_secs_f64(seconds);
    let started = Instant::now();
    let mut done = 0;
    loop {
        done += black_box(step());
        let elapsed = started.elapsed();
        if elapsed >= period {
            return done as f64 / elapsed.as_secs_f64();
        }
    }
}

/// The sum of what `work` gives for each of `inputs`, each in a thread on a core of its own, all
/// begun together.
pub(super) fn on_cores<T: Send>(inputs: Vec<T>, work: impl Fn(T) -> f64 + Sync) -> f64 {
    let cores = cores();
    let ready = Barrier::new(inputs.len());
    let threads = inputs.into_iter().enumerate().map(|(place, input)| {
        let (cores, ready, work) = (&cores, &ready, &work);
        move || {
            pin(cores, place);
            ready.wait();
            work(input)
        }
    });
    thread::scope(|scope| {
        let threads: Vec<_> = threads.map(|thread| scope.spawn(thread)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a probe does not panic")).sum()
    })
}

/// What `client` finds out while `server` serves it, each in a thread on a core of its own where
/// there are two. The server ends soon after its argument has become true.
pub(super) fn with_server<R: Send>(
    client: impl FnOnce(&AtomicBool) -> Result<R> + Send,
    server: impl FnOnce(&AtomicBool) -> Result<()> + Send,
) -> Result<R> {
    let cores = cores();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            pin(&cores, 1);
            server(&over)
        });
        let client = scope.spawn(|| {
            pin(&cores, 0);
            client(&over)
        });
        let found = client.join();
        over.store(true, Ordering::Release);
        server.join().expect("a probe does not panic")?;
        found.expect("a probe does not panic")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica::{Error, ErrorKind};

    #[test]
    fn threads_run_on_different_cores_and_their_work_is_added_up() {
        assert!(!cores().is_empty());
        let all = cores().len();
        let sum = on_cores((0..all).collect(), |_| {
            assert_eq!(cores().len(), 1);
            cores()[0] as f64
        });
        assert_eq!(sum, cores().iter().sum::<usize>() as f64);
    }

    #[test]
    fn a_server_that_fails_is_told() {
        let failing = |_: &AtomicBool| Err(Error::new(ErrorKind::Io, "no socket"));
        assert_eq!(with_server(|_| Ok(1), failing).unwrap_err().to_string(), "no socket");
        let serving = |over: &AtomicBool| {
            while !over.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            Ok(())
        };
        assert_eq!(with_server(|_| Ok(1), serving).unwrap(), 1);
    }
}
