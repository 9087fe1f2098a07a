//! Reads and writes through pread and pwrite, on a small pool of threads.
//!
//! The calling thread takes part while it waits; the pool's threads come to help. A buffer goes to
//! the thread that performs its read or write and comes back with the result, so a queue that is
//! dropped has nothing to wait for.

use super::plain::PlainFile;
use super::reads::{Flight, Flights};
use super::{read_full, write_all};
use silica_base::AlignedBuf;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;

/// Threads that help with the reads of queues. They wait for the device, not for a processor.
pub(super) const READ_THREADS: usize = 15;
/// Threads for what goes on by itself: one for each job of the background, and one more.
pub(super) const TRANSFER_THREADS: usize = 4;

/// Bytes of a file that one thread reads for the page cache, and at once.
const TOUCH_JOB_BYTES: u64 = 2 << 20;
const TOUCH_BYTES: usize = 256 << 10;

/// The pool; its threads start with the first job.
pub(super) struct Pool {
    size: usize,
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

/// What is to be done with a buffer.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Read,
    Write,
    /// A write, and then a sync of the file.
    WriteAndSync,
    /// The file is let go, which frees its blocks where nobody else has it and its name is gone.
    Close,
    /// So many bytes are read without one: they are wanted in the page cache.
    Touch(u64),
}

impl Kind {
    /// For messages: "cannot ...".
    pub(super) fn verb(self) -> &'static str {
        match self {
            Kind::Read | Kind::Touch(_) => "read",
            Kind::Write => "write",
            Kind::WriteAndSync => "write and sync",
            Kind::Close => "close",
        }
    }
}

/// A read or a write for any thread.
struct Job {
    kind: Kind,
    slot: usize,
    file: Arc<File>,
    granule: usize,
    offset: u64,
    buf: AlignedBuf,
    done: Arc<Done>,
}

/// Jobs of one queue that ended: slot, buffer, result.
#[derive(Default)]
struct Done {
    ended: Mutex<VecDeque<Ended>>,
    changed: Condvar,
}

type Ended = (usize, AlignedBuf, io::Result<usize>);

impl Job {
    fn run(mut self) {
        let result = match self.kind {
            Kind::Read => read_full(&self.file, self.offset, &mut self.buf, self.granule),
            Kind::Write => write_all(&self.file, self.offset, &self.buf).map(|()| self.buf.len()),
            Kind::WriteAndSync => {
                let written = write_all(&self.file, self.offset, &self.buf);
                written.and_then(|()| self.file.sync_data()).map(|()| self.buf.len())
            }
            Kind::Touch(bytes) => touch(&self.file, self.offset, bytes).map(|()| 0),
            Kind::Close => Ok(0),
        };
        drop(self.file);
        let mut ended = self.done.ended.lock().expect("no panic while locked");
        ended.push_back((self.slot, self.buf, result));
        drop(ended);
        self.done.changed.notify_one();
    }
}

/// Reads so many bytes from `offset` on, as far as there are any.
fn touch(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (mut buf, mut at) = (vec![0; TOUCH_BYTES], 0);
    while at < bytes {
        let some = file.read_at(&mut buf, offset + at)? as u64;
        if some == 0 {
            break;
        }
        at += some;
    }
    Ok(())
}

/// One queue's side of the pool.
pub(super) struct Helped<'d> {
    pool: &'d Pool,
    done: Arc<Done>,
}

impl<'d> Helped<'d> {
    pub(super) fn new(pool: &'d Pool) -> Self {
        Helped { pool, done: Arc::default() }
    }

    /// Hands a read on.
    pub(super) fn start<T: AsRef<PlainFile>>(&mut self, slot: usize, flight: &mut Flight<T>) {
        let buf = flight.buf.take().expect("a read is started once");
        let (file, done) = (flight.of.as_ref(), self.done.clone());
        self.pool.push(
            Kind::Read,
            (file.file.clone(), file.granule()),
            (flight.offset, buf),
            (slot, done),
        );
    }

