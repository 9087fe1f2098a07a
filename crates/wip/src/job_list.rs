//! What is being done in the background, and by how much it is behind: what the threads share that
//! do it.

use crate::bucket::{Bucket, Frozen};
use crate::job::{Claim, Job};
use silica_device::Device;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Bytes of writes between two looks at the backlog; and where writers help, so that each time is
/// short.
pub(crate) const ASSIST_EVERY_BYTES: u64 = 64 << 10;
const HELPING_EVERY_BYTES: u64 = 16 << 10;
/// The longest wait of a writer for a job that others have in hand.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(5);

/// What is being done.
pub(crate) struct List<D: Device> {
    pub(crate) paused: Vec<Job<D>>,
    /// Memtables that a paused or running job flushes, and their bytes.
    pub(crate) flushing: Vec<Arc<Frozen>>,
    /// Buckets on whose runs a job is at work.
    pub(crate) busy: Vec<Arc<Bucket<D>>>,
    /// How far compaction is behind, as it was when somebody last looked at all buckets, and how
    /// often that is still good for an answer: only ends of jobs change it much.
    pub(crate) compaction: f64,
    pub(crate) answers_left: u32,
    /// Threads that wait for what others have in hand.
    pub(crate) waiting: usize,
}

/// The jobs of a store.
pub(crate) struct Jobs<D: Device> {
    pub(crate) list: Mutex<List<D>>,
    /// Signalled when a job ends, or is put back while somebody waits for one.
    pub(crate) ended: Condvar,
    /// Threads that are in `maintain`, and the log's end when one last was.
    pub(crate) inside: AtomicU64,
    pub(crate) attended_at: AtomicU64,
    /// The log's end when it was last said that nothing else is likely to be done soon: that holds
    /// until somebody writes.
    pub(crate) quiet_at: AtomicU64,
    /// The last background work failed.
    pub(crate) stuck: AtomicBool,
    /// Writers helped when they last looked, and there was much to do.
    pub(crate) helped: AtomicBool,
    /// How far behind all was when somebody last looked.
    pub(crate) seen: Mutex<Pressure>,
}

/// How far the kinds of work are behind; 1 is where each begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pressure {
    pub(crate) flush: f64,
    pub(crate) log: f64,
    pub(crate) compaction: f64,
}

impl Pressure {
    pub(crate) fn most(&self) -> f64 {
        self.flush.max(self.log).max(self.compaction)
    }
}

impl<D: Device> Jobs<D> {
    pub(crate) fn new() -> Self {
        let (paused, flushing, busy) = Default::default();
        let list = List { paused, flushing, busy, compaction: 0.0, answers_left: 0, waiting: 0 };
        Jobs {
            list: Mutex::new(list),
            ended: Condvar::new(),
            inside: AtomicU64::new(0),
            attended_at: AtomicU64::new(0),
            quiet_at: AtomicU64::new(u64::MAX),
            stuck: AtomicBool::new(false),
            helped: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    /// Bytes of writes after which a writer looks at the backlog.
    #[inline]
    pub(crate) fn assist_every(&self) -> u64 {
        let helped = self.helped.load(Ordering::Relaxed);
        if helped { HELPING_EVERY_BYTES } else { ASSIST_EVERY_BYTES }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, List<D>> {
        self.list.lock().expect("no panic while held")
    }

    /// Puts a job back, for anybody to go on with.
    pub(crate) fn put_back(&self, job: Job<D>) {
        let mut list = self.lock();
        list.paused.push(job);
        if list.waiting > 0 {
            self.ended.notify_all();
        }
    }

    /// Where others have jobs in hand: waits a while for one that ends or is put back.
    pub(crate) fn wait_for_others(&self) -> bool {
        let mut list = self.lock();
        let others_work = !list.flushing.is_empty() || !list.busy.is_empty();
        if others_work {
            list.waiting += 1;
            let woken = self.ended.wait_timeout(list, WAIT_MAX).expect("no panic while held");
            list = woken.0;
            list.waiting -= 1;
        }
        others_work
    }
}

impl<D: Device> List<D> {
    pub(crate) fn is_busy(&self, bucket: &Arc<Bucket<D>>) -> bool {
        self.busy.iter().any(|other| Arc::ptr_eq(other, bucket))
    }

    pub(crate) fn is_flushing(&self, frozen: &Arc<Frozen>) -> bool {
        self.flushing.iter().any(|other| Arc::ptr_eq(other, frozen))
    }

    /// Lets go what a job had to itself.
    pub(crate) fn forget(&mut self, claim: &Claim<D>) {
        self.flushing.retain(|frozen| !claim.frozen.iter().any(|own| Arc::ptr_eq(own, frozen)));
        self.busy.retain(|bucket| !claim.buckets.iter().any(|own| Arc::ptr_eq(own, bucket)));
        self.answers_left = 0;
    }
}
