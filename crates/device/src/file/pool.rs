//! Bursts of reads through pread, on a small pool of threads.
//!
//! The calling thread takes part in its burst; the pool's threads come to help. Invariant: a
//! helper touches a read only after it took the read's index, every index is taken once, and
//! [`Pool::read_many`] returns after all reads were finished. So a helper that comes late finds
//! no index and touches nothing.

use super::plain::PlainFile;
use super::{ReadBurst, failed, read_full};
use crate::Read;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;

/// Threads that help with bursts. They wait for the device, not for a processor.
const THREADS: usize = 15;

/// The pool; its threads start with the first burst.
#[derive(Default)]
pub(super) struct Pool {
    queue: Arc<Queue>,
    threads: OnceLock<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// One entry per helper that a burst asked for.
    bursts: VecDeque<Arc<Burst>>,
    closed: bool,
}

/// Reads under way.
struct Burst {
    reads: *mut Read<'static, PlainFile>,
    count: usize,
    next: AtomicUsize,
    unfinished: Mutex<usize>,
    finished: Condvar,
}

// SAFETY: `reads` is only dereferenced at indexes taken from `next`, each by one thread, while
// `Pool::read_many` keeps the reads borrowed (module invariant); a read is `Send`.
unsafe impl Send for Burst {}
// SAFETY: as above; all other fields are synchronised.
unsafe impl Sync for Burst {}

impl Pool {
    /// Performs all `reads`.
    pub(super) fn read_many(&self, reads: &mut ReadBurst<'_>) {
        let count = reads.len();
        if count < 2 {
            reads.iter_mut().for_each(read_one);
            return;
        }
        let burst = Arc::new(Burst {
            reads: reads.as_mut_ptr().cast(),
            count,
            next: AtomicUsize::new(0),
            unfinished: Mutex::new(count),
            finished: Condvar::new(),
        });
        let helpers = self.start().min(count - 1);
        let mut waiting = self.queue.waiting.lock().expect("no panic while locked");
        waiting.bursts.extend(std::iter::repeat_n(burst.clone(), helpers));
        drop(waiting);
        if helpers > 1 {
            self.queue.changed.notify_all();
        } else {
            self.queue.changed.notify_one();
        }
        burst.help();
        let unfinished = burst.unfinished.lock().expect("no panic while locked");
        let done = burst.finished.wait_while(unfinished, |left| *left > 0);
        drop(done.expect("no panic while locked"));
    }

    /// Starts the threads where that was not done yet; how many there are.
    fn start(&self) -> usize {
        let threads = self.threads.get_or_init(|| {
            let spawn = |_| {
                let queue = self.queue.clone();
                let builder = std::thread::Builder::new().name("silica-read".into());
                builder.spawn(move || queue.serve()).ok()
            };
            // A thread that cannot be had makes bursts slower, not wrong.
            (0..THREADS).filter_map(spawn).collect()
        });
        threads.len()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.waiting.lock().expect("no panic while locked").closed = true;
        self.queue.changed.notify_all();
        for thread in self.threads.take().into_iter().flatten() {
            let _ = thread.join();
        }
    }
}

impl Queue {
    /// Helps with bursts until the pool closes.
    fn serve(&self) {
        loop {
            let waiting = self.waiting.lock().expect("no panic while locked");
            let idle = |w: &mut Waiting| w.bursts.is_empty() && !w.closed;
            let mut waiting =
                self.changed.wait_while(waiting, idle).expect("no panic while locked");
            let Some(burst) = waiting.bursts.pop_front() else { return };
            drop(waiting);
            burst.help();
        }
    }
}

impl Burst {
    /// Performs reads of the burst until all are taken.
    fn help(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return;
            }
            let _finish = Finish(self);
            // SAFETY: `index` is below the length of the reads and was given to this thread
            // alone; the reads stay borrowed until `_finish` counted this one as finished.
            read_one(unsafe { &mut *self.reads.add(index) });
        }
    }
}

/// Counts a read as finished, come what may. The mutex makes its result visible.
struct Finish<'b>(&'b Burst);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let mut unfinished = self.0.unfinished.lock().expect("no panic while locked");
        *unfinished -= 1;
        if *unfinished == 0 {
            self.0.finished.notify_all();
        }
    }
}

/// Performs one read in this thread.
pub(super) fn read_one(read: &mut Read<'_, PlainFile>) {
    let file = read.file;
    let result = read_full(&file.file, read.offset, read.buf, file.granule());
    read.result = result.map_err(|e| failed("read", &file.path, e));
}
