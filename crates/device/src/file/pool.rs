//! Reads through pread, on a small pool of threads.
//!
//! The calling thread takes part while it waits; the pool's threads come to help. A read's buffer
//! goes to the thread that performs it and comes back with the result, so a queue that is dropped
//! has nothing to wait for.

use super::plain::PlainFile;
use super::read_full;
use super::reads::{Flight, Flights};
use silica_base::AlignedBuf;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;

/// Threads that help with reads. They wait for the device, not for a processor.
const THREADS: usize = 15;

/// The pool; its threads start with the first read.
#[derive(Default)]
pub(super) struct Pool {
    jobs: Arc<Jobs>,
    threads: OnceLock<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Jobs {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// A read for any thread.
struct Job {
    slot: usize,
    file: Arc<File>,
    granule: usize,
    offset: u64,
    buf: AlignedBuf,
    done: Arc<Done>,
}

/// Reads of one queue that ended: slot, buffer, result.
#[derive(Default)]
struct Done {
    ended: Mutex<VecDeque<Ended>>,
    changed: Condvar,
}

type Ended = (usize, AlignedBuf, io::Result<usize>);

impl Job {
    fn run(mut self) {
        let result = read_full(&self.file, self.offset, &mut self.buf, self.granule);
        let mut ended = self.done.ended.lock().expect("no panic while locked");
        ended.push_back((self.slot, self.buf, result));
        drop(ended);
        self.done.changed.notify_one();
    }
}

/// One queue's side of the pool.
pub(super) struct Helped<'d> {
    pool: &'d Pool,
    done: Arc<Done>,
}

impl<'d> Helped<'d> {
    pub(super) fn new(pool: &'d Pool) -> Self {
        pool.start();
        Helped { pool, done: Arc::default() }
    }

    /// Hands a read on.
    pub(super) fn start<T: AsRef<PlainFile>>(&mut self, slot: usize, flight: &mut Flight<T>) {
        let file = flight.of.as_ref();
        let job = Job {
            slot,
            file: file.file.clone(),
            granule: file.granule(),
            offset: flight.offset,
            buf: flight.buf.take().expect("a read is started once"),
            done: self.done.clone(),
        };
        let mut waiting = self.pool.jobs.waiting.lock().expect("no panic while locked");
        waiting.jobs.push_back(job);
        drop(waiting);
        self.pool.jobs.changed.notify_one();
    }

    /// Waits for one of this queue's reads to end, and performs what waits meanwhile.
    pub(super) fn next<T>(&mut self, flights: &mut Flights<T>) -> (usize, io::Result<usize>) {
        loop {
            let ended = self.done.ended.lock().expect("no panic while locked").pop_front();
            if let Some(ended) = ended {
                return give_back(flights, ended);
            }
            let job = {
                let mut waiting = self.pool.jobs.waiting.lock().expect("no panic while locked");
                waiting.jobs.pop_front()
            };
            if let Some(job) = job {
                job.run();
                continue;
            }
            // All of this queue's reads are with threads.
            let ended = self.done.ended.lock().expect("no panic while locked");
            let ended = self.done.changed.wait_while(ended, |ended| ended.is_empty());
            let ended = ended.expect("no panic while locked").pop_front();
            return give_back(flights, ended.expect("it was waited for"));
        }
    }
}

fn give_back<T>(flights: &mut Flights<T>, ended: Ended) -> (usize, io::Result<usize>) {
    let (slot, buf, result) = ended;
    flights.get(slot).buf = Some(buf);
    (slot, result)
}

impl Pool {
    /// Starts the threads where that was not done yet.
    fn start(&self) {
        self.threads.get_or_init(|| {
            let spawn = |_| {
                let jobs = self.jobs.clone();
                let builder = std::thread::Builder::new().name("silica-read".into());
                builder.spawn(move || jobs.serve()).ok()
            };
            // A thread that cannot be had makes bursts slower, not wrong.
            (0..THREADS).filter_map(spawn).collect()
        });
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs.waiting.lock().expect("no panic while locked").closed = true;
        self.jobs.changed.notify_all();
        for thread in self.threads.take().into_iter().flatten() {
            let _ = thread.join();
        }
    }
}

impl Jobs {
    /// Performs reads until the pool closes.
    fn serve(&self) {
        loop {
            let waiting = self.waiting.lock().expect("no panic while locked");
            let idle = |w: &mut Waiting| w.jobs.is_empty() && !w.closed;
            let mut waiting =
                self.changed.wait_while(waiting, idle).expect("no panic while locked");
            let Some(job) = waiting.jobs.pop_front() else { return };
            drop(waiting);
            job.run();
        }
    }
}