    /// Waits for one of this queue's reads to end, and performs what waits meanwhile.
    pub(super) fn next<T>(&mut self, flights: &mut Flights<T>) -> (usize, io::Result<usize>) {
        loop {
            let ended = self.done.ended.lock().expect("no panic while locked").pop_front();
            if let Some(ended) = ended {
                return give_back(flights, ended);
            }
            if let Some(job) = self.pool.take(|_| true) {
                job.run();
                continue;
            }
            // All of this queue's reads are with threads.
            return give_back(flights, self.done.wait());
        }
    }
}

/// One read or write that a thread of the pool may take.
pub(super) struct Single(Arc<Done>);

impl Single {
    /// Hands it on.
    pub(super) fn start(
        pool: &Pool,
        kind: Kind,
        file: &PlainFile,
        offset: u64,
        buf: AlignedBuf,
    ) -> Single {
        let done = Arc::<Done>::default();
        pool.push(kind, (file.file.clone(), file.granule()), (offset, buf), (0, done.clone()));
        Single(done)
    }

    /// True where it has ended.
    pub(super) fn is_done(&self) -> bool {
        !self.0.ended.lock().expect("no panic while locked").is_empty()
    }

    /// Waits for its end. Where no thread has it yet, this one performs it.
    pub(super) fn wait(&self, pool: &Pool) -> (AlignedBuf, io::Result<usize>) {
        if let Some(own) = pool.take(|job| Arc::ptr_eq(&job.done, &self.0)) {
            own.run();
        }
        let (_, buf, result) = self.0.wait();
        (buf, result)
    }
}

impl Done {
    /// Waits for the next to end.
    fn wait(&self) -> Ended {
        let ended = self.ended.lock().expect("no panic while locked");
        let ended = self.changed.wait_while(ended, |ended| ended.is_empty());
        ended.expect("no panic while locked").pop_front().expect("it was waited for")
    }
}

fn give_back<T>(flights: &mut Flights<T>, ended: Ended) -> (usize, io::Result<usize>) {
    let (slot, buf, result) = ended;
    flights.get(slot).buf = Some(buf);
    (slot, result)
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        Pool { size, jobs: Arc::default(), threads: OnceLock::new() }
    }

    /// Starts the threads where that was not done yet.
    fn start(&self) {
        self.threads.get_or_init(|| {
            let spawn = |_| {
                let jobs = self.jobs.clone();
                let builder = std::thread::Builder::new().name("silica-io".into());
                builder.spawn(move || jobs.serve()).ok()
            };
            // A thread that cannot be had makes bursts slower, not wrong.
            (0..self.size).filter_map(spawn).collect()
        });
    }

    fn push(
        &self,
        kind: Kind,
        (file, granule): (Arc<File>, usize),
        (offset, buf): (u64, AlignedBuf),
        (slot, done): (usize, Arc<Done>),
    ) {
        self.start();
        let job = Job { kind, slot, file, granule, offset, buf, done };
        self.jobs.waiting.lock().expect("no panic while locked").jobs.push_back(job);
        self.jobs.changed.notify_one();
    }

    /// Has the first `bytes` of a file come into the page cache meanwhile.
    pub(super) fn touch(&self, file: &Arc<File>, bytes: u64) {
        for offset in (0..bytes).step_by(TOUCH_JOB_BYTES as usize) {
            let kind = Kind::Touch(TOUCH_JOB_BYTES.min(bytes - offset));
            let file = (file.clone(), 1);
            self.push(kind, file, (offset, AlignedBuf::zeroed(0)), (0, Arc::default()));
        }
    }

    /// Has one of the threads, where there are some, be the last to have `file`.
    pub(super) fn close(&self, file: Arc<File>) {
        if self.threads.get().is_some() {
            self.push(Kind::Close, (file, 1), (0, AlignedBuf::zeroed(0)), (0, Arc::default()));
        }
    }

    /// The first waiting job that is wanted.
    fn take(&self, is_wanted: impl Fn(&Job) -> bool) -> Option<Job> {
        let mut waiting = self.jobs.waiting.lock().expect("no panic while locked");
        let at = waiting.jobs.iter().position(is_wanted)?;
        waiting.jobs.remove(at)
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
    /// Performs jobs until the pool closes.
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
