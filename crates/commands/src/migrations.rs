//! Databases that change their engine while they are served, each in a thread of its own.

use crate::databases::Databases;
use silica::engine::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The migrations of a server, one of each database at most. Dropped, it ends them so that they
/// can go on later.
#[derive(Default)]
pub(crate) struct Migrations {
    known: Arc<Mutex<BTreeMap<u32, String>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stopping: Arc<AtomicBool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Migrations {
    /// How far the last one of database `index` is.
    pub(crate) fn state(&self, index: u32) -> Option<String> {
        lock(&self.known).get(&index).cloned()
    }

    /// Begins one, unless one of the same database is under way.
    pub(crate) fn start(
        &self,
        source: Arc<dyn Databases>,
        index: u32,
        engine: String,
        options: Vec<(String, String)>,
    ) -> Result<()> {
        let mut known = lock(&self.known);
        let is_over = |state: &String| state.starts_with("done") || state.starts_with("failed");
        if known.get(&index).is_some_and(|state| !is_over(state)) {
            let message = format!("database {index} is being migrated already");
            return Err(Error::new(ErrorKind::Config, message));
        }
        known.insert(index, "begins".into());
        drop(known);
        let (known, stopping) = (Arc::clone(&self.known), Arc::clone(&self.stopping));
        let work = move || {
            let options: Vec<(&str, &str)> =
                options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let mut tell = |state: String| match stopping.load(Ordering::Relaxed) {
                true => Err(Error::new(ErrorKind::Closed, "the server stops")),
                false => {
                    lock(&known).insert(index, state);
                    Ok(())
                }
            };
            let outcome = source.migrate(index, &engine, &options, &mut tell);
            let state = outcome.unwrap_or_else(|error| format!("failed {error}"));
            log::info!("migration of database {index} to engine {engine}: {state}");
            lock(&known).insert(index, state);
        };
        let thread = std::thread::Builder::new().name(format!("silica-migrate-{index}"));
        let handle = thread.spawn(work).map_err(|e| Error::io("starting a migration", e))?;
        lock(&self.threads).push(handle);
        Ok(())
    }
}

impl Drop for Migrations {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                log::error!("a migration panicked");
            }
        }
    }
}
