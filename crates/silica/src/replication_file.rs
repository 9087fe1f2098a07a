//! The file by which a server that was stopped in order goes on in its stream of replication:
//! what it says is the server's, and described in `docs/formats/replication-file.md`.
//!
//! Invariants:
//!
//! 1. The file is written after everything that it speaks of is durable, and as a whole.
//! 2. Whoever opens the store to write gives the file another name first, durably, and may read it
//!    under that until the store is opened again. So if it is there, nothing was written since.

use crate::Silica;
use log::warn;
use silica_device::{Device, DeviceFile, FileDevice, Mode};
use silica_engine::{Error, ErrorKind, Result};

/// Its name in a store's directory.
const FILE: &str = "REPLICATION";
/// What it is written under before it is renamed.
const FILE_NEW: &str = "REPLICATION.new";
/// Its name while the store is open that it was left in.
const FILE_TAKEN: &str = "REPLICATION.taken";

/// Before a store is written to: lets the file be one of this opening, and of no later one. Does
/// nothing to a store that is only read.
pub(crate) fn set_aside(device: &FileDevice) -> Result<()> {
    if device.is_read_only() {
        return Ok(());
    }
    let names = device.list()?;
    let is_there = |name: &str| names.iter().any(|other| other == name);
    for old in [FILE_NEW, FILE_TAKEN].into_iter().filter(|name| is_there(name)) {
        device.remove(old)?;
    }
    if !is_there(FILE) {
        return Ok(());
    }
    device.rename(FILE, FILE_TAKEN)?;
    device.sync_dir()
}

/// What the file says that was left in the store, which is there no more.
fn take(device: &FileDevice) -> Result<Option<Vec<u8>>> {
    if device.is_read_only() || !device.list()?.iter().any(|name| name == FILE_TAKEN) {
        return Ok(None);
    }
    let read = read(device);
    device.remove(FILE_TAKEN)?;
    read.map(Some)
}

fn read(device: &FileDevice) -> Result<Vec<u8>> {
    let file = device.open(FILE_TAKEN, Mode::Buffered)?;
    let mut bytes = vec![0; file.len()? as usize];
    let filled = file.read_at(0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}

fn write(device: &FileDevice, bytes: &[u8]) -> Result<()> {
    let file = device.create(FILE_NEW, Mode::Buffered)?;
    file.write_at(0, bytes).and_then(|()| file.sync())?;
    device.rename(FILE_NEW, FILE)?;
    device.sync_dir()
}

impl Silica {
    /// What a server that served this store before said of its stream of replication when it was
    /// stopped; once, and only if nobody has opened the store to write since.
    pub fn take_replication_state(&self) -> Option<Vec<u8>> {
        // It only spares replicas fetching all data.
        let taken = take(self.device());
        taken.inspect_err(|error| warn!("reading {FILE}: {error}")).ok().flatten()
    }

    /// Keeps what a server says of its stream of replication until the store is next opened. The
    /// caller has synced what it speaks of, and writes nothing to the store any more.
    ///
    /// # Errors
    /// Those of the device; then the next server finds nothing.
    pub fn leave_replication_state(&self, bytes: &[u8]) -> Result<()> {
        if self.device().is_read_only() {
            let message = "a store that is only read keeps no state of replication";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let device = self.device();
        write(device, bytes).inspect_err(|_| {
            // Only tidiness: the next opening removes it.
            let _ = device.remove(FILE_NEW);
        })
    }
}
