//! Scripts that take long: who runs, and what ends them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Milliseconds after which a script is one that others need not wait for, at first; Redis's
/// `busy-reply-threshold`.
const BUSY_MS: u64 = 5000;

/// A script that runs on a thread for long requests.
#[derive(Debug)]
pub(crate) struct Running {
    /// Its name, or its function's.
    pub(crate) name: String,
    pub(crate) is_function: bool,
    /// The request, shortened.
    pub(crate) command: Vec<Vec<u8>>,
    /// When it began, in milliseconds of the monotonic clock.
    pub(crate) began_ms: u64,
    has_written: AtomicBool,
    is_killed: AtomicBool,
}

impl Running {
    pub(crate) fn new(
        name: String,
        is_function: bool,
        command: Vec<Vec<u8>>,
        began_ms: u64,
    ) -> Arc<Self> {
        let (has_written, is_killed) = Default::default();
        Arc::new(Running { name, is_function, command, began_ms, has_written, is_killed })
    }

    /// It has called a command that wrote.
    pub(crate) fn note_write(&self) {
        self.has_written.store(true, Relaxed);
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Relaxed)
    }
}

/// What became of a request to end scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    Done,
    /// None runs.
    None,
    /// One runs that has written.
    Written,
    /// A script runs where a function was meant, or a function where a script was.
    Other,
}

/// All scripts that take long.
#[derive(Debug)]
pub(crate) struct Runnings {
    list: Mutex<Vec<Arc<Running>>>,
    busy_ms: AtomicU64,
    is_stopping: AtomicBool,
}

impl Default for Runnings {
    fn default() -> Self {
        let busy_ms = AtomicU64::new(BUSY_MS);
        Runnings { list: Mutex::default(), busy_ms, is_stopping: AtomicBool::new(false) }
    }
}

impl Runnings {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Running>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds after which a script is busy; 0 for never.
    pub(crate) fn busy_ms(&self) -> u64 {
        self.busy_ms.load(Relaxed)
    }

    pub(crate) fn set_busy_ms(&self, ms: u64) {
        self.busy_ms.store(ms, Relaxed);
    }

    pub(crate) fn begin(&self, running: &Arc<Running>) {
        self.lock().push(Arc::clone(running));
    }

    pub(crate) fn end(&self, running: &Arc<Running>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, running));
    }

    /// The script that has run longest.
    pub(crate) fn oldest(&self) -> Option<Arc<Running>> {
        self.lock().iter().min_by_key(|running| running.began_ms).cloned()
    }

    /// True if a script has run for so long that others are told.
    pub(crate) fn is_busy(&self, now_ms: u64) -> bool {
        let busy_ms = self.busy_ms();
        let is_busy = |running: &Arc<Running>| now_ms.saturating_sub(running.began_ms) > busy_ms;
        busy_ms > 0 && self.lock().iter().any(is_busy)
    }

    /// Ends all scripts, or all functions, that have written nothing.
    pub(crate) fn kill(&self, functions: bool) -> Kill {
        let list = self.lock();
        if list.is_empty() {
            return Kill::None;
        }
        let mut of_kind = list.iter().filter(|running| running.is_function == functions).peekable();
        if of_kind.peek().is_none() {
            return Kill::Other;
        }
        let mut killed = Kill::Written;
        for running in of_kind.filter(|running| !running.has_written.load(Relaxed)) {
            running.is_killed.store(true, Relaxed);
            killed = Kill::Done;
        }
        killed
    }

    /// Ends every script, because the server ends. What they wrote is not applied.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_have_written_are_not_killed() {
        let all = Runnings::default();
        assert_eq!(all.kill(false), Kill::None);
        let of = |is_function, began| Running::new("s".into(), is_function, Vec::new(), began);
        let (writer, function) = (of(false, 10), of(true, 5));
        all.begin(&writer);
        writer.note_write();
        assert_eq!((all.kill(false), all.kill(true)), (Kill::Written, Kill::Other));
        let reader = of(false, 20);
        all.begin(&reader);
        all.begin(&function);
        assert_eq!(all.oldest().unwrap().began_ms, 5);
        assert_eq!(all.kill(false), Kill::Done);
        assert!(reader.is_killed() && !writer.is_killed() && !function.is_killed());
        assert!(!all.is_busy(5005) && all.is_busy(5006));
        all.end(&function);
        assert!(!all.is_busy(5006));
    }
}
