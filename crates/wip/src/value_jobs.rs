//! What the threads share that reclaim the value log.

use silica_parts::value_log::Reclaim;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

/// What is being reclaimed.
pub(crate) struct ValueJob<F> {
    pub(crate) reclaim: Option<Reclaim<F>>,
    /// Segments whose values are elsewhere, and where the log ended then.
    pub(crate) emptied: Vec<(u32, u64)>,
}

/// The upkeep of the value log.
pub(crate) struct ValueJobs<F> {
    pub(crate) job: Mutex<ValueJob<F>>,
    /// Bytes of values since a writer last looked at the garbage.
    pub(crate) debt_bytes: AtomicU64,
}

impl<F> ValueJobs<F> {
    pub(crate) fn new() -> Self {
        let job = ValueJob { reclaim: None, emptied: Vec::new() };
        ValueJobs { job: Mutex::new(job), debt_bytes: AtomicU64::new(0) }
    }

    /// While this is held, no segment is reclaimed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ValueJob<F>> {
        self.job.lock().expect("no panic while held")
    }
}
