//! Databases that are recorded for a client, which takes the lines from time to time.

use crate::databases::Databases;
use silica::engine::{Error, ErrorKind, Result};
use silica::{RecordBuffer, RecordOptions, RecordReport};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One that nobody took lines of for so long gives way to another one.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Memory of one: what is taken at a time is a reply.
pub(crate) const BUFFER_BYTES: usize = 2 << 20;

/// The recordings of a server, one of each database at most.
#[derive(Default)]
pub(crate) struct Recordings(Mutex<BTreeMap<u32, RecordBuffer>>);

impl Recordings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, RecordBuffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one.
    pub(crate) fn start(
        &self,
        source: &dyn Databases,
        index: u32,
        options: &RecordOptions,
    ) -> Result<()> {
        let mut all = self.lock();
        if all.get(&index).is_some_and(|recording| recording.idle() >= IDLE_MAX) {
            all.remove(&index);
        }
        all.insert(index, source.record(index, options)?);
        Ok(())
    }

    /// The lines since the last time.
    pub(crate) fn read(&self, index: u32) -> Result<Vec<u8>> {
        self.lock().get(&index).ok_or_else(|| none(index))?.read()
    }

    /// Ends one; the last lines.
    pub(crate) fn stop(&self, index: u32) -> Result<(Vec<u8>, RecordReport)> {
        let recording = self.lock().remove(&index);
        recording.ok_or_else(|| none(index))?.stop()
    }
}

fn none(index: u32) -> Error {
    let message = format!("database {index} is not being recorded; SILICA.RECORD {index} START");
    Error::new(ErrorKind::NotFound, message)
}
