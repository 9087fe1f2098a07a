//! Objects that no durable word names any more, while readers may still look at them.
//!
//! They wait in batches until no thread is pinned any more that was pinned when the batch was
//! sealed. Closures of the epochs only mark a batch as ready: whoever writes next frees what it
//! holds. So nothing of the store outlives it.

use crossbeam_epoch::{self as epoch};
use silica_device::region::Region;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::space::Space;

/// Objects of a batch.
const BATCH_OBJECTS: usize = 64;
/// A batch of so many bytes is sealed at once.
const BATCH_BYTES: u64 = 256 << 10;
/// Turns in which a quiet store's epochs are moved on.
const TURNS: usize = 4;

struct Batch {
    offsets: Vec<u64>,
    ready: Arc<AtomicBool>,
}

#[derive(Default)]
struct Waiting {
    open: Vec<u64>,
    open_bytes: u64,
    sealed: VecDeque<Batch>,
}

/// Objects that wait to be freed.
#[derive(Default)]
pub(super) struct Limbo(Mutex<Waiting>);

impl Limbo {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing here is ever half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects of so many bytes, which no word names, are freed once no reader can see them.
    pub(super) fn retire<R: Region>(&self, space: &Space<R>, offsets: &[u64], bytes: u64) {
        if offsets.is_empty() {
            return;
        }
        let mut waiting = self.waiting();
        waiting.open.extend_from_slice(offsets);
        waiting.open_bytes += bytes;
        if waiting.open.len() >= BATCH_OBJECTS || waiting.open_bytes >= BATCH_BYTES {
            seal(&mut waiting);
            free_ready(&mut waiting, space);
        }
    }

    /// Frees what can be freed now; false if something still waits.
    pub(super) fn collect<R: Region>(&self, space: &Space<R>) -> bool {
        if self.is_empty() {
            return true;
        }
        seal(&mut self.waiting());
        for _ in 0..TURNS {
            epoch::pin().flush();
            let mut waiting = self.waiting();
            free_ready(&mut waiting, space);
            if waiting.sealed.is_empty() && waiting.open.is_empty() {
                return true;
            }
        }
        false
    }

    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        let waiting = self.waiting();
        waiting.open.is_empty() && waiting.sealed.is_empty()
    }

    /// Frees everything: nobody reads any more.
    pub(super) fn drain<R: Region>(&self, space: &Space<R>) {
        let waiting = std::mem::take(&mut *self.waiting());
        let sealed = waiting.sealed.into_iter().flat_map(|batch| batch.offsets);
        waiting.open.into_iter().chain(sealed).for_each(|offset| space.free(offset));
    }
}

fn seal(waiting: &mut Waiting) {
    if waiting.open.is_empty() {
        return;
    }
    let ready = Arc::new(AtomicBool::new(false));
    let batch = Batch { offsets: std::mem::take(&mut waiting.open), ready: Arc::clone(&ready) };
    waiting.open_bytes = 0;
    waiting.sealed.push_back(batch);
    let pinned = epoch::pin();
    pinned.defer(move || ready.store(true, Ordering::Release));
    // Otherwise the thread would keep dozens of batches to itself.
    pinned.flush();
}

fn free_ready<R: Region>(waiting: &mut Waiting, space: &Space<R>) {
    while waiting.sealed.front().is_some_and(|batch| batch.ready.load(Ordering::Acquire)) {
        let batch = waiting.sealed.pop_front().expect("looked at just now");
        batch.offsets.into_iter().for_each(|offset| space.free(offset));
    }
}
