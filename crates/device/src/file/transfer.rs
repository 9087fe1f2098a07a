//! Reads and writes that go on by themselves: a few threads perform them.

use super::directory::Shared;
use super::failed;
use super::plain::PlainFile;
use super::pool::{Kind, Single};
use crate::Transfer;
use silica_base::{AlignedBuf, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// A read or write of a [`PlainFile`] that goes on by itself.
pub struct FileTransfer {
    kind: Kind,
    path: PathBuf,
    shared: Arc<Shared>,
    /// `None` once it was waited for.
    under_way: Option<Single>,
}

impl FileTransfer {
    pub(super) fn begin(kind: Kind, file: &PlainFile, offset: u64, buf: AlignedBuf) -> Self {
        file.check_alignment(offset, &buf);
        let (path, shared) = (file.path.clone(), file.shared.clone());
        let single = Single::start(&shared.transfers, kind, file, offset, buf);
        FileTransfer { kind, path, shared, under_way: Some(single) }
    }
}

impl Transfer for FileTransfer {
    fn is_done(&self) -> bool {
        self.under_way.as_ref().is_none_or(Single::is_done)
    }

    fn wait(mut self) -> (AlignedBuf, Result<usize>) {
        let single = self.under_way.take().expect("it is waited for once");
        let (buf, result) = single.wait(&self.shared.transfers);
        let (what, counters) = (self.kind.verb(), &self.shared.counters);
        match (self.kind, &result) {
            (Kind::Read, Ok(bytes)) => counters.add_read(*bytes as u64),
            (Kind::Write, Ok(bytes)) => counters.add_write(*bytes as u64),
            (Kind::Touch(_), _) | (_, Err(_)) => {}
        }
        let result = result.map_err(|e| failed(what, &self.path, e));
        (buf, result)
    }
}

impl Drop for FileTransfer {
    fn drop(&mut self) {
        if let Some(single) = self.under_way.take() {
            // Nobody asks what became of it.
            drop(single.wait(&self.shared.transfers));
        }
    }
}
