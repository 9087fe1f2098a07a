//! Writes under way: which threads are inside a call that writes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A thread that writes now and then.
struct Writer {
    /// Odd during a write; never the same again.
    state: AtomicU64,
    /// The database of the last write.
    database: AtomicU64,
}

/// All threads that have written anything.
static WRITERS: Mutex<Vec<Weak<Writer>>> = Mutex::new(Vec::new());

thread_local! {
    static WRITER: Arc<Writer> = register();
}

fn register() -> Arc<Writer> {
    let writer = Arc::new(Writer { state: AtomicU64::new(0), database: AtomicU64::new(0) });
    let mut writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    writers.retain(|writer| writer.strong_count() > 0);
    writers.push(Arc::downgrade(&writer));
    writer
}

/// Ends the announcement of a write, even if that panics.
struct End<'w>(&'w Writer, u64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state.store(self.1 + 2, Ordering::Release);
    }
}

/// Does `work`, which writes `database` and calls nothing that does the same.
#[inline]
pub(super) fn announce<T>(database: u64, work: impl FnOnce() -> T) -> T {
    WRITER.with(|writer| {
        let state = writer.state.load(Ordering::Relaxed);
        debug_assert!(state.is_multiple_of(2), "a write inside a write");
        writer.database.store(database, Ordering::Relaxed);
        // A barrier: whoever begins to watch sees the write, or the write sees that.
        writer.state.swap(state + 1, Ordering::SeqCst);
        let _end = End(writer, state);
        work()
    })
}

/// A write that was under way at a certain moment.
pub(super) struct Overlap {
    writer: Arc<Writer>,
    state: u64,
}

impl Overlap {
    /// True while it still is. Once it is false, the marks of the write are there.
    pub(super) fn goes_on(&self) -> bool {
        self.writer.state.load(Ordering::Acquire) == self.state
    }
}

/// The writes of `database` that are under way.
pub(super) fn under_way(database: u64) -> Vec<Overlap> {
    let writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    let writers = writers.iter().filter_map(Weak::upgrade);
    let overlap = |writer: Arc<Writer>| {
        let state = writer.state.load(Ordering::SeqCst);
        let is_here = writer.database.load(Ordering::Relaxed) == database;
        (state % 2 == 1 && is_here).then_some(Overlap { writer, state })
    };
    writers.filter_map(overlap).collect()
}
