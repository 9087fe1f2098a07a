//! Simulated positional files.

use super::node::{Content, Node, SECTOR_BYTES};
use super::world::{Call, FaultKind, Handle, State};
use crate::{DeviceFile, Lifetime, Mode, Transfer};
use silica_base::{AlignedBuf, BLOCK_BYTES, Error, ErrorKind, Result};
use std::sync::Arc;

/// What is in the buffer of a read that failed.
const UNDEFINED: u8 = 0xD1;

/// A file of a [`super::SimDevice`].
#[derive(Clone)]
pub struct SimFile {
    handle: Handle,
    node: Arc<Node>,
    mode: Mode,
    lifetime: Option<Lifetime>,
}

impl SimFile {
    pub(super) fn new(handle: Handle, node: Arc<Node>, mode: Mode) -> Self {
        SimFile { handle, node, mode, lifetime: None }
    }

    pub(super) fn check_alignment(&self, offset: u64, bytes: &[u8]) {
        let block = BLOCK_BYTES as u64;
        let aligned = offset.is_multiple_of(block)
            && bytes.len().is_multiple_of(BLOCK_BYTES)
            && (bytes.as_ptr() as usize).is_multiple_of(BLOCK_BYTES);
        assert!(
            self.mode == Mode::Buffered || aligned,
            "direct I/O needs multiples of {block}: offset {offset}, length {}, address {:p}",
            bytes.len(),
            bytes.as_ptr()
        );
    }

    /// Changes the file through `change`, after making sure that no log appender is alive.
    fn change(
        &self,
        state: &mut State,
        grown: u64,
        change: impl FnOnce(&mut super::node::Plain),
    ) -> Result<()> {
        let mut body = self.node.body.lock().expect("no panic while locked");
        if let Content::Log(log) = &body.content
            && log.memory.has_writer()
            && log.generation == self.handle.generation
        {
            let message = "a log that is being appended to accepts no positional writes";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        state.charge(&mut body, grown)?;
        change(body.plain());
        Ok(())
    }
}

impl SimFile {
    /// What a file system may leave of a write that ran out of space: a first part of it.
    fn fill_up(&self, state: &mut State, offset: u64, bytes: &[u8], kind: ErrorKind) {
        if kind == ErrorKind::Full && state.rng.one_in(2) {
            let charge = self.node.body.lock().expect("no panic while locked").charge;
            let room = (charge + state.free()).saturating_sub(offset);
            let fits = room / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            let part = &bytes[..bytes.len().min(fits as usize)];
            if !part.is_empty() {
                let end = offset + part.len() as u64;
                let _ = self.change(state, end, |p| p.write(offset, part));
            }
        }
    }
}

/// What a transfer does.
#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    WriteAndSync,
}

/// A read or write of a [`SimFile`] that goes on by itself: the seed says whether it happens when
/// it begins or when it is waited for.
pub struct SimTransfer {
    file: SimFile,
    kind: Kind,
    offset: u64,
    buf: AlignedBuf,
    ended: Option<Result<usize>>,
    is_over: bool,
}

impl SimTransfer {
    fn begin(file: &SimFile, kind: Kind, offset: u64, buf: AlignedBuf) -> Self {
        file.check_alignment(offset, &buf);
        let file = file.clone();
        let is_early = file.handle.state().reads_rng.one_in(2);
        let mut transfer = SimTransfer { file, kind, offset, buf, ended: None, is_over: false };
        if is_early {
            transfer.perform();
        }
        transfer
    }

    fn perform(&mut self) {
        if self.ended.is_none() && !self.is_over {
            let len = self.buf.len();
            let written = || self.file.write_at(self.offset, &self.buf);
            self.ended = Some(match self.kind {
                Kind::Write => written().map(|()| len),
                Kind::WriteAndSync => written().and_then(|()| self.file.sync()).map(|()| len),
                Kind::Read => self.file.read_at(self.offset, &mut self.buf),
            });
        }
    }
}

impl Transfer for SimTransfer {
    fn is_done(&self) -> bool {
        self.ended.is_some()
    }

    fn wait(mut self) -> (AlignedBuf, Result<usize>) {
        self.perform();
        self.is_over = true;
        let buf = std::mem::replace(&mut self.buf, AlignedBuf::zeroed(0));
        (buf, self.ended.take().expect("it was performed"))
    }
}

impl Drop for SimTransfer {
    fn drop(&mut self) {
        self.perform();
    }
}

impl DeviceFile for SimFile {
    type Transfer = SimTransfer;

    fn with_lifetime(self, lifetime: Lifetime) -> Self {
        let taken = self.handle.state().takes_lifetimes.then_some(lifetime);
        self.node.body.lock().expect("no panic while locked").lifetime = taken;
        SimFile { lifetime: taken, ..self }
    }

    fn begin_read(&self, offset: u64, buf: AlignedBuf) -> SimTransfer {
        SimTransfer::begin(self, Kind::Read, offset, buf)
    }

    fn begin_write(&self, offset: u64, buf: AlignedBuf) -> SimTransfer {
        SimTransfer::begin(self, Kind::Write, offset, buf)
    }

    fn begin_write_and_sync(&self, offset: u64, buf: AlignedBuf) -> SimTransfer {
        SimTransfer::begin(self, Kind::WriteAndSync, offset, buf)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.check_alignment(offset, buf);
        let mut state = self.handle.enter()?;
        // What a real device leaves in the buffer then is anything.
        state.refuse(Call::Read).inspect_err(|_| buf.fill(UNDEFINED))?;
        let read = self.node.body.lock().expect("no panic while locked").read(offset, buf);
        self.handle.counters.add_read(read as u64);
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_alignment(offset, bytes);
        self.handle.mutate(Call::Write, |state| {
            let end = offset + bytes.len() as u64;
            match state.fault(Call::Write) {
                Some(FaultKind::ShortWrite) => {
                    let written = state.rng.below(bytes.len() as u64 + 1);
                    let written = written - written % SECTOR_BYTES;
                    let part = &bytes[..written as usize];
                    if !part.is_empty() {
                        self.change(state, offset + written, |p| p.write(offset, part))?;
                    }
                    let message = format!("wrote {written} of {} bytes at {offset}", bytes.len());
                    return Err(Error::new(ErrorKind::Io, message));
                }
                Some(kind) => return Err(kind.error(Call::Write)),
                None => {}
            }
            if !bytes.is_empty() {
                let written = self.change(state, end, |p| p.write(offset, bytes));
                written.inspect_err(|e| self.fill_up(state, offset, bytes, e.kind()))?;
            }
            self.handle.counters.add_write(bytes.len() as u64, self.lifetime);
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        self.handle.sync_node(&self.node)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.handle.mutate(Call::Allocate, |state| {
            state.refuse(Call::Allocate)?;
            let mut body = self.node.body.lock().expect("no panic while locked");
            state.charge(&mut body, len)
        })
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.handle.mutate(Call::Truncate, |state| {
            state.refuse(Call::Truncate)?;
            self.change(state, len, |p| p.truncate(len))?;
            let mut body = self.node.body.lock().expect("no panic while locked");
            state.release_above(&mut body, len);
            Ok(())
        })
    }

    fn len(&self) -> Result<u64> {
        let _state = self.handle.enter()?;
        Ok(self.node.body.lock().expect("no panic while locked").len())
    }
}
