//! A thread that syncs a replica's data to its disk when the primary asks for that. The link goes
//! on applying meanwhile.

use silica_commands::Service;
use silica_engine::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

#[derive(Debug, Default)]
struct State {
    /// Bytes of the stream that are to be on the disk.
    wanted: u64,
    /// Bytes that are.
    synced: u64,
    /// Grows with each link: offsets of another one may be of another history.
    link: u64,
    is_over: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, which ends when this is dropped.
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn start(service: Arc<Service>) -> Result<Syncer> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("silica-replica-sync".into());
        let spawned = thread.spawn(move || run(&service, &own));
        let thread =
            spawned.map_err(|e| Error::io("starting the thread that syncs a replica", e))?;
        Ok(Syncer { shared, thread: Some(thread) })
    }

    /// A new link begins, under which nothing is known to be on the disk.
    pub(crate) fn restart(&self) {
        let mut state = self.shared.state();
        (state.wanted, state.synced) = (0, 0);
        state.link += 1;
    }

    /// Asks for `offset` bytes of the stream to be on the disk.
    pub(crate) fn want(&self, offset: u64) {
        let mut state = self.shared.state();
        state.wanted = state.wanted.max(offset);
        self.shared.changed.notify_all();
    }

    /// Bytes of the stream that are on the disk for sure; 0 if none are, or nobody has asked.
    pub(crate) fn synced(&self) -> u64 {
        self.shared.state().synced
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.shared.changed.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread that syncs a replica panicked");
        }
    }
}

fn run(service: &Service, shared: &Shared) {
    loop {
        let link = {
            let waits = |state: &mut State| !state.is_over && state.wanted <= state.synced;
            let waited = shared.changed.wait_while(shared.state(), waits);
            let state = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_over {
                return;
            }
            state.link
        };
        // What was applied before is in the databases.
        let offset = service.replication.offset();
        let can_sync = service.sync_databases().unwrap_or_else(|error| {
            log::warn!("syncing the data of a replica: {error}");
            false
        });
        let mut state = shared.state();
        match can_sync {
            true if state.link == link => state.synced = state.synced.max(offset),
            true => {}
            // Nothing is said of it; whoever asks again lets it try again.
            false => state.wanted = state.synced,
        }
    }
}
